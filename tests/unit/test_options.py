import threading

import numpy as np
import pytest
import xarray as xr

import xzsql
from xzsql.errors import InvalidInputError, UnknownNameError
from xzsql.options import Options, options


def test_a_with_block_changes_and_restores():
    before = options.workers
    with options(workers=before + 3) as inside:
        assert options.workers == inside.workers == before + 3
    assert options.workers == before


def test_a_with_block_holds_on_every_thread_since_duckdb_scans_on_its_own():
    seen = []
    with options(workers=99):
        thread = threading.Thread(target=lambda: seen.append(options.workers))
        thread.start()
        thread.join()
    assert seen == [99]
    assert options.workers == Options().workers


def test_assignment_is_global():
    before = options.batch_rows
    try:
        options.batch_rows = 1000
        assert options.current().batch_rows == 1000
    finally:
        options.batch_rows = before


@pytest.mark.parametrize(("text", "nbytes"), [("64 MiB", 64 * 2**20), ("1.5kb", 1500), ("2GiB", 2**31), ("77", 77)])
def test_sizes_may_be_written(text, nbytes):
    assert options.current(memory_budget=text).memory_budget == nbytes


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "lots", None])
def test_other_values_are_refused(value):
    with pytest.raises(InvalidInputError, match="memory_budget"):
        options.current(memory_budget=value)


def test_an_unknown_option_lists_what_there_is():
    with pytest.raises(UnknownNameError, match=r"no option 'worker'; there is 'memory_budget'.*Did you mean 'workers'"):
        options.current(worker=1)
    with pytest.raises(UnknownNameError, match="no option 'speed'"):
        options.speed = 1


def test_switches_are_true_or_false():
    with pytest.raises(InvalidInputError, match="nan_as_null must be True or False"):
        options.current(nan_as_null=1)
    assert options.current(mask_fill_value=None).mask_fill_value is None


def test_a_catalog_has_options_of_its_own():
    ds = xr.Dataset({"v": (("t", "x"), np.arange(200.0).reshape(20, 10))})
    with xzsql.open(ds, block_bytes=160, batch_rows=7) as catalog:
        assert catalog.tables().df()["blocks"].tolist() == [10]
        reader = catalog._state().sources[catalog._state().split.tables[0]].stream(["v"], [])
        assert max(b.num_rows for b in reader) == 7
        assert catalog.query("SELECT sum(v) FROM self").fetchall() == [(19900.0,)]
    assert ds.sql.tables().df()["blocks"].tolist() == [1]


def test_decoding_follows_the_options_where_a_catalog_does_not_say():
    ds = xr.Dataset({"v": ("x", [1.0, np.nan])})
    with options(nan_as_null=False):
        assert xzsql.open(ds).query("SELECT count(v) FROM self").fetchall() == [(2,)]
        assert xzsql.open(ds, nan_as_null=True).query("SELECT count(v) FROM self").fetchall() == [(1,)]
    assert xzsql.open(ds).query("SELECT count(v) FROM self").fetchall() == [(1,)]


def test_an_option_of_a_catalog_that_is_none_is_refused_with_the_list():
    with pytest.raises(UnknownNameError, match=r"no option 'worker'.*'memory_budget'.*'nan_as_null'"):
        xzsql.open(xr.Dataset({"v": ("x", [1])}), worker=1)
    with pytest.raises(InvalidInputError, match="workers"):
        xzsql.open(xr.Dataset({"v": ("x", [1])}), workers="many")
