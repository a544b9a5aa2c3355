"""How far a scan is: a bar over its blocks, in a terminal or a notebook, of scans that take a while."""

from __future__ import annotations

import functools
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from xzsql.options import options
from xzsql.source import Watch

#: Seconds that a scan runs before its bar is shown.
DELAY = 0.5


def bar_of(name: str) -> Watch | None:
    """What shows the progress of a scan of this table; None where nothing is to be shown."""
    if not options.current().progress or not _is_watched():
        return None
    make = _tqdm()
    return None if make is None else Bar(name, make)


class Bar:
    """The bar of one scan. It is made when the scan has run for a while, and taken away at its end.

    A bar that cannot be drawn is given up; the query goes on.
    """

    def __init__(self, name: str, make: Callable[..., Any]) -> None:
        self._name = name
        self._make: Callable[..., Any] | None = make
        self._bar: Any = None
        self._since = 0.0
        self._blocks = self._bytes = self._blocks_done = self._bytes_done = 0

    def begin(self, blocks: int, nbytes: int) -> None:
        self._since = time.monotonic()
        self._blocks, self._bytes = blocks, nbytes

    def advance(self, blocks: int, nbytes: int) -> None:
        self._blocks_done += blocks
        self._bytes_done += nbytes
        if self._make is None:
            return
        try:
            self._draw(blocks)
        except Exception:  # such as a stderr that was closed
            self._make = None

    def end(self) -> None:
        bar, self._bar, self._make = self._bar, None, None
        if bar is not None:
            try:
                bar.close()
            except Exception:
                return

    def _draw(self, blocks: int) -> None:
        assert self._make is not None
        if self._bar is not None:
            self._bar.set_postfix_str(self._postfix(), refresh=False)
            self._bar.update(blocks)
        elif self._blocks_done < self._blocks and time.monotonic() - self._since >= DELAY:
            self._bar = self._make(
                desc=self._name,
                total=self._blocks,
                initial=self._blocks_done,
                unit="block",
                postfix=self._postfix(),
                leave=False,
                miniters=1,
                dynamic_ncols=True,
            )

    def _postfix(self) -> str:
        return f"{size(self._bytes_done)} of {size(self._bytes)}"


def size(nbytes: int) -> str:
    """Bytes as a person reads them."""
    if nbytes < 1024:
        return f"{nbytes} B"
    value, units = float(nbytes), iter(("KiB", "MiB", "GiB", "TiB", "PiB"))
    unit = ""
    while value >= 1024 and (larger := next(units, None)) is not None:
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}"


def _is_watched() -> bool:
    """Whether somebody looks: stderr is a terminal, or this is a notebook."""
    if _in_notebook():
        return True
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # closed
        return False


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


@functools.cache
def _tqdm() -> Callable[..., Any] | None:
    """The bar for where this runs, None where tqdm is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # without ipywidgets it says so, and is a bar of text
            from tqdm.auto import tqdm
    except ImportError:
        return None
    # its monitor is a thread that redraws bars of many small steps
    found: Callable[..., Any] = type("Blocks", (tqdm,), {"monitor_interval": 0})
    return found
