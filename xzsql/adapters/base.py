"""What an adapter is, what it gives, and how one is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol

import xarray as xr

from xzsql.errors import UnsupportedError
from xzsql.source import TableSource

#: Entry point group in which a package announces an adapter.
ENTRY_POINTS = "xzsql.adapters"


def _nothing() -> None:
    """For what holds no file open."""


@dataclass(slots=True, eq=False)
class Contents:
    """What a target holds. Nothing is read but metadata."""

    groups: Mapping[str, xr.Dataset]
    """Path ("/", "/a/b") to a lazy dataset, CF attributes not applied where xzsql opened it."""
    tables: Mapping[tuple[str, str], TableSource] = field(default_factory=dict)
    """Tables that are no grid: (group path, table name) to source."""
    left_out: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """What cannot be read: (group path, name) to the reason."""
    store: str = ""
    """Path or URL, for messages; empty for an object in memory."""
    close: Callable[[], None] = _nothing
    """Closes what the adapter opened; what the caller opened stays open."""


class Adapter(Protocol):
    """One format. An instance is made without arguments and holds no state."""

    name: str

    def matches(self, target: object) -> bool:
        """Whether this adapter knows what to do with the target, from its type or name alone."""

    def open(self, target: Any, **options: Any) -> Contents:
        """What the target holds, as it is now. Errors are of `xzsql.errors`."""


@cache
def _adapters() -> tuple[Adapter, ...]:
    found = {e.name: e for e in entry_points(group=ENTRY_POINTS)}
    # xarray's takes any path, so it comes last.
    order = sorted(found, key=lambda name: (name == "xarray", name))
    return tuple(found[name].load()() for name in order)


def adapter_for(target: object) -> Adapter:
    """The adapter of a target."""
    for adapter in _adapters():
        if adapter.matches(target):
            return adapter
    kind = f"{type(target).__module__}.{type(target).__qualname__}"
    raise UnsupportedError(
        f"cannot open an object of type {kind}: {str(target)[:80]!r}; give a path, a URL, or an xarray Dataset, "
        f"DataArray or DataTree (adapters installed: {', '.join(a.name for a in _adapters()) or 'none'})"
    )
