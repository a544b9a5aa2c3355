import numpy as np
import pytest
import xarray as xr

from xzsql.adapters.base import adapter_for
from xzsql.adapters.xarray import XarrayAdapter
from xzsql.errors import InvalidInputError, OpenError, UnsupportedError

ADAPTER = XarrayAdapter()


@pytest.fixture
def packed():
    """A dataset as it is stored: packed, with sentinels, coordinates named in an attribute, characters."""
    return xr.Dataset(
        {
            "t": (
                ("time", "y"),
                np.array([[1, 2], [-99, 4]], "i2"),
                {"scale_factor": 0.5, "_FillValue": np.int16(-99)},
            ),
            "site": (("y", "strlen"), np.array([[b"a", b"b"], [b"c", b""]], "S1")),
            "lat": ("y", [1.0, 2.0]),
        },
        coords={"time": ("time", [0, 1], {"units": "days since 2000-01-01"})},
    ).assign_attrs(coordinates="lat")


def test_a_dataset_is_taken_as_it_is():
    ds = xr.Dataset({"a": ("x", [1, 2])})
    contents = ADAPTER.open(ds)
    assert list(contents.groups) == ["/"]
    assert contents.groups["/"].variables["a"].data is ds.variables["a"].data


def test_a_tree_is_its_groups_without_what_they_inherit():
    tree = xr.DataTree.from_dict(
        {"/": xr.Dataset(coords={"x": [1, 2]}), "/a/.b": xr.Dataset({"v": ("x", [3, 4])}), "/c": xr.Dataset()}
    )
    groups = ADAPTER.open(tree).groups
    assert set(groups) == {"/", "/a", "/a/.b", "/c"}
    assert set(groups["/a/.b"].variables) == {"v"}


def test_a_subtree_is_a_root_with_what_it_inherits():
    tree = xr.DataTree.from_dict({"/": xr.Dataset(coords={"x": [1, 2]}), "/a/b": xr.Dataset({"v": ("x", [3, 4])})})
    groups = ADAPTER.open(tree["a"]).groups
    assert set(groups) == {"/", "/b"}
    assert "x" in groups["/"].coords


@pytest.mark.parametrize(("name", "column"), [(None, "value"), ("t", "t"), ("x", "value")])
def test_a_dataarray_is_one_variable(name, column):
    array = xr.DataArray([1, 2], dims="x", coords={"x": [5, 6]}, name=name)
    assert list(ADAPTER.open(array).groups["/"].data_vars) == [column]


def test_attributes_of_an_undecoded_dataset_are_applied():
    ds = xr.Dataset({"t": ("x", [1.0], {"coordinates": "lat missing"}), "lat": ("x", [2.0])})
    found = ADAPTER.open(ds).groups["/"]
    assert set(found.coords) == {"lat"}
    assert "lat" not in ds.coords


def test_characters_are_joined_where_nobody_has_yet(packed):
    found = ADAPTER.open(packed).groups["/"]
    expected = xr.decode_cf(packed)["site"]
    assert found["site"].dims == ("y",)
    assert found["site"].values.tolist() == expected.values.tolist()
    again = ADAPTER.open(xr.Dataset({"one": ("y", np.array([b"a", b"b"], "S1"))})).groups["/"]
    assert again["one"].dims == ("y",)


@pytest.mark.parametrize(
    ("suffix", "engine"), [(".nc", "netcdf4"), (".nc", "h5netcdf"), (".nc", "scipy"), (".zarr", "zarr")]
)
def test_paths_open_lazily_and_undecoded(tmp_path, packed, suffix, engine):
    path = tmp_path / f"store{suffix}"
    if engine == "zarr":
        packed.drop_vars("site").to_zarr(path, consolidated=False)
    else:
        packed.assign(site=("y", np.array([b"ab", b"c"]))).to_netcdf(path, engine=engine)
    contents = ADAPTER.open(path)
    found = contents.groups["/"]
    assert contents.store == str(path)
    assert found["t"].dtype == np.dtype("i2")
    assert found["t"].attrs["scale_factor"] == 0.5
    assert found["time"].values.tolist() == [0, 1]
    if engine != "zarr":
        assert found["site"].values.tolist() == [b"ab", b"c"]
    contents.close()


def test_groups_of_a_file_are_all_there(tmp_path):
    path = tmp_path / "tree.nc"
    xr.DataTree.from_dict({"/": xr.Dataset({"a": 1}), "/g/h": xr.Dataset({"b": 2})}).to_netcdf(path)
    assert set(ADAPTER.open(str(path)).groups) == {"/", "/g", "/g/h"}
    assert set(ADAPTER.open(str(path), group="g/h").groups["/"].data_vars) == {"b"}


def test_a_name_that_says_nothing_still_opens(tmp_path):
    path = tmp_path / "data.bin"
    xr.Dataset({"a": ("x", [1, 2])}).to_netcdf(path)
    assert ADAPTER.open(path).groups["/"]["a"].values.tolist() == [1, 2]


def test_a_path_that_is_not_there_says_what_is(tmp_path):
    (tmp_path / "era5.nc").write_bytes(b"")
    with pytest.raises(OpenError, match=r"no file or folder .*era.nc.*'era5.nc'"):
        ADAPTER.open(tmp_path / "era.nc")
    with pytest.raises(OpenError, match="there is no folder"):
        ADAPTER.open(tmp_path / "none" / "era.nc")


def test_a_file_that_nothing_opens_says_what_each_engine_said(tmp_path):
    path = tmp_path / "broken.nc"
    path.write_bytes(b"CDF\x09 this is no NetCDF")
    with pytest.raises(OpenError) as caught:
        ADAPTER.open(path)
    assert str(path) in str(caught.value)
    assert "netcdf4:" in str(caught.value)
    assert caught.value.__cause__ is not None


def test_engine_belongs_to_paths():
    with pytest.raises(InvalidInputError, match="engine"):
        ADAPTER.open(xr.Dataset(), engine="zarr")


def test_an_object_of_no_kind_says_which_there_are():
    with pytest.raises(UnsupportedError, match=r"builtins\.dict.*xarray"):
        adapter_for({"a": 1})
