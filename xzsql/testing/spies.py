"""What was read: stores, lazy arrays and dask arrays that record it.

>>> from zarr.storage import MemoryStore
>>> spy = CountingStore(MemoryStore())
>>> spy.chunks()
set()
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterable
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing
from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import WrapperStore

_CHUNK = re.compile(r"(?:(?P<array>.*)/)?c(?:/(?P<index>[\d/]+))?$")


class CountingStore(WrapperStore[Store]):
    """A Zarr store (format 3) that records the keys that are read.

    Parameters
    ----------
    store
        The store that holds the data.
    log
        Where the keys go, in the order of reading; copies of this store share it. A key is there as often as it was
        read. Appending to a list is safe from several threads.
    """

    def __init__(self, store: Store, log: list[str] | None = None) -> None:
        super().__init__(store)
        self.log: list[str] = [] if log is None else log

    def _with_store(self, store: Store) -> CountingStore:
        return type(self)(store, self.log)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Record the key and read it."""
        self.log.append(key)
        return await super().get(key, prototype, byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Record the keys and read the ranges."""
        ranges = list(key_ranges)
        self.log.extend(key for key, _ in ranges)
        return await super().get_partial_values(prototype, ranges)

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Record the key and read it."""
        self.log.append(key)
        return super().get_sync(key, prototype=prototype, byte_range=byte_range)

    def chunks(self, array: str | None = None) -> set[tuple[str, tuple[int, ...]]]:
        """The chunks read since the last `clear_log`: `{(array path, chunk index)}`, of one array if it is named."""
        return {found for found in self._chunk_reads() if array in (None, found[0])}

    def reads(self, array: str | None = None) -> int:
        """How often a chunk was read; a chunk that was read twice counts twice."""
        return sum(array in (None, found[0]) for found in self._chunk_reads())

    def _chunk_reads(self) -> list[tuple[str, tuple[int, ...]]]:
        found = [_CHUNK.match(key) for key in list(self.log)]
        return [
            (m["array"] or "", tuple(map(int, (m["index"] or "").split("/"))) if m["index"] else ()) for m in found if m
        ]

    def clear_log(self) -> None:
        """Forget what was read."""
        self.log.clear()


class RecordingArray(BackendArray):
    """A lazy array, as xarray's backends have them, that records the keys it is indexed with.

    Parameters
    ----------
    values : array
        What it holds.
    failing
        Positions, one a dimension, of a cell that cannot be read: a key that touches it raises OSError.
    """

    def __init__(self, values: Any, failing: tuple[int, ...] | None = None) -> None:
        self.values = np.asarray(values)
        self.shape: tuple[int, ...] = self.values.shape
        self.dtype = self.values.dtype
        self.keys: list[tuple[Any, ...]] = []
        self._failing = failing
        self._lock = threading.Lock()

    def __getitem__(self, key: Any) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        with self._lock:
            self.keys.append(key)
        positions = [
            np.arange(n)[k : k + 1] if isinstance(k, int | np.integer) else np.arange(n)[k]
            for k, n in zip(key, self.shape, strict=True)
        ]
        if self._failing is not None and all(f in p for f, p in zip(self._failing, positions, strict=True)):
            raise OSError(f"the disk has a hole at {self._failing}")
        kept = tuple(0 if isinstance(k, int | np.integer) else slice(None) for k in key)
        return self.values[np.ix_(*positions)][kept] if positions else self.values[()]

    def touched(self) -> Any:
        """A boolean array: the cells that were read."""
        mask = np.zeros(self.shape, bool)
        for key in list(self.keys):
            mask[np.ix_(*(np.atleast_1d(np.arange(n)[k]) for k, n in zip(key, self.shape, strict=True)))] = True
        return mask

    def cells(self) -> int:
        """How many cells were read, counting a cell that was read twice as two."""
        total = 0
        for key in list(self.keys):
            total += math.prod(np.atleast_1d(np.arange(n)[k]).size for k, n in zip(key, self.shape, strict=True))
        return total

    def variable(self, dims: tuple[str, ...], chunks: tuple[int, ...] | None = None, **attrs: Any) -> xr.Variable:
        """The lazy variable of this array, with storage chunks if they are given."""
        lazy = xr.Variable(dims, indexing.LazilyIndexedArray(self), attrs)
        if chunks is not None:
            lazy.encoding = {"chunks": chunks, "preferred_chunks": dict(zip(dims, chunks, strict=True))}
        return lazy


class DaskSpy:
    """A dask array that records which of its blocks were computed.

    Parameters
    ----------
    values : array
        What it holds.
    chunks
        As dask has them.
    """

    def __init__(self, values: Any, chunks: Any) -> None:
        self.computed: list[tuple[int, ...]] = []
        self._source = np.asarray(values)
        dask_array: Any = da  # which ships no types for these
        whole = dask_array.from_array(self._source, chunks=chunks)
        self.array: Any = dask_array.map_blocks(self._block, whole, dtype=self._source.dtype, meta=self._source[:0])

    def _block(self, block: Any, block_info: Any = None) -> Any:
        if block_info:
            self.computed.append(tuple(block_info[0]["chunk-location"]))
        return block

    def __dask_tokenize__(self) -> int:
        return id(self)

    def blocks(self) -> set[tuple[int, ...]]:
        """The indices of the blocks that were computed."""
        return set(self.computed)


def touched_chunks(kept: Any, chunks: tuple[int, ...]) -> set[tuple[int, ...]]:
    """The chunk indices that hold a True cell of `kept`, a boolean array: what an ideal reader reads."""
    where = np.argwhere(np.asarray(kept))
    return {tuple(map(int, i)) for i in where // np.asarray(chunks)}
