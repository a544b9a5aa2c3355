"""Which variables of a dataset are tables' business: coordinates and data, but not the arrays that describe others.

References: CF conventions 1.11, sections 5.6 (grid mappings), 7.1 (cell boundaries), 7.4 (climatology), 7.5
(geometries); UGRID 1.0 (mesh topology).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import xarray as xr

_NAMED_BOUNDS = re.compile(r".+_(bnds|bounds)$")
#: Attributes whose value names variables that only describe this one.
_DESCRIBED_BY = ("bounds", "climatology", "grid_mapping", "geometry")
#: Attributes of containers: variables that carry attributes and no values.
_CONTAINER = ("grid_mapping_name", "geometry_type")


def _said(variable: xr.Variable, key: str) -> str | None:
    """An attribute as text; xarray moves those that it has used from attrs to encoding."""
    value = variable.attrs.get(key, variable.encoding.get(key))
    return value if isinstance(value, str) else None


def _names_in(text: str) -> list[str]:
    """The variables that an attribute names: `crs`, or `crs: x y other: lat lon`."""
    words = text.split()
    marked = [w[:-1] for w in words if w.endswith(":")]
    return marked or words


def metadata_variables(groups: Iterable[Mapping[str, xr.Variable]], own: Mapping[str, xr.Variable]) -> set[str]:
    """The names in `own` that are bounds, grid mappings or other containers, as any of the groups says."""
    found: set[str] = set()
    for variables in groups:
        for variable in variables.values():
            for key in _DESCRIBED_BY:
                text = _said(variable, key)
                if text:
                    found.update(n for n in _names_in(text) if n in own)
    for name, variable in own.items():
        if (_NAMED_BOUNDS.match(name) and variable.ndim == 2 and variable.shape[1] == 2) or (
            variable.ndim == 0
            and (any(_said(variable, key) for key in _CONTAINER) or _said(variable, "cf_role") == "mesh_topology")
        ):
            found.add(name)
    return found


def described(variable: xr.Variable) -> str:
    """Long name and units, for a comment on the column."""
    name = _said(variable, "long_name") or _said(variable, "standard_name") or ""
    units = _said(variable, "units") or ""
    return f"{name} [{units}]" if name and units else name or (f"[{units}]" if units else "")
