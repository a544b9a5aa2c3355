"""The frame of the user's code: where Python variables in SQL are looked up, and where warnings point."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def caller() -> FrameType | None:
    """The frame of the user's code that called into xzsql."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return frame


def _is_ours(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    return module == "xzsql" or (module.startswith("xzsql.") and not module.startswith("xzsql.testing"))


def depth() -> int:
    """The stacklevel that makes a warning point at the user's line."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
        depth += 1
    return depth


def variables_of(frame: FrameType | None) -> Callable[[str], object | None]:
    """A look-up of Python names as the frame's code would see them."""

    def look_up(name: str) -> object | None:
        if frame is None:
            return None
        found: object | None = frame.f_locals.get(name, frame.f_globals.get(name))
        return found

    return look_up
