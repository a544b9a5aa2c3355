"""Other names for tables, as a user gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xzsql.errors import InvalidInputError, NameTakenError, UnknownNameError
from xzsql.model.table import Table, folded

#: {new: dims}, {dims: new} or {"group/path/table": new}.
type TableNames = Mapping[str | Sequence[str], str | Sequence[str]]


def renamed(tables: Sequence[Table], names: TableNames) -> list[tuple[Table, str | None]]:
    """Every table with the name it gets.

    Raises
    ------
    UnknownNameError
        If an entry matches no table.
    NameTakenError
        If two tables of a group would have one name.
    InvalidInputError
        If an entry says nothing that can be understood, or two entries name one table.
    """
    given: dict[int, str] = {}
    for key, value in names.items():
        for table, new in _matches(tables, key, value):
            if given.setdefault(id(table), new) != new:
                raise InvalidInputError(
                    f"table_names gives table {_path(table)!r} two names: {given[id(table)]!r} and {new!r}"
                )
    found = [(t, given.get(id(t), t.name)) for t in tables]
    _refuse_doubles(found)
    return found


def _matches(
    tables: Sequence[Table], key: str | Sequence[str], value: str | Sequence[str]
) -> Iterable[tuple[Table, str]]:
    if isinstance(key, str) and isinstance(value, str):
        wanted = folded(key.strip("/"))
        found = [(t, value) for t in tables if t.name is not None and folded(_path(t)) == wanted]
        if not found:
            raise UnknownNameError.of("table", key, [_path(t) for t in tables if t.name], where="table_names")
    else:
        new, dims = (key, value) if isinstance(key, str) else (value, key)
        if not isinstance(new, str) or isinstance(dims, str) or not all(isinstance(d, str) for d in dims):
            raise InvalidInputError(
                f"table_names must map a new name to dimensions, dimensions to a new name, or a table's name to a new "
                f"one, got {key!r}: {value!r}; write e.g. {{'surface': ('time', 'lat', 'lon')}}"
            )
        found = [(t, new) for t in tables if t.dims == tuple(dims)]
        if not found:
            known = sorted({str(list(t.dims)) for t in tables})
            raise UnknownNameError.of("table with dimensions", list(dims), known, where="table_names")
    if not found[0][1]:
        raise InvalidInputError(f"table_names gives {key!r} an empty name")
    return found


def _path(table: Table) -> str:
    name = table.name or "_".join(table.dims)
    return name if table.group == "/" else f"{table.group.strip('/')}/{name}"


def _refuse_doubles(found: Iterable[tuple[Table, str | None]]) -> None:
    seen: dict[tuple[str, str], Table] = {}
    for table, name in found:
        if name is None:
            continue
        first = seen.setdefault((table.group, folded(name)), table)
        if first is not table:
            raise NameTakenError(
                f"tables with dimensions {list(first.dims)} and {list(table.dims)} of group {table.group!r} would both "
                f"be called {name!r}; give one another name with table_names="
            )
