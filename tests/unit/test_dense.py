"""The dense source against pandas on the frame that xarray makes of the same dataset."""

import datetime as dt
import gc
import threading
import time

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from xzsql.errors import ReadError
from xzsql.ir.predicate import And, Compare, In, IsNull, Not, Or
from xzsql.model.blocks import bytes_in_flight
from xzsql.model.decode import DecodeOptions
from xzsql.model.dense import GridSource
from xzsql.model.split import split
from xzsql.options import options


def source_of(ds, table=0):
    return GridSource(split({"/": ds}, DecodeOptions()).tables[table])


def plain(array, kind):
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    return array.cast(kind)


def frame_of(source, columns, where=()):
    """The stream as a frame: cast to the declared types, which undoes run-end and dictionary encoding."""
    found = source.stream(columns, where)
    assert found.schema.names == list(columns)
    schema = pa.schema([pa.field(c, source.schema.field(c).type) for c in columns])
    batches = [
        pa.record_batch([plain(b.column(i), f.type) for i, f in enumerate(schema)], schema=schema) for b in found
    ]
    return pa.Table.from_batches(batches, schema=schema).to_pandas()


def dataset():
    rng = np.random.default_rng(0)
    t = rng.random((12, 7, 9)).astype("f4")
    t[3, 4, 5] = np.nan
    return xr.Dataset(
        {"t": (("time", "y", "x"), t), "n": (("time", "y", "x"), rng.integers(0, 99, t.shape))},
        coords={
            "time": pd.date_range("2020-01-01", periods=12),
            "y": np.linspace(90, -90, 7).astype("f4"),
            "lat": (("y", "x"), rng.random((7, 9))),
            "lon": (("x", "y"), rng.random((9, 7))),
            "name": ("y", [f"r{i}" for i in range(7)]),
            "height": 2.0,
        },
    )


DATASET = dataset()


@pytest.fixture
def ds():
    return dataset()


COLUMNS = ["time", "y", "x", "lat", "lon", "name", "height", "t", "n"]


def expected_of(ds):
    return ds.to_dataframe(dim_order=["time", "y", "x"]).reset_index()[COLUMNS]


LEAVES = st.one_of(
    st.builds(
        Compare,
        st.just("time"),
        st.sampled_from(["<", ">=", "=", "!="]),
        st.integers(1, 13).map(lambda d: dt.datetime(2020, 1, d)),
    ),
    st.builds(
        Compare, st.just("y"), st.sampled_from(["<", "<=", ">", ">=", "="]), st.sampled_from([90.0, 30.0, 0.0, -95.0])
    ),
    st.builds(Compare, st.just("lat"), st.sampled_from(["<", ">"]), st.floats(0, 1)),
    st.builds(Compare, st.just("lon"), st.sampled_from(["<", ">"]), st.floats(0, 1)),
    st.builds(Compare, st.just("name"), st.sampled_from(["<", "=", ">="]), st.sampled_from(["", "r3", "r6", "z"])),
    st.builds(Compare, st.just("height"), st.sampled_from(["=", "<"]), st.sampled_from([2.0, 3.0])),
    st.builds(lambda v: In("x", tuple(v)), st.lists(st.integers(-1, 9), min_size=1, max_size=4)),
    st.sampled_from([IsNull("y"), IsNull("lat")]),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda t: And(tuple(t)), st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda t: Or(tuple(t)), st.lists(inner, min_size=1, max_size=3)),
        st.builds(Not, inner),
    ),
    max_leaves=5,
)


def kept(frame, predicate):
    """pandas on the frame; nothing in it is NULL but t."""
    match predicate:
        case And(terms):
            return np.logical_and.reduce([kept(frame, p) for p in terms])
        case Or(terms):
            return np.logical_or.reduce([kept(frame, p) for p in terms])
        case Not(term):
            return ~kept(frame, term)
        case In(column, values):
            return frame[column].isin(values).to_numpy()
        case IsNull(column):
            return frame[column].isna().to_numpy()
        case Compare(column, op, value):
            name = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}[op]
            return getattr(frame[column], name)(value).to_numpy()


CHUNKED = st.sampled_from([None, {"time": 5, "y": 3, "x": 4}, {"time": 1}, {"time": (3, 4, 5), "x": (1, 8)}])


@given(st.lists(TREES, max_size=3), CHUNKED, st.sampled_from([1, 7, 100, 10**6]), st.permutations(COLUMNS), st.data())
def test_streams_equal_the_frame(where, chunks, batch_rows, columns, data):
    ds = DATASET if chunks is None else DATASET.chunk(chunks)
    source = source_of(ds)
    columns = columns[: data.draw(st.integers(1, len(columns)))]
    frame = expected_of(DATASET)
    for predicate in where:
        frame = frame[kept(frame, predicate)]
    frame = frame[list(columns)].sort_values(list(columns), ignore_index=True)
    with options(batch_rows=batch_rows, block_bytes=data.draw(st.sampled_from([1, 200, 2**20]))):
        found = frame_of(source, columns, where)
        cost = source.plan(columns, where)
    pd.testing.assert_frame_equal(
        found.sort_values(list(columns), ignore_index=True), frame, check_dtype=False, check_exact=True
    )
    assert 0 <= cost.blocks <= cost.blocks_total
    assert 0 <= cost.bytes <= cost.bytes_total


def test_an_unfiltered_stream_is_row_major_block_by_block(ds):
    source = source_of(ds.chunk(time=5, y=3))
    with options(block_bytes=1):
        found = frame_of(source, ["time", "y", "x", "t"])
    expected = expected_of(ds)[["time", "y", "x", "t"]]
    order = []
    for t in range(0, 12, 5):
        for y in range(0, 7, 3):
            inside = (ds.get_index("time")[t : t + 5], ds.get_index("y")[y : y + 3])
            order.append(expected[expected.time.isin(inside[0]) & expected.y.isin(inside[1])])
    pd.testing.assert_frame_equal(found, pd.concat(order, ignore_index=True), check_dtype=False)


def test_slow_dimensions_are_run_end_encoded_and_fast_patterns_shared():
    ds = xr.Dataset({"v": (("t", "y"), np.zeros((50, 3000)))}, coords={"y": np.arange(3000) * 1.5})
    batches = list(source_of(ds).stream(["t", "y"], []))
    assert pa.types.is_run_end_encoded(batches[0].schema.field("t").type)
    with options(batch_rows=30_000):
        batches = list(source_of(ds).stream(["t", "y", "v"], []))
    assert len(batches) == 5
    assert len({b.column("y").buffers()[1].address for b in batches}) == 1


def test_contiguous_data_reaches_arrow_without_a_copy():
    values = np.arange(60_000.0).reshape(60, 1000)
    (batch,) = source_of(xr.Dataset({"v": (("t", "y"), values)})).stream(["v"], [])
    assert batch.column("v").buffers()[1].address == values.ctypes.data


class Broken:
    """An array that fails beyond its third row."""

    def __init__(self):
        self.read = []

    def __call__(self, block_info=None):
        start = block_info[None]["array-location"][0][0]
        self.read.append(start)
        if start >= 6:
            raise ValueError("bad checksum")
        return np.zeros((3, 2))


def test_a_failing_block_is_named_and_the_rows_before_it_came():
    array = da.map_blocks(Broken(), chunks=((3, 3, 3), (2,)), dtype=float, meta=np.zeros((0, 0)))
    source = GridSource(split({"/": xr.Dataset({"v": (("t", "y"), array)})}, DecodeOptions(), "some.nc").tables[0])
    with options(block_bytes=1):
        reader = source.stream(["t", "v"], [])
        assert len(reader.read_next_batch()) == 6
        assert len(reader.read_next_batch()) == 6
        with pytest.raises(ReadError) as caught:
            reader.read_next_batch()
    message = str(caught.value)
    for part in ["'v'", "group '/'", "some.nc", "t 6:9", "y 0:2", "bad checksum"]:
        assert part in message
    assert isinstance(caught.value.__cause__, ValueError)


def test_only_blocks_with_kept_positions_are_computed():
    computed = Broken()
    array = da.map_blocks(computed, chunks=((3, 3, 3), (2,)), dtype=float, meta=np.zeros((0, 0)))
    source = source_of(xr.Dataset({"v": (("t", "y"), array)}))
    with options(block_bytes=1):
        assert len(frame_of(source, ["v"], [In("t", (4, 5))])) == 4
        assert len(frame_of(source, ["t", "y"])) == 18
    assert computed.read == [3]


def test_a_closed_reader_leaves_nothing_in_flight(ds):
    threads = threading.active_count()
    for _ in range(20):
        reader = source_of(ds.chunk(time=1)).stream(["t"], [])
        reader.read_next_batch()
        reader.close()
        del reader
    gc.collect()
    time.sleep(0.2)
    assert bytes_in_flight() == 0
    assert threading.active_count() <= threads + options.workers


def test_rows_are_the_product_without_reading():
    array = da.map_blocks(Broken(), chunks=((3,) * 1000, (2,)), dtype=float, meta=np.zeros((0, 0)))
    assert source_of(xr.Dataset({"v": (("t", "y"), array)})).rows() == 6000


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_empty_dimensions_give_no_rows(shape):
    source = source_of(xr.Dataset({"v": (("a", "b")[: len(shape)], np.zeros(shape))}))
    assert source.rows() == 0
    assert len(frame_of(source, source.schema.names, [Compare("a", ">=", 0)])) == 0


def test_scalars_are_a_row_that_predicates_can_drop():
    source = source_of(xr.Dataset({"v": 5}, coords={"h": 2.0}))
    assert frame_of(source, ["h", "v"]).values.tolist() == [[2.0, 5.0]]
    assert len(frame_of(source, ["v"], [Compare("h", ">", 2.0)])) == 0
    assert len(frame_of(source, ["v"], [Compare("h", "=", 2.0)])) == 1


def test_a_box_on_positions_costs_nothing_as_long_as_the_axis():
    array = da.zeros((60_000_000, 4), chunks=(1_000_000, 4))
    source = source_of(xr.Dataset({"v": (("t", "x"), array)}))
    where = [Compare("t", ">", 10), Compare("t", "<=", 12), Compare("x", "=", 3), Compare("t", "!=", 11)]
    assert frame_of(source, ["t", "x", "v"], where).values.tolist() == [[12, 3, 0]]
