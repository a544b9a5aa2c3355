"""Types, missing values, packing and time: each rule with the value that numpy, xarray, cftime or CF has."""

from __future__ import annotations

import datetime as dt
import math
import warnings

import cftime
import dask.array as da
import netCDF4
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import xzsql
from xzsql.testing import oracle


def column(target, name: str = "v", **options):
    """The cells of a variable in order, and its SQL type."""
    with xzsql.open(target, **options) as catalog:
        result = catalog.query(f'SELECT "{name}" FROM self ORDER BY x')
        return [v for (v,) in result.fetchall()], str(result.types[0])


def one(values, attrs=None) -> xr.Dataset:
    return xr.Dataset({"v": ("x", np.asarray(values), attrs or {})})


# Types

INTEGER_TYPES = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
}


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
@pytest.mark.parametrize("order", ["<", ">"])
def test_integers_keep_their_type_in_any_byte_order(dtype, order):
    info = np.iinfo(dtype)
    values = [info.min, 0, 1, info.max]
    stored = np.array(values, np.dtype(dtype).newbyteorder(order))
    assert column(one(stored)) == (values, INTEGER_TYPES[dtype])
    assert column(xr.Dataset({"v": ("x", da.from_array(stored, 2))})) == (values, INTEGER_TYPES[dtype])


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [("float16", "FLOAT"), ("float32", "FLOAT"), ("float64", "DOUBLE"), (">f8", "DOUBLE"), (">f4", "FLOAT")],
)
def test_floats(dtype, kind):
    stored = np.array([0.1, -0.0, np.inf, 1e-7, 65504], dtype)
    found, name = column(one(stored))
    assert name == kind
    assert found == stored.astype("f8").tolist()
    assert math.copysign(1, found[1]) == -1


def test_booleans():
    assert column(one([True, False])) == ([True, False], "BOOLEAN")


@pytest.mark.parametrize(
    "array", [np.arange(20).reshape(4, 5)[:, ::2], np.arange(12).reshape(3, 4).T, np.arange(12)[::-1].reshape(3, 4)]
)
def test_arrays_of_any_layout(array):
    ds = xr.Dataset({"v": (("y", "x"), array)})
    assert [r[2] for r in ds.sql.query("FROM self ORDER BY y, x").fetchall()] == array.ravel().tolist()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_datetime64_of_any_unit_is_a_timestamp(unit):
    stored = np.array(["2000-02-29T12:00", "NaT", "1969-12-31"], f"datetime64[{unit}]")
    found = [dt.datetime(2000, 2, 29, 12), None, dt.datetime(1969, 12, 31)]
    assert column(one(stored)) == (found, "TIMESTAMP")
    assert column(xr.Dataset({"v": ("x", da.from_array(stored, 2))})) == (found, "TIMESTAMP")


def test_datetime64_that_needs_nanoseconds_is_timestamp_ns():
    stored = np.array(["2000-01-01T00:00:00.000000001", "NaT", "1999-01-01"], "datetime64[ns]")
    ds = one(stored)
    assert column(ds)[1] == "TIMESTAMP_NS"
    found = ds.sql.query("SELECT epoch_ns(v) FROM self ORDER BY x").fetchall()
    assert found == [(946_684_800_000_000_001,), (None,), (915_148_800_000_000_000,)]


def test_a_time_axis_that_needs_nanoseconds_compares_exactly():
    stored = np.datetime64("2000-01-01", "ns") + np.arange(5)
    ds = xr.Dataset({"v": ("t", np.arange(5))}, coords={"t": stored})
    assert ds.sql.query("SELECT v FROM self WHERE t > TIMESTAMP '2000-01-01' ORDER BY v").fetchall() == [
        (1,),
        (2,),
        (3,),
        (4,),
    ]
    assert ds.sql.query("SELECT v FROM self WHERE t = TIMESTAMP_NS '2000-01-01 00:00:00.000000003'").fetchall() == [
        (3,)
    ]


def test_a_timestamp_axis_compares_with_finer_and_coarser_constants():
    stored = np.datetime64("2000-01-01", "us") + np.arange(3)
    ds = xr.Dataset({"v": ("t", np.arange(3))}, coords={"t": stored})
    fine = "TIMESTAMP_NS '2000-01-01 00:00:00.000000500'"
    assert ds.sql.query(f"SELECT v FROM self WHERE t > {fine} ORDER BY v").fetchall() == [(1,), (2,)]
    assert ds.sql.query(f"SELECT v FROM self WHERE t = {fine}").fetchall() == []
    assert ds.sql.query("SELECT v FROM self WHERE t >= TIMESTAMP_S '2000-01-01 00:00:00' ORDER BY v").fetchall() == [
        (0,),
        (1,),
        (2,),
    ]
    assert ds.sql.query("SELECT v FROM self WHERE t > DATE '2000-01-01' ORDER BY v").fetchall() == [(1,), (2,)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timedelta64_is_an_interval(unit):
    found, kind = column(one(np.array([90_061, "NaT", -1], "timedelta64[s]").astype(f"m8[{unit}]")))
    assert kind == "INTERVAL"
    assert found == [dt.timedelta(days=1, hours=1, minutes=1, seconds=1), None, dt.timedelta(seconds=-1)]


def test_durations_are_numbers_unless_asked_for_or_marked():
    attrs = {"units": "days"}
    assert column(one([1, 2], attrs)) == ([1, 2], "BIGINT")
    days = [dt.timedelta(days=1), dt.timedelta(days=2)]
    assert column(one([1, 2], attrs), decode_timedelta=True) == (days, "INTERVAL")
    assert column(one([1, 2], {**attrs, "dtype": "timedelta64[ns]"})) == (days, "INTERVAL")


def test_durations_that_xarray_stored_come_back_as_intervals(tmp_path):
    xr.Dataset({"v": ("x", np.array([3600, "NaT", 7], "timedelta64[s]"))}).to_zarr(
        tmp_path / "a.zarr", consolidated=False
    )
    found = [dt.timedelta(hours=1), None, dt.timedelta(seconds=7)]
    assert column(tmp_path / "a.zarr") == (found, "INTERVAL")


@pytest.mark.parametrize("array", [
    np.array(["a", "", "日本"]),
    np.array(["a", "", "日本"], object),
    np.array(["a", "", "日本"], np.dtypes.StringDType()),
    np.array(["a", "", "日本".encode()], "S6"),
])  # fmt: skip
def test_text_of_any_kind(array):
    assert column(one(array)) == (["a", "", "日本"], "VARCHAR")


def test_missing_texts():
    array = np.array(["a", None, ""], np.dtypes.StringDType(na_object=None))
    assert column(one(array)) == (["a", None, ""], "VARCHAR")


def test_only_trailing_nulls_of_bytes_are_dropped():
    assert column(one(np.array([b"a\0b", b"a\0", b"\0"], "S3"))) == (["a\0b", "a", ""], "VARCHAR")


def test_texts_of_a_store(tmp_path):
    xr.Dataset({"v": ("x", np.array(["a", "", "日本"], object))}).to_zarr(tmp_path / "a.zarr", consolidated=False)
    assert column(tmp_path / "a.zarr") == (["a", "", "日本"], "VARCHAR")


def test_character_arrays_are_joined(tmp_path):
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as nc:
        nc.createDimension("x", 3)
        nc.createDimension("strlen", 4)
        nc.createVariable("v", "S1", ("x", "strlen"))[:] = netCDF4.stringtochar(np.array(["ab", "", "wxyz"], "S4"))
    assert column(path) == (["ab", "", "wxyz"], "VARCHAR")


@pytest.mark.parametrize(("dtype", "part"), [("complex64", "FLOAT"), ("complex128", "DOUBLE")])
def test_complex_numbers(dtype, part):
    found, kind = column(one(np.array([1 + 2j, -0.5j], dtype)))
    assert kind.replace('"', "") == f"STRUCT(re {part}, im {part})"
    assert found == [{"re": 1.0, "im": 2.0}, {"re": 0.0, "im": -0.5}]


def test_structured_arrays():
    found, kind = column(one(np.array([(1, 0.5), (-1, 2.5)], [("a", "i2"), ("b", "f8")])))
    assert kind.replace('"', "") == "STRUCT(a SMALLINT, b DOUBLE)"
    assert found == [{"a": 1, "b": 0.5}, {"a": -1, "b": 2.5}]


@pytest.mark.parametrize(("values", "dtype", "kind"), [
    ([1, None, 2**53 + 1], "Int64", "BIGINT"),
    ([True, None, False], "boolean", "BOOLEAN"),
    (["a", None, ""], "string", "VARCHAR"),
    ([1, None, 3], "UInt8", "UTINYINT"),
])  # fmt: skip
def test_nullable_arrays_of_pandas(values, dtype, kind):
    ds = xr.Dataset({"v": ("x", pd.array(values, dtype=dtype))})
    assert column(ds) == (values, kind)


def test_categories(con):
    ds = xr.Dataset({"v": ("x", pd.Categorical(["lo", "hi", None, "lo"], categories=["lo", "hi"], ordered=True))})
    found, _ = column(ds)
    assert found == ["lo", "hi", None, "lo"]
    ds.sql.mount(con, "m")
    kind = con.sql("SELECT v FROM m.x").types[0]
    assert str(kind) == "ENUM('lo', 'hi')"
    assert con.sql("SELECT v FROM m.x WHERE v = 'lo'").fetchall() == [("lo",), ("lo",)]
    assert con.sql("SELECT max(v) FROM m.x").fetchall() == [("hi",)]


def test_categories_that_are_no_texts_have_their_type():
    ds = xr.Dataset({"v": ("x", pd.Categorical([30, 10, None], categories=[10, 30]))})
    assert column(ds) == ([30, 10, None], "BIGINT")


def test_objects_of_cftime_on_a_real_world_calendar_are_timestamps():
    dates = [
        cftime.datetime(2000, 2, 29, 6, calendar="standard"),
        None,
        cftime.datetime(3000, 1, 1, calendar="standard"),
    ]
    array = np.empty(3, object)
    array[:] = dates
    assert column(one(array)) == ([dt.datetime(2000, 2, 29, 6), None, dt.datetime(3000, 1, 1)], "TIMESTAMP")


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="longdouble is double on this system")
def test_a_longdouble_is_left_out_with_the_reason():
    ds = one(np.array([1, 2], np.longdouble)).assign(w=("x", [3, 4]))
    with pytest.warns(xzsql.XzsqlWarning, match="'v'"):
        assert list(ds.sql.query("FROM self").columns) == ["x", "w"]


# Missing values


@pytest.mark.parametrize("key", ["_FillValue", "missing_value"])
@pytest.mark.parametrize("dtype", ["int16", "int64", "float32", "float64", "uint8"])
def test_sentinels_are_null(key, dtype):
    stored = np.array([1, 99, 3], dtype)
    assert column(one(stored, {key: np.array(99, dtype)[()]}))[0] == [1, None, 3]
    assert column(one(stored, {key: 99}))[1] == column(one(stored))[1]


def test_all_sentinels_count():
    attrs = {"_FillValue": np.int16(1), "missing_value": np.array([2, 3], "i2")}
    assert column(one(np.array([0, 1, 2, 3, 4], "i2"), attrs)) == ([0, None, None, None, 4], "SMALLINT")


def test_sentinels_are_compared_in_the_stored_type():
    assert column(one(np.array([1e20, 1.0], "f4"), {"missing_value": 1e20}))[0] == [None, 1.0]
    assert column(one(np.array([2**53, 2**53 + 1]), {"_FillValue": np.int64(2**53 + 1)}))[0] == [2**53, None]


@pytest.mark.parametrize("sentinel", [np.nan, 1.5, 1e30, 300])
def test_a_sentinel_that_the_stored_type_cannot_hold_matches_nothing(sentinel):
    assert column(one(np.array([0, 1, 44], "u1"), {"_FillValue": sentinel})) == ([0, 1, 44], "UTINYINT")


def test_sentinels_are_compared_before_scaling():
    attrs = {"_FillValue": np.int16(-1), "scale_factor": 0.5, "add_offset": 1.0}
    assert column(one(np.array([-1, -4, 2], "i2"), attrs)) == ([None, -1.0, 2.0], "DOUBLE")


def test_nan_is_null_unless_it_is_wanted():
    ds = one([1.0, np.nan, -9.0], {"_FillValue": -9.0})
    assert column(ds)[0] == [1.0, None, None]
    kept, _ = column(ds, nan_as_null=False)
    assert (kept[0], kept[2]) == (1.0, None)
    assert math.isnan(kept[1])


def test_a_nan_sentinel_matches_every_nan():
    found, _ = column(one([1.0, np.nan], {"_FillValue": np.nan}), nan_as_null=False)
    assert found == [1.0, None]


def test_booleans_and_texts_are_never_masked():
    assert column(one([True, False], {"_FillValue": True}))[0] == [True, False]
    assert column(one(np.array(["a", "NA"]), {"_FillValue": "NA"}))[0] == ["a", "NA"]


def test_coordinates_follow_the_same_rules():
    ds = xr.Dataset({"v": ("x", [1, 2, 3])}, coords={"x": ("x", [10, -1, 30], {"missing_value": -1})})
    assert ds.sql.query("SELECT x, v FROM self ORDER BY v").fetchall() == [(10, 1), (None, 2), (30, 3)]
    assert ds.sql.query("SELECT v FROM self WHERE x < 20").fetchall() == [(1,)]
    assert ds.sql.query("SELECT v FROM self WHERE NOT (x < 20)").fetchall() == [(3,)]
    assert ds.sql.query("SELECT v FROM self WHERE x IS NULL").fetchall() == [(2,)]
    assert ds.sql.query("SELECT count(*) FROM self WHERE x NOT IN (10)").fetchall() == [(1,)]


def test_valid_ranges_are_not_applied():
    attrs = {"valid_min": 2, "valid_max": 3, "valid_range": [2, 3]}
    assert column(one([1, 2, 9], attrs))[0] == [1, 2, 9]


def test_decoded_data_keeps_the_values_it_has():
    raw = one(np.array([1, 99, 3], "i2"), {"_FillValue": np.int16(99), "scale_factor": 0.1})
    decoded = xr.decode_cf(raw)
    assert "_FillValue" in decoded.v.encoding
    expected = [None if np.isnan(v) else v for v in decoded.v.values.tolist()]
    assert column(decoded) == (expected, {"f4": "FLOAT", "f8": "DOUBLE"}[decoded.v.dtype.str[1:]])


def fill_store(path, version: int, fill, written=(1, 2)):
    array = zarr.create_array(
        path / "v", shape=(4,), chunks=(2,), dtype="i4", fill_value=fill, zarr_format=version,
        **({"dimension_names": ["x"]} if version == 3 else {}),
    )  # fmt: skip
    if version == 2:
        array.attrs["_ARRAY_DIMENSIONS"] = ["x"]
    group = zarr.open_group(path, mode="a", zarr_format=version)
    assert "v" in group
    array[:2] = np.array(written)
    return path


@pytest.mark.parametrize(("version", "fill", "option", "expected"), [
    (3, 7, None, [1, 7, 7, 7]),
    (3, 7, True, [1, None, None, None]),
    (2, 7, None, [1, None, None, None]),
    (2, 0, None, [1, 0, 0, 0]),
    (2, 7, False, [1, 7, 7, 7]),
])  # fmt: skip
def test_a_fill_value_of_zarr(tmp_path, version, fill, option, expected):
    path = fill_store(tmp_path / "a.zarr", version, fill, written=(1, fill))
    assert column(path, mask_fill_value=option) == (expected, "INTEGER")


# Packing


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "int32"])
def test_packed_integers_are_computed_in_float64(dtype):
    stored = np.array([0, 1, 100, np.iinfo(dtype).max], dtype)
    attrs = {"scale_factor": np.float32(0.01), "add_offset": 273.15}
    expected = stored.astype("f8") * np.float64(np.float32(0.01)) + 273.15
    assert column(one(stored, attrs)) == (expected.tolist(), "DOUBLE")


@pytest.mark.parametrize("attrs", [{"scale_factor": 0.1}, {"add_offset": 5}])
def test_a_missing_scale_is_one_and_a_missing_offset_zero(attrs):
    expected = np.array([3, 4]) * np.float64(attrs.get("scale_factor", 1)) + attrs.get("add_offset", 0)
    assert column(one(np.array([3, 4], "i2"), attrs)) == (expected.tolist(), "DOUBLE")


def test_floats_are_never_scaled():
    assert column(one(np.array([3, 4], "f4"), {"scale_factor": 0.1, "add_offset": 5.0})) == ([3.0, 4.0], "FLOAT")


@pytest.mark.parametrize(("dtype", "flag", "expected", "kind"), [
    ("int8", "true", [1, 255, 128], "UTINYINT"),
    ("uint8", "false", [1, -1, -128], "TINYINT"),
])  # fmt: skip
def test_unsigned_is_honoured(dtype, flag, expected, kind):
    stored = np.array([1, 255, 128], "u1").view(dtype)
    assert column(one(stored, {"_Unsigned": flag})) == (expected, kind)
    scaled, name = column(one(stored, {"_Unsigned": flag, "scale_factor": 0.5}))
    assert (scaled, name) == ([v * 0.5 for v in expected], "DOUBLE")


# Time


@pytest.mark.parametrize("unit", [
    "weeks", "week", "days", "day", "d", "hours", "hour", "hr", "hrs", "h", "minutes", "minute", "min", "mins",
    "seconds", "second", "sec", "secs", "s", "milliseconds", "ms", "microseconds", "us", "DAYS", "Hours",
])  # fmt: skip
def test_units_of_time(unit):
    step = {"w": 7 * 86400, "d": 86400, "h": 3600, "s": 1}.get(unit.lower()[0])
    if unit.lower().startswith("mi"):
        step = {"min": 60, "mil": 1e-3, "mic": 1e-6}[unit.lower()[:3]]
    step = {"ms": 1e-3, "us": 1e-6}.get(unit, step)
    found, kind = column(one([0, 3], {"units": f"{unit} since 2000-01-01"}))
    assert kind == "TIMESTAMP"
    assert found == [dt.datetime(2000, 1, 1), dt.datetime(2000, 1, 1) + dt.timedelta(seconds=3 * step)]


def test_nanoseconds_since():
    attrs = {"units": "nanoseconds since 1970-01-01"}
    ds = one(np.array([1_000_000_001, -(2**63)]), attrs)
    assert column(ds)[1] == "TIMESTAMP_NS"
    assert ds.sql.query("SELECT epoch_ns(v) FROM self ORDER BY x").fetchall() == [(1_000_000_001,), (None,)]


@pytest.mark.parametrize("unit", ["months", "years", "m", "common_years", "fortnights"])
def test_units_that_stay_numbers(unit):
    assert column(one([0, 3], {"units": f"{unit} since 2000-01-01"})) == ([0, 3], "BIGINT")


@pytest.mark.parametrize(("reference", "hour"), [
    ("1990-01-01 12:00:00Z", 12), ("1990-01-01T12:00:00", 12), ("1990-1-1 12:0:0.0", 12),
    ("1990-01-01 12:00 +05:30", 6.5),
    ("1990-01-01 12:00:00 6:00", 6), ("1990-01-01 12:00:00 0:00", 12), ("1990-01-01 12:00:00 -01:00", 13),
    ("1990-01-01", 0), ("1990-01-01 00:00:00 UTC", 0),
])  # fmt: skip
def test_reference_dates_and_offsets(reference, hour):
    found, _ = column(one([0, 24], {"units": f"hours since {reference}"}))
    start = dt.datetime(1990, 1, 1) + dt.timedelta(hours=hour)
    assert found == [start, start + dt.timedelta(days=1)]


@pytest.mark.parametrize("calendar", [None, "standard", "gregorian", "proleptic_gregorian", "STANDARD", "Gregorian"])
@pytest.mark.parametrize(
    "reference", ["0001-01-01", "1500-03-01", "1582-10-04", "1582-10-15", "1858-11-17", "0000-01-01"]
)
def test_real_world_calendars_are_counted_as_cftime_counts(calendar, reference):
    attrs = {"units": f"days since {reference}"} | ({"calendar": calendar} if calendar else {})
    numbers = np.array([700_000, 730_500, 800_001])
    name = (calendar or "standard").lower()
    if reference.startswith("0000") and name != "proleptic_gregorian":
        pytest.skip("the mixed calendar has no year zero")
    dates = cftime.num2date(numbers, attrs["units"], name, has_year_zero=True if reference.startswith("0000") else None)
    expected = [dt.datetime(d.year, d.month, d.day) for d in dates]
    assert column(one(numbers, attrs)) == (expected, "TIMESTAMP")


def test_a_standard_axis_that_begins_before_the_reform_stays_numbers():
    attrs = {"units": "days since 1582-10-01", "calendar": "standard"}
    ds = xr.Dataset({"v": ("x", [1, 2])}, coords={"x": ("x", [3, 20], attrs)})
    result = ds.sql.query("SELECT x FROM self ORDER BY v")
    assert (result.fetchall(), str(result.types[0])) == ([(3,), (20,)], "BIGINT")


def test_a_standard_date_before_the_reform_is_null_elsewhere_with_one_warning():
    attrs = {"units": "days since 1582-10-01", "calendar": "standard"}
    expected = cftime.num2date(20, **attrs)
    with pytest.warns(xzsql.XzsqlWarning, match="v") as caught:
        found, kind = column(one([2, 3, 20], attrs))
    assert len(caught) == 1
    assert kind == "TIMESTAMP"
    assert found == [None, None, dt.datetime(expected.year, expected.month, expected.day)]


def test_a_proleptic_date_before_the_reform_is_a_timestamp():
    attrs = {"units": "days since 1500-01-01", "calendar": "proleptic_gregorian"}
    assert column(one([0, 59], attrs))[0] == [dt.datetime(1500, 1, 1), dt.datetime(1500, 3, 1)]


@pytest.mark.parametrize("calendar", ["noleap", "365_day", "all_leap", "366_day", "360_day", "julian", "mars"])
def test_other_calendars_stay_numbers(calendar):
    attrs = {"units": "days since 2000-01-01", "calendar": calendar}
    assert column(one([58, 59], attrs)) == ([58, 59], "BIGINT")


def test_integers_are_exact_and_floats_rounded_to_the_microsecond():
    assert column(one([10**15 + 1], {"units": "microseconds since 1970-01-01"}))[0] == [
        dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=10**15 + 1)
    ]
    found, _ = column(one([0.1, 1 / 3, 36_525.25 + 1e-6], {"units": "days since 1900-01-01"}))
    assert found == [
        dt.datetime(1900, 1, 1, 2, 24),
        dt.datetime(1900, 1, 1, 8),
        dt.datetime(2000, 1, 2, 6, 0, 0) + dt.timedelta(microseconds=round((36_525.25 + 1e-6 - 36_525.25) * 86_400e6)),
    ]


def test_float_times_that_are_missing():
    attrs = {"units": "days since 1970-01-01", "_FillValue": -1.0}
    found, _ = column(one([0.5, np.nan, -1.0, np.inf, 1e300], attrs))
    assert found == [
        dt.datetime(1970, 1, 1, 12),
        None,
        None,
        None,
        None,
    ]


def test_decode_times_false_leaves_numbers():
    attrs = {"units": "days since 1970-01-01"}
    assert column(one([0, 3], attrs), decode_times=False) == ([0, 3], "BIGINT")


def test_packed_wins_over_time_on_integers_and_time_wins_on_floats():
    attrs = {"units": "days since 1970-01-01", "scale_factor": 0.5}
    assert column(one(np.array([1, 2], "i2"), attrs)) == ([0.5, 1.0], "DOUBLE")
    assert column(one([1.0, 2.0], attrs)) == ([dt.datetime(1970, 1, 2), dt.datetime(1970, 1, 3)], "TIMESTAMP")


def test_not_a_time_of_a_store_is_null(tmp_path):
    stored = np.array(["2000-01-01", "NaT"], "datetime64[ns]")
    xr.Dataset({"v": ("x", stored)}).chunk().to_zarr(tmp_path / "a.zarr", consolidated=False)
    found = []
    with xzsql.open(tmp_path / "a.zarr") as catalog:
        found = catalog.query("SELECT epoch_us(v) FROM self ORDER BY x").fetchall()
    assert found == [(946_684_800_000_000,), (None,)]


# Predicates


@pytest.mark.parametrize("where", [
    "x > 1", "x >= '1.0'::DOUBLE", "x = 'nan'::DOUBLE", "x != 'nan'::DOUBLE", "x < 'nan'::DOUBLE", "x <= 'inf'::DOUBLE",
    "x > 'inf'::DOUBLE", "x = 0.0", "x = -0.0", "x IN (0.0, 1.0)", "x NOT IN (0.0)", "NOT (x = 0)", "x BETWEEN 0 AND 1",
    "x IS NULL", "x IS NOT NULL", "NOT (x > 0 OR x = 0)",
])  # fmt: skip
@pytest.mark.parametrize("nan_as_null", [True, False])
def test_nan_and_negative_zero_in_predicates(eager, arrow, where, nan_as_null):
    ds = xr.Dataset({"v": ("x", np.arange(6))}, coords={"x": [np.nan, -0.0, 0.0, 1.0, np.inf, 1.0]})
    eager.load(ds, nan_as_null=nan_as_null)
    with xzsql.open(ds, nan_as_null=nan_as_null) as catalog:
        sql = f"SELECT * FROM main.x WHERE {where}"
        assert oracle.difference(arrow(catalog.query(sql)), eager.table(sql)) == ""


@pytest.mark.parametrize(
    "where", ["x = 9007199254740993", "x > 9007199254740992", "x IN (9007199254740992)", "x < 9007199254740993"]
)
def test_integers_beyond_two_to_the_53_in_predicates(check, where):
    ds = xr.Dataset({"v": ("x", np.arange(3))}, coords={"x": np.array([2**53, 2**53 + 1, 2**53 + 2])})
    assert check(ds, f"SELECT * FROM self WHERE {where}").num_rows in (1, 2)


def test_warnings_are_ours_and_are_given_once():
    attrs = {"units": "days since 1582-10-01", "calendar": "standard"}
    catalog = xzsql.open(one([3, 20], attrs))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            catalog.query("SELECT v FROM self").fetchall()
    assert [w.category for w in caught] == [xzsql.XzsqlWarning]
    assert issubclass(xzsql.XzsqlWarning, UserWarning)
