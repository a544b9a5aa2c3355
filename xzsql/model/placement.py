"""The cells of the grid that the rows of a result are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xzsql.errors import InvalidInputError
from xzsql.model.axes import Axis
from xzsql.model.keys import Key, KeyColumns
from xzsql.model.rows import Rows, same

#: Cells that a grid may have without being asked for: this many, or so many a row.
_FREE_CELLS = 10**7
_CELLS_PER_ROW = 10


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where the rows are in the grid."""

    axes: Sequence[Axis]
    cells: np.ndarray | None
    """The cell of each row; None: the rows are the cells in row-major order."""
    full: bool
    """Whether every cell has a row."""

    @classmethod
    def of(cls, axes: Sequence[Axis], columns: KeyColumns, keys: Sequence[Key], max_cells: int | None) -> Placement:
        """Where every row goes; refused are two rows in one cell, and more cells than are allowed."""
        rows, size = int(columns.table.num_rows), math.prod(a.size for a in axes)
        allowed = max(_CELLS_PER_ROW * rows, _FREE_CELLS) if max_cells is None else max_cells
        if size > allowed:
            lengths = " x ".join(f"{a.dim}={a.size:,}" for a in axes)
            raise InvalidInputError(
                f"{rows:,} rows would make a grid of {lengths} = {size:,} cells, and {allowed:,} are allowed: "
                f"take the rows as .df() or .arrow(), name fewer columns in dims=, or pass max_cells={size}"
            )
        cells = _cells(axes, rows)
        if rows == size and bool((cells == np.arange(size)).all()):
            return cls(axes, None, True)
        seen = np.zeros(size, bool)
        seen[cells] = True
        if np.count_nonzero(seen) != rows:
            raise columns.repeated([n for k in keys for n in k.columns], cells)
        return cls(axes, cells, rows == size)

    @property
    def dims(self) -> tuple[str, ...]:
        """The dimensions, slowest first."""
        return tuple(a.dim for a in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each."""
        return tuple(a.size for a in self.axes)

    def placed(self, rows: Rows) -> Rows:
        """One value for each cell."""
        if self.cells is None:
            return rows.reshaped(self.shape)
        return _scattered(rows, self.cells, self.shape, full=self.full)

    def reduced(self, rows: Rows, own: tuple[str, ...]) -> tuple[tuple[str, ...], Rows]:
        """The values over some dimensions alone, if they do not vary along the others; else over all."""
        if not set(own) < set(self.dims) or rows.kind == "O" or 0 in self.shape:
            return self.dims, self.placed(rows)
        kept = [a for a in self.axes if a.dim in own]
        dims, shape = tuple(a.dim for a in kept), tuple(a.size for a in kept)
        if self.cells is None:
            whole = rows.reshaped(self.shape)
            first = whole.at(tuple(slice(None) if a in kept else slice(0, 1) for a in self.axes))
            return (dims, first.reshaped(shape)) if same(whole, first) else (self.dims, whole)
        cells = _cells(kept, len(rows.values))
        found = _scattered(rows, cells, shape, full=False)
        if same(rows, found.reshaped((-1,)).at(cells)):
            return dims, found
        return self.dims, self.placed(rows)


def _cells(axes: Sequence[Axis], rows: int) -> np.ndarray:
    """The number of each row's cell, in row-major order."""
    cells = axes[0].codes.copy() if axes else np.zeros(rows, np.int64)
    for axis in axes[1:]:
        cells *= axis.size
        cells += axis.codes
    return cells


def _scattered(rows: Rows, cells: np.ndarray, shape: tuple[int, ...], *, full: bool) -> Rows:
    size = math.prod(shape)
    values = np.zeros(size, rows.values.dtype)
    values[cells] = rows.values
    valid = None
    if not full or rows.valid is not None:
        valid = np.zeros(size, bool)
        valid[cells] = True if rows.valid is None else rows.valid
    return Rows(values, valid, rows.categories).reshaped(shape)
