"""What a query would read, found without running it.

A plan of DuckDB names the columns of each scan, but not its table. So the statement is planned once over views of the
same tables whose columns carry marks, in a transaction that is undone. What stands behind these views passes
predicates on to the source, remembers what was taken over, and has no rows to give.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Never

import duckdb
import pyarrow as pa

from xzsql.engine import names
from xzsql.engine.explanation import Explanation, Left, TableScan
from xzsql.engine.plan import Found, Marks, has_limit, operators, scans, unmarked
from xzsql.engine.private import create_view, nodes, register_source
from xzsql.engine.query import Session, Variables
from xzsql.engine.reason import reason
from xzsql.engine.scan import Scan
from xzsql.engine.stream import record
from xzsql.engine.translate import translate
from xzsql.errors import UnsupportedError
from xzsql.ir.predicate import And, Compare, In, IsNull, Not, Or, Predicate
from xzsql.source import TableSource

#: How a predicate prints a number.
_DOUBLE = re.compile(r"'([-+.\de]+)'::DOUBLE")

#: How DuckDB prints the source in the text of a view.
_SCANNED = "python_arrow_scan()"


def explained(
    session: Session, sql: str, params: Sequence[Any] | Mapping[str, Any] | None, variables: Variables
) -> Explanation:
    """What the statement would read of the session's tables, and DuckDB's plan."""
    disguise = _Disguise()
    as_json, text = session.plans(sql, params, variables, disguise)
    plan = operators(as_json)
    columns = [m.source.schema.names for m in disguise.masks]
    tables = tuple(disguise.scan(found) for found in scans(plan, disguise.marks, columns))
    notes = []
    if tables and has_limit(plan):
        notes.append("LIMIT may end a scan early; blocks and bytes are those without it")
    if others := unmarked(plan, disguise.marks):
        notes.append(f"{others} scan{'s' * (others > 1)} of Python variables not counted")
    return Explanation(tables, text, tuple(notes))


class _Mask(Scan):
    """A table whose columns have other names, which can be planned with and not be read."""

    def __init__(self, source: TableSource, title: str, marked: Sequence[str]) -> None:
        super().__init__(source)
        self.source = source
        self.title = title
        self.taken: dict[str, Predicate] = {}
        self._schema = pa.schema([f.with_name(n) for f, n in zip(source.schema, marked, strict=True)])
        self._real = dict(zip(marked, source.schema.names, strict=True))

    def accepts(self, predicate: nodes.Node) -> bool:
        try:
            known = translate(predicate, self.schema)
            if known is None:
                return False
            real = _renamed(known, self._real)
            if not self.source.accepts(real):
                return False
            self.taken[predicate.fragment()] = real
            return True
        except Exception as error:
            raise record(error) from None

    def stream(self, columns: Sequence[int] | None, filters: Sequence[nodes.Node]) -> Never:  # noqa: ARG002
        raise record(
            UnsupportedError(
                "this statement cannot be planned without reading a table, which explain never does; of a PIVOT list "
                "the columns, as in PIVOT t ON x IN (1, 2) USING sum(v)"
            )
        )


class _Disguise:
    """Puts masks in the place of a session's tables."""

    def __init__(self) -> None:
        self.marks = Marks()
        self.masks: list[_Mask] = []

    def __call__(self, cursor: duckdb.DuckDBPyConnection, tables: Mapping[str, Mapping[str, TableSource]]) -> None:
        self.masks = []
        rows = cursor.execute(
            "SELECT schema_name, view_name, sql FROM duckdb_views() WHERE database_name = 'memory' AND NOT internal"
        ).fetchall()
        views = {(schema, view): sql for schema, view, sql in rows}
        for schema, inside in tables.items():
            for table, source in inside.items():
                if (schema, table) in views:  # else a query dropped it
                    self._replace(cursor, schema, table, source, views[schema, table])

    def _replace(
        self, cursor: duckdb.DuckDBPyConnection, schema: str, table: str, source: TableSource, sql: str
    ) -> None:
        marked = [self.marks.name(len(self.masks), i) for i in range(len(source.schema))]
        mask = _Mask(source, names.display(schema, table), marked)
        self.masks.append(mask)
        handle = register_source(cursor, mask)
        renaming = ", ".join(f"{m} AS {names.quoted(n)}" for m, n in zip(marked, source.schema.names, strict=True))
        # what the view does on top of its source, such as casts to ENUM, stays
        before, _, after = sql[sql.index(" AS SELECT ") + len(" AS ") :].rpartition(_SCANNED)
        select = f"{before}(SELECT {renaming} FROM {names.quoted(handle.name)}){after.rstrip(';')}"
        cursor.execute(f"DROP VIEW {names.qualified('memory', schema, table)}")
        create_view(cursor, ("memory", schema, table), select, [handle])

    def scan(self, found: Found) -> TableScan:
        """One scan of the plan with real names, and what it costs."""
        mask = self.masks[found.table]
        fields = list(mask.source.schema)
        columns = tuple(fields[i].name for i in found.columns)
        where = _taken(found.filters, mask.taken)
        left = {}
        for text, mentioned, joins in found.left:
            shown = self.marks.plain(text, lambda t, c: self.masks[t].source.schema.field(c).name)
            left[shown] = reason(shown, [fields[i] for i in sorted(mentioned)], joins=joins)
        cost = mask.source.plan(columns, where)
        return TableScan(
            mask.title,
            columns,
            cost.blocks,
            cost.blocks_total,
            cost.bytes,
            cost.bytes_total,
            tuple(_DOUBLE.sub(r"\1", str(p)) for p in where),
            tuple(Left(text, why) for text, why in left.items()),
            where,
            mask.source,
        )


def _taken(filters: str, known: Mapping[str, Predicate]) -> tuple[Predicate, ...]:
    """The predicates in the text of a scan: it is that of each, one a line, and constants may hold line breaks."""
    longest_first = sorted(known, key=len, reverse=True)
    found: list[Predicate] = []
    rest = filters
    while rest:
        text = next((t for t in longest_first if rest == t or rest.startswith(t + "\n")), None)
        if text is None:
            rest = rest.partition("\n")[2]  # a filter that is DuckDB's own
            continue
        found.append(known[text])
        rest = rest[len(text) + 1 :]
    return tuple(found)


def _renamed(predicate: Predicate, real: Mapping[str, str]) -> Predicate:
    match predicate:
        case Compare(column, op, value):
            return Compare(real[column], op, value)
        case In(column, values):
            return In(real[column], values)
        case IsNull(column):
            return IsNull(real[column])
        case Not(term):
            return Not(_renamed(term, real))
        case And(terms):
            return And(tuple(_renamed(t, real) for t in terms))
        case Or(terms):
            return Or(tuple(_renamed(t, real) for t in terms))
