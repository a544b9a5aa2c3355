import threading
import time

import pytest

from xzsql.model.blocks import Task, ahead, bytes_in_flight
from xzsql.options import options


def tasks(n, ran, nbytes=10):
    def run(i):
        ran.append(i)
        return i

    return (Task(lambda i=i: run(i), nbytes) for i in range(n))


def test_results_come_in_order_whatever_order_they_are_done_in():
    def run(i):
        time.sleep(0.01 * ((7 * i) % 5))
        return i

    found = list(ahead((Task(lambda i=i: run(i), 1) for i in range(20)), options.current(workers=4)))
    assert found == list(range(20))


def test_the_first_result_loads_one_block_only():
    ran = []
    stream = ahead(tasks(100, ran), options.current(workers=4))
    assert next(stream) == 0
    assert ran == [0]
    stream.close()


def test_no_more_is_loaded_than_the_budget_holds():
    ran = []
    stream = ahead(tasks(100, ran, nbytes=100), options.current(workers=8, memory_budget=250))
    for _ in range(10):
        next(stream)
        assert bytes_in_flight() <= 250
    stream.close()
    assert bytes_in_flight() == 0


def test_a_block_larger_than_the_budget_is_loaded_alone():
    ran = []
    assert list(ahead(tasks(3, ran, nbytes=10**9), options.current(memory_budget=1))) == [0, 1, 2]
    assert bytes_in_flight() == 0


def test_closing_cancels_what_has_not_begun():
    hold = threading.Event()
    ran = []

    def run(i):
        ran.append(i)
        if i == 3:
            hold.wait(5)
        return i

    stream = ahead((Task(lambda i=i: run(i), 1) for i in range(100)), options.current(workers=1))
    for _ in range(3):
        next(stream)
    stream.close()
    hold.set()
    time.sleep(0.05)
    assert max(ran) <= 4
    assert bytes_in_flight() == 0


def test_a_failure_comes_at_its_place_and_gives_the_bytes_back():
    def fail():
        raise ValueError("broken")

    stream = ahead(iter([Task(lambda: 1, 5), Task(fail, 5), Task(lambda: 3, 5)]), options.current())
    assert next(stream) == 1
    with pytest.raises(ValueError, match="broken"):
        next(stream)
    assert bytes_in_flight() == 0
