"""Sources for tests: an Arrow table in memory that records what it was asked."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from xzsql.ir.predicate import And, Compare, In, IsNull, Not, Or, Predicate, columns_of
from xzsql.source import ROLE, Cost


@dataclass(frozen=True, slots=True)
class Request:
    """One call of `stream`."""

    columns: tuple[str, ...]
    """The columns asked for, in order."""
    where: tuple[Predicate, ...]
    """The accepted predicates."""


class MemorySource:
    """A table in memory that follows the protocol, evaluates predicates row by row and records what it was asked.

    Parameters
    ----------
    table
        The rows. Fields without a role in their metadata get one: dimension for those in `dimensions`, else data.
    batch_rows
        Rows of a batch, which is a block for `plan`.
    dimensions
        Names of the key columns.
    accept
        Which predicates are taken over; by default those that touch no data column.
    encode
        How a column arrives: `"runs"` (run-end encoded) or `"dictionary"`.

    Attributes
    ----------
    offers
        The predicates that were offered.
    requests
        The streams that were opened.
    pulled
        The number of batches that were handed out.
    open
        The number of streams that were begun and not ended.

    Examples
    --------
    >>> source = MemorySource(pa.table({"x": [0, 1, 2]}), dimensions=["x"])
    >>> source.accepts(Compare("x", ">=", 1))
    True
    >>> source.stream(["x"], [Compare("x", ">=", 1)]).read_all()["x"].to_pylist()
    [1, 2]
    """

    def __init__(
        self,
        table: pa.Table,
        batch_rows: int = 1000,
        *,
        dimensions: Sequence[str] = (),
        accept: Callable[[Predicate], bool] | None = None,
        encode: Mapping[str, str] | None = None,
    ) -> None:
        fields = [
            f if ROLE in (f.metadata or {})
            else f.with_metadata({**(f.metadata or {}), ROLE: b"dimension" if f.name in dimensions else b"data"})
            for f in table.schema
        ]  # fmt: skip
        self._table = pa.Table.from_arrays(table.columns, schema=pa.schema(fields))
        self._batch_rows = batch_rows
        self._accept = accept
        self._encode = dict(encode or {})
        self._lock = threading.Lock()
        self.offers: list[Predicate] = []
        self.requests: list[Request] = []
        self.pulled = 0
        self.open = 0

    @property
    def schema(self) -> pa.Schema:
        """The table's schema, with a role for each field."""
        return self._table.schema

    @property
    def table(self) -> pa.Table:
        """All rows."""
        return self._table

    def rows(self) -> int:
        """The number of rows."""
        return int(self._table.num_rows)

    def accepts(self, predicate: Predicate) -> bool:
        """Record the offer, and answer as configured."""
        with self._lock:
            self.offers.append(predicate)
        return self._only_keys(predicate) if self._accept is None else self._accept(predicate)

    def stream(self, columns: Sequence[str], where: Sequence[Predicate]) -> pa.RecordBatchReader:
        """Record the request, and give the rows batch by batch."""
        with self._lock:
            self.requests.append(Request(tuple(columns), tuple(where)))
        schema = pa.schema([self._encoded_field(self.schema.field(n)) for n in columns])
        return pa.RecordBatchReader.from_batches(schema, self._counted(schema, tuple(where)))

    def plan(self, columns: Sequence[str], where: Sequence[Predicate]) -> Cost:
        """Batches with a matching row, and their bytes of data columns."""
        names = [n for n in columns if (self.schema.field(n).metadata or {}).get(ROLE) == b"data"]
        parts = self._parts()
        kept = [p for p in parts if matching(p, where).num_rows]
        return Cost(
            len(kept), sum(p.select(names).nbytes for p in kept), len(parts), sum(p.select(names).nbytes for p in parts)
        )

    def before_batch(self, number: int) -> None:
        """Called before each batch, the first is 0; for subclasses that fail or wait."""

    def _only_keys(self, predicate: Predicate) -> bool:
        return all((self.schema.field(n).metadata or {}).get(ROLE) != b"data" for n in columns_of(predicate))

    def _parts(self) -> list[pa.Table]:
        return [self._table.slice(i, self._batch_rows) for i in range(0, self.rows(), self._batch_rows)]

    def _counted(self, schema: pa.Schema, where: Sequence[Predicate]) -> Iterator[pa.RecordBatch]:
        with self._lock:
            self.open += 1
        try:
            for number, part in enumerate(self._parts()):
                self.before_batch(number)
                rows = matching(part, where).select(schema.names).combine_chunks()
                if rows.num_rows:
                    with self._lock:
                        self.pulled += 1
                    arrays = [self._encoded(rows[n].combine_chunks(), schema.field(n).type) for n in schema.names]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        finally:
            with self._lock:
                self.open -= 1

    def _encoded_field(self, field: pa.Field) -> pa.Field:
        match self._encode.get(field.name):
            case "runs":
                return field.with_type(pa.run_end_encoded(pa.int32(), field.type))
            case "dictionary":
                return field.with_type(pa.dictionary(pa.int32(), field.type))
            case _:
                return field

    def _encoded(self, column: Any, kind: pa.DataType) -> Any:
        array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
        if pa.types.is_run_end_encoded(kind):
            return pc.run_end_encode(array)
        return array.dictionary_encode() if pa.types.is_dictionary(kind) and array.type != kind else array


class FailingSource(MemorySource):
    """Raises `error` in place of batch number `after`."""

    def __init__(
        self, table: pa.Table, batch_rows: int = 1000, *, after: int, error: BaseException, **more: Any
    ) -> None:
        super().__init__(table, batch_rows, **more)
        self._after = after
        self._error = error

    def before_batch(self, number: int) -> None:
        """Raise when the time has come."""
        if number == self._after:
            raise self._error


class SlowSource(MemorySource):
    """Waits before each batch: `seconds`, and until `gate` is set, if there is one."""

    def __init__(
        self,
        table: pa.Table,
        batch_rows: int = 1000,
        *,
        seconds: float = 0.0,
        gate: threading.Event | None = None,
        **more: Any,
    ) -> None:
        super().__init__(table, batch_rows, **more)
        self._seconds = seconds
        self._gate = gate

    def before_batch(self, number: int) -> None:  # noqa: ARG002
        """Wait."""
        time.sleep(self._seconds)
        if self._gate is not None:
            self._gate.wait()


def matching(table: pa.Table, where: Sequence[Predicate]) -> pa.Table:
    """The rows where every predicate is true, judged one row at a time with Python's own values."""
    if not where:
        return table
    names = sorted({n for p in where for n in columns_of(p)})
    values = {n: table[n].to_pylist() for n in names}
    rows = [{n: values[n][i] for n in names} for i in range(table.num_rows)]
    return table.filter(pa.array([all(truth(p, row) is True for p in where) for row in rows], pa.bool_()))


def truth(predicate: Predicate, row: Mapping[str, Any]) -> bool | None:
    """SQL's three-valued answer for one row; None is unknown."""
    match predicate:
        case IsNull(column):
            return row[column] is None
        case Compare(column, op, value):
            return None if row[column] is None else _compare(row[column], op, value)
        case In(column, values):
            return None if row[column] is None else any(_compare(row[column], "=", v) for v in values)
        case Not(term):
            inner = truth(term, row)
            return None if inner is None else not inner
        case And(terms):
            answers = {truth(t, row) for t in terms}
            return False if False in answers else None if None in answers else True
        case Or(terms):
            answers = {truth(t, row) for t in terms}
            return True if True in answers else None if None in answers else False


def _compare(left: Any, op: str, right: Any) -> bool:
    """NaN equals itself and is greater than every number."""
    left_key, right_key = _key(left), _key(right)
    match op:
        case "=":
            return bool(left_key == right_key)
        case "!=":
            return bool(left_key != right_key)
        case "<":
            return bool(left_key < right_key)
        case "<=":
            return bool(left_key <= right_key)
        case ">":
            return bool(left_key > right_key)
        case _:
            return bool(left_key >= right_key)


def _key(value: Any) -> tuple[bool, Any]:
    return (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)
