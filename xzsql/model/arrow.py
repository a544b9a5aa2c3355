"""Decoded blocks as Arrow arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from xzsql.errors import ValueRangeError
from xzsql.model.decode import Decoded


def to_arrow(
    decoded: Decoded,
    type: pa.DataType,
    *,
    categories: pa.Array[Any] | None = None,
) -> pa.Array[Any]:
    """A decoded block as an Arrow array of `type`, flattened in C order.

    Parameters
    ----------
    decoded
        In the canonical form of `xzsql.model.decode`.
    type
        The `type` of the decoder that made it.
    categories
        The `categories` of that decoder; needed for dictionary types only.

    Returns
    -------
    pyarrow.Array
        Numbers, timestamps and durations that are contiguous share memory with `decoded.values`, with or without NULLs;
        booleans and text are copied.

    Raises
    ------
    ValueRangeError
        Text that is no Unicode (lone surrogates), or more than 2 GiB of it.

    Examples
    --------
    >>> to_arrow(Decoded(np.array([[1, 2], [3, 4]]), np.array([[True, False], [True, True]])), pa.int64()).to_pylist()
    [1, None, 3, 4]
    """
    values = decoded.values.reshape(-1)
    valid = None if decoded.valid is None else decoded.valid.reshape(-1)
    if pa.types.is_struct(type):
        return _struct(values, valid, type)
    if pa.types.is_string(type) or pa.types.is_binary(type):
        return _text(values, valid, type)
    if pa.types.is_dictionary(type):
        if categories is None:
            raise TypeError("a dictionary type needs the categories of its decoder")
        return pa.DictionaryArray.from_arrays(_fixed(values, valid, pa.int32()), categories, ordered=type.ordered)
    return _fixed(values, valid, type)


def _fixed(values: Any, valid: Any, kind: pa.DataType) -> pa.Array[Any]:
    # packbits and the buffers themselves: no pass over the data but the one for the bitmap
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    data = np.packbits(values, bitorder="little") if pa.types.is_boolean(kind) else np.ascontiguousarray(values)
    if data.dtype.kind in "mM":
        data = data.view(np.int64)
    return pa.Array.from_buffers(kind, len(values), [bitmap, pa.py_buffer(data)])


def _text(values: Any, valid: Any, kind: pa.DataType) -> pa.Array[Any]:
    try:
        found = pa.array(values, type=kind, mask=None if valid is None else ~valid)
    except (UnicodeEncodeError, pa.ArrowInvalid) as error:
        raise ValueRangeError(f"text that cannot be written as UTF-8: {error}") from error
    if not isinstance(found, pa.Array):
        raise ValueRangeError("more than 2 GiB of text in one block; read it in smaller blocks")
    return found


def _struct(values: Any, valid: Any, kind: pa.StructType) -> pa.Array[Any]:
    fields = [kind.field(i) for i in range(kind.num_fields)]
    if values.dtype.kind == "c":
        parts = [values.real, values.imag]
    else:
        parts = [values[field.name] for field in fields]
    arrays = [to_arrow(Decoded(part, _filled(part)), field.type) for part, field in zip(parts, fields, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=None if valid is None else pa.array(~valid))


def _filled(part: Any) -> Any:
    """Fields have no validity of their own: NaT and None stand for NULL inside a structure."""
    return ~np.isnat(part) if part.dtype.kind in "mM" else None
