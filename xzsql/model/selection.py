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
    start: tuple[int, ...]
    """The position of the first cell along each; nothing outside the mask is kept."""
    cells: np.ndarray
    """bool"""

    def at(self, region: Mapping[str, Positions]) -> np.ndarray:
        """The mask over the region's positions, which lie inside."""
        index = [as_array(region[d]) - first for d, first in zip(self.dims, self.start, strict=True)]
        found: np.ndarray = self.cells[np.ix_(*index)]
        return found


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
    by_dims: dict[tuple[str, ...], list[Predicate]] = {}
    for predicate in where:
        for conjunct in _conjuncts(predicate):
            by_dims.setdefault(_dims_of(table, conjunct), []).append(conjunct)
    kept: dict[str, Positions] = {d: slice(0, n) for d, n in table.sizes.items()}
    masks: list[Mask] = []
    residual: list[Predicate] = []
    # Few dimensions first: what they drop need not be looked at by the predicates over more.
    for dims, terms in sorted(by_dims.items(), key=lambda item: len(item[0])):
        together = terms[0] if len(terms) == 1 else And(tuple(terms))
        if not dims:
            if not bool(_over(table, together, (), {}).true):
                return Selection(tuple(kept.values()), never=True)
        elif len(dims) == 1:
            kept[dims[0]] = _positions(table, terms, dims[0])
        else:
            masks += _masked(table, together, dims, kept, residual)
    positions = tuple(kept[d] for d in table.dims)
    return Selection(positions, tuple(m for m in masks if not m.at(kept).all()), tuple(residual))


def _positions(table: Table, terms: Sequence[Predicate], dim: str) -> Positions:
    """The positions along one dimension where all terms are true."""
    low, high = 0, table.sizes[dim]
    rest: list[Predicate] = []
    for term in terms:
        if isinstance(term, Compare) and term.op != "!=" and table.column(term.column).array is None:
            # On positions themselves a comparison is a range: nothing as long as the axis is made.
            at = int(term.value)  # type: ignore[arg-type]  # a constant of the column's type, BIGINT
            low = max(low, {"=": at, ">": at + 1, ">=": at}.get(term.op, low))
            high = min(high, {"=": at + 1, "<": at, "<=": at + 1}.get(term.op, high))
        else:
            rest.append(term)
    if low >= high:
        return slice(0, 0)
    if not rest:
        return slice(low, high)
    true = _over(table, And(tuple(rest)), (dim,), {dim: slice(low, high)}).true
    found = compact(np.flatnonzero(np.broadcast_to(true, high - low)))
    return slice(found.start + low, found.stop + low) if isinstance(found, slice) else found + low


def _masked(
    table: Table,
    predicate: Predicate,
    dims: tuple[str, ...],
    kept: dict[str, Positions],
    residual: list[Predicate],
) -> list[Mask]:
    """The mask of a predicate over several dimensions; `kept` shrinks to its hull. Too large a mask is a residual."""
    hull = {d: _span(kept[d]) for d in dims}
    sizes = [count(hull[d]) for d in dims]
    if math.prod(sizes) > _LARGEST_MASK:
        residual.append(predicate)
        for d in dims:
            kept[d] = _among(kept[d], hull[d].start, _hull(table, predicate, d)[hull[d]])
        return []
    cells = np.broadcast_to(_over(table, predicate, dims, hull).true, sizes)
    inside = np.ix_(*[as_array(kept[d]) - hull[d].start for d in dims])
    for i, d in enumerate(dims):
        found = np.zeros(sizes[i], bool)
        found[inside[i].ravel()] = cells[inside].any(axis=tuple(j for j in range(len(dims)) if j != i))
        kept[d] = _among(kept[d], hull[d].start, found)
    return [Mask(dims, tuple(hull[d].start for d in dims), cells)]


def _span(positions: Positions) -> slice:
    """From the first position to the last."""
    if isinstance(positions, slice):
        return positions
    return slice(int(positions[0]), int(positions[-1]) + 1) if len(positions) else slice(0, 0)


def _among(positions: Positions, start: int, true: np.ndarray) -> Positions:
    """The positions at which a mask beginning at `start` is true."""
    each = as_array(positions)
    return compact(each[true[each - start]])


def rows_kept(table: Table, selection: Selection, region: Sequence[Positions]) -> np.ndarray | None:
    """Which cells of a block are kept: a mask over its positions, or None where all are."""
    if selection.is_product:
        return None
    here = dict(zip(table.dims, region, strict=True))
    shape = tuple(count(p) for p in region)
    keep = np.ones(shape, bool)
    for mask in selection.masks:
        keep &= _spread(mask.at(here), mask.dims, table.dims)
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
