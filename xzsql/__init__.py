"""SQL questions to labelled arrays: xarray opens and indexes, DuckDB plans and runs, xzsql is the layer between.

>>> import xarray as xr, xzsql
>>> ds = xr.Dataset({"t": (("y", "x"), [[1, 2], [3, 4]])})
>>> ds.sql("SELECT y, sum(t) AS total FROM self GROUP BY y ORDER BY y").fetchall()
[(0, 3), (1, 7)]
"""

from __future__ import annotations

from typing import Any

from xzsql.accessor import register as _register
from xzsql.catalog import Catalog
from xzsql.errors import XzsqlError, XzsqlWarning
from xzsql.model.to_dataset import to_dataset
from xzsql.options import options
from xzsql.result import Result

__all__ = ["Catalog", "Result", "XzsqlError", "XzsqlWarning", "open", "options", "to_dataset"]

_register()


def open(target: Any, **options: Any) -> Catalog:  # noqa: A001  # as xarray, zarr and rasterio call theirs
    """The catalog of anything: a path or URL, a Dataset, DataArray or DataTree.

    The arguments are those of `Catalog`. A catalog of a path closes what it opened when it is closed, or used in a
    `with` statement.

    Raises
    ------
    OpenError
        If the path does not exist or nothing installed can open it.
    UnsupportedError
        If the object is of no kind that xzsql knows.
    """
    catalog = Catalog(target, **options)
    catalog._state()
    return catalog
