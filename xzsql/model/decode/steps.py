"""The steps of decoding, each a pure function of a 1-D array: `step(raw) -> values, valid`.

`valid` is None where every value is; what `raw` is must not change.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from xzsql.errors import ValueRangeError, XzsqlWarning
from xzsql.model.decode import attributes, calendar

Step = Callable[[Any], tuple[Any, Any]]


def both(a: Any, b: Any) -> Any:
    """The conjunction of two masks, either of which may be None for all."""
    return b if a is None else a if b is None else a & b


def _masked(values: Any, sentinels: list[Any]) -> Any:
    valid = None
    for sentinel in sentinels:
        hit = values == sentinel
        if hit.any():
            valid = both(valid, ~hit)
    return valid


def integers(meant: np.dtype[Any], sentinels: list[int]) -> Step:
    """Native integers, read as signed or unsigned."""

    def step(raw: Any) -> tuple[Any, Any]:
        values = raw.astype(raw.dtype.newbyteorder("="), copy=False)
        values = values if values.dtype == meant else np.ascontiguousarray(values).view(meant)
        return values, _masked(values, sentinels)

    return step


def floats(target: np.dtype[Any], sentinels: list[Any], *, nan: bool) -> Step:
    """Native floats or complex numbers; sentinels are compared in the stored type, `nan` masks NaN."""

    def step(raw: Any) -> tuple[Any, Any]:
        valid = _masked(raw, sentinels)
        values = raw.astype(target, copy=False)
        # one sum shows that there is no NaN; inf - inf gives one too, so look again
        if nan and values.size and np.isnan(values.sum()):
            valid = _no_nan(values, valid)
        return values, valid

    return step


def _no_nan(values: Any, valid: Any) -> Any:
    hole = np.isnan(values)
    return both(valid, ~hole) if hole.any() else valid


def unpack(step: Step, packing: attributes.Packing) -> Step:
    """`stored * scale + offset` in float64, rounded after each operation as numpy does."""

    def unpacked(raw: Any) -> tuple[Any, Any]:
        stored, valid = step(raw)
        values = stored.astype(np.float64)
        if packing.scale is not None:
            values *= packing.scale
        if packing.offset is not None:
            values += packing.offset
        return values, valid

    return unpacked


def before_gregorian(found: Any, valid: Any, unit: calendar.Unit) -> Any:
    """Where instants are before 1582-10-15."""
    before = found < calendar.GREGORIAN_START * (1 if unit == "us" else 1000)
    return before if valid is None else before & valid


class _Gregorian:
    """Masks days before 1582-10-15, and warns of the first."""

    def __init__(self, unit: calendar.Unit) -> None:
        self._unit = unit
        self._lock = threading.Lock()
        self._warned = False

    def only(self, found: Any, valid: Any) -> Any:
        before = before_gregorian(found, valid, self._unit)
        if not before.any():
            return valid
        with self._lock:
            first, self._warned = not self._warned, True
        if first:
            warnings.warn(
                "dates before 1582-10-15 in the standard calendar are NULL: there SQL timestamps name other days; "
                "decode_times=False gives the stored numbers",
                XzsqlWarning,
                stacklevel=2,
            )
        return both(valid, ~before)


def counted_instants(step: Step, units: calendar.TimeUnits, unit: calendar.Unit) -> Step:
    """Counts since a reference date as datetime64."""
    gregorian = _Gregorian(unit)

    def count(raw: Any) -> tuple[Any, Any]:
        stored, valid = _without_holes(*step(raw))
        found, inside = calendar.instants(stored, units, unit, valid)
        valid = both(valid, inside)
        return found.view(f"M8[{unit}]"), gregorian.only(found, valid) if units.mixed else valid

    return count


def counted_durations(step: Step, size: int) -> Step:
    """Counts of `size` nanoseconds as timedelta64[us]."""
    units = calendar.TimeUnits(size, 0, mixed=False)

    def count(raw: Any) -> tuple[Any, Any]:
        stored, valid = _without_holes(*step(raw))
        found, inside = calendar.instants(stored, units, "us", valid)
        _within(inside, valid)
        return found.view("m8[us]"), valid

    return count


def _without_holes(stored: Any, valid: Any) -> tuple[Any, Any]:
    """Counts whose NaN, and the number of NaT, which xarray writes for one without saying so, are NULL."""
    if stored.dtype.kind == "f":
        return stored, _no_nan(stored, valid)
    if stored.dtype == np.int64 and (hole := stored == np.iinfo(np.int64).min).any():
        return stored, both(valid, ~hole)
    return stored, valid


def _within(inside: Any, valid: Any) -> None:
    if inside is not None and not (inside if valid is None else inside | ~valid).all():
        raise ValueRangeError("a duration is longer than the 292,271 years that INTERVAL holds in microseconds")


def instants(unit: calendar.Unit) -> Step:
    """datetime64 of any unit."""

    def step(raw: Any) -> tuple[Any, Any]:
        found, valid = calendar.rescale(raw, unit)
        return found.view(f"M8[{unit}]"), valid

    return step


def durations(raw: Any) -> tuple[Any, Any]:
    """timedelta64 of any unit."""
    found, inside = calendar.rescale(raw, "us", kind="duration")
    hole = np.isnat(raw)
    valid = ~hole if hole.any() else None
    _within(inside, valid)
    return found.view("m8[us]"), valid


def dates(units: str, name: str, target: np.dtype[Any]) -> Step:
    """Cftime objects as numbers of a dtype."""

    def step(raw: Any) -> tuple[Any, Any]:
        numbers, valid = calendar.date_numbers(raw, units, name)
        if target.kind == "i" and not (numbers == np.rint(numbers)).all():
            raise ValueRangeError(f"a date is no whole number of {units!r}, as its encoding has it")
        return numbers.astype(target, copy=False), valid

    return step
