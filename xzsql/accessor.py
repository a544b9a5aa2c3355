"""`.sql` on xarray objects."""

from __future__ import annotations

import xarray as xr

from xzsql.catalog import Catalog


class SqlAccessor(Catalog):
    """The catalog of the object: `ds.sql("SELECT ...")`, `ds.sql.tables()`, `ds.sql.mount(con, "name")`."""


def register() -> None:
    """Put `.sql` on Dataset, DataArray and DataTree. Importing xzsql does this."""
    for decorator in (xr.register_dataset_accessor, xr.register_dataarray_accessor, xr.register_datatree_accessor):
        decorator("sql")(SqlAccessor)  # type: ignore[no-untyped-call]  # xarray has no annotations there
