"""From key columns to axes: the distinct keys, their order, and the position of every row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import xarray as xr

from xzsql.errors import UnsupportedError
from xzsql.model.rows import Rows, as_values
from xzsql.model.table import Column

#: Numbers of cells up to this many times the rows are counted in an array, more in a hash table.
_COUNTED = 8
#: Rows in a run, on average, from which on only the first of each run is looked up.
_SHORT_RUN = 4
_LARGEST = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A key column as numbers into its sorted distinct values."""

    codes: np.ndarray
    distinct: Rows
    """Without categories: text is objects. A NULL has the number after the last."""
    nulls: bool

    @property
    def size(self) -> int:
        """How many codes there can be."""
        return len(self.distinct.values) + self.nulls


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """One dimension of the result."""

    dim: str
    codes: np.ndarray
    """The position of each row."""
    size: int
    coords: xr.Dataset
    """Its coordinates, as a dataset without variables; nothing for positions."""
    whole: bool = False
    """Whether it is the axis of the template, from end to end."""


def coded(rows: Rows, name: str) -> Coded:
    """Number the distinct values of a column in their order; NaN is the last, and 0.0 is -0.0."""
    values, valid = rows.values, rows.valid
    if rows.kind in "OcV":
        raise UnsupportedError(f"column {name!r} cannot be a dimension: its type has no order; pass other dims=")
    if valid is None and rows.kind in "iumM" and len(values) and bool((values[1:] > values[:-1]).all()):
        return Coded(np.arange(len(values)), Rows(values, None), False)
    if rows.categories is not None:
        codes, found = values.astype(np.int64), rows.categories
    else:
        codes, found = _numbered(values)
    used = np.zeros(len(found), bool)
    used[codes if valid is None else codes[valid]] = True
    distinct, numbers = np.unique(found[used], return_inverse=True)
    table = np.zeros(len(found), np.int64)
    table[used] = numbers.reshape(-1)
    codes = table[codes]
    if valid is not None:
        codes[~valid] = len(distinct)
    return Coded(codes, Rows(distinct, None), valid is not None and not valid.all())


def _numbered(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers into the distinct values, which are in any order and may have some that no row has."""
    starts = np.flatnonzero(values[1:] != values[:-1]) + 1
    if len(starts) < len(values) // _SHORT_RUN:
        starts = np.concatenate([np.zeros(min(1, len(values)), np.int64), starts])
        codes, found = _hashed(values[starts])
        return np.repeat(codes, np.diff(starts, append=len(values))), found
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < _COUNTED * len(values):
            # Both wrap around in the type itself, and end where they should.
            first, unsigned = values.dtype.type(low), f"u{values.dtype.itemsize}"
            return (values - first).view(unsigned).astype(np.int64), np.arange(high - low + 1).astype(
                values.dtype
            ) + first
    return _hashed(values)


def _hashed(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    plain = values.view(np.int64) if values.dtype.kind in "mM" else np.ascontiguousarray(values)
    encoded = pc.dictionary_encode(pa.array(plain))
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, np.asarray(encoded.dictionary).view(values.dtype)


def combined(columns: Sequence[Coded], count: int) -> tuple[np.ndarray, int]:
    """One number for each row's combination, and how many numbers there can be; ordered as the columns are."""
    if not columns:
        return np.zeros(count, np.int64), 1
    codes, size = columns[0].codes, columns[0].size
    for column in columns[1:]:
        if size * max(1, column.size) > _LARGEST:
            found = np.unique(codes, return_inverse=True)
            codes, size = found[1].reshape(-1), len(found[0])
        codes = codes * column.size + column.codes
        size *= column.size
    return codes, size


def distinct_count(codes: np.ndarray, size: int) -> int:
    """How many of the numbers occur."""
    if size <= _COUNTED * len(codes) + 2**20:
        seen = np.zeros(size, bool)
        seen[codes] = True
        return int(np.count_nonzero(seen))
    return len(pc.unique(pa.array(codes)))


def axis_of(
    dim: str, keys: Sequence[Coded], names: Sequence[str], known: Sequence[Column], template: xr.Dataset | None
) -> Axis:
    """The axis of one dimension.

    Its order is that of the template, if that has every key exactly once; else the keys are sorted, downward if the
    template is.

    Parameters
    ----------
    dim
        Its name.
    keys
        Its key column, or the levels of its MultiIndex.
    names
        Of the coordinates that these become.
    known
        The columns of the template's table for these; empty where it has none.
    template
        The dataset of these columns.
    """
    count = len(keys[0].codes)
    codes, size = combined(keys, count)
    numbers = np.arange(size) if len(keys) == 1 else np.unique(codes)
    if template is not None and known:
        levels = [_template_values(c, template) for c in known]
        found = _matched(dim, keys, codes, numbers, levels, template, position=known[0].array is None)
        if found is not None:
            return found
    else:
        levels = []
    rank = np.arange(len(numbers))
    if len(keys) == 1 and levels and _falls(levels[0]):
        numbers, rank = numbers[::-1], rank[::-1]
    if len(keys) > 1:
        codes = np.searchsorted(numbers, codes)
    found_keys = _split(numbers, keys)
    return Axis(dim, rank[codes] if count else codes, len(numbers), _coordinates(dim, names, found_keys, template))


def _template_values(column: Column, template: xr.Dataset) -> Rows:
    """The values along the axis of a key column, as they are in SQL."""
    if column.array is None:
        return Rows(np.arange(template.sizes[column.dims[0]]), None)
    cells = column.array.load({})
    values, valid = cells.values, cells.valid
    if column.array.categories is not None:
        values = column.array.categories.to_numpy(zero_copy_only=False)[
            np.where(valid, values, 0) if valid is not None else values
        ]
    return Rows(values, valid)


def _falls(rows: Rows) -> bool:
    values = rows.values
    return rows.valid is None and len(values) > 1 and rows.kind in "iufmM" and bool((values[1:] < values[:-1]).all())


def _matched(
    dim: str,
    keys: Sequence[Coded],
    codes: np.ndarray,
    numbers: np.ndarray,
    levels: Sequence[Rows],
    template: xr.Dataset,
    *,
    position: bool,
) -> Axis | None:
    """The part of the template's axis that has these keys; None if it lacks one or has one twice."""
    length = template.sizes[dim]
    there, size = np.zeros(length, np.int64), 1
    for key, level in zip(keys, levels, strict=True):
        found = _numbers_in(key.distinct.values, level)
        if found is None:
            return None
        there = np.where((there < 0) | (found < 0), -1, there * key.size + found)
        size *= key.size
    # Nothing says which part of an axis a table without cells would have: all of it.
    kept = np.arange(length) if not len(codes) and 0 in template.sizes.values() else np.flatnonzero(there >= 0)
    if len(codes) and (len(kept) != len(numbers) or not np.array_equal(np.sort(there[kept]), numbers)):
        return None
    lookup = np.zeros(max(1, len(numbers)), np.int64)
    if len(codes):
        lookup[np.searchsorted(numbers, there[kept])] = np.arange(len(kept))
    whole = len(kept) == length
    if position:
        values = {} if whole else {dim: (dim, kept)}
        coords = xr.Dataset(coords=values)
    else:
        owned = set(template.xindexes.get_all_coords(dim)) if dim in template.xindexes else {dim}
        coords = template.drop_vars([n for n in template.variables if n not in owned])
        coords = coords if whole else coords.isel({dim: kept})
    at = codes if len(keys) == 1 else np.searchsorted(numbers, codes)
    return Axis(dim, lookup[at], len(kept), coords, whole)


def _numbers_in(distinct: np.ndarray, level: Rows) -> np.ndarray | None:
    """Where in the sorted `distinct` each value stands, -1 where it is not; None if they cannot be compared."""
    values = level.values
    if values.dtype.kind != distinct.dtype.kind and not (values.dtype.kind in "iu" and distinct.dtype.kind in "iu"):
        return None if len(distinct) else np.full(len(values), -1)
    if not len(distinct):
        return np.full(len(values), -1)
    if level.valid is not None and values.dtype.kind == "O":
        values = values.copy()
        values[~level.valid] = ""
    at = np.minimum(np.searchsorted(distinct, values), len(distinct) - 1)
    equal = distinct[at] == values
    if values.dtype.kind == "f":
        equal |= np.isnan(distinct[at]) & np.isnan(values)
    if level.valid is not None:
        equal &= level.valid
    return np.where(equal, at, -1)


def _split(numbers: np.ndarray, keys: Sequence[Coded]) -> list[Rows]:
    """The values of each key column for these combinations."""
    if len(keys) == 1:
        return [keys[0].distinct.at(numbers)]
    at = np.unravel_index(numbers, [k.size for k in keys]) if math.prod(k.size for k in keys) else [numbers] * len(keys)
    return [k.distinct.at(i) for k, i in zip(keys, at, strict=True)]


def _coordinates(dim: str, names: Sequence[str], keys: Sequence[Rows], template: xr.Dataset | None) -> xr.Dataset:
    """New coordinates, with the types and attributes that the template's have."""
    made: list[xr.Variable] = []
    for name, key in zip(names, keys, strict=True):
        before = template.variables.get(name) if template is not None else None
        like = before.dtype if before is not None and before.ndim == 1 else None
        if like == np.dtype(object) and key.values.dtype != object:
            like = None
        values: Any = _as_coordinate(key, like)
        made.append(xr.Variable((dim,), values, dict(before.attrs) if before is not None else {}))
    if len(made) == 1:
        return xr.Dataset(coords={dim: made[0]})
    index = pd.MultiIndex.from_arrays([v.values for v in made], names=list(names))
    return xr.Dataset(coords=xr.Coordinates.from_pandas_multiindex(index, dim))


def _as_coordinate(key: Rows, like: Any) -> Any:
    if key.values.dtype == object:
        key = Rows(np.arange(len(key.values)), None, key.values)
    return as_values(key, like)
