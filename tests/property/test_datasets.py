"""Every table of every dataset is, cell by cell, what the rules say; and the oracle is what xarray and cftime say."""

from __future__ import annotations

import datetime as dt
import tempfile
from fractions import Fraction
from pathlib import Path

import cftime
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import xzsql
from xzsql.testing import oracle, strategies


@given(st.data())
def test_every_table_of_a_dataset_holds_every_cell(eager, arrow, data):
    ds = data.draw(strategies.datasets())
    for schema, name in eager.load(ds):
        sql = f'FROM "{schema}"."{name}"'
        assert oracle.difference(arrow(ds.sql.query(sql)), eager.table(sql)) == ""


@given(st.data())
def test_tables_lists_what_the_dataset_holds(eager, data):
    ds = data.draw(strategies.datasets())
    listed = {
        (row["schema"], row["name"]): row
        for row in ds.sql.tables().df().to_dict("records")
        if isinstance(row["name"], str)
    }
    expected = oracle.frames(ds)
    assert set(listed) == set(expected)
    for key, table in expected.items():
        row = listed[key]
        assert row["rows"] == table.num_rows
        assert list(row["columns"]) == table.column_names
        assert list(row["shape"]) == [ds.sizes[d] for d in row["dims"]]


@given(st.data())
def test_a_mount_read_from_a_second_cursor_holds_every_cell(eager, data):
    ds = data.draw(strategies.datasets())
    with duckdb.connect() as con:
        ds.sql.mount(con, "m")
        with con.cursor() as cursor:
            for schema, name in eager.load(ds):
                sql = f'FROM m."{schema}"."{name}"'
                found = cursor.sql(sql).to_arrow_table()
                assert oracle.difference(found, eager.table(sql)) == ""


@given(st.data())
def test_a_store_on_disk_is_opened_undecoded(eager, arrow, data):
    raw = data.draw(strategies.datasets(storages=("memory",)).filter(_can_be_written))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.zarr")
        strategies.to_zarr(data.draw, raw, path)
        tables = eager.load(xr.open_zarr(path, decode_cf=False, chunks=None, consolidated=False))
        with xzsql.open(path) as catalog:
            for schema, name in tables:
                sql = f'FROM "{schema}"."{name}"'
                expected = eager.table(sql)
                # the folder lists its arrays in no order
                found = arrow(catalog.query(sql)).select(expected.column_names)
                assert oracle.difference(found, expected) == ""


def _can_be_written(raw: xr.Dataset) -> bool:
    return "one" not in raw.coords and not any(
        v.dtype.kind in "cVOST" or v.dtype.byteorder == ">" for v in raw.variables.values()
    )


@given(st.data())
def test_a_tree_has_a_schema_for_each_group(eager, arrow, data):
    parent = data.draw(strategies.datasets(storages=("memory", "dask")))
    parent = parent.drop_vars([n for n in parent.coords if n not in parent.xindexes])
    inside = data.draw(st.sampled_from(["fine", "simulation/fine", "a b/c"]))
    names = [n for n in parent.data_vars if data.draw(st.booleans())] or list(parent.data_vars)[:1]
    child = parent[names].drop_vars(list(parent.coords), errors="ignore").rename({n: f"{n}_child" for n in names})
    tree = xr.DataTree.from_dict({"/": parent, f"/{inside}": child})
    tables = eager.load(tree)
    assert {schema for schema, _ in tables} == {"main", inside}
    for schema, name in tables:
        sql = f'FROM "{schema}"."{name}"'
        assert oracle.difference(arrow(tree.sql.query(sql)), eager.table(sql)) == ""


@given(st.data())
def test_nan_stays_where_it_is_asked_for(eager, arrow, data):
    ds = data.draw(strategies.datasets(storages=("memory", "zarr-raw")))
    tables = eager.load(ds, nan_as_null=False)
    with xzsql.open(ds, nan_as_null=False) as catalog:
        for schema, name in tables:
            sql = f'FROM "{schema}"."{name}"'
            assert oracle.difference(arrow(catalog.query(sql)), eager.table(sql)) == ""


# The oracle itself, against what others say.


def test_oracle_equals_to_dataframe_of_decoded_data():
    ds = xr.Dataset(
        {
            "a": (("t", "y"), np.array([[1.5, np.nan, -0.0], [4, 5, 6]])),
            "n": (("t", "y"), np.array([[1, 2, 3], [2**53 + 1, 5, 6]])),
            "s": (("t", "y"), np.array([["", "x", "y"], ["é", "b", "c"]], object)),
        },
        coords={
            "t": np.array(["2000-02-27", "1999-12-31"], "datetime64[us]"),
            "along": ("y", [True, False, True]),
            "height": 2.0,
        },
    )
    frame = ds.to_dataframe(dim_order=["t", "y"]).reset_index()
    (found,) = oracle.frames(ds).values()
    expected = pa.Table.from_pandas(frame, preserve_index=False).select(found.column_names)
    assert oracle.difference(found, expected) == ""


@pytest.mark.parametrize("calendar", ["standard", "proleptic_gregorian"])
@pytest.mark.parametrize(
    "start", ["1582-10-15", "1600-02-29 12:30:15", "1900-03-01", "1582-10-04", "0001-01-01", "2400-12-31"]
)
def test_oracle_times_equal_cftime(calendar, start):
    units = f"days since {start}"
    offset = 0 if start > "1582-10-15" else 700_000
    numbers = np.arange(offset, offset + 800_000, 7919)
    found = oracle.cells(xr.Variable("x", numbers, {"units": units, "calendar": calendar}))
    dates = cftime.num2date(numbers, units, calendar)
    expected = [dt.datetime(d.year, d.month, d.day, d.hour, d.minute, d.second, d.microsecond) for d in dates]
    assert found.to_pylist() == expected


def test_oracle_julian_day_is_that_of_cftime():
    for year in range(1, 5000, 37):
        for gregorian, calendar in ((True, "proleptic_gregorian"), (False, "julian")):
            noon = cftime.datetime(year, 3, 1, 12, calendar=calendar)
            assert oracle.julian_day(year, 3, 1, gregorian=gregorian) == noon.toordinal()


@pytest.mark.parametrize("offset", [0, 330, -90])
def test_oracle_counts_the_offset_of_the_reference(offset):
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
    found = oracle.cells(xr.Variable("x", [1], {"units": f"hours since 1990-01-01 12:00 {zone}"}))
    expected = pd.Timestamp(f"1990-01-01T12:00{zone}").tz_convert("UTC").tz_localize(None) + pd.Timedelta(hours=1)
    assert found.to_pylist() == [expected.to_pydatetime()]


def test_oracle_rounds_to_the_microsecond():
    values = np.array([0.1, 1 / 3, 1e5 + 1e-7])
    found = oracle.cells(xr.Variable("x", values, {"units": "days since 1970-01-01"}))
    expected = [round(Fraction(v) * 86_400 * 10**6) for v in values.tolist()]
    assert found.cast(pa.int64()).to_pylist() == expected


def test_same_rows_sees_every_bit():
    def one(value: float) -> pa.Table:
        return pa.table({"a": pa.array([value], pa.float64())})

    assert oracle.same_rows(one(np.nan), one(-np.nan))
    assert not oracle.same_rows(one(0.0), one(-0.0))
    assert oracle.same_rows(one(0.0), one(-0.0), zero_sign=False)
    assert not oracle.same_rows(one(0.1), one(np.nextafter(0.1, 1)))
    assert not oracle.same_rows(one(1.0), pa.table({"a": pa.array([1], pa.int64())}))
    assert not oracle.same_rows(pa.concat_tables([one(1.0)] * 2), one(1.0))
