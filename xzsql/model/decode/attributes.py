"""What CF attributes and Zarr metadata say about stored values: sentinels, packing, signedness."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from xzsql.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class Packing:
    """`value = stored * scale + offset`; None where the attribute is absent."""

    scale: float | None
    offset: float | None


def packing(attrs: Mapping[Any, Any]) -> Packing | None:
    """Scale and offset of an integer variable; UnsupportedError where one is no finite number."""
    if "scale_factor" not in attrs and "add_offset" not in attrs:
        return None
    found: list[float | None] = []
    for name in ("scale_factor", "add_offset"):
        if name not in attrs:
            found.append(None)
            continue
        items = list(_items(attrs[name]))
        number = _number(items[0]) if len(items) == 1 else None
        if number is None or not math.isfinite(number):
            raise UnsupportedError(f"attribute {name} is {attrs[name]!r}, not one finite number")
        found.append(float(number))
    return Packing(*found)


def meant_dtype(dtype: np.dtype[Any], attrs: Mapping[Any, Any]) -> np.dtype[Any]:
    """The native integer dtype that `_Unsigned` gives to a stored one."""
    flag = str(attrs.get("_Unsigned", "")).lower()
    kind = {"true": "u", "false": "i"}.get(flag, dtype.kind)
    return np.dtype(f"{kind}{dtype.itemsize}")


def sentinels(variable: xr.Variable, mask_fill_value: bool | None) -> list[Any]:
    """The values that mean missing, as attributes and Zarr metadata write them.

    A Zarr array that xarray opened without decoding differs by format. In version 2 xarray writes the array's
    `fill_value` to the attribute `_FillValue`, over one that may have been there. In version 3 the attribute is the
    attribute, and `fill_value` is in the encoding. Version 2 shows by codecs in the encoding without `serializer`. Who
    reads Zarr otherwise says so by `encoding["zarr_format"]` and `encoding["fill_value"]`, and leaves the attributes
    as the store has them.
    """
    attrs, encoding = variable.attrs, variable.encoding
    found = list(_items(attrs["missing_value"])) if "missing_value" in attrs else []
    explicit = list(_items(attrs["_FillValue"])) if "_FillValue" in attrs else []
    if variable.dtype.kind == "c" and len(explicit) == 2 and all(isinstance(item, str) for item in explicit):
        parts = [_of_text(item, text_is_base64=True) for item in explicit]
        explicit = [] if None in parts else [complex(*parts)]
    if _version_2_of_xarray(encoding):
        keep = mask_fill_value if mask_fill_value is not None else not _is_zero(explicit)
        return found + (explicit if keep else [])
    fill = encoding.get("fill_value")
    wanted = mask_fill_value
    if wanted is None:
        wanted = encoding.get("zarr_format") == 2 and not explicit and not _is_zero([fill])
    # a fill value is in stored terms: of no use where xarray has unpacked already
    decoded = encoding.get("dtype", variable.dtype) != variable.dtype or "scale_factor" in encoding
    return found + explicit + ([fill] if wanted and fill is not None and not decoded else [])


def _version_2_of_xarray(encoding: Mapping[Any, Any]) -> bool:
    if {"zarr_format", "fill_value", "serializer"} & encoding.keys():
        return False
    return {"compressors", "filters", "shards"} <= encoding.keys()


def _is_zero(items: Iterable[Any]) -> bool:
    return any((number := _number(item)) is not None and number == 0 for item in items)


def as_integers(items: Iterable[Any], stored: np.dtype[Any], meant: np.dtype[Any]) -> list[int]:
    """Those sentinels that an integer variable can hold, as values of `meant`."""
    found = []
    low, high = int(np.iinfo(stored).min), int(np.iinfo(stored).max)
    meant_low, meant_high = int(np.iinfo(meant).min), int(np.iinfo(meant).max)
    for item in items:
        number = _number(item)
        if number is None or (isinstance(number, float) and not number.is_integer()):
            continue
        value = int(number)
        if low <= value <= high and not meant_low <= value <= meant_high:
            value += 2 ** (8 * stored.itemsize) * (1 if value < 0 else -1)
        if meant_low <= value <= meant_high:
            found.append(value)
    return sorted(set(found))


def as_floats(items: Iterable[Any], stored: np.dtype[Any]) -> tuple[list[Any], bool]:
    """Those sentinels that a float or complex variable can hold, as its scalars, and whether NaN is one."""
    found: list[Any] = []
    nan = False
    for item in items:
        number = _number(item, text_is_base64=True)
        if number is None and stored.kind == "c" and isinstance(item, complex | np.complexfloating):
            number = complex(item)
        if number is None:
            continue
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                value = stored.type(number)
        except OverflowError:
            continue
        if np.isnan(value):
            nan = True
        elif np.isfinite(value) or number in (math.inf, -math.inf):
            found.append(value)
    return found, nan


def _items(value: object) -> Iterable[Any]:
    """The elements of an attribute: a scalar is one; numpy scalars as they are."""
    if isinstance(value, np.ndarray):
        return value.reshape(-1)
    if isinstance(value, list | tuple):
        return [item for part in value for item in _items(part)]
    return [value]


def _number(item: object, *, text_is_base64: bool = False) -> Any:
    """An int or float, or None for what is none."""
    if isinstance(item, bytes):
        item = item.decode("latin-1")
    if isinstance(item, str):
        return _of_text(item.strip(), text_is_base64)
    if isinstance(item, bool | np.bool_):
        return None
    if isinstance(item, int | float):
        return item
    if isinstance(item, np.integer | np.floating):
        return item.item() if item.dtype.itemsize <= 8 else float(item)
    return None


def _of_text(text: str, text_is_base64: bool) -> Any:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    if text_is_base64 and len(text) == 12:
        # how xarray writes the _FillValue of a float into the JSON of Zarr version 3
        try:
            return struct.unpack("<d", base64.b64decode(text, validate=True))[0]
        except (binascii.Error, struct.error):
            return None
    return None
