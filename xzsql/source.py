"""The seam: what a table must be able to do to be queried, whatever it is made of.

pyarrow and `xzsql.ir` are its whole vocabulary; the engine knows tables only through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from xzsql.ir.predicate import Predicate

#: Key in the metadata of each schema field; the value is b"dimension", b"coordinate" or b"data".
ROLE = b"role"
#: Key in the metadata of schema fields; the value is a text for COMMENT ON COLUMN, absent where there is none.
COMMENT = b"comment"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a scan will read, and what there is."""

    blocks: int
    """Blocks that the scan touches."""
    bytes: int
    """Uncompressed bytes of data variables and array coordinates in those blocks, at the positions read."""
    blocks_total: int
    """Blocks of a full scan of the same columns."""
    bytes_total: int
    """Bytes of a full scan of the same columns."""


@runtime_checkable
class TableSource(Protocol):
    """A table that DuckDB can scan.

    Thread-safe: every method may be called from several threads at once, and `stream` starts afresh on each call.
    """

    @property
    def schema(self) -> pa.Schema:
        """Columns and types; known without reading data. Field metadata carries `ROLE` and perhaps `COMMENT`."""

    def rows(self) -> int:
        """The exact number of rows; where that would read data, an upper bound. Never raises."""

    def accepts(self, predicate: Predicate) -> bool:
        """True is a promise: given this predicate, `stream` yields only rows where it is true, and all of them."""

    def stream(self, columns: Sequence[str], where: Sequence[Predicate]) -> pa.RecordBatchReader:
        """The rows where every predicate of `where` (each was accepted) is true: exactly these columns, in this order.

        Types are those of `schema`, but a column may arrive run-end or dictionary encoded; the reader's own schema
        says which. Closing or dropping the reader ends the work behind it.
        """

    def plan(self, columns: Sequence[str], where: Sequence[Predicate]) -> Cost:
        """What `stream` with these arguments would read. Reads no data block."""


@runtime_checkable
class SupportsCategories(Protocol):
    """A source with categoricals: columns whose type in the schema is a dictionary of strings."""

    def categories(self, column: str) -> pa.Array | None:
        """The distinct categories of such a column, in their order; None for any other column."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a scan touches along one dimension."""

    dimension: str
    length: int
    edges: Sequence[int]
    """Where each block begins, and the length after the last."""
    kept: Sequence[tuple[int, int]]
    """Runs of kept positions, start and stop. Not all of their product need be kept."""


@runtime_checkable
class SupportsCoverage(Protocol):
    """A source over a grid of blocks, which can say where in the grid a scan reads."""

    def coverage(self, columns: Sequence[str], where: Sequence[Predicate]) -> Sequence[Extent]:
        """One for each dimension, in order. Reads no data block."""


class Watch(Protocol):
    """Told how far one stream is, by the thread that pulls it; block by block, never row by row."""

    def begin(self, blocks: int, nbytes: int) -> None:
        """The first batch was asked for; so much is to be read, at most."""

    def advance(self, blocks: int, nbytes: int) -> None:
        """So many blocks more are done, by reading these bytes."""

    def end(self) -> None:
        """The stream is at its end, failed, or was dropped."""


@runtime_checkable
class SupportsWatch(Protocol):
    """A source whose streams can be watched."""

    def watched(self, columns: Sequence[str], where: Sequence[Predicate], watch: Watch) -> pa.RecordBatchReader:
        """The same as `stream`."""
