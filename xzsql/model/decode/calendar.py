"""CF time: units, calendars, and exact arithmetic from counts to instants.

An instant is an int64 count of micro- or nanoseconds since 1970-01-01T00:00:00 UTC in the proleptic Gregorian calendar,
as DuckDB and Arrow have it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from xzsql.errors import UnsupportedError, ValueRangeError

Unit = Literal["us", "ns"]

#: The first and last instant of DuckDB's TIMESTAMP; 2**63 - 1 and its negative are its infinities.
RANGE: dict[Unit, tuple[int, int]] = {
    "us": (-9_223_372_022_400_000_000, 2**63 - 2),
    "ns": (-(2**63) + 2, 2**63 - 2),
}
#: 1582-10-15, the first day of the Gregorian calendar, in microseconds; the day before it was 1582-10-04.
GREGORIAN_START = -12_219_292_800_000_000

_ATTOSECONDS = {"as": 1, "fs": 10**3, "ps": 10**6, "ns": 10**9, "us": 10**12, "ms": 10**15, "s": 10**18}
_ATTOSECONDS |= {"m": 60 * 10**18, "h": 3600 * 10**18, "D": 86400 * 10**18, "W": 7 * 86400 * 10**18}

_SPELLINGS = {
    1: "nanosecond nanoseconds nanosec nanosecs nsec nsecs ns",
    10**3: "microsecond microseconds microsec microsecs usec usecs us \u00b5s \u03bcs",
    10**6: "millisecond milliseconds millisec millisecs msec msecs ms",
    10**9: "second seconds sec secs s",
    60 * 10**9: "minute minutes min mins",
    3600 * 10**9: "hour hours hr hrs h",
    86400 * 10**9: "day days d",
    7 * 86400 * 10**9: "week weeks",
}
_NANOSECONDS = {word: size for size, words in _SPELLINGS.items() for word in words.split()}
_SINCE = re.compile(r"\s*(\S+)\s+since\s+(.*?)\s*", re.IGNORECASE | re.DOTALL)
_REFERENCE = re.compile(
    r"""
    (?: (?P<packed>\d{8}) | (?P<sign>[+-]?)(?P<year>\d{1,6}) (?: -(?P<month>\d{1,2}) (?: -(?P<day>\d{1,2}) )? )? )
    (?: (?:\s*T|\s)\s* (?P<hour>\d{1,2})
        (?: :(?P<minute>\d{1,2}) (?: :(?P<second>\d{1,2}) (?: \.(?P<fraction>\d*) )? )? )?
    )?
    (?: \s*(?P<zulu>Z|UTC|GMT) | \s*(?P<zone>[+-]\d{1,2}(?::?\d{2})?) | \s+(?P<plain>\d{1,2}(?::\d{2})?) )?
    """,
    re.IGNORECASE | re.VERBOSE,
)
_MIXED = frozenset({"standard", "gregorian"})


@dataclass(frozen=True, slots=True)
class TimeUnits:
    """Units of a time variable on a real-world calendar."""

    step: int
    """Nanoseconds in a count of one."""
    reference: int
    """Nanoseconds from 1970-01-01T00:00:00 UTC to the count of zero; any size."""
    mixed: bool
    """Whether days before 1582-10-15 are Julian, which an instant cannot say."""

    @property
    def unit(self) -> Unit:
        """The coarsest unit that holds every whole count."""
        fine = self.step % 1000 or self.reference % 1000
        low, high = RANGE["ns"]
        return "ns" if fine and low <= self.reference <= high else "us"


def duration_step(units: object) -> int | None:
    """Nanoseconds in one of a CF duration unit such as `"days"`; None for what is no duration of fixed length."""
    return _NANOSECONDS.get(units.strip().lower()) if isinstance(units, str) else None


def parse_units(units: object, calendar: object = None) -> tuple[TimeUnits | None, str]:
    """The meaning of CF time units, or None and why they stay numbers.

    Parameters
    ----------
    units
        As in ``"days since 1970-01-01 00:00:00 +05:30"``; anything but a text is no time.
    calendar
        The CF calendar; None is the standard one.

    Returns
    -------
    units, note
        ``None, ""`` where the units are not meant as a time at all.

    References
    ----------
    CF conventions 1.11, section 4.4. The offset has the sign of UDUNITS: ``12:00 -6:00`` is 18:00 UTC.

    Examples
    --------
    >>> parse_units("days since 1970-01-02", "proleptic_gregorian")
    (TimeUnits(step=86400000000000, reference=86400000000000, mixed=False), '')
    >>> parse_units("months since 1970-01-01")
    (None, "'months' have no fixed length")
    """
    match = _SINCE.fullmatch(units) if isinstance(units, str) else None
    if match is None:
        return None, ""
    word, text = match.groups()
    step = _NANOSECONDS.get(word.lower())
    if step is None:
        return None, f"{word!r} have no fixed length" if word.lower().startswith(("month", "year")) else ""
    name = "standard" if calendar is None else str(calendar).strip().lower()
    if name not in _MIXED and name != "proleptic_gregorian":
        return None, f"calendar {calendar!r} is not the calendar of SQL timestamps"
    try:
        reference = _reference(text, mixed=name in _MIXED)
    except ValueError as error:
        return None, f"reference date {text!r}: {error}"
    known = TimeUnits(step, reference, name in _MIXED)
    low, high = RANGE["us"]
    if not low <= reference // 1000 <= high or (known.unit == "us" and reference % 1000):
        return None, f"reference date {text!r} is no timestamp of SQL"
    return known, ""


def _reference(text: str, *, mixed: bool) -> int:
    """Nanoseconds since 1970-01-01 UTC; ValueError with the reason."""
    match = _REFERENCE.fullmatch(text.strip())
    if match is None:
        raise ValueError("not understood")
    part = match.groupdict()
    if part["packed"]:
        year, month, day = int(text[:4]), int(text[4:6]), int(text[6:8])
    else:
        year, month, day = int(part["year"]), int(part["month"] or 1), int(part["day"] or 1)
        if part["month"] is None and len(part["year"]) != 4:
            raise ValueError("not understood")
    if part["sign"] == "-" or (year == 0 and mixed):
        raise ValueError("the standard calendar has no year 0, and others count the years before it differently")
    clock = [int(part[name] or 0) for name in ("hour", "minute", "second")]
    fraction = (part["fraction"] or "").rstrip("0")
    if len(fraction) > 9 or clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        raise ValueError("no time of day that can be held exactly")
    days = _days(year, month, day, mixed=mixed)
    seconds = days * 86400 + clock[0] * 3600 + clock[1] * 60 + clock[2] - _offset(part)
    return seconds * 10**9 + int(fraction.ljust(9, "0"))


def _offset(part: dict[str, str | None]) -> int:
    """Seconds east of UTC."""
    zone = part["zone"] or part["plain"]
    if zone is None:
        return 0
    # a bare "2000-01-01 -6" or "2000-01-01 06 30" may be a clock or an offset: no guess
    if part["minute"] is None and (part["plain"] or part["hour"] is None):
        raise ValueError("an offset needs a time of day")
    digits = zone.lstrip("+-")
    hours, minutes = digits.split(":") if ":" in digits else (digits[:-2], digits[-2:])
    if ":" not in digits and len(digits) <= 2:
        hours, minutes = digits, "0"
    if int(hours) > 23 or int(minutes) > 59:
        raise ValueError("no offset from UTC")
    return (-1 if zone[0] == "-" else 1) * (int(hours) * 3600 + int(minutes) * 60)


def _days(year: int, month: int, day: int, *, mixed: bool) -> int:
    """Days since 1970-01-01; in the mixed calendar dates before 1582-10-15 are Julian."""
    julian = mixed and (year, month, day) < (1582, 10, 15)
    if julian and (year, month, day) > (1582, 10, 4):
        raise ValueError("the standard calendar has no such day")
    if not 1 <= month <= 12:
        raise ValueError("no such month")
    first = _first_of_month(year, month, julian)
    if not 1 <= day <= _first_of_month(year + month // 12, month % 12 + 1, julian) - first:
        raise ValueError("no such day")
    return first + day - 1


def _first_of_month(year: int, month: int, julian: bool) -> int:
    # years from March, so that the leap day is the last of its year; 30.6 days a month from there
    shifted = year - (month < 3)
    days = shifted * 365 + shifted // 4 + (153 * ((month + 9) % 12) + 2) // 5
    return days - 719_470 if julian else days - shifted // 100 + shifted // 400 - 719_468


def instants(counts: Any, units: TimeUnits, unit: Unit, valid: Any = None) -> tuple[Any, Any]:
    """Counts as instants, exactly.

    Parameters
    ----------
    counts
        1-D, any integer or floating dtype. A float is split into whole and fraction; the fraction of a step is rounded
        to the nearest of `unit` (half to even).
    units, unit
        What a count means, and the unit of the result.
    valid
        1-D bool: cells that are looked at; None: all.

    Returns
    -------
    instants, inside
        int64, and where they are within `RANGE`; None: everywhere.

    Raises
    ------
    ValueRangeError
        A count of nanoseconds that is no whole `unit`: it is never rounded.
    """
    if counts.dtype.kind != "f":
        return _of_integers(counts, units, unit, valid)
    counts = counts.astype(np.float64)
    usable = np.abs(counts) < 2.0**63
    whole_part = np.where(usable, counts, 0.0)
    if units.step == 1:
        found, inside = _of_integers(np.rint(whole_part).astype(np.int64), units, unit, valid)
        return found, usable if inside is None else usable & inside
    per = 1000 if unit == "us" else 1
    step, low, high = units.step // per, *RANGE[unit]
    whole = np.trunc(whole_part)
    part = np.rint((whole_part - whole) * step).astype(np.int64)
    base, inside = affine(whole.astype(np.int64), step, units.reference // per, low, high)
    room = (base <= high - np.maximum(part, 0)) & (base >= low - np.minimum(part, 0)) & usable
    return base + part, room if inside is None else room & inside


def _of_integers(counts: Any, units: TimeUnits, unit: Unit, valid: Any) -> tuple[Any, Any]:
    low, high = RANGE[unit]
    per = 1000 if unit == "us" else 1
    if units.step % per == 0:
        return affine(counts, units.step // per, units.reference // per, low, high)
    wide = counts if counts.dtype == np.uint64 else counts.astype(np.int64)
    quotient = wide // 1000
    rest = (wide - quotient * 1000).astype(np.int64) + units.reference % 1000
    _all_whole(rest % 1000 == 0, valid, unit)
    base, inside = affine(quotient, 1, units.reference // 1000, low, high - 1)
    return base + rest // 1000, inside


def affine(counts: Any, step: int, offset: int, low: int, high: int) -> tuple[Any, Any]:
    """`counts * step + offset` as int64, and where it is within `low..high` (None: everywhere); nothing wraps."""
    info = np.iinfo(counts.dtype)
    first, last = -((offset - low) // step), (high - offset) // step
    inside: Any = None
    if first > info.max or last < info.min:
        inside = np.zeros(counts.shape, dtype=bool)
    elif first > info.min or last < info.max:
        inside = (counts >= max(first, info.min)) & (counts <= min(last, info.max))
        inside = None if inside.all() else inside
    if step == 1 and offset == 0 and counts.dtype == np.int64:
        return counts, inside
    # modulo 2**64 every sum whose result fits is right, whatever its terms
    modular = counts.astype(np.uint64) * np.uint64(step % 2**64) + np.uint64(offset % 2**64)
    return modular.view(np.int64), inside


def rescale(values: Any, unit: Unit, valid: Any = None, *, kind: str = "timestamp") -> tuple[Any, Any]:
    """datetime64 or timedelta64 (1-D, any unit) as int64 of `unit`, and where they are values within range.

    NaT is not; None: everywhere. ValueRangeError where a value is no whole `unit`.
    """
    base, multiple = np.datetime_data(values.dtype)
    raw = values.astype(values.dtype.newbyteorder("="), copy=False).view(np.int64)
    seen = raw != np.iinfo(np.int64).min
    if base in ("Y", "M"):
        # beyond DuckDB's range anyway, and numpy would wrap
        seen &= np.abs(raw) < 4_000_000 // multiple
        raw = np.where(seen, raw, 0).view(values.dtype.newbyteorder("=")).astype("datetime64[D]").view(np.int64)
        base, multiple = "D", 1
    low, high = RANGE[unit] if kind == "timestamp" else (-(2**63) + 2, 2**63 - 2)
    step, target = _ATTOSECONDS[base] * multiple, _ATTOSECONDS[unit]
    if step % target == 0:
        found, inside = affine(raw, step // target, 0, low, high)
    else:
        quotient = raw // (target // step)
        _all_whole(quotient * (target // step) == raw, seen if valid is None else seen & valid, unit)
        found, inside = quotient, None
    inside = seen if inside is None else seen & inside
    return found, None if inside.all() else inside


def check_unit(dtype: np.dtype[Any]) -> None:
    """UnsupportedError for a datetime64 or timedelta64 that `rescale` has no rule for."""
    base, multiple = np.datetime_data(dtype)
    size = _ATTOSECONDS.get(base, 0) * multiple
    if base in ("Y", "M") and dtype.kind == "M":
        return
    if not size or (size % _ATTOSECONDS["us"] and _ATTOSECONDS["us"] % size):
        raise UnsupportedError(f"{dtype} has no whole number of microseconds; convert it to {dtype.kind}8[us]")


def _all_whole(whole: Any, valid: Any, unit: Unit) -> None:
    if not (whole if valid is None else whole | ~valid).all():
        word = "microsecond" if unit == "us" else "nanosecond"
        raise ValueRangeError(
            f"a value is no whole {word}, and values are never rounded; convert the variable to {unit} first, "
            "or load times into memory, which makes them TIMESTAMP_NS"
        )


def is_date(value: object) -> bool:
    """Whether this is a cftime date, without importing cftime."""
    return any(cls.__module__.startswith("cftime") for cls in type(value).__mro__)


def date_numbers(dates: Any, units: str, calendar: str) -> tuple[Any, Any]:
    """Cftime dates (1-D object array, holes None or NaN) as numbers, and where they are dates (None: everywhere)."""
    # optional, but there where its dates are
    import cftime

    valid = ~pd.isna(dates)
    if not valid.any():
        return np.zeros(len(dates), dtype=np.int64), valid
    counted = np.asarray(cftime.date2num(dates[valid], units, calendar=calendar))
    numbers = np.zeros(len(dates), dtype=counted.dtype)
    numbers[valid] = counted
    return numbers, None if valid.all() else valid
