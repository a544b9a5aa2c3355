import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xzsql.model.grid import Axis, Chunking, Grid, as_array, compact, count, lay, part_of, shifted


def cells(grid: Grid, kept) -> list[tuple[int, ...]]:
    found = []
    for region in grid.walk(kept):
        found += [
            tuple(map(int, i))
            for i in np.stack(np.meshgrid(*map(as_array, region), indexing="ij"), -1).reshape(-1, len(region))
        ]
    return found


@st.composite
def chunkings(draw, shape):
    chunks = {}
    for d, n in zip("abc", shape, strict=False):
        kind = draw(st.sampled_from(["none", "regular", "edges"]))
        if kind == "regular":
            chunks[d] = draw(st.integers(1, n + 2))
        elif kind == "edges":
            cuts = sorted(draw(st.sets(st.integers(1, n - 1), max_size=3))) if n > 1 else []
            chunks[d] = tuple(int(x) for x in np.diff([0, *cuts, n]))
    return Chunking(chunks, draw(st.sampled_from([1, 4, 8])))


@given(st.data())
def test_blocks_are_a_partition_of_the_kept_cells(data):
    shape = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    arrays = data.draw(st.lists(chunkings(shape), max_size=3))
    grid = lay("abc"[: len(shape)], shape, arrays, data.draw(st.integers(1, 600)))
    kept = [compact(np.array(sorted(data.draw(st.sets(st.integers(0, n - 1)))), dtype=int)) for n in shape]
    expected = {tuple(map(int, i)) for i in np.ndindex(*shape) if all(i[k] in as_array(p) for k, p in enumerate(kept))}
    found = cells(grid, kept)
    assert len(found) == len(expected)
    assert set(found) == expected
    assert grid.touched(kept) == sum(1 for _ in grid.walk(kept))
    assert len(grid) == grid.touched([slice(0, n) for n in shape])


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 4000))
def test_no_block_cuts_a_chunk(length, chunk, target):
    grid = lay(["a"], [length], [Chunking({"a": chunk}, 8)], target)
    inner = [grid.axes[0].bounds(b)[0] for b in range(len(grid.axes[0]))]
    assert all(start % min(chunk, length) == 0 for start in inner)


def test_small_chunks_are_merged_fastest_dimension_first():
    grid = lay(["t", "y", "x"], [100, 40, 40], [Chunking({"t": 1, "y": 10, "x": 10}, 4)], 40 * 40 * 4 * 5)
    assert [a.step for a in grid.axes] == [5, 40, 40]


def test_a_dimension_that_stays_cut_ends_the_merging():
    grid = lay(["t", "x"], [100, 1000], [Chunking({"t": 1, "x": 10}, 8)], 800)
    assert [a.step for a in grid.axes] == [1, 100]


def test_unchunked_arrays_are_cut_along_the_slow_dimensions():
    grid = lay(["t", "y"], [1000, 50], [Chunking({}, 8)], 4000)
    assert [a.step for a in grid.axes] == [10, 50]


@pytest.mark.parametrize(("chunks", "step"), [((2, 3), 198), ((4, 8), 200), ((730, 511), 730), ((70, 130), 130)])
def test_mixed_chunks_meet_where_a_block_can_hold_that(chunks, step):
    grid = lay(["a"], [2920], [Chunking({"a": c}, 4) for c in chunks], 200 * 8)
    assert grid.axes[0].step == step


def test_sixty_million_chunks_cost_nothing_to_lay_or_to_pick_from():
    grid = lay(["t", "x"], [60_000_000, 4], [Chunking({"t": 1, "x": 4}, 8)], 32)
    assert len(grid) == 60_000_000
    assert cells(grid, [np.array([5, 59_999_999]), slice(1, 2)]) == [(5, 1), (59_999_999, 1)]


@given(st.sets(st.integers(0, 50)), st.integers(0, 50), st.integers(0, 50))
def test_part_of_is_the_positions_between(positions, a, b):
    start, stop = sorted((a, b))
    whole = compact(np.array(sorted(positions), dtype=int))
    part = part_of(whole, start, stop)
    assert [int(i) for i in as_array(part)] == [p for p in sorted(positions) if start <= p < stop]
    assert count(part) == len(as_array(part))
    assert [int(i) for i in as_array(shifted(part, start))] == [
        p - start for p in sorted(positions) if start <= p < stop
    ]


def test_an_axis_of_edges_finds_its_blocks():
    axis = Axis(10, 0, np.array([0, 3, 4, 10]))
    assert [axis.bounds(b) for b in range(len(axis))] == [(0, 3), (3, 4), (4, 10)]
    assert list(axis.blocks_of(slice(3, 5))) == [1, 2]
    assert list(axis.blocks_of(np.array([0, 9]))) == [0, 2]
    assert math.prod([axis.widest]) == 6
