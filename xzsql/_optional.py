"""Optional libraries, imported where they are used."""

from __future__ import annotations

import importlib
from types import ModuleType

from xzsql.errors import MissingDependencyError


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """The module, or an error that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError.of(module, extra, purpose) from error
