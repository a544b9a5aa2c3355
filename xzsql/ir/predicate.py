"""Predicates: what a source may be asked to keep, as a small frozen tree.

The semantics are SQL's three-valued logic as DuckDB has it: a comparison with NULL is unknown, unknown is not true,
NOT unknown is unknown; NaN equals itself and is greater than every number; -0.0 equals 0.0.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

#: A constant, always of the column's own type. A TIMESTAMP is a naive datetime.
type Value = bool | int | float | str | bytes | dt.datetime
type Operator = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Compare:
    """`column op value`."""

    column: str
    op: Operator
    value: Value

    def __str__(self) -> str:
        return f"{quoted(self.column)} {self.op} {literal(self.value)}"


@dataclass(frozen=True, slots=True)
class In:
    """`column IN (values)`, of at least one value."""

    column: str
    values: tuple[Value, ...]

    def __str__(self) -> str:
        return f"{quoted(self.column)} IN ({', '.join(map(literal, self.values))})"


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`; IS NOT NULL is its Not."""

    column: str

    def __str__(self) -> str:
        return f"{quoted(self.column)} IS NULL"


@dataclass(frozen=True, slots=True)
class And:
    """All of at least one term."""

    terms: tuple[Predicate, ...]

    def __str__(self) -> str:
        return "(" + " AND ".join(map(str, self.terms)) + ")"


@dataclass(frozen=True, slots=True)
class Or:
    """Any of at least one term."""

    terms: tuple[Predicate, ...]

    def __str__(self) -> str:
        return "(" + " OR ".join(map(str, self.terms)) + ")"


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; unknown stays unknown."""

    term: Predicate

    def __str__(self) -> str:
        return f"(NOT {self.term})"


type Predicate = Compare | In | IsNull | And | Or | Not


def walk(predicate: Predicate) -> Iterator[Compare | In | IsNull]:
    """Every leaf of the tree, left to right, without recursion (an OR may be thousands deep)."""
    pending: list[Predicate] = [predicate]
    while pending:
        node = pending.pop()
        match node:
            case And(terms) | Or(terms):
                pending.extend(reversed(terms))
            case Not(term):
                pending.append(term)
            case _:
                yield node


def columns_of(predicate: Predicate) -> frozenset[str]:
    """The names of the columns that the predicate mentions."""
    return frozenset(leaf.column for leaf in walk(predicate))


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Value) -> str:
    """A constant as SQL text."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case float():
            return f"'{value!r}'::DOUBLE"
        case _:
            return str(value)
