"""Session: where the queries of a catalog run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Never

import duckdb

from xzsql.engine import names, script
from xzsql.engine.failure import missing_table, translated, unknown_table
from xzsql.engine.mount import Tables, create_views, drop_views, transaction
from xzsql.engine.private import table_kind
from xzsql.engine.run import BoundRun, Converter, ReadRun, carried
from xzsql.engine.scan import scannable
from xzsql.engine.wait import after, interruptible
from xzsql.errors import ClosedError, InvalidInputError, NameTakenError, QueryError, UnsupportedError, XzsqlError
from xzsql.result import Result
from xzsql.source import TableSource

type Variables = Callable[[str], object | None]


def _no_variables(_name: str) -> object | None:
    return None


class Session:
    """A private in-memory DuckDB with views for the tables of a catalog and for `self`.

    Each query has a connection of its own, so results that are open at the same time do not disturb one another, and
    so that a Python variable is only seen by the query that names it. Tables and views that a query creates stay;
    SET, USE and PREPARE hold for later queries; temporary tables and transactions end with the text that makes them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from xzsql.testing.sources import MemorySource
    >>> source = MemorySource(pa.table({"x": [0, 1, 2]}))
    >>> session = Session()
    >>> session.update(Tables({"main": {"points": source}}, source))
    >>> session.query("SELECT sum(x) FROM self WHERE x > $least", {"least": 0}).fetchall()
    [(3,)]
    >>> session.close()
    """

    def __init__(self, *, progress: bool = True) -> None:
        self._progress = progress
        self._con: duckdb.DuckDBPyConnection | None = duckdb.connect(
            ":memory:", config={"python_enable_replacements": "false"}
        )
        self._lock = threading.RLock()
        self._tables = Tables({}, XzsqlError("there are no tables"))
        self._touched = False
        self._settings = script.Settings()

    def update(self, tables: Tables) -> None:
        """Show these tables from now on; does nothing where the sources are the same objects.

        Raises
        ------
        NameTakenError
            A table that a query created has the name of one of these.
        """
        with self._lock:
            con = self._open_connection()
            if self._touched or _shown(tables) != _shown(self._tables):
                with con.cursor() as cursor, transaction(cursor):
                    drop_views(cursor, "memory")
                    if self._touched:
                        _clear_views(cursor, _shown(tables))
                    create_views(cursor, "memory", _shown(tables), comments=False, progress=self._progress)
            self._tables = tables
            self._touched = False

    def query(
        self,
        sql: str,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        variables: Variables = _no_variables,
        con: duckdb.DuckDBPyConnection | None = None,
    ) -> Result:
        """Check the last statement of a text and prepare its result; the statements before it are run.

        Parameters
        ----------
        sql
            Statements; those that are no query (CREATE, COPY, SET, ...) are run before this returns.
        params
            A list for `?` of the last statement, or a dict for `$name` of all.
        variables
            Finds a Python variable by name, None where there is none: for tables that the catalog does not have.
        con
            A connection to run on instead; see `Catalog.query`.

        Raises
        ------
        UnknownNameError
            A table or column that does not exist.
        QueryError
            DuckDB's own objection, as the cause too.
        """
        own = self._open_connection()
        if con is not None:
            return self._query_on(con, sql, params, variables)
        statements = script.parsed(own, sql)
        script.check_lasting(statements)
        values = script.parameters_of(statements, params)
        cursor = self._cursor()
        try:
            asked = _Asked(cursor, self._tables, variables)
            for statement, given in zip(statements, values, strict=True):
                last = statement is statements[-1]
                # A statement may drop or replace a view of ours, which the next query then gets back.
                self._touched |= statement.type.name in ("CREATE", "DROP", "ALTER")
                relation = asked.relation(statement, given, drain=not last)
                if statement.type.name in ("SET", "PREPARE", "DROP"):
                    self._settings.remember(statement.query)
            asked.forget_variables()
            return Result(BoundRun(cursor, relation, self._converter, asked.translated))
        except BaseException as error:
            after(error, cursor.close)
            raise

    def plans(
        self,
        sql: str,
        params: Sequence[Any] | Mapping[str, Any] | None,
        variables: Variables,
        disguise: Callable[[duckdb.DuckDBPyConnection, Mapping[str, Mapping[str, TableSource]]], None],
    ) -> tuple[str, str]:
        """DuckDB's plan of one statement, which is not run: as JSON over disguised views, as text over the real ones.

        `disguise` may replace the views of the tables, by schema and name; nobody else sees that, and it is undone.
        """
        own = self._open_connection()
        if len(statements := script.parsed(own, sql)) > 1:
            raise UnsupportedError(
                f"explain takes one statement and runs none, got {len(statements)}; run those before it with query(...)"
            )
        if statements[0].type.name == "EXPLAIN":
            raise InvalidInputError("explain takes the query itself: leave EXPLAIN out, or ask it with query(...)")
        with self._lock, self._cursor() as cursor:
            asked = _Asked(cursor, self._tables, variables)
            as_json = None
            while as_json is None:
                cursor.begin()
                try:
                    disguise(cursor, _shown(self._tables))
                    as_json = self._plan(asked, "EXPLAIN (FORMAT JSON) " + statements[0].query, params)
                except duckdb.TransactionException as error:  # one writes to one database only
                    raise UnsupportedError(
                        "explain cannot plan what writes to an attached database; explain the SELECT by itself"
                    ) from error
                except duckdb.Error as error:
                    failed = error
                finally:
                    cursor.rollback()
                if as_json is None:
                    asked.recover(failed)
            try:
                return as_json, self._plan(asked, "EXPLAIN " + statements[0].query, params)
            except duckdb.Error as error:
                asked.fail(error)

    def _plan(self, asked: _Asked, sql: str, params: Any) -> str:
        (statement,) = script.parsed(self._open_connection(), sql)
        (values,) = script.parameters_of([statement], params)
        found = dict(asked.bound(statement, values).fetchall())
        if "physical_plan" not in found:
            raise QueryError("explain needs the physical plan; SET explain_output = 'physical_only'")
        return str(found["physical_plan"])

    def close(self) -> None:
        """Let go of the database, which ends with the last result that still reads from it."""
        with self._lock:
            self._tables = Tables({}, XzsqlError("there are no tables"))
            self._con = None  # closing it would close the connections of all results

    def _query_on(self, con: duckdb.DuckDBPyConnection, sql: str, params: Any, variables: Variables) -> Result:
        if not isinstance(con, duckdb.DuckDBPyConnection):
            raise InvalidInputError(f"con= is a DuckDB connection, got {con!r}")
        asked = _Asked(con, self._tables, variables, foreign=True)
        try:
            statements = script.parsed(con, sql)
            values = script.parameters_of(statements, params)
            with asked.guests(_mentioned(sql)):
                for statement, given in zip(statements, values, strict=True):
                    relation = asked.relation(statement, given, drain=statement is not statements[-1])
                columns, types = relation.columns, [str(t) for t in relation.types]
                table = asked.waited(carried(relation).to_arrow_table)
        except duckdb.Error as error:
            asked.fail(error)
        return Result(ReadRun(table, columns, types, self._converter(columns, types)))

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            cursor = self._open_connection().cursor()
            # a result that is looked at and left has read ahead by the buffer; a larger one is not faster
            cursor.execute("SET streaming_buffer_size = '1MB'")
            self._settings.repeat(cursor)
            return cursor

    def _converter(self, columns: Sequence[str], types: Sequence[str]) -> Converter:
        return Converter(self._cursor(), columns, types)

    def _open_connection(self) -> duckdb.DuckDBPyConnection:
        if self._con is None:
            raise ClosedError("the catalog is closed; open it again")
        return self._con


def _clear_views(cursor: duckdb.DuckDBPyConnection, schemas: Mapping[str, Mapping[str, TableSource]]) -> None:
    """Drop what a statement put in the place of a view of ours; a table of that name is left, and refused later."""
    views = cursor.execute(
        "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = 'memory'"
    ).fetchall()
    for schema, view in views:
        if names.find(view, schemas.get(schema, {})) is not None:
            cursor.execute(f"DROP VIEW {names.qualified('memory', schema, view)}")


class _Asked:
    """One text on its way through a connection: names that DuckDB does not know, and errors."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, tables: Tables, variables: Variables, *, foreign: bool = False
    ) -> None:
        self._con = con
        self._tables = tables
        self._variables = variables
        self._foreign = foreign
        self._registered: list[str] = []
        self._statement: duckdb.Statement | None = None

    def relation(self, statement: duckdb.Statement, values: Any, *, drain: bool) -> duckdb.DuckDBPyRelation:
        """Bind a query, or run another statement; tables it lacks are looked for among the Python variables."""
        while True:
            try:
                relation = self.bound(statement, values)
                if drain and statement.type.name == "SELECT":
                    self.waited(partial(_drain, relation))
                return relation
            except duckdb.Error as error:
                self.recover(error)

    def bound(self, statement: duckdb.Statement, values: Any) -> duckdb.DuckDBPyRelation:
        """The same, once, with DuckDB's own errors."""
        self._statement = statement
        return interruptible(lambda: _sql(self._con, statement, values), self._con.interrupt)

    def recover(self, error: duckdb.Error) -> None:
        """Register the Python variable that was not found, or raise."""
        name = missing_table(error)
        if name is None or name in self._registered or not self._adopt(name, error):
            self.fail(error)

    def waited[T](self, call: Callable[[], T]) -> T:
        """Run it, with our errors."""
        try:
            return interruptible(call, self._con.interrupt)
        except BaseException as error:
            self.fail(error)

    @contextmanager
    def guests(self, mentioned: Iterable[str]) -> Iterator[None]:
        """The catalog's root tables, of those that are mentioned, as temporary views on another's connection."""
        shown = _shown(self._tables).get("main", {})
        try:
            for name in filter(None, (names.find(m, shown) for m in mentioned)):
                if name not in self._registered:
                    self._welcome(name, shown[name])
            yield
        except BaseException as error:
            after(error, self._part)
            raise
        self._part()

    def forget_variables(self) -> None:
        """Let go of the user's frame: errors of a result are translated long after it."""
        self._variables = _no_variables

    def _part(self) -> None:
        for name in self._registered:
            # in a transaction that failed the views go with its ROLLBACK
            with suppress(duckdb.Error):
                self._con.unregister(name)

    def translated(self, error: BaseException) -> BaseException:
        """The error of xzsql for one of DuckDB."""
        return translated(error, self._tables, self._used, self._others)

    def fail(self, error: BaseException) -> Never:
        raised = self.translated(error)
        if raised is error:
            raise error
        raise raised from (raised.__cause__ or error)

    def _welcome(self, name: str, source: TableSource) -> None:
        if table_kind(self._con, name) != "none":
            raise NameTakenError(
                f"the connection has a {table_kind(self._con, name)} {name!r}, and so has the catalog; rename one of "
                "them, or mount the catalog and write mounted_name.table"
            )
        self._con.register(name, scannable(source, name))
        self._registered.append(name)

    def _adopt(self, name: str, error: BaseException) -> bool:
        """Register the Python variable of this name, if there is one."""
        if names.folded(name) == "self" and isinstance(self._tables.self_table, XzsqlError):
            raise self._tables.self_table from error
        if self._foreign and any(
            names.folded(f"{schema}.{table}") == names.folded(name)
            for schema, inside in self._tables.schemas.items()
            for table in inside
        ):
            raise UnsupportedError(
                f"{name!r} is a table of a group; on a connection of yours these can be read after "
                ".mount(con, 'name'), as in SELECT * FROM name.\"group\".table"
            ) from error
        found = self._variables(name)
        if found is None:
            return False
        try:
            self._con.register(name, _readable(found))
        except (duckdb.InvalidInputException, duckdb.NotImplementedException) as unsuitable:
            hint = f"The Python variable {name!r} is a {type(found).__name__}, which is no table."
            raise unknown_table(name, self._tables, self._others(), hint) from unsuitable
        self._registered.append(name)
        return True

    def _used(self) -> dict[str, TableSource]:
        """The catalog's tables that the statement mentions; none where it reads others too."""
        if self._statement is None or self._registered:
            return {}
        words = {names.folded(word) for word in _mentioned(self._statement.query)}
        return {
            names.display(schema, table): source
            for schema, inside in _shown(self._tables).items()
            for table, source in inside.items()
            if names.folded(table) in words and (schema == "main" or names.folded(schema) in words)
        }

    def _others(self) -> list[str]:
        """Tables that queries made."""
        try:
            return [r[0] for r in self._con.cursor().execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        except duckdb.Error:
            return []


def _drain(relation: duckdb.DuckDBPyRelation) -> None:
    for _ in relation.to_arrow_reader():
        pass


def _sql(_xzsql_con: duckdb.DuckDBPyConnection, _xzsql_statement: Any, _xzsql_values: Any) -> duckdb.DuckDBPyRelation:
    """DuckDB takes unknown tables for variables of the frame that calls it, so that frame has none of a usual name."""
    return _xzsql_con.sql(_xzsql_statement, params=_xzsql_values)


def _shown(tables: Tables) -> dict[str, Mapping[str, TableSource]]:
    """All views by schema, `self` among those of the root."""
    root = dict(tables.schemas.get("main", {}))
    if not isinstance(tables.self_table, XzsqlError):
        root["self"] = tables.self_table
    return {**tables.schemas, "main": root}


def _mentioned(sql: str) -> Iterator[str]:
    """Every word of the text that could be the name of a table."""
    starts = [start for start, _ in duckdb.tokenize(sql)]
    for start, stop in zip(starts, [*starts[1:], len(sql)], strict=True):
        word = sql[start:stop].strip()
        yield word[1:-1].replace('""', '"') if word.startswith('"') else word


def _readable(variable: object) -> object:
    """A variable as an object that DuckDB reads: a relation of another database is read into memory."""
    if isinstance(variable, duckdb.DuckDBPyRelation | Result):
        return variable.to_arrow_table() if isinstance(variable, duckdb.DuckDBPyRelation) else variable.arrow()
    return variable
