"""A variable with its decoding: what the columns of a dense table load from."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import xarray as xr

from xzsql.errors import ReadError, ValueRangeError
from xzsql.model import variables
from xzsql.model.decode import Decoded, Decoder
from xzsql.model.grid import as_array
from xzsql.model.table import Positions

#: A coordinate up to this many bytes is kept after it was first read; a larger one is read region by region.
_KEPT_BYTES = 2**27


@dataclass(frozen=True, slots=True)
class Place:
    """Where a variable is, for error messages."""

    store: str
    group: str
    variable: str


class DecodedVariable:
    """The decoded values of an xarray Variable, by region; implements `Lazy`."""

    def __init__(self, variable: xr.Variable, decoder: Decoder, place: Place, *, keep: bool) -> None:
        self._variable, self._decoder, self._place = variable, decoder, place
        self.dims: tuple[str, ...] = tuple(str(d) for d in variable.dims)
        self.shape: tuple[int, ...] = variable.shape
        self.type = decoder.type
        self.note = decoder.note
        self.chunks = {str(d): c for d, c in variables.chunk_edges(variable).items()}
        self.itemsize = variables.itemsize(variable)
        self.in_memory = variables.in_memory(variable)
        # What is in memory may be changed there by its owner: never keep a decoded copy of it.
        self._keep = keep and not self.in_memory and variables.nbytes(variable) <= _KEPT_BYTES
        self._kept: Decoded | None = None
        self._lock = threading.Lock()

    @property
    def kept(self) -> bool:
        """Whether the values are read once, whole."""
        return self._keep

    @property
    def categories(self) -> pa.Array[Any] | None:
        """The categories that the values number, for categoricals."""
        return self._decoder.categories

    def load(self, region: Mapping[str, Positions]) -> Decoded:
        """The decoded values at these positions, in the order of this variable's own dimensions."""
        if not self._keep:
            return self._read(region)
        with self._lock:
            if self._kept is None:
                self._kept = self._read({})
        values, valid = self._kept
        if not region:
            return Decoded(values, valid)
        for axis, d in enumerate(self.dims):
            if d in region:
                at = (slice(None),) * axis + (region[d],)
                values, valid = values[at], None if valid is None else valid[at]
        return Decoded(values, valid)

    def _read(self, region: Mapping[str, Positions]) -> Decoded:
        key = tuple(region.get(d, slice(None)) for d in self.dims)
        try:
            return self._decoder.apply(variables.load(self._variable, key))
        except ValueRangeError as error:
            raise self._located(error, region, ValueRangeError) from error
        except Exception as error:
            raise self._located(error, region, ReadError) from error

    def _located[E: ReadError](self, error: Exception, region: Mapping[str, Positions], kind: type[E]) -> E:
        place = self._place
        ranges: list[str] = []
        for d, n in zip(self.dims, self.shape, strict=True):
            p = as_array(region[d]) if d in region else np.array([0, max(0, n - 1)])
            ranges.append(f"{d} {p[0]}:{p[-1] + 1}" if len(p) else f"{d} 0:0")
        return kind.of_block(
            error,
            store=place.store,
            group=place.group,
            variable=place.variable,
            block=f"[{', '.join(ranges) or 'its one value'}]",
        )
