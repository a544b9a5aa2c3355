"""What other ways from arrays to SQL get wrong, each with the value that xarray, cftime or numpy has."""

from __future__ import annotations

import datetime as dt
import gc
import warnings
import weakref
from pathlib import Path

import cftime
import duckdb
import numpy as np
import pytest
import xarray as xr
from zarr.storage import MemoryStore

import xzsql
from xzsql.testing.spies import RecordingArray

GRID = xr.Dataset(
    {"v": (("y", "x"), np.arange(12.0).reshape(3, 4))}, coords={"y": [10.0, 20.0, 30.0], "x": np.arange(4)}
)


def test_noleap_days_stay_numbers_and_never_become_another_date():
    numbers = np.array([58, 59, 60])  # 2000-02-28, 2000-03-01, 2000-03-02 without a leap day
    attrs = {"units": "days since 2000-01-01", "calendar": "noleap"}
    ds = xr.Dataset({"v": ("time", [1, 2, 3])}, coords={"time": ("time", numbers, attrs)})
    assert ds.sql.query("SELECT time, v FROM self ORDER BY time").fetchall() == [(58, 1), (59, 2), (60, 3)]
    assert [str(t) for t in ds.sql.query("SELECT time FROM self").types] == ["BIGINT"]


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "all_leap", "julian"])
def test_model_calendars_decoded_by_xarray_go_back_to_their_numbers(calendar):
    numbers = np.array([57, 58, 59, 60])
    attrs = {"units": "days since 2000-01-01", "calendar": calendar}
    raw = xr.Dataset({"v": ("time", [1, 2, 3, 4])}, coords={"time": ("time", numbers, attrs)})
    decoded = xr.decode_cf(raw, decode_times=xr.coders.CFDatetimeCoder(use_cftime=True))
    assert isinstance(decoded.time.values[0], cftime.datetime)
    found = decoded.sql.query("SELECT time, v FROM self ORDER BY v").fetchall()
    assert found == [(57, 1), (58, 2), (59, 3), (60, 4)]


def test_a_360_day_axis_without_encoding_counts_microseconds_in_its_calendar():
    time = xr.date_range("2000-02-28", periods=4, freq="D", calendar="360_day", use_cftime=True)
    ds = xr.Dataset({"v": ("time", [1, 2, 3, 4])}, coords={"time": time})
    expected = cftime.date2num(time.values, "microseconds since 1970-01-01", "360_day")
    found = ds.sql.query("SELECT time FROM self WHERE v = 3").fetchall()
    assert found == [(int(expected[2]),)]


def test_one_date_out_of_range_is_null_and_takes_nothing_down():
    attrs = {"units": "days since 1970-01-01", "calendar": "proleptic_gregorian"}
    when = ("x", np.array([0, 10**15, 10957]), attrs)
    ds = xr.Dataset({"when": when, "other": ("x", [1, 2, 3])})
    found = ds.sql.query('SELECT x, "when", other FROM self ORDER BY x').fetchall()
    assert found == [(0, dt.datetime(1970, 1, 1), 1), (1, None, 2), (2, dt.datetime(2000, 1, 1), 3)]


def test_dates_beyond_the_years_of_nanoseconds():
    attrs = {"units": "days since 2000-01-01", "calendar": "standard"}
    ds = xr.Dataset({"v": ("time", [1, 2])}, coords={"time": ("time", [0, 1_000_000], attrs)})
    last = cftime.num2date(1_000_000, **attrs)
    assert last.year == 4737
    found = ds.sql.query("SELECT time FROM self WHERE time > '3000-01-01'").fetchall()
    assert found == [(dt.datetime(last.year, last.month, last.day),)]


def test_int64_with_missing_cells_keeps_its_digits(tmp_path):
    path = tmp_path / "a.zarr"
    values = np.array([2**53 + 1, -1, 2**63 - 1, -(2**63) + 1])
    raw = xr.Dataset({"v": ("x", values, {"_FillValue": np.int64(-1)})})
    raw.to_zarr(path, consolidated=False)
    assert raw.sql.query("SELECT v FROM self ORDER BY x").fetchall()[0] == (9007199254740993,)
    with xzsql.open(path) as catalog:
        found = catalog.query("SELECT v FROM self ORDER BY x")
        assert [str(t) for t in found.types] == ["BIGINT"]
        assert found.fetchall() == [(9007199254740993,), (None,), (2**63 - 1,), (-(2**63) + 1,)]


@pytest.mark.parametrize("kind", ["object", "U", "StringDType"])
def test_an_empty_text_is_no_missing_text(kind):
    text = np.array(["", "b", ""], np.dtypes.StringDType() if kind == "StringDType" else kind)
    ds = xr.Dataset({"s": ("x", text)})
    assert ds.sql.query("SELECT x, s FROM self ORDER BY x").fetchall() == [(0, ""), (1, "b"), (2, "")]
    assert ds.sql.query("SELECT count(s), count(*) FROM self").fetchall() == [(3, 3)]


def test_none_among_texts_is_null_and_stops_nothing():
    ds = xr.Dataset({"s": ("x", np.array(["a", None, np.nan, ""], object)), "n": ("x", [1, 2, 3, 4])})
    found = ds.sql.query("SELECT n, s FROM self ORDER BY n").fetchall()
    assert found == [(1, "a"), (2, None), (3, None), (4, "")]


def test_a_variable_of_anything_else_is_left_out_with_one_warning():
    things = np.empty(3, object)
    things[:] = [None, {"a": 1}, [1, 2]]
    ds = xr.Dataset({"bad": ("x", things), "good": ("x", [1, 2, 3])})
    with pytest.warns(xzsql.XzsqlWarning, match="bad") as caught:
        found = ds.sql.query("SELECT * FROM self ORDER BY x").fetchall()
    assert found == [(0, 1), (1, 2), (2, 3)]
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xzsql.XzsqlWarning)
        notes = [n for n in ds.sql.tables().df()["note"] if isinstance(n, str)]
        columns = [c for row in ds.sql.tables().df()["columns"] for c in row]
    assert len(notes) == 1
    assert "bad" in columns


@pytest.mark.parametrize("chunk", [2, 3, 10])
def test_dimensions_without_coordinates_count_on_in_every_block(chunk):
    store = MemoryStore()
    xr.Dataset({"v": (("t", "y"), np.arange(40).reshape(10, 4))}).to_zarr(
        store, encoding={"v": {"chunks": (chunk, 3)}}, consolidated=False
    )
    ds = xr.open_zarr(store, chunks=None, consolidated=False)
    with xzsql.options(block_bytes=1):
        assert ds.sql.query("SELECT * FROM self ORDER BY ALL").fetchall() == [
            (t, y, 4 * t + y) for t in range(10) for y in range(4)
        ]
    assert [str(t) for t in ds.sql.query("FROM self LIMIT 1").types] == ["BIGINT"] * 3


def test_variables_without_dimensions_are_one_row_beside_the_others():
    ds = GRID.assign(crs=7, name="a")
    assert ds.sql.query("SELECT crs, name FROM scalar").fetchall() == [(7, "a")]
    assert ds.sql.query("SELECT count(*) FROM self").fetchall() == [(12,)]


def test_an_array_of_a_0_d_dataset_is_self():
    assert xr.Dataset({"a": 1.5}).sql.query("SELECT a FROM self").fetchall() == [(1.5,)]


@pytest.mark.parametrize("via", ["prepare", "parameters"])
def test_a_prepared_statement_answers_each_time(con, via):
    GRID.sql.mount(con, "m")
    if via == "prepare":
        con.execute("PREPARE q AS SELECT sum(v), count(*) FROM m.y_x WHERE y >= $1")
        answers = [con.execute(f"EXECUTE q({y})").fetchall() for y in (10, 30, 10)]
    else:
        answers = [con.execute("SELECT sum(v), count(*) FROM m.y_x WHERE y >= ?", [y]).fetchall() for y in (10, 30, 10)]
    assert answers == [[(66.0, 12)], [(38.0, 4)], [(66.0, 12)]]


TWICE = {
    "join": "SELECT count(*), sum(a.v * b.v) FROM {t} a JOIN {t} b USING (y, x)",
    "cross": "SELECT count(*), sum(a.v) FROM {t} a, {t} b WHERE a.y = 10 AND b.x = 1",
    "union": "SELECT sum(v), count(*) FROM (FROM {t} WHERE y > 15 UNION ALL FROM {t} WHERE x < 2)",
    "cte": "WITH c AS (FROM {t} WHERE x > 0) SELECT count(*), sum(c.v + d.v) FROM c JOIN c d USING (y, x)",
    "materialized": "WITH c AS MATERIALIZED (FROM {t}) SELECT (SELECT sum(v) FROM c), (SELECT count(y) FROM c)",
    "subquery": "SELECT count(*), sum(v) FROM {t} WHERE v > (SELECT avg(v) FROM {t})",
}


@pytest.mark.parametrize("name", TWICE)
def test_a_table_twice_in_one_query(con, eager, name):
    GRID.sql.mount(con, "m")
    eager.load(GRID)
    sql = TWICE[name].format(t="m.main.y_x")
    assert con.sql(sql).fetchall() == eager.con.sql(sql).fetchall()
    assert GRID.sql.query(TWICE[name].format(t="self")).fetchall() == eager.con.sql(sql).fetchall()


def test_views_copies_and_tables_made_of_a_mount(con, tmp_path):
    GRID.sql.mount(con, "m")
    con.execute("CREATE VIEW high AS SELECT * FROM m.y_x WHERE y > 15")
    assert [con.sql("SELECT count(*), sum(v) FROM high").fetchall() for _ in range(2)] == [[(8, 60.0)]] * 2
    path = Path(tmp_path, "a.parquet")
    con.execute(f"COPY m.y_x TO '{path}'")
    assert con.sql(f"SELECT sum(v), count(*) FROM '{path}'").fetchall() == [(66.0, 12)]
    con.execute("CREATE TABLE copied AS FROM m.y_x WHERE x = 3")
    assert con.sql("SELECT y, v FROM copied ORDER BY y").fetchall() == [(10.0, 3.0), (20.0, 7.0), (30.0, 11.0)]


def test_the_accessor_sees_a_dataset_changed_in_place():
    ds = GRID.copy(deep=True)
    assert ds.sql.query("SELECT count(*) FROM self WHERE y > 15").fetchall() == [(8,)]
    ds["w"] = ds.v * 2
    assert ds.sql.query("SELECT sum(w) FROM self").fetchall() == [(132.0,)]
    ds["y"] = [10.0, 11.0, 12.0]
    assert ds.sql.query("SELECT count(*) FROM self WHERE y > 15").fetchall() == [(0,)]
    assert ds.sql.query("SELECT max(y) FROM self").fetchall() == [(12.0,)]
    ds["v"].values[0, 0] = 100.0
    assert ds.sql.query("SELECT max(v) FROM self").fetchall() == [(100.0,)]
    del ds["w"]
    with pytest.raises(xzsql.XzsqlError, match="w"):
        ds.sql.query("SELECT w FROM self").fetchall()


def test_the_accessor_sees_a_tree_changed_in_place():
    tree = xr.DataTree.from_dict({"/": GRID})
    assert tree.sql.query("SELECT count(*) FROM self").fetchall() == [(12,)]
    tree["sub"] = xr.DataTree(xr.Dataset({"n": ("z", [1, 2])}))
    assert tree.sql.query('SELECT sum(n) FROM "sub".z').fetchall() == [(3,)]


def test_a_mounted_array_frees_its_memory_when_it_is_unmounted(con):
    spy = RecordingArray(np.arange(12.0).reshape(3, 4))
    ds = xr.Dataset({"v": spy.variable(("y", "x"))})
    gone = weakref.ref(spy)
    ds.sql.mount(con, "m")
    assert con.sql("SELECT sum(v) FROM m.y_x").fetchall() == [(66.0,)]
    ds.sql.unmount(con, "m")
    del ds, spy
    gc.collect()
    assert gone() is None


def test_a_file_database_stays_clean(tmp_path):
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as con:
        GRID.sql.mount(con, "m")
        assert con.sql("SELECT count(*) FROM m.y_x").fetchall() == [(12,)]
    with duckdb.connect(str(path)) as con:
        assert con.sql("SHOW ALL TABLES").fetchall() == []
        assert [
            r[0] for r in con.sql("SELECT database_name FROM duckdb_databases() WHERE NOT internal").fetchall()
        ] == ["a"]


def test_a_read_only_database_can_be_mounted_on(tmp_path):
    path = str(tmp_path / "a.duckdb")
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE keys AS SELECT 20.0::DOUBLE AS y")
    with duckdb.connect(path, read_only=True) as con:
        GRID.sql.mount(con, "m")
        assert con.cursor().sql("SELECT sum(v) FROM m.y_x JOIN keys USING (y)").fetchall() == [(22.0,)]


def test_a_mount_is_listed_with_units_as_comments(con):
    ds = GRID.copy(deep=True)
    ds["v"].attrs = {"units": "K", "long_name": "air temperature"}
    ds.sql.mount(con, "m")
    tables = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = 'm'"
    assert con.cursor().sql(tables).fetchall() == [("main", "y_x")]
    shown = con.cursor().sql("SHOW ALL TABLES").fetchall()
    assert [(r[0], r[1], r[2]) for r in shown] == [("m", "main", "y_x")]
    sql = "SELECT comment FROM duckdb_columns() WHERE database_name = 'm' AND column_name = 'v'"
    ((comment,),) = con.sql(sql).fetchall()
    assert "K" in comment
    assert "air temperature" in comment


def test_an_own_mount_is_replaced(con):
    GRID.sql.mount(con, "m")
    GRID.isel(y=[0]).sql.mount(con, "m")
    assert con.cursor().sql("SELECT count(*) FROM m.y_x").fetchall() == [(4,)]


def test_a_mount_survives_the_catalog_object_and_a_rollback(con):
    xr.Dataset({"v": ("x", [1, 2])}).sql.mount(con, "m")
    con.execute("BEGIN")
    assert con.sql("SELECT sum(v) FROM m.x").fetchall() == [(3,)]
    con.execute("ROLLBACK")
    assert con.cursor().sql("SELECT sum(v) FROM m.x").fetchall() == [(3,)]


def test_a_query_on_the_users_connection_joins_its_tables(con):
    con.execute("CREATE TEMP TABLE stations AS SELECT 10.0::DOUBLE AS y, 'a' AS name")
    found = GRID.sql.query("SELECT name, sum(v) FROM self JOIN stations USING (y) GROUP BY name", con=con)
    assert found.fetchall() == [("a", 6.0)]
    assert con.sql("SHOW TABLES").fetchall() == [("stations",)]


def test_integer_sums_are_exact():
    ds = xr.Dataset({"v": ("x", np.array([2**62, 2**62, 2**62]))})
    assert ds.sql.query("SELECT sum(v) FROM self").fetchall() == [(3 * 2**62,)]
    assert int(ds.sql.query("SELECT sum(v) AS s FROM self").arrow()["s"][0].as_py()) == 3 * 2**62
    assert int(ds.sql.query("SELECT sum(v) AS s FROM self").df()["s"][0]) == 3 * 2**62


def test_sql_cannot_take_the_tables_of_a_catalog_away():
    ds = xr.Dataset({"v": ("x", [1.0, 2, 3])})
    ds.sql("DROP VIEW x")
    assert ds.sql("SELECT sum(v) FROM x").fetchall() == [(6.0,)]
    ds.sql("CREATE OR REPLACE VIEW x AS SELECT 7 AS oops")
    assert ds.sql("SELECT sum(v) FROM self").fetchall() == [(6.0,)]
    assert ds.sql("SELECT sum(v) FROM x").fetchall() == [(6.0,)]
    ds.sql("CREATE VIEW mine AS SELECT v + 1 AS w FROM x")
    assert ds.sql("SELECT sum(w) FROM mine").fetchall() == [(9.0,)]
    ds.sql("CREATE TABLE kept AS FROM x")
    assert ds.sql("SELECT count(*) FROM kept").fetchall() == [(3,)]
