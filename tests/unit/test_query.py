import datetime as dt
import gc
import threading
import time
import weakref

import cftime
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

from xzsql.engine.mount import Tables
from xzsql.engine.query import Session
from xzsql.errors import (
    AmbiguousTableError,
    ClosedError,
    InvalidInputError,
    NameTakenError,
    QueryError,
    ReadError,
    UnknownNameError,
    UnsupportedError,
)
from xzsql.ir.predicate import Compare
from xzsql.testing.sources import FailingSource, MemorySource, SlowSource

N = 100
TABLE = pa.table(
    {
        "x": pa.array(range(N), pa.int64()),
        "lat": pa.array([k / 10 for k in range(N)], pa.float32()),
        "time": pa.array([dt.datetime(2000, 1, 1) + dt.timedelta(days=k) for k in range(N)], pa.timestamp("us")),
        "v": pa.array([float(k) for k in range(N)]),
    }
)
NO_SELF = AmbiguousTableError.of_self(["a", "b"])


@pytest.fixture
def source():
    return MemorySource(TABLE, 10, dimensions=["x", "lat", "time"])


@pytest.fixture
def session(source):
    with_tables = Session()
    group = MemorySource(pa.table({"y": [1, 2]}))
    with_tables.update(Tables({"main": {"points": source}, "a/b": {"inner": group}}, source, {"odd": "two shapes"}))
    yield with_tables
    with_tables.close()


def looking(**names):
    return names.get


class TestTables:
    def test_root_group_and_self(self, session):
        assert session.query("SELECT count(*) FROM points").fetchall() == [(N,)]
        assert session.query("SELECT count(*) FROM Self").fetchall() == [(N,)]
        assert session.query('SELECT sum(y) FROM "a/b".inner').fetchall() == [(3,)]

    def test_the_scan_begins_when_rows_are_asked_for(self, session, source):
        result = session.query("SELECT v FROM self WHERE x >= 5")
        assert (source.requests, source.pulled) == ([], 0)
        assert result.columns == ["v"]
        assert result.types == ["DOUBLE"]
        result.fetchone()
        assert source.requests[0].where == (Compare("x", ">=", 5),)

    def test_update_keeps_what_is_the_same_and_what_queries_made(self, session, source):
        session.query("CREATE TABLE mine AS SELECT 1 AS i")
        other = MemorySource(pa.table({"z": [1, 2, 3]}))
        session.update(Tables({"main": {"points": other}}, NO_SELF))
        assert session.query("SELECT sum(z), (SELECT sum(i) FROM mine) FROM points").fetchall() == [(6, 1)]
        with pytest.raises(UnknownNameError):
            session.query('FROM "a/b".inner')
        with pytest.raises(AmbiguousTableError):
            session.query("FROM self")
        with pytest.raises(NameTakenError, match="'mine'"):
            session.update(Tables({"main": {"mine": other}}, NO_SELF))
        assert session.query("SELECT sum(z) FROM points").fetchall() == [(6,)]

    def test_a_result_from_before_an_update_goes_on(self, session):
        result = session.query("SELECT v FROM self")
        assert result.fetchone() == (0.0,)
        session.update(Tables({"main": {}}, NO_SELF))
        assert len(result.fetchall()) == N - 1

    def test_sources_are_let_go_after_an_update(self):
        session = Session()
        mine = MemorySource(TABLE)
        session.update(Tables({"main": {"t": mine}}, mine))
        session.query("FROM t").fetchall()
        ref = weakref.ref(mine)
        del mine
        session.update(Tables({"main": {}}, NO_SELF))
        gc.collect()
        assert ref() is None

    def test_closed(self, session):
        result = session.query("SELECT x FROM self")
        result.fetchone()
        session.close()
        assert len(result.fetchall()) == N - 1
        with pytest.raises(ClosedError, match="catalog is closed"):
            session.query("SELECT 1")
        with pytest.raises(ClosedError):
            session.update(Tables({}, NO_SELF))


class TestStatements:
    def test_the_last_of_several_is_the_result(self, session):
        sql = (
            "CREATE TABLE big AS SELECT x FROM self WHERE x > 90; SELECT error('x') FROM big WHERE x < 0; "
            "SELECT sum(x) FROM big"
        )
        assert session.query(sql).fetchall() == [(sum(range(91, 100)),)]
        with pytest.raises(QueryError, match="stop here"):
            session.query("SELECT error('stop here') FROM self; SELECT 1")

    def test_statements_without_rows_run_at_once(self, session, tmp_path):
        path = tmp_path / "x.parquet"
        assert session.query(f"COPY (SELECT x FROM self) TO '{path}'").fetchall() == [(N,)]
        assert duckdb.sql(f"SELECT count(*) FROM '{path}'").fetchall() == [(N,)]
        session.query("CREATE VIEW v AS SELECT x FROM self WHERE x < 3")
        assert session.query("FROM v").fetchall() == [(0,), (1,), (2,)]
        assert session.query("CREATE TABLE n AS SELECT 1 AS i; INSERT INTO n VALUES (2) RETURNING i").fetchall() == [
            (2,)
        ]
        assert session.query("FROM n").fetchall() == [(1,), (2,)]

    @pytest.mark.parametrize(
        ("sql", "columns"),
        [
            ("EXPLAIN SELECT * FROM self", ["explain_key", "explain_value"]),
            ("EXPLAIN ANALYZE SELECT * FROM self", ["explain_key", "explain_value"]),
            ("SHOW TABLES", ["name"]),
            ("PIVOT (SELECT x % 2 AS k, v FROM self) ON k USING sum(v)", ["0", "1"]),
        ],
    )
    def test_other_statements_with_rows(self, session, sql, columns):
        result = session.query(sql)
        assert result.columns == columns
        assert result.fetchall()

    def test_describe_and_summarize(self, session):
        assert [r[:2] for r in session.query("DESCRIBE self").fetchall()][1] == ("lat", "FLOAT")
        assert session.query("SUMMARIZE self").df()["count"].tolist() == [N] * 4

    def test_settings_and_prepared_statements_hold_for_later_queries(self, session):
        session.query("SET TimeZone = 'Asia/Tokyo'")
        assert session.query("SELECT current_setting('TimeZone')").fetchall() == [("Asia/Tokyo",)]
        assert str(session.query("SELECT TIMESTAMPTZ '2000-01-01 00:00:00+00' AS t").df()["t"][0]).endswith("+09:00")
        session.query("PREPARE p AS SELECT count(*) FROM self WHERE x >= $1")
        assert [session.query(f"EXECUTE p({k})").fetchall() for k in (90, 95, 90)] == [[(10,)], [(5,)], [(10,)]]
        session.query("DEALLOCATE p; SET VARIABLE least = 95; RESET TimeZone")
        assert session.query("SELECT count(*) FROM self WHERE x >= getvariable('least')").fetchall() == [(5,)]
        with pytest.raises(QueryError, match="does not exist"):
            session.query("EXECUTE p(1)")

    def test_what_would_be_lost_is_refused(self, session):
        with pytest.raises(UnsupportedError, match=r"leave TEMP out"):
            session.query("CREATE OR REPLACE TEMP TABLE t AS FROM self")
        with pytest.raises(UnsupportedError, match=r"BEGIN; ...; COMMIT in one text"):
            session.query("BEGIN")
        assert session.query("CREATE TEMP TABLE t AS FROM self; SELECT count(*) FROM t").fetchall() == [(N,)]
        session.query("BEGIN; CREATE TABLE kept AS SELECT 1 AS i; COMMIT")
        session.query("BEGIN; DROP TABLE kept; ROLLBACK")
        assert session.query("FROM kept").fetchall() == [(1,)]

    @pytest.mark.parametrize("sql", ["", "  ;", "-- nothing", None, 3])
    def test_nothing_to_run(self, session, sql):
        with pytest.raises(InvalidInputError):
            session.query(sql)


class TestErrors:
    def test_unknown_table(self, session):
        session.query("CREATE TABLE made AS SELECT 1 AS i")
        with pytest.raises(
            UnknownNameError, match=r"'pionts'; there is 'points', 'a/b.inner', 'made'. Did you mean 'points'"
        ) as e:
            session.query("FROM pionts")
        assert isinstance(e.value.__cause__, duckdb.CatalogException)
        with pytest.raises(UnknownNameError, match=r"there is 'points', 'a/b.inner'"):
            session.query('FROM "a/c".inner')
        with pytest.raises(UnknownNameError, match="'odd' cannot be read: two shapes"):
            session.query("FROM ODD")

    @pytest.mark.parametrize(
        "sql", ["SELECT vv FROM self", "SELECT s.vv FROM self s", "SELECT * EXCLUDE (vv) FROM points"]
    )
    def test_unknown_column(self, session, sql):
        with pytest.raises(UnknownNameError, match=r"no column 'vv'.*there is 'x', 'lat', 'time', 'v'") as caught:
            session.query(sql)
        assert isinstance(caught.value.__cause__, duckdb.BinderException)

    def test_no_self(self, session):
        session.update(Tables({"main": {}}, NO_SELF))
        with pytest.raises(AmbiguousTableError) as caught:
            session.query("FROM self", variables=lambda name: pd.DataFrame({"i": [1]}))
        assert caught.value is NO_SELF
        assert isinstance(caught.value.__cause__, duckdb.CatalogException)

    @pytest.mark.parametrize(
        ("sql", "text"),
        [
            ("SELEC 1", "syntax error"),
            ("SELECT 'a'::INT", "Could not convert"),
            ("SELECT * FROM self WHERE x = ?", "Values were not provided"),
            ("SELECT nope(1)", "nope"),
        ],
    )
    def test_duckdbs_own(self, session, sql, text):
        with pytest.raises(QueryError, match=text) as caught:
            session.query(sql).fetchall()
        assert isinstance(caught.value.__cause__, duckdb.Error)

    def test_while_rows_come(self, session):
        result = session.query("SELECT CASE WHEN x = 99 THEN error('late') END FROM self")
        with pytest.raises(QueryError, match="late"):
            result.fetchall()
        with pytest.raises(QueryError, match="late"):
            result.df()

    def test_a_source_that_fails_half_way(self, session):
        cause = OSError("truncated")
        error = ReadError.of_block(cause, store="", group="/", variable="v", block="[0:3]")
        error.__cause__ = cause
        failing = FailingSource(TABLE, 10, after=4, error=error)
        session.update(Tables({"main": {"t": failing}}, failing))
        for take in ("fetchall", "df", "arrow", "pl"):  # a display may end before it comes to the failure
            with pytest.raises(ReadError, match=r"variable 'v' of group '/', block") as caught:
                getattr(session.query("SELECT * FROM self"), take)()
            assert caught.value is error
            assert caught.value.__cause__ is cause
        with pytest.raises(ReadError) as caught:
            session.query("CREATE TABLE mine AS FROM self")
        assert caught.value is error
        with pytest.raises(ReadError):
            list(session.query("SELECT * FROM self").reader())
        assert failing.open == 0

    def test_another_exception_of_a_source(self, session):
        failing = FailingSource(TABLE, 10, after=1, error=ZeroDivisionError("odd"))
        session.update(Tables({"main": {"t": failing}}, failing))
        with pytest.raises(ReadError, match="ZeroDivisionError: odd") as caught:
            session.query("SELECT sum(v) FROM t").fetchall()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)

    def test_an_interrupt_of_a_source_is_one(self, session):
        failing = FailingSource(TABLE, 10, after=1, error=KeyboardInterrupt())
        session.update(Tables({"main": {"t": failing}}, failing))
        with pytest.raises(KeyboardInterrupt):
            session.query("SELECT sum(v) FROM t").fetchall()


class TestVariables:
    @pytest.mark.parametrize(
        "make",
        [
            pd.DataFrame,
            pl.DataFrame,
            pl.LazyFrame,
            pa.table,
            pa.record_batch,
            lambda d: {k: np.array(v) for k, v in d.items()},
            lambda d: duckdb.sql("SELECT unnest([1, 2]) AS x, unnest([5, 6]) AS w"),
            lambda d: pa.table(d).to_reader(),
        ],
    )
    def test_what_is_a_table(self, session, make):
        found = session.query(
            "SELECT sum(w) FROM df JOIN self USING (x)", variables=looking(df=make({"x": [1, 2], "w": [5, 6]}))
        )
        assert found.fetchall() == [(11,)]

    def test_another_result(self, session):
        first = session.query("SELECT x, v * 2 AS w FROM self WHERE x < 3")
        assert session.query("SELECT sum(r.w) FROM r JOIN r r2 USING (x)", variables=looking(r=first)).fetchall() == [
            (6.0,)
        ]

    @pytest.mark.parametrize(
        "sql",
        [
            "FROM df",
            "DESCRIBE df",
            "SUMMARIZE df",
            "EXPLAIN FROM df",
            "CREATE TABLE made AS FROM df",
            "PIVOT df ON i USING sum(i)",
            "WITH a AS (FROM df) FROM a",
            "SELECT (SELECT max(i) FROM df)",
            "SELECT 1; FROM df",
            'SELECT * FROM "df", other',
        ],
    )
    def test_in_any_statement(self, session, sql):
        frames = looking(df=pd.DataFrame({"i": [1, 2]}), other=pd.DataFrame({"j": [1]}))
        assert session.query(sql, variables=frames).fetchall()

    def test_tables_and_ctes_come_first(self, session):
        frames = looking(points=pd.DataFrame({"i": [1]}), a=pd.DataFrame({"i": [1]}), self=pd.DataFrame({"i": [1]}))
        for sql in (
            "SELECT count(x) FROM points",
            "SELECT count(x) FROM self",
            "WITH a AS (FROM self) SELECT count(x) FROM a",
        ):
            assert session.query(sql, variables=frames).fetchall() == [(N,)]

    def test_a_variable_is_seen_by_its_query_only(self, session):
        session.query("FROM df", variables=looking(df=pd.DataFrame({"i": [1]}))).fetchall()
        with pytest.raises(UnknownNameError):
            session.query("FROM df")

    def test_names_of_ours_are_no_tables(self, session, con):
        for name in ("sql", "statement", "values", "con", "cursor", "duckdb", "pa", "_xzsql_con", "_drain"):
            for on in (None, con):
                with pytest.raises((UnknownNameError, QueryError)):
                    session.query(f'SELECT * FROM "{name}"', con=on)

    @pytest.mark.parametrize("value", [3, "text", [1, 2], object()])
    def test_what_is_no_table(self, session, value):
        with pytest.raises(UnknownNameError, match=f"variable 'thing' is a {type(value).__name__}, which is no table"):
            session.query("FROM thing", variables=looking(thing=value))

    def test_two_threads_with_one_name(self, session):
        wrong = []

        def work(k):
            for _ in range(30):
                frame = pd.DataFrame({"i": [k]})
                if session.query("FROM df", variables=looking(df=frame)).fetchall() != [(k,)]:
                    wrong.append(k)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []

    def test_a_frame_is_let_go_with_the_result(self, session):
        class Frame(pd.DataFrame):
            pass

        frame = Frame({"i": [1]})
        ref = weakref.ref(frame)
        result = session.query("FROM df", variables=looking(df=frame))
        del frame
        assert result.fetchall() == [(1,)]
        gc.collect()
        assert ref() is None


class TestParameters:
    @pytest.mark.parametrize(
        ("value", "kind", "back"),
        [
            (np.float32(0.1), "FLOAT", float(np.float32(0.1))),
            (np.float16(0.5), "FLOAT", 0.5),
            (np.float64(0.1), "DOUBLE", 0.1),
            (0.1, "DOUBLE", 0.1),
            (np.int8(-1), "TINYINT", -1),
            (np.uint64(2**64 - 1), "UBIGINT", 2**64 - 1),
            (np.int64(2**53 + 1), "BIGINT", 2**53 + 1),
            (np.bool_(True), "BOOLEAN", True),
            (np.str_("a"), "VARCHAR", "a"),
            (np.bytes_(b"a"), "BLOB", b"a"),
            (np.datetime64("2000-01-01"), "TIMESTAMP", dt.datetime(2000, 1, 1)),
            (np.datetime64("2000-01"), "TIMESTAMP", dt.datetime(2000, 1, 1)),
            (np.datetime64("1960-01-01T00:00:00.000001"), "TIMESTAMP", dt.datetime(1960, 1, 1, 0, 0, 0, 1)),
            (np.datetime64("2000-01-01", "ns"), "TIMESTAMP", dt.datetime(2000, 1, 1)),
            (pd.Timestamp("2000-01-01 12:00"), "TIMESTAMP", dt.datetime(2000, 1, 1, 12)),
            (np.timedelta64(90, "s"), "INTERVAL", dt.timedelta(seconds=90)),
            (pd.Timedelta("1D"), "INTERVAL", dt.timedelta(days=1)),
            ([np.float32(0.5), np.float32(1)], "FLOAT[]", [0.5, 1.0]),
            (np.array([1, 2], np.int16), "SMALLINT[]", [1, 2]),
            (np.array(2.5, np.float32), "FLOAT", 2.5),
            (xr.DataArray(np.float32(2.5)), "FLOAT", 2.5),
            (dt.date(2000, 1, 1), "DATE", dt.date(2000, 1, 1)),
        ],
    )
    def test_values_keep_their_type(self, session, value, kind, back):
        assert session.query("SELECT typeof($a), $a", {"a": value}).fetchall() == [(kind, back)]

    @pytest.mark.parametrize("value", [None, pd.NaT, pd.NA, np.datetime64("NaT", "ns"), np.timedelta64("NaT", "s")])
    def test_missing_values_are_null(self, session, value):
        assert session.query("SELECT ? IS NULL", [value]).fetchall() == [(True,)]

    @pytest.mark.parametrize(
        "value", [np.datetime64("2000-01-01T00:00:00.123456789"), pd.Timestamp("2000-01-01 00:00:00.123456789")]
    )
    def test_nanoseconds_are_kept(self, session, value):
        found = session.query("SELECT typeof($t), $t::VARCHAR", {"t": value}).fetchall()
        assert found == [("TIMESTAMP_NS", "2000-01-01 00:00:00.123456789")]

    def test_years_beyond_datetime(self, session):
        found = session.query("SELECT typeof($t), $t::VARCHAR", {"t": np.datetime64("20000-01-01")}).fetchall()
        assert found == [("TIMESTAMP", "20000-01-01 00:00:00")]

    @pytest.mark.parametrize(
        "value",
        [
            cftime.DatetimeNoLeap(2000, 2, 28),
            np.complex64(1),
            np.longdouble(1),
            np.timedelta64(1, "ns"),
            np.timedelta64(1, "M"),
            np.datetime64("2000-01-01", "ps"),
            np.datetime64(10**9, "Y"),
            pd.Timestamp("2000-01-01 00:00:00.123456789", tz="UTC"),
            {1, 2},
            pd.Series([1]),
        ],
    )
    def test_what_has_no_type(self, session, value):
        with pytest.raises(UnsupportedError, match=r"parameter \$1 is "):
            session.query("SELECT ?", [value])

    @pytest.mark.parametrize("params", ["x", 3, {1: 2}, b"x"])
    def test_what_are_no_parameters(self, session, params):
        with pytest.raises(InvalidInputError):
            session.query("SELECT ?", params)

    def test_too_many_or_few(self, session):
        for params in ({"a": 1, "b": 2}, {"b": 2}):
            with pytest.raises(QueryError, match="parameters"):
                session.query("SELECT $a", params)
        with pytest.raises(QueryError, match="excess"):
            session.query("SELECT ?", [1, 2])

    def test_of_several_statements(self, session):
        sql = "CREATE TABLE q AS SELECT $a AS i; SELECT i + $b FROM q"
        assert session.query(sql, {"a": 1, "b": 2}).fetchall() == [(3,)]
        assert session.query("SELECT 1; SELECT ?", [5]).fetchall() == [(5,)]

    def test_they_prune_and_answer_as_on_a_frame(self, session, source, con):
        con.register("plain", TABLE)
        for value in (np.float32(0.3), 0.3, np.float64(0.5), 0.5):
            for sql in ("SELECT x FROM {} WHERE lat = $a", "SELECT count(*) FROM {} WHERE lat >= $a"):
                expected = con.sql(
                    sql.format("plain"),
                    params={
                        "a": value.item()
                        if type(value) is np.float64
                        else duckdb.value.constant.FloatValue(float(value))
                        if isinstance(value, np.float32)
                        else value
                    },
                ).fetchall()
                assert session.query(sql.format("self"), {"a": value}).fetchall() == expected
        session.query(
            "SELECT x FROM self WHERE lat = ? AND time >= ?", [np.float32(0.3), np.datetime64("2000-01-02", "ns")]
        ).df()
        assert source.requests[-1].where == (
            Compare("lat", "=", float(np.float32(0.3))),
            Compare("time", ">=", dt.datetime(2000, 1, 2)),
        )


class TestOtherConnection:
    def test_its_tables_are_joined(self, session, con):
        con.execute("CREATE TABLE mine AS SELECT 3 AS x; CREATE TEMP TABLE theirs AS SELECT 3 AS x")
        con.register("frame", pd.DataFrame({"x": [3]}))
        sql = (
            "SELECT v FROM self JOIN mine USING (x) JOIN theirs USING (x) JOIN frame USING (x) JOIN points USING (x, v)"
        )
        assert session.query(sql, con=con).fetchall() == [(3.0,)]
        assert con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall() == [("frame",)]

    def test_the_result_is_read_whole(self, session, con, source):
        result = session.query("SELECT x, sum(x) OVER () AS s FROM self ORDER BY x", con=con)
        assert source.open == 0
        con.close()
        assert result.fetchone() == (0, 4950)
        assert result.df()["s"].dtype == np.int64

    def test_names_that_it_has_are_refused_where_they_matter(self, session, con):
        con.execute("CREATE TABLE points AS SELECT 1 AS x")
        with pytest.raises(NameTakenError, match="'points'"):
            session.query("FROM points", con=con)
        assert session.query("SELECT count(*) FROM self", con=con).fetchall() == [(N,)]
        con.execute("CREATE VIEW self AS SELECT 1 AS x")
        with pytest.raises(NameTakenError, match="view 'self'"):
            session.query("FROM self", con=con)
        assert con.execute("FROM self").fetchall() == [(1,)]

    @pytest.mark.parametrize(
        "sql", ["SELECT nope FROM self", "FROM nope, self", "SELECT error('x') FROM self", "SELEC"]
    )
    def test_nothing_stays_after_an_error(self, session, con, sql):
        with pytest.raises((UnknownNameError, QueryError)):
            session.query(sql, con=con)
        assert con.execute("SHOW TABLES").fetchall() == []

    def test_python_variables(self, session, con):
        frame = pd.DataFrame({"x": [4]})
        assert session.query(
            "SELECT v FROM self JOIN df USING (x)", con=con, variables=looking(df=frame)
        ).fetchall() == [(4.0,)]
        assert con.execute("SHOW TABLES").fetchall() == []

    def test_groups_need_a_mount(self, session, con):
        with pytest.raises(UnsupportedError, match=r"after .mount\(con, 'name'\)"):
            session.query('FROM "a/b".inner', con=con)

    def test_what_it_writes_stays(self, session, con):
        session.query("CREATE TABLE kept AS SELECT x FROM self WHERE x < 3; SET VARIABLE k = 5", con=con)
        assert con.execute("SELECT sum(x), getvariable('k') FROM kept").fetchall() == [(3, 5)]

    def test_its_transaction_goes_on(self, session, con):
        con.execute("CREATE TABLE t AS SELECT 1 AS x; BEGIN; INSERT INTO t VALUES (2)")
        assert session.query("SELECT count(*) FROM self JOIN t USING (x)", con=con).fetchall() == [(2,)]
        con.execute("ROLLBACK")
        assert con.execute("FROM t").fetchall() == [(1,)]
        assert con.execute("SHOW TABLES").fetchall() == [("t",)]

    def test_a_failed_transaction(self, session, con):
        con.execute("CREATE TABLE t (x INT PRIMARY KEY); BEGIN; INSERT INTO t VALUES (1)")
        with pytest.raises(duckdb.Error):
            con.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(QueryError, match="ROLLBACK"):
            session.query("SELECT count(*) FROM self", con=con)
        con.execute("ROLLBACK")
        assert con.execute("SHOW TABLES").fetchall() == [("t",)]

    def test_an_error_inside_a_transaction(self, session, con):
        con.execute("BEGIN")
        with pytest.raises(QueryError, match="boom"):
            session.query("SELECT error('boom') FROM self", con=con)
        con.execute("ROLLBACK")
        assert con.execute("SHOW TABLES").fetchall() == []

    def test_an_open_result(self, session, con):
        con.execute("SELECT * FROM range(1000000)")
        con.fetchone()
        with pytest.raises(QueryError, match="open result"):
            session.query("SELECT count(*) FROM self", con=con)
        assert con.fetchone() == (1,)

    def test_closed_or_none(self, session, con):
        con.close()
        with pytest.raises(ClosedError, match="connection is closed"):
            session.query("FROM self", con=con)
        with pytest.raises(InvalidInputError, match="con= is a DuckDB connection"):
            session.query("FROM self", con="my.duckdb")


class TestAtOnce:
    def test_two_threads(self, session):
        slow = SlowSource(TABLE, 10, seconds=0.002)
        session.update(Tables({"main": {"t": slow}}, slow))
        found = []
        threads = [
            threading.Thread(
                target=lambda k=k: found.append(session.query("SELECT ? + sum(v) FROM self", [k]).fetchall())
            )
            for k in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [[(4950.0 + k,)] for k in range(6)]

    def test_a_query_inside_a_loop_over_another(self, session):
        seen = 0
        for (x,) in session.query("SELECT x FROM self ORDER BY x"):
            assert session.query("SELECT v FROM self WHERE x = ?", [x]).fetchone() == (float(x),)
            seen += 1
        assert seen == N

    def test_abandoned_results_end_their_work(self, session, settle):
        big = MemorySource(pa.table({"v": np.arange(3_000_000.0)}), 10_000)
        session.update(Tables({"main": {"t": big}}, big))
        for take in (lambda r: r.fetchone(), lambda r: next(iter(r)), lambda r: r.reader().read_next_batch(), repr):
            before = threading.active_count()
            result = session.query("SELECT v FROM self")
            take(result)
            assert big.open == 1
            del result
            gc.collect()
            assert settle(lambda: big.open == 0)
            assert settle(lambda before=before: threading.active_count() <= before)
        assert big.pulled < 4 * 200

    def test_ctrl_c(self, session):
        """Inside DuckDB's own loops, and inside a stream that it waits for."""
        import os
        import signal

        gate = threading.Event()
        slow = SlowSource(TABLE, 10, gate=gate)
        session.update(Tables({"main": {"t": slow}}, slow))
        heavy = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range % 7 = b.range % 11"

        def press():
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            gate.set()

        for sql in (heavy, "SELECT sum(v) FROM self"):
            gate.clear()
            result = session.query(sql)
            thread = threading.Thread(target=press)
            thread.start()
            started = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                result.fetchall()
            assert time.monotonic() - started < 5
            thread.join()
        gate.set()
        assert session.query("SELECT sum(v) FROM self").fetchall() == [(4950.0,)]
