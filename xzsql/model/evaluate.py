"""Predicates on decoded values, in SQL's three-valued logic.

A predicate on an array of values is a pair of masks: where it is true, and where it is false. Where neither holds it
is unknown (NULL), which no WHERE keeps and no NOT turns into true.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xzsql.ir.predicate import And, Compare, In, IsNull, Not, Operator, Or, Predicate, Value
from xzsql.model.table import Cells

_NUMPY: dict[Operator, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """Where a predicate is true and where it is false; the two masks broadcast against each other."""

    true: np.ndarray
    false: np.ndarray

    def __invert__(self) -> Truth:
        return Truth(self.false, self.true)

    def __and__(self, other: Truth) -> Truth:
        return Truth(self.true & other.true, self.false | other.false)

    def __or__(self, other: Truth) -> Truth:
        return Truth(self.true | other.true, self.false & other.false)


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """The values of one column, and what they number where they are codes."""

    cells: Cells
    categories: np.ndarray | None = None


def truth(predicate: Predicate, leaf: Callable[[Compare | In | IsNull], Truth]) -> Truth:
    """The predicate over what `leaf` says of its leaves; without recursion, since an OR may be thousands deep."""
    done: list[Truth] = []
    pending: list[tuple[Predicate, bool]] = [(predicate, False)]
    while pending:
        node, expanded = pending.pop()
        match node:
            case And(terms) | Or(terms):
                if not expanded:
                    pending.append((node, True))
                    pending.extend((t, False) for t in reversed(terms))
                    continue
                found = done[-len(terms) :]
                del done[-len(terms) :]
                result = found[0]
                for term in found[1:]:
                    result = result & term if isinstance(node, And) else result | term
                done.append(result)
            case Not(term):
                if not expanded:
                    pending.extend([(node, True), (term, False)])
                    continue
                done.append(~done.pop())
            case _:
                done.append(leaf(node))
    return done[0]


def leaf_truth(leaf: Compare | In | IsNull, columns: Mapping[str, Operand]) -> Truth:
    """A leaf on the values of its column."""
    operand = columns[leaf.column]
    values, valid = operand.cells.values, operand.cells.valid
    if isinstance(leaf, IsNull):
        known = np.ones(values.shape, bool) if valid is None else valid
        return Truth(~known, known)
    if operand.categories is not None:
        # Few categories, many codes: compare each category once. Codes of invalid cells may be anything.
        codes = values if valid is None else np.where(valid, values, 0)
        matched = _matches(operand.categories, leaf)
        hit = matched[codes] if len(matched) else np.zeros(codes.shape, bool)
    else:
        if valid is not None and values.dtype.kind == "O":
            values = np.where(valid, values, b"" if _holds_bytes(leaf) else "")
        hit = _matches(values, leaf)
    if valid is None:
        return Truth(hit, ~hit)
    return Truth(hit & valid, ~hit & valid)


def _holds_bytes(leaf: Compare | In) -> bool:
    value = leaf.value if isinstance(leaf, Compare) else leaf.values[0]
    return isinstance(value, bytes)


def _matches(values: np.ndarray, leaf: Compare | In) -> np.ndarray:
    """Where `leaf` holds, every value taken as known."""
    if isinstance(leaf, Compare):
        return _compared(values, leaf.op, leaf.value)
    if values.dtype.kind == "O":
        wanted = set(leaf.values)
        return np.fromiter((v in wanted for v in values.ravel()), bool, values.size).reshape(values.shape)
    constants = np.array([constant(v, values.dtype) for v in leaf.values], dtype=values.dtype)
    hit = np.isin(values, constants)
    if values.dtype.kind == "f" and np.isnan(constants).any():
        hit |= np.isnan(values)
    return np.asarray(hit)


def _compared(values: np.ndarray, op: Operator, value: Value) -> np.ndarray:
    wanted = constant(value, values.dtype)
    if values.dtype.kind != "f":
        return np.asarray(_NUMPY[op](values, wanted), dtype=bool)
    if np.isnan(wanted):
        nan = np.isnan(values)
        everything = np.ones(values.shape, bool)
        return {"=": nan, ">=": nan, "!=": ~nan, "<": ~nan, "<=": everything, ">": ~everything}[op]
    hit = np.asarray(_NUMPY[op](values, wanted), dtype=bool)
    # NaN is greater than every number; numpy says false to all but !=.
    return hit | np.isnan(values) if op in (">", ">=") else hit


def constant(value: Value, dtype: np.dtype) -> Any:
    """A constant as the dtype holds it, exactly."""
    if isinstance(value, dt.datetime):
        return np.datetime64(value, "us")
    if dtype.kind == "O":
        return value
    return dtype.type(value)
