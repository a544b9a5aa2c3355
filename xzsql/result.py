"""Result: the rows of one query, taken once."""

from __future__ import annotations

import html
import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import pyarrow as pa

from xzsql._optional import require
from xzsql.errors import ClosedError, InvalidInputError, UnsupportedError
from xzsql.model.to_dataset import to_dataset

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import xarray as xr

    from xzsql.model.template import Template

#: Bytes of a result that are kept, so that it can be taken a second time.
KEPT_BYTES = 64 * 2**20
_BATCH_ROWS = 131_072
#: Rows of a batch where the first thing asked for is a few rows.
_FEW_ROWS = 8_192
_SHOWN_ROWS = 10
_SHOWN_WIDTH = 32

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


class Result:
    """The rows of one query.

    The query is checked when it is made and runs when rows are asked for, once. Small results (64 MiB) are kept and
    can be taken again in any form; of a larger one each row comes once, and then `ClosedError` says to query again.
    Displaying a result reads its first rows, which are not lost by that.

    Examples
    --------
    >>> result = Result.of_table(pa.table({"x": [1, 2, 3]}))
    >>> result.fetchone()
    (1,)
    >>> result.fetchall()
    [(2,), (3,)]
    >>> result.df()["x"].sum()
    np.int64(6)
    """

    def __init__(self, run: Run, template: Template | None = None) -> None:
        self._run = run
        self._template = template
        self._batches = _Batches(run)
        self._cursor = _Cursor(self._batches, run)
        self._closed = False

    @classmethod
    def of_table(cls, table: pa.Table) -> Result:
        """A result of rows that are there already."""
        return cls(_TableRun(table))

    def with_template(self, template: Template) -> Self:
        """The same result, which knows what `to_xarray` may put back."""
        self._template = template
        return self

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._run.columns)

    @property
    def types(self) -> list[str]:
        """The DuckDB types of the columns."""
        return list(self._run.types)

    def fetchone(self) -> Row | None:
        """The next row, None after the last."""
        rows = self._fetch(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> list[Row]:
        """The next rows, at most `size`; none after the last."""
        if size < 0:
            raise InvalidInputError(f"fetchmany takes a number of rows, got {size!r}")
        return self._fetch(size)

    def fetchall(self) -> list[Row]:
        """The rows that fetchone and fetchmany have not given yet; all again, where everything was given."""
        self._cursor.begin_again()
        return self._fetch(None)

    def __iter__(self) -> Iterator[Row]:
        """Row by row, as they come; from the first, where everything was given."""
        self._cursor.begin_again()
        while (row := self.fetchone()) is not None:
            yield row

    def df(self) -> pd.DataFrame:
        """All rows as a pandas DataFrame.

        Returns
        -------
        pandas.DataFrame
            With the types that DuckDB gives them. Integers stay integers: with NULL they are `Int64`; HUGEINT (a sum
            of integers) is `int64` where the values fit, else Python integers.
        """
        return self._run.frame(self.arrow())

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table; HUGEINT is `decimal128(38, 0)`."""
        self._check_open()
        self._batches.start(_BATCH_ROWS)
        return pa.Table.from_batches(list(self._batches.walk()), self._batches.schema)

    def pl(self) -> pl.DataFrame:
        """All rows as a polars DataFrame; HUGEINT is `Decimal(38, 0)`, INTERVAL is `Duration`."""
        polars = require("polars", extra="polars", purpose="give polars frames")
        frame: pl.DataFrame = polars.from_arrow(_with_durations(self.arrow()))
        return frame

    def to_xarray(self, dims: Sequence[str] | None = None, *, max_cells: int | None = None) -> xr.Dataset:
        """All rows as a Dataset: key columns become dimensions, the others variables over them.

        Parameters
        ----------
        dims
            The columns that are dimensions, in order; None takes those that the catalog's tables have, else the fewest
            leading columns that tell the rows apart.
        max_cells
            Cells that the grid of all keys may have; None allows ten for each row, and 10 million anyway.

        Returns
        -------
        xarray.Dataset
            In memory. Variables that the catalog knows get their dtype, attributes and coordinates back. Cells without
            a row are NaN or NaT; integers with such cells become float64 if no digit is lost, else objects with None.

        Raises
        ------
        InvalidInputError
            Two rows of one key, a key that is NULL, or a grid that is too large; the message names it.
        """
        return to_dataset(self.arrow(), dims, template=self._template, max_cells=max_cells)

    def reader(self, batch_rows: int = _BATCH_ROWS) -> pa.RecordBatchReader:
        """All rows as a stream of Arrow batches.

        Parameters
        ----------
        batch_rows
            The most rows of a batch.

        Returns
        -------
        pyarrow.RecordBatchReader
            Runs as it is read: a result of any size passes through it.
        """
        if batch_rows < 1:
            raise InvalidInputError(f"batch_rows must be a whole number of at least 1, got {batch_rows!r}")
        self._check_open()
        self._batches.start(batch_rows)
        return pa.RecordBatchReader.from_batches(self._batches.schema, _cut(self._batches.walk(), batch_rows))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as an Arrow stream: `pa.table(result)`, `pl.DataFrame(result)`, or DuckDB in `FROM result`."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def show(self, rows: int = _SHOWN_ROWS) -> None:
        """Print the first rows."""
        print(self._text(rows))  # noqa: T201

    def close(self) -> None:
        """End the query and free what it holds."""
        self._closed = True
        self._batches.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return self._text(_SHOWN_ROWS)

    def _repr_html_(self) -> str:
        head, rows, more = self._shown(_SHOWN_ROWS)
        if rows is None:
            return f"<pre>{html.escape(self._text(_SHOWN_ROWS))}</pre>"
        cells = "".join(f"<th>{html.escape(n)}<br><small>{html.escape(t)}</small></th>" for n, t in head)
        lines = "".join("<tr>" + "".join(f"<td>{html.escape(v)}</td>" for v in row) + "</tr>" for row in rows)
        return f"<table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>{'<p>more rows</p>' * more}"

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the result is closed; query again")

    def _fetch(self, size: int | None) -> list[Row]:
        self._check_open()
        self._batches.start(_BATCH_ROWS if size is None else _FEW_ROWS)
        return self._cursor.take(size)

    def _shown(self, count: int) -> tuple[list[tuple[str, str]], list[list[str]] | None, bool]:
        """Columns, the first rows as text (None where they are gone), and whether there are more."""
        head = list(zip(self.columns, self.types, strict=True))
        if self._closed:
            return head, None, False
        self._batches.start(_FEW_ROWS)
        try:
            first = self._batches.first(count + 1)
        except ClosedError:
            return head, None, False
        rows = [[_short(v) for v in row] for row in self._run.rows(first.slice(0, count))]
        return head, rows, first.num_rows > count

    def _text(self, count: int) -> str:
        head, rows, more = self._shown(count)
        if rows is None:
            columns = ", ".join(f"{n} {t}" for n, t in head)
            return f"<Result of {columns}; {'closed' if self._closed else 'already streamed'}>"
        lines = [[n for n, _ in head], [_short(t) for _, t in head], *rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
        text = ["  ".join(v.ljust(w) for v, w in zip(line, widths, strict=True)).rstrip() for line in lines]
        text.insert(2, "  ".join("-" * w for w in widths))
        text.append("... more rows" if more else f"({len(rows)} row{'s' * (len(rows) != 1)})")
        return "\n".join(text)


class _Batches:
    """The batches of a run, pulled when asked for, and kept while they are few."""

    def __init__(self, run: Run, template: Template | None = None) -> None:
        self._run = run
        self._template = template
        self._lock = threading.RLock()
        self._schema: pa.Schema | None = None
        self._kept: dict[int, pa.RecordBatch] = {}
        self._bytes = 0
        self._pulled = 0
        self._end = False
        self._failed: BaseException | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def start(self, batch_rows: int) -> None:
        with self._lock:
            if self._schema is None:
                self._schema = self._run.start(batch_rows)

    def walk(self) -> Iterator[pa.RecordBatch]:
        number = 0
        while (batch := self.get(number)) is not None:
            yield batch
            number += 1

    def first(self, rows: int) -> pa.Table:
        found: list[pa.RecordBatch] = []
        for batch in self.walk():
            found.append(batch)
            rows -= batch.num_rows
            if rows <= 0:
                break
        return pa.Table.from_batches(found, self._schema)

    def get(self, number: int) -> pa.RecordBatch | None:
        with self._lock:
            if number in self._kept:
                return self._kept[number]
            if number < self._pulled:
                raise ClosedError("this result was already streamed, and it is too large to be kept; query again")
            if self._failed is not None:
                raise self._failed
            if self._end:
                return None
            return self._pull()

    def _pull(self) -> pa.RecordBatch | None:
        try:
            batch = self._run.next_batch()
        except BaseException as error:
            self._failed = error
            self._run.close()
            raise
        if batch is None:
            self._end = True
            self._run.close()
            return None
        self._kept[self._pulled] = batch
        self._pulled += 1
        self._bytes += batch.nbytes
        if self._bytes > KEPT_BYTES:
            # the newest stays: whoever only looked at it (a display) must not have used it up
            self._kept = {self._pulled - 1: batch}
        return batch

    def close(self) -> None:
        with self._lock:
            self._end = True
            self._kept.clear()
            self._run.close()


class _Cursor:
    """Where fetching row by row is."""

    def __init__(self, batches: _Batches, run: Run) -> None:
        self._batches = batches
        self._run = run
        self._next = 0
        self._rows: list[Row] = []
        self._at = 0
        self._told_end = False

    def begin_again(self) -> None:
        if self._told_end:
            self._next, self._rows, self._at, self._told_end = 0, [], 0, False

    def take(self, size: int | None) -> list[Row]:
        found: list[Row] = []
        while size is None or len(found) < size:
            if self._at == len(self._rows):
                batch = self._batches.get(self._next)
                if batch is None:
                    self._told_end = size is None or not found
                    break
                self._rows, self._at = self._run.rows(pa.Table.from_batches([batch])), 0
                self._next += 1
            stop = len(self._rows) if size is None else min(len(self._rows), self._at + size - len(found))
            found += self._rows[self._at : stop]
            self._at = stop
        return found


class _TableRun:
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


def _cut(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _with_durations(table: pa.Table) -> pa.Table:
    """Intervals as durations, which polars has instead; months have no fixed length."""
    for index, field in enumerate(table.schema):
        if field.type == pa.month_day_nano_interval():
            chunks = [_durations(chunk, field.name) for chunk in table.column(index).chunks]
            table = table.set_column(index, field.name, pa.chunked_array(chunks, pa.duration("us")))
    return table


def _durations(intervals: pa.Array, name: str) -> pa.Array:
    import numpy as np

    parts = np.frombuffer(intervals.buffers()[1], [("months", "i4"), ("days", "i4"), ("nanoseconds", "i8")])
    parts = parts[intervals.offset : intervals.offset + len(intervals)]
    missing = np.asarray(intervals.is_null())
    if (parts["months"] != 0)[~missing].any():
        raise UnsupportedError(f"column {name!r} has intervals of months, which polars does not know; use .df()")
    microseconds = parts["days"] * np.int64(86_400_000_000) + parts["nanoseconds"] // 1000
    return pa.array(microseconds, pa.int64(), mask=missing).cast(pa.duration("us"))


def _short(value: object) -> str:
    text = "NULL" if value is None else " ".join(str(value).split())
    return text if len(text) <= _SHOWN_WIDTH else text[: _SHOWN_WIDTH - 3] + "..."
