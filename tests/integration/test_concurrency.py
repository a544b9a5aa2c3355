"""Threads, abandoned streams, interrupts and forks."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import duckdb
import numpy as np
import psutil
import pytest
import xarray as xr

import xzsql
from xzsql.testing.spies import RecordingArray


def dataset(rows: int = 200, columns: int = 50) -> xr.Dataset:
    values = np.arange(float(rows * columns)).reshape(rows, columns)
    spy = RecordingArray(values)
    return xr.Dataset(
        {"v": spy.variable(("y", "x"), chunks=(10, columns))},
        coords={"y": np.arange(rows) / 4, "x": np.arange(columns)},
    )


def expected(rows: int, columns: int, low: float) -> tuple[int, float]:
    values = np.arange(float(rows * columns)).reshape(rows, columns)[np.arange(rows) / 4 >= low]
    return values.size, float(values.sum())


SQL = "SELECT count(*), sum(v) FROM {} WHERE y >= ?"


@pytest.mark.parametrize("via", ["query", "mount", "table"])
def test_queries_at_once_from_two_threads(con, via):
    ds = dataset()
    ds.sql.mount(con, "m")
    catalog, table = ds.sql, ds.sql.table("y_x")
    start = threading.Barrier(2)

    def ask(who: int) -> list[tuple[int, float]]:
        start.wait()
        found = []
        for i in range(15):
            low = float((i * 7 + who) % 50)
            if via == "query":
                rows = catalog.query(SQL.format("self"), [low]).fetchall()
            elif via == "mount":
                rows = con.cursor().execute(SQL.format("m.y_x"), [low]).fetchall()
            else:
                with duckdb.connect() as own:
                    own.register("t", table)
                    rows = own.execute(SQL.format("t"), [low]).fetchall()
            found.append(rows[0])
        return found

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(ask, range(2)))
    for who in range(2):
        assert answers[who] == [expected(200, 50, float((i * 7 + who) % 50)) for i in range(15)]


def test_a_query_inside_a_loop_over_another(con):
    ds = dataset(40, 10)
    ds.sql.mount(con, "m")
    with xzsql.options(block_bytes=800, batch_rows=20):
        outer, seen = ds.sql.query("SELECT y, x, v FROM self"), 0
        while (row := outer.fetchone()) is not None:
            seen += 1
            if seen % 50 == 1:
                inner = ds.sql.query("SELECT v FROM self WHERE y = ? AND x = ?", list(row[:2])).fetchall()
                assert inner == [(row[2],)]
                again = con.cursor().execute("SELECT v FROM m.y_x WHERE y = ? AND x = ?", list(row[:2])).fetchall()
                assert again == [(row[2],)]
    assert seen == 400


def test_two_streams_read_in_turn():
    ds = dataset(40, 10)
    with xzsql.options(block_bytes=800, batch_rows=20):
        one, two = ds.sql.query("SELECT v FROM self WHERE y < 5"), ds.sql.query("SELECT v FROM self WHERE y >= 5")
        pairs = [(one.fetchone()[0], two.fetchone()[0]) for _ in range(200)]
    assert sorted(a for a, _ in pairs) == list(range(200))
    assert sorted(b for _, b in pairs) == list(range(200, 400))


@pytest.mark.parametrize("via", ["query", "mount"])
def test_an_abandoned_query_gives_back_threads_and_memory(con, settle, via):
    xzsql.open(dataset(4, 4)).query("FROM self").fetchall()  # the shared pool is there from now on
    before = threading.active_count()
    spy = RecordingArray(np.zeros((4000, 100)))
    ds = xr.Dataset({"v": spy.variable(("y", "x"), chunks=(10, 100))})
    gone = weakref.ref(spy)
    with xzsql.options(block_bytes=8000, memory_budget=80_000):
        if via == "query":
            catalog = xzsql.open(ds)
            result = catalog.query("SELECT * FROM self")
        else:
            ds.sql.mount(con, "m")
            catalog, result = ds.sql, con.cursor().execute("SELECT * FROM m.y_x")
        assert result.fetchone() == (0, 0, 0.0)
        result.close() if via == "mount" else None
        if via == "mount":
            ds.sql.unmount(con, "m")
        else:
            catalog.close()
        del result
    gc.collect()
    keys, reads = spy.keys, -1

    def quiet() -> bool:
        nonlocal reads
        before_now, reads = reads, len(keys)
        time.sleep(0.05)
        return before_now == reads

    assert settle(quiet)
    assert len(keys) < 400, "the whole array was read for one row"
    del ds, catalog, spy
    gc.collect()
    assert settle(lambda: threading.active_count() <= before + xzsql.options.workers)
    assert settle(lambda: gc.collect() >= 0 and gone() is None)


def test_many_abandoned_queries_do_not_add_up(settle):
    ds = dataset(400, 100)
    process = psutil.Process()
    with xzsql.options(block_bytes=8000, batch_rows=1000):
        for _ in range(10):
            ds.sql.query("SELECT * FROM self").fetchone()
        gc.collect()
        threads, memory = process.num_threads(), process.memory_info().rss
        for _ in range(80):
            ds.sql.query("SELECT * FROM self").fetchone()
        gc.collect()
    assert settle(lambda: process.num_threads() <= threads + xzsql.options.workers + 1)
    assert process.memory_info().rss < memory + 100 * 2**20


def run(script: str, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


SLOW = """
    import sys, time
    import numpy as np, xarray as xr, duckdb, xzsql
    from xzsql.testing.spies import RecordingArray

    class Slow(RecordingArray):
        def _read(self, key):
            if not self.keys:
                print("reading", flush=True)
            time.sleep(0.02)
            return super()._read(key)

    spy = Slow(np.zeros((100_000, 10)))
    ds = xr.Dataset({"v": spy.variable(("y", "x"), chunks=(10, 10))})
    xzsql.options.block_bytes = 800
"""


@pytest.mark.parametrize("fetch", ["fetchall", "df", "arrow"])
def test_ctrl_c_ends_a_query_and_the_next_one_works(fetch):
    script = (
        SLOW
        + f"""
    start = time.monotonic()
    try:
        ds.sql.query("SELECT sum(v) FROM self").{fetch}()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(ds.sql.query("SELECT count(v) FROM self WHERE y < 5").fetchall(), flush=True)
    count = len(spy.keys)
    time.sleep(0.5)
    print("quiet" if len(spy.keys) == count else "still reading", flush=True)
    """
    )
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "reading\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        out, _ = process.communicate(timeout=30)
        assert time.monotonic() - began < 15
    finally:
        process.kill()
        process.wait()
    assert out.splitlines() == ["interrupted", "[(50,)]", "quiet"]
    assert process.returncode == 0


def test_a_process_ends_while_a_stream_is_open():
    script = (
        SLOW
        + """
    result = ds.sql.query("SELECT * FROM self")
    print(result.fetchone(), flush=True)
    """
    )
    began = time.monotonic()
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "(0, 0, 0.0)"
    assert time.monotonic() - began < 60


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_new_connections_after_a_fork():
    script = """
    import os, sys, warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # Python's own, on forking with threads
    import numpy as np, xarray as xr, duckdb, xzsql

    ds = xr.Dataset({"v": (("y", "x"), np.arange(10_000.0).reshape(100, 100))})
    ds = ds.assign(v=ds.v.variable.chunk({"y": 10})) if sys.argv[1] == "dask" else ds
    xzsql.options.block_bytes = 800
    con = duckdb.connect()
    con.execute("SET enable_progress_bar = false")
    ds.sql.mount(con, "m")
    before = con.sql("SELECT sum(v) FROM m.y_x").fetchall(), ds.sql.query("SELECT sum(v) FROM self").fetchall()
    print(*before, flush=True)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if sys.argv[1] == "dask":
                import dask
                dask.config.set(scheduler="synchronous")  # dask's own threads do not survive a fork
            fresh = duckdb.connect()
            fresh.execute("SET enable_progress_bar = false")
            ds.sql.mount(fresh, "m")
            found = fresh.sql("SELECT sum(v) FROM m.y_x").fetchall()
            other = xzsql.open(ds).query("SELECT sum(v), count(*) FROM self WHERE y < 50").fetchall()
            print("child", found, other, flush=True)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    print("status", os.waitstatus_to_exitcode(status), con.sql("SELECT count(v) FROM m.y_x").fetchall(), flush=True)
    """
    for kind in ("numpy", "dask"):
        done = run(script, kind)
        total, half = sum(range(10_000)), sum(range(5_000))
        assert done.stdout.splitlines() == [
            f"[({float(total)},)] [({float(total)},)]",
            f"child [({float(total)},)] [({float(half)}, 5000)]",
            "status 0 [(10000,)]",
        ], done.stderr


class Stress:
    """Scans in two threads while other threads start and stop, until the time is over."""

    def __init__(self, con: duckdb.DuckDBPyConnection, ds: xr.Dataset, seconds: float) -> None:
        self.con, self.ds, self.until = con, ds, time.monotonic() + seconds
        self.problems: list[str] = []
        self.asked = 0

    def churn(self) -> None:
        while time.monotonic() < self.until:
            short = [threading.Thread(target=time.sleep, args=(0.001,)) for _ in range(8)]
            for thread in short:
                thread.start()
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(abs, range(4)))
            for thread in short:
                thread.join()

    def scan(self, who: int) -> None:
        i = who
        while time.monotonic() < self.until:
            i += 1
            low = float(i % 50)
            with self.con.cursor() as cursor:
                rows = cursor.execute(SQL.format("m.y_x"), [low]).fetchall()
                if rows != [expected(200, 50, low)]:
                    self.problems.append(f"{rows} for y >= {low}")
                if i % 3 == 0:
                    cursor.execute("SELECT * FROM m.y_x").fetchone()
            if self.ds.sql.query("SELECT count(*) FROM self WHERE x < 5").fetchall() != [(1000,)]:
                self.problems.append("count")
            self.asked += 1


@pytest.mark.parametrize("seconds", [5, pytest.param(600, marks=pytest.mark.soak)])
@pytest.mark.timeout(900)
def test_threads_start_and_stop_during_scans(con, seconds):
    ds = dataset()
    ds.sql.mount(con, "m")
    with xzsql.options(block_bytes=4000):
        stress = Stress(con, ds, seconds)
        threads = [threading.Thread(target=stress.churn, daemon=True)]
        threads += [threading.Thread(target=stress.scan, args=(who,), daemon=True) for who in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds + 60)
    assert not any(thread.is_alive() for thread in threads), "a scan hangs"
    assert stress.problems == []
    assert stress.asked >= 2 * seconds
