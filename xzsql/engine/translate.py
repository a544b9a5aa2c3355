"""A predicate as DuckDB offers it -> `xzsql.ir`, exactly or not at all.

What is refused here DuckDB filters itself, so a refusal costs reads and never rows.
"""

from __future__ import annotations

import datetime as dt
import math
from typing import cast

import pyarrow as pa

from xzsql.engine.private import nodes
from xzsql.ir.predicate import And, Compare, In, IsNull, Not, Operator, Or, Predicate, Value

#: AND inside OR inside AND ...: what is deeper is refused, so that no reader of a predicate needs more stack than this.
MAX_DEPTH = 64

_COMPARISONS = frozenset(("=", "!=", "<", "<=", ">", ">="))
_INTEGERS: dict[pa.DataType, tuple[str, int, int]] = {
    pa.int8(): ("TINYINT", -(2**7), 2**7 - 1),
    pa.int16(): ("SMALLINT", -(2**15), 2**15 - 1),
    pa.int32(): ("INTEGER", -(2**31), 2**31 - 1),
    pa.int64(): ("BIGINT", -(2**63), 2**63 - 1),
    pa.uint8(): ("UTINYINT", 0, 2**8 - 1),
    pa.uint16(): ("USMALLINT", 0, 2**16 - 1),
    pa.uint32(): ("UINTEGER", 0, 2**32 - 1),
    pa.uint64(): ("UBIGINT", 0, 2**64 - 1),
}
#: Only microseconds: that is TIMESTAMP, the type that every table has for time.
_OTHERS: dict[pa.DataType, tuple[str, type]] = {
    pa.bool_(): ("BOOLEAN", bool),
    pa.float32(): ("FLOAT", float),
    pa.float64(): ("DOUBLE", float),
    pa.string(): ("VARCHAR", str),
    pa.large_string(): ("VARCHAR", str),
    pa.string_view(): ("VARCHAR", str),
    pa.binary(): ("BLOB", bytes),
    pa.large_binary(): ("BLOB", bytes),
    pa.binary_view(): ("BLOB", bytes),
    pa.timestamp("us"): ("TIMESTAMP", dt.datetime),
}


class _RefusedError(Exception):
    """Something that cannot be said exactly."""


def translate(node: nodes.Node, schema: pa.Schema) -> Predicate | None:
    """The same predicate over the columns of `schema`, or None.

    Iterative: DuckDB hands an OR of thousands of terms as a tree that is thousands deep. Chains of one operator become
    one flat `And` or `Or`.
    """
    done: list[tuple[Predicate, int]] = []
    pending: list[tuple[nodes.Node, bool]] = [(node, False)]
    try:
        while pending:
            current, expanded = pending.pop()
            if not expanded and (inner := _inner(current)):
                pending.append((current, True))
                pending.extend((child, False) for child in reversed(inner))
                continue
            inner = _inner(current)
            start = len(done) - len(inner)
            terms = done[start:]
            del done[start:]
            done.append(_joined(current, terms) if inner else (_leaf(current, schema), 0))
    except _RefusedError:
        return None
    return done[0][0]


def _inner(node: nodes.Node) -> list[nodes.Node]:
    """The predicates that a connective joins, a chain of one operator at once; none for a leaf."""
    match node:
        case nodes.Unary("NOT", operand):
            return [operand]
        case nodes.Binary("AND" | "OR" as op, _, _):
            terms: list[nodes.Node] = []
            pending: list[nodes.Node] = [node]
            while pending:
                current = pending.pop()
                if isinstance(current, nodes.Binary) and current.op == op:
                    pending += (current.right, current.left)
                else:
                    terms.append(current)
            return terms
        case _:
            return []


def _joined(node: nodes.Node, terms: list[tuple[Predicate, int]]) -> tuple[Predicate, int]:
    depth = 1 + max(d for _, d in terms)
    if depth > MAX_DEPTH:
        raise _RefusedError
    predicates = tuple(p for p, _ in terms)
    if isinstance(node, nodes.Unary):
        return Not(predicates[0]), depth
    return (And if cast("nodes.Binary", node).op == "AND" else Or)(predicates), depth


def _leaf(node: nodes.Node, schema: pa.Schema) -> Predicate:
    match node:
        case nodes.Binary(op, nodes.Col((name,)), nodes.Lit() as constant) if op in _COMPARISONS:
            return Compare(name, cast("Operator", op), _value(constant, _type(schema, name)))
        case nodes.In(nodes.Col((name,)), values) if values:
            kind = _type(schema, name)
            return In(name, tuple(_value(v, kind) for v in values))
        case nodes.Postfix("IS NULL", nodes.Col((name,))):
            _type(schema, name)
            return IsNull(name)
        case nodes.Postfix("IS NOT NULL", nodes.Col((name,))):
            _type(schema, name)
            return Not(IsNull(name))
    raise _RefusedError


def _type(schema: pa.Schema, name: str) -> pa.DataType:
    """The column's type without its encoding; struct fields never come here, their `Col` has several parts."""
    index = schema.get_field_index(name)
    if index < 0:
        raise _RefusedError
    kind = schema.field(index).type
    while pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    if pa.types.is_nested(kind):
        raise _RefusedError
    return kind


def _value(node: nodes.Node, kind: pa.DataType) -> Value:
    """The constant, where it is a value of exactly this type."""
    if isinstance(node, nodes.Lit):
        value = node.value
        if (integer := _INTEGERS.get(kind)) is not None:
            name, low, high = integer
            if node.type == name and type(value) is int and low <= value <= high:
                return value
        elif (other := _OTHERS.get(kind)) is not None:
            name, python_type = other
            if node.type == name and type(value) is python_type and _is_plain(value):
                return cast("Value", value)
    raise _RefusedError


def _is_plain(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, dt.datetime) or value.tzinfo is None
