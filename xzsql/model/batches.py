"""From a loaded block to Arrow record batches.

A block's rows are its cells in row-major order, and a batch is a run of them: some steps of one dimension and all of
the faster ones. Data is converted once per block and sliced. Coordinates are not repeated cell by cell: those of slow
dimensions are run-end encoded, those of fast ones are the same pattern in every batch, built once for the stream.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xzsql.model.arrow import to_arrow
from xzsql.model.decode import Decoded
from xzsql.model.grid import as_array, compact, count
from xzsql.model.selection import cells_of
from xzsql.model.table import Column, Positions, Table

#: DuckDB reads vectors of 2,048 rows: runs that do not fill one cost it more than repeated values.
_SHORTEST_RUN = 2048
#: Patterns kept by a stream, in rows over all of them.
_PATTERN_ROWS = 2**23


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A loaded block."""

    region: tuple[Positions, ...]
    """Its positions along each dimension."""
    arrays: dict[str, pa.Array]
    """Values of the columns that vary along every dimension, in row order, kept rows only."""
    cells: dict[str, Decoded]
    """Values of the other columns, over their own dimensions."""
    kept: np.ndarray | None
    """The numbers of the kept rows; None where all are."""


@dataclass(slots=True, eq=False)
class Layout:
    """How one stream writes its columns: the same for all its blocks."""

    table: Table
    columns: Sequence[Column]
    batch_rows: int
    shape: tuple[int, ...]
    """Of a typical block, which decides the encodings."""
    schema: pa.Schema = field(init=False)
    _encoded: dict[str, str] = field(init=False)
    _patterns: dict[Any, pa.Array] = field(init=False, default_factory=dict)
    _pattern_rows: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._encoded = {c.name: self._encoding(c) for c in self.columns}
        self.schema = pa.schema([pa.field(c.name, self._stream_type(c)) for c in self.columns])

    def is_full(self, column: Column) -> bool:
        """Whether the column has a value of its own for every row."""
        return len(column.dims) == len(self.table.dims) and column.array is not None

    def _encoding(self, column: Column) -> str:
        if self.is_full(column):
            return "flat"
        slowest = max((self.table.dims.index(d) for d in column.dims), default=-1)
        run = math.prod(self.shape[slowest + 1 :])
        if run >= _SHORTEST_RUN:
            return "runs"
        return "codes" if pa.types.is_string(type_of(column)) else "flat"

    def _stream_type(self, column: Column) -> pa.DataType:
        kind = type_of(column)
        match self._encoded[column.name]:
            case "runs":
                # Runs of dictionary codes are not something every consumer reads.
                return pa.run_end_encoded(pa.int32(), kind.value_type if pa.types.is_dictionary(kind) else kind)
            case "codes":
                return pa.dictionary(pa.int32(), kind)
            case _:
                return kind

    def batches(self, block: Block) -> Iterator[pa.RecordBatch]:
        """The block's rows, in order."""
        if block.kept is not None:
            yield from self._scattered(block)
            return
        shape = tuple(count(p) for p in block.region)
        if math.prod(shape) == 0:
            return
        cut, steps = self._cut(shape)
        inner = math.prod(shape[cut + 1 :])
        offset = 0
        for outer in np.ndindex(shape[:cut]) if cut else [()]:
            for start in range(0, shape[cut] if shape else 1, steps):
                stop = min(start + steps, shape[cut] if shape else 1)
                rows = (stop - start) * inner
                piece = _Piece(block, shape, outer, start, stop, steps, inner)
                yield pa.RecordBatch.from_arrays(
                    [self._column(c, piece, offset, rows) for c in self.columns], schema=self.schema
                )
                offset += rows

    def _cut(self, shape: Sequence[int]) -> tuple[int, int]:
        """The dimension that a batch cuts, and how many of its steps a batch holds."""
        cut, inner = max(0, len(shape) - 1), 1
        while cut > 0 and inner * shape[cut] <= self.batch_rows:
            inner *= shape[cut]
            cut -= 1
        return cut, max(1, self.batch_rows // inner)

    def _column(self, column: Column, piece: _Piece, offset: int, rows: int) -> pa.Array:
        if self.is_full(column):
            return piece.block.arrays[column.name].slice(offset, rows)
        cells = piece.block.cells[column.name]
        own = stored_dims(column)
        axes = [self.table.dims.index(d) for d in own]
        if self._encoded[column.name] == "runs":
            return self._runs(column, cells, axes, piece)
        if any(a < piece.cut or (a == piece.cut and piece.steps < piece.shape[a]) for a in axes):
            return self._flat(column, cells, axes, piece)
        key = (column.name, piece.shape[piece.cut + 1 :], *(_identity(piece.block.region[a]) for a in axes))
        pattern = self._patterns.get(key)
        if pattern is None or len(pattern) < rows:
            pattern = self._flat(column, cells, axes, piece)
            if self._pattern_rows + rows > _PATTERN_ROWS:
                self._patterns, self._pattern_rows = {}, 0
            self._patterns[key] = pattern
            self._pattern_rows += rows
        return pattern.slice(0, rows)

    def _flat(self, column: Column, cells: Decoded, axes: Sequence[int], piece: _Piece) -> pa.Array:
        """The column's values, repeated along the dimensions that it does not have."""
        index = np.arange(cells.values.size).reshape(cells.values.shape)
        rows = piece.repeated(index, axes)
        return self._taken(column, cells, rows)

    def _taken(self, column: Column, cells: Decoded, rows: np.ndarray) -> pa.Array:
        kind = type_of(column)
        if self._encoded[column.name] == "codes":
            return pa.DictionaryArray.from_arrays(pa.array(rows, pa.int32()), arrow_of(column, cells))
        if pa.types.is_primitive(kind):
            valid = None if cells.valid is None else cells.valid.ravel()[rows]
            return to_arrow(Decoded(cells.values.ravel()[rows], valid), kind)
        return arrow_of(column, cells).take(pa.array(rows))

    def _runs(self, column: Column, cells: Decoded, axes: Sequence[int], piece: _Piece) -> pa.Array:
        """The column's values once for each run: it does not vary along the fastest dimensions."""
        slowest = max(axes, default=-1)
        run = math.prod(piece.box[slowest + 1 :])
        index = np.arange(cells.values.size).reshape(cells.values.shape)
        rows = piece.repeated(index, axes, upto=slowest + 1)
        values = arrow_of(column, cells).take(pa.array(rows))
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        ends = np.arange(1, len(rows) + 1, dtype=np.int32) * np.int32(run)
        return pa.RunEndEncodedArray.from_arrays(pa.array(ends), values)

    def _scattered(self, block: Block) -> Iterator[pa.RecordBatch]:
        """The rows of a block of which only some are kept."""
        assert block.kept is not None
        shape = tuple(count(p) for p in block.region)
        for start in range(0, len(block.kept), self.batch_rows):
            rows = block.kept[start : start + self.batch_rows]
            at = np.unravel_index(rows, shape)
            arrays: list[pa.Array] = []
            for column in self.columns:
                if self.is_full(column):
                    arrays.append(block.arrays[column.name].slice(start, len(rows)))
                    continue
                cells = block.cells[column.name]
                own = tuple(at[self.table.dims.index(d)] for d in stored_dims(column))
                flat = np.ravel_multi_index(own, cells.values.shape) if own else np.zeros(len(rows), np.intp)
                array = self._taken(column, cells, flat)
                if self._encoded[column.name] == "runs":
                    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
                    array = pc.run_end_encode(array, run_end_type=pa.int32())
                arrays.append(array)
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """The part of a block that becomes one batch: fixed outer positions, start..stop of one dimension, all beyond."""

    block: Block
    shape: tuple[int, ...]
    outer: tuple[int, ...]
    start: int
    stop: int
    steps: int
    inner: int

    @property
    def cut(self) -> int:
        return len(self.outer)

    @property
    def box(self) -> tuple[int, ...]:
        """The shape of the piece, over all dimensions."""
        if not self.shape:
            return ()
        return (1,) * self.cut + (self.stop - self.start,) + self.shape[self.cut + 1 :]

    def repeated(self, index: np.ndarray, axes: Sequence[int], upto: int | None = None) -> np.ndarray:
        """`index`, an array over the dimensions `axes`, for each cell of the piece (of its first `upto` dimensions)."""
        at: list[int | slice] = []
        for a in axes:
            if a < self.cut:
                at.append(slice(self.outer[a], self.outer[a] + 1))
            else:
                at.append(slice(self.start, self.stop) if a == self.cut else slice(None))
        part = index[tuple(at)].transpose(np.argsort(axes))
        box = self.box[:upto]
        sizes = iter(part.shape)
        spread = part.reshape([next(sizes) if i in axes else 1 for i in range(len(box))])
        return np.ascontiguousarray(np.broadcast_to(spread, box)).ravel()


def type_of(column: Column) -> pa.DataType:
    """The Arrow type of a column."""
    return pa.int64() if column.array is None else column.array.type


def stored_dims(column: Column) -> tuple[str, ...]:
    """The column's dimensions in the order of its values."""
    return column.dims if column.array is None else column.array.dims


def arrow_of(column: Column, cells: Decoded) -> pa.Array:
    """The cells in row-major order of their own dimensions."""
    categories = None if column.array is None else column.array.categories
    return to_arrow(cells, type_of(column), categories=categories)


def load_block(layout: Layout, region: tuple[Positions, ...], keep: np.ndarray | None) -> Block:
    """Read and decode what the columns need of a region; `keep` is a mask over it."""
    kept = None if keep is None else np.flatnonzero(keep)
    here = dict(zip(layout.table.dims, region, strict=True))
    arrays: dict[str, pa.Array] = {}
    cells: dict[str, Decoded] = {}
    for column in layout.columns:
        if column.name in arrays or column.name in cells:
            continue
        found = cells_of(column, here, layout.table.sizes)
        decoded = Decoded(found.values, found.valid)
        if not layout.is_full(column):
            cells[column.name] = decoded
            continue
        assert column.array is not None
        decoded = _in_order(decoded, column.array.dims, layout.table.dims)
        if kept is not None:
            decoded = Decoded(
                decoded.values.ravel()[kept], None if decoded.valid is None else decoded.valid.ravel()[kept]
            )
        arrays[column.name] = arrow_of(column, decoded)
    return Block(region, arrays, cells, kept)


def _in_order(cells: Decoded, own: Sequence[str], dims: Sequence[str]) -> Decoded:
    if tuple(own) == tuple(dims):
        return cells
    order = [own.index(d) for d in dims]
    return Decoded(cells.values.transpose(order), None if cells.valid is None else cells.valid.transpose(order))


def _identity(positions: Positions) -> tuple[Any, ...]:
    if isinstance(positions, slice):
        return (positions.start, positions.stop)
    return (positions.tobytes(),)


def hull_of(region: Sequence[Positions], keep: np.ndarray) -> tuple[tuple[Positions, ...], np.ndarray]:
    """The region cut to the positions that hold a kept cell, and the mask over it."""
    found = [np.flatnonzero(keep.any(axis=tuple(j for j in range(keep.ndim) if j != i))) for i in range(keep.ndim)]
    smaller = tuple(compact(as_array(p)[f]) for p, f in zip(region, found, strict=True))
    return smaller, keep[np.ix_(*found)]
