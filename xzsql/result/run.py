"""What a result takes its rows from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd

type Row = tuple[Any, ...]


class Run(Protocol):
    """A query that is ready to run, once; raises errors of xzsql only."""

    @property
    def columns(self) -> Sequence[str]:
        """Names, which may repeat."""

    @property
    def types(self) -> Sequence[str]:
        """Names of DuckDB types."""

    def start(self, batch_rows: int) -> pa.Schema:
        """Begin; called once, before `next_batch`."""

    def next_batch(self) -> pa.RecordBatch | None:
        """The next rows, None after the last."""

    def rows(self, table: pa.Table) -> list[Row]:
        """Rows of the result as Python values."""

    def frame(self, table: pa.Table) -> pd.DataFrame:
        """Rows of the result as a DataFrame."""

    def close(self) -> None:
        """End the work and free what it holds; may be called again."""


class TableRun:
    """A table in memory as a run that needs no DuckDB."""

    def __init__(self, table: pa.Table) -> None:
        self.columns = table.column_names
        self.types = [_type_name(f.type) for f in table.schema]
        self._table = table
        self._left: list[pa.RecordBatch] = []

    def start(self, batch_rows: int) -> pa.Schema:
        self._left = self._table.to_batches(batch_rows)
        return self._table.schema

    def next_batch(self) -> pa.RecordBatch | None:
        return self._left.pop(0) if self._left else None

    def rows(self, table: pa.Table) -> list[Row]:
        return list(zip(*(c.to_pylist() for c in table.columns), strict=True))

    def frame(self, table: pa.Table) -> pd.DataFrame:
        import pandas as pd

        frame: pd.DataFrame = table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
        return frame

    def close(self) -> None:
        self._left = []


def _type_name(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return _type_name(kind.value_type) + "[]"
    plain = {pa.string(): "VARCHAR", pa.int64(): "BIGINT", pa.bool_(): "BOOLEAN", pa.float64(): "DOUBLE"}
    return plain.get(kind, str(kind).upper())
