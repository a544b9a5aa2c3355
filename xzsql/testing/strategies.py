"""Hypothesis strategies: datasets of every shape and type that has a rule, and queries on their tables."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import xarray as xr
from hypothesis import reject
from hypothesis import strategies as st
from zarr.storage import MemoryStore

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64", "float16")
TIMES = ("datetime64[ns]", "datetime64[us]", "datetime64[s]")
PLAIN = (
    "bool",
    *INTEGERS,
    *FLOATS,
    ">i2",
    ">f8",
    *TIMES,
    "timedelta64[s]",
    "timedelta64[ns]",
    "str",
    "object",
    "bytes",
)
IN_MEMORY_ONLY = ("complex64", "complex128", "structured", "StringDType")

#: How a dataset is held: as it was made, as dask arrays, or in Zarr: opened undecoded, decoded, decoded as dask.
STORAGES = ("memory", "dask", "zarr-raw", "zarr", "zarr-dask")


@dataclass(frozen=True)
class Query:
    """SQL that means the same on xzsql's tables and on the eager ones."""

    sql: str
    """With `{table}` where the table stands."""
    zero_sign: bool = True
    """False where the answer may show 0.0 or -0.0."""
    sample: int | None = None
    """The LIMIT, where the rows that come out are any of those without it."""


def _some(draw: Any, palette: list[Any], count: int) -> list[Any]:
    """`count` values of the palette: few draws, small examples."""
    if not count:
        return []
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    return [palette[i] for i in rng.integers(0, len(palette), count)]


def _palette(draw: Any, dtype: str) -> Any:
    kind = dtype.lstrip(">")
    if dtype == "bool":
        return [True, False]
    if dtype in INTEGERS or kind == "i2":
        info = np.iinfo("int16" if kind == "i2" else dtype)
        edge = [info.min, info.max, 0, 1]
        if dtype in ("int64", "uint64"):
            edge += [2**53 + 1, 2**53]
        return draw(st.lists(st.sampled_from(edge) | st.integers(info.min, info.max), min_size=1, max_size=6))
    if dtype in FLOATS or kind == "f8":
        width: Any = 64 if kind == "f8" else int(dtype[-2:])
        values = st.floats(width=width) | st.sampled_from([math.nan, 0.0, -0.0, 0.5, -1.5, 1.0])
        return draw(st.lists(values, min_size=1, max_size=6))
    if dtype.startswith("datetime64"):
        return draw(st.lists(_moments(nanoseconds="ns" in dtype, seconds="[s]" in dtype), min_size=1, max_size=6))
    if dtype.startswith("timedelta64"):
        spans = st.integers(-(10**9), 10**9)
        return draw(st.lists(spans | st.just(None), min_size=1, max_size=5))
    if dtype == "bytes":
        return draw(st.lists(st.sampled_from([b"", b"a", b"ab", b"a\0b", "é".encode()]), min_size=1, max_size=4))
    texts = st.sampled_from(["", "a", "b", "A", "it's", "é", "日本", "a long text", "%"])
    if dtype == "object":
        return ["x", *draw(st.lists(texts | st.none() | st.just(math.nan), max_size=5))]
    return draw(st.lists(texts, min_size=1, max_size=5))


def _moments(*, nanoseconds: bool, seconds: bool) -> st.SearchStrategy[np.datetime64]:
    years = (1679, 2261) if nanoseconds else (1600, 3000)
    instants = st.datetimes(dt.datetime(years[0], 1, 1), dt.datetime(years[1], 12, 31))
    round_ones = st.builds(dt.datetime, st.integers(1999, 2002), st.integers(1, 12), st.sampled_from([1, 28]))
    unit: Any = "s" if seconds else "us"
    return (round_ones | instants).map(lambda d: np.datetime64(d, unit)) | st.just(np.datetime64("NaT", unit))


def _array(draw: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    count = math.prod(shape)
    if dtype.startswith("complex"):
        parts = draw(st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=4))
        return np.array(_some(draw, [complex(p, -p) for p in parts], count), dtype).reshape(shape)
    if dtype == "structured":
        rows = [(i, i / 4) for i in draw(st.lists(st.integers(-5, 5), min_size=1, max_size=4))]
        return np.array(_some(draw, rows, count), [("a", "i4"), ("b", "f8")]).reshape(shape)
    values = _some(draw, _palette(draw, "str" if dtype == "StringDType" else dtype), count)
    if dtype in ("str", "bytes"):
        return np.array(values, "U" if dtype == "str" else "S").reshape(shape)
    if dtype == "StringDType":
        return np.array(values, np.dtypes.StringDType()).reshape(shape)
    if dtype == "object":
        filled = np.empty(count, object)
        filled[:] = values
        return filled.reshape(shape)
    if dtype.startswith(("datetime64", "timedelta64")):
        unit = np.datetime_data(np.dtype(dtype))[0]
        source = "s" if dtype.startswith("timedelta64") else np.datetime_data(values[0])[0] if values else unit
        missing = [v is None for v in values]
        plain = np.array([0 if v is None else v for v in values], f"{dtype[: dtype.index('[')]}[{source}]")
        plain[missing] = "NaT"
        return plain.astype(dtype).reshape(shape)
    with np.errstate(over="ignore"):
        return np.array(values, dtype).reshape(shape)


@st.composite
def _coordinate(draw: Any, dim: str, size: int, storage: str) -> xr.Variable | None:
    """An index coordinate: sorted either way, unsorted, with duplicates, with holes; None for no coordinate."""
    kind = draw(
        st.sampled_from(
            ["none", "float64", "float32", "int64", "uint8", "int32", "datetime64[ns]", "datetime64[s]", "text", "cf"]
        )
    )
    if kind == "none":
        return None
    order = draw(st.sampled_from(["up", "up", "down", "any", "repeated"]))
    attrs: dict[str, Any] = {}
    if kind in ("float64", "float32"):
        step = draw(st.sampled_from([0.1, 0.25, 1.0, 1e-3]))
        values = (np.arange(size) * step + draw(st.sampled_from([0.0, -0.2, 49.9]))).astype(kind)
        if size > 2 and draw(st.integers(0, 4)) == 0:
            values[draw(st.integers(0, size - 1))] = np.nan
    elif kind == "uint8":
        values = np.arange(size, dtype="uint8") * 40
    elif kind in ("int64", "int32"):
        start = draw(st.sampled_from([0, -3, 2**53 if kind == "int64" else 2**31 - 10]))
        values = np.arange(size).astype(kind) + np.array(start, kind)
    elif kind.startswith("datetime64"):
        start = draw(st.sampled_from(["2000-02-27", "1999-12-31T18:00", "1970-01-01"]))
        step = draw(st.sampled_from([3600, 86_400, 31 * 86_400]))
        values = (np.datetime64(start, "s") + np.arange(size) * np.timedelta64(step, "s")).astype(kind)
        if size > 2 and draw(st.integers(0, 4)) == 0:
            values[draw(st.integers(0, size - 1))] = "NaT"
    elif kind == "text":
        values = np.array([f"{dim}{i}" for i in range(size)], "U3" if size else "U1")
    else:
        values, attrs = draw(_cf_time(size, storage))
    if order == "down":
        values = values[::-1].copy()
    elif order == "any":
        values = values[np.random.default_rng(draw(st.integers(0, 99))).permutation(size)]
    elif order == "repeated" and size > 1:
        values = values[np.arange(size) // 2].copy()
    return xr.Variable((dim,), values, attrs)


@st.composite
def _cf_time(draw: Any, size: int, storage: str) -> tuple[Any, dict[str, Any]]:
    """Numbers with units: integers, or floats in eighths, which are whole microseconds in every unit above."""
    dtype = draw(st.sampled_from(["int32", "int64", "float64", "int16"]))
    units = ["days", "hours", "minutes", "seconds", "Day", "h"]
    if storage not in ("zarr", "zarr-dask"):
        units.append("weeks")  # xarray cannot decode it
    unit = draw(st.sampled_from(units))
    start = draw(
        st.sampled_from(["2000-02-27", "1900-01-01 00:00:0.0", "1970-01-01T06:00:00Z", "1990-1-1 12:00 +05:30"])
    )
    calendar = draw(st.sampled_from(["standard", "proleptic_gregorian", "gregorian", None, "noleap", "360_day"]))
    values = np.arange(size).astype(dtype) * draw(st.sampled_from([1, 7, 30]))
    if dtype == "float64":
        values = values + draw(st.sampled_from([0.0, 0.125, 0.5]))
    attrs = {"units": f"{unit} since {start}"} | ({"calendar": calendar} if calendar else {})
    return values.astype(dtype), attrs


@st.composite
def _data(draw: Any, dims: tuple[str, ...], shape: tuple[int, ...], storage: str) -> xr.Variable:
    dtypes = PLAIN + (IN_MEMORY_ONLY if storage == "memory" else ())
    if storage == "dask":
        dtypes = tuple(d for d in dtypes if d != "object")
    if storage.startswith("zarr"):
        dtypes = tuple(d for d in dtypes if d not in ("bytes", "object", ">i2", ">f8", "timedelta64[ns]"))
    treatment = draw(st.sampled_from(["plain", "plain", "sentinel", "packed", "cf"]))
    if treatment == "packed":
        stored = draw(st.sampled_from(["int8", "int16", "uint8", "int32"]))
        values = _array(draw, stored, shape)
        attrs: dict[str, Any] = {"scale_factor": draw(st.sampled_from([0.01, 2.0, -0.1]))}
        if draw(st.booleans()):
            attrs["add_offset"] = draw(st.sampled_from([273.15, -1.0]))
        if draw(st.booleans()):
            attrs["_FillValue"] = np.array(draw(st.sampled_from([0, 1, 100])), stored)[()]
        return xr.Variable(dims, values, attrs)
    if treatment == "cf":
        values, attrs = draw(_cf_time(max(1, math.prod(shape)), storage))
        return xr.Variable(dims, values[: math.prod(shape)].reshape(shape), attrs)
    if treatment == "sentinel":
        stored = draw(st.sampled_from(["int8", "int32", "int64", "float32", "float64", "uint16"]))
        values = _array(draw, stored, shape)
        known = [v for v in values.reshape(-1).tolist() if v == v] or [1]
        first, second = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        attrs = {draw(st.sampled_from(["_FillValue", "missing_value"])): np.array(first, stored)[()]}
        if draw(st.booleans()):
            attrs["missing_value"] = np.array(second, stored)[()]
        return xr.Variable(dims, values, attrs)
    return xr.Variable(dims, _array(draw, draw(st.sampled_from(dtypes)), shape))


@st.composite
def datasets(draw: Any, storages: tuple[str, ...] = STORAGES) -> xr.Dataset:
    """A small dataset of rank 0 to 4, held in one of `storages`; its attribute `storage` says which."""
    storage = draw(st.sampled_from(storages))
    rank = draw(st.integers(0, 4))
    dims = tuple(draw(st.permutations(["t", "y", "x", "z"])))[:rank]
    sizes = {d: draw(st.sampled_from([1, 2, 3, 4, 5] if rank < 4 else [1, 2, 3]) | st.just(3)) for d in dims}
    if dims and draw(st.integers(0, 9)) == 0:
        sizes[dims[0]] = 0
    coords: dict[Any, Any] = {}
    for d in dims:
        variable = draw(_coordinate(d, sizes[d], storage))
        if variable is not None:
            coords[d] = variable
    if rank >= 2 and draw(st.booleans()):
        shape = tuple(sizes[d] for d in dims[:2])
        grid = (np.arange(math.prod(shape)).reshape(shape) * 1.5 - 3).astype(draw(st.sampled_from(["f4", "f8"])))
        if draw(st.booleans()):
            grid = grid[::-1, ::-1].copy()
        if grid.size and draw(st.booleans()):
            grid[0, 0] = np.nan
        coords["lat2"] = (dims[:2], grid)
    if rank and draw(st.booleans()):
        coords["along"] = ((dims[0],), _array(draw, draw(st.sampled_from(["int16", "str", "bool"])), (sizes[dims[0]],)))
    if draw(st.booleans()):
        coords["height"] = ((), np.float64(2.0))
    data: dict[Any, Any] = {}
    for i in range(draw(st.integers(1, 4))):
        own = tuple(d for d in dims if i == 0 or draw(st.booleans()))
        if len(own) > 1 and draw(st.integers(0, 5)) == 0:
            own = own[::-1]
        data[f"v{i}"] = draw(_data(own, tuple(sizes[d] for d in own), storage))
    raw = xr.Dataset(data, coords)
    if storage == "memory" and draw(st.integers(0, 3)) == 0:
        raw = _with_multiindex(raw)
    return held(draw, raw, storage)


def _with_multiindex(raw: xr.Dataset) -> xr.Dataset:
    for d, size in raw.sizes.items():
        if size > 1 and d not in raw.coords:
            index = pd.MultiIndex.from_arrays(
                [np.arange(size) // 2, [f"l{i % 2}" for i in range(size)]], names=["one", "two"]
            )
            return raw.assign_coords(xr.Coordinates.from_pandas_multiindex(index, d))
    return raw


def held(draw: Any, raw: xr.Dataset, storage: str) -> xr.Dataset:
    """The same dataset as dask arrays or in a Zarr store, variables chunked apart."""
    if storage == "memory":
        return raw.assign_attrs(storage=storage)
    if storage == "dask":
        chunked = {
            name: v.chunk({d: draw(st.integers(1, max(1, n))) for d, n in v.sizes.items()})
            for name, v in raw.data_vars.items()
        }
        return raw.assign(chunked).assign_attrs(storage=storage)
    store = MemoryStore()
    to_zarr(draw, raw, store)
    options: dict[str, Any] = {"chunks": {} if storage == "zarr-dask" else None, "consolidated": False}
    if storage == "zarr-raw":
        undecoded: xr.Dataset = xr.open_zarr(store, decode_cf=False, **options)
        return undecoded.assign_attrs(storage=storage)
    times = xr.coders.CFDatetimeCoder(time_unit=draw(st.sampled_from(["ns", "us"])))
    with warnings.catch_warnings():
        warnings.simplefilter("error", xr.SerializationWarning)
        try:
            opened: xr.Dataset = xr.open_zarr(store, decode_times=times, **options)
        except (ValueError, xr.SerializationWarning):
            reject()  # what xarray cannot decode, nobody can hand over
    return opened.assign_attrs(storage=storage)


def to_zarr(draw: Any, raw: xr.Dataset, store: Any) -> None:
    """Write a dataset, each data variable in chunks of its own or in one."""
    encoding = {
        name: {"chunks": tuple(draw(st.integers(1, max(1, n))) for n in v.shape)}
        for name, v in raw.data_vars.items()
        if v.ndim and draw(st.booleans())
    }
    raw.to_zarr(store, encoding=encoding, consolidated=False)


def literal(value: Any, kind: pa.DataType) -> str:
    """A constant of exactly this type, as SQL."""
    if pa.types.is_timestamp(kind):
        made = f"make_timestamp({value // 1000 if kind.unit == 'ns' else value}::BIGINT)"
        return f"make_timestamp_ns({value}::BIGINT)" if kind.unit == "ns" else made
    if pa.types.is_duration(kind):
        return f"to_microseconds({value}::BIGINT)"
    if pa.types.is_boolean(kind):
        return "TRUE" if value else "FALSE"
    if pa.types.is_floating(kind):
        return f"'{value!r}'::{'FLOAT' if kind == pa.float32() else 'DOUBLE'}"
    if pa.types.is_integer(kind):
        return f"({value})"
    return "'" + str(value).replace("'", "''") + "'"


def _values(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        column = column.cast(pa.int64())
    found = [v for v in column.unique().to_pylist() if v is not None]
    return found[:50]


def _constants(column: pa.ChunkedArray) -> st.SearchStrategy[str]:
    """Mostly values of the column; what lies between two of them, next to them, and beyond."""
    kind, found = column.type, _values(column)
    near: list[Any] = list(found)
    if pa.types.is_floating(kind):
        finite = sorted(v for v in found if math.isfinite(v))
        near += [(a + b) / 2 for a, b in itertools.pairwise(finite)] + [0.0, -0.0]
        if kind == pa.float32():
            near = [float(np.float32(v)) for v in near if abs(v) < 3e38]
        text = [literal(v, kind) for v in near] + [f"{v!r}" for v in near[:4] if math.isfinite(v) and abs(v) < 1e15]
        return st.sampled_from([*text, "0.1", "'1e30'::FLOAT"])
    if pa.types.is_integer(kind):
        near += [v + 1 for v in found[:5]] + [0]
        limits = np.iinfo(kind.to_pandas_dtype())
        text = [literal(v, kind) for v in near if limits.min <= v <= limits.max]
        return st.sampled_from([*text, "1.5", "9223372036854775807"])
    if pa.types.is_timestamp(kind):
        step = 10**9 if kind.unit == "ns" else 10**6
        near += [v + step for v in found[:5]] + [v + 1 for v in found[:2]]
        return st.sampled_from([*(literal(v, kind) for v in near), "TIMESTAMP '2000-03-01'", "DATE '2000-02-28'"])
    if pa.types.is_duration(kind):
        return st.sampled_from([literal(v, kind) for v in [*near, 0]])
    if pa.types.is_boolean(kind):
        return st.sampled_from(["TRUE", "FALSE"])
    return st.sampled_from([literal(v, kind) for v in [*near, "", "m", "zz"]])


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@st.composite
def _leaf(draw: Any, table: pa.Table, names: list[str]) -> str:
    name = draw(st.sampled_from(names))
    column, quoted = table[name], _name(name)
    kinds = ["null", "not null"]
    if not pa.types.is_struct(column.type):
        kinds += ["compare", "compare", "between", "in", "in", "not in"]
    if pa.types.is_timestamp(column.type) and column.type.unit == "us":
        kinds += ["year", "month", "date"]
    if pa.types.is_boolean(column.type):
        kinds += ["bare"]
    constant = st.nothing() if pa.types.is_struct(column.type) else _constants(column)
    match draw(st.sampled_from(kinds)):
        case "null":
            return f"{quoted} IS NULL"
        case "not null":
            return f"{quoted} IS NOT NULL"
        case "compare":
            operator = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
            sides = (quoted, draw(constant)) if draw(st.integers(0, 4)) else (draw(constant), quoted)
            return f"{sides[0]} {operator} {sides[1]}"
        case "between":
            return f"{quoted} BETWEEN {draw(constant)} AND {draw(constant)}"
        case "in" | "not in" as word:
            items = ", ".join(draw(st.lists(constant, min_size=1, max_size=4)))
            return f"{quoted} {word.upper()} ({items})"
        case "year":
            return f"year({quoted}) = {draw(st.sampled_from([1999, 2000, 2001]))}"
        case "month":
            month = draw(st.sampled_from(["2000-02-01", "2000-03-01", "1999-12-01"]))
            return f"date_trunc('month', {quoted}) = TIMESTAMP '{month}'"
        case "date":
            return f"{quoted}::DATE = DATE '{draw(st.sampled_from(['2000-02-28', '2000-02-29', '1999-12-31']))}'"
        case _:
            return quoted


def predicates(table: pa.Table, names: list[str] | None = None) -> st.SearchStrategy[str]:
    """SQL conditions on these columns, nested AND, OR and NOT among them."""
    leaves = _leaf(table, names or table.column_names)
    return st.recursive(
        leaves,
        lambda inner: (
            st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})")
            | inner.map(lambda p: f"NOT ({p})")
        ),
        max_leaves=4,
    )


@st.composite
def queries(draw: Any, table: pa.Table) -> Query:
    """One query on a table: a filter, and something that is done with what it keeps."""
    names = table.column_names
    some = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True))
    listed = ", ".join(map(_name, some))
    where = f" WHERE {draw(predicates(table))}" if draw(st.integers(0, 5)) else ""
    plain = [n for n in some if not pa.types.is_struct(table[n].type)]
    shape = draw(
        st.sampled_from(["all", "some", "some", "count", "distinct", "group", "limit", "order", "self", "frame", "cte"])
    )
    match shape:
        case "all":
            return Query(f"SELECT * FROM {{table}}{where}")
        case "count":
            return Query(f"SELECT count(*) AS n FROM {{table}}{where}")
        case "distinct" if plain:
            return Query(f"SELECT DISTINCT {', '.join(map(_name, plain))} FROM {{table}}{where}", zero_sign=False)
        case "group" if plain:
            return Query(_grouped(draw, table, plain, where), zero_sign=False)
        case "limit":
            count = draw(st.integers(0, 6))
            return Query(f"SELECT {listed} FROM {{table}}{where}", sample=count)
        case "order" if plain:
            keys = ", ".join(map(_name, plain))
            tail = f" ORDER BY ALL LIMIT {draw(st.integers(0, 6))} OFFSET {draw(st.integers(0, 2))}"
            return Query(f"SELECT {keys} FROM {{table}}{where}{tail}", zero_sign=False)
        case "self" if plain:
            key = _name(plain[0])
            small = draw(predicates(table))
            inner = f"(SELECT DISTINCT {key} FROM {{table}} WHERE {small})"
            return Query(f"SELECT count(*) AS n FROM {{table}} a JOIN {inner} b ON a.{key} = b.{key}")
        case "frame" if plain:
            column = table[plain[0]]
            constants = draw(st.lists(_constants(column), min_size=1, max_size=3, unique=True))
            rows = ", ".join(f"({c})" for c in constants)
            return Query(f"SELECT k.c0, a.* FROM (VALUES {rows}) k(c0) JOIN {{table}} a ON a.{_name(plain[0])} = k.c0",
                         zero_sign=False)  # fmt: skip
        case "cte":
            return Query(f"WITH w AS (SELECT {listed} FROM {{table}}{where}) SELECT * FROM w UNION ALL SELECT * FROM w")
    return Query(f"SELECT {listed} FROM {{table}}{where}")


def _grouped(draw: Any, table: pa.Table, plain: list[str], where: str) -> str:
    target = draw(st.sampled_from(plain))
    kind, quoted = table[target].type, _name(target)
    outputs = [f"count({quoted}) AS n", f"min({quoted}) AS low", f"max({quoted}) AS high", "count(*) AS rows"]
    if pa.types.is_integer(kind):
        outputs.append(f"sum({quoted}) AS total")
    if pa.types.is_boolean(kind):
        outputs.append(f"bool_or({quoted}) AS some")
    keys = [n for n in plain if n != target][:2]
    tail = f" GROUP BY {', '.join(map(_name, keys))}" if keys else ""
    listed = ", ".join([*map(_name, keys), *outputs])
    return f"SELECT {listed} FROM {{table}}{where}{tail}"
