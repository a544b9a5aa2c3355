"""Masks against DuckDB's own answer on the same values."""

import datetime as dt
import math

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xzsql.ir.predicate import And, Compare, In, IsNull, Not, Or, columns_of, walk
from xzsql.model.decode import Decoded
from xzsql.model.evaluate import Operand, leaf_truth, truth

OPS = ["=", "!=", "<", "<=", ">", ">="]


def run(predicate, arrays):
    operands = {k: Operand(Decoded(np.asarray(v), valid)) for k, (v, valid) in arrays.items()}
    return truth(predicate, lambda leaf: leaf_truth(leaf, operands))


def predicates(columns):
    leaves = st.one_of(
        *(
            st.one_of(
                st.builds(Compare, st.just(name), st.sampled_from(OPS), values),
                st.builds(lambda n, v: In(n, tuple(v)), st.just(name), st.lists(values, min_size=1, max_size=3)),
                st.just(IsNull(name)),
            )
            for name, values in columns.items()
        )
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(lambda t: And(tuple(t)), st.lists(inner, min_size=1, max_size=3)),
            st.builds(lambda t: Or(tuple(t)), st.lists(inner, min_size=1, max_size=3)),
            st.builds(Not, inner),
        ),
        max_leaves=6,
    )


FLOATS = st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 1.0, 1.5, math.inf, math.nan])
INTS = st.sampled_from([-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1])
TEXTS = st.sampled_from(["", "a", "A", "ab", "é", "z", "\U0001f600", "￿"])
TIMES = st.sampled_from([dt.datetime(1, 1, 1), dt.datetime(1970, 1, 1, 0, 0, 0, 1), dt.datetime(9999, 12, 31)])


@given(st.data())
def test_every_predicate_keeps_the_rows_that_duckdb_keeps(data):
    n = data.draw(st.integers(1, 6))
    kinds = {"f": (FLOATS, "f8"), "i": (INTS, "i8"), "s": (TEXTS, object), "t": (TIMES, "M8[us]")}
    arrays, columns = {}, {}
    for name, (values, dtype) in kinds.items():
        drawn = data.draw(st.lists(values, min_size=n, max_size=n))
        valid = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
        array = np.array(drawn, dtype=dtype)
        arrays[name] = (array, valid)
        columns[name] = pa.array([v if ok else None for v, ok in zip(drawn, valid, strict=True)], from_pandas=False)
    predicate = data.draw(predicates({k: v for k, (v, _) in kinds.items()}))
    table = pa.table({"n": pa.array(range(n)), **columns})
    con = duckdb.connect()
    con.register("t", table)
    kept = [r[0] for r in con.execute(f"SELECT n FROM (FROM t OFFSET 0) WHERE {predicate} ORDER BY n").fetchall()]
    dropped = [r[0] for r in con.execute(f"SELECT n FROM t WHERE NOT {predicate} ORDER BY n").fetchall()]
    found = run(predicate, arrays)
    assert np.flatnonzero(np.broadcast_to(found.true, n)).tolist() == kept
    assert np.flatnonzero(np.broadcast_to(found.false, n)).tolist() == dropped


def test_a_categorical_compares_its_categories():
    codes = Decoded(np.array([0, 1, 2, 1], "i4"), np.array([True, True, False, True]))
    operand = {"c": Operand(codes, np.array(["low", "mid"], dtype=object))}
    found = leaf_truth(Compare("c", ">=", "mid"), operand)
    assert found.true.tolist() == [False, True, False, True]
    assert found.false.tolist() == [True, False, False, False]


def test_thousands_of_terms_need_no_recursion():
    predicate = Compare("i", "=", 0)
    for k in range(1, 5000):
        predicate = Or((predicate, Compare("i", "=", k)))
    assert len(list(walk(predicate))) == 5000
    assert columns_of(predicate) == {"i"}
    assert run(predicate, {"i": (np.array([7, 6000]), None)}).true.tolist() == [True, False]


@pytest.mark.parametrize("value", [2**53, 2**53 + 1, 2**63 - 1])
def test_large_integers_keep_every_digit(value):
    array = np.array([2**53, 2**53 + 1, 2**63 - 1])
    assert run(Compare("i", "=", value), {"i": (array, None)}).true.tolist() == [v == value for v in array.tolist()]
