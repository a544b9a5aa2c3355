"""Settings with a default, changed globally, for a block of code, or per call.

>>> import xzsql
>>> with xzsql.options(workers=1):
...     xzsql.options.workers
1
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

from xzsql.errors import InvalidInputError, UnknownNameError


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of one scan; immutable, so that a scan that started keeps its own."""

    memory_budget: int = 256 * 2**20
    """Bytes of blocks in flight, loaded or being loaded, over all scans of the process."""
    batch_rows: int = 196_608
    """Rows of a record batch, about."""
    block_bytes: int = 16 * 2**20
    """Target size of one load, summed over the columns asked for; storage chunks are merged or cut towards it."""
    workers: int = max(3, (os.cpu_count() or 1) + 1)
    """Threads that load and decode blocks, shared by all scans."""
    progress: bool = True
    """Whether a long query shows a bar; it does only in a terminal or notebook, and where tqdm is installed."""
    decode_times: bool = True
    """Whether CF times become TIMESTAMP, in catalogs that do not say themselves."""
    decode_timedelta: bool = False
    """Whether units such as "days" alone become INTERVAL, likewise."""
    nan_as_null: bool = True
    """Whether NaN is NULL, likewise."""
    mask_fill_value: bool | None = None
    """Whether a Zarr fill_value is missing, likewise; None is the rule of docs/values.md."""


#: Options of a catalog's scans; the others say how it decodes.
OF_SCANS = ("memory_budget", "batch_rows", "block_bytes", "workers", "progress")
_SWITCHES = ("progress", "decode_times", "decode_timedelta", "nan_as_null", "mask_fill_value")

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def _checked(name: str, value: Any) -> Any:
    known = [f.name for f in fields(Options)]
    if name not in known:
        raise UnknownNameError.of("option", name, known)
    if name in _SWITCHES:
        if not isinstance(value, bool) and not (name == "mask_fill_value" and value is None):
            none = ", or None for the rule" if name == "mask_fill_value" else ""
            raise InvalidInputError(f"option {name} must be True or False{none}, got {value!r}")
        return value
    if isinstance(value, str) and name in ("memory_budget", "block_bytes"):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", value.lower())
        if match and match[2] in _UNITS:
            value = int(float(match[1]) * _UNITS[match[2]])
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidInputError(
            f"option {name} must be a whole number of at least 1"
            f"{' or a size such as 64MiB' if name in ('memory_budget', 'block_bytes') else ''}, got {value!r}"
        )
    return value


class _Settings:
    """`xzsql.options`: read a setting as an attribute, assign to set it, call for a `with` block.

    As with `xarray.set_options`, a setting holds for the whole process: DuckDB scans on threads of its own, which a
    setting of one thread would not reach.
    """

    def __init__(self) -> None:
        self.__dict__["_now"] = Options()

    def current(self, **changes: Any) -> Options:
        """The settings in force, with these changes."""
        changed: Options = replace(self.__dict__["_now"], **{k: _checked(k, v) for k, v in changes.items()})
        return changed

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        current = self.current()
        if not hasattr(current, name):
            raise UnknownNameError.of("option", name, [f.name for f in fields(Options)])
        return getattr(current, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__["_now"] = self.current(**{name: value})

    def __call__(self, **changes: Any) -> AbstractContextManager[Options]:
        return self._within(self.current(**changes))

    @contextmanager
    def _within(self, changed: Options) -> Iterator[Options]:
        before = self.__dict__["_now"]
        self.__dict__["_now"] = changed
        try:
            yield changed
        finally:
            self.__dict__["_now"] = before

    def __dir__(self) -> list[str]:
        return [f.name for f in fields(Options)]

    def __repr__(self) -> str:
        return repr(self.current())


options = _Settings()
