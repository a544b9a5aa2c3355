"""Decoding against numpy, cftime and xarray on arbitrary values."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import cftime
import numpy as np
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from xzsql.model.arrow import to_arrow
from xzsql.model.decode import DecodeOptions, calendar, decoder_for

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i2", ">u4"]
EPOCH = cftime.datetime(1970, 1, 1, calendar="proleptic_gregorian")
MIXED_EPOCH = cftime.datetime(1970, 1, 1, calendar="standard")
GREGORIAN = cftime.datetime(1582, 10, 15, calendar="standard")


def column(data: Any, attrs: dict[str, Any], index: bool = False, **options: Any) -> Any:
    decoder = decoder_for(xr.Variable("x", data, attrs), "v", DecodeOptions(**options), index=index)
    return to_arrow(decoder.apply(data), decoder.type)


@given(st.data(), st.sampled_from(INTEGERS))
def test_integers_are_never_changed(data: st.DataObject, code: str) -> None:
    values = data.draw(hnp.arrays(code, st.integers(0, 20)))
    sentinels = data.draw(st.lists(st.integers(-(2**64), 2**64) | st.sampled_from(values.tolist() or [0]), max_size=3))
    expected = [None if v in sentinels else v for v in values.tolist()]
    assert column(values, {"missing_value": sentinels}).to_pylist() == expected


@given(st.data(), st.sampled_from(["f2", "f4", "f8", ">f4"]), st.booleans())
def test_floats_are_never_changed(data: st.DataObject, code: str, nan_as_null: bool) -> None:
    values = data.draw(hnp.arrays(code, st.integers(0, 20)))
    sentinel = data.draw(st.floats() | st.sampled_from(values.astype("f8").tolist() or [0.0]))
    with np.errstate(over="ignore"):
        stored = np.dtype(code).type(sentinel)
    hit = values == stored if np.isfinite(stored) or not np.isfinite(sentinel) else np.zeros(values.shape, bool)
    if nan_as_null or np.isnan(sentinel):
        hit = hit | np.isnan(values)
    found = column(values, {"_FillValue": sentinel}, nan_as_null=nan_as_null)
    assert [v is None for v in found.to_pylist()] == hit.tolist()
    kept = np.array(found.to_numpy(zero_copy_only=False)[~hit], dtype="f8")
    assert kept.tobytes() == values[~hit].astype("f8").tobytes()


@given(
    hnp.arrays(st.sampled_from(["i1", "u1", "i2", "u2"]), st.integers(1, 20)),
    st.floats(-1e6, 1e6),
    st.floats(-1e6, 1e6),
)
def test_packed_values_are_two_rounded_operations(values: Any, scale: float, offset: float) -> None:
    found = column(values, {"scale_factor": scale, "add_offset": offset}).to_numpy(zero_copy_only=False)
    assert found.tobytes() == np.array([float(v) * scale + offset for v in values.tolist()]).tobytes()


@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=10),
    st.sampled_from(["days", "hours", "minutes", "seconds", "milliseconds", "microseconds"]),
    st.datetimes(max_value=np.datetime64("9000-01-01", "us").item()),
    st.sampled_from(["i4", "i8", ">i4"]),
)
def test_proleptic_times_are_those_of_cftime(counts: list[int], word: str, start: Any, code: str) -> None:
    units = f"{word} since {start.isoformat()}"
    dates = cftime.num2date(np.array(counts, "i8"), units, calendar="proleptic_gregorian")
    found = column(np.array(counts, code), {"units": units, "calendar": "proleptic_gregorian"})
    expected = cftime.date2num(dates, "microseconds since 1970-01-01", "proleptic_gregorian")
    assert found.cast("int64").to_pylist() == expected.tolist()


@given(
    st.lists(st.integers(0, 3 * 10**6), min_size=1, max_size=10),
    st.dates(max_value=np.datetime64("2500-01-01", "D").item()).filter(
        lambda day: not (1582, 10, 4) < (day.year, day.month, day.day) < (1582, 10, 15)
    ),
)
def test_standard_axes_are_those_of_cftime_or_numbers(counts: list[int], start: Any) -> None:
    units = f"days since {start.year:04d}-{start.month}-{start.day}"
    try:
        dates = cftime.num2date(np.array(counts), units, calendar="standard")
    except ValueError:  # 29 February of a century, in either calendar
        return
    found = column(np.array(counts), {"units": units}, index=True)
    if min(dates) < GREGORIAN:
        assert found.to_pylist() == counts
    else:
        expected = cftime.date2num(dates, "microseconds since 1970-01-01", "standard")
        assert found.cast("int64").to_pylist() == expected.tolist()


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=10),
    st.sampled_from(["weeks", "days", "hours", "seconds"]),
)
def test_float_times_are_within_half_a_microsecond(counts: list[float], word: str) -> None:
    units, _ = calendar.parse_units(f"{word} since 1950-06-01", "proleptic_gregorian")
    assert units is not None
    attrs = {"units": f"{word} since 1950-06-01", "calendar": "proleptic_gregorian"}
    found = column(np.array(counts), attrs).cast("int64").to_pylist()
    low, high = calendar.RANGE["us"]
    for count, micros in zip(counts, found, strict=True):
        exact = (Fraction(count) * units.step + units.reference) / 1000
        if micros is None:
            assert not low + 1 < exact < high - 1
        else:
            # the fraction of a week times its length rounds once more, by less than 1e-4
            assert abs(exact - micros) <= Fraction(1, 2) + Fraction(1, 10_000)


@given(hnp.arrays("i8", st.integers(0, 20)), st.sampled_from(["Y", "M", "W", "D", "h", "m", "s", "ms", "us"]))
def test_datetimes_are_exact_or_null(raw: Any, unit: str) -> None:
    values = raw.view(f"M8[{unit}]")
    instants, valid = calendar.rescale(values, "us")
    valid = np.ones(values.shape, bool) if valid is None else valid
    found = [int(v) if ok else None for v, ok in zip(instants, valid, strict=True)]
    low, high = calendar.RANGE["us"]
    for value, micros in zip(values, found, strict=True):
        if micros is not None:
            assert low <= micros <= high
            assert np.datetime64(micros, "us").astype(f"M8[{unit}]") == value
        elif not np.isnat(value) and unit not in "YM":
            step = np.timedelta64(1, unit) // np.timedelta64(1, "us")
            assert not low <= int(value.astype("i8")) * int(step) <= high


@given(
    hnp.arrays(st.sampled_from(["i1", "i2", "u1", "u2"]), st.integers(1, 20)),
    st.integers(0, 100),
    st.sampled_from([{}, {"_Unsigned": "true"}, {"_Unsigned": "false"}]),
)
def test_masked_integers_are_those_of_xarray(values: Any, fill: int, extra: dict[str, str]) -> None:
    attrs: dict[str, Any] = {"_FillValue": values.dtype.type(fill), **extra}
    expected = xr.conventions.decode_cf_variable("v", xr.Variable("x", values, attrs)).values
    found = column(values, attrs).to_pylist()
    assert found == [None if value != value else value for value in expected.tolist()]
