"""Categoricals where they are mounted, against pandas."""

import duckdb
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import xzsql  # noqa: F401  # the accessor


@pytest.mark.parametrize("n", [3, 200, 33_000])
def test_categories_keep_their_order_whatever_their_number(n):
    labels = [f"it's {i}" for i in range(n)][::-1]
    codes = np.r_[np.arange(n), -1, 0]
    values = pd.Categorical.from_codes(codes, labels, ordered=True)
    ds = xr.Dataset({"v": ("x", values)})
    con = duckdb.connect()
    ds.sql.mount(con, "m")
    expected = [None if pd.isna(v) else v for v in values]
    assert [v for (v,) in con.cursor().execute("SELECT v FROM m.x ORDER BY x").fetchall()] == expected
    in_order = [v for (v,) in con.execute("SELECT v FROM m.x WHERE v IS NOT NULL ORDER BY v").fetchall()]
    assert in_order == list(values.dropna().sort_values())
    assert con.execute('SELECT len(enum_range(NULL::m.main."xzsql enum x.v"))').fetchall() == [(n,)]


def test_a_mount_of_categoricals_can_be_replaced_and_taken_away():
    con = duckdb.connect()
    for labels in (["b", "a"], ["c", "b", "a"]):
        xr.Dataset({"v": ("x", pd.Categorical(["a", "b"], labels))}).sql.mount(con, "m")
        kinds = con.sql("SELECT v FROM m.x").types
        assert kinds[0].values == labels if hasattr(kinds[0], "values") else str(labels)[1:-1] in str(kinds[0])
    xr.Dataset({"v": ("x", [1])}).sql.mount(con, "m")
    assert con.execute("SELECT count(*) FROM duckdb_types() WHERE database_name = 'm' AND NOT internal").fetchall() == [
        (0,)
    ]


def test_categories_that_are_no_text_have_their_own_type():
    ds = xr.Dataset({"v": ("x", pd.Categorical([10, 20, None, 10]))})
    result = ds.sql("SELECT v FROM self ORDER BY x")
    assert [str(t) for t in result.types] == ["BIGINT"]
    assert result.fetchall() == [(10,), (20,), (None,), (10,)]


def test_a_categorical_axis_selects_by_its_labels():
    ds = xr.Dataset({"n": ("k", [1, 2, 3])}, coords={"k": pd.CategoricalIndex(["b", "a", "b"], ["b", "a"], name="k")})
    assert sorted(ds.sql("SELECT n FROM self WHERE k = 'b'").fetchall()) == [(1,), (3,)]
    assert [k for (k,) in ds.sql("SELECT k FROM self ORDER BY k").fetchall()] == ["b", "b", "a"]


def test_no_categories_are_text_without_values():
    ds = xr.Dataset({"v": ("x", pd.Categorical([None, None], categories=np.array([], dtype=object)))})
    assert ds.sql("SELECT v FROM self").fetchall() == [(None,), (None,)]
