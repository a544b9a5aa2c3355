"""DuckDB's plan in JSON: the scans of tables that carry a mark, and the conditions that are left above them."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from xzsql.engine import names

#: What lets the rows of a scan through as they are, so that a condition above is one on the table.
_THROUGH = ("PROJECTION", "FILTER", "UNION")
#: Texts, names, and names of functions with their parenthesis.
_WORDS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"\(?|[^\W\d]\w*\(?""")


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a plan."""

    name: str
    info: dict[str, str]
    children: tuple[Operator, ...]

    def walk(self) -> Iterator[Operator]:
        """It and all that is below."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(slots=True)
class Found:
    """One scan of a marked table."""

    table: int
    columns: tuple[int, ...]
    filters: str
    """What the scan itself does, predicate after predicate, as DuckDB prints it."""
    left: list[tuple[str, frozenset[int], bool]] = field(default_factory=list)
    """Conditions above the scan: text, the columns of the table in it, and whether a join makes it."""


class Marks:
    """Names of columns that say of which table they are: a plan names columns, and never the table of a scan."""

    def __init__(self) -> None:
        self._prefix = f"xz{secrets.token_hex(4)}"
        self._pattern = re.compile(rf'"?{self._prefix}_(\d+)_(\d+)"?')

    def name(self, table: int, column: int) -> str:
        """The name of one column."""
        return f"{self._prefix}_{table}_{column}"

    def columns(self, text: str) -> list[tuple[int, int]]:
        """The columns in a text, as table and column."""
        return [(int(t), int(c)) for t, c in self._pattern.findall(text)]

    def plain(self, text: str, name_of: Callable[[int, int], str]) -> str:
        """The text with the real names."""
        return self._pattern.sub(lambda m: name_of(int(m[1]), int(m[2])), text)


def operators(as_json: str) -> list[Operator]:
    """The plan that EXPLAIN (FORMAT JSON) prints."""
    return [_operator(node) for node in json.loads(as_json)]


def _operator(node: dict[str, Any]) -> Operator:
    # a text of several lines is a list in JSON
    info = {k: "\n".join(v) if isinstance(v, list) else str(v) for k, v in node["extra_info"].items()}
    return Operator(node["name"], info, tuple(_operator(c) for c in node["children"]))


def scans(plan: Sequence[Operator], marks: Marks, tables: Sequence[Sequence[str]]) -> list[Found]:
    """The scans of marked tables in the order of the plan; `tables` are the names of the columns of each."""
    found: list[Found] = []

    def visit(node: Operator) -> list[Found]:
        """The scans whose rows come out here."""
        if node.name == "PYTHON_ARROW_SCAN":
            columns = marks.columns(node.info.get("Projections", ""))
            if not columns:
                return []
            scan = Found(columns[0][0], tuple(c for _, c in columns), node.info.get("Filters", ""))
            found.append(scan)
            return [scan]
        below = [scan for child in node.children for scan in visit(child)]
        if node.name == "FILTER":
            for text in conjuncts(node.info.get("Expression", "")):
                _leave(text, below, joins=False)
        elif "JOIN" in node.name:
            for text in node.info.get("Conditions", "").split("\n"):
                _leave(text, below, joins=True)
        return below if node.name in _THROUGH or "JOIN" in node.name else []

    def _leave(text: str, below: Sequence[Found], *, joins: bool) -> None:
        marked = marks.columns(text)
        for scan in below:
            columns = frozenset(c for t, c in marked if t == scan.table) or named(text, tables[scan.table])
            if columns:
                scan.left.append((text, columns, joins))

    for root in plan:
        visit(root)
    return found


def unmarked(plan: Sequence[Operator], marks: Marks) -> int:
    """Scans of Python objects that are none of the marked tables."""
    nodes = [n for root in plan for n in root.walk() if n.name == "PYTHON_ARROW_SCAN"]
    return sum(not marks.columns(n.info.get("Projections", "")) for n in nodes)


def has_limit(plan: Sequence[Operator]) -> bool:
    """Whether something may end a scan before its last row."""
    return any("LIMIT" in n.name for root in plan for n in root.walk())


def named(text: str, columns: Sequence[str]) -> frozenset[int]:
    """The columns that an expression mentions by name."""
    words = [w for w in _WORDS.findall(text) if w[0] != "'" and w[-1] != "("]
    words = [w[1:-1].replace('""', '"') if w[0] == '"' else w for w in words]
    folded = {names.folded(w) for w in words}
    return frozenset(i for i, c in enumerate(columns) if names.folded(c) in folded)


def conjuncts(text: str) -> list[str]:
    """The terms of an AND as DuckDB prints it, `(a AND b)`; a text that is none is one term."""
    inner = _unwrapped(text)
    depth, start, quote, parts = 0, 0, "", []
    for i, char in enumerate(inner):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif depth == 0 and inner.startswith((" AND ", " BETWEEN ", " OR "), i):
            if not inner.startswith(" AND ", i):
                return [inner]
            parts.append(inner[start:i])
            start = i + len(" AND ")
    return [_unwrapped(p) for p in (*parts, inner[start:]) if p]


def _unwrapped(text: str) -> str:
    """Without the parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth, quote = 0, ""
    for i, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0 and i < len(text) - 1:
                return text
    return text[1:-1]
