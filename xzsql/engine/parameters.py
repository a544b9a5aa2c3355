"""Values for `?` and `$name`: numpy and pandas scalars as the DuckDB values of their type."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from duckdb.value import constant

from xzsql.errors import InvalidInputError, UnsupportedError

_NUMBERS: dict[type[np.generic], type[constant.Value]] = {
    np.bool_: constant.BooleanValue,
    np.int8: constant.BinaryValue,
    np.int16: constant.ShortValue,
    np.int32: constant.IntegerValue,
    np.int64: constant.LongValue,
    np.uint8: constant.UnsignedBinaryValue,
    np.uint16: constant.UnsignedShortValue,
    np.uint32: constant.UnsignedIntegerValue,
    np.uint64: constant.UnsignedLongValue,
    np.float16: constant.FloatValue,
    np.float32: constant.FloatValue,
    np.float64: constant.DoubleValue,
}
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
#: Values of DuckDB's TIMESTAMP, in microseconds; the last two at each end mean infinity.
_TIMESTAMP_RANGE = range(-(2**63) + 2, 2**63 - 1)

type Parameters = Sequence[Any] | Mapping[str, Any] | None


def converted(params: Parameters) -> list[Any] | dict[str, Any] | None:
    """The parameters as DuckDB reads them exactly.

    Raises
    ------
    InvalidInputError
        Neither a sequence nor a mapping with names as keys.
    UnsupportedError
        A value that has no DuckDB type.
    """
    if params is None:
        return None
    if isinstance(params, Mapping):
        return {_named(k): value(v, f"${k}") for k, v in params.items()}
    if isinstance(params, str | bytes) or not isinstance(params, Sequence | np.ndarray):
        raise InvalidInputError(
            f"parameters are a list for ? or a dict for $name, got {params!r}; a single value goes as [{params!r}]"
        )
    return [value(v, f"${i}") for i, v in enumerate(params, 1)]


def _named(key: object) -> str:
    if not isinstance(key, str):
        raise InvalidInputError(f"the names of parameters are texts, got {key!r}; as in {{'lat': 50}} for $lat")
    return key


def value(given: Any, name: str) -> Any:
    """One value; `name` is for messages."""
    if getattr(given, "shape", None) == () and not isinstance(given, np.generic):
        given = np.asarray(given)[()]  # an array of one cell, such as ds.lat[3]
    if isinstance(given, np.generic):
        return _numpy(given, name)
    if type(given).__name__ in ("NaTType", "NAType"):
        return None
    if isinstance(given, constant.Value):
        return given
    match given:
        case None | bool() | dt.timedelta():
            return given
        case dt.datetime() if hasattr(given, "to_datetime64"):  # a pandas Timestamp
            return _pandas_time(given, name)
        case int() | float() | str() | bytes() | dt.date() | dt.time():
            return given
        case list() | tuple():
            return [value(v, name) for v in given]
        case np.ndarray():
            return [value(v, name) for v in given]
        case dict():
            return {k: value(v, name) for k, v in given.items()}
    return _other(given, name)


def _numpy(given: np.generic, name: str) -> Any:
    match given:
        case np.datetime64():
            return _time(given, name)
        case np.timedelta64():
            return _span(given, name)
        case np.str_() | np.bytes_():
            return given.item()
    if type(given) in _NUMBERS:
        made: Any = _NUMBERS[type(given)]  # each takes the value alone, unlike their base class
        return made(given.item())
    return _other(given, name)


def _other(given: Any, name: str) -> Any:
    kind = f"{type(given).__module__}.{type(given).__qualname__}"
    if kind.startswith("cftime"):
        calendar = getattr(given, "calendar", "?")
        raise UnsupportedError(
            f"parameter {name} is {given!r}, a date of the calendar {calendar!r}, which SQL does not have; a table "
            "with such a time axis has numbers there: pass cftime.date2num(date, units, calendar)"
        )
    if isinstance(given, np.generic | set | frozenset) or kind.startswith(("numpy", "pandas", "xarray")):
        raise UnsupportedError(f"parameter {name} is {given!r} of type {kind}, which has no DuckDB type")
    return given  # Decimal, UUID and what else DuckDB may know


def _time(given: np.datetime64, name: str) -> Any:
    """TIMESTAMP where the value is a whole microsecond, as the columns are; else TIMESTAMP_NS."""
    if np.isnat(given):
        return None
    unit, step = np.datetime_data(given.dtype)
    if unit in ("ps", "fs", "as", "generic"):
        raise UnsupportedError(f"parameter {name} is {given!r}: SQL has times down to nanoseconds")
    if unit == "ns":
        nanoseconds = int(given.astype(np.int64)) * step
        if nanoseconds % 1000:
            return constant.TimestampNanosecondValue(str(given.astype("datetime64[ns]")).replace("T", " "))
        return _microseconds(nanoseconds // 1000, given, name)
    if unit in ("Y", "M"):  # no fixed length, so by way of days
        given = given.astype("datetime64[D]")
        unit, step = "D", 1
    per = {"W": 604_800_000_000, "D": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000}
    per |= {"s": 1_000_000, "ms": 1_000, "us": 1}
    return _microseconds(int(given.astype(np.int64)) * step * per[unit], given, name)


def _microseconds(count: int, given: object, name: str) -> Any:
    if count not in _TIMESTAMP_RANGE:
        raise UnsupportedError(f"parameter {name} is {given!r}, out of the range of TIMESTAMP")
    try:
        return _EPOCH + count * _MICROSECOND
    except OverflowError:  # beyond the years of datetime
        return constant.TimestampValue(str(np.datetime64(count, "us")).replace("T", " "))


def _span(given: np.timedelta64, name: str) -> Any:
    if np.isnat(given):
        return None
    exact = given.astype("timedelta64[us]")
    if np.datetime_data(given.dtype)[0] in ("Y", "M", "generic") or exact != given:
        raise UnsupportedError(f"parameter {name} is {given!r}: INTERVAL has whole microseconds")
    return dt.timedelta(microseconds=int(exact.astype(np.int64)))


def _pandas_time(given: Any, name: str) -> Any:
    if given.tzinfo is None:
        return _time(given.to_datetime64(), name)
    if given.nanosecond:
        raise UnsupportedError(f"parameter {name} is {given!r}: TIMESTAMP WITH TIME ZONE has whole microseconds")
    return given.to_pydatetime()
