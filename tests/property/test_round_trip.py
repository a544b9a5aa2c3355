"""`SELECT * FROM self`, without DuckDB in between: a dataset to rows, shuffled, and back is the same dataset."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from xzsql.model.decode import DecodeOptions
from xzsql.model.dense import GridSource
from xzsql.model.split import split
from xzsql.model.template import Template
from xzsql.model.to_dataset import to_dataset

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", ">i2", "float16", "float32",
    "float64", "datetime64[ns]", "datetime64[us]", "datetime64[s]", "timedelta64[ns]", "timedelta64[s]", "U", "O", "S",
    "complex64", "complex128", "T", "structured",
]  # fmt: skip
AXES = ["none", "int16", "int64", "uint8", "float32", "float64", "datetime64[ns]", "datetime64[s]", "U", "multi"]


def rows_of(source):
    """All rows, in the types that the source declares: run-end and dictionary encoding undone."""
    names = source.schema.names
    arrays = {n: [] for n in names}
    for batch in source.stream(names, ()):
        for name, array in zip(names, batch.columns, strict=True):
            if pa.types.is_run_end_encoded(array.type):
                array = pc.run_end_decode(array)
            arrays[name].append(array.cast(source.schema.field(name).type))
    return pa.table({n: pa.chunked_array(a, source.schema.field(n).type) for n, a in arrays.items()})


def values(draw, dtype, shape):
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    count = int(np.prod(shape))
    holes = rng.random(shape) < draw(st.sampled_from([0, 0.3]))
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in ("U", "S", "T", "O"):
        words = np.array(["", "a", "bc", "é", "日本", "it's"], object)[rng.integers(0, 6, count)].reshape(shape)
        if dtype == "O":
            words[holes] = None
            return words
        if dtype == "S":
            return np.array([w.encode() for w in words.flat], "S").reshape(shape)
        return words.astype("U") if dtype == "U" else words.astype(np.dtypes.StringDType())
    if dtype == "structured":
        found = np.zeros(shape, [("a", "i4"), ("b", "f8")])
        found["a"], found["b"] = rng.integers(-9, 9, shape), rng.random(shape)
        return found
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max, shape, dtype=kind.newbyteorder("="), endpoint=True).astype(kind)
    if kind.kind in "mM":
        found = rng.integers(-(10**9), 10**9, shape).astype(f"{kind.kind}8[s]").astype(kind)
        found[holes] = "NaT"
        return found
    found = rng.normal(size=shape).astype(kind)
    found[holes] = np.nan
    return found


def axis(draw, dim, size):
    kind = draw(st.sampled_from(AXES if size else AXES[:-1]))  # xarray cannot show an empty MultiIndex
    if kind == "none":
        return {}
    if kind == "multi":
        index = pd.MultiIndex.from_arrays([np.arange(size) // 2, [f"l{i % 2}" for i in range(size)]], names=["p", "q"])
        return xr.Coordinates.from_pandas_multiindex(index, dim)
    if kind == "U":
        found = np.array([f"{dim}{i}" for i in range(size)], "U4")
    elif kind.startswith("datetime64"):
        found = (np.datetime64("1999-12-30", "s") + np.arange(size) * np.timedelta64(9, "h")).astype(kind)
    else:
        found = (np.arange(size) * 3).astype(kind) / (np.array(4, kind) if kind.startswith("f") else 1)
        found = found.astype(kind)
    order = draw(st.sampled_from(["up", "down", "any"]))
    if order == "down":
        found = found[::-1].copy()
    elif order == "any":
        found = found[np.random.default_rng(size).permutation(size)]
    return {dim: ((dim,), found, {"axis": dim})}


@st.composite
def datasets(draw):
    dims = tuple(draw(st.permutations(["t", "y", "x"])))[: draw(st.integers(0, 3))]
    sizes = {d: draw(st.integers(1, 5)) for d in dims}
    if dims and not draw(st.integers(0, 9)):
        sizes[dims[0]] = 0
    coords, multi = {}, None
    for d in dims:
        found = axis(draw, d, sizes[d])
        if not isinstance(found, dict):
            multi = found
        else:
            coords.update(found)
    for i in range(draw(st.integers(0, 3))):
        own = tuple(draw(st.permutations(dims)))[: draw(st.integers(0, len(dims)))]
        dtype = draw(st.sampled_from(["float32", "int64", "U", "bool", "datetime64[ns]"]))
        coords[f"c{i}"] = (own, values(draw, dtype, tuple(sizes[d] for d in own)), {"n": i})
    data = {}
    for i in range(draw(st.integers(1, 4))):
        data[f"v{i}"] = (dims, values(draw, draw(st.sampled_from(DTYPES)), tuple(sizes.values())), {"units": "1"})
    if "t" in coords and draw(st.booleans()):
        coords["t"][2]["bounds"] = "t_bnds"
        data["t_bnds"] = (("t", "nv"), np.arange(2.0 * sizes["t"]).reshape(-1, 2))
    if draw(st.booleans()):
        data["crs"] = ((), 0, {"grid_mapping_name": "latitude_longitude"})
        data["v0"][2]["grid_mapping"] = "crs"
    if dims and draw(st.booleans()):
        coords["unused"] = (("unused",), [3, 1])
    ds = xr.Dataset(data, coords, {"title": "a title"})
    return ds if multi is None else ds.assign_coords(multi)


@given(datasets(), st.booleans(), st.integers(0, 99))
def test_all_rows_in_any_order_are_the_dataset(ds, shuffled, seed):
    (table,) = split({"/": ds}, DecodeOptions()).tables
    rows = rows_of(GridSource(table))
    if shuffled:
        rows = rows.take(pa.array(np.random.default_rng(seed).permutation(rows.num_rows)))
    found = to_dataset(rows, template=Template([table], {"/": ds}))
    xr.testing.assert_identical(found, ds)
    assert {n: v.dtype for n, v in found.variables.items()} == {n: v.dtype for n, v in ds.variables.items()}
    assert {n: v.dims for n, v in found.variables.items()} == {n: v.dims for n, v in ds.variables.items()}
    assert set(found.xindexes) == set(ds.xindexes)


@given(datasets(), st.data())
def test_some_rows_are_the_dataset_where_they_are_and_missing_elsewhere(ds, data):
    (table,) = split({"/": ds}, DecodeOptions()).tables
    rows = rows_of(GridSource(table))
    if not table.dims or not rows.num_rows:
        return
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=rows.num_rows, max_size=rows.num_rows)))
    found = to_dataset(rows.filter(pa.array(kept)), template=Template([table], {"/": ds}))
    cells = kept.reshape(table.shape)
    present = [np.flatnonzero(cells.any(axis=tuple(j for j in range(cells.ndim) if j != i))) for i in range(cells.ndim)]
    box = ds.isel(dict(zip(table.dims, present, strict=True)))
    there = cells[np.ix_(*present)]
    for name in (n for n in ds.data_vars if n.startswith("v")):
        assert found[name].dims == table.dims
        # the Python value of each cell: as it was, or missing
        got, expected = found[name].values.astype(object), box[name].values.astype(object)
        for at in np.ndindex(there.shape):
            if there[at]:
                one = tuple(got[at].values()) if isinstance(got[at], dict) else got[at]
                assert one == expected[at] or (pd.isna(one) and pd.isna(expected[at]))
            else:
                assert pd.isna(got[at])
