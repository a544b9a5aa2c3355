"""Whatever xarray holds or opens: Dataset, DataArray, DataTree, or a path or URL of any format with an engine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import xarray as xr

from xzsql.adapters.base import Contents
from xzsql.errors import InvalidInputError, OpenError, UnknownNameError
from xzsql.options import Options

#: What xarray may do on the way in: promote coordinates and join characters, and leave every value as it is stored.
_UNDECODED = {
    "mask_and_scale": False,
    "decode_times": False,
    "decode_timedelta": False,
    "concat_characters": True,
    "decode_coords": True,
}
#: What may be said of an object that is open already.
_OPTIONS = tuple(f.name for f in fields(Options))
#: Engines that know groups.
_WITH_GROUPS = ("netcdf4", "h5netcdf", "zarr")


class XarrayAdapter:
    """The adapter of xarray objects and of all that xarray's engines open."""

    name = "xarray"

    def matches(self, target: object) -> bool:
        """Any xarray object, path or URL."""
        return isinstance(target, xr.Dataset | xr.DataArray | xr.DataTree | str | os.PathLike)

    def open(self, target: Any, *, engine: str | None = None, **backend: Any) -> Contents:
        """What the target holds.

        Parameters
        ----------
        target
            A Dataset, DataArray, DataTree, or a path or URL.
        engine
            An xarray engine for a path; None tries those that recognise it, then the others that are installed.
        **backend
            Further arguments of that engine.

        Raises
        ------
        OpenError
            If no engine can open the path, with what each said.
        """
        if isinstance(target, xr.Dataset | xr.DataArray | xr.DataTree):
            if engine is not None:
                raise InvalidInputError(f"engine={engine!r} is for paths; got a {type(target).__name__}, open already")
            if backend:
                raise UnknownNameError.of("option", next(iter(backend)), _OPTIONS, where="xzsql.open of an object")
            return Contents({path: _promoted(ds) for path, ds in _groups_of(target).items()})
        path = os.fspath(target)
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        groups = _opened(path, engine, backend)

        def close() -> None:
            for dataset in groups.values():
                dataset.close()

        return Contents(groups, store=path, close=close)


def _groups_of(target: xr.Dataset | xr.DataArray | xr.DataTree) -> Mapping[str, xr.Dataset]:
    if isinstance(target, xr.DataTree):
        found: dict[str, xr.Dataset] = {}
        for node in target.subtree:
            path = node.relative_to(target)
            found["/" if path == "." else f"/{path}"] = node.to_dataset(inherit=node is target)
        return found
    if isinstance(target, xr.Dataset):
        return {"/": target}
    name = target.name
    if name is None or name in target.coords:
        # The name of a coordinate would replace it.
        return {"/": target.to_dataset(name="value" if "value" not in target.coords else "value_1")}
    return {"/": target.to_dataset()}


def _promoted(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with `coordinates` attributes applied and characters joined, where nobody has done so yet."""
    named: set[str] = set()
    for variable in dataset.variables.values():
        text = variable.attrs.get("coordinates")
        if isinstance(text, str):
            named.update(n for n in text.split() if n in dataset.data_vars)
    if named:
        dataset = dataset.set_coords(sorted(named))
    characters = [
        name
        for name, v in dataset.variables.items()
        if v.dtype == "S1" and v.ndim > 1 and "char_dim_name" not in v.encoding and v.dims[-1] not in dataset.variables
    ]
    for name in characters:
        dataset = dataset.assign(
            {name: xr.conventions.decode_cf_variable(str(name), dataset.variables[name], **_JOINED)}
        )
    return dataset


_JOINED: dict[str, Any] = {
    "concat_characters": True,
    "mask_and_scale": False,
    "decode_times": False,
    "decode_timedelta": False,
}


def _opened(path: str, engine: str | None, backend: Mapping[str, Any]) -> Mapping[str, xr.Dataset]:
    if "://" not in path and not Path(path).exists():
        parent = Path(path).parent
        near = sorted(p.name for p in parent.iterdir())[:10] if parent.is_dir() else []
        hint = (
            f"; {str(parent)!r} holds {near}" if near else f"; there is no folder {str(parent)!r} with anything in it"
        )
        raise OpenError(f"no file or folder {path!r}{hint}")
    failures: dict[str, Exception] = {}
    for candidate in _candidates(path, engine):
        try:
            return _with_engine(path, candidate, backend)
        except Exception as error:  # an engine may fail in any way; the next one may not
            failures[candidate] = error
    if not failures:
        raise OpenError(
            f"cannot open {path!r}: none of xarray's engines is installed for it; see `pip install 'xzsql[netcdf]'`"
        )
    said = "; ".join(
        f"{name}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}" for name, e in failures.items()
    )
    raise OpenError(
        f"cannot open {path!r}: {said}. If an engine for its format is not installed, install it "
        f"(pip install 'xzsql[netcdf]'), or name one with engine=."
    ) from next(iter(failures.values()))


def _candidates(path: str, engine: str | None) -> Iterable[str]:
    """Engines to try: those that recognise the path first, then the rest."""
    if engine is not None:
        return [engine]
    likely: list[str] = []
    others: list[str] = []
    for name, backend in xr.backends.list_engines().items():
        if name == "store":
            continue
        try:
            known = bool(backend.guess_can_open(path))
        except Exception:  # a guess that fails is no
            known = False
        (likely if known else others).append(name)
    remote_or_folder = "://" in path or Path(path).is_dir()
    return likely or ([n for n in others if n == "zarr"] if remote_or_folder else others)


def _with_engine(path: str, engine: str, backend: Mapping[str, Any]) -> Mapping[str, xr.Dataset]:
    arguments: dict[str, Any] = {"engine": engine, "chunks": None, "cache": False, **_UNDECODED, **backend}
    if engine == "zarr" and "consolidated" not in backend:
        # xarray tries the same two, but warns; a folder lists its arrays in another order each time.
        try:
            return _read_metadata(path, {**arguments, "consolidated": True})
        except (ValueError, KeyError):
            found = _read_metadata(path, {**arguments, "consolidated": False})
            return {group: _in_order_of_names(dataset) for group, dataset in found.items()}
    return _read_metadata(path, arguments)


def _read_metadata(path: str, arguments: Mapping[str, Any]) -> Mapping[str, xr.Dataset]:
    if arguments["engine"] in _WITH_GROUPS and "group" not in arguments:
        return dict(xr.open_groups(path, **arguments))
    return {"/": xr.open_dataset(path, **arguments)}


def _in_order_of_names(dataset: xr.Dataset) -> xr.Dataset:
    coordinates = dataset.coords
    ordered = dataset.drop_vars(coordinates).assign_coords(
        {n: coordinates[n].variable for n in sorted(coordinates, key=str)}
    )
    return ordered[sorted(dataset.data_vars, key=str)].assign_attrs(dataset.attrs)
