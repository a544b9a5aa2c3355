"""Text, bytes and Python objects: what an object array holds, and its values as typed arrays.

All functions take 1-D arrays and give `values, valid`, where `valid` is None for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd

from xzsql.errors import UnsupportedError, ValueRangeError
from xzsql.model.decode.calendar import is_date

Content = Literal["text", "bytes", "bool", "integer", "float", "date"]

_CONTENTS: dict[str, Content] = {
    "string": "text",
    "empty": "text",
    "bytes": "bytes",
    "boolean": "bool",
    "integer": "integer",
    "floating": "float",
    "mixed-integer-float": "float",
}


def content(values: Any) -> Content:
    """What the objects of an array are, holes aside; UnsupportedError for what has no SQL type."""
    kind = pd.api.types.infer_dtype(values, skipna=True)
    if kind in _CONTENTS:
        return _CONTENTS[kind]
    present = values[~pd.isna(values)]
    if all(is_date(value) for value in present):
        return "date"
    names = sorted({type(value).__name__ for value in present[:1000]})
    raise UnsupportedError(f"an object array of {', '.join(names)} has no SQL type; convert it to one kind of value")


def declared(dtype: np.dtype[Any], encoding_dtype: object) -> Content | None:
    """What an object array that is not in memory will hold, by its metadata; None where they say nothing."""
    metadata: Mapping[Any, Any] = dtype.metadata or {}
    for said in (metadata.get(key) for key in ("vlen", "element_type")):
        if said in (str, bytes):
            return "text" if said is str else "bytes"
    if encoding_dtype is str or encoding_dtype is bytes:
        return "text" if encoding_dtype is str else "bytes"
    if encoding_dtype is None:
        return None
    try:
        stored = np.dtype(encoding_dtype)  # type: ignore[call-overload]  # anything may be in an encoding
    except TypeError:
        return None
    if stored.kind == "O":
        return declared(stored, None)
    kinds: dict[str, Content] = {"U": "text", "T": "text", "S": "bytes", "b": "bool"}
    return kinds.get(stored.kind)


def text(values: Any) -> tuple[Any, Any]:
    """str, numpy text, or objects of str; None, NaN and NA are holes."""
    objects = values.astype(object, copy=False)
    if values.dtype.kind == "U":
        return objects, None
    holes = pd.isna(objects)
    if not holes.any():
        return objects, None
    objects = objects.copy()
    objects[holes] = None
    return objects, ~holes


def decoded_text(values: Any, encoding: str) -> tuple[Any, Any]:
    """Bytes as text; ValueRangeError naming the first bytes that are none."""
    if values.dtype.kind == "S":
        try:
            return np.strings.decode(values, encoding).astype(object), None
        except UnicodeDecodeError:
            return _decode(values.astype(object), encoding), None
    objects, valid = text(values)
    objects = objects.copy()
    rows = slice(None) if valid is None else valid
    objects[rows] = _decode(objects[rows], encoding)
    return objects, valid


def _decode(values: Any, encoding: str) -> Any:
    found = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        try:
            found[i] = value.decode(encoding) if isinstance(value, bytes) else value
        except UnicodeDecodeError as error:
            shown = value[max(0, error.start - 8) : error.end + 8]
            raise ValueRangeError(
                f"the bytes {shown!r} are no {encoding} text; read them as they are with bytes_as='blob'"
            ) from error
    return found


def raw_bytes(values: Any) -> tuple[Any, Any]:
    """Fixed-width bytes without their padding, or objects of bytes (text among them is written as UTF-8)."""
    if values.dtype.kind == "S":
        return values.astype(object), None
    objects, valid = text(values)
    if any(isinstance(value, str) for value in objects):
        objects = np.array([v.encode() if isinstance(v, str) else v for v in objects] + [None], dtype=object)[:-1]
    return objects, valid


def number_dtype(values: Any, what: Content) -> np.dtype[Any]:
    """The dtype that holds Python numbers exactly; UnsupportedError where none does."""
    present = values[~pd.isna(values)]
    if what == "bool":
        return np.dtype(bool)
    try:
        if what == "integer":
            low, high = int(present.min()), int(present.max())
            if low >= -(2**63) and high < 2**63:
                return np.dtype(np.int64)
            if low >= 0 and high < 2**64:
                return np.dtype(np.uint64)
        elif all(int(v) == int(float(v)) for v in present if isinstance(v, int | np.integer)) and not any(
            isinstance(v, np.floating) and v.dtype.itemsize > 8 for v in present
        ):
            return np.dtype(np.float64)
    except OverflowError:
        pass
    raise UnsupportedError(f"an object array of {what} numbers that no SQL number holds exactly")


def numbers(values: Any, dtype: np.dtype[Any], *, nan_as_null: bool) -> tuple[Any, Any]:
    """Python numbers as `dtype`, holes as 0."""
    holes = pd.isna(values)
    if dtype.kind == "f" and not nan_as_null:
        holes = np.fromiter(
            (h and not isinstance(v, float | np.floating) for v, h in zip(values, holes, strict=True)), bool
        )
    if not holes.any():
        return values.astype(dtype), None
    filled = values.copy()
    filled[holes] = 0
    return filled.astype(dtype), ~holes
