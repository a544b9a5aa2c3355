"""A `TableSource` as the object that DuckDB scans."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.dataset as pads

from xzsql.engine.dataset import SourceDataset
from xzsql.engine.private import ArrowScanSource, nodes
from xzsql.engine.stream import guarded, record
from xzsql.engine.translate import translate
from xzsql.errors import XzsqlError
from xzsql.source import TableSource


def scannable(source: TableSource) -> pads.Dataset:
    """The object that DuckDB and polars read.

    Parameters
    ----------
    source
        A table of at least one column.

    Returns
    -------
    pyarrow.dataset.Dataset
        For DuckDB a table that takes predicates and projections over (`con.register(name, it)`, or a Python variable
        in `FROM`), for `pl.scan_pyarrow_dataset` a dataset. Made without reading data; each scan streams afresh.

    Raises
    ------
    UnsupportedError
        The table has no columns.
    """
    return _Scan(source)


class _Scan(SourceDataset, ArrowScanSource):
    """Called by DuckDB while it plans (`rows`, `accepts`) and runs (`stream`), from any thread."""

    schema_is_stable = True

    @property
    def obj(self) -> _Scan:
        """The object behind the source, which is itself; as an attribute it would be a cycle and outlive its use."""
        return self

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def rows(self) -> int:
        return self._source.rows()

    def accepts(self, predicate: nodes.Node) -> bool:
        try:
            known = translate(predicate, self.schema)
            return known is not None and self._source.accepts(known)
        except Exception as error:
            raise record(error) from None

    def stream(self, columns: Sequence[int] | None, filters: Sequence[nodes.Node]) -> tuple[object, bool]:
        names = self.schema.names
        chosen = names if columns is None else [names[i] for i in columns or [0]]
        where = [p for p in (translate(f, self.schema) for f in filters) if p is not None]
        if len(where) != len(filters):  # nobody checks an accepted predicate again
            raise record(XzsqlError("DuckDB hands over a predicate that it did not offer"))
        reader = guarded(lambda: self._source.stream(chosen, where), chosen)
        return reader.__arrow_c_stream__(), columns is None or len(columns) == len(chosen)
