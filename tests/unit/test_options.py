import threading

import pytest

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
