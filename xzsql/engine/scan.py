"""A `TableSource` as the object that DuckDB scans."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.dataset as pads

from xzsql.engine.dataset import SourceDataset
from xzsql.engine.private import ArrowScanSource, nodes
from xzsql.engine.progress import bar_of
from xzsql.engine.stream import guarded, record
from xzsql.engine.translate import translate
from xzsql.errors import XzsqlError
from xzsql.ir.predicate import Predicate
from xzsql.source import SupportsWatch, TableSource


def scannable(source: TableSource, progress: str | None = None) -> pads.Dataset:
    """The object that DuckDB and polars read.

    Parameters
    ----------
    source
        A table of at least one column.
    progress
        The name under which long scans by DuckDB show how far they are; None shows nothing.

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
    return Scan(source, progress)


class Scan(SourceDataset, ArrowScanSource):
    """Called by DuckDB while it plans (`rows`, `accepts`) and runs (`stream`), from any thread."""

    schema_is_stable = True

    def __init__(self, source: TableSource, progress: str | None = None) -> None:
        SourceDataset.__init__(self, source)
        self._progress = progress

    @property
    def obj(self) -> Scan:
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
        reader = guarded(lambda: self._opened(chosen, where), chosen)
        return reader.__arrow_c_stream__(), columns is None or len(columns) == len(chosen)

    def _opened(self, columns: Sequence[str], where: Sequence[Predicate]) -> pa.RecordBatchReader:
        if self._progress is not None and isinstance(self._source, SupportsWatch):
            watch = bar_of(self._progress)
            if watch is not None:
                return self._source.watched(columns, where, watch)
        return self._source.stream(columns, where)
