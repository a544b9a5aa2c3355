"""The statements of one text, and what of a session they leave behind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from xzsql.engine.parameters import converted
from xzsql.errors import InvalidInputError, QueryError, UnsupportedError

_TEMPORARY = re.compile(r"\s*create\s+(or\s+replace\s+)?(local\s+)?temp(orary)?\b", re.IGNORECASE)
_BEGIN = re.compile(r"\s*(begin|start)\b", re.IGNORECASE)
_STATE = re.compile(
    r"\s*(?P<verb>set|reset|use|prepare|deallocate)\b\s*"
    r"(?:(?P<scope>global|session|local|variable|prepare)\b\s*)?"
    r'(?P<name>"(?:[^"]|"")+"|[\w.]+)?',
    re.IGNORECASE,
)
_READS = re.compile(r"\b(select|from)\b", re.IGNORECASE)


def parsed(con: duckdb.DuckDBPyConnection, sql: str) -> list[duckdb.Statement]:
    """The statements, at least one."""
    if not isinstance(sql, str):
        raise InvalidInputError(f"a query is a text, got {sql!r}; as in query('SELECT * FROM self')")
    try:
        statements = con.extract_statements(sql)
    except duckdb.ParserException as error:
        raise QueryError(str(error)) from error
    if not statements:
        raise InvalidInputError(f"the query {sql!r} holds no statement; as in query('SELECT * FROM self')")
    return statements


def check_lasting(statements: Sequence[duckdb.Statement]) -> None:
    """Refuse what would be lost with the query's own connection, and is meant to last."""
    if _TEMPORARY.match(statements[-1].query):
        raise UnsupportedError(
            "a temporary table would be gone with this query, each has a connection of its own; leave TEMP out (the "
            "catalog's database is in memory), or ask for it in the same text: CREATE TEMP TABLE ...; SELECT ..."
        )
    opened = False
    for statement in statements:
        if statement.type.name == "TRANSACTION":
            opened = _BEGIN.match(statement.query) is not None
    if opened:
        raise UnsupportedError(
            "a transaction ends with the text that begins it, each query has a connection of its own; write "
            "BEGIN; ...; COMMIT in one text, or use con="
        )


def parameters_of(statements: Sequence[duckdb.Statement], params: Any) -> list[Any]:
    """The values for each statement: positional ones are the last one's, named ones of those that name them."""
    values = converted(params)
    if not isinstance(values, Mapping):
        return [None] * (len(statements) - 1) + [values]
    named = [s.named_parameters for s in statements]
    strange = {k: v for k, v in values.items() if not any(k in n for n in named)}
    each: list[Any] = [{k: v for k, v in values.items() if k in n} or None for n in named]
    if strange:
        each[-1] = {**(each[-1] or {}), **strange}  # DuckDB says what is wrong with them
    return each


class Settings:
    """SET, USE and PREPARE belong to one connection: what was said once is said again to the next ones."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], str] = {}

    def remember(self, sql: str) -> None:
        """Keep a statement that succeeded, if it is one of these."""
        found = _STATE.match(sql)
        if found is None:
            return
        verb, name = found["verb"].lower(), (found["name"] or "").lower()
        scope = (found["scope"] or "").lower()
        kind = (
            "prepare" if verb in ("prepare", "deallocate") else "use" if verb == "use" else f"set {scope == 'variable'}"
        )
        key = (kind, "" if kind == "use" else name)
        self._said.pop(key, None)
        reads_tables = scope == "variable" and _READS.search(sql)  # would read them again for each query
        if verb != "deallocate" and not reads_tables:
            self._said[key] = sql

    def repeat(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Say it all to a new connection."""
        for sql in list(self._said.values()):
            try:
                cursor.execute(sql)
            except duckdb.Error:  # such as PREPARE over a table that is gone: EXECUTE will say so
                continue
