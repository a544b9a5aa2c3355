import re
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr

import xzsql
from xzsql.engine.explain import explained
from xzsql.engine.mount import Tables
from xzsql.engine.plan import conjuncts, named
from xzsql.engine.query import Session
from xzsql.engine.reason import reason
from xzsql.errors import InvalidInputError, QueryError, UnknownNameError, UnsupportedError
from xzsql.source import ROLE
from xzsql.testing.sources import MemorySource
from xzsql.testing.spies import RecordingArray, touched_chunks

SHAPE = (40, 18, 12)
CHUNKS = (10, 6, 12)
CELLS = CHUNKS[0] * CHUNKS[1] * CHUNKS[2]
TIME = np.datetime64("2020-01-01", "ns") + np.arange(SHAPE[0]) * np.timedelta64(1, "D")
LAT = np.linspace(-85, 85, SHAPE[1], dtype="f4")
LON = np.arange(SHAPE[2]) * 30.0
T, Y, X = np.meshgrid(TIME, LAT, LON, indexing="ij")


@pytest.fixture
def spy():
    return RecordingArray(np.zeros(SHAPE, "f4"))


@pytest.fixture
def ds(spy):
    coords = {
        "time": TIME,
        "lat": LAT,
        "lon": LON,
        "band": ("lat", np.arange(SHAPE[1]) // 6),
        "land": ("lon", np.arange(SHAPE[2]) % 2 == 0),
        "city": ("lon", [f"city {i}" for i in range(SHAPE[2])]),
    }
    return xr.Dataset({"t2m": spy.variable(("time", "lat", "lon"), CHUNKS)}, coords)


@pytest.fixture(autouse=True)
def blocks_are_chunks():
    with xzsql.options(block_bytes=4 * CELLS):
        yield


def expected(keep):
    """Blocks with a kept cell, and the bytes of the hull of what is kept in each."""
    chunks = touched_chunks(keep, CHUNKS)
    nbytes = 0
    for index in chunks:
        at = np.argwhere(keep[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, CHUNKS, strict=True))])
        nbytes += 4 * np.prod([len(np.unique(column)) for column in at.T])
    return len(chunks), nbytes


def reasons(scan):
    return {left.predicate: left.reason for left in scan.left}


@pytest.mark.parametrize(
    ("where", "keep"),
    [
        ("true", T == T),
        ("time >= '2020-01-25'", np.datetime64("2020-01-25") <= T),
        ("lat = -85::FLOAT AND time < '2020-01-03'", (Y == -85) & (np.datetime64("2020-01-03") > T)),
        ("lon IN (0, 330) AND lat > 60::FLOAT", np.isin(X, [0, 330]) & (Y > 60)),
        ("lat > 80::FLOAT OR time = '2020-01-01'", (Y > 80) | (np.datetime64("2020-01-01") == T)),
        ("lon = 7", X == 7),
        ("time::date = '2020-01-12'", np.datetime64("2020-01-12") == T),
        ("land = true AND lon < 100", (X % 60 == 0) & (X < 100)),
    ],
)
def test_blocks_and_bytes_are_those_that_hold_kept_cells(ds, spy, where, keep):
    found = ds.sql.explain(f"SELECT avg(t2m) FROM self WHERE {where}")
    (scan,) = found.tables
    assert (scan.blocks, scan.bytes) == expected(keep)
    assert (scan.blocks_total, scan.bytes_total) == (np.prod(SHAPE) // CELLS, 4 * np.prod(SHAPE))
    assert (found.blocks, found.bytes) == (scan.blocks, scan.bytes)
    assert not scan.left
    assert spy.keys == []


def test_what_it_says_is_what_is_read(ds, spy):
    sql = "SELECT sum(t2m) FROM self WHERE time > '2020-01-27' AND lon = 60 AND lat <> 5::FLOAT"
    (scan,) = ds.sql.explain(sql).tables
    ds.sql.query(sql).fetchall()
    assert (len(spy.keys), 4 * spy.cells()) == (scan.blocks, scan.bytes)


def test_no_chunk_is_read_by_any_form_of_it(ds, spy):
    found = ds.sql.explain("SELECT * FROM self WHERE t2m > 1 AND lat < 0::FLOAT LIMIT 3")
    assert "t2m > 1.0  (mentions the data variable t2m)" in repr(found)
    assert "<table>" in found._repr_html_()
    assert found.tables[0].coverage()
    assert spy.keys == []


def test_coordinates_alone_need_no_block(ds):
    (scan,) = ds.sql.explain("SELECT max(lat) FROM self").tables
    assert (scan.columns, scan.blocks, scan.blocks_total, scan.bytes_total) == (("lat",), 0, 0, 0)
    assert "no block" in str(scan)


def test_each_scan_of_a_table_is_listed_with_its_own_predicates(ds):
    found = ds.sql.explain(
        "SELECT a.t2m - b.t2m FROM self a JOIN time_lat_lon b USING (lat, lon) "
        "WHERE a.time = '2020-01-01' AND b.time >= '2020-01-31' UNION ALL SELECT t2m FROM self WHERE lon = 30"
    )
    exact = {(s.table, s.exact): s.blocks for s in found.tables}
    assert exact == {
        ("self", ("\"time\" = TIMESTAMP '2020-01-01 00:00:00'",)): 3,
        ("time_lat_lon", ("\"time\" >= TIMESTAMP '2020-01-31 00:00:00'",)): 3,
        ("self", ('"lon" = 30.0',)): 12,
    }
    joined = next(s for s in found.tables if s.table == "time_lat_lon")
    assert set(reasons(joined)) == {"lat = lat", "lon = lon"}


def test_tables_of_groups_that_look_the_same_are_told_apart():
    tree = xr.DataTree.from_dict({f"/{g}": xr.Dataset({"v": ("x", np.zeros(n))}) for g, n in (("a", 4), ("b", 9))})
    found = tree.sql.explain('SELECT * FROM "b".x JOIN "a".x USING (x) WHERE x < 2')
    assert {s.table: s.bytes_total for s in found.tables} == {"a.x": 32, "b.x": 72}


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("lat = 0.1::DOUBLE", r"compared as DOUBLE; write \?::FLOAT"),
        ("band = 1.5", r"compared as DECIMAL\(20,1\); write \?::BIGINT"),
        ("t2m > 3", "mentions the data variable t2m"),
        ("t2m > 3 OR lat = 5::FLOAT", "mentions the data variable t2m"),
        ("sin(lon) > 0", "a function of the column; write a range"),
        ("month(time) = 2", "a function of the column; write a range"),
        ("lon + 1 > 7", "a function of the column; write a range"),
        ("time > TIMESTAMPTZ '2020-01-03 00:00:00+00'", "TIMESTAMP WITH TIME ZONE; compare with a TIMESTAMP"),
        ("city LIKE 'city 1%'", "a pattern; write a range or IN"),
        ("land", "a column by itself; write column = true"),
        ("lon IS NOT DISTINCT FROM 30", "DISTINCT FROM; write = or IS NULL"),
        ("lon > 'nan'::DOUBLE", "NaN and infinity are not offered"),
        ("(lon, band) IN ((0, 1), (30, 2))", "a row of columns; write the columns one by one"),
        ("lon = (SELECT max(i) FROM range(3) r(i))", "a condition of a join or subquery"),
    ],
)
def test_why_a_predicate_is_left_to_duckdb(ds, where, why):
    (scan,) = ds.sql.explain(f"SELECT t2m FROM self WHERE {where}").tables
    assert scan.exact == ()
    assert scan.blocks == scan.blocks_total == 12
    (left,) = scan.left
    assert re.search(why, left.reason)


def test_parameters_count_with_their_type(ds):
    sql = "SELECT t2m FROM self WHERE lat = $lat AND lon = $lon"
    (wide,) = ds.sql.explain(sql, {"lat": float(LAT[3]), "lon": 30}).tables
    assert reasons(wide)[f"CAST(lat AS DOUBLE) = {float(LAT[3])}"] == "compared as DOUBLE; write ?::FLOAT"
    assert wide.exact == ('"lon" = 30.0',)
    (narrow,) = ds.sql.explain(sql, {"lat": LAT[3], "lon": 30}).tables
    assert (narrow.blocks, narrow.bytes) == expected((LAT[3] == Y) & (X == 30))
    with pytest.raises(QueryError):
        ds.sql.explain(sql)


def test_a_condition_after_an_aggregate_is_none_on_the_table(ds):
    (scan,) = ds.sql.explain("SELECT lat FROM self GROUP BY lat HAVING avg(t2m) > 3 AND lat > 0::FLOAT").tables
    assert scan.exact == ('"lat" > 0.0',)
    assert scan.left == ()


def test_constants_with_line_breaks_and_parentheses(ds):
    (scan,) = ds.sql.explain("SELECT t2m FROM self WHERE city IN ('a\nb', ') AND (') AND lon > 3").tables
    assert sorted(scan.exact) == ["\"city\" IN ('a\nb', ') AND (')", '"lon" > 3.0']
    assert scan.blocks == 0


def test_a_categorical_is_compared_as_enum_as_the_query_does(ds):
    kinds = pd.Categorical(["a", "b", "a", "b"])
    catalog = xr.Dataset({"v": ("x", np.zeros(4))}, {"kind": ("x", kinds)}).sql
    assert catalog.query("SELECT kind FROM self").types == ["ENUM('a', 'b')"]
    (scan,) = catalog.explain("SELECT v FROM self WHERE kind = 'a' AND x < 2").tables
    assert scan.exact == ('"x" < 2',)
    (left,) = scan.left
    assert left.reason == "the labels of a categorical are compared as ENUM"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t",
        "SELECT count(*) FROM t",
        "SELECT v FROM t WHERE x BETWEEN 3 AND 9 AND y IN (1, 2, 4) AND v > 2",
        "SELECT sum(v) FROM t WHERE x = 3 OR y = 4",
        "SELECT * FROM t a JOIN t b USING (x) WHERE a.y = 1 AND b.y <> 2 AND x > 1",
        "WITH c AS MATERIALIZED (SELECT * FROM t) SELECT * FROM c WHERE x = 1 UNION SELECT * FROM c WHERE x = 2",
        "SELECT y, max(v) FROM (SELECT * FROM t WHERE name <> 'a\nb') WHERE y < 4 GROUP BY y HAVING y > 1",
        "SELECT * FROM t WHERE x IN (SELECT y FROM t WHERE v < 3) AND NOT (x = 1 AND y = 2) AND name IS NOT NULL",
    ],
)
def test_what_it_lists_is_what_the_source_is_asked_for(sql):
    columns = {"x": range(12), "y": [i % 5 for i in range(12)], "name": ["a\nb", "c"] * 6, "v": [1.5] * 12}
    source = MemorySource(pa.table({k: list(v) for k, v in columns.items()}), dimensions=["x", "y", "name"])
    session = Session()
    session.update(Tables({"main": {"t": source}}, source))
    listed = explained(session, sql, None, lambda _: None).tables
    assert source.requests == []
    session.query(sql).fetchall()
    asked = sorted((r.columns, tuple(sorted(map(str, r.where)))) for r in source.requests)
    assert sorted((s.columns, tuple(sorted(s.exact))) for s in listed) == asked
    session.close()


class TestStatements:
    def test_they_are_explained_and_not_run(self, ds, tmp_path):
        path = tmp_path / "out.parquet"
        catalog = ds.sql
        for sql in (
            f"COPY (SELECT t2m FROM self WHERE lon = 30) TO '{path}'",
            "CREATE TABLE made AS SELECT t2m FROM self WHERE lon = 30",
            "CREATE TEMP TABLE made AS SELECT t2m FROM self WHERE lon = 30",
        ):
            (scan,) = catalog.explain(sql).tables
            assert (scan.exact, scan.bytes) == (('"lon" = 30.0',), 4 * SHAPE[0] * SHAPE[1])
        assert not path.exists()
        with pytest.raises(UnknownNameError):
            catalog.query("SELECT * FROM made")

    def test_what_queries_made_can_be_named(self, ds):
        catalog = ds.sql
        catalog.query("CREATE TABLE stations AS SELECT 30.0 AS lon")
        catalog.query("CREATE VIEW early AS SELECT * FROM self WHERE time < '2020-01-05'")
        (scan,) = catalog.explain("SELECT t2m FROM early JOIN stations USING (lon)").tables
        assert scan.blocks == 3
        (scan,) = catalog.explain("INSERT INTO stations SELECT lon FROM self").tables
        assert scan.columns == ("lon",)

    def test_python_variables_are_planned_with_and_not_counted(self, ds):
        stations = pa.table({"lon": [30.0]})
        found = ds.sql.explain("SELECT t2m FROM self JOIN stations USING (lon)")
        assert len(stations) == 1
        assert [s.table for s in found.tables] == ["self"]
        assert "Python variables not counted" in repr(found)

    def test_afterwards_everything_is_as_it_was(self, ds):
        catalog = ds.sql
        result = catalog.query("SELECT lon FROM self ORDER BY ALL")
        for _ in range(2):
            catalog.explain("SELECT * FROM self WHERE lon = 30")
        assert result.columns == ["lon"]
        assert len(result.fetchall()) == np.prod(SHAPE)
        assert catalog.query("SELECT count(*) FROM self WHERE lon = 30").fetchall() == [(SHAPE[0] * SHAPE[1],)]

    def test_from_several_threads_at_once(self, ds):
        catalog = ds.sql
        catalog.query("SELECT 1").fetchall()
        found, failed = [], []

        def work(lon):
            try:
                found.append((lon, catalog.explain(f"SELECT t2m FROM self WHERE lon = {lon}").tables[0].exact))
                catalog.query(f"SELECT count(*) FROM self WHERE lon = {lon}").fetchall()
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(lon,)) for lon in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert sorted(found) == [(lon, (f'"lon" = {lon}.0',)) for lon in range(6)]

    @pytest.mark.parametrize(
        ("sql", "error", "text"),
        [
            ("SELECT 1; SELECT 2", UnsupportedError, "one statement and runs none, got 2"),
            ("EXPLAIN SELECT 1", InvalidInputError, "leave EXPLAIN out"),
            ("PIVOT self ON lon USING sum(t2m)", UnsupportedError, "PIVOT list the columns"),
            ("SELECT * FROM elsewhere", UnknownNameError, "elsewhere"),
            ("SELECT nothing FROM self", UnknownNameError, "nothing"),
            ("SELECT FROM WHERE", QueryError, "syntax"),
            ("CREATE TABLE other.made AS SELECT * FROM self", UnsupportedError, "explain the SELECT by itself"),
        ],
    )
    def test_what_cannot_be_explained(self, ds, spy, sql, error, text):
        catalog = ds.sql
        catalog.query("ATTACH ':memory:' AS other")
        with pytest.raises(error, match=text):
            catalog.explain(sql)
        assert spy.keys == []
        assert catalog.query("SELECT count(*) FROM self").fetchall() == [(np.prod(SHAPE),)]


class TestForms:
    def test_as_text(self, ds):
        text = repr(ds.sql.explain("SELECT t2m FROM self WHERE time < '2020-01-02' AND lat = 0.1::DOUBLE"))
        head = text.splitlines()[:4]
        assert head == [
            "self: 3 of 12 blocks, 864 B of 33.8 KiB",
            "  columns    lat, t2m",
            "  exact      \"time\" < TIMESTAMP '2020-01-02 00:00:00'",
            "  by DuckDB  CAST(lat AS DOUBLE) = 0.1  (compared as DOUBLE; write ?::FLOAT)",
        ]
        assert "~8,640 rows" in text
        assert not re.search(r"xz[0-9a-f]{8}_", text)

    def test_as_html_with_everything_escaped(self, ds):
        found = ds.sql.explain("SELECT t2m FROM self WHERE city = '<b>' AND city LIKE '<i>%' LIMIT 1")
        page = found._repr_html_()
        assert "&lt;b&gt;" in page
        assert "<b>" not in page
        assert "<i>" not in page
        assert "LIMIT may end a scan early" in page

    def test_without_a_table(self, ds):
        pytest.importorskip("matplotlib")
        found = ds.sql.explain("SELECT 1")
        assert found.tables == ()
        assert repr(found).startswith("reads no table of the catalog")
        with pytest.raises(UnsupportedError, match="nothing to draw"):
            found.plot()

    def test_coverage_and_its_drawing(self, ds, spy):
        mpl = pytest.importorskip("matplotlib")
        mpl.use("Agg")
        plt = pytest.importorskip("matplotlib.pyplot")
        found = ds.sql.explain("SELECT avg(t2m) FROM self WHERE lon IN (0, 30, 90) AND time >= '2020-01-25'")
        time, lat, lon = found.tables[0].coverage()
        assert (time.dimension, time.length, list(time.edges)) == ("time", 40, [0, 10, 20, 30, 40])
        assert list(time.kept) == [(24, 40)]
        assert (list(lat.edges), list(lat.kept)) == ([0, 6, 12, 18], [(0, 18)])
        assert (list(lon.edges), list(lon.kept)) == ([0, 12], [(0, 2), (3, 4)])
        (ax,) = found.plot()
        assert [t.get_text() for t in ax.get_yticklabels()] == ["time (40)", "lat (18)", "lon (12)"]
        blocks, kept = ax.collections[:2]
        shaded = [not np.allclose(color[:3], 1) for color in blocks.get_facecolors()]
        assert shaded == [False, False, True, True]
        (box,) = kept.get_paths()
        assert (box.vertices[:, 0].min(), box.vertices[:, 0].max()) == pytest.approx((24 / 40, 1))
        assert "6 of 12 blocks" in ax.get_title("left")
        plt.close("all")
        assert spy.keys == []

    def test_nothing_kept(self, ds):
        found = ds.sql.explain("SELECT t2m FROM self WHERE lon = 7")
        assert [list(e.kept) for e in found.tables[0].coverage()] == [[], [], []]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("(a > 1)", ["a > 1"]),
        ("((a > 1) AND (b < 2) AND f(c, d))", ["a > 1", "b < 2", "f(c, d)"]),
        ("(a = 'x) AND (y')", ["a = 'x) AND (y'"]),
        ("((a > 1) OR (b < 2))", ["(a > 1) OR (b < 2)"]),
        ("(a BETWEEN f(b) AND 3)", ["a BETWEEN f(b) AND 3"]),
        ("((a BETWEEN 1 AND b) AND (c = 1))", ["a BETWEEN 1 AND b", "c = 1"]),
        ("IN (...)", ["IN (...)"]),
        ("", []),
    ],
)
def test_conjuncts(text, terms):
    assert conjuncts(text) == terms


def test_named_columns_are_words_and_no_functions_or_texts():
    columns = ["lat", "month", "a b", "x"]
    assert named('"month"(lat) = \'x\' AND "a b" > 1', columns) == {0, 2}
    assert named("month(LAT) = 2", columns) == {0}


def test_a_reason_for_several_columns_names_all_data():
    fields = [pa.field(n, pa.float32(), metadata={ROLE: b"data"}) for n in ("u", "v")]
    assert reason("u > v", fields, joins=False) == "mentions the data variable u and v"
