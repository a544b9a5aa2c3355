"""From groups of variables to tables: one table for every set of dimensions of every group, with its names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pandas as pd
import xarray as xr

from xzsql.errors import UnsupportedError
from xzsql.model.decode import DecodeOptions, decoder_for
from xzsql.model.lazy import DecodedVariable, Place
from xzsql.model.roles import described, metadata_variables
from xzsql.model.table import Column, LeftOut, Role, Table, folded

ROOT = "/"
#: Names that mean something else where a table's would stand.
_RESERVED_TABLES = frozenset({"self", "scalar"})
_RESERVED_SCHEMAS = frozenset({"main", "temp", "system", "information_schema", "pg_catalog"})


@dataclass(slots=True, eq=False)
class Split:
    """The tables of some groups, and what is in none of them."""

    tables: list[Table] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    """For each column whose SQL name had to differ, a sentence that says so."""


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """One group with what it inherits."""

    path: str
    dataset: xr.Dataset
    ancestors: tuple[xr.Dataset, ...]
    """From the root to the parent."""
    inherited: Mapping[str, xr.Variable]
    """Index coordinates of the ancestors that the group does not redefine."""
    levels: Mapping[str, tuple[str, ...]]
    """The level names of each dimension with a MultiIndex."""
    misaligned: str
    """What disagrees with an ancestor; empty where nothing does."""


def split(groups: Mapping[str, xr.Dataset], decoding: DecodeOptions, store: str = "") -> Split:
    """The tables of these groups (path to undecoded dataset). Reads nothing but index coordinates, in memory anyway."""
    result = Split()
    schemas = _schema_names(groups)
    for path in groups:
        group = _with_inherited(path, groups)
        tables = _tables_of(group, decoding, store, result)
        schema, why = schemas[path]
        for table in _named(tables):
            note = "; ".join(filter(None, [table.note, group.misaligned, why]))
            result.tables.append(
                replace(
                    table,
                    schema=schema,
                    name=None if schema is None or group.misaligned else table.name,
                    note=note,
                    readable=not group.misaligned,
                )
            )
    return result


def schema_name(path: str) -> str:
    """The SQL schema of a group, if nothing else has that name."""
    return "main" if path == ROOT else path.strip("/")


def _schema_names(groups: Iterable[str]) -> dict[str, tuple[str | None, str]]:
    plain = {path: schema_name(path) for path in groups}
    seen = Counter(folded(name) for name in plain.values())
    found: dict[str, tuple[str | None, str]] = {}
    for path, name in plain.items():
        taken = folded(name) in _RESERVED_SCHEMAS or seen[folded(name)] > 1
        if path == ROOT or not taken:
            found[path] = (name, "")
        else:
            others = [p for p in plain if p != path and folded(plain[p]) == folded(name)]
            why = f"groups {path} and {', '.join(others)}" if others else f"group {path} and a schema of DuckDB"
            found[path] = (None, f"{why} would have one schema name (DuckDB ignores case)")
    return found


def _with_inherited(path: str, groups: Mapping[str, xr.Dataset]) -> _Group:
    dataset = groups[path]
    parts = [p for p in path.split("/") if p]
    above = [ROOT, *("/" + "/".join(parts[:i]) for i in range(1, len(parts)))] if parts else []
    ancestors = tuple(groups[p] for p in above if p in groups)
    inherited: dict[str, xr.Variable] = {}
    levels: dict[str, tuple[str, ...]] = {}
    sizes: dict[Hashable, tuple[int, str]] = {}
    for p, ancestor in zip([p for p in above if p in groups], ancestors, strict=True):
        for d, n in ancestor.sizes.items():
            sizes.setdefault(d, (n, p))
        for name in ancestor.xindexes:
            if name not in dataset.variables:
                inherited[str(name)] = ancestor.variables[name]
        levels.update(_levels(ancestor))
    levels.update(_levels(dataset))
    wrong = [
        f"dimension {d!r} of group {path} has length {n}, but {sizes[d][0]} in group {sizes[d][1]}"
        for d, n in dataset.sizes.items()
        if d in sizes and sizes[d][0] != n
    ]
    return _Group(path, dataset, ancestors, inherited, levels, "; ".join(wrong))


def _levels(dataset: xr.Dataset) -> dict[str, tuple[str, ...]]:
    return {
        str(index.dim): tuple(str(n) for n in index.index.names)
        for index in set(dataset.xindexes.values())
        if isinstance(index, xr.indexes.PandasMultiIndex) and isinstance(index.index, pd.MultiIndex)
    }


class _Columns:
    """The columns of one group: each variable decoded once, whatever tables it is in."""

    def __init__(self, group: _Group, decoding: DecodeOptions, store: str, result: Split) -> None:
        self._group, self._decoding, self._store, self._result = group, decoding, store, result
        self._made: dict[str, DecodedVariable | None] = {}
        self._indexed = {str(n) for n in group.dataset.xindexes} | set(group.inherited)
        own = {str(n): v for n, v in group.dataset.variables.items()}
        self.variables = {**group.inherited, **own}
        coordinates = {str(n) for n in group.dataset.coords} | set(group.inherited)
        self.metadata = metadata_variables([a.variables for a in (*group.ancestors, group.dataset)], self.variables)  # type: ignore[misc]  # xarray types names as Hashable
        multi = {d for d in group.levels if d in self.variables}
        usable = [n for n in self.variables if n not in self.metadata and n not in multi]
        self.data = [n for n in usable if n not in coordinates]
        self.coordinates = [n for n in usable if n in coordinates]

    def array(self, name: str) -> DecodedVariable | None:
        """The variable's decoded values; None, and noted, if it has no SQL type."""
        if name not in self._made:
            variable = self.variables[name]
            is_coordinate = name in self.coordinates
            try:
                decoder = decoder_for(variable, name, self._decoding, index=name in self._indexed)
            except UnsupportedError as error:
                dims = tuple(str(d) for d in variable.dims)
                reason = str(error.__cause__ or error)
                self._result.left_out.append(LeftOut(self._group.path, name, reason, dims, variable.shape))
                self._made[name] = None
            else:
                place = Place(self._store, self._group.path, name)
                self._made[name] = DecodedVariable(variable, decoder, place, keep=is_coordinate)
        return self._made[name]

    def dims(self, name: str) -> tuple[str, ...]:
        return tuple(str(d) for d in self.variables[name].dims)

    def column(self, name: str, role: Role, dims: tuple[str, ...] | None = None) -> Column | None:
        array = self.array(name)
        if array is None:
            return None
        return Column(name, role, dims or self.dims(name), array, described(self.variables[name]), name)

    def of_dimension(self, dim: str) -> list[Column]:
        """The key columns of one dimension: its coordinate, the levels of its MultiIndex, or the position."""
        if dim in self._group.levels:
            levels = (self.column(n, "dimension") for n in self._group.levels[dim])
            return [c for c in levels if c is not None]
        if dim in self.coordinates and self.dims(dim) == (dim,):
            column = self.column(dim, "dimension")
            if column is not None:
                return [column]
        return [Column(dim, "dimension", (dim,), None, "", dim)]

    def is_key(self, name: str) -> bool:
        """Whether a coordinate is the key column of a dimension."""
        return self.dims(name) == (name,) or any(name in levels for levels in self._group.levels.values())


def _tables_of(group: _Group, decoding: DecodeOptions, store: str, result: Split) -> list[Table]:
    columns = _Columns(group, decoding, store, result)
    members: dict[tuple[str, ...], list[str]] = {}
    for name in columns.data:
        if columns.array(name) is not None:
            members.setdefault(columns.dims(name), []).append(name)
    auxiliary = [n for n in columns.coordinates if not columns.is_key(n) and columns.array(n) is not None]
    own = set(map(str, group.dataset.variables))
    for name in auxiliary:
        dims = columns.dims(name)
        if name in own and not any(set(dims) <= set(d) for d in members):
            members.setdefault(dims, [])
    if not members:
        # Nothing but axes: each is a table of its own, so that a group of coordinates can be looked at.
        for name in columns.coordinates:
            if name in own and columns.is_key(name):
                members.setdefault(columns.dims(name), [])
    return [_table(group, columns, dims, names, auxiliary, result) for dims, names in members.items()]


def _table(
    group: _Group, columns: _Columns, dims: tuple[str, ...], names: list[str], auxiliary: list[str], result: Split
) -> Table:
    lengths = {str(d): n for d, n in group.dataset.sizes.items()}
    keys = [c for d in dims for c in columns.of_dimension(d)]
    others = [columns.column(n, "coordinate") for n in auxiliary if set(columns.dims(n)) <= set(dims)]
    data = [columns.column(n, "data") for n in names]
    if len(data) == 1 and data[0] is not None and _is_number_or_path(data[0].name):
        data = [replace(data[0], name="value")]
    found = [*keys, *(c for c in others if c), *(c for c in data if c)]
    shape = tuple(lengths[d] for d in dims)
    notes = [f"{c.name}: {c.array.note}" for c in found if isinstance(c.array, DecodedVariable) and c.array.note]
    distinct = _distinct(found, group.path, dims, result)
    return Table(group.path, dims, shape, distinct, name="_".join(dims) or "scalar", note="; ".join(notes))


def _is_number_or_path(name: str) -> bool:
    return "/" in name or name.replace(".", "", 1).isdigit()


def _distinct(columns: list[Column], path: str, dims: tuple[str, ...], result: Split) -> tuple[Column, ...]:
    """The columns with names that differ for DuckDB, which ignores case: a later one gets `_1`, `_2` ..."""
    taken: set[str] = set()
    plain = {folded(c.name) for c in columns}
    found: list[Column] = []
    for column in columns:
        name, i = column.name, 0
        while folded(name) in taken or (i and folded(name) in plain):
            i += 1
            name = f"{column.name}_{i}"
        if i:
            first = next(c.name for c in found if folded(c.name) == folded(column.name))
            result.renamed.append(
                f"column {column.name!r} of table {'_'.join(dims)!r} in group {path!r} is called {name!r}, "
                f"since there is {first!r} and DuckDB ignores case"
            )
        taken.add(folded(name))
        found.append(replace(column, name=name))
    return tuple(found)


def _named(tables: list[Table]) -> list[Table]:
    """Take the name from tables that would share it, or that would be called as something else is."""
    seen = Counter(folded(str(t.name)) for t in tables)
    reserved = {n for n in _RESERVED_TABLES if any(t.dims and folded(str(t.name)) == n for t in tables)}
    found: list[Table] = []
    for table in tables:
        name = str(table.name)
        if seen[folded(name)] > 1:
            others = [t.dims for t in tables if t is not table and folded(str(t.name)) == folded(name)]
            listed = ", ".join(str(list(d)) for d in others)
            note = f"dimensions {list(table.dims)} and {listed} would give one table name (DuckDB ignores case)"
        elif folded(name) in reserved:
            note = f"a table cannot be called {name!r}, which means something else"
        else:
            found.append(table)
            continue
        note = f"{note}; choose it by dims={list(table.dims)}"
        found.append(replace(table, name=None, note="; ".join(filter(None, [note, table.note]))))
    return found
