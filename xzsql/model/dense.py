"""GridSource: a table of arrays over the same dimensions, one row per cell."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from xzsql.ir.predicate import Predicate
from xzsql.model.batches import Block, Layout, hull_of, load_block, type_of
from xzsql.model.blocks import Task, ahead
from xzsql.model.grid import Chunking, Grid, count, lay, runs
from xzsql.model.selection import Selection, accepts, rows_kept, select
from xzsql.model.table import Column, Positions, Table
from xzsql.options import Options, options
from xzsql.source import COMMENT, ROLE, Cost, Extent, Watch

#: Rows of a batch where nothing is loaded and every column is a pattern or a few runs.
_COORDINATE_ROWS = 2**21


class GridSource:
    """A dense table as a source (see `xzsql.source.TableSource`).

    Predicates on coordinates and positions are accepted, of any number of dimensions; one that mentions a data
    variable is not. Rows come block by block in row-major order of the block grid, each block in row-major order.
    """

    def __init__(self, table: Table, settings: Mapping[str, Any] | None = None) -> None:
        self.table = table
        self._settings = settings or {}
        self._columns = {c.name: c for c in table.columns}
        self._schema = pa.schema([_field(c) for c in table.columns])

    @property
    def schema(self) -> pa.Schema:
        """Columns and types, with roles and comments in the fields' metadata."""
        return self._schema

    def rows(self) -> int:
        """The product of the lengths of the dimensions."""
        return self.table.rows

    def accepts(self, predicate: Predicate) -> bool:
        """Whether the predicate is on coordinates alone."""
        return accepts(self.table, predicate)

    def categories(self, column: str) -> pa.Array | None:
        """The categories of a categorical column."""
        array = self._columns[column].array
        return None if array is None else array.categories

    def plan(self, columns: Sequence[str], where: Sequence[Predicate]) -> Cost:
        """Blocks and bytes of data variables and array coordinates that `stream` would read. Reads coordinates only."""
        chosen = [self._columns[c] for c in columns]
        arrays = _arrays(chosen)
        grid = self._grid(arrays, options.current(**self._settings))
        selection = select(self.table, where)
        width = sum(a.itemsize for a in arrays)
        total = width * self.table.rows
        if not arrays or 0 in self.table.shape:
            return Cost(0, 0, 0, 0)
        if selection.empty:
            return Cost(0, 0, len(grid), total)
        if selection.is_product:
            cells = math.prod(count(p) for p in selection.kept)
            return Cost(grid.touched(selection.kept), width * cells, len(grid), total)
        sizes = [math.prod(count(p) for p in region) for region, _ in self._regions(grid, selection)]
        return Cost(len(sizes), width * sum(sizes), len(grid), total)

    def coverage(self, columns: Sequence[str], where: Sequence[Predicate]) -> list[Extent]:
        """The blocks and the kept positions along each dimension. Reads coordinates only."""
        grid = self._grid(_arrays([self._columns[c] for c in columns]), options.current(**self._settings))
        selection = select(self.table, where)
        kept = [slice(0, 0)] * len(grid.axes) if selection.empty else selection.kept
        return [
            Extent(dim, axis.length, [axis.bounds(b)[0] for b in range(len(axis))] + [axis.length], runs(positions))
            for dim, axis, positions in zip(self.table.dims, grid.axes, kept, strict=True)
        ]

    def stream(self, columns: Sequence[str], where: Sequence[Predicate]) -> pa.RecordBatchReader:
        """The kept rows. Coordinates are read at once, data as the reader is pulled, a few blocks ahead."""
        return self.watched(columns, where, None)

    def watched(self, columns: Sequence[str], where: Sequence[Predicate], watch: Watch | None) -> pa.RecordBatchReader:
        """The same as `stream`; a scan that loads no block is not watched."""
        now = options.current(**self._settings)
        chosen = [self._columns[c] for c in columns]
        selection = select(self.table, where)
        arrays = _arrays(chosen)
        grid = self._grid(arrays, now)
        shape = tuple(min(count(p), max(1, a.widest)) for p, a in zip(selection.kept, grid.axes, strict=True))
        layout = Layout(self.table, chosen, now.batch_rows if arrays else max(now.batch_rows, _COORDINATE_ROWS), shape)
        width = sum(a.itemsize for a in arrays)
        seen = _Seen(watch, width) if watch is not None and width and not selection.empty else None
        blocks = self._loaded(layout, grid, selection, width, now, seen)
        if seen is not None:
            cells = math.prod(count(p) for p in selection.kept)
            blocks = seen.through(blocks, grid.touched(selection.kept), width * cells)
        return pa.RecordBatchReader.from_batches(layout.schema, _batches(layout, blocks))

    def chunk_shape(self) -> tuple[int, ...]:
        """The lengths of a block where all data columns are asked for, along each dimension."""
        return tuple(max(1, a.widest) for a in self.full_grid().axes)

    def full_grid(self) -> Grid:
        """The block grid where all columns are asked for."""
        return self._grid(_arrays(self.table.columns), options.current(**self._settings))

    def _grid(self, arrays: Sequence[Chunking], now: Options) -> Grid:
        target = max(1, min(now.block_bytes, now.memory_budget // 8))
        return lay(self.table.dims, self.table.shape, arrays, target)

    def _regions(
        self, grid: Grid, selection: Selection, seen: _Seen | None = None
    ) -> Iterator[tuple[tuple[Positions, ...], np.ndarray | None]]:
        """The regions to load, each with a mask where not all of its cells are kept."""
        if selection.empty:
            return
        for region in grid.walk(selection.kept):
            keep = rows_kept(self.table, selection, region)
            if keep is None:
                yield region, None
            elif keep.any():
                yield hull_of(region, keep)
            elif seen is not None:
                seen.skip()

    def _loaded(
        self, layout: Layout, grid: Grid, selection: Selection, width: int, now: Options, seen: _Seen | None
    ) -> Iterator[Block]:
        regions = self._regions(grid, selection, seen)
        if not width:
            return (load_block(layout, region, keep) for region, keep in regions)

        def task(region: tuple[Positions, ...], keep: np.ndarray | None) -> Task[Block]:
            # Stored values and their Arrow form are in memory together.
            nbytes = 2 * width * math.prod(count(p) for p in region)
            return Task(lambda: load_block(layout, region, keep), nbytes)

        return ahead((task(region, keep) for region, keep in regions), now)


class _Seen:
    """The blocks of one stream on their way, told to a watch."""

    def __init__(self, watch: Watch, width: int) -> None:
        self._watch = watch
        self._width = width

    def skip(self) -> None:
        """A block of the hull that holds no kept cell."""
        self._watch.advance(1, 0)

    def through(self, blocks: Iterator[Block], total: int, nbytes: int) -> Generator[Block]:
        """The same blocks."""
        self._watch.begin(total, nbytes)
        try:
            for block in blocks:
                self._watch.advance(1, self._width * math.prod(count(p) for p in block.region))
                yield block
        finally:
            if isinstance(blocks, Generator):
                blocks.close()
            self._watch.end()


def _batches(layout: Layout, blocks: Iterator[Block]) -> Iterator[pa.RecordBatch]:
    try:
        for block in blocks:
            yield from layout.batches(block)
    finally:
        if isinstance(blocks, Generator):
            blocks.close()


def _arrays(columns: Sequence[Column]) -> list[Chunking]:
    """What has to be loaded block by block."""
    return [
        Chunking(c.array.chunks, c.array.itemsize)
        for c in {c.name: c for c in columns}.values()
        if c.array is not None and not c.array.kept and not (c.array.in_memory and c.role != "data" and len(c.dims) < 2)
    ]


def _field(column: Column) -> pa.Field:
    metadata = {ROLE: column.role.encode()}
    if column.comment:
        metadata[COMMENT] = column.comment.encode()
    return pa.field(column.name, type_of(column), metadata=metadata)
