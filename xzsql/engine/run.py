"""A query that is bound, as a `Result` takes it: Arrow batches out of DuckDB, and rows or frames of these."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from xzsql.engine import names
from xzsql.engine.wait import after, interruptible
from xzsql.errors import QueryError

if TYPE_CHECKING:
    import pandas as pd

    from xzsql.result import Row

_HUGE = ("HUGEINT", "UHUGEINT")
#: Types that lose something on their way through Arrow, and as what they go; the cast refuses what does not fit.
_CARRIED = {"UHUGEINT": "DECIMAL(38, 0)", "BIT": "VARCHAR", "TIME WITH TIME ZONE": "VARCHAR"}


class Converter:
    """Arrow tables of a result -> Python values and DataFrames, as DuckDB makes them of its own types."""

    def __init__(self, con: duckdb.DuckDBPyConnection, columns: Sequence[str], types: Sequence[str]) -> None:
        self._con = con
        self._columns = columns
        self._types = types
        self._lock = threading.Lock()

    def rows(self, table: pa.Table) -> list[Row]:
        return self._ask(table, self._types, lambda relation: relation.fetchall())

    def frame(self, table: pa.Table) -> pd.DataFrame:
        """HUGEINT as int64 or Python integers: DuckDB would make floats of it."""
        types, whole = list(self._types), {}
        for index, kind in enumerate(types):
            if kind in _HUGE:
                column = table.column(index)
                try:
                    table = table.set_column(index, table.field(index).name, column.cast(pa.int64()))
                    types[index] = "BIGINT"
                except pa.ArrowInvalid:
                    whole[index] = [None if v is None else int(v) for v in column.to_pylist()]
        frame: pd.DataFrame = self._ask(table, types, lambda relation: relation.df())
        for index, values in whole.items():
            frame.isetitem(index, _objects(values))
        return frame

    def _ask[T](self, table: pa.Table, types: Sequence[str], take: Callable[[Any], T]) -> T:
        """Arrow has no ENUM, HUGEINT and others, so each column is cast to what it was."""
        plain = [f"c{i}" for i in range(len(types))]
        cast = ", ".join(
            f"CAST({c} AS {t}) AS {names.quoted(n)}" for c, t, n in zip(plain, types, self._columns, strict=True)
        )
        with self._lock:
            self._con.register("xzsql_rows", table.rename_columns(plain))
            try:
                return take(self._con.sql(f"SELECT {cast} FROM xzsql_rows"))
            except duckdb.Error as error:
                raise QueryError(f"the result cannot be converted: {error}; take it as .arrow()") from error
            finally:
                self._con.unregister("xzsql_rows")


def carried(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """The relation with columns that Arrow can hold."""
    types = [_CARRIED.get(str(t)) for t in relation.types]
    if not any(types):
        return relation
    columns = zip(types, relation.columns, strict=True)
    return relation.project(
        ", ".join(
            (f"CAST(#{i} AS {kind})" if kind else f"#{i}") + f" AS {names.quoted(name)}"
            for i, (kind, name) in enumerate(columns, 1)
        )
    )


def _objects(values: list[int | None]) -> Any:
    import pandas as pd

    return pd.Series(values, dtype=object)


class BoundRun:
    """A relation on a cursor of its own, which is run once, as an Arrow stream."""

    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection,
        relation: duckdb.DuckDBPyRelation,
        converter: Callable[[Sequence[str], Sequence[str]], Converter],
        translate: Callable[[BaseException], BaseException],
    ) -> None:
        self.columns: Sequence[str] = relation.columns
        self.types: Sequence[str] = [str(t) for t in relation.types]
        self._cursor = cursor
        self._relation: duckdb.DuckDBPyRelation | None = carried(relation)
        self._reader: Any = None
        self._converter = converter(self.columns, self.types)
        self._translate = translate
        self._error: BaseException | None = None

    def start(self, batch_rows: int) -> pa.Schema:
        relation = self._relation
        assert relation is not None  # a Result starts once
        self._reader = self._waited(lambda: relation.to_arrow_reader(batch_rows))
        return self._reader.schema

    def next_batch(self) -> pa.RecordBatch | None:
        reader = self._reader
        if reader is None:
            return None
        return self._waited(lambda: next(reader, None))

    def rows(self, table: pa.Table) -> list[Row]:
        return self._converter.rows(table)

    def frame(self, table: pa.Table) -> pd.DataFrame:
        return self._converter.frame(table)

    def close(self) -> None:
        reader, self._reader, self._relation = self._reader, None, None
        error, self._error = self._error, None

        def end() -> None:
            if reader is not None:
                reader.close()
            self._cursor.close()

        after(error, end)

    def _waited[T](self, call: Callable[[], T]) -> T:
        try:
            return interruptible(call, self._cursor.interrupt)
        except BaseException as error:
            raised = self._error = self._translate(error)
            if raised is error:
                raise
            raise raised from (raised.__cause__ or error)


class ReadRun:
    """A result that was read whole."""

    def __init__(self, table: pa.Table, columns: Sequence[str], types: Sequence[str], converter: Converter) -> None:
        self.columns: Sequence[str] = columns
        self.types: Sequence[str] = types
        self._table = table
        self._batches: list[pa.RecordBatch] = []
        self._converter = converter

    def start(self, batch_rows: int) -> pa.Schema:
        self._batches = self._table.to_batches(batch_rows)[::-1]
        return self._table.schema

    def next_batch(self) -> pa.RecordBatch | None:
        return self._batches.pop() if self._batches else None

    def rows(self, table: pa.Table) -> list[Row]:
        return self._converter.rows(table)

    def frame(self, table: pa.Table) -> pd.DataFrame:
        return self._converter.frame(table)

    def close(self) -> None:
        self._batches = []
