"""A grid in Zarr whose reads are counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import xarray as xr
from zarr.storage import MemoryStore

from xzsql.testing.spies import CountingStore, touched_chunks

CHUNKS = {"time": 4, "lat": 5, "lon": 6}


@dataclass
class Stored:
    """A dataset in memory, the same lazily from a store, and what was read of it."""

    eager: xr.Dataset
    lazy: xr.Dataset
    store: CountingStore

    def read(self, name: str = "air") -> set[tuple[int, ...]]:
        """Indices of the chunks of a variable that were read."""
        return {index for _, index in self.store.chunks(name)}

    def holding(self, kept: xr.DataArray, name: str = "air") -> set[tuple[int, ...]]:
        """Indices of the chunks that hold a kept cell."""
        whole = kept.broadcast_like(self.eager[name]).transpose(*self.eager[name].dims)
        return touched_chunks(whole.values, tuple(CHUNKS[str(d)] for d in self.eager[name].dims))


@pytest.fixture
def store_of() -> Callable[..., Stored]:
    """`store_of(ds)` writes a dataset in chunks and opens it lazily, without dask."""

    def make(ds: xr.Dataset, chunks: Any = None, **open_options: Any) -> Stored:
        memory = MemoryStore()
        sizes = {**CHUNKS, **(chunks or {})}
        encoding = {
            n: {"chunks": tuple(min(sizes.get(str(d), ds.sizes[d]), ds.sizes[d]) for d in v.dims)}
            for n, v in ds.variables.items()
            if v.ndim > 1
        }
        ds.to_zarr(memory, encoding=encoding, consolidated=False)
        spy = CountingStore(memory)
        lazy = xr.open_zarr(spy, consolidated=False, **{"chunks": None, **open_options})
        spy.clear_log()
        return Stored(ds, lazy, spy)

    return make


@pytest.fixture
def grid() -> xr.Dataset:
    """air and wind over 20 times, 15 latitudes (falling) and 24 longitudes."""
    rng = np.random.default_rng(1)
    shape = (20, 15, 24)
    return xr.Dataset(
        {
            "air": (("time", "lat", "lon"), rng.normal(280, 9, shape)),
            "wind": (("time", "lat", "lon"), rng.normal(0, 5, shape).astype("f4")),
        },
        coords={
            "time": np.datetime64("2000-01-01", "ns") + np.arange(20) * np.timedelta64(5, "D"),
            "lat": 60 - np.arange(15) * 2.5,
            "lon": np.arange(24) * 0.1,
            "season": ("time", np.array(["cold"] * 12 + ["warm"] * 8)),
            "lat2": (("lat", "lon"), 50 + rng.normal(0, 1, (15, 24)).cumsum(0)),
        },
    )


@pytest.fixture
def stored(store_of: Callable[..., Stored], grid: xr.Dataset) -> Stored:
    """The grid in Zarr, 5 x 3 x 4 chunks a variable."""
    return store_of(grid)
