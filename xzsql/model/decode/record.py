"""The records of decoding.

The values of a `Decoded` are in canonical form, by Arrow type:

===================== ==================================================================
bool, intN, uintN     bool and native integers
float, double         float32, float64
timestamp, duration   datetime64 and timedelta64 of the same unit
string, binary        object arrays of str or bytes, None where NULL
dictionary            int32 codes into `Decoder.categories`
struct(re, im)        complex64, complex128
struct                structured arrays whose fields are canonical; NaT and None are NULL
===================== ==================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """Which of the rules apply."""

    decode_times: bool = True
    """Whether `"<unit> since <date>"` becomes TIMESTAMP."""
    decode_timedelta: bool = False
    """Whether units such as `"days"` alone become INTERVAL."""
    nan_as_null: bool = True
    """Whether NaN in a float column is NULL."""
    mask_fill_value: bool | None = None
    """Whether a Zarr `fill_value` is missing; None: in version 2, where it is not zero and there is no `_FillValue`."""
    bytes_as: Literal["utf8", "blob"] = "utf8"
    """Whether bytes are VARCHAR or BLOB."""


class Decoded(NamedTuple):
    """A decoded block."""

    values: np.ndarray[Any, Any]
    """In the shape of the stored block; arbitrary where not valid."""
    valid: np.ndarray[Any, Any] | None
    """bool, in the same shape; None: all."""


@dataclass(frozen=True, slots=True, eq=False)
class Decoder:
    """The type of a column, and how its stored blocks become values."""

    type: pa.DataType
    """The Arrow type of the column."""
    apply: Callable[[Any], Decoded]
    """A stored block of any shape, or a pandas extension array, to its values; thread-safe. Raises ValueRangeError."""
    note: str = ""
    """Why something was left as it is, for a person; empty: nothing was."""
    categories: pa.Array[Any] | None = None
    """What the codes of a dictionary type stand for."""


def flat(step: Callable[[Any], tuple[Any, Any]]) -> Callable[[Any], Decoded]:
    """A function of 1-D arrays as one of any shape."""

    def apply(raw: Any) -> Decoded:
        block = np.asarray(raw)
        with np.errstate(all="ignore"):
            values, valid = step(block.reshape(-1))
        return Decoded(values.reshape(block.shape), None if valid is None else valid.reshape(block.shape))

    return apply
