"""What DuckDB says -> errors of xzsql."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import duckdb

from xzsql.engine import names
from xzsql.engine.mount import Tables
from xzsql.engine.stream import recorded
from xzsql.errors import ClosedError, QueryError, ReadError, UnknownNameError, XzsqlError
from xzsql.source import TableSource

_TABLE = re.compile(
    r'Table with name (?:"(?P<path>.+?)" does not exist because|(?P<name>.+?) does not exist!)', re.DOTALL
)
_COLUMN = re.compile(
    r'Referenced column "(?P<a>.+?)" not found in FROM'
    r'|does not have a column named "(?P<b>.+?)"'
    r'|Column "(?P<c>.+?)" (?:does not exist on|in EXCLUDE list not found)',
    re.DOTALL,
)
#: DuckDB looked among Python's own variables, which happens on connections that are not ours, and found something else.
_NO_TABLE = re.compile(r'Python Object "(?P<name>.+?)" of type .* not suitable for replacement scan', re.DOTALL)


def missing_table(error: BaseException) -> str | None:
    """The table that DuckDB did not find: a name, or a path with dots."""
    if isinstance(error, duckdb.CatalogException) and (found := _TABLE.search(str(error))):
        return found["path"] or found["name"]
    if isinstance(error, duckdb.InvalidInputException) and (found := _NO_TABLE.search(str(error))):
        return found["name"]
    return None


def translated(
    error: BaseException,
    tables: Tables,
    used: Callable[[], Mapping[str, TableSource]],
    others: Callable[[], Iterable[str]],
) -> BaseException:
    """The error to raise for one of DuckDB, or of an Arrow stream of it. Its cause is the caller's to set.

    `used` gives the catalog's tables that the query reads, `others` the names of tables that are not the catalog's.
    """
    if isinstance(error, XzsqlError | KeyboardInterrupt):
        return error
    if (original := recorded(error)) is not None:
        return _of_source(original)
    text = str(error)
    if isinstance(error, duckdb.InterruptException) or "INTERRUPT Error" in text or text == "Query interrupted":
        return KeyboardInterrupt()
    if isinstance(error, duckdb.ConnectionException) and "closed" in text:
        return ClosedError("the DuckDB connection is closed; connect again with duckdb.connect()")
    if (name := missing_table(error)) is not None:
        return unknown_table(name, tables, others())
    if isinstance(error, duckdb.BinderException) and (found := _COLUMN.search(text)) and (sources := used()):
        columns = dict.fromkeys(c for source in sources.values() for c in source.schema.names)
        return UnknownNameError.of(
            "column", found["a"] or found["b"] or found["c"], columns, where=" and ".join(sources)
        )
    if isinstance(error, duckdb.ResourceInUseException):
        return QueryError(
            f"the connection has an open result; fetch it to the end or close it, or use a cursor: {text}"
        )
    return QueryError(text) if isinstance(error, Exception) else error


def _of_source(original: BaseException) -> BaseException:
    if isinstance(original, XzsqlError) or not isinstance(original, Exception):
        return original
    wrapped = ReadError(f"reading a table failed: {type(original).__name__}: {original}")
    wrapped.__cause__ = original
    return wrapped


def unknown_table(name: str, tables: Tables, also: Iterable[str] = (), hint: str = "") -> XzsqlError:
    """Why there is no such table, and what there is."""
    if names.folded(name) == "self" and isinstance(tables.self_table, XzsqlError):
        return tables.self_table
    if (noted := names.find(name, tables.notes)) is not None:
        return UnknownNameError(f"table {noted!r} cannot be read: {tables.notes[noted]}")
    known = [names.display(schema, table) for schema, inside in tables.schemas.items() for table in inside]
    return UnknownNameError.of("table", name, [*known, *also], hint=hint)
