"""Columns of a result as numpy arrays, and numpy arrays as the values of a variable.

The values of a column are in the canonical form of `xzsql.model.decode`, but text and bytes are numbers into their
distinct values: grids of them are compared and filled as fast as integers, and equal strings are one object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from xzsql.errors import UnsupportedError

#: Whole numbers up to here are float64 without rounding.
_EXACT = 2**53
_DAY = 86_400_000_000
_INTERVAL = np.dtype([("months", "i4"), ("days", "i4"), ("nanoseconds", "i8")])


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The values of one column, or of the cells that they were placed in."""

    values: np.ndarray
    """Numbers, datetime64, timedelta64, bool, complex or objects; numbers into `categories` where there are any."""
    valid: np.ndarray | None
    """Which are not NULL; None: all. What stands where it is False means nothing."""
    categories: np.ndarray | None = None
    """The distinct texts or bytes, as objects."""

    def at(self, index: Any) -> Rows:
        """The values at these positions."""
        return replace(self, values=self.values[index], valid=None if self.valid is None else self.valid[index])

    def reshaped(self, shape: tuple[int, ...]) -> Rows:
        """The same values as a grid."""
        valid = None if self.valid is None else self.valid.reshape(shape)
        return replace(self, values=self.values.reshape(shape), valid=valid)

    def transposed(self, order: Sequence[int]) -> Rows:
        """The same grid with its dimensions in another order."""
        valid = None if self.valid is None else self.valid.transpose(order)
        return replace(self, values=self.values.transpose(order), valid=valid)

    @property
    def kind(self) -> str:
        """The numpy kind of what is stored; "T" for text and bytes."""
        return "T" if self.categories is not None else self.values.dtype.kind


def rows_of(column: pa.ChunkedArray, name: str) -> Rows:
    """The values of a column of any Arrow type.

    Decimals without a fraction are integers (Python's where int64 and uint64 end), others are float64; an INTERVAL
    that counts days and less is timedelta64; TIMESTAMPTZ is UTC; STRUCT(re, im) is complex; what numpy has no type for
    (lists, structures, maps, TIME) is Python objects.

    Raises
    ------
    UnsupportedError
        An INTERVAL of months, which is no span of time.
    """
    kind = column.type
    if pa.types.is_run_end_encoded(kind):
        return rows_of(_chunked(pc.run_end_decode(column)), name)
    if pa.types.is_dictionary(kind):
        if _is_text(kind.value_type) and not any(c.dictionary.null_count for c in column.chunks):
            return _of_dictionary(column)
        return rows_of(column.cast(kind.value_type), name)
    if _is_text(kind):
        plain = pa.large_string() if pa.types.is_string(kind) or "string" in str(kind) else pa.large_binary()
        return _of_dictionary(column.cast(plain).dictionary_encode())
    if pa.types.is_decimal(kind):
        return _of_decimals(column, name)
    if pa.types.is_null(kind):
        return Rows(np.full(len(column), np.nan), np.zeros(len(column), bool))
    if pa.types.is_date(kind):
        return rows_of(column.cast(pa.timestamp("s" if pa.types.is_date32(kind) else "ms")), name)
    return _of_array(_joined(column), name)


def _of_array(array: Any, name: str) -> Rows:
    kind, valid = array.type, _validity(array)
    if kind == pa.month_day_nano_interval():
        return Rows(_spans(array, valid, name), valid)
    if pa.types.is_struct(kind):
        parts = [kind.field(i) for i in range(kind.num_fields)]
        if [f.name for f in parts] == ["re", "im"] and len({f.type for f in parts} & {pa.float32(), pa.float64()}) == 1:
            return Rows(_complex(array), valid)
    if pa.types.is_boolean(kind):
        return Rows(pc.fill_null(array, False).to_numpy(zero_copy_only=False), valid)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return Rows(_buffer(array, np.dtype(kind.to_pandas_dtype())), valid)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        letter = "M" if pa.types.is_timestamp(kind) else "m"
        return Rows(_buffer(array, np.dtype(f"{letter}8[{kind.unit}]")), valid)
    objects = np.empty(len(array), object)
    objects[:] = array.to_pylist()
    return Rows(objects, valid)


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view,
             pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)  # fmt: skip
    return any(test(kind) for test in tests)


def _chunked(found: Any) -> pa.ChunkedArray:
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


def _joined(column: pa.ChunkedArray) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _validity(array: Any) -> np.ndarray | None:
    if not array.null_count:
        return None
    found: np.ndarray = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def _buffer(array: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """The numbers of an array without a copy, whatever stands at a NULL."""
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(len(array), dtype)
    return np.frombuffer(data, dtype, count=len(array), offset=array.offset * dtype.itemsize)


def _of_dictionary(column: pa.ChunkedArray) -> Rows:
    array = _joined(column.unify_dictionaries())
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], column.type)
    codes = pc.fill_null(array.indices, 0).to_numpy(zero_copy_only=False)
    categories = np.empty(len(array.dictionary), object)
    categories[:] = array.dictionary.to_numpy(zero_copy_only=False)
    return Rows(codes, _validity(array), categories)


def _of_decimals(column: pa.ChunkedArray, name: str) -> Rows:
    if column.type.scale > 0:
        return rows_of(column.cast(pa.float64()), name)
    for whole in (pa.int64(), pa.uint64()):
        try:
            return rows_of(column.cast(whole), name)
        except pa.ArrowInvalid:
            continue
    valid = _validity(_joined(column))
    objects = np.array([None if v is None else int(v) for v in column.to_pylist()], object)
    return Rows(objects, valid)


def _spans(array: Any, valid: np.ndarray | None, name: str) -> np.ndarray:
    parts = np.array(_buffer(array, _INTERVAL))
    if valid is not None:
        parts[~valid] = 0
    if parts["months"].any() or (np.abs(parts["days"].astype("i8")) > 2**62 // _DAY).any():
        raise UnsupportedError(
            f"column {name!r} holds INTERVALs of months or of more days than a span of time can have, which no "
            f'timedelta64 is; select a number instead, such as datediff(...) or epoch("{name}")'
        )
    days, rest = parts["days"].astype("i8"), parts["nanoseconds"]
    found: np.ndarray = (days * _DAY + rest // 1000).view("m8[us]")
    return found


def _complex(array: Any) -> np.ndarray:
    re, im = (f.fill_null(float("nan")).to_numpy(zero_copy_only=False) for f in array.flatten())
    found: np.ndarray = np.empty(len(array), np.result_type(re.dtype, np.complex64))
    found.real, found.imag = re, im
    return found


def same(a: Rows, b: Rows) -> bool:
    """Whether two arrays of one column hold the same values; NULL is NULL, and NaN is NaN."""
    equal = a.values == b.values
    if a.kind in "fc":
        equal |= (a.values != a.values) & (b.values != b.values)
    if a.valid is not None and b.valid is not None:
        equal = np.where(a.valid & b.valid, equal, a.valid == b.valid)
    return bool(np.all(equal))


def as_values(rows: Rows, like: Any = None, *, as_bytes: bool = False) -> Any:
    """An array for a variable, with the dtype of `like` where that changes no value.

    Where a value is missing there is NaN, NaT or, in objects, None. Integers with holes become float64 if it holds
    each of them exactly, else objects; booleans with holes are objects. An extension dtype of pandas has its own.

    Parameters
    ----------
    rows
        Values as a grid.
    like
        The dtype that the variable had before; None: unknown.
    as_bytes
        Whether text was bytes in an array of objects.
    """
    missing = None if rows.valid is None or rows.valid.all() else ~rows.valid
    if isinstance(like, pd.api.extensions.ExtensionDtype) and rows.values.ndim == 1:
        try:
            return pd.array(_plain(rows, missing, None, as_bytes=False), dtype=like)  # type: ignore[call-overload]  # takes any extension dtype
        except (TypeError, ValueError):
            like = None
    return _plain(rows, missing, like if isinstance(like, np.dtype) else None, as_bytes=as_bytes)


def _plain(rows: Rows, missing: np.ndarray | None, like: np.dtype[Any] | None, *, as_bytes: bool) -> np.ndarray:
    values, kind = rows.values, rows.kind
    if kind == "T":
        return _text(rows, missing, like, as_bytes=as_bytes)
    if kind == "O":
        return _objects(values, missing, like)
    if like is not None and like.kind == "O" and kind in "biuf":
        return _objects(values.astype(object), missing, None)
    if kind in "biu" and missing is not None:
        kept = values[~missing]
        if kind == "b" or (
            values.dtype.itemsize == 8 and (kept.max(initial=0) > _EXACT or kept.min(initial=0) < -_EXACT)
        ):
            return _objects(values.astype(object), missing, None)
        values, like = values.astype(np.float64), None
    if missing is not None:
        values = values.copy()
        values[missing] = "NaT" if kind in "mM" else np.nan
    if like is not None and like != values.dtype:
        values = _cast(values, like)
    return values.copy() if _is_borrowed(values) else values


def _is_borrowed(values: np.ndarray) -> bool:
    """Whether the memory is Arrow's, perhaps read-only and perhaps somebody else's too."""
    while isinstance(values.base, np.ndarray):
        values = values.base
    return values.base is not None


def _cast(values: np.ndarray, like: np.dtype[Any]) -> np.ndarray:
    """In another width or unit of the same kind, if each value stays what it is."""
    if like.kind != values.dtype.kind or like.kind not in "iufcmM":
        return values
    with np.errstate(all="ignore"):
        try:
            found = values.astype(like)
            back = found.astype(values.dtype)
        except (OverflowError, ValueError):
            return values
    kept = (back == values) | ((back != back) & (values != values))
    return found if kept.all() else values


def _objects(values: np.ndarray, missing: np.ndarray | None, like: np.dtype[Any] | None) -> np.ndarray:
    if like is not None and like.names is not None and missing is None:
        return _structured(values, like)
    found = values.copy()
    if missing is not None:
        found[missing] = None
    return found


def _structured(values: np.ndarray, like: np.dtype[Any]) -> np.ndarray:
    names = like.names or ()
    flat = values.reshape(-1)
    if any(not isinstance(v, dict) or tuple(v) != names for v in flat):
        return values
    try:
        return np.array([tuple(v.values()) for v in flat], like).reshape(values.shape)
    except (TypeError, ValueError):
        return values


def _text(rows: Rows, missing: np.ndarray | None, like: np.dtype[Any] | None, *, as_bytes: bool) -> np.ndarray:
    assert rows.categories is not None
    words = rows.categories
    if not rows.values.size and like is not None and like.kind in "UST":
        return np.zeros(rows.values.shape, like)
    text = len(words) == 0 or isinstance(words[0], str)
    if text and (as_bytes or (like is not None and like.kind == "S")):
        encoded = np.empty(len(words), object)
        encoded[:] = [w.encode() for w in words]
        words = encoded
    if like is not None and like.kind in "UST" and missing is None and len(words):
        words = _fixed(words, like)
    codes = rows.values
    if missing is not None or not len(words):
        words = np.append(words, np.array([None], object))
        codes = codes if missing is None else np.where(missing, len(words) - 1, codes)
    found: np.ndarray = words[codes.reshape(-1)].reshape(codes.shape)
    return found


def _fixed(words: np.ndarray, like: np.dtype[Any]) -> np.ndarray:
    """Text of a fixed width, or wider where a word does not fit; as objects where its type would change a word."""
    if like.kind == "T":
        return words.astype(like) if isinstance(words[0], str) else words
    if (like.kind == "U") != isinstance(words[0], str):
        return words
    found = words.astype(like.kind)
    if found.dtype.itemsize < like.itemsize:
        found = found.astype(like)
    return found if (found.astype(object) == words).all() else words
