"""The rows of one query, taken once."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from xzsql._optional import require
from xzsql.errors import ClosedError, InvalidInputError, UnsupportedError
from xzsql.result.batches import Batches, Cursor
from xzsql.result.run import Row, Run, TableRun

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import xarray as xr

_BATCH_ROWS = 131_072
#: Rows of a batch where the first thing asked for is a few rows.
_FEW_ROWS = 8_192
_SHOWN_ROWS = 10
_SHOWN_WIDTH = 32


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

    def __init__(self, run: Run) -> None:
        self._run = run
        self._to_dataset: Callable[..., xr.Dataset] | None = None
        self._batches = Batches(run)
        self._cursor = Cursor(self._batches, run)
        self._closed = False

    @classmethod
    def of_table(cls, table: pa.Table) -> Result:
        """A result of rows that are there already."""
        return cls(TableRun(table))

    def made_xarray_by(self, to_dataset: Callable[..., xr.Dataset]) -> Self:
        """The same result, with what `to_xarray` calls: table, dims and max_cells to Dataset."""
        self._to_dataset = to_dataset
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
        if self._to_dataset is None:
            raise InvalidInputError("this result is of no catalog; write xzsql.to_dataset(result, dims=[...])")
        return self._to_dataset(self.arrow(), dims, max_cells=max_cells)

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
