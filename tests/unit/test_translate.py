import datetime as dt
import random

import pyarrow as pa
import pytest
from duckdb._sources.nodes import Binary, Col, In, Lit, Postfix, Unary

from xzsql.engine.scan import scannable
from xzsql.engine.translate import MAX_DEPTH, translate
from xzsql.ir import predicate as ir
from xzsql.testing.sources import MemorySource

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("u", pa.uint64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("t", pa.timestamp("us")),
        ("ns", pa.timestamp("ns")),
        ("tz", pa.timestamp("us", "UTC")),
        ("s", pa.string()),
        ("ls", pa.large_string()),
        ("cat", pa.dictionary(pa.int8(), pa.string(), ordered=True)),
        ("run", pa.run_end_encoded(pa.int32(), pa.float64())),
        ("b", pa.bool_()),
        ("raw", pa.binary()),
        ("st", pa.struct([("re", pa.float64())])),
        ("span", pa.duration("us")),
    ]
)


def eq(name, value, kind, op="="):
    return Binary(op, Col((name,)), Lit(value, kind))


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
def test_comparisons(op):
    assert translate(eq("i", 3, "INTEGER", op), SCHEMA) == ir.Compare("i", op, 3)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("u", 2**64 - 1, "UBIGINT"),
        ("f", 0.5, "FLOAT"),
        ("d", -0.0, "DOUBLE"),
        ("t", dt.datetime(2000, 1, 1, 0, 0, 0, 7), "TIMESTAMP"),
        ("s", "it's", "VARCHAR"),
        ("ls", "", "VARCHAR"),
        ("cat", "a", "VARCHAR"),
        ("run", 1.5, "DOUBLE"),
        ("b", False, "BOOLEAN"),
        ("raw", b"\0", "BLOB"),
    ],
)
def test_constants_of_the_columns_own_type(name, value, kind):
    assert translate(eq(name, value, kind), SCHEMA) == ir.Compare(name, "=", value)


@pytest.mark.parametrize(
    "node",
    [
        eq("i", 3, "BIGINT"),
        eq("i", 2**31, "INTEGER"),
        eq("i", True, "INTEGER"),
        eq("i", 3.0, "INTEGER"),
        eq("i", None, "INTEGER"),
        eq("d", 1, "DOUBLE"),
        eq("d", float("nan"), "DOUBLE"),
        eq("d", float("inf"), "DOUBLE"),
        eq("f", 0.5, "DOUBLE"),
        eq("ns", dt.datetime(2000, 1, 1), "TIMESTAMP_NS"),
        eq("ns", dt.datetime(2000, 1, 1), "TIMESTAMP"),
        eq("tz", 0, "TIMESTAMP WITH TIME ZONE"),
        eq("t", dt.datetime(2000, 1, 1, tzinfo=dt.UTC), "TIMESTAMP"),
        eq("t", "infinity", "TIMESTAMP"),
        eq("s", b"x", "VARCHAR"),
        eq("st", 1.0, "DOUBLE"),
        eq("span", 1, "INTERVAL"),
        eq("nope", 1, "INTEGER"),
        Binary("=", Col(("st", "re")), Lit(1.0, "DOUBLE")),
        Postfix("IS NULL", Col(("st", "re"))),
        Postfix("IS NULL", Col(("st",))),
        Postfix("IS TRUE", Col(("b",))),
        Binary("~", Col(("i",)), Lit(3, "INTEGER")),
        Binary("=", Lit(3, "INTEGER"), Col(("i",))),
        Unary("-", eq("i", 3, "INTEGER")),
        In(Col(("i",)), []),
        In(Col(("i",)), [Lit(1, "INTEGER"), Lit(2, "BIGINT")]),
        Binary("AND", eq("i", 3, "INTEGER"), eq("i", 3, "BIGINT")),
        Unary("NOT", Binary("OR", eq("st", 1.0, "DOUBLE"), eq("i", 3, "INTEGER"))),
        Col(("b",)),
    ],
)
def test_what_is_not_exact_is_refused(node):
    assert translate(node, SCHEMA) is None


def test_connectives_and_null():
    node = Unary("NOT", Binary("AND", Postfix("IS NOT NULL", Col(("ns",))), In(Col(("i",)), [Lit(1, "INTEGER")])))
    assert translate(node, SCHEMA) == ir.Not(ir.And((ir.Not(ir.IsNull("ns")), ir.In("i", (1,)))))


def test_order_of_terms_is_kept_and_chains_are_flat():
    leaves = [eq("i", k, "INTEGER") for k in range(5)]
    left = leaves[0]
    for leaf in leaves[1:]:
        left = Binary("OR", left, leaf)
    right = leaves[-1]
    for leaf in leaves[-2::-1]:
        right = Binary("OR", leaf, right)
    flat = ir.Or(tuple(ir.Compare("i", "=", k) for k in range(5)))
    assert translate(left, SCHEMA) == flat
    assert translate(right, SCHEMA) == flat


def test_thousands_of_terms_need_no_stack():
    node = eq("i", 0, "INTEGER")
    for k in range(1, 50_000):
        node = Binary("OR", node, eq("i", k, "INTEGER"))
    found = translate(node, SCHEMA)
    assert isinstance(found, ir.Or)
    assert len(found.terms) == 50_000


def test_deep_alternation_is_refused():
    def nest(levels):
        node = eq("i", 0, "INTEGER")
        for k in range(levels):
            node = Binary("AND" if k % 2 else "OR", node, eq("i", k, "INTEGER"))
        return node

    assert translate(nest(MAX_DEPTH), SCHEMA) is not None
    assert translate(nest(MAX_DEPTH + 1), SCHEMA) is None


def test_every_offer_of_duckdb_is_answered_as_duckdb_does(con):
    """Random predicates, taken over and evaluated row by row, against DuckDB on the plain table."""
    draw = random.Random(7)
    choices = {
        "i": [None, -3, 0, 1, 2, 2**31 - 1],
        "u": [None, 0, 1, 2**63, 2**64 - 1],
        "f": [None, -0.0, 0.0, 0.5, float("nan"), float("inf")],
        "d": [None, -1.5, -0.0, 0.0, 0.1, float("nan"), float("-inf")],
        "t": [None, *(dt.datetime(y, m, 1) for y in (1600, 1999, 2000) for m in (1, 7))],
        "s": [None, "", "a", "b", "é", "it's"],
        "b": [None, True, False],
    }
    schema = pa.schema([SCHEMA.field(n) for n in choices])
    table = pa.table({n: [draw.choice(v) for _ in range(200)] for n, v in choices.items()}, schema=schema)
    source = MemorySource(table, 64, accept=lambda _: True)
    con.register("eager", table)
    con.register("lazy", scannable(source))

    def literal(name):
        value = draw.choice([v for v in choices[name] if v is not None])
        return (
            str(value)
            if name in ("i", "u", "f", "d", "b") and value == value
            else f"'{str(value).replace(chr(39), chr(39) * 2)}'"
        )

    def condition(depth):
        name = draw.choice(list(choices))
        match draw.randrange(8 if depth else 5):
            case 0 | 1:
                return f"{name} {draw.choice(['=', '<>', '<', '<=', '>', '>='])} {literal(name)}"
            case 2:
                return f"{name} {draw.choice(['', 'NOT'])} IN ({literal(name)}, {literal(name)}, {literal(name)})"
            case 3:
                return f"{name} IS {draw.choice(['', 'NOT'])} NULL"
            case 4:
                return f"{name} {draw.choice(['', 'NOT'])} BETWEEN {literal(name)} AND {literal(name)}"
            case 5:
                return f"NOT ({condition(depth - 1)})"
            case _:
                return f"({condition(depth - 1)} {draw.choice(['AND', 'OR'])} {condition(depth - 1)})"

    for _ in range(300):
        where = condition(3).replace("inf", "'inf'").replace("-'inf'", "'-inf'")
        sql = "SELECT count(*), count(i), sum(u), min(t), max(s), count(d), count(f) FROM {} WHERE " + where
        assert con.execute(sql.format("lazy")).fetchall() == con.execute(sql.format("eager")).fetchall(), where
    assert sum(len(r.where) for r in source.requests) > 200
