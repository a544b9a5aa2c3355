"""Each rule on values, with an expectation from xarray, cftime, numpy, pandas or the CF text."""

from __future__ import annotations

import base64
import struct
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cftime
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr
import zarr

from xzsql.errors import UnsupportedError, ValueRangeError, XzsqlWarning
from xzsql.model.arrow import to_arrow
from xzsql.model.decode import DecodeOptions, Decoder, decoder_for

ATTRS = Mapping[str, Any] | None


def lazy(data: Any, attrs: ATTRS = None, encoding: ATTRS = None) -> xr.Variable:
    """A variable that is not in memory."""
    import dask.array

    array = dask.array.from_array(np.asarray(data), chunks=-1)
    return xr.Variable([f"d{i}" for i in range(array.ndim)], array, attrs, encoding)


def decoder_of(data: Any, attrs: ATTRS = None, encoding: ATTRS = None, index: bool = False, **options: Any) -> Decoder:
    dims = [f"d{i}" for i in range(data.ndim)]
    variable = xr.Variable(dims, data, attrs, encoding)
    return decoder_for(variable, "v", DecodeOptions(**options), index=index)


def listed(decoder: Decoder, data: Any) -> list[Any]:
    return to_arrow(decoder.apply(data), decoder.type, categories=decoder.categories).to_pylist()


def sql(data: Any, attrs: ATTRS = None, **options: Any) -> tuple[str, list[Any]]:
    decoder = decoder_of(data, attrs, **options)
    return str(decoder.type), listed(decoder, data)


def micros(data: Any, attrs: ATTRS = None, **options: Any) -> list[int | None]:
    decoder = decoder_of(data, attrs, **options)
    assert decoder.type == pa.timestamp("us"), decoder.note
    decoded = decoder.apply(data)
    valid = np.ones(data.shape, bool) if decoded.valid is None else decoded.valid
    return [int(v) if ok else None for v, ok in zip(decoded.values.astype("i8"), valid, strict=True)]


# --- types


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("code", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"])
def test_numbers_keep_their_type_in_any_byte_order(code: str, order: str) -> None:
    data = np.array([[0, 1], [2, 100]], dtype=order + code)
    decoder = decoder_of(data)
    decoded = decoder.apply(data)
    assert decoder.type == pa.from_numpy_dtype(np.dtype(code))
    assert decoded.values.dtype == np.dtype(code)
    assert decoded.values.dtype.isnative
    assert decoded.valid is None
    np.testing.assert_array_equal(decoded.values, data)


def test_half_floats_are_widened() -> None:
    assert sql(np.array([0.1, np.nan], "f2")) == ("float", [float(np.float16(0.1)), None])


def test_large_integers_stay_exact_beside_nulls() -> None:
    assert sql(np.array([2**53 + 1, -1]), {"_FillValue": -1}) == ("int64", [2**53 + 1, None])


def test_booleans_and_xarrays_stored_booleans() -> None:
    assert sql(np.array([True, False])) == ("bool", [True, False])
    stored = xr.Variable("x", np.array([1, 0], "i1"), {"dtype": "bool"})
    assert sql(stored.values, stored.attrs) == ("bool", xr.decode_cf(xr.Dataset({"v": stored})).v.values.tolist())
    assert sql(stored.values, {"dtype": "bool", "_FillValue": 0}) == ("bool", [True, False])


def test_complex() -> None:
    kind, values = sql(np.array([1 + 2j, complex(np.nan, 1)], ">c8"))
    assert kind == "struct<re: float, im: float>"
    assert values == [{"re": 1.0, "im": 2.0}, None]
    assert sql(np.array([1 + 2j, 3]), {"_FillValue": 1 + 2j})[1] == [None, {"re": 3.0, "im": 0.0}]


def test_structures_follow_the_same_table() -> None:
    inner = [("e", "u1"), ("f", "M8[D]")]
    data = np.array([(1, 2.5, b"x", (3, "NaT"))], [("a", ">i2"), ("b", "f2"), ("c", "S1"), ("d", inner)])
    kind, values = sql(data)
    assert kind == "struct<a: int16, b: float, c: string, d: struct<e: uint8, f: timestamp[us]>>"
    assert values == [{"a": 1, "b": 2.5, "c": "x", "d": {"e": 3, "f": None}}]


@pytest.mark.parametrize("dtype", ["V3", "g", "G", [("a", "g")], [("a", "i4", (2,))]], ids=str)
def test_what_has_no_sql_type_says_so(dtype: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"^variable 'v': .*(no SQL type|no whole number)"):
        decoder_of(np.zeros(2, dtype))


def test_text_in_its_forms() -> None:
    expected = ["a", "", "\u00e9\u4e2d", "a\0b"]
    assert sql(np.array(expected)) == ("string", expected)
    assert sql(np.array(expected, np.dtypes.StringDType())) == ("string", expected)
    assert sql(np.array([v.encode() for v in expected])) == ("string", expected)
    assert sql(np.array([v.encode() for v in expected], object)) == ("string", expected)


@pytest.mark.parametrize("hole", [None, np.nan])
def test_missing_text(hole: Any) -> None:
    assert sql(np.array(["a", hole, ""], object)) == ("string", ["a", None, ""])
    assert sql(np.array(["a", hole, ""], np.dtypes.StringDType(na_object=hole))) == ("string", ["a", None, ""])
    assert sql(np.array([hole, hole], object)) == ("string", [None, None])


def test_only_trailing_nuls_are_padding() -> None:
    data = np.array([b"a\0b", b"", b"c"], "S5")
    assert sql(data)[1] == ["a\0b", "", "c"]
    assert sql(data, bytes_as="blob") == ("binary", [b"a\0b", b"", b"c"])


def test_bytes_that_are_no_text() -> None:
    data = np.array([b"ok", b"ab\xffcd"])
    with pytest.raises(ValueRangeError, match=r"b'ab\\xffcd'.*bytes_as='blob'"):
        sql(data)
    assert sql(data, bytes_as="blob")[1] == [b"ok", b"ab\xffcd"]
    assert sql(np.array([b"\xe9"]), {"_Encoding": "iso8859-1"})[1] == ["\u00e9"]
    with pytest.raises(UnsupportedError, match="_Encoding is 'klingon'"):
        sql(data, {"_Encoding": "klingon"})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, None, 2**60 + 1], ("int64", [1, None, 2**60 + 1])),
        ([2**64 - 1, None], ("uint64", [2**64 - 1, None])),
        ([1.5, None, 2], ("double", [1.5, None, 2.0])),
        ([True, None], ("bool", [True, None])),
    ],
)
def test_python_numbers_in_memory(values: list[Any], expected: Any) -> None:
    assert sql(np.array(values, object)) == expected


@pytest.mark.parametrize("values", [["a", 1], [b"a", "a"], [{}], [2**64], [-1, 2**63], [0.5, 2**53 + 1], [1, True]])
def test_mixed_or_inexact_objects_are_left_out(values: list[Any]) -> None:
    with pytest.raises(UnsupportedError, match="object array"):
        sql(np.array(values, object))


def test_object_nan_is_kept_where_asked() -> None:
    data = np.array([1.5, float("nan"), None], object)
    assert [v == v for v in sql(data, nan_as_null=False)[1]] == [True, False, True]
    assert sql(data, nan_as_null=False)[1][2] is None
    assert sql(data)[1] == [1.5, None, None]


@pytest.mark.parametrize(
    ("dtype", "encoding", "kind"),
    [
        (np.dtype("O", metadata={"vlen": str}), {}, "string"),
        (np.dtype("O", metadata={"element_type": bytes}), {}, "string"),
        (np.dtype("O"), {"dtype": str}, "string"),
        (np.dtype("O"), {"dtype": np.dtypes.StringDType()}, "string"),
        (np.dtype("O"), {"dtype": np.dtype("S3")}, "string"),
        (np.dtype("O"), {"dtype": np.dtype(bool)}, "bool"),
        (np.dtype("O"), {"units": "days since 2000-01-01", "calendar": "standard"}, "timestamp[us]"),
        (np.dtype("O"), {"units": "days since 2000-01-01", "calendar": "noleap", "dtype": "i4"}, "int64"),
        (np.dtype("O"), {"units": "days since 2000-01-01", "calendar": "noleap", "dtype": "f8"}, "double"),
    ],
)
def test_objects_not_in_memory_by_their_metadata(dtype: Any, encoding: dict[str, Any], kind: str) -> None:
    import dask

    @dask.delayed
    def never() -> None:
        raise AssertionError("read")

    data = dask.array.from_delayed(never(), (2,), dtype=dtype)
    variable = xr.Variable("x", data, None, encoding)
    assert str(decoder_for(variable, "v", DecodeOptions()).type) == kind


def test_objects_not_in_memory_without_metadata_are_left_out() -> None:
    with pytest.raises(UnsupportedError, match="object array not in memory"):
        decoder_for(lazy(np.array(["a"], object)), "v", DecodeOptions())


# --- pandas


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pd.array([1, None], dtype="UInt8"), ("uint8", [1, None])),
        (pd.array([2**53 + 1, None], dtype="Int64"), ("int64", [2**53 + 1, None])),
        (pd.array([1.5, None], dtype="Float32"), ("float", [1.5, None])),
        (pd.array([True, None], dtype="boolean"), ("bool", [True, None])),
        (pd.array([1, None], dtype="int32[pyarrow]"), ("int32", [1, None])),
        (pd.Categorical([1.5, None, 1.5]), ("double", [1.5, None, 1.5])),
        (pd.Categorical(["b", None], categories=["b", "a"]), None),
    ],
    ids=lambda value: str(getattr(value, "dtype", ""))[:20],
)
def test_nullable_pandas_arrays(array: Any, expected: Any) -> None:
    decoder = decoder_for(xr.Variable("x", array), "v", DecodeOptions())
    if expected is None:
        expected = (str(pa.dictionary(pa.int32(), pa.string())), ["b", None])
    assert (str(decoder.type), listed(decoder, array)) == expected
    # an index gives its values as objects
    assert listed(decoder, np.asarray(array, dtype=object)) == expected[1]


@pytest.mark.parametrize("dtype", ["string", "str"])
def test_pandas_text(dtype: str) -> None:
    variable = xr.Variable("x", pd.array(["a", None, ""], dtype=dtype))
    decoder = decoder_for(variable, "v", DecodeOptions())
    assert (str(decoder.type), listed(decoder, variable.values)) == ("string", ["a", None, ""])


def test_categories_keep_their_order() -> None:
    array = pd.Categorical(["low", None, "high"], categories=["low", "mid", "high"], ordered=True)
    decoder = decoder_for(xr.Variable("x", array), "v", DecodeOptions())
    assert decoder.type.ordered
    assert decoder.categories.to_pylist() == ["low", "mid", "high"]
    assert decoder.apply(array).values.tolist() == array.codes.tolist()


def test_intervals_are_left_out() -> None:
    with pytest.raises(UnsupportedError, match="interval"):
        decoder_for(xr.Variable("x", pd.interval_range(0, 2).array), "v", DecodeOptions())


def test_zoned_times_are_instants() -> None:
    index = pd.date_range("2000-07-01", periods=2, tz="Europe/Paris")
    variable = xr.Dataset(coords={"t": index}).variables["t"]
    decoder = decoder_for(variable, "t", DecodeOptions(), index=True)
    assert decoder.type == pa.timestamp("us", tz="UTC")
    assert listed(decoder, variable.data) == list(index)


# --- missing values


def cf(data: Any, attrs: dict[str, Any]) -> list[Any]:
    """What xarray makes of it, NaN as None."""
    decoded = xr.conventions.decode_cf_variable("v", xr.Variable("x", data, attrs)).values
    return [None if value != value else value for value in decoded.tolist()]


@pytest.mark.parametrize(
    "attrs",
    [{"_FillValue": np.float32(1e20)}, {"missing_value": np.float32(3)}, {}],
)
def test_float_sentinels_as_xarray(attrs: dict[str, Any]) -> None:
    data = np.array([1, 1e20, np.nan, 3], "f4")
    assert sql(data, attrs)[1] == cf(data, attrs)


@pytest.mark.parametrize("attrs", [{"_FillValue": np.int16(-99)}, {"missing_value": np.int16(7)}])
def test_integer_sentinels_as_xarray(attrs: dict[str, Any]) -> None:
    data = np.array([7, -99, 3], "i2")
    assert sql(data, attrs) == ("int16", cf(data, attrs))


@pytest.mark.parametrize(
    "sentinels",
    [-999, -999.0, [-999, 5], np.array([5.0, -999.0]), (5, "-999"), "-999", b"-999", ["-999.0", "5"], np.float32(-999)],
    ids=repr,
)
@pytest.mark.parametrize("name", ["_FillValue", "missing_value"])
def test_sentinels_in_any_spelling(name: str, sentinels: Any) -> None:
    several = not isinstance(sentinels, str | bytes) and np.size(sentinels) > 1
    for code in ("i2", "f8"):
        assert sql(np.array([1, 5, -999], code), {name: sentinels})[1] == [1, None if several else 5, None]


@pytest.mark.parametrize(
    "sentinel", [np.nan, 1e20, 2.5, 40000, "x", None, np.inf, True, 10**400, {}], ids=lambda v: repr(v)[:9]
)
def test_sentinels_that_an_integer_cannot_be_are_ignored(sentinel: Any) -> None:
    data = np.array([1, 2, 0, -1], "i2")
    assert sql(data, {"_FillValue": sentinel}) == ("int16", [1, 2, 0, -1])


def test_sentinels_are_compared_in_the_stored_type() -> None:
    # CF 1.11, 2.5.1: the attribute has the type of the variable; many writers leave it a double
    assert sql(np.array([1, 1e20], "f4"), {"_FillValue": 1e20})[1] == [1, None]
    assert sql(np.array([0.1, 1], "f2"), {"missing_value": [0.1]})[1] == [None, 1]


def test_a_sentinel_beyond_float32_does_not_mask_infinity() -> None:
    assert sql(np.array([np.inf], "f4"), {"_FillValue": 1e300})[1] == [np.inf]
    assert sql(np.array([np.inf, 1], "f4"), {"_FillValue": np.inf})[1] == [None, 1.0]
    assert sql(np.array([1.0]), {"_FillValue": 10**400})[1] == [1.0]


def test_xarrays_base64_sentinels() -> None:
    text = base64.standard_b64encode(struct.pack("<d", -9.5)).decode()
    assert sql(np.array([-9.5, 1], "f4"), {"_FillValue": text})[1] == [None, 1.0]
    part = base64.standard_b64encode(struct.pack("<d", 1.0)).decode()
    assert sql(np.array([1 + 1j, 1]), {"_FillValue": [part, part]})[1] == [None, {"re": 1.0, "im": 0.0}]


def test_nan_stays_where_asked_and_its_sentinel_does_not() -> None:
    data = np.array([1, np.nan, np.inf, -np.inf, 5])
    kept = decoder_of(data, {"_FillValue": 5}, nan_as_null=False).apply(data)
    assert kept.valid.tolist() == [True, True, True, True, False]
    assert np.isnan(kept.values[1])
    assert sql(data, {"_FillValue": np.nan}, nan_as_null=False)[1] == [1, None, np.inf, -np.inf, 5]


def test_infinities_alone_are_no_nan() -> None:
    decoded = decoder_of(np.array([np.inf, -np.inf])).apply(np.array([np.inf, -np.inf]))
    assert decoded.valid is None


def test_unsigned_as_xarray() -> None:
    data = np.array([1, -1, -2], "i1")
    attrs = {"_Unsigned": "true", "_FillValue": np.int8(-1)}
    assert sql(data, attrs) == ("uint8", cf(data, attrs))
    assert sql(data, {"_Unsigned": "true", "_FillValue": 255})[1] == [1, None, 254]
    assert sql(np.array([255, 3], ">u2"), {"_Unsigned": "false", "_FillValue": 3}) == ("int16", [255, None])
    assert sql(np.array([65535, 65534], "u2"), {"_Unsigned": "false", "_FillValue": 65535})[1] == [None, -2]


def test_text_and_booleans_have_no_sentinels() -> None:
    assert sql(np.array(["", "x"]), {"_FillValue": ""})[1] == ["", "x"]
    assert sql(np.array([b"", b"x"]), {"_FillValue": b"x"})[1] == ["", "x"]
    assert sql(np.array([True, False]), {"_FillValue": False})[1] == [True, False]


def stored(tmp_path: Any, version: int, fill: Any, attrs: dict[str, Any]) -> xr.Variable:
    group = zarr.open_group(tmp_path / "s", mode="w", zarr_format=version)
    names = {"dimension_names": ("x",)} if version == 3 else {}
    array = group.create_array("v", shape=(4,), chunks=(2,), dtype="i2", fill_value=fill, **names)
    array.attrs.update(attrs | ({"_ARRAY_DIMENSIONS": ["x"]} if version == 2 else {}))
    array[:2] = [1, 7]
    return xr.open_zarr(tmp_path / "s", decode_cf=False, chunks=None, consolidated=False).variables["v"]


@pytest.mark.parametrize(
    ("version", "fill", "attrs", "mask", "expected"),
    [
        (2, 7, {}, None, [1, None, None, None]),
        (2, 0, {}, None, [1, 7, 0, 0]),
        (2, 0, {}, True, [1, 7, None, None]),
        (2, 7, {}, False, [1, 7, 7, 7]),
        (2, 0, {"missing_value": 1}, None, [None, 7, 0, 0]),
        (3, 7, {}, None, [1, 7, 7, 7]),
        (3, 7, {}, True, [1, None, None, None]),
        (3, 0, {"_FillValue": 1}, None, [None, 7, 0, 0]),
        (3, 0, {"_FillValue": 0}, None, [1, 7, None, None]),
        (3, 0, {"_FillValue": 1}, True, [None, 7, None, None]),
    ],
)
def test_the_fill_value_of_a_zarr_array(
    tmp_path: Any, version: int, fill: Any, attrs: dict[str, Any], mask: bool | None, expected: list[Any]
) -> None:
    variable = stored(tmp_path, version, fill, attrs)
    decoder = decoder_for(variable, "v", DecodeOptions(mask_fill_value=mask))
    assert listed(decoder, variable.values) == expected


@pytest.mark.parametrize(
    ("attrs", "expected"), [({}, [None, 0]), ({"_FillValue": 0}, [7, None]), ({"_FillValue": 5}, [7, 0])]
)
def test_the_fill_value_as_an_adapter_says_it(attrs: dict[str, Any], expected: list[Any]) -> None:
    data = np.array([7, 0], "i2")
    assert listed(decoder_of(data, attrs, {"zarr_format": 2, "fill_value": 7}), data) == expected
    assert listed(decoder_of(data, None, {"zarr_format": 2, "fill_value": 0}), data) == [7, 0]
    assert listed(decoder_of(data, None, {"zarr_format": 3, "fill_value": 7}), data) == [7, 0]


def test_a_fill_value_in_stored_terms_does_not_touch_unpacked_values() -> None:
    data = np.array([0.0, 1.0])
    encoding = {"fill_value": 0, "dtype": np.dtype("i2"), "scale_factor": 0.1}
    assert listed(decoder_of(data, None, encoding, mask_fill_value=True), data) == [0.0, 1.0]


# --- packing


@pytest.mark.parametrize(
    "attrs", [{"scale_factor": 0.1, "add_offset": 273.15}, {"scale_factor": -0.1}, {"add_offset": 1}]
)
@pytest.mark.parametrize("code", ["i1", "u1", ">i2", "u2", "i4"])
def test_packed_integers_in_float64(code: str, attrs: dict[str, float]) -> None:
    data = np.array([0, 1, 3, 100], code)
    expected = data.astype("f8") * attrs.get("scale_factor", 1.0) + attrs.get("add_offset", 0.0)
    kind, values = sql(data, {**attrs, "_FillValue": 100, "units": "days since 2000-01-01"})
    assert kind == "double"
    assert values == [*expected.tolist()[:-1], None]


def test_packing_attributes_in_any_spelling() -> None:
    data = np.array([4], "i2")
    for spelled in (0.5, "0.5", [0.5], np.array([0.5]), np.float32(0.5), b"0.5"):
        assert sql(data, {"scale_factor": spelled}) == ("double", [2.0])


@pytest.mark.parametrize("scale", ["tenth", [0.1, 0.2], None, np.nan])
def test_packing_that_is_no_number_is_left_out(scale: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"variable 'v': attribute scale_factor is"):
        sql(np.array([4], "i2"), {"scale_factor": scale})


def test_floats_are_never_unpacked() -> None:
    assert sql(np.array([4.0]), {"scale_factor": 0.5}) == ("double", [4.0])
    assert micros(np.array([0.5]), {"scale_factor": 2, "units": "days since 1970-01-01"}) == [43_200_000_000]


# --- time


@pytest.mark.parametrize("name", ["standard", "gregorian", "proleptic_gregorian", None])
@pytest.mark.parametrize(
    "units", ["days since 1-1-1", "hours since 1900-01-01 06:00", "seconds since 1970-01-01T00:00:00Z"]
)
@pytest.mark.parametrize("code", ["i4", "i8", "f8"])
def test_times_are_those_of_cftime(name: str | None, units: str, code: str) -> None:
    data = np.array([0, 1, 700_000, 800_123], code) + (0.25 if code == "f8" else 0)
    dates = cftime.num2date(data, units, calendar=name or "standard")
    real = [d if name == "proleptic_gregorian" or d >= cftime.DatetimeGregorian(1582, 10, 15) else None for d in dates]
    epoch = cftime.datetime(1970, 1, 1, calendar=dates[0].calendar)
    expected = [None if d is None else round((d - epoch) / np.timedelta64(1, "us").item()) for d in real]
    attrs = {"units": units} | ({"calendar": name} if name else {})
    if None in expected:
        with pytest.warns(XzsqlWarning, match="1582-10-15"):
            assert micros(data, attrs) == expected
    else:
        assert micros(data, attrs) == expected


def test_early_standard_dates_warn_once_per_decoder() -> None:
    decoder = decoder_of(np.array([0]), {"units": "days since 1000-01-01"})
    with pytest.warns(XzsqlWarning, match="before 1582-10-15"):
        assert decoder.apply(np.array([0])).valid.tolist() == [False]
    # a second warning would be an error
    assert decoder.apply(np.array([0])).valid.tolist() == [False]


def test_an_index_with_early_standard_dates_stays_numeric() -> None:
    data = np.array([0, 1_000_000])
    decoder = decoder_of(data, {"units": "days since 1000-01-01"}, index=True)
    assert decoder.type == pa.int64()
    assert "1582-10-15" in decoder.note
    assert micros(data + 500_000, {"units": "days since 1000-01-01"}, index=True)[0] is not None
    proleptic = {"units": "days since 1000-01-01", "calendar": "proleptic_gregorian"}
    assert (
        micros(data, proleptic, index=True)
        == (np.datetime64("1000-01-01", "us") + data.astype("m8[D]")).astype("i8").tolist()
    )


def test_missing_times() -> None:
    attrs = {"units": "days since 1970-01-01", "_FillValue": -1}
    assert micros(np.array([1, -1]), attrs) == [86_400_000_000, None]
    assert micros(np.array([1, -1, np.nan]), attrs, nan_as_null=False) == [86_400_000_000, None, None]


@pytest.mark.parametrize("name", ["noleap", "360_day", "julian", "tai"])
def test_model_calendars_stay_numbers(name: str) -> None:
    decoder = decoder_of(np.array([1]), {"units": "days since 2000-01-01", "calendar": name})
    assert decoder.type == pa.int64()
    assert name in decoder.note


def test_times_left_as_numbers() -> None:
    data = np.array([1], "i4")
    assert sql(data, {"units": "days since 1970-01-01"}, decode_times=False) == ("int32", [1])
    assert sql(data, {"units": "days", "dtype": "timedelta64[ns]"}, decode_times=False) == ("int32", [1])
    assert sql(data, {"units": "days"}) == ("int32", [1])


def test_nanosecond_units() -> None:
    attrs = {"units": "nanoseconds since 2000-01-01"}
    assert sql(np.array([1000]), attrs)[0] == "timestamp[us]"
    assert sql(np.array([1001]), attrs) == ("timestamp[ns]", [pd.Timestamp("2000-01-01 00:00:00.000001001")])
    assert decoder_for(lazy(np.array([1000]), attrs), "v", DecodeOptions()).type == pa.timestamp("ns")


def test_datetimes_are_microseconds_where_they_can_be() -> None:
    data = np.array(["2000-01-01T00:00:00.000001", "NaT"], "M8[ns]")
    assert micros(data) == [int(data.astype("M8[us]").astype("i8")[0]), None]
    fine = data + np.timedelta64(1, "ns")
    assert sql(fine) == ("timestamp[ns]", [pd.Timestamp(fine[0]), None])


def test_lazy_datetimes_by_their_encoding() -> None:
    data = np.array(["2000-01-01T00:00:00.000000001"], "M8[ns]")
    fine = lazy(data, None, {"units": "nanoseconds since 2000-01-01", "calendar": "proleptic_gregorian"})
    assert decoder_for(fine, "v", DecodeOptions()).type == pa.timestamp("ns")
    coarse = decoder_for(lazy(data, None, {"units": "days since 2000-01-01"}), "v", DecodeOptions())
    assert coarse.type == pa.timestamp("us")
    with pytest.raises(ValueRangeError, match="no whole microsecond"):
        coarse.apply(data)
    assert coarse.apply(data.astype("M8[D]").astype("M8[ns]")).values.tolist() == [pd.Timestamp("2000-01-01")]


def test_durations() -> None:
    data = np.array([1, -3], "m8[D]")
    assert sql(data) == ("duration[us]", data.astype("m8[us]").tolist())
    assert sql(np.array(["NaT"], "m8[ns]")) == ("duration[us]", [None])
    with pytest.raises(ValueRangeError, match="no whole microsecond"):
        sql(np.array([1], "m8[ns]"))
    with pytest.raises(ValueRangeError, match="292,271 years"):
        sql(np.array([2**62], "m8[s]"))


@pytest.mark.parametrize(("units", "unit"), [("days", "D"), ("hours", "h"), ("milliseconds", "ms")])
def test_counted_durations(units: str, unit: str) -> None:
    data = np.array([1, -3, 9], "i2")
    expected = [*data.astype(f"m8[{unit}]").astype("m8[us]").tolist()[:2], None]
    assert sql(data, {"units": units, "dtype": "timedelta64[ns]", "_FillValue": 9}) == ("duration[us]", expected)
    assert sql(data, {"units": units, "_FillValue": 9}, decode_timedelta=True) == ("duration[us]", expected)
    assert sql(np.array([0.5, np.nan]), {"units": units}, decode_timedelta=True)[1] == [
        np.timedelta64(1, unit).astype("m8[us]").item() / 2,
        None,
    ]


def test_cftime_objects_on_real_calendars() -> None:
    data = np.array([cftime.DatetimeProlepticGregorian(1, 1, 1), None], object)
    assert micros(data) == [int(np.datetime64("0001-01-01", "us").astype("i8")), None]
    data = np.array([cftime.DatetimeGregorian(2000, 1, 1, 0, 0, 0, 1)], object)
    assert micros(data) == [int(np.datetime64("2000-01-01T00:00:00.000001").astype("i8"))]
    early = np.array([cftime.DatetimeGregorian(1500, 1, 1)], object)
    assert decoder_of(early, index=True).type == pa.int64()
    with pytest.warns(XzsqlWarning, match="1582"):
        assert micros(early) == [None]


def test_cftime_objects_on_model_calendars_are_numbers_again() -> None:
    raw = np.array([59, 60, 61])
    encoding = {"units": "days since 2000-01-01", "calendar": "noleap"}
    dates = cftime.num2date(raw, **encoding)
    decoder = decoder_of(dates, None, encoding, index=True)
    assert (decoder.type, listed(decoder, dates)) == (pa.int64(), raw.tolist())
    assert "noleap" in decoder.note
    halves = cftime.num2date(raw + 0.5, **encoding)
    assert listed(decoder_of(halves, None, encoding), halves) == (raw + 0.5).tolist()
    bare = decoder_of(dates)
    assert listed(bare, dates) == cftime.date2num(dates, "microseconds since 1970-01-01", "noleap").tolist()


def test_dates_of_several_calendars_are_left_out() -> None:
    with pytest.raises(UnsupportedError, match="several calendars: 360_day, noleap"):
        decoder_of(np.array([cftime.DatetimeNoLeap(2000, 1, 1), cftime.Datetime360Day(2000, 1, 1)], object))


# --- blocks


@pytest.mark.parametrize("attrs", [None, {"units": "days since 1970-01-01"}, {"_FillValue": 3}])
def test_blocks_of_any_shape_and_stride(attrs: ATTRS) -> None:
    data = np.arange(24, dtype="f8").reshape(2, 3, 4)
    decoder = decoder_of(data, attrs)
    for block in (data, data[:, ::2, ::-1], data.T, data[1, 2, 3], data[:0]):
        decoded = decoder.apply(block)
        assert decoded.values.shape == np.shape(block)
        assert decoded.valid is None or decoded.valid.shape == np.shape(block)
        flat = decoder.apply(np.ascontiguousarray(block).ravel()).values
        np.testing.assert_array_equal(decoded.values.ravel(), flat)


def test_blocks_are_not_changed_and_clean_ones_are_shared() -> None:
    for data, attrs in (
        (np.array([1.0, np.nan]), {}),
        (np.array([1, 2], "i2"), {"_FillValue": 2, "scale_factor": 3.0}),
    ):
        before = data.copy()
        data.flags.writeable = False
        decoder_of(data, attrs).apply(data)
        np.testing.assert_array_equal(data, before)
    clean = np.arange(5.0)
    assert np.shares_memory(decoder_of(clean, {"_FillValue": -1}).apply(clean).values, clean)


def test_a_decoder_serves_many_threads() -> None:
    decoder = decoder_of(np.array([0]), {"units": "days since 1000-01-01"})
    blocks = [np.array([0, 400_000 + i]) for i in range(50)]
    with warnings.catch_warnings(record=True) as caught, ThreadPoolExecutor(4) as pool:
        warnings.simplefilter("always")
        found = list(pool.map(lambda block: decoder.apply(block).valid.tolist(), blocks))
    assert found == [[False, True]] * 50
    assert len(caught) == 1


@pytest.mark.parametrize("unit", ["nanoseconds", "microseconds", "seconds"])
def test_the_number_of_nat_is_no_date(unit: str) -> None:
    raw = xr.Variable("x", np.array([0, np.iinfo("i8").min, 5000]), {"units": f"{unit} since 2889-06-08"})
    found = decoder_for(raw, "t", DecodeOptions()).apply(raw.values)
    assert found.valid is not None
    assert found.valid.tolist() == [True, False, True]
