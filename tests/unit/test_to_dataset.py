"""Rows to Datasets: which columns are keys, what is restored from the template, what is missing, what is refused."""

import cftime
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

from xzsql.errors import InvalidInputError, UnknownNameError, UnsupportedError
from xzsql.model.decode import DecodeOptions
from xzsql.model.split import split
from xzsql.model.template import Template
from xzsql.model.to_dataset import to_dataset


def weather():
    rng = np.random.default_rng(0)
    shape = (60, 3, 4)
    return xr.Dataset(
        {
            "t": (("time", "lat", "lon"), rng.random(shape, dtype="f4"), {"units": "K"}),
            "n": (("time", "lat", "lon"), rng.integers(0, 9, shape).astype("i2")),
            "lat_bnds": (("lat", "nv"), np.array([[90, 30], [30, -30], [-30, -90]], "f4")),
            "crs": ((), 0, {"grid_mapping_name": "latitude_longitude"}),
        },
        coords={
            "time": ("time", pd.date_range("2020-01-15", periods=60).as_unit("ns"), {"long_name": "when"}),
            "lat": ("lat", np.array([60, 0, -60], "f4"), {"bounds": "lat_bnds", "units": "degrees_north"}),
            "lon": ("lon", [0, 90, 180, 270]),
            "elevation": (("lon", "lat"), np.arange(12.0).reshape(4, 3), {"units": "m"}),
            "zone": ("lat", ["n", "e", "s"]),
            "height": 2.0,
        },
        attrs={"title": "weather"},
    )


def asked(ds, sql):
    """The answer of DuckDB on the frame of the dataset, as types of SQL."""
    names = [n for n in ds.variables if n not in ("lat_bnds", "crs")]
    frame = ds[names].to_dataframe().reset_index()[["time", "lat", "lon", *(n for n in names if n not in ds.dims)]]
    frame["time"] = frame["time"].astype("datetime64[us]")
    with duckdb.connect() as con:
        con.register("self", frame)
        return con.sql(sql).to_arrow_table()


# --- the round trip


def test_all_columns_give_the_dataset_back():
    ds = weather()
    found = to_dataset(asked(ds, "SELECT * FROM self ORDER BY random()"), template=ds)
    xr.testing.assert_identical(found, ds)
    assert {n: v.dtype for n, v in found.variables.items()} == {n: v.dtype for n, v in ds.variables.items()}
    assert found["elevation"].dims == ("lon", "lat")


def test_the_result_shares_no_memory_with_the_template_or_the_rows():
    ds, values = weather(), np.arange(3.0)
    before = ds.copy(deep=True)
    found = to_dataset(asked(ds, "SELECT * FROM self"), template=ds)
    for variable in found.variables.values():
        if not isinstance(variable, xr.IndexVariable):
            variable.values[...] = variable.values.flat[0]
    xr.testing.assert_identical(ds, before)
    plain = to_dataset(pa.table({"x": [1, 2, 3], "v": values}))
    plain["v"][0] = 9
    assert values[0] == 0


def test_a_box_keeps_the_order_of_the_template_and_leaves_out_what_may_not_hold_for_it():
    ds = weather()
    rows = asked(
        ds, "SELECT time, lat, lon, t, elevation FROM self WHERE lat >= 0 AND lon IN (90, 270) AND day(time) < 5"
    )
    found = to_dataset(rows, template=ds)
    box = ds.sel(lat=[60, 0], lon=[90, 270]).isel(time=ds.time.dt.day < 5)
    xr.testing.assert_identical(found, box[["t"]].drop_vars("zone").assign(crs=ds["crs"]))


def test_coordinates_that_were_not_selected_come_back_where_their_axes_are_whole():
    ds = weather()
    found = to_dataset(asked(ds, "SELECT lat, lon, avg(t) AS mean FROM self GROUP BY ALL"), template=ds)
    assert found["mean"].dims == ("lat", "lon")
    assert set(found.coords) == {"lat", "lon", "elevation", "zone", "height"}
    assert set(found.data_vars) == {"mean", "lat_bnds", "crs"}
    np.testing.assert_allclose(found["mean"], ds["t"].astype("f8").mean("time"))


def test_a_dimension_without_coordinate_is_one_again_if_it_is_whole():
    ds = xr.Dataset({"v": (("y", "x"), [[1, 2, 3], [4, 5, 6]])}, coords={"y": [5.0, 4.0]})
    rows = pa.table({"y": [5.0, 5.0, 5.0, 4.0, 4.0, 4.0], "x": [0, 1, 2, 0, 1, 2], "v": [1, 2, 3, 4, 5, 6]})
    xr.testing.assert_identical(to_dataset(rows, template=ds), ds)
    part = to_dataset(rows.filter(pa.array([False, True, True] * 2)), template=ds)
    assert part["x"].values.tolist() == [1, 2]
    assert part["v"].values.tolist() == [[2, 3], [5, 6]]


def test_stored_values_come_back_decoded():
    raw = xr.Dataset(
        {"t": (("time",), np.array([100, -99, 102], "i2"), {"scale_factor": 0.5, "_FillValue": -99, "units": "K"})},
        coords={"time": ("time", [0, 1, 2], {"units": "days since 2000-01-01"})},
    )
    times = pa.array(np.array(["2000-01-01", "2000-01-02", "2000-01-03"], "M8[us]"))
    found = to_dataset(pa.table({"time": times, "t": [50.0, None, 51.0]}), template=raw)
    xr.testing.assert_equal(found, xr.decode_cf(raw))
    assert found["t"].attrs == {"units": "K"}
    assert found["time"].dtype == "datetime64[ns]"


def test_an_axis_of_a_model_calendar_comes_back_as_its_dates():
    dates = [cftime.DatetimeNoLeap(2000, 2, 28 - i) for i in range(3)]
    ds = xr.Dataset({"v": ("time", [1.0, 2.0, 3.0])}, coords={"time": dates})
    (table,) = split({"/": ds}, DecodeOptions()).tables
    numbers = table.column("time").array.load({}).values
    found = to_dataset(pa.table({"time": numbers, "v": [1.0, 2.0, 3.0]}), template=ds)
    xr.testing.assert_identical(found, ds)


def test_groups_have_the_coordinates_of_their_parents():
    root = xr.Dataset(coords={"y": ("y", [20.0, 10.0], {"units": "m"})})
    groups = {"/": root, "/a": xr.Dataset({"v": (("y",), [1, 2])}, attrs={"of": "a"})}
    template = Template(split(groups, DecodeOptions()).tables, groups)
    found = to_dataset(pa.table({"y": [10.0, 20.0], "v": [2, 1]}), template=template)
    xr.testing.assert_identical(found, xr.Dataset({"v": ("y", [1, 2])}, root.coords, {"of": "a"}))


def test_of_two_tables_the_one_with_more_of_the_dimensions_is_taken():
    ds = xr.Dataset(
        {"v": (("y", "x"), [[1, 2], [3, 4]]), "w": (("y",), np.array([1.5, 2.5], "f4"))},
        coords={"y": [2, 1], "x": [4, 3]},
    )
    rows = pa.table(
        {"y": [2, 2, 1, 1], "x": [4, 3, 4, 3], "v": [1, 2, 3, 4], "w": pa.array([1.5, 1.5, 2.5, 2.5], "f4")}
    )
    xr.testing.assert_identical(to_dataset(rows, template=ds), ds)
    only = to_dataset(pa.table({"y": [1, 2], "w": [2.5, 1.5]}), template=ds)
    assert only["w"].dims == ("y",)
    assert only["y"].values.tolist() == [2, 1]


def test_names_that_sql_had_to_change_are_changed_back():
    ds = xr.Dataset({"a": ("x", [1, 2]), "A": ("x", [3, 4])}, coords={"x": [0, 1]})
    rows = pa.table({"x": [0, 1], "a": [1, 2], "A_1": [3, 4]})
    xr.testing.assert_identical(to_dataset(rows, template=ds), ds)


def test_a_coordinate_over_two_dimensions_named_as_one_of_them():
    ds = xr.Dataset({"v": (("y", "x"), [[1, 2]])}, coords={"x": (("y", "x"), [[0.5, 1.5]])})
    rows = pa.table({"y": [0, 0], "x": [0, 1], "x_1": [0.5, 1.5], "v": [1, 2]})
    xr.testing.assert_identical(to_dataset(rows, template=ds), ds)


# --- which columns are keys


def test_a_truncated_time_is_a_dimension_under_its_own_and_another_name():
    ds = weather()
    sql = "SELECT date_trunc('month', time) AS {}, lat, avg(t) AS t FROM self GROUP BY ALL ORDER BY random()"
    own = to_dataset(asked(ds, sql.format("time")), template=ds)
    assert dict(own.sizes) == {"time": 3, "lat": 3, "nv": 2}
    assert own["time"].values.tolist() == np.array(["2020-01", "2020-02", "2020-03"], "M8[ns]").tolist()
    assert own["time"].attrs == {"long_name": "when"}
    assert own["t"].dtype == np.float64
    other = to_dataset(asked(ds, sql.format("month")), template=ds)
    assert other["t"].dims == ("month", "lat")
    one = to_dataset(
        asked(ds, sql.format("month").replace("FROM self", "FROM self WHERE year(time) = 2020")), template=ds
    )
    assert one["t"].dims == ("month", "lat")
    behind = "SELECT lat, date_trunc('month', time) AS month, avg(t) AS t FROM self GROUP BY ALL"
    assert to_dataset(asked(ds, behind), template=ds)["t"].dims == ("lat", "month")


def test_a_month_whose_first_day_is_on_the_axis_does_not_bring_back_what_is_there_for_that_day():
    ds = weather().assign_coords(season=("time", ["winter"] * 60))
    rows = asked(
        ds, "SELECT date_trunc('month', time) AS time, avg(t) AS t FROM self WHERE month(time) = 2 GROUP BY ALL"
    )
    found = to_dataset(rows, template=ds)
    assert found["time"].values.tolist() == np.array(["2020-02-01"], "M8[ns]").tolist()
    assert "season" not in found.variables


def test_without_a_template_the_fewest_leading_columns_that_tell_the_rows_apart():
    rows = pa.table({"a": [1, 1, 2], "b": ["x", "y", "x"], "v": [1.0, 2.0, 3.0]})
    assert to_dataset(rows)["v"].dims == ("a", "b")
    assert to_dataset(rows.slice(1))["v"].dims == ("a",)
    assert to_dataset(rows.slice(2))["v"].dims == ()


@pytest.mark.parametrize("columns", [{"a": [1, 1], "b": [2, 2]}, {"a": [1, 2]}, {"a": [1, 1], "b": [1, 2]}])
def test_leading_columns_that_leave_nothing_for_data_are_refused(columns):
    with pytest.raises(InvalidInputError, match="pass the key columns as dims="):
        to_dataset(pa.table(columns))


def test_a_guess_that_makes_mostly_holes_is_refused():
    rows = pa.table({"a": np.arange(100) // 2, "b": np.arange(100), "v": np.zeros(100)})
    with pytest.raises(InvalidInputError, match=r"not clear which columns are keys.*dims="):
        to_dataset(rows.select(["a", "b", "v"]))
    assert to_dataset(rows, dims=["b"])["a"].dims == ("b",)


def test_dims_are_taken_in_the_order_that_is_given_and_without_regard_to_case():
    ds = weather()
    rows = asked(ds, "SELECT * FROM self")
    found = to_dataset(rows, ["LON", "lat", "time"], template=ds)
    assert found["t"].dims == ("lon", "lat", "time")
    xr.testing.assert_identical(found["t"].variable.transpose("time", "lat", "lon"), ds["t"].variable)
    assert to_dataset(pa.table({"x": [3, 1], "v": [1, 2]}), "x")["x"].values.tolist() == [1, 3]


def test_a_single_row_is_a_dataset_without_dimensions():
    ds = weather()
    found = to_dataset(asked(ds, "SELECT max(n) AS n FROM self"), template=ds)
    assert found["n"].dims == ()
    assert found["n"].dtype == np.int16
    assert found["height"] == 2
    with pytest.raises(InvalidInputError, match="a single row"):
        to_dataset(pa.table({"v": [1, 2]}), dims=[])


def test_levels_of_a_multiindex():
    index = pd.MultiIndex.from_product([["b", "a"], [1, 2]], names=["p", "q"])
    ds = xr.Dataset({"v": ("s", [1, 2, 3, 4])}, coords=xr.Coordinates.from_pandas_multiindex(index, "s"))
    rows = pa.table({"p": ["a", "b", "b", "a"], "q": [1, 2, 1, 2], "v": [3, 2, 1, 4]})
    xr.testing.assert_identical(to_dataset(rows, template=ds), ds)
    xr.testing.assert_identical(to_dataset(rows, dims=["s"], template=ds), ds)
    xr.testing.assert_identical(to_dataset(rows.slice(1, 2), template=ds), ds.isel(s=[0, 1]))
    moved = rows.set_column(1, "q", pa.array([11, 12, 11, 12]))
    assert to_dataset(moved, template=ds).indexes["s"].tolist() == [("a", 11), ("a", 12), ("b", 11), ("b", 12)]
    one = to_dataset(pa.table({"p": ["a", "b"], "total": [7, 3]}), template=ds)
    assert one["total"].dims == ("p",)
    apart = to_dataset(rows, dims=["p", "q"])
    assert apart["v"].values.tolist() == [[3, 4], [1, 2]]


def test_an_answer_without_rows():
    ds = weather()
    found = to_dataset(asked(ds, "SELECT * FROM self WHERE false"), template=ds)
    assert dict(found.sizes) == {"time": 0, "lat": 0, "lon": 0}
    assert found["t"].dtype == np.float32
    assert found["time"].dtype == "datetime64[ns]"
    with pytest.raises(InvalidInputError, match="pass the key columns as dims="):
        to_dataset(pa.table({"x": pa.array([], "i8"), "v": pa.array([], "i8")}))


# --- the order of keys


def test_keys_are_sorted_where_the_template_does_not_have_them():
    ds = weather()
    rows = pa.table({"lat": pa.array([0, 30, 60], "f4"), "t": [1.0, 2.0, 3.0]})
    found = to_dataset(rows, template=ds)
    assert found["lat"].values.tolist() == [60, 30, 0]
    assert found["lat"].attrs == ds["lat"].attrs
    assert "lat_bnds" not in found
    assert to_dataset(rows)["lat"].values.tolist() == [0, 30, 60]


@pytest.mark.parametrize(
    "keys",
    [
        np.array([127, -128, 0, 5], "i1"),
        np.array([2**64 - 1, 2**64 - 3, 0, 1], "u8"),
        np.array([2**63 - 1, -(2**63), 0, 1], "i8"),
        np.array([2**63 - 1, 2**63 - 2, 2**63 - 4, 2**63 - 3], "i8"),
        np.array([3.5, -np.inf, np.nan, 0.0]),
        np.array(["NaT", "2000", "1999", "1677"], "M8[s]")[1:],
        np.array([True, False]),
    ],
)
def test_keys_of_every_type_are_numbered_in_their_order(keys):
    repeated = np.repeat(keys, 3)
    rows = pa.table({"k": repeated, "i": list(range(3)) * len(keys), "v": np.arange(len(repeated))})
    found = to_dataset(rows, dims=["k", "i"])
    np.testing.assert_array_equal(found["k"], np.sort(keys))
    np.testing.assert_array_equal(found["v"], np.arange(len(repeated)).reshape(-1, 3)[np.argsort(keys)])


def test_zero_is_minus_zero():
    with pytest.raises(InvalidInputError, match=r"2 rows have k=0\.0"):
        to_dataset(pa.table({"k": [0.0, -0.0], "v": [1, 2]}), dims=["k"])


def test_values_of_an_enum_that_no_row_has_are_no_keys():
    with duckdb.connect() as con:
        rows = con.sql("SELECT x::ENUM('c', 'b', 'a') AS k, 1 AS v FROM (VALUES ('a'), ('c')) t(x)").to_arrow_table()
    assert to_dataset(rows, dims=["k"])["k"].values.tolist() == ["a", "c"]


# --- holes

HOLED = pa.table({"y": [0, 0, 1], "x": [0, 1, 1]})


@pytest.mark.parametrize(
    ("values", "dtype", "missing"),
    [
        (pa.array([1, 2, 3], "i1"), "float64", np.nan),
        (pa.array([2**53, 2, -(2**53)], "i8"), "float64", np.nan),
        (pa.array([2**53 + 1, 2, 3], "i8"), "object", None),
        (pa.array([2**64 - 1, 2, 3], "u8"), "object", None),
        (pa.array([True, False, True]), "object", None),
        (pa.array([1.5, 2.5, 3.5], "f4"), "float32", np.nan),
        (pa.array([1, 2, 3], pa.timestamp("us")), "datetime64[us]", np.datetime64("NaT", "us")),
        (pa.array([1, 2, 3], pa.duration("us")), "timedelta64[us]", np.timedelta64("NaT", "us")),
        (pa.array(["a", "", "c"]), "object", None),
        (pa.array([b"a", b"", b"c"]), "object", None),
        (pa.array([[1], [], [3]]), "object", None),
    ],
)
@pytest.mark.parametrize("null", [False, True])
def test_cells_without_a_row_and_nulls_are_missing(values, dtype, missing, null):
    if null:
        values = pa.concat_arrays([values.slice(0, 2), pa.nulls(1, values.type)])
    found = to_dataset(HOLED.append_column("v", values), dims=["y", "x"])["v"]
    assert found.dtype == dtype
    expected = [values[0].as_py(), values[1].as_py(), None, values[2].as_py()]
    if dtype.startswith(("datetime", "timedelta")):
        expected = [1, 2, None, None if null else 3]
        found = found.astype("i8").where(found.notnull()).astype(object)
    for got, want in zip(found.values.flat, expected, strict=True):
        assert (got is None or got != got) if want is None else got == want
    hole = to_dataset(HOLED.append_column("v", values), dims=["y", "x"])["v"].values[1, 0]
    # xarray itself makes NaN of None beside text
    assert hole is None or pd.isna(hole)
    assert type(hole) is type(missing) or isinstance(hole, float | np.floating)


def test_nullable_types_of_pandas_come_back_along_one_dimension():
    ds = xr.Dataset(
        {
            "i": ("x", pd.array([1, None, 2**53 + 1], dtype="Int64")),
            "c": ("x", pd.Categorical(["b", "a", None], categories=["b", "a", "unused"])),
        },
        coords={"x": [1, 2, 3]},
    )
    rows = pa.table({"x": [3, 1, 2], "i": pa.array([2**53 + 1, 1, None]), "c": [None, "b", "a"]})
    found = to_dataset(rows, template=ds)
    assert {n: found[n].dtype for n in ("i", "c")} == {n: ds[n].dtype for n in ("i", "c")}
    xr.testing.assert_identical(found, ds)


# --- types of SQL


def test_types_of_duckdb():
    with duckdb.connect() as con:
        rows = con.sql(
            """SELECT 1 AS k, sum(12::BIGINT) AS huge, 170141183460469231731687303715884105727::HUGEINT AS largest,
            1.25::DECIMAL(9, 2) AS decimal, DATE '2020-01-02' AS date, INTERVAL '3 days 5 hours' AS span,
            TIMESTAMPTZ '2020-01-01 00:00:00+00' AS zoned, {'re': 1.0::FLOAT, 'im': -2.0::FLOAT} AS complex,
            TIME '10:00' AS time, 'a\\x00b'::BLOB AS blob, [1, 2] AS list, 'é' AS text, 7::UTINYINT AS small"""
        ).to_arrow_table()
    found = to_dataset(rows, dims=["k"]).isel(k=0)
    assert found["huge"].dtype == np.int64
    assert found["largest"].item() == 2**127 - 1
    assert found["decimal"] == 1.25
    assert found["date"].values == np.datetime64("2020-01-02")
    assert found["span"].values == np.timedelta64(77, "h")
    assert found["zoned"].values == np.datetime64("2020-01-01")
    assert found["complex"].dtype == np.complex64
    assert found["complex"].item() == 1 - 2j
    assert found["time"].item().hour == 10
    assert found["blob"].item() == b"a\0b"
    assert found["list"].item() == [1, 2]
    assert found["text"].item() == "é"
    assert found["small"].dtype == np.uint8


def test_months_are_no_span_of_time():
    with duckdb.connect() as con:
        rows = con.sql("SELECT 1 AS k, INTERVAL '1 month' AS span").to_arrow_table()
    with pytest.raises(UnsupportedError, match=r"'span'.*months.*epoch"):
        to_dataset(rows, dims=["k"])


def test_negative_spans_are_exact():
    with duckdb.connect() as con:
        rows = con.sql("SELECT 1 AS k, to_microseconds(-90000000001) AS span").to_arrow_table()
    assert to_dataset(rows, dims=["k"])["span"].values == np.timedelta64(-90_000_000_001, "us")


def test_a_computed_column_keeps_its_own_type_and_units_only_of_numbers():
    ds = weather()
    rows = asked(ds, "SELECT lat, avg(t) AS t, sum(n) AS n, any_value(zone) AS lon FROM self GROUP BY ALL").drop(
        ["lon"]
    )
    found = to_dataset(rows, template=ds)
    assert found["t"].dtype == np.float64
    assert found["t"].attrs == {"units": "K"}
    assert found["n"].dtype.kind in "if"
    text = to_dataset(asked(ds, "SELECT lat, avg(t)::VARCHAR AS t FROM self GROUP BY ALL"), template=ds)
    assert text["t"].attrs == {}


def test_a_time_that_the_template_s_unit_cannot_hold_keeps_its_own():
    ds = xr.Dataset({"v": ("x", np.array([0], "M8[s]"))}, coords={"x": [1]})
    exact = to_dataset(pa.table({"x": [1], "v": pa.array([5_000_000], pa.timestamp("us"))}), template=ds)
    assert exact["v"].dtype == "datetime64[s]"
    finer = to_dataset(pa.table({"x": [1], "v": pa.array([5_000_001], pa.timestamp("us"))}), template=ds)
    assert finer["v"].dtype == "datetime64[us]"
    far = xr.Dataset({"v": ("x", np.array([0], "M8[ns]"))}, coords={"x": [1]})
    moment = np.array(["3000-01-01"], "M8[us]")
    assert to_dataset(pa.table({"x": [1], "v": moment}), template=far)["v"].values == moment


def test_a_coordinate_that_varies_along_other_dimensions_keeps_them():
    ds = weather()
    rows = asked(ds, "SELECT * REPLACE (zone || lon AS zone) FROM self")
    found = to_dataset(rows, template=ds)
    assert found["zone"].dims == ("time", "lat", "lon")
    assert "zone" in found.coords
    assert found["zone"].values[5, 1, 2] == "e180"


def test_packing_is_not_put_on_other_values():
    ds = weather()
    ds["t"].encoding = {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -99, "grid_mapping": "crs"}
    found = to_dataset(asked(ds, "SELECT time, lat, lon, t * 1000 AS t FROM self"), template=ds)
    assert "scale_factor" not in found["t"].encoding
    whole = to_dataset(asked(ds, "SELECT * FROM self"), template=ds)
    assert whole["t"].encoding == {"grid_mapping": "crs"}


# --- where rows come from


def test_rows_of_any_library():
    table = pa.table({"x": [2, 1], "name": ["b", "a"]})
    expected = xr.Dataset({"name": ("x", np.array(["a", "b"], object))}, {"x": [1, 2]})
    with duckdb.connect() as con:
        relation = con.sql("SELECT * FROM (VALUES (2, 'b'), (1, 'a')) t(x, name)")
        for data in (table, table.to_reader(), table.to_pandas(), pl.DataFrame(table), relation):
            found = to_dataset(data)
            xr.testing.assert_equal(found, expected)


def test_encoded_and_chunked_columns():
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), pa.array(["a", "b"]))
    codes = pa.array(["u", "v", "u", "v"]).dictionary_encode()
    table = pa.table({"p": runs, "q": codes, "v": [1, 2, 3, 4]})
    assert to_dataset(table, dims=["p", "q"])["v"].values.tolist() == [[1, 2], [3, 4]]
    pieces = pa.concat_tables([table.slice(2), table.slice(0, 2)])
    assert to_dataset(pieces, dims=["p", "q"])["v"].values.tolist() == [[1, 2], [3, 4]]
    assert to_dataset(table.slice(1, 2), dims=["p", "q"])["p"].values.tolist() == ["a", "b"]


# --- what is refused


def test_two_rows_with_one_key_are_refused_and_one_is_named():
    ds = weather()
    rows = asked(ds, "SELECT time, lat, t FROM self")
    with pytest.raises(
        InvalidInputError, match=r"4 rows have time=2020-01-15.*, lat=-?\d+\.0 \(180 such keys\).*dims="
    ):
        to_dataset(rows, template=ds)
    with pytest.raises(InvalidInputError, match="2 rows have name='a'"):
        to_dataset(pa.table({"name": ["b", "a", "a"], "v": [1, 2, 3]}), dims=["name"])


def test_coordinates_along_a_repeated_key_do_not_become_dimensions():
    ds = xr.Dataset({"v": ("x", [1, 2])}, coords={"x": [7, 7], "name": ("x", ["a", "b"])})
    rows = pa.table({"x": [7, 7], "name": ["a", "b"], "v": [1, 2]})
    with pytest.raises(InvalidInputError, match="2 rows have x=7"):
        to_dataset(rows, template=ds)
    assert to_dataset(rows, dims=["name"], template=ds)["v"].values.tolist() == [1, 2]


def test_null_keys_are_refused():
    rows = pa.table({"x": [1, None], "v": [1, 2]})
    with pytest.raises(InvalidInputError, match=r"'x' is a dimension, and 1 of its keys are NULL.*IS NOT NULL"):
        to_dataset(rows, dims=["x"])
    texts = pa.table({"x": ["a", None], "v": [1, 2]})
    with pytest.raises(InvalidInputError, match="NULL"):
        to_dataset(texts, dims=["x"])


def test_a_grid_of_holes_is_refused_unless_it_is_allowed():
    n = 4000
    rows = pa.table({"a": np.arange(n), "b": np.arange(n), "v": np.ones(n)})
    with pytest.raises(
        InvalidInputError, match=r"4,000 rows.*a=4,000 x b=4,000 = 16,000,000 cells.*max_cells=16000000"
    ):
        to_dataset(rows, dims=["a", "b"])
    assert to_dataset(rows, dims=["a", "b"], max_cells=n * n)["v"].sum() == n
    with pytest.raises(InvalidInputError, match="max_cells must be"):
        to_dataset(rows, dims=["a", "b"], max_cells=True)


def test_arguments_that_mean_nothing():
    rows = pa.table({"x": [1], "v": [1]})
    with pytest.raises(UnknownNameError, match="no column 'y' in the result; there is 'x', 'v'"):
        to_dataset(rows, dims=["y"])
    with pytest.raises(InvalidInputError, match="distinct"):
        to_dataset(rows, dims=["x", "x"])
    with pytest.raises(UnsupportedError, match="Arrow stream"):
        to_dataset([(1, 2)])
    with pytest.raises(InvalidInputError, match="template must be"):
        to_dataset(rows, template="ds")
    with pytest.raises(InvalidInputError, match="two columns are called 'x'"):
        to_dataset(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]))
    with pytest.raises(UnsupportedError, match="'x' cannot be a dimension"):
        to_dataset(pa.table({"x": [[1], [2]], "v": [1, 2]}), dims=["x"])
