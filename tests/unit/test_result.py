import datetime as dt
import decimal
import gc
import weakref

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from xzsql.engine.mount import Tables
from xzsql.engine.query import Session
from xzsql.errors import ClosedError, InvalidInputError, QueryError, UnsupportedError
from xzsql.result import Result
from xzsql.result import batches as module
from xzsql.testing.sources import MemorySource

N = 20_000


@pytest.fixture
def source():
    return MemorySource(pa.table({"x": range(N), "v": np.arange(float(N))}), 1000, dimensions=["x"])


@pytest.fixture
def session(source):
    opened = Session()
    opened.update(Tables({"main": {}}, source))
    yield opened
    opened.close()


@pytest.fixture
def keep_little(monkeypatch):
    monkeypatch.setattr(module, "KEPT_BYTES", 100_000)


class TestForms:
    def test_all_forms_have_the_same_rows(self, session):
        sql = "SELECT x, v, CASE WHEN x % 2 = 0 THEN 'even' END AS s FROM self WHERE x < 4 ORDER BY x"
        rows = [(0, 0.0, "even"), (1, 1.0, None), (2, 2.0, "even"), (3, 3.0, None)]
        assert session.query(sql).fetchall() == rows
        assert list(session.query(sql)) == rows
        assert session.query(sql).pl().rows() == rows
        assert [tuple(r.values()) for r in session.query(sql).arrow().to_pylist()] == rows
        assert [tuple(r.values()) for r in session.query(sql).reader().read_all().to_pylist()] == rows
        assert [tuple(r.values()) for r in pa.table(session.query(sql)).to_pylist()] == rows
        assert pl.DataFrame(session.query(sql)).rows() == rows
        frame = session.query(sql).df()
        assert frame["x"].tolist() == [0, 1, 2, 3]
        assert frame["s"].isna().tolist() == [False, True, False, True]

    def test_columns_and_types(self, session):
        result = session.query("SELECT x, sum(x) OVER () AS s, 'a'::ENUM('a', 'b') AS e, [1] AS l FROM self")
        assert result.columns == ["x", "s", "e", "l"]
        assert result.types == ["BIGINT", "HUGEINT", "ENUM('a', 'b')", "INTEGER[]"]

    @pytest.mark.parametrize("seen_before", [False, True])
    @pytest.mark.parametrize(
        ("expression", "value"),
        [
            ("2::HUGEINT ** 0 * 170141183460469231731687303715884105727::HUGEINT", None),
            ("170141183460469231731687303715884105727::HUGEINT", 2**127 - 1),
            ("3::UHUGEINT", 3),
            ("'a'::ENUM('a', 'b')", "a"),
            ("1.25::DECIMAL(10, 3)", decimal.Decimal("1.250")),
            ("TIMESTAMP '2000-01-01 01:02:03.123456'", dt.datetime(2000, 1, 1, 1, 2, 3, 123456)),
            ("INTERVAL 90 SECOND", dt.timedelta(seconds=90)),
            ("TIMETZ '01:02:03+02'", dt.time(1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=2)))),
            ("'101'::BIT", "101"),
            ("{'re': 1.0::FLOAT, 'im': 2.0::FLOAT}", {"re": 1.0, "im": 2.0}),
            ("'\\x00a'::BLOB", b"\0a"),
            ("9007199254740993", 2**53 + 1),
            ("'1'::FLOAT", 1.0),
            ("MAP {'a': 1}", {"a": 1}),
        ],
    )
    def test_values_are_duckdbs_own(self, session, expression, value, seen_before):
        """Also where a display went before, which takes the rows another way."""
        result = session.query(f"SELECT {expression} AS a")
        if seen_before:
            repr(result)
        (got,) = result.fetchone()
        expected = duckdb.sql(f"SELECT {expression} AS a").fetchall()[0][0]
        assert got == expected
        assert type(got) is type(expected)
        assert value is None or got == value

    def test_sums_of_integers_never_become_floats(self, session):
        fits = session.query("SELECT sum(x) AS s FROM self")
        assert fits.df()["s"].tolist() == [N * (N - 1) // 2]
        assert fits.df()["s"].dtype == np.int64
        null = session.query(
            "SELECT sum(x) FILTER (x % 2 = k) AS s FROM self, (VALUES (1), (5)) t(k) GROUP BY k ORDER BY k"
        )
        assert null.df()["s"].dtype == "Int64"
        assert null.df()["s"].tolist() == [N * N // 4, pd.NA]
        big = session.query("SELECT sum(9223372036854775807) AS s, 1 AS i FROM self UNION ALL SELECT NULL, 2")
        frame = big.df()
        assert frame["s"].tolist() == [(2**63 - 1) * N, None]
        assert frame["s"].dtype == object
        assert frame["i"].tolist() == [1, 2]
        for result in (fits, big):
            assert result.arrow().schema.field("s").type == pa.decimal128(38, 0)
            assert result.reader().schema.field("s").type == pa.decimal128(38, 0)
            assert result.pl().schema["s"] == pl.Decimal(38, 0)
        assert big.fetchall() == [((2**63 - 1) * N, 1), (None, 2)]

    def test_no_rows(self, session):
        result = session.query("SELECT x, v FROM self WHERE x < 0")
        assert result.fetchone() is None
        assert result.fetchall() == []
        assert result.arrow().schema.names == ["x", "v"]
        assert result.df().dtypes.tolist() == [np.int64, np.float64]
        assert result.pl().shape == (0, 2)

    def test_column_names_may_repeat(self, session):
        result = session.query('SELECT 1 AS a, 2 AS a, 3 AS "q""q"')
        assert result.columns == ["a", "a", 'q"q']
        assert result.fetchall() == [(1, 2, 3)]
        assert result.df().iloc[0].tolist() == [1, 2, 3]

    def test_intervals_in_polars(self, session):
        sql = "SELECT unnest([INTERVAL 3 DAY, NULL, INTERVAL '-1' SECOND, INTERVAL 1 MICROSECOND]) AS i"
        assert session.query(sql).pl()["i"].to_list() == [
            dt.timedelta(days=3),
            None,
            dt.timedelta(seconds=-1),
            dt.timedelta(microseconds=1),
        ]
        with pytest.raises(UnsupportedError, match="'i' has intervals of months"):
            session.query("SELECT INTERVAL 1 MONTH AS i").pl()

    def test_what_a_form_does_not_know_is_our_error(self, session):
        with pytest.raises(QueryError, match=r"cannot be converted: .*\.arrow\(\)"):
            session.query("SELECT DATE 'infinity' AS d").df()

    def test_reader_in_batches(self, session):
        reader = session.query("SELECT x FROM self").reader(batch_rows=300)
        batches = list(reader)
        assert max(b.num_rows for b in batches) <= 300
        assert sum(b.num_rows for b in batches) == N
        after_display = session.query("SELECT x FROM self")
        repr(after_display)
        assert max(b.num_rows for b in after_display.reader(300)) <= 300
        with pytest.raises(InvalidInputError, match="batch_rows"):
            session.query("SELECT 1").reader(0)


class TestRowByRow:
    def test_each_row_once(self, session):
        result = session.query("SELECT x FROM self ORDER BY x")
        assert result.fetchone() == (0,)
        assert result.fetchmany(3) == [(1,), (2,), (3,)]
        assert result.fetchmany() == [(4,)]
        assert next(iter(result)) == (5,)
        assert result.fetchmany(0) == []
        assert len(result.fetchall()) == N - 6
        with pytest.raises(InvalidInputError, match="-1"):
            result.fetchmany(-1)

    def test_the_end_stays_the_end(self, session):
        result = session.query("SELECT x FROM self WHERE x < 2 ORDER BY x")
        assert [result.fetchone() for _ in range(4)] == [(0,), (1,), None, None]
        assert result.fetchmany(5) == []

    def test_what_was_given_whole_can_be_taken_again(self, session, source):
        result = session.query("SELECT x FROM self WHERE x < 3")
        for _ in range(2):
            assert sorted(result.fetchall()) == [(0,), (1,), (2,)]
            assert sorted(result) == [(0,), (1,), (2,)]
            assert result.df()["x"].sum() == 3
            assert result.arrow().num_rows == 3
        assert len(source.requests) == 1

    def test_whole_forms_are_whole_after_a_few_rows(self, session):
        result = session.query("SELECT x FROM self")
        result.fetchmany(10)
        assert result.arrow().num_rows == N
        assert len(result.fetchall()) == N - 10


@pytest.mark.usefixtures("keep_little")
class TestTooLargeToKeep:
    def test_a_second_time_is_an_error(self, session, source):
        for first in ("arrow", "df", "fetchall", "pl"):
            result = session.query("SELECT x, v FROM self")
            assert len(getattr(result, first)()) == N
            for second in ("arrow", "df", "fetchall", "reader"):
                with pytest.raises(ClosedError, match="already streamed, and it is too large to be kept; query again"):
                    len(list(getattr(result, second)()))
            assert "already streamed" in repr(result)
        assert len(source.requests) == 4

    def test_rows_go_on(self, session):
        result = session.query("SELECT x FROM self ORDER BY x")
        result.fetchmany(7)
        assert [row[0] for row in result.fetchall()] == list(range(7, N))

    def test_a_display_uses_nothing_up(self, session, source):
        result = session.query("SELECT x, v FROM self ORDER BY x")
        assert repr(result) == repr(result)
        assert result.df()["x"].tolist() == list(range(N))
        assert len(source.requests) == 1

    def test_it_passes_through_a_reader(self, session):
        result = session.query("SELECT x, v FROM self")
        assert sum(b.num_rows for b in result.reader(1000)) == N


class TestDisplay:
    def test_text(self, session):
        assert repr(session.query("SELECT x, 'a\nb' AS s, NULL AS n FROM self WHERE x < 2 ORDER BY x")) == (
            "x       s        n\n"
            "BIGINT  VARCHAR  \"NULL\"\n"
            "------  -------  ------\n"
            "0       a b      NULL\n"
            "1       a b      NULL\n"
            "(2 rows)"
        )  # fmt: skip

    def test_only_the_first_rows(self, session):
        big = MemorySource(pa.table({"v": np.arange(2_000_000.0)}), 10_000)
        session.update(Tables({"main": {}}, big))
        text = repr(session.query("SELECT v FROM self"))
        assert text.endswith("... more rows")
        assert len(text.splitlines()) == 3 + 10 + 1
        assert big.pulled < 50

    def test_show_and_html(self, session, capsys):
        result = session.query("SELECT x, '<b>' AS s FROM self ORDER BY x")
        result.show(2)
        assert len(capsys.readouterr().out.splitlines()) == 3 + 2 + 1
        assert "<td>0</td><td>&lt;b&gt;</td>" in result._repr_html_()
        result.close()
        assert repr(result) == "<Result of x BIGINT, s VARCHAR; closed>"
        assert "closed" in result._repr_html_()


class TestEnd:
    def test_closed(self, session, source):
        with session.query("SELECT x FROM self") as result:
            result.fetchone()
        assert source.open == 0
        for take in ("fetchall", "fetchone", "df", "arrow", "pl", "reader"):
            with pytest.raises(ClosedError, match="result is closed"):
                getattr(result, take)()
        result.close()

    def test_a_result_that_was_never_asked_reads_nothing(self, session, source):
        session.query("SELECT x FROM self").close()
        assert source.requests == []

    def test_nothing_stays_of_it(self, session):
        result = session.query("SELECT x FROM self")
        result.fetchone()
        ref = weakref.ref(result)
        del result
        gc.collect()
        assert ref() is None

    def test_a_reader_outlives_the_result(self, session):
        reader = session.query("SELECT x FROM self").reader(100)
        gc.collect()
        assert sum(b.num_rows for b in reader) == N


def test_a_table_as_a_result():
    table = pa.table({"name": ["a", None], "dims": [["x", "y"], []], "rows": pa.array([3, None], pa.int64())})
    result = Result.of_table(table)
    assert result.types == ["VARCHAR", "VARCHAR[]", "BIGINT"]
    assert result.fetchall() == [("a", ["x", "y"], 3), (None, [], None)]
    assert result.df()["rows"].tolist() == [3, pd.NA]
    assert result.arrow().equals(table)
    assert "a        ['x', 'y']  3" in repr(result)
