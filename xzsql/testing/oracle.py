"""The eager table of every cell, computed in the plainest way from the rules on values and names.

It shares no code with the package: an answer of xzsql is right where it equals the answer of the same SQL on these
tables. Everything is read into memory, and times are computed cell by cell with exact fractions.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import cftime
import numpy as np
import pandas as pd
import pyarrow as pa
import xarray as xr

#: Microseconds of a TIMESTAMP; beyond it there is no value, and the last ones mean infinity.
TIMESTAMP_RANGE = (-9_223_372_022_400_000_000, 9_223_372_036_854_775_806)
_GREGORIAN_START = 2_299_161  # the Julian day number of 1582-10-15
_EPOCH = 2_440_588  # and of 1970-01-01
_REAL_WORLD = {"standard", "gregorian", "proleptic_gregorian", ""}
_NANOSECONDS = {
    "week": 604_800 * 10**9,
    "day": 86_400 * 10**9,
    "d": 86_400 * 10**9,
    "hour": 3600 * 10**9,
    "hr": 3600 * 10**9,
    "h": 3600 * 10**9,
    "minute": 60 * 10**9,
    "min": 60 * 10**9,
    "second": 10**9,
    "sec": 10**9,
    "s": 10**9,
    "millisecond": 10**6,
    "millisec": 10**6,
    "msec": 10**6,
    "ms": 10**6,
    "microsecond": 10**3,
    "microsec": 10**3,
    "us": 10**3,
    "nanosecond": 1,
    "nanosec": 1,
    "ns": 1,
}
_SINCE = re.compile(
    r"\s*(?P<unit>[A-Za-z]+)\s+since\s+(?P<y>-?\d+)-(?P<m>\d+)-(?P<d>\d+)"
    r"(?:[T\s]+(?P<H>\d+)(?::(?P<M>\d+)(?::(?P<S>\d+)(?P<f>\.\d*)?)?)?)?"
    r"\s*(?P<zone>Z|UTC|[+-]?\d{1,2}:?\d{2}|[+-]\d{1,2})?\s*$"
)


@dataclass(frozen=True, slots=True)
class Rules:
    """The options of `xzsql.open` that change values."""

    decode_times: bool = True
    decode_timedelta: bool = False
    nan_as_null: bool = True


def frames(target: xr.Dataset | xr.DataArray | xr.DataTree, rules: Rules = Rules()) -> dict[tuple[str, str], pa.Table]:
    """Every table of the target, whole: `{(schema, table): table}`.

    Names that collide are not handled here; a target that has some raises ValueError.
    """
    if isinstance(target, xr.DataTree):
        found: dict[tuple[str, str], pa.Table] = {}
        for node in target.subtree:
            schema = node.path.strip("/") or "main"
            for name, table in _tables(node.to_dataset(inherit=True), rules).items():
                found[schema, name] = table
        return found
    if isinstance(target, xr.DataArray):
        target = target.to_dataset(name="value" if target.name is None else target.name)
    return {("main", name): table for name, table in _tables(target, rules).items()}


def _tables(dataset: xr.Dataset, rules: Rules) -> dict[str, pa.Table]:
    dataset = _with_coordinates(dataset)
    metadata = _metadata_names(dataset)
    levels = _multiindex_levels(dataset)
    internal = {name for names in levels.values() for name in names} | set(levels)
    auxiliary = [n for n in dataset.coords if n not in metadata and n not in internal and dataset[n].dims != (n,)]
    by_dims: dict[tuple[Any, ...], list[Any]] = {}
    for name, variable in dataset.data_vars.items():
        if name not in metadata:
            by_dims.setdefault(variable.dims, []).append(name)
    for name in auxiliary:
        if not any(set(dataset[name].dims) <= set(dims) for dims in by_dims):
            by_dims.setdefault(dataset[name].dims, [])
    found: dict[str, pa.Table] = {}
    for dims, names in by_dims.items():
        title = "_".join(map(str, dims)) or "scalar"
        if title.lower() in {known.lower() for known in found}:
            raise ValueError(f"two tables are called {title!r}; the oracle knows no names for them")
        own = [n for n in auxiliary if set(dataset[n].dims) <= set(dims)]
        found[title] = _table(dataset, dims, [*own, *names], levels, rules)
    return found


def _with_coordinates(dataset: xr.Dataset) -> xr.Dataset:
    """What an undecoded `coordinates` attribute names is a coordinate."""
    named: set[str] = set()
    for variable in dataset.variables.values():
        named.update(str(variable.attrs.get("coordinates", "")).split())
    named.update(str(dataset.attrs.get("coordinates", "")).split())
    return dataset.set_coords([n for n in dataset.data_vars if n in named])


def _metadata_names(dataset: xr.Dataset) -> set[Any]:
    """Bounds, grid-mapping containers and mesh topologies: in no table."""
    names: set[Any] = set()
    for variable in dataset.variables.values():
        for source in (variable.attrs, variable.encoding):
            names.update(str(source.get("bounds", "")).split())
            names.update(str(source.get("climatology", "")).split())
            names.update(re.findall(r"[\w.]+", str(source.get("grid_mapping", ""))))
    for name, variable in dataset.variables.items():
        if re.search(r"_(bnds|bounds)$", str(name)) and variable.ndim == 2 and variable.shape[1] == 2:
            names.add(name)
        if "grid_mapping_name" in variable.attrs or "cf_role" in variable.attrs:
            names.add(name)
    return names & set(dataset.variables)


def _multiindex_levels(dataset: xr.Dataset) -> dict[Any, list[Any]]:
    return {
        name: [str(level) for level in index.names]
        for name, index in dataset.indexes.items()
        if isinstance(index, pd.MultiIndex) and name in dataset.dims
    }


def _table(
    dataset: xr.Dataset, dims: tuple[Any, ...], names: list[Any], levels: dict[Any, list[Any]], rules: Rules
) -> pa.Table:
    shape = tuple(dataset.sizes[d] for d in dims)
    positions = dict(zip(dims, np.indices(shape).reshape(len(dims), math.prod(shape)), strict=True))
    columns: list[pa.Array] = []
    titles: list[str] = []

    def add(title: Any, array: pa.Array) -> None:
        unique, i = str(title), 0
        while unique.lower() in {t.lower() for t in titles}:
            i += 1
            unique = f"{title}_{i}"
        titles.append(unique)
        columns.append(array)

    for d in dims:
        if d in levels:
            for level in levels[d]:
                add(level, cells(dataset[level].variable, rules).take(pa.array(positions[d])))
        elif d in dataset.coords and dataset[d].dims == (d,):
            add(d, cells(dataset[d].variable, rules, axis=True).take(pa.array(positions[d])))
        else:
            add(d, pa.array(positions[d], pa.int64()))
    for name in names:
        variable = dataset[name].variable
        flat = np.zeros(math.prod(shape), np.int64)
        for d, n in zip(variable.dims, variable.shape, strict=True):
            flat = flat * n + positions[d]
        add(name, cells(variable, rules).take(pa.array(flat)))
    return pa.Table.from_arrays(columns, names=titles)


def cells(variable: xr.Variable, rules: Rules = Rules(), *, axis: bool = False) -> pa.Array:
    """The decoded cells of one variable in row-major order; `axis` says that it is an index coordinate."""
    if isinstance(variable.dtype, pd.api.extensions.ExtensionDtype):
        return _extension(variable.data)
    values = np.asarray(variable.values).reshape(-1)
    attrs = variable.attrs
    values = values.astype(values.dtype.newbyteorder("=")) if values.dtype.kind in "iufcmM" else values
    match values.dtype.kind:
        case "b":
            return pa.array(values, pa.bool_())
        case "i" | "u" | "f":
            return _numbers(values, attrs, rules, axis)
        case "M":
            return _datetimes(values)
        case "m":
            whole = values.astype("timedelta64[us]")
            return pa.array(whole.astype(np.int64), pa.int64(), mask=np.isnat(values)).cast(pa.duration("us"))
        case "c":
            part = pa.float32() if values.dtype.itemsize == 8 else pa.float64()
            return pa.StructArray.from_arrays(
                [pa.array(values.real.copy(), part), pa.array(values.imag.copy(), part)], names=["re", "im"]
            )
        case "V" if values.dtype.names:
            fields = [cells(xr.Variable(("i",), values[f].copy())) for f in values.dtype.names]
            return pa.StructArray.from_arrays(fields, names=list(values.dtype.names))
        case "S":
            return pa.array([v.decode("utf-8") for v in values.tolist()], pa.string())
        case "U" | "T":
            return pa.array([None if _is_missing(v) else str(v) for v in values.tolist()], pa.string())
        case "O":
            return _objects(values, variable, rules, axis)
    raise TypeError(f"no rule for {values.dtype}")


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def _extension(data: Any) -> pa.Array:
    array = getattr(data, "array", data)
    if isinstance(array, pd.Categorical):
        return pa.array([None if _is_missing(v) else v for v in array.tolist()])
    kind = array.dtype.numpy_dtype if hasattr(array.dtype, "numpy_dtype") else None
    values = [None if _is_missing(v) else v for v in array.tolist()]
    return pa.array(values, pa.from_numpy_dtype(kind) if kind is not None and kind.kind in "biuf" else pa.string())


def _objects(values: Any, variable: xr.Variable, rules: Rules, axis: bool) -> pa.Array:
    known = [v for v in values.tolist() if not _is_missing(v)]
    if known and all(isinstance(v, cftime.datetime) for v in known):
        calendar = known[0].calendar
        units = variable.encoding.get("units", "microseconds since 1970-01-01")
        numbers = [None if _is_missing(v) else cftime.date2num(v, units, calendar) for v in values.tolist()]
        kind = pa.int64() if all(isinstance(n, int | np.integer) for n in numbers if n is not None) else pa.float64()
        return _times(
            [None if n is None else n.item() if hasattr(n, "item") else n for n in numbers],
            pa.array(numbers, kind), units, calendar, axis, rules,
        )  # fmt: skip
    if all(isinstance(v, str) for v in known):
        return pa.array([None if _is_missing(v) else v for v in values.tolist()], pa.string())
    if all(isinstance(v, bytes) for v in known):
        return pa.array([None if _is_missing(v) else v.decode("utf-8") for v in values.tolist()], pa.string())
    raise TypeError(f"objects of {type(known[0]).__name__} are in no table")


def _numbers(values: Any, attrs: dict[Any, Any], rules: Rules, axis: bool) -> pa.Array:
    missing = masked(values, attrs)
    if rules.nan_as_null and values.dtype.kind == "f":
        missing |= np.isnan(values)
    if values.dtype.kind in "iu" and str(attrs.get("_Unsigned", "")).lower() in ("true", "false"):
        sign = "u" if str(attrs["_Unsigned"]).lower() == "true" else "i"
        values = values.view(f"{sign}{values.dtype.itemsize}")
    if values.dtype.kind in "iu" and ("scale_factor" in attrs or "add_offset" in attrs):
        packed = values.astype(np.float64)
        if "scale_factor" in attrs:
            packed = packed * np.float64(attrs["scale_factor"])
        if "add_offset" in attrs:
            packed = packed + np.float64(attrs["add_offset"])
        return pa.array(packed, pa.float64(), mask=missing)
    if values.dtype == np.float16:
        values = values.astype(np.float32)
    plain = pa.array(values, pa.from_numpy_dtype(values.dtype), mask=missing)
    units = str(attrs.get("units", ""))
    not_a_time = missing | (values == np.iinfo(np.int64).min) if values.dtype == np.int64 else missing
    numbers = [None if m else v for v, m in zip(values.tolist(), not_a_time.tolist(), strict=True)]
    if " since " in units.lower() and rules.decode_times:
        return _times(numbers, plain, units, attrs.get("calendar", "standard"), axis, rules)
    if str(attrs.get("dtype", "")).startswith("timedelta64") or (rules.decode_timedelta and _unit(units)):
        size = _unit(units)
        if size:
            spans = [None if n is None else _rounded(n, size) for n in numbers]
            return pa.array(spans, pa.int64()).cast(pa.duration("us"))
    return plain


def masked(values: Any, attrs: dict[Any, Any]) -> Any:
    """Which stored values are equal to a sentinel."""
    found = np.zeros(values.shape, bool)
    for key in ("_FillValue", "missing_value"):
        for sentinel in np.atleast_1d(np.asarray(attrs.get(key, []))).tolist():
            if isinstance(sentinel, str | bytes | bool) or sentinel is None:
                continue
            if values.dtype.kind in "iu":
                limits = np.iinfo(values.dtype)
                if not math.isfinite(sentinel) or int(sentinel) != sentinel or not limits.min <= sentinel <= limits.max:
                    continue
                found |= values == values.dtype.type(int(sentinel))
            elif math.isnan(sentinel):
                found |= np.isnan(values)
            else:
                with np.errstate(over="ignore"):
                    found |= values == values.dtype.type(sentinel)
    return found


def _unit(name: str) -> int | None:
    """Nanoseconds of a unit of time; None for months, years, a bare m and what is none."""
    word = name.strip().lower()
    return _NANOSECONDS.get(word) or (_NANOSECONDS.get(word[:-1]) if word.endswith("s") else None)


def _rounded(value: float, nanoseconds: int) -> int | None:
    if not math.isfinite(value):
        return None
    return round(Fraction(value) * Fraction(nanoseconds, 1000))


def julian_day(year: int, month: int, day: int, *, gregorian: bool) -> int:
    """The Julian day number that begins at noon of a date (Fliegel and Van Flandern 1968; astronomical years)."""
    a = (14 - month) // 12
    y, m = year + 4800 - a, month + 12 * a - 3
    number = day + (153 * m + 2) // 5 + 365 * y + y // 4
    return number - y // 100 + y // 400 - 32045 if gregorian else number - 32083


def _reference(match: re.Match[str], calendar: str) -> int:
    """Nanoseconds from 1970 to the reference date."""
    date = int(match["y"]), int(match["m"]), int(match["d"])
    mixed = calendar != "proleptic_gregorian"
    gregorian = not mixed or date >= (1582, 10, 15)
    day = julian_day(*date, gregorian=gregorian) - _EPOCH
    seconds = int(match["H"] or 0) * 3600 + int(match["M"] or 0) * 60 + int(match["S"] or 0)
    fraction = Fraction("0" + match["f"]) if match["f"] and match["f"] != "." else Fraction(0)
    zone = match["zone"] or "Z"
    if zone not in ("Z", "UTC"):
        sign = -1 if zone.startswith("-") else 1
        digits = zone.lstrip("+-").replace(":", "")
        hours, minutes = (digits, "0") if len(digits) <= 2 else (digits[:-2], digits[-2:])
        seconds -= sign * (int(hours) * 3600 + int(minutes) * 60)
    return (day * 86_400 + seconds) * 10**9 + int(fraction * 10**9)


def _times(numbers: list[Any], plain: pa.Array, units: str, calendar: str, axis: bool, rules: Rules) -> pa.Array:
    match = _SINCE.match(units)
    size = _unit(match["unit"]) if match else None
    calendar = str(calendar).lower()
    if not rules.decode_times or match is None or size is None or calendar not in _REAL_WORLD:
        return plain
    start = _reference(match, calendar)
    earliest = (_GREGORIAN_START - _EPOCH) * 86_400 * 10**6
    exact = [
        None if n is None or (isinstance(n, float) and not math.isfinite(n)) else Fraction(n) * size + start
        for n in numbers
    ]
    if calendar != "proleptic_gregorian":
        early = [t is not None and t < earliest * 1000 for t in exact]
        if axis and any(early):
            return plain
        exact = [None if e else t for e, t in zip(early, exact, strict=True)]
    low, high = TIMESTAMP_RANGE
    micros = [None if t is None else round(t / 1000) for t in exact]
    if size == 1 and any(t is not None and t.denominator == 1 and t % 1000 for t in exact):
        return pa.array([None if t is None else int(t) for t in exact], pa.int64()).cast(pa.timestamp("ns"))
    return pa.array([None if t is None or not low <= t <= high else t for t in micros], pa.int64()).cast(
        pa.timestamp("us")
    )


def _datetimes(values: Any) -> pa.Array:
    missing = np.isnat(values)
    unit = np.datetime_data(values.dtype)[0]
    per = {"s": 10**6, "ms": 1000, "us": 1, "ns": Fraction(1, 1000)}[unit]
    numbers = [None if m else n for n, m in zip(values.astype(np.int64).tolist(), missing.tolist(), strict=True)]
    if unit == "ns" and any(n is not None and n % 1000 for n in numbers):
        return pa.array(numbers, pa.int64()).cast(pa.timestamp("ns"))
    low, high = TIMESTAMP_RANGE
    micros = [None if n is None else int(n * per) for n in numbers]
    return pa.array([None if n is None or not low <= n <= high else n for n in micros], pa.int64()).cast(
        pa.timestamp("us")
    )


def rows_of(table: pa.Table, *, zero_sign: bool = True) -> Counter[tuple[Any, ...]]:
    """The multiset of rows, each value as its bits; every NaN is one value."""
    plain = [_bits(_flat(column), zero_sign) for column in table.columns]
    return Counter(zip(*plain, strict=True)) if plain else Counter({(): table.num_rows})


def same_rows(a: pa.Table, b: pa.Table, *, zero_sign: bool = True) -> bool:
    """Whether two tables have the same columns, types and rows, in any order.

    Values are compared to the bit: NaN equals NaN; -0.0 and 0.0 differ, unless `zero_sign` is False.
    """
    return difference(a, b, zero_sign=zero_sign) == ""


def difference(a: pa.Table, b: pa.Table, *, zero_sign: bool = True) -> str:
    """What is different in two tables, as text for an assertion; '' where nothing is."""
    types = [[(f.name, str(_plain_type(f.type))) for f in t.schema] for t in (a, b)]
    if types[0] != types[1]:
        return f"columns {types[0]} against {types[1]}"
    left, right = rows_of(a, zero_sign=zero_sign), rows_of(b, zero_sign=zero_sign)
    if left == right:
        return ""
    extra, lost = list((left - right).elements()), list((right - left).elements())
    return (
        f"{a.num_rows} rows against {b.num_rows}; columns {a.column_names}; "
        f"only in the first {extra[:3]}; only in the second {lost[:3]}"
    )


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        return pa.string()
    if pa.types.is_large_binary(kind) or kind == pa.binary_view():
        return pa.binary()
    return kind


def _flat(column: Any) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_run_end_encoded(array.type):
        array = pa.compute.run_end_decode(array)
    return array


def _bits(array: pa.Array, zero_sign: bool) -> list[Any]:
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return list(array.cast(pa.int64()).to_pylist())
    if pa.types.is_struct(kind):
        whole = [_bits(_flat(array.field(i)), zero_sign) for i in range(kind.num_fields)]
        return [tuple(v) if ok else None for ok, *v in zip(array.is_valid().to_pylist(), *whole, strict=True)]
    if pa.types.is_floating(kind):
        return [None if v is None else _float_bits(v, zero_sign) for v in array.to_pylist()]
    return [tuple(map(str, v)) if isinstance(v, list) else v for v in array.to_pylist()]


def _float_bits(value: float, zero_sign: bool) -> bytes | str:
    if math.isnan(value):
        return "NaN"
    return struct.pack(">d", value if zero_sign or value != 0 else 0.0)
