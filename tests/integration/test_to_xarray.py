"""Query results as Datasets, end to end."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import xzsql

DS = xr.Dataset(
    {
        "t": (("time", "y", "x"), np.arange(24, dtype="f4").reshape(2, 3, 4), {"units": "K"}),
        "n": (("time", "y", "x"), np.arange(24).reshape(2, 3, 4)),
        "crs": 0,
    },
    coords={
        "time": pd.date_range("2020-01-31", periods=2),
        "y": ("y", [30.0, 20.0, 10.0], {"units": "degrees_north"}),
        "lat": (("y", "x"), np.arange(12.0).reshape(3, 4)),
        "height": 2.0,
    },
    attrs={"title": "small"},
)
DS["crs"].attrs["grid_mapping_name"] = "latitude_longitude"


def test_all_rows_give_the_dataset_back():
    xr.testing.assert_identical(DS.sql("SELECT * FROM self").to_xarray(), DS)


def test_a_group_by_gives_the_reduction():
    found = DS.sql("SELECT y, x, avg(t) AS t FROM self GROUP BY y, x").to_xarray()
    xr.testing.assert_allclose(
        found["t"].drop_vars(["lat", "height"], errors="ignore"),
        DS["t"].mean("time").astype("f8").drop_vars(["lat", "height"]),
    )


def test_a_truncated_time_is_a_dimension():
    found = DS.sql("SELECT date_trunc('month', time) AS time, max(n) AS n FROM self GROUP BY 1").to_xarray()
    assert found["n"].dims == ("time",)
    assert found["n"].values.tolist() == [11, 23]
    assert (found["time"].values == np.array(["2020-01-01", "2020-02-01"], "M8[D]")).all()


def test_gaps_of_integers_lose_no_digit():
    ds = xr.Dataset({"n": (("y", "x"), np.array([[2**53 + 1, 1], [2, 3]]))})
    found = ds.sql("SELECT * FROM self WHERE NOT (y = 1 AND x = 1)").to_xarray()
    assert found["n"].values.tolist() == [[2**53 + 1, 1], [2, None]]


def test_two_rows_of_one_key_are_refused():
    with pytest.raises(xzsql.XzsqlError, match="30"):
        DS.sql("SELECT y, t FROM self").to_xarray(dims=["y"])


def test_a_result_keeps_what_the_dataset_was():
    ds = DS.copy()
    result = ds.sql("SELECT time, y, x, t FROM self")
    ds["t"].attrs["units"] = "degC"
    ds = ds.drop_vars("lat")
    found = result.to_xarray()
    assert "lat" in found.coords
    assert found["t"].attrs == {"units": "K"}
