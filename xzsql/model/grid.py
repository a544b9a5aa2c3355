"""The block grid: how the cells of a table are cut into loads.

A block is a product of ranges, one for each dimension. Along a dimension the cuts follow the storage chunks of the
columns asked for: never through a chunk, several small chunks together, unchunked arrays where it suits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xzsql.model.table import Positions


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """One dimension, cut into consecutive ranges: all of `step` but the last, or at `edges`."""

    length: int
    step: int
    edges: np.ndarray | None = None
    """Start of every range and the end of the last, where they are not regular."""

    def __len__(self) -> int:
        if self.edges is not None:
            return len(self.edges) - 1
        return math.ceil(self.length / self.step)

    @property
    def widest(self) -> int:
        """Length of the longest range."""
        return self.step if self.edges is None else _widest(self.edges)

    def bounds(self, block: int) -> tuple[int, int]:
        """Start and stop of one range."""
        if self.edges is not None:
            return int(self.edges[block]), int(self.edges[block + 1])
        return block * self.step, min(self.length, (block + 1) * self.step)

    def blocks_of(self, positions: Positions) -> range | list[int]:
        """The ranges that hold at least one of the positions."""
        if isinstance(positions, slice):
            if positions.stop <= positions.start:
                return range(0)
            return range(self._at(positions.start), self._at(positions.stop - 1) + 1)
        if self.edges is not None:
            found = np.searchsorted(self.edges, positions, side="right") - 1
        else:
            found = positions // self.step
        return [int(b) for b in np.unique(found)]

    def _at(self, position: int) -> int:
        if self.edges is not None:
            return int(np.searchsorted(self.edges, position, side="right")) - 1
        return position // self.step


def part_of(positions: Positions, start: int, stop: int) -> Positions:
    """The positions inside start..stop; consecutive ones as a slice, since slices load and view without a copy."""
    if isinstance(positions, slice):
        return slice(max(positions.start, start), min(positions.stop, stop))
    low, high = np.searchsorted(positions, (start, stop))
    return compact(positions[low:high])


def compact(positions: np.ndarray) -> Positions:
    """Sorted distinct positions, as a slice if they are consecutive."""
    if not len(positions):
        return slice(0, 0)
    first, last = int(positions[0]), int(positions[-1])
    return slice(first, last + 1) if last - first + 1 == len(positions) else positions


def count(positions: Positions) -> int:
    """How many positions."""
    return max(0, positions.stop - positions.start) if isinstance(positions, slice) else len(positions)


def runs(positions: Positions) -> list[tuple[int, int]]:
    """The positions as runs of consecutive ones, each with its start and stop."""
    if isinstance(positions, slice):
        return [(positions.start, positions.stop)] if count(positions) else []
    ends = np.flatnonzero(np.diff(positions) != 1)
    starts = positions[np.concatenate([[0], ends + 1])]
    stops = positions[np.concatenate([ends, [len(positions) - 1]])] + 1
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def as_array(positions: Positions) -> np.ndarray:
    """The positions one by one."""
    return np.arange(positions.start, positions.stop) if isinstance(positions, slice) else positions


def shifted(positions: Positions, start: int) -> Positions:
    """The positions counted from `start`."""
    if isinstance(positions, slice):
        return slice(positions.start - start, positions.stop - start)
    return positions - start


@dataclass(frozen=True, slots=True)
class Chunking:
    """How one array is stored, for laying the grid."""

    chunks: Mapping[str, int | tuple[int, ...]]
    itemsize: int


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The block grid of a table for the columns that a scan asks for."""

    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        return math.prod(len(a) for a in self.axes)

    def walk(self, kept: Sequence[Positions]) -> Iterator[tuple[Positions, ...]]:
        """For every block with a kept position, in row-major order, the kept positions along each dimension."""
        blocks = [axis.blocks_of(p) for axis, p in zip(self.axes, kept, strict=True)]
        yield from self._walk(0, blocks, kept, ())

    def _walk(
        self, d: int, blocks: list[range | list[int]], kept: Sequence[Positions], outer: tuple[Positions, ...]
    ) -> Iterator[tuple[Positions, ...]]:
        if d == len(self.axes):
            yield outer
            return
        for b in blocks[d]:
            yield from self._walk(d + 1, blocks, kept, (*outer, part_of(kept[d], *self.axes[d].bounds(b))))

    def touched(self, kept: Sequence[Positions]) -> int:
        """How many blocks `walk` would give."""
        return math.prod(len(axis.blocks_of(p)) for axis, p in zip(self.axes, kept, strict=True))


def lay(dims: Sequence[str], shape: Sequence[int], arrays: Sequence[Chunking], target: int) -> Grid:
    """The grid for these arrays, with blocks of about `target` bytes over all of them.

    `dims` and `shape` are the table's. Without arrays there is nothing to load and the grid is one block.
    """
    if not arrays or 0 in shape:
        return Grid(tuple(Axis(n, max(1, n)) for n in shape))
    cells = max(1, target // sum(a.itemsize for a in arrays))
    units = [_unit(d, n, arrays, aligned=True) for d, n in zip(dims, shape, strict=True)]
    if math.prod(u.widest for u in units) > cells:
        # Chunks of 7 beside 13 meet only at 91: where that is too much, a chunk that straddles is decoded twice.
        units = [_unit(d, n, arrays, aligned=False) for d, n in zip(dims, shape, strict=True)]
    return Grid(tuple(_sized(shape, units, cells)))


@dataclass(frozen=True, slots=True)
class _Unit:
    """The smallest cut along one dimension: a step that no chunk crosses, or edges."""

    step: int
    edges: np.ndarray | None = None

    @property
    def widest(self) -> int:
        return self.step if self.edges is None else _widest(self.edges)


def _unit(dim: str, length: int, arrays: Sequence[Chunking], *, aligned: bool) -> _Unit:
    steps: set[int] = set()
    edges: np.ndarray | None = None
    for array in arrays:
        chunk = array.chunks.get(dim)
        if isinstance(chunk, tuple):
            own = np.concatenate([[0], np.cumsum(chunk)]).astype(np.intp)
            # Cutting at the edges common to all crosses no chunk of any.
            edges = own if edges is None else np.intersect1d(edges, own)
        elif chunk is not None:
            steps.add(min(chunk, length))
    if edges is not None:
        for step in steps:
            edges = edges[(edges % step == 0) | (edges == length)]
        return _Unit(0, edges)
    if not steps:
        return _Unit(1)
    return _Unit(min(math.lcm(*steps), length) if aligned else max(steps))


def _sized(shape: Sequence[int], units: Sequence[_Unit], cells: int) -> list[Axis]:
    """Merge units, fastest dimension first, while a block stays under `cells`."""
    smallest = [u.widest for u in units]
    rest = cells // max(1, math.prod(smallest))
    axes: list[Axis] = []
    for n, unit, least in zip(reversed(shape), reversed(units), reversed(smallest), strict=True):
        whole = -(-n // least)
        times = max(1, min(rest, whole))
        if unit.edges is not None:
            axes.append(Axis(n, 0, _merged(unit.edges, least * times)))
        else:
            axes.append(Axis(n, min(n, least * times)))
        # A dimension that stays cut ends the merging: a block beyond it would not be one run of rows.
        rest = max(1, rest // whole) if times == whole else 1
    return axes[::-1]


def _widest(edges: np.ndarray) -> int:
    return int(np.diff(edges).max())


def _merged(edges: np.ndarray, width: int) -> np.ndarray:
    """Every edge that a greedy walk in steps of at most `width` needs."""
    kept = [0]
    while kept[-1] < len(edges) - 1:
        here = int(edges[kept[-1]])
        kept.append(max(kept[-1] + 1, int(np.searchsorted(edges, here + width, side="right")) - 1))
    merged: np.ndarray = edges[np.array(kept)]
    return merged
