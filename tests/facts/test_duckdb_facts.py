"""What xzsql takes for granted about DuckDB: a test for each line of docs/facts.md.

Only DuckDB and Arrow are used here. A test that fails after an update of DuckDB names the line to think about anew.
"""

import gc
import json
import re
import threading
import time
import weakref
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest
from duckdb._sources.arrow import ArrowScanSource

ROWS = 10_000


def make(rows=ROWS):
    """The first column is unique and ascending, so that a wrong row shows."""
    n = np.arange(rows)
    return pa.table(
        {
            "i": pa.array(n, pa.int64()),
            "f": pa.array(n % 100 / np.float32(10), pa.float32()),
            "d": pa.array(n % 100 / 10),
            "t": pa.array(np.datetime64("2000-01-01", "us") + n * np.timedelta64(1, "h")),
            "ns": pa.array(np.datetime64("2000-01-01", "ns") + n),
            "s": pa.array(np.array(["a", "b", "c"])[n % 3].tolist()),
            "b": pa.array(n % 2 == 0),
            "blob": pa.array([b"x"] * rows, pa.binary()),
            "st": pa.array([{"re": 1.0}] * rows, pa.struct([("re", pa.float64())])),
        }
    )


class Table(pads.Dataset, ArrowScanSource):
    """A table that DuckDB scans, and a record of what it was asked."""

    schema_is_stable = True

    def __init__(self, table, take=lambda fragment: False, batch_rows=1000, size=None):
        self.table, self.take, self.batch_rows, self.size = table, take, batch_rows, size
        self.offered, self.streamed, self.pulled, self.open, self.threads = [], [], 0, 0, set()
        self.fail = None

    obj = property(lambda self: self)
    schema = property(lambda self: self.table.schema)

    def __arrow_c_schema__(self):
        return self.schema.__arrow_c_schema__()

    def rows(self):
        return self.table.num_rows if self.size is None else self.size

    def accepts(self, node):
        self.offered.append(node.fragment())
        return self.take(node.fragment())

    def stream(self, columns, filters):
        self.streamed.append((columns, [f.fragment() for f in filters]))
        table = self.table if columns is None else self.table.select(columns)

        def batches():
            self.open += 1
            try:
                for batch in table.to_batches(self.batch_rows):
                    self.pulled += 1
                    self.threads.add(threading.get_ident())
                    yield batch
                    if self.fail is not None:
                        raise self.fail
            finally:
                self.open -= 1

        return pa.RecordBatchReader.from_batches(table.schema, batches()).__arrow_c_stream__(), True

    def scanner(self, columns=None, filter=None, **_options):
        return pads.Scanner.from_batches(self.table.to_batches(), schema=self.schema, columns=columns, filter=filter)

    def to_table(self, columns=None, filter=None, **_options):
        return self.scanner(columns, filter).to_table()


@pytest.fixture
def t(con):
    table = Table(make())
    con.register("t", table)
    return table


def ask(con, sql, *args):
    return con.execute(sql, *args).fetchall()


def view_of(con, name, table):
    handle = con._register_source(table, None)
    con._create_view(name, f"SELECT * FROM {handle.name}", sources=[handle])


class TestScan:
    def test_a_dataset_that_is_a_source_is_accepted_by_register_as_a_variable_and_by_polars(self, con, t):
        local = t
        assert con.execute("SELECT count(*) FROM t").fetchall() == [(ROWS,)]
        assert con.execute("SELECT count(*) FROM local").fetchall() == [(ROWS,)]
        lazy = pl.scan_pyarrow_dataset(local).filter(pl.col("i") < 3).select("d")
        assert lazy.collect()["d"].to_list() == [0.0, 0.1, 0.2]

    def test_rows_shows_in_explain(self, con):
        con.register("t", Table(make(10), size=123456))
        assert "~123,456 rows" in ask(con, "EXPLAIN FROM t")[0][1]

    def test_rows_decides_the_build_side_of_a_join(self, con):
        builds = []
        for size in (10, 10**9):
            con.register("keys", pa.table({"i": range(1000)}))
            con.register("t", Table(make(10), size=size))
            plan = ask(con, "EXPLAIN SELECT count(*) FROM keys JOIN t USING (i)")[0][1]
            builds.append(re.findall(r"~([\d,]+) rows", plan)[-1])  # the scan on the right of the join
        assert builds == ["10", "1,000"]

    def test_offers_come_before_the_stream_and_a_self_join_offers_twice(self, con, t):
        t.take = lambda fragment: True
        sql = "SELECT count(*) FROM t x JOIN t y ON x.d = y.d WHERE x.i = 1 AND y.i = 2"
        con.execute(sql)
        con.fetchall()
        assert sorted(t.offered) == ['("i" = 1)', '("i" = 2)']
        assert sorted(f for _, f in t.streamed) == [['("i" = 1)'], ['("i" = 2)']]

    def test_a_plain_dataset_gets_no_greater_than_on_floats_and_no_row_count(self, con):
        class Plain(pads.InMemoryDataset):
            asked: list = []  # noqa: RUF012

            def scanner(self, *args, **kwargs):
                self.asked.append(str(kwargs.get("filter")))
                return super().scanner(*args, **kwargs)

        con.register("p", Plain(make()))
        for where in ("d > 3", "d >= 3", "d BETWEEN 3 AND 4", "f > 3", "i > 3"):
            ask(con, f"SELECT sum(i) FROM p WHERE {where}")
        assert Plain.asked[:4] == ["None"] * 4
        assert ">" in Plain.asked[4]
        assert "~1 row" in ask(con, "EXPLAIN FROM p")[0][1]

    def test_columns_is_none_for_all_and_the_first_for_a_count(self, con, t):
        for sql in ("FROM t", "SELECT count(*) FROM t", "SELECT 1 FROM t", "SELECT s, d FROM t"):
            ask(con, sql)
        assert [c if c is None else list(c) for c, _ in t.streamed] == [None, [0], [0], [2, 5]]

    def test_a_predicate_may_name_a_column_that_is_not_asked_for(self, con, t):
        t.take = lambda fragment: True
        ask(con, "SELECT max(d) FROM t WHERE s = 'a'")
        assert [(list(c), f) for c, f in t.streamed] == [([2], ["(\"s\" = 'a')"])]

    def test_a_table_without_columns_is_refused(self, con):
        with pytest.raises(duckdb.InvalidInputException):
            con.register("none", Table(pa.table({})))

    @pytest.mark.parametrize(
        ("where", "offers"),
        [
            ("i = 3", ['("i" = 3)']),
            ("3 < i", ['("i" > 3)']),
            ("i <> 3", ['("i" != 3)']),
            ("d >= 0.1", ['("d" >= 0.1::DOUBLE)']),
            ("f = 0.1", ['("f" = 0.10000000149011612::DOUBLE)']),
            ("f = 0.1::FLOAT", ['("f" = 0.10000000149011612::DOUBLE)']),
            ("i IN (1, 2, 5)", ['("i" IN (1, 2, 5))']),
            ("i NOT IN (1, 2, 5)", ['(NOT ("i" IN (1, 2, 5)))']),
            ("s IS NULL", ['("s" IS NULL)']),
            ("s IS NOT NULL", ['("s" IS NOT NULL)']),
            ("d BETWEEN 1 AND 2", ['(("d" >= 1.0::DOUBLE) AND ("d" <= 2.0::DOUBLE))']),
            ("NOT (i = 3 OR s = 'a')", ['("i" != 3)', '("s" != \'a\')']),
            ("i = 3 OR s = 'a'", ['(("i" = 3) OR ("s" = \'a\'))']),
            ("i = 3 AND s = 'a'", ['("i" = 3)', '("s" = \'a\')']),
            ("b = true", ['("b" = TRUE)']),
            ("blob = 'x'::BLOB", ["(\"blob\" = '\\x78'::BLOB)"]),
            ("st.re = 1", ['("st"."re" = 1.0::DOUBLE)']),
            ("t = '2000-01-01 00:00:00.5'", ["(\"t\" = TIMESTAMP '2000-01-01 00:00:00.5')"]),
        ],
    )  # fmt: skip
    def test_offered(self, con, t, where, offers):
        ask(con, f"SELECT count(*) FROM t WHERE {where}")
        assert sorted(t.offered) == sorted(offers)

    @pytest.mark.parametrize(
        ("where", "low", "high"),
        [
            ("t::DATE = '2000-01-02'", ">= TIMESTAMP '2000-01-02 00:00:00'", "< TIMESTAMP '2000-01-03 00:00:00'"),
            ("year(t) = 2000", ">= TIMESTAMP '2000-01-01 00:00:00'", "<= TIMESTAMP '2000-12-31 23:59:59.999999'"),
            (
                "date_trunc('month', t) = '2000-02-01'",
                ">= TIMESTAMP '2000-02-01 00:00:00'",
                "< TIMESTAMP '2000-03-01 00:00:00'",
            ),
        ],
    )
    def test_parts_of_a_timestamp_are_offered_as_ranges(self, con, t, where, low, high):
        ask(con, f"SELECT count(*) FROM t WHERE {where}")
        assert t.offered == [f'(("t" {low}) AND ("t" {high}))']

    @pytest.mark.parametrize(
        "where",
        [
            "s LIKE 'a%'",
            "extract('hour' FROM t) = 3",
            "month(t) = 3",
            "b",
            "NOT b",
            "(i, s) = (1, 'a')",
            "(i, s) IN ((1, 'a'), (2, 'b'))",
            "i IS NOT DISTINCT FROM 3",
            "i = (SELECT 3)",
            "i IN (SELECT 3)",
            "i = d",
            "i = 2.5",
            "i = 2::DOUBLE",
            "i = 99999999999999999999",
            "d = 'nan'",
            "d < 'inf'",
            "f = 1e-1",
            "f = 0.1::DOUBLE",
            "f > 3e0",
            "t < now()",
            "t < TIMESTAMPTZ '2000-01-01 00:00:00+00'",
            "t < 'infinity'",
            "t > '12000-01-01'",
            "ns = '2000-01-01'",
        ],
    )
    def test_not_offered(self, con, t, where):
        ask(con, f"SELECT count(*) FROM t WHERE {where}")
        assert t.offered == []

    def test_now_is_offered_where_it_is_cast_to_timestamp(self, con, t):
        ask(con, "SELECT count(*) FROM t WHERE t < now()::TIMESTAMP")
        assert len(t.offered) == 1

    def test_join_keys_are_not_offered(self, con, t):
        con.register("keys", pa.table({"i": [5]}))
        assert ask(con, "SELECT count(*) FROM t JOIN keys USING (i)") == [(1,)]
        assert t.offered == []

    def test_a_python_float_against_a_float_column_is_compared_as_double(self, con, t):
        con.register("eager", make())
        assert ask(con, "SELECT count(*) FROM t WHERE f = ?", [0.1]) == [(0,)]
        assert ask(con, "SELECT count(*) FROM eager WHERE f = ?", [0.1]) == [(0,)]
        assert t.offered == []
        assert ask(con, "SELECT count(*) FROM t WHERE f = ?::FLOAT", [0.1]) == [(100,)]
        assert ask(con, "SELECT count(*) FROM t WHERE f = ?", [duckdb.value.constant.FloatValue(0.1)]) == [(100,)]
        assert len(t.offered) == 2

    def test_numpy_scalars_as_parameters_are_refused_or_misread(self, con):
        for value in (np.float32(1), np.int64(1), np.bool_(True), np.timedelta64(1, "s")):
            with pytest.raises(duckdb.NotImplementedException):
                con.execute("SELECT ?", [value])
        assert ask(con, "SELECT typeof(?)", [np.datetime64("2000-01-01", "ns")]) == [("BIGINT",)]
        assert ask(con, "SELECT typeof(?)", [np.datetime64("2000-01-01", "D")]) == [("DATE",)]

    def test_a_limit_stops_the_stream(self, con, settle):
        table = Table(make(300_000), batch_rows=1000)
        con.register("t", table)
        assert len(ask(con, "SELECT i FROM t LIMIT 5")) == 5
        assert table.pulled < 10
        assert settle(lambda: table.open == 0)

    def test_one_scan_is_pulled_by_one_thread_at_a_time(self, con):
        table, inside, most = make(200_000), [0], [0]

        class Watched(Table):
            def stream(self, columns, filters):
                def batches():
                    for batch in table.select(columns).to_batches(1000):
                        inside[0] += 1
                        most[0] = max(most[0], inside[0])
                        time.sleep(0.0005)
                        inside[0] -= 1
                        yield batch

                reader = pa.RecordBatchReader.from_batches(table.select(columns).schema, batches())
                return reader.__arrow_c_stream__(), True

        con.execute("SET threads = 4")
        con.register("t", Watched(table))
        assert ask(con, "SELECT sum(i) FROM t") == [(sum(range(200_000)),)]
        assert most == [1]

    def test_an_accepted_predicate_is_not_checked_again(self, con, t):
        t.take = lambda fragment: True
        assert ask(con, "SELECT count(*) FROM t WHERE i < 0") == [(ROWS,)]

    def test_thousands_of_ors_are_one_deep_tree(self, con, t):
        depth = []

        def take(node):
            depth.append(node.count(" OR "))
            return False

        t.take = take
        ask(con, "SELECT count(*) FROM t WHERE " + " OR ".join(f"i = {k} OR s = 'x{k}'" for k in range(1500)))
        assert depth == [2999]

    def test_run_ends_and_dictionaries_may_arrive_where_plain_columns_were_declared(self, con):
        plain = make(5000)
        runs = pc.run_end_encode(pa.array(np.repeat(np.arange(50.0), 100)))
        with_null = pc.run_end_encode(pa.array([None if k // 7 % 3 == 0 else "xyz"[k // 7 % 3] for k in range(5000)]))
        encoded = {"f": runs, "s": plain["s"].combine_chunks().dictionary_encode(), "n": with_null}
        decoded = {"f": pc.run_end_decode(runs), "s": plain["s"], "n": pc.run_end_decode(with_null)}
        declared = pa.schema([("f", pa.float64()), ("s", pa.string()), ("n", pa.string())])

        class Encoded(Table):
            schema = declared

        con.register("eager", pa.table(decoded))
        for batch_rows in (5000, 77):  # 77: batches that are slices, beginning in the middle of a run
            for kind in (Table, Encoded):
                con.register("t", kind(pa.table(encoded), batch_rows=batch_rows))
                for sql in (
                    "SELECT * FROM {} ORDER BY ALL",
                    "SELECT f, n, count(*) FROM {} GROUP BY ALL ORDER BY ALL",
                    "SELECT count(*), max(s) FROM {} WHERE n IS NULL AND f > 3",
                    "SELECT s, sum(f) FROM {} WHERE n = 'y' OR s = 'a' GROUP BY s ORDER BY s",
                    "SELECT typeof(f), typeof(s), typeof(n) FROM {} LIMIT 1",
                ):
                    assert ask(con, sql.format("t")) == ask(con, sql.format("eager"))

    def test_scans_survive_fresh_threads_and_cursors(self, con):
        """A release once hung here (xarray-sql issue 241); the soak session runs it for minutes."""
        table = Table(make(20_000), batch_rows=500)
        con.register("t", table)
        view_of(con, ("memory", "main", "v"), table)
        stop = time.monotonic() + 2
        answers = set()

        def churn():
            while time.monotonic() < stop:
                thread = threading.Thread(target=lambda: None)
                thread.start()
                thread.join()

        def query():
            while time.monotonic() < stop:
                with con.cursor() as cursor:
                    answers.add(ask(cursor, "SELECT sum(i) FROM v")[0][0])

        threads = [threading.Thread(target=work, daemon=True) for work in (churn, query, query)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert answers == {sum(range(20_000))}

    @pytest.mark.parametrize("error", [ValueError("bad block"), OSError("bad block"), KeyboardInterrupt("bad block")])
    def test_an_exception_in_the_stream_arrives_as_text(self, con, error):
        table = Table(make(3_000_000).select(["i", "d"]), batch_rows=100_000)
        con.register("t", table)
        reader = con.sql("FROM t").to_arrow_reader(1000)
        table.fail = error
        with pytest.raises(OSError, match="bad block") as caught:
            reader.read_all()
        assert caught.value.__cause__ is None
        with pytest.raises(duckdb.InvalidInputException, match="bad block") as caught:
            ask(con, "SELECT sum(i) FROM t")
        assert caught.value.__cause__ is None


class TestNames:
    def test_a_handles_name_is_read_from_every_cursor_thread_and_transaction_while_it_lives(self, con):
        handle = con._register_source(Table(make()), None)
        name, found = handle.name, []
        cursor = con.cursor()
        cursor.begin()
        found.append(ask(cursor, f"SELECT count(*) FROM {name}"))
        thread = threading.Thread(target=lambda: found.append(ask(con.cursor(), f"SELECT count(*) FROM {name}")))
        thread.start()
        thread.join()
        assert found == [[(ROWS,)]] * 2
        del handle
        gc.collect()
        with pytest.raises(duckdb.InvalidInputException, match="was released"):
            con.cursor().execute(f"FROM {name}")

    def test_a_view_in_an_attached_memory_database_owns_its_source(self, con):
        con.execute("ATTACH ':memory:' AS m; CREATE SCHEMA m.\"a/b\"")
        con.begin()
        con.rollback()
        view_of(con.cursor(), ("m", "a/b", "v"), Table(make()))
        cursor = con.cursor()
        assert ask(cursor, 'SELECT count(*) FROM m."a/b".v') == [(ROWS,)]
        assert ask(cursor, "SELECT table_schema FROM information_schema.tables WHERE table_name = 'v'") == [("a/b",)]
        assert [r[:3] for r in ask(cursor, "SHOW ALL TABLES")] == [("m", "a/b", "v")]
        cursor.execute("COMMENT ON COLUMN m.\"a/b\".v.d IS 'kelvin'")
        assert ("kelvin",) in ask(con, "SELECT comment FROM duckdb_columns() WHERE column_name = 'd'")

    def test_it_survives_a_rollback_of_another_transaction_and_goes_with_its_own(self, con):
        con.execute("ATTACH ':memory:' AS m; BEGIN; SELECT 1")
        view_of(con.cursor(), ("m", "main", "v"), Table(make()))
        con.execute("ROLLBACK")
        assert ask(con, "SELECT count(*) FROM m.v") == [(ROWS,)]
        cursor = con.cursor()
        cursor.execute("BEGIN; DROP VIEW m.v")
        view_of(cursor, ("m", "main", "w"), Table(make()))
        cursor.execute("ROLLBACK")
        assert ask(con, "SELECT count(*) FROM m.v") == [(ROWS,)]
        with pytest.raises(duckdb.CatalogException):
            con.execute("FROM m.w")

    @pytest.mark.parametrize("end", ["DROP VIEW m.v", "DETACH m", "close"])
    def test_the_object_is_freed_when_dropped_detached_or_closed(self, end):
        con = duckdb.connect()
        con.execute("ATTACH ':memory:' AS m")
        table = Table(make())
        ref = weakref.ref(table)
        view_of(con.cursor(), ("m", "main", "v"), table)
        del table
        assert ref() is not None
        con.close() if end == "close" else con.execute(end)
        gc.collect()
        assert ref() is None

    def test_even_during_a_scan_which_ends_well(self, con):
        con.execute("ATTACH ':memory:' AS m")
        table = Table(make(500_000), batch_rows=1000)
        ref = weakref.ref(table)
        view_of(con.cursor(), ("m", "main", "v"), table)
        reader = con.cursor().sql("SELECT i FROM m.v").to_arrow_reader(1000)
        first = reader.read_next_batch().num_rows
        con.execute("DETACH m")
        assert first + sum(b.num_rows for b in reader) == 500_000
        del table, reader
        gc.collect()
        assert ref() is None

    def test_a_read_only_connection_attaches_memory_only_as_read_write(self, tmp_path):
        duckdb.connect(tmp_path / "x.duckdb").close()
        with duckdb.connect(tmp_path / "x.duckdb", read_only=True) as con:
            with pytest.raises(duckdb.CatalogException, match="in-memory database in read-only"):
                con.execute("ATTACH ':memory:' AS m")
            con.execute("ATTACH ':memory:' AS m (READ_WRITE)")
            view_of(con.cursor(), ("m", "main", "v"), Table(make()))
            assert ask(con, "SELECT count(*) FROM m.v") == [(ROWS,)]

    def test_detach_refuses_ones_own_default_database_but_not_that_of_others(self, con):
        con.execute("ATTACH ':memory:' AS m; USE m")
        with pytest.raises(duckdb.BinderException, match="default database"):
            con.execute("DETACH m")
        con.cursor().execute("DETACH m")
        with pytest.raises(duckdb.BinderException, match='Catalog "m" does not exist'):
            con.execute("SHOW TABLES")
        con.execute("USE memory")

    def test_a_cursor_does_not_inherit_use(self, con):
        con.execute("ATTACH ':memory:' AS m; USE m")
        assert ask(con.cursor(), "SELECT current_database()") == [("memory",)]

    def test_an_unqualified_macro_binds_only_in_the_default_database(self, con):
        """How a mount that is the default is noticed without running anything."""
        con.execute("ATTACH ':memory:' AS m; CREATE MACRO m.main.\"the mark\"() AS 1")
        with pytest.raises(duckdb.CatalogException):
            con._bind('SELECT "the mark"()')
        con.execute("USE m; SELECT * FROM range(100000)")
        assert con.fetchone() == (0,)
        con._bind('SELECT "the mark"()')
        assert con.fetchone() == (1,)

    def test_a_transaction_sees_a_new_database_but_not_what_changes_in_one_it_has_read(self, con):
        con.execute("CREATE TABLE x AS SELECT 1 AS i; BEGIN; FROM x")
        con.cursor().execute("ATTACH ':memory:' AS m")
        view_of(con.cursor(), ("m", "main", "v"), Table(make()))
        assert ask(con, "SELECT count(*) FROM m.v") == [(ROWS,)]
        view_of(con.cursor(), ("m", "main", "w"), Table(make()))
        with pytest.raises(duckdb.CatalogException):
            con.execute("FROM m.w")
        con.execute("ROLLBACK")
        assert ask(con, "SELECT count(*) FROM m.w") == [(ROWS,)]

    @pytest.mark.parametrize("name", ["temp", "system", "main", "Main", "memory"])
    def test_names_that_cannot_be_attached(self, con, name):
        with pytest.raises(duckdb.BinderException):
            con.execute(f"ATTACH ':memory:' AS {name}")

    @pytest.mark.parametrize("name", ["pg_catalog", "information_schema", "mine"])
    def test_names_that_are_schemas_attach_and_are_ambiguous_then(self, con, name):
        con.execute(f"CREATE SCHEMA IF NOT EXISTS mine; ATTACH ':memory:' AS {name}")
        with pytest.raises(duckdb.BinderException, match="Ambiguous reference"):
            con.execute(f"FROM {name}.v")

    def test_comments_on_databases_and_schemas_do_not_exist(self, con):
        con.execute("ATTACH ':memory:' AS m")
        for what in ("DATABASE m", "SCHEMA m.main"):
            with pytest.raises(duckdb.NotImplementedException):
                con.execute(f"COMMENT ON {what} IS 'x'")

    def test_a_file_holds_nothing_of_an_attached_memory_database(self, tmp_path):
        with duckdb.connect(tmp_path / "x.duckdb") as con:
            con.execute("ATTACH ':memory:' AS m")
            view_of(con.cursor(), ("m", "main", "v"), Table(make()))
        with duckdb.connect(tmp_path / "x.duckdb") as con:
            assert ask(con, "SHOW ALL TABLES") == []


class Opener:
    """The scalar function behind a table function."""

    def __init__(self, con):
        self.con, self.calls, self.kept, self.tables = con, [], [], []

    def __call__(self, arguments):
        given = json.loads(arguments)
        self.calls.append(given)
        if given.get("store") == "bad":
            raise ValueError("no such store")
        self.tables.append(Table(make(len(given["store"]))))
        self.kept.append(self.con.cursor()._register_source(self.tables[-1], None))
        return self.kept[-1].name


MACRO = (
    "CREATE {} MACRO read_it(store, dims := NULL) AS TABLE "
    "SELECT * FROM query('FROM ' || open_it(to_json({{'store': store, 'dims': dims}})::VARCHAR))"
)


def install(con, temp=""):
    opener = Opener(con)
    con.create_function("open_it", opener, ["VARCHAR"], "VARCHAR", null_handling="special")
    con.execute(MACRO.format(temp))
    return opener


class TestFunctions:
    def test_it_is_evaluated_once_per_bind(self, con):
        opener = install(con)
        ask(con, "SELECT * FROM read_it('abc')")
        assert len(opener.calls) == 1
        relation = con.sql("SELECT * FROM read_it('abc')")
        assert len(opener.calls) == 2
        relation.fetchall()
        assert len(opener.calls) == 3
        con.execute("PREPARE p AS SELECT count(*) FROM read_it('abc')")
        prepared = len(opener.calls)
        assert [ask(con, "EXECUTE p") for _ in range(2)] == [[(3,)]] * 2
        assert len(opener.calls) - prepared == 2

    def test_it_is_evaluated_twice_where_it_raises(self, con):
        opener = install(con)
        with pytest.raises(duckdb.Error, match="no such store"):
            con.execute("FROM read_it('bad')")
        assert len(opener.calls) == 2

    def test_the_connection_is_busy_meanwhile_and_a_cursor_is_not(self, con):
        errors = []

        def look(_):
            try:
                con.execute("SELECT 1")
            except duckdb.Error as error:
                errors.append(error)
            assert ask(con.cursor(), "SELECT 1") == [(1,)]
            return "range(3)"

        con.create_function("look", look, ["VARCHAR"], "VARCHAR")
        assert ask(con, "SELECT count(*) FROM query('FROM ' || look('x'))") == [(3,)]
        assert errors
        assert all(isinstance(error, duckdb.ResourceInUseException) for error in errors)

    def test_pushdown_and_every_kind_of_statement(self, con, tmp_path):
        opener = install(con)
        read = "read_it('abcdefg', dims := ['x'])"
        assert ask(con, f"SELECT count(*) FROM {read} WHERE i >= 2") == [(5,)]
        assert opener.tables[-1].offered == ['("i" >= 2)']
        for sql in (
            f"SELECT count(*) FROM {read} a JOIN read_it('abc') b USING (i)",
            f"WITH q AS (FROM {read}) SELECT count(*) - 4 FROM q",
            f"SELECT count(*) - 7 FROM (FROM {read} UNION ALL FROM read_it('abc'))",
            f"CREATE VIEW v AS FROM {read}; SELECT count(*) - 4 FROM v",
            f"CREATE TABLE c AS FROM {read}; SELECT count(*) - 4 FROM c",
            f"COPY (FROM {read}) TO '{tmp_path}/c.parquet'; SELECT count(*) - 4 FROM '{tmp_path}/c.parquet'",
            f"BEGIN; SELECT count(*) - 4 FROM {read}",
        ):
            assert ask(con, sql) == [(3,)]
        con.execute("COMMIT")
        assert opener.calls[0] == {"store": "abcdefg", "dims": ["x"]}

    def test_a_handle_is_found_by_the_query_that_made_it_and_a_view_on_the_side_is_not(self, con):
        install(con)
        con.execute("BEGIN")
        assert ask(con, "SELECT count(*) FROM read_it('ab') JOIN read_it('abcd') USING (i)") == [(2,)]
        con.execute("COMMIT")
        made = []

        def open_as_view(store):
            made.append(f"side_{len(made)}")
            view_of(con.cursor(), ("memory", "main", made[-1]), Table(make(len(store))))
            return made[-1]

        con.create_function("open_as_view", open_as_view, ["VARCHAR"], "VARCHAR")
        con.execute("BEGIN; SELECT count(*) FROM duckdb_tables()")
        with pytest.raises(duckdb.CatalogException, match="side_"):
            con.execute("SELECT * FROM query('FROM ' || open_as_view('ab'))")

    def test_an_equals_sign_for_a_named_argument_is_silently_a_boolean(self, con):
        opener = install(con)
        ask(con, "FROM read_it('ab', dims := 'x')")
        ask(con, "FROM read_it('ab', dims = 'x')")
        assert [call["dims"] for call in opener.calls] == ["x", False]

    def test_in_memory_all_cursors_see_the_macro(self, con):
        install(con)
        assert ask(con.cursor(), "SELECT count(*) FROM read_it('abc')") == [(3,)]

    def test_in_a_file_a_temporary_macro_leaves_it_clean_and_is_not_seen_by_cursors(self, tmp_path):
        path = tmp_path / "x.duckdb"
        duckdb.connect(path).close()
        for read_only in (False, True):
            with duckdb.connect(path, read_only=read_only) as con:
                install(con, "TEMP")
                assert ask(con, "SELECT count(*) FROM read_it('abc')") == [(3,)]
                cursor = con.cursor()
                with pytest.raises(duckdb.CatalogException):
                    cursor.execute("FROM read_it('abc')")
                # the scalar function is instance-wide
                sql = "SELECT count(*) FROM query('FROM ' || open_it('{\"store\": \"abc\"}'))"
                assert ask(cursor, sql) == [(3,)]
                cursor.execute(MACRO.format("TEMP"))
                assert ask(cursor, "SELECT count(*) FROM read_it('abc')") == [(3,)]
        with duckdb.connect(path) as con:
            assert ask(
                con, "SELECT count(*) FROM duckdb_functions() WHERE function_name IN ('read_it', 'open_it')"
            ) == [(0,)]

    def test_settings_can_be_read_on_a_cursor_inside_the_function(self, con):
        seen = []

        def look(_):
            seen.extend(ask(con.cursor(), "SELECT current_setting('enable_external_access')"))
            return "range(3)"

        con.execute("SET enable_external_access = false")
        con.create_function("look", look, ["VARCHAR"], "VARCHAR")
        assert ask(con, "SELECT count(*) FROM query('FROM ' || look('x'))") == [(3,)]
        assert set(seen) == {(False,)}


class TestEnum:
    def test_dictionaries_arrive_as_varchar_and_a_cast_in_a_view_makes_them_enum_without_offers(self, con):
        words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), ["lo", "hi"], ordered=True)
        table = Table(pa.table({"c": words, "i": [1, 2, 3]}))
        con.execute("ATTACH ':memory:' AS m; CREATE TYPE m.level AS ENUM ('lo', 'hi')")
        handle = con._register_source(table, None)
        assert ask(con, f"SELECT typeof(c) FROM {handle.name} LIMIT 1") == [("VARCHAR",)]
        sql = f"SELECT c::m.level AS c, i FROM {handle.name}"
        con._create_view(("m", "main", "v"), sql, sources=[handle])
        assert ask(con.cursor(), "SELECT typeof(c), max(c) FROM m.v GROUP BY 1") == [("ENUM('lo', 'hi')", "hi")]
        table.offered.clear()
        assert ask(con, "SELECT i FROM m.v WHERE c = 'hi' AND i > 0") == [(2,)]
        assert table.offered == ['("i" > 0)']


class TestResults:
    def test_a_relation_runs_its_query_on_every_call(self, con, t):
        relation = con.sql("SELECT sum(i) FROM t")
        assert t.streamed == []
        relation.fetchall()
        relation.fetchall()
        assert len(t.streamed) == 2

    def test_a_relation_of_another_statement_runs_it_once_when_it_is_made(self, con):
        con.execute("CREATE TABLE x (i INT)")
        relation = con.sql("INSERT INTO x VALUES (1) RETURNING i")
        assert ask(con, "SELECT count(*) FROM x") == [(1,)]
        assert relation.to_arrow_table().num_rows == 1
        assert ask(con, "SELECT count(*) FROM x") == [(1,)]

    def test_a_second_execute_ends_an_open_result_silently(self, con):
        con.execute("SELECT * FROM range(100000)")
        con.fetchone()
        assert ask(con, "SELECT 7") == [(7,)]
        assert con.fetchone() is None

    def test_an_open_reader_holds_its_connection_and_no_other(self, con):
        reader = con.sql("SELECT * FROM range(1000000)").to_arrow_reader(1000)
        with pytest.raises(duckdb.Error, match="open result"):
            con.execute("SELECT 1").fetchall()
        assert ask(con.cursor(), "SELECT 1") == [(1,)]
        reader.close()
        assert ask(con, "SELECT 1") == [(1,)]

    def test_an_open_result_holds_register_and_sql(self, con):
        con.execute("SELECT * FROM range(1000000)")
        con.fetchone()
        with pytest.raises(duckdb.ResourceInUseException):
            con.register("x", pa.table({"i": [1]}))
        with pytest.raises(duckdb.ResourceInUseException):
            con.sql("SELECT 1").fetchall()

    def test_a_reader_of_a_relation_streams_and_one_of_execute_is_read_whole_and_warns(self, con):
        table = Table(make(3_000_000).select(["i", "d"]), batch_rows=10_000)
        con.register("t", table)
        reader = con.sql("FROM t").to_arrow_reader(1000)
        reader.read_next_batch()
        assert table.pulled < 200
        reader.close()
        con.execute("FROM t")
        with pytest.warns(UserWarning, match="extra copy"):
            reader = con.to_arrow_reader(1000)
        assert table.pulled > 300
        reader.close()

    def test_what_a_reader_reads_ahead_is_set_for_each_connection(self, con):
        con.execute("SET streaming_buffer_size = '1MB'")
        table = Table(make(3_000_000).select(["i", "d"]), batch_rows=10_000)
        con.register("t", table)
        reader = con.sql("FROM t").to_arrow_reader(8192)
        reader.read_next_batch()
        assert table.pulled < 30
        reader.close()
        assert ask(con.cursor(), "SELECT current_setting('streaming_buffer_size')") == [("10.0 MiB",)]

    def test_a_reader_that_is_closed_or_dropped_ends_the_stream_and_closing_its_cursor_does_not(self, con, settle):
        table = Table(make(3_000_000).select(["i", "d"]), batch_rows=10_000)
        handle = con._register_source(table, None)
        cursor = con.cursor()

        def opened():
            reader = cursor.sql(f"FROM {handle.name}").to_arrow_reader(1000)
            reader.read_next_batch()
            assert table.open == 1
            return reader

        opened().close()
        assert settle(lambda: table.open == 0)
        reader = opened()
        del reader
        assert settle(lambda: table.open == 0)
        reader = opened()
        cursor.close()
        assert table.open == 1
        assert sum(b.num_rows for b in reader) == 2_999_000

    def test_a_cursor_outlives_its_connection_where_that_is_dropped_and_not_where_it_is_closed(self):
        con = duckdb.connect()
        con.execute("CREATE TABLE x AS SELECT 1 AS i")
        cursor = con.cursor()
        del con
        gc.collect()
        assert ask(cursor, "FROM x") == [(1,)]
        other = cursor.cursor()
        cursor.close()
        with pytest.raises(duckdb.ConnectionException):
            other.execute("SELECT 1")

    def test_cursors_see_neither_temporary_tables_nor_registered_names_nor_settings(self, con):
        con.execute("CREATE TEMP TABLE x AS SELECT 1 AS i; SET TimeZone = 'Asia/Tokyo'; PREPARE p AS SELECT 1")
        con.register("y", pa.table({"i": [1]}))
        cursor = con.cursor()
        for sql in ("FROM x", "FROM y", "EXECUTE p"):
            ask(con, sql)
            with pytest.raises(duckdb.Error):
                cursor.execute(sql)
        assert ask(cursor, "SELECT current_setting('TimeZone')") != [("Asia/Tokyo",)]

    def test_hugeint_is_float_in_frames_and_decimal_in_arrow(self, con):
        relation = con.sql("SELECT sum(i) AS s FROM range(10) t(i)")
        assert str(relation.types[0]) == "HUGEINT"
        assert relation.df()["s"].dtype == np.float64
        assert relation.to_arrow_table().schema.field("s").type == pa.decimal128(38, 0)

    def test_integers_with_null_stay_integers_in_frames(self, con):
        frame = con.sql("SELECT unnest([9007199254740993, NULL]) AS i").df()
        assert str(frame["i"].dtype) == "Int64"
        assert frame["i"][0] == 2**53 + 1

    def test_interrupt_from_another_thread_ends_a_query(self, con):
        threading.Timer(0.3, con.interrupt).start()
        started = time.monotonic()
        with pytest.raises(duckdb.InterruptException):
            con.sql("SELECT sum(sqrt(a.range) * b.range) FROM range(1000000) a, range(1000000) b").fetchall()
        assert time.monotonic() - started < 20


class TestFrames:
    def test_variables_are_looked_for_in_the_frame_that_calls_duckdb(self, con):
        frame = pa.table({"i": [1]})

        def library(sql):
            frame = pa.table({"i": [999]})  # a local of the library, with the name of the user's variable
            found = con.execute(sql).fetchall()
            assert frame.num_rows == 1
            return found

        assert frame.num_rows == 1
        assert library("FROM frame") == [(999,)]

    def test_which_can_be_switched_off_for_an_instance_only(self, con):
        frame = pa.table({"i": [1]})
        assert frame.num_rows == 1
        assert con.execute("FROM frame").fetchall() == [(1,)]
        scope = ask(con, "SELECT scope FROM duckdb_settings() WHERE name = 'python_enable_replacements'")
        assert scope == [("GLOBAL",)]
        with (
            duckdb.connect(config={"python_enable_replacements": "false"}) as own,
            pytest.raises(duckdb.CatalogException),
        ):
            own.execute("FROM frame")

    def test_json_serialize_sql_takes_select_only(self, con):
        assert json.loads(ask(con, "SELECT json_serialize_sql('SELECT 1')")[0][0])["error"] is False
        for sql in ("CREATE TABLE x AS SELECT 1", "COPY (SELECT 1) TO 'x'", "EXPLAIN SELECT 1"):
            answer = json.loads(ask(con, "SELECT json_serialize_sql(?)", [sql])[0][0])
            assert answer["error"] is True

    def test_an_unknown_table_is_named_in_the_error(self, con):
        """How tables that are Python variables are found."""
        for sql in (
            'FROM "no pe"',
            'DESCRIBE "no pe"',
            'CREATE TABLE x AS FROM "no pe"',
            'SELECT (SELECT 1 FROM "no pe")',
        ):
            with pytest.raises(duckdb.CatalogException, match="Table with name no pe does not exist!"):
                con.sql(sql)
        with pytest.raises(duckdb.CatalogException, match=r'Table with name "s\.nope" does not exist because schema'):
            con.sql("FROM s.nope")


def test_every_fact_on_the_page_has_its_test_and_the_other_way_round():
    page = (Path(__file__).parents[2] / "docs" / "facts.md").read_text("utf-8")
    listed = re.findall(r"`(test_\w+)`", page)
    here = [n for c in (TestScan, TestNames, TestFunctions, TestEnum, TestResults, TestFrames) for n in vars(c)]
    assert sorted(listed) == sorted(n for n in here if n.startswith("test_"))
