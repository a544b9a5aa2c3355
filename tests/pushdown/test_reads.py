"""A query reads the chunks that hold a cell it keeps, each once, and no other."""

from __future__ import annotations

import datetime as dt

import duckdb
import numpy as np
import polars as pl
import pytest
import xarray as xr

import xzsql
from xzsql.testing import oracle
from xzsql.testing.spies import DaskSpy, RecordingArray, touched_chunks

DAY = np.timedelta64(1, "D")

BOXES = {
    "float, between": ("lat BETWEEN 41.0 AND 47.5", lambda g: (g.lat >= 41) & (g.lat <= 47.5)),
    "float, open": ("lat > 47.5 AND lon < 0.55", lambda g: (g.lat > 47.5) & (g.lon < 0.55)),
    "float, equal": ("lon = '0.30000000000000004'::DOUBLE", lambda g: g.lon == 0.30000000000000004),
    "time, range": (
        "time >= '2000-02-10' AND time < TIMESTAMP '2000-03-01'",
        lambda g: (g.time >= np.datetime64("2000-02-10")) & (g.time < np.datetime64("2000-03-01")),
    ),
    "time, equal": ("time = '2000-01-11'", lambda g: g.time == np.datetime64("2000-01-11")),
    "time, month": ("date_trunc('month', time) = TIMESTAMP '2000-02-01'", lambda g: g.time.dt.month == 2),
    "time, year": ("year(time) = 1999", lambda g: g.time.dt.year == 1999),
    "time, date": ("time::DATE = DATE '2000-03-01'", lambda g: g.time == np.datetime64("2000-03-01")),
    "in": ("lat IN (60.0, 27.5)", lambda g: g.lat.isin([60.0, 27.5])),
    "not in": ("lat NOT IN (60.0, 57.5, 55.0, 52.5, 50.0)", lambda g: g.lat < 50),
    "or on one": ("lat < 27 OR lat > 58", lambda g: (g.lat < 27) | (g.lat > 58)),
    "not": ("NOT (lat > 30)", lambda g: ~(g.lat > 30)),
    "text along time": ("season = 'warm'", lambda g: g.season == "warm"),
    "nothing": ("lat > 1000", lambda g: g.lat > 1000),
    "contradiction": ("lat < 30 AND lat > 50", lambda g: (g.lat < 30) & (g.lat > 50)),
}


@pytest.mark.parametrize("name", BOXES)
def test_one_coordinate_at_a_time_reads_only_touched_chunks(stored, check, name):
    where, kept = BOXES[name]
    expected = check(stored.eager, f"SELECT * FROM time_lat_lon WHERE {where}")
    found = stored.lazy.sql.query(f"SELECT time, lat, lon, air FROM time_lat_lon WHERE {where}").arrow()
    assert oracle.difference(found, expected.select(["time", "lat", "lon", "air"])) == ""
    assert stored.read("air") == stored.holding(kept(stored.eager))
    assert stored.store.reads("air") == len(stored.read("air"))
    assert stored.read("wind") == set()


@pytest.mark.parametrize("name", ["float, between", "time, range", "in"])
def test_through_a_mount_on_a_second_cursor(stored, con, name):
    where, kept = BOXES[name]
    stored.lazy.sql.mount(con, "grid")
    with con.cursor() as cursor:
        cursor.sql(f"SELECT sum(air) FROM grid.time_lat_lon WHERE {where}").fetchall()
    assert stored.read("air") == stored.holding(kept(stored.eager))
    assert stored.read("wind") == set()


def test_parameters_are_pushed(stored):
    times = (dt.datetime(2000, 2, 10), np.datetime64("2000-03-01T00:00:00", "ns"))
    sql = "SELECT count(air) FROM self WHERE time >= ? AND time < ? AND lat = ?"
    assert stored.lazy.sql.query(sql, [*times, np.float64(60)]).fetchall() == [(4 * 24,)]
    g = stored.eager
    kept = (g.time >= np.datetime64(times[0])) & (g.time < times[1]) & (g.lat == 60)
    assert stored.read() == stored.holding(kept)


def test_or_of_two_coordinates(stored):
    g = stored.eager
    where, kept = "lat = 60 OR lon = '0.0'::DOUBLE", (g.lat == 60) | (g.lon == 0)
    with xzsql.options(block_bytes=1):
        found = stored.lazy.sql.query(f"SELECT air FROM self WHERE {where}").df()["air"]
    expected = g.air.values[kept.broadcast_like(g.air).transpose(*g.air.dims).values]
    assert sorted(found) == sorted(expected)
    assert stored.read() == stored.holding(kept)
    assert len(stored.read()) < 5 * 3 * 4


def test_a_box_on_two_dimensional_coordinates(stored):
    g = stored.eager
    kept = (g.lat2 >= 52) & (g.lat2 <= 53)
    with xzsql.options(block_bytes=1):
        found = stored.lazy.sql.query("SELECT air FROM self WHERE lat2 BETWEEN 52 AND 53").df()["air"]
    expected = g.air.values[np.broadcast_to(kept.values, g.air.shape)]
    assert sorted(found) == sorted(expected)
    assert stored.read() == stored.holding(kept)


def test_a_box_on_two_dimensional_coordinates_reads_fewer_cells():
    y, x = np.meshgrid(np.arange(40.0), np.arange(50.0), indexing="ij")
    spy = RecordingArray(np.arange(2000.0).reshape(40, 50))
    ds = xr.Dataset({"v": spy.variable(("y", "x"))}, coords={"lat": (("y", "x"), y + x / 100)})
    rows = ds.sql.query("SELECT v FROM self WHERE lat BETWEEN 10 AND 12").fetchall()
    kept = (y + x / 100 >= 10) & (y + x / 100 <= 12)
    assert sorted(v for (v,) in rows) == spy.values[kept].tolist()
    assert spy.touched()[kept].all()
    assert spy.cells() <= 4 * 50, "the hull of the kept cells is at most 4 rows of 50"


def test_inside_a_chunk_only_the_hull_is_loaded():
    spy = RecordingArray(np.arange(60.0 * 80).reshape(60, 80))
    ds = xr.Dataset(
        {"v": spy.variable(("y", "x"), chunks=(60, 80))}, coords={"y": np.arange(60.0), "x": np.arange(80.0)}
    )
    found = ds.sql.query("SELECT sum(v) FROM self WHERE y BETWEEN 10 AND 12 AND x < 5").fetchall()
    assert found == [(spy.values[10:13, :5].sum(),)]
    assert spy.cells() == 15


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM self",
        "SELECT count(*) FROM self WHERE lat > 40",
        "SELECT count(*) FROM self WHERE time >= '2000-02-01' AND lon < 1",
        "SELECT DISTINCT time FROM self",
        "SELECT lat, count(*) FROM self WHERE season = 'cold' GROUP BY lat",
        "SELECT max(lon), min(time) FROM self",
    ],
)
def test_counts_and_coordinates_read_no_data(stored, check, sql):
    expected = check(stored.eager, sql)
    assert oracle.difference(stored.lazy.sql.query(sql).arrow(), expected) == ""
    assert stored.read("air") == stored.read("wind") == set()
    assert stored.read("lat2") == set()


def test_describing_and_explaining_read_no_data(stored):
    stored.lazy.sql.tables().df()
    stored.lazy.sql.query("DESCRIBE self").fetchall()
    stored.lazy.sql.query("EXPLAIN SELECT avg(air) FROM self").fetchall()
    repr(stored.lazy.sql)
    assert stored.read("air") == stored.read("wind") == stored.read("lat2") == set()


def test_mounting_reads_no_data(stored, con):
    stored.lazy.sql.mount(con, "grid")
    con.sql("SELECT * FROM information_schema.columns").fetchall()
    con.sql("SHOW ALL TABLES").fetchall()
    assert stored.read("air") == stored.read("wind") == stored.read("lat2") == set()


def test_a_projection_reads_only_its_variables(stored):
    stored.lazy.sql.query("SELECT lat, wind FROM self WHERE time = '2000-01-01'").fetchall()
    assert len(stored.read("wind")) == 3 * 4
    assert stored.read("air") == stored.read("lat2") == set()


def test_a_coordinate_array_is_read_once_for_a_catalog(stored):
    catalog = stored.lazy.sql
    for _ in range(3):
        catalog.query("SELECT count(*) FROM self WHERE lat2 > 50").fetchall()
    assert stored.store.reads("lat2") == len(stored.read("lat2")) == 3 * 4


def test_a_predicate_on_data_reads_that_variable_everywhere(stored):
    g = stored.eager
    found = stored.lazy.sql.query("SELECT count(*) FROM self WHERE air > 290 AND lat < 30").fetchall()
    assert found == [(int(((g.air > 290) & (g.lat < 30)).sum()),)]
    assert stored.read("air") == stored.holding(g.lat < 30)


@pytest.mark.parametrize("workers", [1, 3])
def test_limit_loads_few_blocks_and_leaves_no_work(store_of, settle, workers):
    stored = store_of(xr.Dataset({"v": (("time", "lon"), np.arange(4000.0).reshape(400, 10))}), {"time": 2, "lon": 10})
    with xzsql.options(block_bytes=160, workers=workers):
        rows = stored.lazy.sql.query("SELECT v FROM self LIMIT 5").fetchall()
    assert len(rows) == 5
    assert {v for (v,) in rows} <= set(range(4000))
    before = -1

    def quiet() -> bool:
        nonlocal before
        before, now = stored.store.reads("v"), before
        return now == before

    assert settle(quiet)
    assert 1 <= stored.store.reads("v") <= 2 * workers + 4


def test_explain_shows_the_row_count(stored):
    plan = stored.lazy.sql.query("EXPLAIN SELECT air FROM self").fetchall()[0][1]
    assert "7,200" in plan or "7200" in plan, plan


def test_a_join_probes_with_the_array(stored, con):
    stored.lazy.sql.mount(con, "grid")
    con.execute("CREATE TABLE keys AS SELECT * FROM (VALUES (60.0::DOUBLE), (50.0)) k(lat)")
    for text in ("keys JOIN grid.time_lat_lon USING (lat)", "grid.time_lat_lon JOIN keys USING (lat)"):
        plan = con.sql(f"EXPLAIN SELECT sum(air) FROM {text}").fetchall()[0][1]
        # the right child of a hash join is built into the hash table, the left one probes it
        (scans,) = [line for line in plan.splitlines() if "Seq Scan" in line]
        assert 0 <= scans.find("Python Arrow Scan") < scans.index("Seq Scan"), plan


def test_positions_are_absolute_where_blocks_were_skipped(store_of):
    values = np.arange(200.0).reshape(20, 10)
    stored = store_of(xr.Dataset({"v": (("time", "lon"), values)}), {"time": 4, "lon": 5})
    found = stored.lazy.sql.query("SELECT time, lon, v FROM self WHERE time = 13 AND lon >= 7").fetchall()
    assert sorted(found) == [(13, 7, 137.0), (13, 8, 138.0), (13, 9, 139.0)]
    assert {i for _, i in stored.store.chunks("v")} == {(3, 1)}


@pytest.mark.parametrize("order", ["falling", "unsorted", "repeated", "holes"])
def test_any_order_of_a_coordinate(store_of, check, order):
    lat = np.arange(20) * 1.5
    lat = {
        "falling": lat[::-1],
        "unsorted": np.random.default_rng(3).permutation(lat),
        "repeated": np.repeat(lat[:5], 4)[np.random.default_rng(3).permutation(20)],
        "holes": np.where(np.arange(20) % 7 == 3, np.nan, lat),
    }[order]
    ds = xr.Dataset({"v": (("lat", "lon"), np.arange(200.0).reshape(20, 10))}, coords={"lat": lat})
    stored = store_of(ds, {"lat": 3, "lon": 10})
    sql = "SELECT * FROM self WHERE lat BETWEEN 3 AND 4.5"
    assert oracle.difference(stored.lazy.sql.query(sql).arrow(), check(ds, sql)) == ""
    kept = (lat >= 3) & (lat <= 4.5)
    assert {i for _, i in stored.store.chunks("v")} == touched_chunks(np.repeat(kept[:, None], 10, 1), (3, 10))


def test_dask_blocks_are_computed_only_where_they_are_kept():
    spy = DaskSpy(np.arange(240.0).reshape(12, 20), (3, 5))
    ds = xr.Dataset({"v": (("y", "x"), spy.array)}, coords={"y": np.arange(12) / 4, "x": np.arange(20)})
    found = ds.sql.query("SELECT count(v), sum(v) FROM self WHERE y >= 0.75 AND y < 1.5 AND x IN (0, 19)").fetchall()
    part = np.arange(240.0).reshape(12, 20)[3:6][:, [0, 19]]
    assert found == [(6, part.sum())]
    assert spy.blocks() == {(1, 0), (1, 3)}


def test_dask_blocks_are_not_computed_to_count():
    spy = DaskSpy(np.arange(240.0).reshape(12, 20), (3, 5))
    ds = xr.Dataset({"v": (("y", "x"), spy.array)})
    assert ds.sql.query("SELECT count(*) FROM self").fetchall() == [(240,)]
    assert spy.computed == []


def test_polars_gets_the_rows_of_its_filter_and_reads_only_its_columns(stored):
    table = stored.lazy.sql.table("time_lat_lon")
    frame = pl.scan_pyarrow_dataset(table).filter(pl.col("lat") > 58).select("time", "lat", "air").collect()
    g = stored.eager
    assert frame.height == int((g.lat > 58).sum()) * 20 * 24
    assert sorted(frame["air"]) == sorted(g.air.values[:, g.lat.values > 58].ravel())
    assert stored.read("wind") == set()


FLOAT32 = [
    ("lat = 0.1", []),
    ("lat >= 0.1", []),
    ("lat <= 0.3", []),
    ("lat BETWEEN 0.1 AND 0.3", []),
    ("lat = 0.1::DOUBLE", []),
    ("lat > 1e-1", []),
    ("lat = 0.1::FLOAT", []),
    ("lat = ?", [0.1]),
    ("lat >= ?", [0.1]),
    ("lat = ?::FLOAT", [0.1]),
    ("lat IN (0.1, 0.2)", []),
    ("lat = 0.5", []),
]


@pytest.mark.parametrize(("where", "params"), FLOAT32)
def test_float32_coordinates_compare_as_duckdb_compares_them(store_of, check, where, params):
    ds = xr.Dataset({"v": (("lat", "lon"), np.arange(20.0).reshape(10, 2))}, {"lat": (np.arange(10) / 10).astype("f4")})
    sql = f"SELECT * FROM self WHERE {where}"
    stored = store_of(ds, {"lat": 2, "lon": 2})
    assert oracle.difference(stored.lazy.sql.query(sql, params or None).arrow(), check(ds, sql, params or None)) == ""


def test_a_numpy_float32_parameter_matches_its_coordinate_and_is_pushed(store_of):
    lat = (np.arange(10) / 10).astype("f4")
    stored = store_of(
        xr.Dataset({"v": (("lat", "lon"), np.arange(20.0).reshape(10, 2))}, {"lat": lat}), {"lat": 2, "lon": 2}
    )
    found = stored.lazy.sql.query("SELECT v FROM self WHERE lat = ?", [np.float32(0.7)]).fetchall()
    assert sorted(found) == [(14.0,), (15.0,)]
    assert {i for _, i in stored.store.chunks("v")} == {(3, 0)}


def test_the_three_promises(stored):
    """A box on a float axis, a time range on datetime64[ns], and count(*): chunks read of 60."""
    counts = []
    for sql in (
        "SELECT avg(air) FROM self WHERE lat BETWEEN 41 AND 47.5 AND lon < 0.55",
        "SELECT avg(air) FROM self WHERE time >= '2000-02-10' AND time < '2000-02-20'",
        "SELECT count(*) FROM self",
    ):
        stored.store.clear_log()
        stored.lazy.sql.query(sql).fetchall()
        counts.append(stored.store.reads("air"))
    assert counts == [5, 12, 0]


def test_the_registered_object_pushes_down_too(stored):
    table = stored.lazy.sql.table("time_lat_lon")
    with duckdb.connect() as con:
        con.register("t", table)
        con.sql("SELECT sum(wind) FROM t WHERE lat = 60").fetchall()
    assert stored.read("wind") == stored.holding(stored.eager.lat == 60)
    assert stored.read("air") == set()
