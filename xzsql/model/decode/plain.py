"""Decoders of a dtype alone, as numpy or pandas has it, without attributes."""

from __future__ import annotations

import codecs
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from xzsql.errors import UnsupportedError
from xzsql.model.decode import calendar, objects, steps
from xzsql.model.decode.record import Decoded, DecodeOptions, Decoder, flat


def of_dtype(dtype: np.dtype[Any], options: DecodeOptions, encoding: str = "utf-8") -> Decoder:
    """The decoder of a dtype alone, without attributes."""
    kind = dtype.kind
    if kind == "b":
        return Decoder(pa.bool_(), flat(lambda raw: (raw, None)))
    if kind in "iu":
        native = dtype.newbyteorder("=")
        return Decoder(pa.from_numpy_dtype(native), flat(steps.integers(native, [])))
    if kind == "f" and dtype.itemsize <= 8:
        target = np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)
        return Decoder(pa.from_numpy_dtype(target), flat(steps.floats(target, [], nan=options.nan_as_null)))
    if kind == "c" and dtype.itemsize <= 16:
        part = pa.float64() if dtype.itemsize == 16 else pa.float32()
        step = steps.floats(dtype.newbyteorder("="), [], nan=options.nan_as_null)
        return Decoder(pa.struct([("re", part), ("im", part)]), flat(step))
    if kind in "mM":
        calendar.check_unit(dtype)
        if kind == "m":
            return Decoder(pa.duration("us"), flat(steps.durations))
        return Decoder(pa.timestamp("us"), flat(steps.instants("us")))
    if kind in "UT":
        return Decoder(pa.string(), flat(objects.text))
    if kind == "S":
        return of_bytes(options, encoding)
    if kind == "V" and dtype.names:
        return _structured(dtype, options)
    raise UnsupportedError(f"values of dtype {dtype} have no SQL type; convert them to a number, text or time first")


def of_bytes(options: DecodeOptions, encoding: str = "utf-8") -> Decoder:
    if options.bytes_as == "blob":
        return Decoder(pa.binary(), flat(objects.raw_bytes))
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise UnsupportedError(f"attribute _Encoding is {encoding!r}, which is no known encoding") from None
    return Decoder(pa.string(), flat(lambda raw: objects.decoded_text(raw, encoding)))


def _structured(dtype: np.dtype[Any], options: DecodeOptions) -> Decoder:
    """Fields follow the same table; a NaN in a field stays one, for only the cell as a whole can be missing."""
    options = replace(options, nan_as_null=False)
    fields: dict[str, Decoder] = {}
    for name, (field, *_) in (dtype.fields or {}).items():
        if field.subdtype is not None:
            raise UnsupportedError(f"field {name!r} is an array {field}, which has no SQL type here")
        fields[str(name)] = of_dtype(field, options)
    names = [str(name) for name in dtype.names or ()]
    canonical = np.dtype([(name, _canonical(fields[name].type, dtype[name])) for name in names])

    def step(raw: Any) -> tuple[Any, Any]:
        values = np.empty(raw.shape, dtype=canonical)
        for name in names:
            found, valid = fields[name].apply(raw[name])
            if valid is not None and found.dtype.kind in "mM":
                found = np.where(valid, found, np.array("NaT", found.dtype))
            values[name] = found
        return values, None

    return Decoder(pa.struct([(name, fields[name].type) for name in names]), flat(step))


def _canonical(kind: Any, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of canonical values."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return np.dtype(object)
    if pa.types.is_struct(kind):
        if not dtype.names:
            return dtype.newbyteorder("=")
        return np.dtype([(name, _canonical(kind.field(name).type, dtype[name])) for name in dtype.names])
    if pa.types.is_duration(kind):
        return np.dtype(f"m8[{kind.unit}]")
    if pa.types.is_timestamp(kind):
        return np.dtype(f"M8[{kind.unit}]")
    plain: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return plain


def of_holed(dtype: np.dtype[Any], options: DecodeOptions) -> Decoder:
    step = partial(objects.numbers, dtype=dtype, nan_as_null=options.nan_as_null)
    return Decoder(pa.from_numpy_dtype(dtype), flat(step))


def of_extension(dtype: Any, options: DecodeOptions) -> Decoder:
    """Pandas extension arrays; numpy arrays of their objects, as indexes give them, are taken too."""
    if isinstance(dtype, pd.CategoricalDtype):
        return _categorical(dtype, options)
    if isinstance(dtype, pd.StringDtype) or _arrow_kind(dtype) == "text":
        return Decoder(pa.string(), lambda raw: flat(objects.text)(np.asarray(raw, dtype=object)))
    if isinstance(dtype, pd.DatetimeTZDtype):
        instants = flat(steps.instants("us"))
        return Decoder(
            pa.timestamp("us", tz="UTC"), lambda raw: instants(_extension(raw, dtype).to_numpy(f"M8[{dtype.unit}]"))
        )
    plain = getattr(dtype, "numpy_dtype", None)
    if not isinstance(plain, np.dtype) or plain.kind not in "biuf" or _arrow_kind(dtype) == "other":
        raise UnsupportedError(f"values of pandas dtype {dtype} have no SQL type; convert them to numbers or text")
    decoder = of_dtype(plain, options)

    def apply(raw: Any) -> Decoded:
        array = _extension(raw, dtype)
        holes = np.asarray(array.isna(), dtype=bool)
        values, valid = decoder.apply(array.to_numpy(dtype=plain, na_value=plain.type(0)))
        return Decoded(values, steps.both(valid, ~holes) if holes.any() else valid)

    return Decoder(decoder.type, apply)


def _arrow_kind(dtype: Any) -> str:
    """What Arrow stores behind a pandas dtype: number, text or other; empty where it is not Arrow that stores."""
    if not isinstance(dtype, pd.ArrowDtype):
        return ""
    stored = dtype.pyarrow_dtype
    if pa.types.is_string(stored) or pa.types.is_large_string(stored):
        return "text"
    number = pa.types.is_integer(stored) or pa.types.is_floating(stored) or pa.types.is_boolean(stored)
    return "number" if number else "other"


def _extension(raw: Any, dtype: Any) -> Any:
    return pd.array(raw.reshape(-1), dtype=dtype) if isinstance(raw, np.ndarray) else raw


def _categorical(dtype: pd.CategoricalDtype, options: DecodeOptions) -> Decoder:
    """Codes where the categories are text, else the values of the categories."""
    index = dtype.categories
    if index is None:
        raise UnsupportedError("a categorical without categories has no SQL type")
    if pd.api.types.infer_dtype(index, skipna=False) in ("string", "empty"):
        return Decoder(
            pa.dictionary(pa.int32(), pa.string(), bool(dtype.ordered)),
            lambda raw: _codes(raw, dtype),
            categories=pa.array(index.to_numpy(dtype=object), type=pa.string()),
        )
    try:
        stored = index.to_numpy()
        if stored.dtype.kind == "O":
            raise UnsupportedError(f"categories of dtype {index.dtype} have no SQL type; convert them to text")
        decoder = of_dtype(stored.dtype, options)
        found, inside = decoder.apply(stored)
    except (TypeError, ValueError) as error:
        raise UnsupportedError(f"categories of dtype {index.dtype} have no SQL type: {error}") from error

    def apply(raw: Any) -> Decoded:
        codes, valid = _codes(raw, dtype)
        if not len(found):
            return Decoded(np.zeros(codes.shape, found.dtype), valid)
        taken = np.maximum(codes, 0)
        return Decoded(found[taken], valid if inside is None else steps.both(valid, inside[taken]))

    return Decoder(decoder.type, apply)


def _codes(raw: Any, dtype: pd.CategoricalDtype) -> Decoded:
    codes = np.asarray(_extension(raw, dtype).codes, dtype=np.int32)
    hole = codes < 0
    return Decoded(codes, ~hole if hole.any() else None)
