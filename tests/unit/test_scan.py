import gc
import threading
import time
import weakref

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

from xzsql.engine.scan import scannable
from xzsql.engine.stream import recorded
from xzsql.errors import ReadError, UnknownNameError, UnsupportedError
from xzsql.ir.predicate import And, Compare, Or
from xzsql.testing.sources import FailingSource, MemorySource, Request, SlowSource

N = 1000
TABLE = pa.table(
    {
        "x": pa.array([i // 100 for i in range(N)], pa.int64()),
        "s": pa.array([None if i % 7 == 0 else "abc"[i // 400] for i in range(N)]),
        "v": pa.array([float(i) for i in range(N)]),
    }
)


@pytest.fixture
def source():
    return MemorySource(TABLE, 64, dimensions=["x", "s"], encode={"x": "runs", "s": "dictionary"})


@pytest.fixture
def t(con, source):
    con.register("t", scannable(source))
    return source


def test_duckdb_gets_every_cell(con, t):
    assert con.sql("FROM t").to_arrow_table().equals(TABLE)
    assert con.sql("DESCRIBE t").fetchall()[1][:2] == ("s", "VARCHAR")


def test_only_needed_columns_and_predicates_on_keys_go_down(con, t):
    assert con.execute("SELECT sum(v) FROM t WHERE x BETWEEN 3 AND 4 AND v > 350").fetchall() == [
        (sum(range(351, 500)),)
    ]
    (request,) = t.requests
    assert request.columns == ("v",)
    assert request.where == (And((Compare("x", ">=", 3), Compare("x", "<=", 4))),)
    assert Compare("v", ">", 350.0) in t.offers


def test_the_answer_is_the_eager_one(con, t):
    con.register("eager", TABLE)
    for where in [
        "x BETWEEN 3 AND 4 AND v > 350",
        "s = 'a' OR x = 9",
        "s IS NULL AND x < 2",
        "NOT (x IN (1, 2) OR s = 'b')",
    ]:
        sql = f"SELECT count(*), sum(v), min(s), max(x) FROM {{}} WHERE {where}"
        assert con.execute(sql.format("t")).fetchall() == con.execute(sql.format("eager")).fetchall()


def test_an_or_over_two_columns_is_one_predicate(con, t):
    con.execute("SELECT count(*) FROM t WHERE s = 'a' OR x = 9").fetchall()
    assert t.requests[0].where == (Or((Compare("s", "=", "a"), Compare("x", "=", 9))),)


def test_a_predicate_may_name_a_column_that_is_not_asked_for(con, t):
    assert con.execute("SELECT max(v) FROM t WHERE x = 2").fetchall() == [(299.0,)]
    assert t.requests == [Request(("v",), (Compare("x", "=", 2),))]


def test_counting_asks_for_the_first_column(con, t):
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(N,)]
    assert t.requests == [Request(("x",), ())]


def test_a_limit_stops_early(con, t, settle):
    assert len(con.execute("SELECT v FROM t LIMIT 5").fetchall()) == 5
    assert t.pulled < 4
    assert settle(lambda: t.open == 0)


def test_a_self_join_streams_each_side_with_its_own_predicates(con, t):
    sql = "SELECT count(*) FROM t a JOIN t b ON a.v = b.v WHERE a.x = 1 AND b.x > 0"
    assert con.execute(sql).fetchall() == [(100,)]
    assert {r.where for r in t.requests} == {(Compare("x", "=", 1),), (Compare("x", ">", 0),)}


def test_row_count_is_known_to_the_planner(con, t):
    assert "~1,000 rows" in con.sql("EXPLAIN FROM t").fetchall()[0][1]


def test_two_thousand_ors(con, t):
    where = " OR ".join(f"x = {k}" for k in range(2000))
    assert con.execute(f"SELECT count(*) FROM t WHERE {where} OR s = 'zz'").fetchall() == [(N,)]


def test_closing_or_dropping_a_reader_ends_the_stream(con, settle):
    for end in ("close", "drop"):
        source = MemorySource(pa.table({"v": [1.0] * 2_000_000}), 10_000)
        con.register("big", scannable(source))
        reader = con.sql("SELECT v FROM big").to_arrow_reader(10_000)
        reader.read_next_batch()
        assert source.open == 1
        if end == "close":
            reader.close()
        del reader
        assert settle(lambda source=source: source.open == 0)
        assert source.pulled < 150


def test_the_object_and_its_source_die_with_the_view(con):
    source = MemorySource(TABLE)
    scan = scannable(source)
    ref = weakref.ref(source)
    con.register("v", scan)
    con.execute("SELECT count(*) FROM v").fetchall()
    gc.disable()
    try:
        del source, scan
        assert ref() is not None
        con.unregister("v")
        assert ref() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("error", [ValueError("bad chunk"), KeyboardInterrupt(), ReadError("block [0:3] of 't2m'")])
def test_an_exception_in_the_stream_can_be_found_again(con, error):
    source = FailingSource(TABLE, 100, after=3, error=error)
    con.register("failing", scannable(source))
    with pytest.raises(duckdb.Error) as caught:
        con.execute("SELECT sum(v) FROM failing").fetchall()
    assert recorded(caught.value) is error
    assert str(error) in str(caught.value)
    assert source.open == 0


def test_an_exception_while_opening_or_accepting_can_be_found_again(con):
    class Broken(MemorySource):
        def accepts(self, predicate):
            raise LookupError("no such coordinate")

        def stream(self, columns, where):
            raise RuntimeError("no store")

    con.register("broken", scannable(Broken(TABLE)))
    with pytest.raises(duckdb.Error, match="no such coordinate") as caught:
        con.execute("FROM broken WHERE x = 1").fetchall()
    assert isinstance(recorded(caught.value), LookupError)
    with pytest.raises(duckdb.Error, match="no store") as caught:
        con.execute("FROM broken").fetchall()
    assert isinstance(recorded(caught.value), RuntimeError)


def test_old_errors_are_forgotten(con):
    for number in range(70):
        con.register("failing", scannable(FailingSource(TABLE, after=0, error=ValueError(number))))
        with pytest.raises(duckdb.Error) as caught:
            con.execute("FROM failing").fetchall()
        if number == 0:
            first = caught.value
    assert recorded(first) is None
    assert recorded(caught.value).args == (69,)


def test_a_wrong_answer_of_a_source_is_an_error(con):
    class Wrong(MemorySource):
        def stream(self, columns, where):
            return super().stream(columns[::-1], where)

    con.register("wrong", scannable(Wrong(TABLE)))
    with pytest.raises(duckdb.Error, match="asked for the columns"):
        con.execute("SELECT x, v FROM wrong").fetchall()


def test_two_threads_scan_one_object(con):
    source = SlowSource(TABLE, 100, seconds=0.005)
    scan = scannable(source)
    found = []

    def ask():
        with con.cursor() as cursor:
            cursor.register("t", scan)
            found.append(cursor.execute("SELECT sum(v), count(*) FROM t").fetchall())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[(N * (N - 1) / 2, N)]] * 4


def test_a_table_needs_a_column():
    with pytest.raises(UnsupportedError, match="without columns"):
        scannable(MemorySource(pa.table({})))


class TestDataset:
    """What polars and users of pyarrow do with it."""

    @pytest.fixture
    def scan(self, source):
        return scannable(source)

    def test_repr_names_columns_and_rows(self, scan):
        assert repr(scan) == "<xzsql table of 1,000 rows: x: int64, s: string, v: double>"

    def test_it_is_a_dataset_with_plain_columns(self, scan):
        assert isinstance(scan, pads.Dataset)
        assert scan.to_table().equals(TABLE)
        assert scan.scanner().to_table().equals(TABLE)
        assert pa.table(scan).equals(TABLE)
        assert pa.Table.from_batches(scan.to_batches()).equals(TABLE)

    @pytest.mark.parametrize(
        "columns", [["v"], ["v", "x"], ["s"], {"twice": pc.field("v") * 2}, {"y": pc.field("s")}, []]
    )
    @pytest.mark.parametrize("where", [None, pc.field("x") > 3, (pc.field("s") == "a") & (pc.field("v") > 10)])
    def test_as_an_eager_dataset(self, scan, columns, where):
        eager = pads.dataset(TABLE)
        expected = eager.to_table(columns=columns, filter=where)
        assert scan.to_table(columns=columns, filter=where).equals(expected)
        assert scan.scanner(columns=columns, filter=where).to_table().equals(expected)
        assert scan.head(5, columns=columns, filter=where).equals(expected.slice(0, 5))
        assert scan.count_rows(filter=where) == expected.num_rows

    def test_reads_the_columns_that_are_needed(self, scan, source):
        scan.to_table(columns=["v"], filter=pc.field("x") > 3)
        scan.to_table(columns={"twice": pc.field("v") * 2})
        scan.count_rows()
        assert [r.columns for r in source.requests] == [("x", "v"), ("v",), ("x",)]

    def test_head_stops_reading(self, scan, source):
        assert scan.head(3)["v"].to_pylist() == [0.0, 1.0, 2.0]
        assert source.pulled == 1
        assert source.open == 0

    def test_take_and_filter(self, scan):
        assert scan.take([5, 3])["v"].to_pylist() == [5.0, 3.0]
        assert scan.filter(pc.field("v") < 2).to_table().num_rows == 2

    def test_unknown_columns(self, scan):
        with pytest.raises(UnknownNameError, match="'nope'; there is 'x', 's', 'v'"):
            scan.to_table(columns=["nope"])
        with pytest.raises(pa.ArrowInvalid, match="nope"):
            scan.to_table(filter=pc.field("nope") == 1)

    def test_errors_come_as_they_are(self):
        scan = scannable(FailingSource(TABLE, after=0, error=ReadError("block [0:3]")))
        for read in (scan.to_table, lambda: scan.scanner().to_table(), lambda: scan.head(1), scan.count_rows):
            with pytest.raises(ReadError, match="block"):
                read()

    @pytest.mark.parametrize("name", ["get_fragments", "join", "sort_by", "replace_schema", "__reduce__"])
    def test_what_needs_files_is_refused(self, scan, name):
        with pytest.raises(UnsupportedError, match="no files and no fragments"):
            getattr(scan, name)()

    def test_polars(self, scan, source):
        lazy = pl.scan_pyarrow_dataset(scan)
        eager = pl.DataFrame(TABLE)
        for ask in (
            lambda f: f.filter(pl.col("x") > 5).select("v"),
            lambda f: f.filter((pl.col("s") == "b") | pl.col("s").is_null()).select(pl.col("v").sum()),
            lambda f: f.select(pl.len()),
            lambda f: f.head(3),
            lambda f: f.group_by("x").agg(pl.col("v").mean()).sort("x"),
        ):
            assert ask(lazy).collect().equals(ask(eager.lazy()).collect())
        assert source.requests[0].columns == ("x", "v")
        assert pl.DataFrame(scan).equals(eager)

    def test_a_scanner_that_is_dropped_lets_go(self, source, settle):
        scanner = scannable(source).scanner()
        reader = scanner.to_reader()
        reader.read_next_batch()
        del reader, scanner
        gc.collect()
        assert settle(lambda: source.open == 0)


def test_scans_that_overlap_in_time(con):
    """A consumer that waits holds nobody else up."""
    gate = threading.Event()
    slow, fast = SlowSource(TABLE, 100, gate=gate), MemorySource(TABLE)
    con.register("slow", scannable(slow))
    done = []
    thread = threading.Thread(target=lambda: done.append(con.execute("SELECT count(*) FROM slow").fetchall()))
    thread.start()
    while not slow.requests:
        time.sleep(0.001)
    with con.cursor() as cursor:
        cursor.register("fast", scannable(fast))
        assert cursor.execute("SELECT count(*) FROM fast").fetchall() == [(N,)]
    assert not done
    gate.set()
    thread.join()
    assert done == [[(N,)]]
