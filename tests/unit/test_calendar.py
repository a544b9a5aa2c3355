"""CF units and exact time arithmetic, against cftime, numpy and datetime."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

import cftime
import numpy as np
import pytest

from xzsql.errors import UnsupportedError, ValueRangeError
from xzsql.model.decode import calendar

UTC = dt.UTC


def micros(value: dt.datetime) -> int:
    epoch = dt.datetime(1970, 1, 1, tzinfo=UTC)
    return (value.replace(tzinfo=value.tzinfo or UTC) - epoch) // dt.timedelta(microseconds=1)


def units_of(text: str, name: str | None = "proleptic_gregorian") -> calendar.TimeUnits:
    units, note = calendar.parse_units(text, name)
    assert units is not None, note
    return units


def decoded(counts: np.ndarray, text: str, name: str | None = "proleptic_gregorian") -> list[int | None]:
    found, inside = calendar.instants(counts, units_of(text, name), "us")
    inside = np.ones(found.shape, bool) if inside is None else inside
    return [int(value) if ok else None for value, ok in zip(found, inside, strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01", dt.datetime(1970, 1, 1)),
        ("1-1-1", dt.datetime(1, 1, 1)),
        ("0001-01-01", dt.datetime(1, 1, 1)),
        ("1900-1-1 0:0:0.0", dt.datetime(1900, 1, 1)),
        ("1970-01-01T00:00:00Z", dt.datetime(1970, 1, 1)),
        ("2000-02-29 12:34:56.789", dt.datetime(2000, 2, 29, 12, 34, 56, 789000)),
        ("1992-10-8 15:15:42.5 -6:00", dt.datetime(1992, 10, 8, 21, 15, 42, 500000)),  # CF 1.11, section 4.4
        ("2000-01-01 00:00:00 +05:30", dt.datetime(1999, 12, 31, 18, 30)),
        ("2000-01-01 00:00:00 +0530", dt.datetime(1999, 12, 31, 18, 30)),
        ("2000-01-01 00:00:00 6:00", dt.datetime(1999, 12, 31, 18)),
        ("2000-01-01 00:00 0:00", dt.datetime(2000, 1, 1)),
        ("2000-01-01 00:00:00 -0:30", dt.datetime(2000, 1, 1, 0, 30)),
        ("2000-01-01 00:00:00 UTC", dt.datetime(2000, 1, 1)),
        ("2000-01-01 06", dt.datetime(2000, 1, 1, 6)),
        ("2000-01", dt.datetime(2000, 1, 1)),
        ("2000", dt.datetime(2000, 1, 1)),
        ("20000203", dt.datetime(2000, 2, 3)),
        ("9999-12-31", dt.datetime(9999, 12, 31)),
    ],
)
def test_reference_dates(text: str, expected: dt.datetime) -> None:
    assert units_of(f"days since {text}").reference == micros(expected) * 1000


def test_a_reference_finer_than_microseconds_is_kept() -> None:
    units = units_of("seconds since 2000-01-01 00:00:00.123456789")
    assert units.unit == "ns"
    assert units.reference == np.datetime64("2000-01-01T00:00:00.123456789").astype("i8")


@pytest.mark.parametrize(
    "text",
    ["-1-01-01", "2001-02-29", "2000-13-01", "2000-01-32", "2000-01-01 24:00", "01-01-2000",
     "yesterday", "2000-01-01 00:00:00.1234567891", "2000-01-01 06 30", "999999-01-01", "2000-01-01 00:00 +99:00"],
)  # fmt: skip
def test_other_reference_dates_stay_numbers_and_say_so(text: str) -> None:
    units, note = calendar.parse_units(f"days since {text}", "proleptic_gregorian")
    assert units is None
    assert repr(text) in note


@pytest.mark.parametrize("text", ["0000-01-01", "0-1-1", "0000-03-01"])
def test_the_year_zero_is_of_the_proleptic_calendar_alone(text: str) -> None:
    dates = cftime.num2date(800_000, f"days since {text}", calendar="proleptic_gregorian")
    expected = cftime.date2num(dates, "microseconds since 1970-01-01", calendar="proleptic_gregorian")
    units = units_of(f"days since {text}")
    assert units.reference + 800_000 * units.step == expected * 1000
    assert calendar.parse_units(f"days since {text}", "standard")[0] is None


@pytest.mark.parametrize("text", ["1500-2-29", "1-1-1", "1582-10-4", "1582-10-15", "1583-1-1", "1969-12-31 23:59"])
def test_mixed_reference_dates_are_those_of_cftime(text: str) -> None:
    expected = cftime.date2num(cftime.num2date(0, f"days since {text}"), "microseconds since 1970-01-01")
    assert units_of(f"days since {text}", None).reference == int(expected) * 1000


@pytest.mark.parametrize("text", ["1582-10-5", "1582-10-14", "1500-2-30"])
def test_days_that_the_mixed_calendar_skipped_are_no_reference(text: str) -> None:
    with pytest.raises(ValueError, match=r"invalid day|not present"):
        cftime.datetime(*map(int, text.split("-")), calendar="standard")
    assert calendar.parse_units(f"days since {text}", "standard")[0] is None


def test_every_spelling_of_cftime_means_the_same() -> None:
    from cftime import _cftime

    names = {
        **dict.fromkeys(_cftime.microsec_units, 10**3),
        **dict.fromkeys(_cftime.millisec_units, 10**6),
        **dict.fromkeys(_cftime.sec_units, 10**9),
        **dict.fromkeys(_cftime.min_units, 60 * 10**9),
        **dict.fromkeys(_cftime.hr_units, 3600 * 10**9),
        **dict.fromkeys(_cftime.day_units, 86400 * 10**9),
    }
    assert {name: units_of(f"{name} since 2000-01-01").step for name in names} == names
    assert {name: units_of(f"{name.upper()} SINCE 2000-01-01").step for name in names} == names


@pytest.mark.parametrize("word", ["m", "M", "month", "months", "year", "years", "common_years", "fortnight", "K"])
def test_units_without_a_fixed_length_stay_numbers(word: str) -> None:
    assert calendar.parse_units(f"{word} since 2000-01-01")[0] is None
    assert calendar.duration_step(word) is None


@pytest.mark.parametrize("units", ["days", "K", "", None, 3, b"days since 2000-01-01", "since 2000-01-01"])
def test_what_is_no_time_has_no_note(units: object) -> None:
    assert calendar.parse_units(units) == (None, "")


@pytest.mark.parametrize(
    "name", ["noleap", "365_day", "all_leap", "366_day", "360_day", "julian", "tai", "utc", "none", "", "lunar"]
)
def test_other_calendars_stay_numbers_and_say_which(name: str) -> None:
    units, note = calendar.parse_units("days since 2000-01-01", name)
    assert units is None
    assert repr(name) in note


@pytest.mark.parametrize("name", ["Standard", "GREGORIAN", "proleptic_gregorian", None])
def test_real_calendars_in_any_case(name: str | None) -> None:
    assert calendar.parse_units("days since 2000-01-01", name)[0] is not None


def test_integers_are_exact_where_floats_are_not() -> None:
    count = 2**53 + 1
    assert decoded(np.array([count]), "microseconds since 1970-01-01") == [count]
    assert decoded(np.array([count]), "us since 2000-01-01") == [count + micros(dt.datetime(2000, 1, 1))]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("word", ["weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds"])
def test_integer_limits_never_wrap(dtype: str, word: str) -> None:
    info = np.iinfo(dtype)
    counts = np.array([info.min, 0, 1, info.max], dtype=dtype)
    units = units_of(f"{word} since 1900-03-01")
    low, high = calendar.RANGE["us"]
    expected = [(int(c) * units.step + units.reference) // 1000 for c in counts]
    assert decoded(counts, f"{word} since 1900-03-01") == [v if low <= v <= high else None for v in expected]


def test_the_edges_of_timestamp() -> None:
    low, high = calendar.RANGE["us"]
    edge = np.array([low - 1, low, high, high + 1, -(2**63) + 1])
    assert decoded(edge, "us since 1970-01-01") == [None, low, high, None, None]
    assert decoded(np.array([2**63], "u8"), "us since 1970-01-01") == [None]
    assert decoded(np.array([high + 10], "u8"), "us since 1969-12-31") == [high + 10 - 86_400_000_000]


def test_floats_out_of_range_are_outside() -> None:
    found = decoded(np.array([1e300, -np.inf, np.nan, 1e12, 0.5]), "days since 1970-01-01")
    assert found == [None, None, None, None, 43_200_000_000]


@pytest.mark.parametrize("word", ["weeks", "days", "hours", "seconds", "milliseconds"])
def test_floats_are_rounded_to_the_microsecond_once(word: str) -> None:
    rng = np.random.default_rng(7)
    counts = np.concatenate([rng.uniform(-1e5, 1e5, 500), rng.uniform(-2, 2, 50), [0.1, -0.1, 1 / 3, 1e-9, -1e-9]])
    units = units_of(f"{word} since 1850-01-01")
    exact = [(Fraction(c) * units.step + units.reference) / 1000 for c in counts.tolist()]
    assert decoded(counts, f"{word} since 1850-01-01") == [round(value) for value in exact]


def test_nanoseconds_are_never_rounded() -> None:
    units = units_of("nanoseconds since 1970-01-01 00:00:00.0000005")
    found, _ = calendar.instants(np.array([500, 1500, -500]), units, "us")
    assert found.tolist() == [1, 2, 0]
    with pytest.raises(ValueRangeError, match="no whole microsecond"):
        calendar.instants(np.array([1, 500]), units, "us")
    found, _ = calendar.instants(np.array([1, 500]), units, "us", np.array([False, True]))
    assert found[1] == 1
    found, _ = calendar.instants(np.array([1], "i1"), units, "ns")
    assert found.tolist() == [501]


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "10s", "25h"])
def test_coarse_datetimes_are_those_of_numpy(unit: str) -> None:
    values = np.array(["1969-12-31", "0001-01-01", "9999-12-31", "NaT", "2024-02-29"], dtype="M8[D]").astype(
        f"M8[{unit}]"
    )
    found, valid = calendar.rescale(values, "us")
    assert valid.tolist() == [True, True, True, False, True]
    assert found[valid].tolist() == values.astype("M8[us]")[valid].astype("i8").tolist()


@pytest.mark.parametrize("unit", ["Y", "M", "D", "s", "us"])
def test_datetimes_beyond_timestamp_do_not_wrap(unit: str) -> None:
    values = np.array([2**62, -(2**62), 2**63 - 1, 0], "i8").view(f"M8[{unit}]")
    _, valid = calendar.rescale(values, "us")
    assert valid.tolist() == ([True, True, False, True] if unit == "us" else [False, False, False, True])


def test_fine_datetimes_are_whole_or_an_error() -> None:
    values = np.array(["1969-12-31T23:59:59.999999", "NaT"], "M8[ns]")
    found, valid = calendar.rescale(values, "us")
    assert (found[0], valid.tolist()) == (-1, [True, False])
    with pytest.raises(ValueRangeError, match="no whole microsecond"):
        calendar.rescale(values - np.timedelta64(1, "ns"), "us")
    found, _ = calendar.rescale(values - np.timedelta64(1, "ns"), "ns")
    assert found[0] == -1001


@pytest.mark.parametrize("dtype", ["M8", "m8", "m8[Y]", "m8[M]", "M8[1500ns]"])
def test_units_without_whole_microseconds_are_refused(dtype: str) -> None:
    with pytest.raises(UnsupportedError, match="convert it to"):
        calendar.check_unit(np.dtype(dtype))


def test_dates_to_numbers_skip_holes() -> None:
    dates = np.array([cftime.DatetimeNoLeap(2000, 3, 1), None, cftime.DatetimeNoLeap(2000, 2, 28), np.nan], object)
    numbers, valid = calendar.date_numbers(dates, "days since 2000-02-28", "noleap")
    assert numbers[[0, 2]].tolist() == [1, 0]
    assert valid.tolist() == [True, False, True, False]


def test_is_date() -> None:
    assert calendar.is_date(cftime.DatetimeNoLeap(2000, 1, 1))
    assert not calendar.is_date(dt.datetime(2000, 1, 1))
