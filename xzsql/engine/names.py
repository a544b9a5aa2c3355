"""Names in SQL: quoting, comparing as DuckDB does, and those that it keeps for itself."""

from __future__ import annotations

from collections.abc import Iterable

from xzsql.errors import InvalidInputError, NameTakenError
from xzsql.ir.predicate import quoted

__all__ = ["RESERVED", "check_mount_name", "display", "find", "folded", "qualified", "quoted", "text"]

#: Names of databases and schemas that DuckDB has or reads as its own, in every connection.
RESERVED = frozenset({"main", "memory", "temp", "system", "pg_catalog", "information_schema"})

_UPPER_TO_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def folded(name: str) -> str:
    """The name as DuckDB compares it: letters of ASCII in lower case, all others as they are."""
    return name.translate(_UPPER_TO_LOWER)


def qualified(*parts: str) -> str:
    """A dotted name, each part quoted."""
    return ".".join(map(quoted, parts))


def text(value: str) -> str:
    """A string as an SQL constant."""
    return "'" + value.replace("'", "''") + "'"


def check_mount_name(name: object) -> str:
    """The name, where it can be that of a database."""
    if not isinstance(name, str):
        raise InvalidInputError(f"the name of a mount must be a text, got {name!r}; as in mount(con, 'era5')")
    if not name or "\0" in name:
        raise InvalidInputError(
            f"the name of a mount must be a text of at least one character, without NUL, got {name!r}"
        )
    if folded(name) in RESERVED:
        raise NameTakenError(f"a mount cannot be called {name!r}: DuckDB keeps that name for itself; choose another")
    return name


def display(schema: str, table: str) -> str:
    """A table as an error lists it: its name alone in the root, else with its schema."""
    return table if schema == "main" else f"{schema}.{table}"


def find(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that DuckDB would take this name for."""
    wanted = folded(name)
    return next((k for k in known if folded(k) == wanted), None)
