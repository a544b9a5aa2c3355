"""The three things asked of an xarray Variable: is it in memory, how is it stored, and what is in this region."""

from __future__ import annotations

import math
from typing import Any

import dask
import numpy as np
import pandas as pd
import xarray as xr


def in_memory(variable: xr.Variable) -> bool:
    """Whether looking at the values reads nothing; xarray has no public name for this."""
    return bool(getattr(variable, "_in_memory", False))


def chunk_edges(variable: xr.Variable) -> dict[str, int | tuple[int, ...]]:
    """The storage chunks by dimension: a length where they are regular, the lengths where not; {} where unknown.

    dask's own chunks come first (they are what is computed at once), then shards (read whole or by index), then
    the chunks that the file says.
    """
    if variable.chunks is not None:
        return {
            str(d): c[0] if all(x == c[0] for x in c[:-1]) and c[-1] <= c[0] else tuple(c)
            for d, c in zip(variable.dims, variable.chunks, strict=True)
            if c
        }
    for key in ("shards", "chunks", "chunksizes", "preferred_chunks"):
        chunks = variable.encoding.get(key)
        if isinstance(chunks, dict):
            chunks = tuple(chunks.get(d) for d in variable.dims)
        if isinstance(chunks, tuple) and len(chunks) == variable.ndim and not in_memory(variable):
            known = zip(variable.dims, chunks, strict=True)
            return {str(d): int(c) for d, c in known if isinstance(c, int | np.integer) and c > 0}
    return {}


def load(variable: xr.Variable, key: tuple[Any, ...] = ()) -> Any:
    """The stored values of a region, as a numpy array or, for pandas extension types, as that array.

    `key` has a slice or an array of positions for each dimension; arrays select orthogonally.
    """
    if isinstance(variable.dtype, pd.api.extensions.ExtensionDtype):
        return _of_extension(variable, key)
    part = variable[key] if key else variable
    if part.chunks is not None:
        # Blocks are loaded on threads of our own already; a scheduler that the user chose has its way.
        chosen = dask.config.get("scheduler", None)
        return np.asarray(part.data.compute(**({} if chosen else {"scheduler": "synchronous"})))
    return part.values


def _of_extension(variable: xr.Variable, key: tuple[Any, ...]) -> Any:
    """The region of a pandas extension array, which is in memory and has one dimension."""
    array = variable.data
    if not isinstance(array, pd.api.extensions.ExtensionArray):  # of an index, whose data is no array of its own
        array = variable.to_index().array
    return array[key[0]] if key else array


def itemsize(variable: xr.Variable) -> int:
    """Bytes of a value in memory; text and objects are taken as 32."""
    dtype = variable.dtype
    if isinstance(dtype, np.dtype) and dtype.kind not in "OT":
        return max(1, dtype.itemsize)
    return 32


def nbytes(variable: xr.Variable) -> int:
    """Bytes of all values in memory, without looking at them."""
    return itemsize(variable) * math.prod(variable.shape)
