"""From predicates on coordinates to the cells that a scan keeps.

Conjuncts that depend on one dimension become kept positions along it, in one pass over the coordinate. Those on
several dimensions (`lat = 3 OR lon = 2`, a box on `lat(y, x)`) become a mask over these dimensions and its hull, the
positions that hold at least one kept cell. Where that mask, or the coordinate itself, would be too large to hold,
there is a hull only and the rest is evaluated block by block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xzsql.ir.predicate import And, Compare, In, IsNull, Predicate, columns_of, walk
from xzsql.model.evaluate import Operand, Truth, leaf_truth, truth
from xzsql.model.grid import as_array, compact, count
from xzsql.model.table import Cells, Column, Positions, Table

#: Cells of a mask, or values of a coordinate read whole for its hull.
_LARGEST_MASK = 2**24


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """Which cells over some of the table's dimensions are kept."""

    dims: tuple[str, ...]
    """In the table's order."""
    cells: np.ndarray
    """bool, over the full length of these dimensions."""


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The cells that a scan keeps: kept positions, and among these the cells where masks and residual hold."""

    kept: tuple[Positions, ...]
    """For each dimension of the table; a superset of what is kept, and all of it where there is no mask or residual."""
    masks: tuple[Mask, ...] = ()
    residual: tuple[Predicate, ...] = ()
    never: bool = False
    """A predicate on scalar coordinates is not true: no cell is kept."""

    @property
    def empty(self) -> bool:
        """Whether no cell is kept."""
        return self.never or any(count(p) == 0 for p in self.kept)

    @property
    def is_product(self) -> bool:
        """Whether the kept cells are exactly the product of the kept positions."""
        return not self.masks and not self.residual


@dataclass(frozen=True, slots=True, eq=False)
class _Positional:
    values: np.ndarray
    valid: None = None


def cells_of(column: Column, region: Mapping[str, Positions], sizes: Mapping[str, int]) -> Cells:
    """The values of a coordinate or position column at these positions; a dimension not named is whole."""
    if column.array is not None:
        return column.array.load({d: p for d, p in region.items() if d in column.dims})
    (dim,) = column.dims
    return _Positional(as_array(region.get(dim, slice(0, sizes[dim]))).astype(np.int64, copy=False))


def accepts(table: Table, predicate: Predicate) -> bool:
    """Whether the predicate is about coordinates alone, of types that compare here exactly as in DuckDB."""
    known = {c.name: c for c in table.columns if c.role != "data"}
    return all(name in known for name in columns_of(predicate))


def select(table: Table, where: Iterable[Predicate]) -> Selection:
    """The cells of the table where all predicates are true. Reads coordinates, never data."""
    full: list[Positions] = [slice(0, n) for n in table.shape]
    conjuncts = [c for p in where for c in _conjuncts(p)]
    if not conjuncts:
        return Selection(tuple(full))
    by_dims: dict[tuple[str, ...], list[Predicate]] = {}
    for conjunct in conjuncts:
        by_dims.setdefault(_dims_of(table, conjunct), []).append(conjunct)
    masks: list[Mask] = []
    residual: list[Predicate] = []
    kept: dict[str, list[np.ndarray]] = {d: [] for d in table.dims}
    for dims, terms in sorted(by_dims.items(), key=lambda item: len(item[0])):
        predicate = terms[0] if len(terms) == 1 else And(tuple(terms))
        if len(dims) == 0:
            if not bool(_over(table, predicate, (), {}).true):
                return Selection(tuple(full), never=True)
        elif _too_large(table, dims):
            residual.append(predicate)
            for d in dims:
                kept[d].append(_hull(table, predicate, d))
        else:
            cells = np.broadcast_to(_over(table, predicate, dims, {}).true, [table.sizes[d] for d in dims])
            for i, d in enumerate(dims):
                kept[d].append(cells.any(axis=tuple(j for j in range(len(dims)) if j != i)))
            if len(dims) > 1 and not cells.all():
                masks.append(Mask(dims, cells))
    positions = tuple(
        compact(np.flatnonzero(np.logical_and.reduce(kept[d]))) if kept[d] else whole
        for d, whole in zip(table.dims, full, strict=True)
    )
    return Selection(positions, tuple(m for m in masks if not _whole(m, table, positions)), tuple(residual))


def rows_kept(table: Table, selection: Selection, region: Sequence[Positions]) -> np.ndarray | None:
    """Which cells of a block are kept: a mask over its positions, or None where all are."""
    if selection.is_product:
        return None
    here = dict(zip(table.dims, region, strict=True))
    shape = tuple(count(p) for p in region)
    keep = np.ones(shape, bool)
    for mask in selection.masks:
        index = np.ix_(*[as_array(here[d]) for d in mask.dims])
        keep &= _spread(mask.cells[index], mask.dims, table.dims)
    for predicate in selection.residual:
        if keep.any():
            keep &= _over(table, predicate, table.dims, here).true
    return None if keep.all() else keep


def _conjuncts(predicate: Predicate) -> list[Predicate]:
    """The terms of a top-level AND, flattened."""
    found: list[Predicate] = []
    pending = [predicate]
    while pending:
        node = pending.pop()
        if isinstance(node, And):
            pending.extend(reversed(node.terms))
        else:
            found.append(node)
    return found


def _dims_of(table: Table, predicate: Predicate) -> tuple[str, ...]:
    names = columns_of(predicate)
    mentioned = {d for c in table.columns if c.name in names for d in c.dims}
    return tuple(d for d in table.dims if d in mentioned)


def _over(table: Table, predicate: Predicate, dims: Sequence[str], region: Mapping[str, Positions]) -> Truth:
    """The predicate over these dimensions in this order, restricted to the region; the masks broadcast to it."""
    operands: dict[str, Operand] = {}

    def leaf(node: Compare | In | IsNull) -> Truth:
        column = table.column(node.column)
        if node.column not in operands:
            cells = cells_of(column, region, table.sizes)
            operands[node.column] = Operand(cells, _categories(column))
        found = leaf_truth(node, operands)
        own = column.array.dims if column.array is not None else column.dims
        return Truth(_spread(found.true, own, dims), _spread(found.false, own, dims))

    return truth(predicate, leaf)


def _categories(column: Column) -> np.ndarray | None:
    """What the codes of a categorical stand for."""
    if column.array is None or column.array.categories is None:
        return None
    return np.array(column.array.categories.to_pylist(), dtype=object)


def _spread(cells: np.ndarray, own: Sequence[str], dims: Sequence[str]) -> np.ndarray:
    """An array over its own dimensions, as a view that broadcasts against `dims`."""
    order = [own.index(d) for d in dims if d in own]
    shape = [cells.shape[own.index(d)] if d in own else 1 for d in dims]
    return cells.transpose(order).reshape(shape)


def _too_large(table: Table, dims: Sequence[str]) -> bool:
    return len(dims) > 1 and math.prod(table.sizes[d] for d in dims) > _LARGEST_MASK


def _hull(table: Table, predicate: Predicate, dim: str) -> np.ndarray:
    """Where along one dimension the predicate may be true: exact for leaves on this dimension alone."""
    names = {leaf.column for leaf in walk(predicate)}
    small = {n for n in names if math.prod(table.sizes[d] for d in table.column(n).dims) <= _LARGEST_MASK}
    projected: dict[Compare | In | IsNull, Truth] = {}

    def leaf(node: Compare | In | IsNull) -> Truth:
        column = table.column(node.column)
        if node.column not in small:
            return Truth(np.ones(1, bool), np.ones(1, bool))
        if node not in projected:
            found = _over(table, node, column.dims, {})
            axes = tuple(i for i, d in enumerate(column.dims) if d != dim)
            shape = [table.sizes[d] for d in column.dims]
            true = np.broadcast_to(found.true, shape).any(axis=axes)
            false = np.broadcast_to(found.false, shape).any(axis=axes)
            projected[node] = Truth(np.atleast_1d(true), np.atleast_1d(false))
        return projected[node]

    return np.broadcast_to(truth(predicate, leaf).true, table.sizes[dim])


def _whole(mask: Mask, table: Table, kept: Sequence[Positions]) -> bool:
    """Whether the mask keeps every cell of the kept positions, as `lat = 3 AND lon = 2` written as one node would."""
    here = dict(zip(table.dims, kept, strict=True))
    return bool(mask.cells[np.ix_(*[as_array(here[d]) for d in mask.dims])].all())
