"""Decoded blocks as Arrow arrays: order, NULLs, shared memory, and what DuckDB reads."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from xzsql.errors import ValueRangeError
from xzsql.model.arrow import to_arrow
from xzsql.model.decode import Decoded

MASK = np.array([True, False, True, True, True, True, True, True, True, False])


@pytest.mark.parametrize("code", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"])
@pytest.mark.parametrize("mask", [None, MASK])
def test_numbers_share_memory(code: str, mask: Any) -> None:
    values = np.arange(10, dtype=code)
    array = to_arrow(Decoded(values, mask), pa.from_numpy_dtype(values.dtype))
    array.validate(full=True)
    assert array.buffers()[1].address == values.ctypes.data
    assert array.equals(pa.array(values, mask=None if mask is None else ~mask))


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_times_share_memory(unit: str) -> None:
    values = np.arange(10).astype(f"M8[{unit}]")
    array = to_arrow(Decoded(values, MASK), pa.timestamp(unit))
    assert array.buffers()[1].address == values.ctypes.data
    assert array.equals(pa.array(values, mask=~MASK))
    spans = values - values[:1]
    assert to_arrow(Decoded(spans, None), pa.duration(unit)).equals(pa.array(spans))


def test_booleans() -> None:
    values = np.arange(10) % 3 == 0
    array = to_arrow(Decoded(values, MASK), pa.bool_())
    array.validate(full=True)
    assert array.equals(pa.array(values, mask=~MASK))


def test_blocks_are_flattened_in_c_order() -> None:
    values = np.asfortranarray(np.arange(6).reshape(2, 3))
    valid = np.asfortranarray(values != 4)
    assert to_arrow(Decoded(values, valid), pa.int64()).to_pylist() == [0, 1, 2, 3, None, 5]
    assert to_arrow(Decoded(values[:, ::-1], None), pa.int64()).to_pylist() == [2, 1, 0, 5, 4, 3]


def test_blocks_without_a_cell_and_without_a_dimension() -> None:
    assert to_arrow(Decoded(np.empty((0, 3)), np.empty((0, 3), bool)), pa.float64()).to_pylist() == []
    assert to_arrow(Decoded(np.array(5), np.array(True)), pa.int64()).to_pylist() == [5]


def test_the_array_outlives_its_block() -> None:
    array = to_arrow(Decoded(np.arange(100_000), None), pa.int64())
    assert array.sum().as_py() == sum(range(100_000))


def test_text_and_bytes() -> None:
    values = np.array(["a", None, "a\0b"], object)
    assert to_arrow(Decoded(values, np.array([True, False, True])), pa.string()).to_pylist() == values.tolist()
    assert to_arrow(Decoded(np.array([b"\xff", b""], object), None), pa.binary()).to_pylist() == [b"\xff", b""]


def test_text_that_is_no_unicode() -> None:
    with pytest.raises(ValueRangeError, match="UTF-8"):
        to_arrow(Decoded(np.array(["\ud800"], object), None), pa.string())


def test_structures() -> None:
    kind = pa.struct([("re", pa.float32()), ("im", pa.float32())])
    array = to_arrow(Decoded(np.array([1 + 2j, 3], "c8"), np.array([True, False])), kind)
    array.validate(full=True)
    assert array.to_pylist() == [{"re": 1.0, "im": 2.0}, None]


def test_dictionaries_need_their_categories() -> None:
    kind = pa.dictionary(pa.int32(), pa.string(), ordered=True)
    codes = Decoded(np.array([1, -1, 0], "i4"), np.array([True, False, True]))
    array = to_arrow(codes, kind, categories=pa.array(["x", "y"]))
    assert (array.type, array.to_pylist()) == (kind, ["y", None, "x"])
    with pytest.raises(TypeError, match="categories"):
        to_arrow(codes, kind)


def test_duckdb_reads_what_was_written() -> None:
    low, high = -9_223_372_022_400_000_000, 2**63 - 2
    table = pa.table(
        {
            "t": to_arrow(Decoded(np.array([low, high]).view("M8[us]"), None), pa.timestamp("us")),
            "d": to_arrow(Decoded(np.array([-high, high]).view("m8[us]"), None), pa.duration("us")),
            "s": to_arrow(Decoded(np.array(["a\0b", ""], object), None), pa.string()),
        }
    )
    con = duckdb.connect()
    con.register("written", table)
    found = con.execute("SELECT t::VARCHAR, d::VARCHAR, strlen(s), s FROM written").fetchall()
    assert found == [
        ("290309-12-22 (BC) 00:00:00", "-2562047788:00:54.775806", 3, "a\0b"),
        ("294247-01-10 04:00:54.775806", "2562047788:00:54.775806", 0, ""),
    ]
