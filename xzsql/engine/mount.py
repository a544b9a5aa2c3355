"""Tables as views of an attached database, which every cursor of a DuckDB instance sees."""

from __future__ import annotations

import threading
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from xzsql.engine import names
from xzsql.engine.private import binds, create_view, name_scope, register_source
from xzsql.engine.scan import scannable
from xzsql.errors import (
    ClosedError,
    InvalidInputError,
    NameTakenError,
    QueryError,
    UnknownNameError,
    XzsqlError,
    XzsqlWarning,
)
from xzsql.source import COMMENT, SupportsCategories, TableSource

#: A macro whose name begins so marks a database as a mount of ours, and the rest of the name this state of it.
_MARK = "xzsql mount "
#: The comment of each of our views; what has another comment in a mount is the user's.
_COMMENT = "read by xzsql"
#: The name of each of our ENUM types begins so.
_ENUM = "xzsql enum "
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Tables:
    """What a catalog shows to DuckDB."""

    schemas: Mapping[str, Mapping[str, TableSource]]
    """Sources by schema (`main` is the root) and table name."""
    self_table: TableSource | XzsqlError
    """What `self` reads, or the error that says why there is none."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Names that cannot be read (`schema.table` or `table`), with the reason."""


def mount(con: duckdb.DuckDBPyConnection, name: str, tables: Tables) -> None:
    """Attach the tables to the instance of a connection, as database `name`.

    The work is done on a cursor: results and transactions that are open on `con` are not touched. A mount of the same
    name is replaced as a whole or, where that fails, stays as it was.

    Parameters
    ----------
    con
        A connection to any database, read-only ones included. Nothing is written to its file.
    name
        How SQL will call it: `SELECT * FROM name.table`, `SELECT * FROM name.schema.table`.
    tables
        The tables; only their schemas are looked at.

    Raises
    ------
    NameTakenError
        The name is a database or schema of the connection that is no mount, or DuckDB keeps it for itself.
    ClosedError
        The connection is closed.
    """
    name = names.check_mount_name(name)
    mark = _MARK + uuid.uuid4().hex
    with _lock, _cursor_of(con) as cursor:
        own = names.find(name, mounts(cursor))
        if own is not None:
            name = own
        else:
            _check_free(con, cursor, name)
            # a read-only connection would attach read-only, and in-memory databases cannot be that
            cursor.execute(f"ATTACH ':memory:' AS {names.quoted(name)} (READ_WRITE)")
        try:
            with transaction(cursor):
                drop_views(cursor, name)
                _mark(cursor, name, mark)
                create_views(cursor, name, tables.schemas, comments=True)
        except BaseException:
            if own is None:
                cursor.execute(f"DETACH {names.quoted(name)}")
            raise
    # a new database is seen by every transaction, a new state of one only by those that have not read it yet
    if own is not None and not binds(con, f"SELECT {names.qualified(name, 'main', mark)}()"):
        warnings.warn(
            f"{name!r} is replaced, but the transaction or result that is open on this connection began before, and "
            "goes on with the old tables until it ends",
            XzsqlWarning,
            stacklevel=3,
        )


def unmount(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Detach a mount; a scan that is under way ends as it would have.

    Raises
    ------
    UnknownNameError
        There is no mount of that name; the message lists those there are.
    QueryError
        The mount is the default database (`USE`) of this connection.
    """
    with _lock, _cursor_of(con) as cursor:
        own = mounts(cursor)
        found = names.find(str(name), own)
        if found is None:
            raise UnknownNameError.of("mount", name, own)
        if binds(con, f"SELECT {names.quoted(own[found])}()"):
            raise QueryError(
                f"{found!r} is the default database of this connection; choose another before, as in USE memory"
            )
        cursor.execute(f"DETACH {names.quoted(found)}")


def mounts(cursor: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The mounts of the instance, by name, each with its marker."""
    rows = cursor.execute(
        "SELECT database_name, function_name FROM duckdb_functions() WHERE starts_with(function_name, ?)", [_MARK]
    ).fetchall()
    return dict(sorted(rows))


def create_views(
    cursor: duckdb.DuckDBPyConnection,
    database: str,
    schemas: Mapping[str, Mapping[str, TableSource]],
    *,
    comments: bool,
    progress: bool = False,
) -> None:
    """A view for each source. Reads schemas only; costs the number of tables."""
    for schema, tables in schemas.items():
        if schema != "main":
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {names.qualified(database, schema)}")
        for table, source in tables.items():
            handle = register_source(cursor, scannable(source, table if progress else None))
            try:
                replaced = _enums(cursor, database, schema, table, source)
                sql = f"SELECT *{replaced} FROM {names.quoted(handle.name)}"
                create_view(cursor, (database, schema, table), sql, [handle])
            except duckdb.CatalogException as error:
                raise NameTakenError(
                    f"{names.display(schema, table)!r} cannot be a table of {database!r}: {error}"
                ) from error
            view = names.qualified(database, schema, table)
            cursor.execute(f"COMMENT ON VIEW {view} IS {names.text(_COMMENT)}")
            if comments:
                _comment(cursor, view, source)


def _enums(cursor: duckdb.DuckDBPyConnection, database: str, schema: str, table: str, source: TableSource) -> str:
    """An ENUM for each categorical of a table, and the clause that casts to it: Arrow dictionaries arrive as VARCHAR.

    DuckDB offers no predicate through the cast, so those on the column are its own work.
    """
    if not isinstance(source, SupportsCategories):
        return ""
    casts: list[str] = []
    for column in source.schema:
        categories = source.categories(column.name) if pa.types.is_dictionary(column.type) else None
        if categories is None or not len(categories) or not pa.types.is_string(categories.type):
            continue
        kind = names.qualified(database, schema, f"{_ENUM}{table}.{column.name}")
        labels = ", ".join(names.text(label) for label in categories.to_pylist())
        cursor.execute(f"CREATE TYPE {kind} AS ENUM ({labels})")
        name = names.quoted(column.name)
        casts.append(f"{name}::{kind} AS {name}")
    return f" REPLACE ({', '.join(casts)})" if casts else ""


def drop_views(cursor: duckdb.DuckDBPyConnection, database: str) -> None:
    """Drop the views that `create_views` made, the schemas that held nothing else, and the marker."""
    views = cursor.execute(
        "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = ? AND comment = ?",
        [database, _COMMENT],
    ).fetchall()
    for schema, view in views:
        cursor.execute(f"DROP VIEW {names.qualified(database, schema, view)}")
    types = cursor.execute(
        "SELECT schema_name, type_name FROM duckdb_types() WHERE database_name = ? AND starts_with(type_name, ?)",
        [database, _ENUM],
    ).fetchall()
    for schema, kind in types:
        cursor.execute(f"DROP TYPE {names.qualified(database, schema, kind)}")
    for schema in {schema for schema, _ in views} - {"main"}:
        left = cursor.execute(
            "SELECT count(*) FROM information_schema.tables WHERE table_catalog = ? AND table_schema = ?",
            [database, schema],
        ).fetchall()
        if left == [(0,)]:
            cursor.execute(f"DROP SCHEMA {names.qualified(database, schema)} CASCADE")
    for mounted, mark in mounts(cursor).items():
        if mounted == database:
            cursor.execute(f"DROP MACRO {names.qualified(database, 'main', mark)}")


@contextmanager
def transaction(cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """All or nothing."""
    cursor.begin()
    try:
        yield
    except BaseException:
        cursor.rollback()
        raise
    cursor.commit()


@contextmanager
def _cursor_of(con: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    if not isinstance(con, duckdb.DuckDBPyConnection):
        raise InvalidInputError(f"a DuckDB connection is needed, got {con!r}; make one with duckdb.connect()")
    try:
        cursor = con.cursor()
    except duckdb.ConnectionException as error:
        raise ClosedError("the DuckDB connection is closed; connect again with duckdb.connect()") from error
    with cursor:
        yield cursor


def _check_free(con: duckdb.DuckDBPyConnection, cursor: duckdb.DuckDBPyConnection, name: str) -> None:
    databases = [row[0] for row in cursor.execute("SELECT database_name FROM duckdb_databases()").fetchall()]
    if names.find(name, databases) is not None:
        raise NameTakenError(
            f"{name!r} is a database of this connection and no mount of xzsql; choose another name, there is "
            f"{', '.join(map(repr, databases))}"
        )
    schemas = [row[0] for row in cursor.execute("SELECT schema_name FROM duckdb_schemas()").fetchall()]
    if name_scope(con, name) != "none" or name_scope(cursor, name) != "none":
        raise NameTakenError(
            f"{names.find(name, schemas) or name!r} is a schema of this connection, {name}.table would be ambiguous; "
            "choose another name"
        )


def _mark(cursor: duckdb.DuckDBPyConnection, database: str, mark: str) -> None:
    cursor.execute(f"CREATE MACRO {names.qualified(database, 'main', mark)}() AS 1")


def _comment(cursor: duckdb.DuckDBPyConnection, view: str, source: TableSource) -> None:
    for column in source.schema:
        if comment := (column.metadata or {}).get(COMMENT):
            text = names.text(comment.decode("utf-8", "replace"))
            cursor.execute(f"COMMENT ON COLUMN {view}.{names.quoted(column.name)} IS {text}")
