"""What is known of the variables that a result was made from."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import xarray as xr

from xzsql.model import variables
from xzsql.model.decode import DecodeOptions
from xzsql.model.split import ROOT, split
from xzsql.model.table import Column, Table, folded

#: Attributes, beside units of time, that say that values are stored in another form than they are meant.
_CODED = ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "dtype", "_Encoding")
#: What stays true of the encoding of a variable when other values are put in it.
_LASTING = ("units", "calendar", "grid_mapping", "bounds", "climatology", "geometry")


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """The tables that a result may have come from, and the datasets that they were made of."""

    tables: Sequence[Table]
    groups: Mapping[str, xr.Dataset]
    """By path; undecoded where a file was opened so."""

    @classmethod
    def of(cls, dataset: xr.Dataset) -> Self:
        """The tables of one dataset."""
        return cls(split({ROOT: dataset}, DecodeOptions()).tables, {ROOT: dataset})

    def best(self, names: Iterable[str]) -> Table | None:
        """The table that columns of these names come from: most dimensions, then most columns, then fewest others."""
        given = {folded(n) for n in names}

        def score(table: Table) -> tuple[int, int, int]:
            whole = sum(all(folded(c.name) in given for c in keys) for keys in key_columns(table).values())
            return whole, sum(folded(c.name) in given for c in table.columns), -len(table.columns)

        found = max((t for t in self.tables if t.readable), key=score, default=None)
        return found if found is not None and (score(found)[1] or len(self.tables) == 1) else None

    def columns(self, table: Table) -> dict[str, Column]:
        """The columns of this table, then those of the others of its group, by folded name."""
        others = [t for t in self.tables if t.group == table.group and t is not table]
        found: dict[str, Column] = {}
        for t in (table, *others):
            for column in t.columns:
                found.setdefault(folded(column.name), column)
        return found

    def held(self, group: str) -> set[str]:
        """The variables of a group that are in a table."""
        return {c.variable or c.name for t in self.tables if t.group == group for c in t.columns}

    def dimensions(self, group: str) -> set[str]:
        """The dimensions that the tables of a group have."""
        return {d for t in self.tables if t.group == group for d in t.dims}

    def dataset(self, group: str) -> xr.Dataset:
        """A group with the index coordinates that it inherits and the values it means. Reads no data."""
        dataset = self.groups[group]
        parts = [p for p in group.split("/") if p]
        for i in range(len(parts) - 1, -1, -1):
            above = self.groups.get("/" + "/".join(parts[:i]))
            if above is None:
                continue
            indexed = [n for n in above.xindexes if n not in dataset.variables]
            fits = {n for n in indexed if all(dataset.sizes.get(d) == k for d, k in above[n].sizes.items())}
            dataset = dataset.assign_coords(above.drop_vars([n for n in above.variables if n not in fits]).coords)
        return _decoded(dataset, {c.variable or c.name: c for t in self.tables if t.group == group for c in t.columns})


def key_columns(table: Table) -> dict[str, list[Column]]:
    """The key columns of each dimension of a table."""
    return {d: [c for c in table.columns if c.role == "dimension" and c.dims == (d,)] for d in table.dims}


def lasting(encoding: Mapping[Any, Any]) -> dict[Any, Any]:
    """The part of an encoding that is true of other values too: not the packing, which they may not fit."""
    return {k: v for k, v in encoding.items() if k in _LASTING}


def kind_of_objects(variable: xr.Variable) -> str:
    """The numpy kind of what an array of objects in memory holds, as its first value says; "" for anything else."""
    if variable.dtype != np.dtype(object) or not variables.in_memory(variable):
        return ""
    return np.asarray(next((v for v in variable.values.flat if v is not None and v == v), None)).dtype.kind


def _decoded(dataset: xr.Dataset, columns: Mapping[str, Column]) -> xr.Dataset:
    """The dataset with variables decoded by xarray as far as their columns were decoded; lazily."""
    owners = {str(v.attrs.get("bounds")): v for v in dataset.variables.values() if "bounds" in v.attrs}
    changed: dict[Any, xr.Variable] = {}
    for name, variable in dataset.variables.items():
        attrs = dict(variable.attrs)
        owner = owners.get(str(name))
        if owner is not None:
            # CF 7.1: bounds that say nothing have the units of what they bound.
            attrs = {k: owner.attrs[k] for k in ("units", "calendar") if k in owner.attrs} | attrs
            column = columns.get(str(next((n for n, v in dataset.variables.items() if v is owner), "")))
        else:
            column = columns.get(str(name))
        kind = str(column.array.type) if column is not None and column.array is not None else ""
        timed = kind.startswith(("timestamp", "duration")) and "units" in attrs
        if (
            isinstance(variable.dtype, np.dtype)
            and variable.dtype.kind in "iufS"
            and (timed or set(_CODED) & attrs.keys())
        ):
            found = _decoded_variable(variable, attrs, kind)
            if found is not None:
                if owner is not None and found.dtype == variable.dtype:
                    continue
                changed[name] = found
    for name, variable in dataset.variables.items():
        listed = variable.attrs.get("coordinates")
        if isinstance(listed, str) and all(n in dataset.coords for n in listed.split()):
            moved = changed.get(name, variable).copy(deep=False)
            moved.encoding["coordinates"] = moved.attrs.pop("coordinates")
            changed[name] = moved
    coords = {n: v for n, v in changed.items() if n in dataset.coords}
    return dataset.assign_coords(coords).assign({n: v for n, v in changed.items() if n not in coords})


def _decoded_variable(variable: xr.Variable, attrs: Mapping[Any, Any], kind: str) -> xr.Variable | None:
    """None where xarray cannot decode it."""
    plain = variable.to_base_variable()
    plain.attrs = dict(attrs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return xr.conventions.decode_cf_variable(
                "v",
                plain,
                decode_times=kind.startswith("timestamp"),
                decode_timedelta=kind.startswith("duration"),
            )
        except Exception:
            return None
