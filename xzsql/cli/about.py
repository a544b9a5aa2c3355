"""What is installed: versions, optional libraries, engines and adapters."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, entry_points, requires, version

import pyarrow as pa
import xarray as xr

from xzsql.adapters.base import ENTRY_POINTS

#: What decides how xzsql behaves, in this order; the other libraries that it needs follow.
_FIRST = ("xzsql", "duckdb", "xarray", "zarr", "numpy", "pandas", "pyarrow", "dask")

type _Line = tuple[str, str, str | None, str | None]


def installed() -> pa.Table:
    """A row for each component: its kind, name, version (NULL where it is absent) and a note."""
    lines = [("core", "python", platform.python_version(), platform.platform())]
    return pa.Table.from_pylist(
        [dict(zip(_SCHEMA.names, line, strict=True)) for line in [*lines, *_libraries(), *_engines(), *_adapters()]],
        schema=_SCHEMA,
    )


_SCHEMA = pa.schema([("kind", pa.string()), ("name", pa.string()), ("version", pa.string()), ("note", pa.string())])


def _libraries() -> Iterator[_Line]:
    """From the package's own metadata, so that nothing is imported and nothing forgotten."""
    needed: list[str] = []
    extra_of: dict[str, str] = {}
    for line in requires("xzsql") or []:
        name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
        marker = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if marker is None:
            needed.append(name)
        elif marker[1] != "all" and name != "xzsql":
            extra_of[name] = marker[1]
    for name in dict.fromkeys([*_FIRST, *sorted(needed)]):
        yield "core", name, _version(name), None
    for name, extra in sorted(extra_of.items(), key=lambda item: (item[1], item[0])):
        there = _version(name)
        yield "optional", name, there, f"extra {extra}" if there else f"pip install 'xzsql[{extra}]'"


def _engines() -> Iterator[_Line]:
    for name, engine in xr.backends.list_engines().items():
        yield "engine", name, None, engine.description or None


def _adapters() -> Iterator[_Line]:
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda p: p.name):
        yield "adapter", point.name, point.dist.version if point.dist else None, point.value


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
