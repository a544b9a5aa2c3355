"""What can be opened, and that every way to the same data gives the same rows."""

from __future__ import annotations

import gc
import os
import weakref

import numpy as np
import psutil
import pytest
import xarray as xr
from zarr.storage import MemoryStore

import xzsql
from xzsql.testing import oracle
from xzsql.testing.spies import CountingStore


@pytest.fixture(scope="module")
def raw() -> xr.Dataset:
    """Packed and plain variables with holes, on coordinates of several types."""
    rng = np.random.default_rng(5)
    return xr.Dataset(
        {
            "packed": (
                ("time", "lat"),
                rng.integers(-5, 5, (6, 4)).astype("i2"),
                {"scale_factor": 0.1, "add_offset": 2.5, "_FillValue": np.int16(3)},
            ),
            "plain": (("time", "lat"), np.where(rng.random((6, 4)) < 0.3, np.nan, rng.normal(size=(6, 4)))),
            "count": ("time", np.arange(6, dtype="i4"), {"missing_value": np.int32(2)}),
        },
        coords={
            "time": ("time", np.arange(6, dtype="i4") * 6, {"units": "hours since 2000-02-28", "calendar": "standard"}),
            "lat": ("lat", np.linspace(50, 47, 4).astype("f4")),
        },
    )


def same(catalog: xzsql.Catalog, raw: xr.Dataset) -> None:
    for (_, name), table in oracle.frames(raw).items():
        found = catalog.query(f'FROM "{name}"').arrow()
        # the folder of a Zarr store lists its arrays in no order
        assert oracle.difference(found.select(table.column_names), table) == ""


@pytest.mark.parametrize("form", ["zarr 3", "zarr 2", "netcdf4", "h5netcdf", "netcdf 3"])
@pytest.mark.parametrize("as_text", [True, False])
def test_a_path_of_any_format(tmp_path, raw, form, as_text):
    path = tmp_path / ("a.zarr" if form.startswith("zarr") else "a.nc")
    if form.startswith("zarr"):
        raw.to_zarr(path, zarr_format=int(form[-1]), consolidated=False)
    elif form == "netcdf 3":
        raw.to_netcdf(path, engine="netcdf4", format="NETCDF3_64BIT")
    else:
        raw.to_netcdf(path, engine=form)
    with xzsql.open(str(path) if as_text else path) as catalog:
        same(catalog, raw)


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
def test_an_engine_that_is_named(tmp_path, raw, engine):
    raw.to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    with xzsql.open(tmp_path / "a.nc", engine=engine) as catalog:
        same(catalog, raw)


def test_consolidated_and_not(tmp_path, raw):
    raw.to_zarr(tmp_path / "a.zarr", zarr_format=2, consolidated=True)
    with xzsql.open(tmp_path / "a.zarr") as catalog:
        same(catalog, raw)


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
def test_groups_of_a_netcdf_file_are_schemas(tmp_path, raw, engine):
    path = tmp_path / "a.nc"
    raw.to_netcdf(path, engine="netcdf4")
    child = xr.Dataset({"w": (("time", "z"), np.arange(12.0).reshape(6, 2))})
    child.to_netcdf(path, group="model/fine", mode="a", engine="netcdf4")
    with xzsql.open(path, engine=engine) as catalog:
        found = catalog.query("SELECT w FROM \"model/fine\".time_z WHERE time = '2000-02-29' ORDER BY w").fetchall()
        assert found == [(8.0,), (9.0,)]
        same(catalog, raw)


def test_a_dataset_a_tree_and_an_array_in_memory(raw):
    with xzsql.open(raw) as catalog:
        same(catalog, raw)
    with xzsql.open(xr.DataTree.from_dict({"/": raw})) as catalog:
        same(catalog, raw)
    with xzsql.open(raw["plain"]) as catalog:
        same(catalog, raw[["plain"]])
    same(raw["plain"].sql, raw[["plain"]])


def test_a_file_is_closed_with_its_catalog(tmp_path, raw):
    path = tmp_path / "a.nc"
    raw.to_netcdf(path, engine="netcdf4")
    with xzsql.open(path) as catalog:
        catalog.query('SELECT sum(plain) FROM "time_lat"').fetchall()
    gc.collect()
    assert str(path) not in {f.path for f in psutil.Process(os.getpid()).open_files()}


def test_a_dataset_of_the_user_is_left_open(tmp_path, raw):
    raw.to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    with xr.open_dataset(tmp_path / "a.nc", engine="netcdf4") as ds:
        with xzsql.open(ds) as catalog:
            catalog.query("SELECT sum(plain) FROM time_lat").fetchall()
        assert ds["plain"].shape == ds["plain"].values.shape
        assert ds.sql.query("SELECT count(*) FROM time_lat").fetchall() == [(24,)]


def test_an_object_is_freed_with_its_last_reference(raw):
    ds = raw.copy(deep=True)
    ds.sql.query("SELECT count(*) FROM time_lat").fetchall()
    gone = weakref.ref(ds)
    del ds
    gc.collect()
    assert gone() is None


def test_options_change_what_is_decoded(tmp_path, raw):
    raw.to_zarr(tmp_path / "a.zarr", consolidated=False)
    with xzsql.open(tmp_path / "a.zarr", decode_times=False, nan_as_null=False) as catalog:
        stored = xr.open_zarr(tmp_path / "a.zarr", decode_cf=False, chunks=None, consolidated=False)
        tables = oracle.frames(stored, oracle.Rules(decode_times=False, nan_as_null=False))
        for (_, name), table in tables.items():
            assert oracle.difference(catalog.query(f'FROM "{name}"').arrow(), table) == ""


@pytest.mark.parametrize("option", [{"decode_time": False}, {"nonsense": 1}])
def test_an_unknown_option_is_an_error(raw, option):
    with pytest.raises((TypeError, xzsql.XzsqlError), match=next(iter(option))):
        xzsql.open(raw, **option).tables()


def test_tables_shows_the_chunks_and_blocks_of_the_store(raw):
    store = MemoryStore()
    raw.to_zarr(store, encoding={n: {"chunks": (4, 2)} for n in ("packed", "plain")}, consolidated=False)
    spy = CountingStore(store)
    ds = xr.open_zarr(spy, chunks=None, consolidated=False)
    spy.clear_log()
    with xzsql.options(block_bytes=1):
        rows = {r["name"]: r for r in ds.sql.tables().df().to_dict("records")}
    assert list(rows["time_lat"]["chunk_shape"]) == [4, 2]
    assert rows["time_lat"]["blocks"] == 4
    assert rows["time_lat"]["rows"] == 24
    assert list(rows["time_lat"]["dims"]) == ["time", "lat"]
    assert list(rows["time_lat"]["columns"]) == ["time", "lat", *(n for n in ds.data_vars if n != "count")]
    assert spy.chunks() == set()
