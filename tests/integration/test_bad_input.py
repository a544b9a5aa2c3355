"""Bad input is an error of xzsql that names it and what there was instead; never a smaller answer."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest
import xarray as xr

import xzsql
from xzsql import XzsqlError, errors
from xzsql.testing.spies import RecordingArray

DS = xr.Dataset({"air": (("lat", "lon"), np.ones((2, 3)))}, coords={"lat": [1.0, 2.0]})
TWO = DS.assign(flux=("time", [1, 2]))


def message(caught: pytest.ExceptionInfo[BaseException]) -> str:
    return str(caught.value)


def test_an_unknown_table_lists_the_tables():
    with pytest.raises(XzsqlError) as caught:
        TWO.sql.query("SELECT * FROM nowhere").fetchall()
    assert isinstance(caught.value, errors.UnknownNameError | errors.QueryError)
    assert all(part in message(caught) for part in ("nowhere", "lat_lon", "time"))


def test_an_unknown_column_lists_the_columns():
    with pytest.raises(XzsqlError) as caught:
        DS.sql.query("SELECT temperature FROM self").fetchall()
    assert all(part in message(caught) for part in ("temperature", "air", "lat", "lon"))


def test_self_with_several_tables_lists_them():
    with pytest.raises(errors.AmbiguousTableError) as caught:
        TWO.sql.query("SELECT * FROM self").fetchall()
    assert all(part in message(caught) for part in ("self", "'lat_lon'", "'time'"))


def test_self_with_no_table_of_the_root():
    tree = xr.DataTree.from_dict({"/a": DS})
    with pytest.raises(XzsqlError, match="self"):
        tree.sql.query("SELECT * FROM self").fetchall()
    assert tree.sql.query("SELECT count(*) FROM a.lat_lon").fetchall() == [(6,)]


def test_wrong_sql_is_our_error_and_duckdbs_is_the_cause():
    with pytest.raises(errors.QueryError, match=r"(?i)syntax|parser") as caught:
        DS.sql.query("SELEC 1").fetchall()
    assert isinstance(caught.value.__cause__, duckdb.Error)


def test_too_few_parameters_are_our_error():
    with pytest.raises(XzsqlError):
        DS.sql.query("SELECT * FROM self WHERE lat = ?").fetchall()


def failing(group: str = "/") -> xr.Dataset | xr.DataTree:
    spy = RecordingArray(np.arange(200.0).reshape(20, 10), failing=(13, 4))
    ds = xr.Dataset({"bad": spy.variable(("y", "x"), chunks=(2, 10)), "good": (("y", "x"), np.zeros((20, 10)))})
    return ds if group == "/" else xr.DataTree.from_dict({group: ds})


@pytest.mark.parametrize("group", ["/", "/deep/down"])
@pytest.mark.parametrize("block_bytes", [1, 2**24])
def test_a_variable_that_fails_half_way_names_group_variable_and_block(group, block_bytes):
    schema = group.strip("/") or "main"
    with xzsql.options(block_bytes=block_bytes), pytest.raises(errors.ReadError) as caught:
        failing(group).sql.query(f'SELECT sum(bad) FROM "{schema}".y_x').fetchall()
    assert isinstance(caught.value.__cause__, OSError)
    assert "the disk has a hole" in str(caught.value.__cause__)
    assert repr(group) in message(caught)
    assert "'bad'" in message(caught)
    assert "block" in message(caught)
    if block_bytes == 1:
        assert "12:14" in message(caught)


def test_what_does_not_touch_the_bad_block_is_answered():
    ds = failing()
    assert ds.sql.query("SELECT count(bad) FROM self WHERE y < 12").fetchall() == [(120,)]
    assert ds.sql.query("SELECT count(good) FROM self").fetchall() == [(200,)]


@pytest.mark.parametrize("fetch", ["fetchall", "df", "arrow"])
def test_each_way_to_fetch_raises_it(fetch):
    with pytest.raises(errors.ReadError, match="'bad'"):
        getattr(failing().sql.query("SELECT bad FROM self"), fetch)()


def test_through_a_mount_duckdb_raises_with_our_text(con):
    failing().sql.mount(con, "m")
    with pytest.raises((duckdb.Error, OSError)) as caught:
        con.sql("SELECT sum(bad) FROM m.y_x").fetchall()
    assert all(part in message(caught) for part in ("'bad'", "'/'", "block"))
    assert con.sql("SELECT sum(good) FROM m.y_x").fetchall() == [(0.0,)]


def chunk_file(path, name, index):
    return path.joinpath(name, "c", *map(str, index))


def stored(path):
    ds = xr.Dataset({"air": (("y", "x"), np.random.default_rng(0).normal(size=(8, 8)))}, coords={"y": np.arange(8.0)})
    ds.to_zarr(path, encoding={"air": {"chunks": (4, 8)}}, consolidated=False)
    return ds


@pytest.mark.parametrize("damage", ["truncated", "empty", "undecodable"])
@pytest.mark.parametrize("by", ["path", "dataset"])
def test_a_damaged_chunk_file_names_group_variable_and_block(tmp_path, damage, by):
    path = tmp_path / "a.zarr"
    stored(path)
    file = chunk_file(path, "air", (1, 0))
    content = file.read_bytes()
    file.write_bytes({"truncated": content[: len(content) // 2], "empty": b"", "undecodable": b"\0" * 40}[damage])
    catalog = xzsql.open(path) if by == "path" else xr.open_zarr(path, chunks=None, consolidated=False).sql
    with pytest.raises(errors.ReadError) as caught:
        catalog.query("SELECT sum(air) FROM self").fetchall()
    assert all(part in message(caught) for part in ("'air'", "'/'", "block"))
    assert caught.value.__cause__ is not None
    assert catalog.query("SELECT count(air) FROM self WHERE y < 4").fetchall() == [(32,)]
    if by == "path":
        assert "a.zarr" in message(caught)
        catalog.close()


def test_a_chunk_that_was_never_written_is_the_fill_value(tmp_path):
    path = tmp_path / "a.zarr"
    stored(path)
    chunk_file(path, "air", (1, 0)).unlink()
    raw = xr.open_zarr(path, decode_cf=False, chunks=None, consolidated=False)
    expected = int(np.isfinite(raw.air.values).sum())
    with xzsql.open(path) as catalog:
        assert catalog.query("SELECT count(air) FROM self").fetchall() == [(expected,)]


def test_a_closed_connection():
    con = duckdb.connect()
    con.close()
    with pytest.raises(errors.ClosedError, match="clos"):
        DS.sql.mount(con, "m")
    with pytest.raises(errors.ClosedError, match="clos"):
        DS.sql.query("SELECT 1 FROM self", con=con)


def test_a_closed_catalog(tmp_path):
    stored(tmp_path / "a.zarr")
    catalog = xzsql.open(tmp_path / "a.zarr")
    catalog.query("SELECT 1 FROM self").fetchall()
    catalog.close()
    with pytest.raises(errors.ClosedError, match="clos"):
        catalog.query("SELECT 1 FROM self").fetchall()


@pytest.mark.parametrize("con", [None, 5, "duckdb.db"])
def test_what_is_no_connection(con):
    with pytest.raises(XzsqlError, match="connection"):
        DS.sql.mount(con, "m")


@pytest.mark.parametrize(
    "table_names",
    [{"nowhere": "new"}, {"new": ("lon", "lat")}, {("depth",): "new"}, {"a/b/lat_lon": "new"}, {"new": ("lat",)}],
)
def test_an_unknown_key_of_table_names_lists_what_there_is(con, table_names):
    with pytest.raises(XzsqlError) as caught:
        TWO.sql.mount(con, "m", table_names=table_names)
    assert all(part in message(caught) for part in ("lat", "lon", "time"))
    assert con.sql("SELECT count(*) FROM duckdb_databases() WHERE database_name = 'm'").fetchall() == [(0,)]


def test_two_tables_of_one_name(con):
    with pytest.raises(XzsqlError, match="one"):
        TWO.sql.mount(con, "m", table_names={"one": ("lat", "lon"), ("time",): "one"})
    with pytest.raises(XzsqlError, match="time"):
        TWO.sql.mount(con, "m", table_names={"lat_lon": "time"})


def test_an_empty_dataset(con):
    with pytest.raises(XzsqlError, match="self"):
        xr.Dataset().sql.query("SELECT * FROM self").fetchall()
    with pytest.raises(XzsqlError):
        xr.Dataset().sql.mount(con, "m")
    assert xr.Dataset().sql.tables().fetchall() == []


@pytest.mark.parametrize(
    "name", ["temp", "system", "main", "memory", "TEMP", "taken", "Taken", "s", "information_schema", "pg_catalog"]
)
def test_a_mount_name_that_is_taken_or_reserved(con, name):
    con.execute("ATTACH ':memory:' AS taken; CREATE SCHEMA s; CREATE TABLE taken.t AS SELECT 1 AS a")
    with pytest.raises(errors.NameTakenError) as caught:
        DS.sql.mount(con, name)
    assert repr(name) in message(caught)
    assert con.sql("SELECT a FROM taken.t").fetchall() == [(1,)]


@pytest.mark.parametrize("name", ["", None, 3])
def test_what_is_no_mount_name(con, name):
    with pytest.raises(XzsqlError):
        DS.sql.mount(con, name)


def test_only_own_mounts_are_unmounted(con):
    con.execute("ATTACH ':memory:' AS taken")
    for name in ("taken", "memory", "never"):
        with pytest.raises(XzsqlError, match=name):
            DS.sql.unmount(con, name)
    assert con.sql("SELECT count(*) FROM duckdb_databases() WHERE database_name = 'taken'").fetchall() == [(1,)]


def test_a_name_that_the_users_connection_has_is_refused(con):
    con.execute("CREATE TABLE lat_lon AS SELECT 1 AS a")
    with pytest.raises(errors.NameTakenError, match="lat_lon"):
        DS.sql.query("SELECT * FROM lat_lon", con=con)
    assert con.sql("SELECT a FROM lat_lon").fetchall() == [(1,)]


@pytest.mark.parametrize("target", [42, None, [1, 2], object()])
def test_a_target_of_no_adapter(target):
    with pytest.raises(XzsqlError) as caught:
        xzsql.open(target).tables()
    assert repr(target)[:10] in message(caught) or type(target).__name__ in message(caught)


def test_a_path_where_nothing_is(tmp_path):
    with pytest.raises(errors.OpenError, match="nothing_here") as caught:
        xzsql.open(tmp_path / "nothing_here.nc").tables()
    assert isinstance(caught.value, OSError)


def test_a_file_that_is_no_array_file(tmp_path):
    path = tmp_path / "notes.nc"
    path.write_text("no array at all")
    with pytest.raises(errors.OpenError, match="notes"):
        xzsql.open(path).tables()


def test_an_unknown_engine(tmp_path):
    stored(tmp_path / "a.zarr")
    with pytest.raises(XzsqlError, match="nonsense"):
        xzsql.open(tmp_path / "a.zarr", engine="nonsense").tables()


def test_an_unknown_table_of_table_lists_them():
    with pytest.raises(errors.UnknownNameError) as caught:
        TWO.sql.table("lat_lo")
    assert "lat_lon" in message(caught)
    assert isinstance(caught.value, LookupError)


def test_bytes_that_are_no_text_name_the_block():
    ds = xr.Dataset({"s": ("x", np.array([b"ok", b"\xff\xfe"]))})
    with pytest.raises(XzsqlError) as caught:
        ds.sql.query("SELECT s FROM self").fetchall()
    assert "'s'" in message(caught)
    assert "block" in message(caught)


def test_a_lazy_time_that_needs_nanoseconds_is_never_rounded():
    times = np.array(["2000-01-01T00:00:00.000000001", "2000-01-01"], "datetime64[ns]")
    ds = xr.Dataset({"when": RecordingArray(times).variable(("x",))})
    with pytest.raises(errors.ValueRangeError) as caught:
        ds.sql.query('SELECT "when" FROM self').fetchall()
    assert "'when'" in message(caught)
    assert "block" in message(caught)


def test_a_duration_out_of_range_is_an_error():
    ds = xr.Dataset({"d": ("x", np.array([1, 2**62], "timedelta64[s]"))})
    with pytest.raises(errors.ValueRangeError, match="'d'"):
        ds.sql.query("SELECT d FROM self").fetchall()


def test_errors_are_also_of_the_closest_builtin():
    assert issubclass(errors.UnknownNameError, LookupError)
    assert issubclass(errors.NameTakenError, ValueError)
    assert issubclass(errors.ReadError, OSError)
    assert all(
        issubclass(e, XzsqlError)
        for e in vars(errors).values()
        if isinstance(e, type) and issubclass(e, Exception) and not issubclass(e, Warning)
    )
