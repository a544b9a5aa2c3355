"""The private names of DuckDB that xzsql stands on: all of them, each missed with a clear error.

A DuckDB release may change them; tests/facts/ shows which.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import duckdb

from xzsql.errors import MissingDependencyError

if TYPE_CHECKING:
    from duckdb._seam import SourceHandle

__all__ = ["ArrowScanSource", "binds", "create_view", "name_scope", "nodes", "register_source", "table_kind"]


def _missing(what: str) -> MissingDependencyError:
    return MissingDependencyError(
        f"duckdb {duckdb.__version__} has no {what!r}, which xzsql needs; install a version that this release of xzsql "
        "was tested with: pip install 'duckdb>=2.0.1'"
    )


def _attribute(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise _missing(f"{module}.{name}") from error


if TYPE_CHECKING:
    from duckdb._sources import nodes
    from duckdb._sources.arrow import ArrowScanSource
else:
    ArrowScanSource = _attribute("duckdb._sources.arrow", "ArrowScanSource")
    nodes = _attribute("duckdb._sources", "nodes")
    for _name in ("Binary", "Unary", "Postfix", "In", "Col", "Lit"):
        _attribute("duckdb._sources.nodes", _name)


def register_source(con: duckdb.DuckDBPyConnection, obj: object) -> SourceHandle:
    """Put an object under a fresh name that every connection to the instance can read while the handle lives."""
    if not hasattr(con, "_register_source"):
        raise _missing("DuckDBPyConnection._register_source")
    return con._register_source(obj, None)


def create_view(
    con: duckdb.DuckDBPyConnection, name: tuple[str, str, str], sql: str, handles: Sequence[SourceHandle]
) -> None:
    """Create the view (database, schema, view), which owns the handles that its SELECT reads as long as it exists."""
    if not hasattr(con, "_create_view"):
        raise _missing("DuckDBPyConnection._create_view")
    con._create_view(name, sql, replace=False, sources=list(handles))


def binds(con: duckdb.DuckDBPyConnection, sql: str) -> bool:
    """Whether a statement would bind on this connection now. Runs nothing, so an open result stays open."""
    if not hasattr(con, "_bind"):
        raise _missing("DuckDBPyConnection._bind")
    try:
        con._bind(sql)
    except duckdb.Error:
        return False
    return True


def name_scope(con: duckdb.DuckDBPyConnection, name: str) -> str:
    """Whether a name is a "database", a "schema" of the search path, or "none" of the two. Runs nothing."""
    if not hasattr(con, "_name_scope"):
        raise _missing("DuckDBPyConnection._name_scope")
    try:
        return con._name_scope(name)
    except duckdb.TransactionException:  # one that failed answers nothing until its ROLLBACK
        return "none"


def table_kind(con: duckdb.DuckDBPyConnection, name: str) -> str:
    """Whether a name reads a "table", a "view" or "none" of the two on this connection. Runs nothing."""
    if not hasattr(con, "_table_kind"):
        raise _missing("DuckDBPyConnection._table_kind")
    return con._table_kind(name)
