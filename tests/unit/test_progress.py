import gc
import os
import signal
import subprocess
import sys
import threading
import time
from typing import ClassVar

import duckdb
import numpy as np
import pytest
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

import xzsql
from xzsql.engine import progress
from xzsql.errors import InvalidInputError
from xzsql.ir.predicate import And, Compare, Or
from xzsql.source import SupportsWatch
from xzsql.testing.spies import RecordingArray, touched_chunks

SHAPE = (12, 8, 6)
CHUNKS = (3, 4, 6)
BLOCKS = 8
NBYTES = 8 * 12 * 8 * 6


@pytest.fixture
def ds():
    spy = RecordingArray(np.zeros(SHAPE))
    coords = {d: np.arange(n) for d, n in zip("zyx", SHAPE, strict=True)}
    return xr.Dataset({"v": spy.variable(("z", "y", "x"), CHUNKS)}, coords)


@pytest.fixture(autouse=True)
def blocks_are_chunks():
    with xzsql.options(block_bytes=8 * 3 * 4 * 6):
        yield


class Told:
    """A watch that remembers."""

    def __init__(self):
        self.begun, self.advanced, self.ended = [], [], 0

    def begin(self, blocks, nbytes):
        self.begun.append((blocks, nbytes))

    def advance(self, blocks, nbytes):
        self.advanced.append((blocks, nbytes))

    def end(self):
        self.ended += 1


class Drawn:
    """What stands in for tqdm, and remembers."""

    made: ClassVar[list["Drawn"]] = []

    def __init__(self, **given):
        self.given, self.updates, self.closed = given, [], False
        self.made.append(self)

    def update(self, n):
        assert not self.closed
        self.updates.append(n)

    def set_postfix_str(self, text, refresh):
        self.postfix = text

    def close(self):
        self.closed = True


@pytest.fixture
def drawn(monkeypatch):
    """Bars at once, and always looked at."""
    monkeypatch.setattr(Drawn, "made", [])
    monkeypatch.setattr(progress, "_tqdm", lambda: Drawn)
    monkeypatch.setattr(progress, "_is_watched", lambda: True)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    return Drawn.made


class TestWatch:
    def source(self, ds):
        (source,) = ds.sql._state().sources.values()
        assert isinstance(source, SupportsWatch)
        return source

    @pytest.mark.parametrize(
        ("where", "keep"),
        [
            ([], lambda z, y, x: z >= 0),
            ([Compare("z", ">=", 7), Compare("x", "=", 2)], lambda z, y, x: (z >= 7) & (x == 2)),
        ],
    )
    def test_blocks_and_bytes_add_up(self, ds, where, keep):
        told = Told()
        self.source(ds).watched(["v"], where, told).read_all()
        kept = keep(*np.indices(SHAPE))
        total = (len(touched_chunks(kept, CHUNKS)), 8 * int(kept.sum()))
        assert told.begun == [total]
        assert tuple(map(sum, zip(*told.advanced, strict=True))) == total
        assert told.ended == 1

    def test_blocks_of_the_hull_without_a_row_count_as_done(self, ds):
        corners = Or(
            (
                And((Compare("z", "=", 0), Compare("y", "=", 0))),
                And((Compare("z", "=", 11), Compare("y", "=", 7))),
            )
        )
        told = Told()
        rows = self.source(ds).watched(["v"], [corners], told).read_all().num_rows
        assert rows == 2 * SHAPE[2]
        assert told.begun == [(4, 8 * 2 * 2 * SHAPE[2])]
        assert sorted(told.advanced) == [(1, 0), (1, 0), (1, 8 * SHAPE[2]), (1, 8 * SHAPE[2])]

    def test_nothing_to_load_is_not_watched(self, ds):
        told = Told()
        self.source(ds).watched(["x"], [], told).read_all()
        self.source(ds).watched(["v"], [Compare("x", "=", 99)], told).read_all()
        assert (told.begun, told.ended) == ([], 0)

    def test_a_dropped_stream_ends(self, ds):
        told = Told()
        reader = self.source(ds).watched(["v"], [], told)
        reader.read_next_batch()
        del reader
        gc.collect()
        assert told.ended == 1


class TestBar:
    def test_a_query_shows_its_blocks_and_takes_the_bar_away(self, ds, drawn):
        ds.sql.query("SELECT sum(v) FROM self").fetchall()
        (bar,) = drawn
        assert bar.given["desc"] == "self"
        assert bar.given["total"] == BLOCKS
        assert bar.given["initial"] + sum(bar.updates) == BLOCKS
        assert bar.postfix == f"{NBYTES / 1024:.1f} KiB of {NBYTES / 1024:.1f} KiB"
        assert bar.given["leave"] is False
        assert bar.closed

    def test_one_for_each_scan(self, ds, drawn):
        ds.sql.query("SELECT sum(a.v - b.v) FROM self a JOIN z_y_x b USING (z, y, x) WHERE a.z < 3").fetchall()
        # the predicate goes through the join to both
        assert sorted((bar.given["desc"], bar.given["total"]) for bar in drawn) == [("self", 2), ("z_y_x", 2)]
        assert all(bar.closed for bar in drawn)

    @pytest.mark.parametrize("how", ["closed", "dropped"])
    def test_an_abandoned_result_closes_its_bar(self, drawn, how):
        spy = RecordingArray(np.zeros((60, 50_000)))  # more than DuckDB reads ahead
        large = xr.Dataset({"v": spy.variable(("y", "x"), (1, 50_000))})
        with xzsql.options(block_bytes=400_000):
            result = large.sql.query("SELECT y, x, v FROM self")
            result.fetchone()
            (bar,) = drawn
            assert not bar.closed
            if how == "closed":
                result.close()
            del result
            deadline = time.monotonic() + 20
            while not bar.closed and time.monotonic() < deadline:
                gc.collect()
                time.sleep(0.01)
        assert bar.closed
        assert bar.given["initial"] + sum(bar.updates) < 60

    def test_a_block_that_fails_closes_it(self, drawn):
        spy = RecordingArray(np.zeros(SHAPE), failing=(10, 0, 0))
        broken = xr.Dataset({"v": spy.variable(("z", "y", "x"), CHUNKS)})
        with pytest.raises(xzsql.errors.ReadError):
            broken.sql.query("SELECT sum(v) FROM self").fetchall()
        assert [bar.closed for bar in drawn] == [True]

    def test_on_a_connection_of_the_user(self, ds, drawn):
        con = duckdb.connect()
        ds.sql.mount(con, "m")
        con.sql("SELECT sum(v) FROM m.z_y_x").fetchall()
        assert drawn == []
        ds.sql.query("SELECT sum(v) FROM z_y_x", con=con).fetchall()
        assert [bar.given["desc"] for bar in drawn] == ["z_y_x"]

    def test_a_bar_that_cannot_be_drawn_does_not_harm_the_query(self, ds, drawn, monkeypatch):
        def broken(self, n):
            raise ValueError("I/O operation on closed file")

        monkeypatch.setattr(Drawn, "update", broken)
        assert ds.sql.query("SELECT count(v) FROM self").fetchall() == [(np.prod(SHAPE),)]
        assert [bar.closed for bar in drawn] == [True]

    def test_quick_queries_make_none(self, ds, drawn, monkeypatch):
        monkeypatch.setattr(progress, "DELAY", 60.0)
        ds.sql.query("SELECT sum(v) FROM self").fetchall()
        assert drawn == []


class TestWhether:
    def test_the_option(self, ds, drawn):
        assert xzsql.options.progress is True
        with xzsql.options(progress=False):
            ds.sql.query("SELECT sum(v) FROM self").fetchall()
        assert drawn == []

    @pytest.mark.parametrize("value", [1, 0, None, "yes", np.True_])
    def test_other_values_are_refused(self, value):
        with pytest.raises(InvalidInputError, match="progress must be True or False"):
            xzsql.options(progress=value)

    def test_only_for_a_terminal_or_a_notebook(self, monkeypatch):
        class Stream:
            def __init__(self, tty):
                self.tty = tty

            def isatty(self):
                if self.tty is None:
                    raise ValueError("I/O operation on closed file")
                return self.tty

        for stream, shown in ((None, False), (Stream(False), False), (Stream(None), False), (Stream(True), True)):
            monkeypatch.setattr(sys, "stderr", stream)
            assert progress._is_watched() is shown
        monkeypatch.setattr(sys, "stderr", Stream(False))
        monkeypatch.setattr(progress, "_in_notebook", lambda: True)
        assert progress._is_watched() is True

    def test_a_notebook_is_a_shell_with_a_kernel(self, monkeypatch):
        class IPython:
            shell = None

            @classmethod
            def get_ipython(cls):
                return cls.shell

        monkeypatch.setitem(sys.modules, "IPython", IPython)
        assert not progress._in_notebook()
        monkeypatch.setattr(IPython, "shell", type("TerminalShell", (), {})())
        assert not progress._in_notebook()
        monkeypatch.setattr(IPython, "shell", type("Shell", (), {"kernel": object()})())
        assert progress._in_notebook()

    def test_without_tqdm_nothing_is_shown_or_said(self, ds, monkeypatch, capsys):
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
        monkeypatch.setattr(progress, "_tqdm", progress._tqdm.__wrapped__)
        monkeypatch.setattr(progress, "_is_watched", lambda: True)
        monkeypatch.setattr(progress, "DELAY", 0.0)
        assert progress.bar_of("self") is None
        assert ds.sql.query("SELECT count(v) FROM self").fetchall() == [(np.prod(SHAPE),)]
        assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 * 2**20 // 2, "1.5 MiB"), (2**60, "1024.0 PiB")],
)
def test_size(nbytes, text):
    assert progress.size(nbytes) == text


class Slow(BackendArray):
    """A block takes its time."""

    def __init__(self, seconds):
        self.shape, self.dtype, self.seconds = (60, 10), np.dtype("f8"), seconds
        self.reading = threading.Event()

    def __getitem__(self, key):
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self.read)

    def read(self, key):
        self.reading.set()
        time.sleep(self.seconds)
        return np.zeros(self.shape)[key]

    def dataset(self):
        variable = xr.Variable(("y", "x"), indexing.LazilyIndexedArray(self))
        variable.encoding = {"chunks": (1, 10), "preferred_chunks": {"y": 1, "x": 10}}
        return xr.Dataset({"v": variable})


CHILD = """
import os, signal, sys, threading, time
import xzsql
import test_progress
slow = test_progress.Slow(float(sys.argv[1]))
ds = slow.dataset()
def press():
    slow.reading.wait()
    time.sleep(float(sys.argv[2]))
    global pressed
    pressed = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
with xzsql.options(block_bytes=80, workers=2):
    result = ds.sql.query("SELECT sum(v) FROM self")
    threading.Thread(target=press, daemon=True).start()
    try:
        print("answer", result.fetchall())
    except KeyboardInterrupt as error:
        print("stopped", time.monotonic() - pressed, "|", error)
    print("next", ds[[]].assign(a=("z", [1, 2])).sql.query("SELECT sum(a) FROM z").fetchall())
"""


@pytest.mark.skipif(os.name == "nt", reason="pseudo terminals and SIGINT as on POSIX")
@pytest.mark.parametrize(("seconds", "after"), [(0.2, 1.5), (3.0, 0.1)])
def test_ctrl_c_stops_within_a_second_and_takes_the_bar_away(tmp_path, seconds, after):
    pytest.importorskip("tqdm")
    import pty
    import termios

    script = tmp_path / "child.py"
    script.write_text(CHILD)
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    child = subprocess.Popen(
        [sys.executable, script, str(seconds), str(after)],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=os.environ | {"PYTHONPATH": os.path.dirname(__file__)},
        text=True,
    )
    os.close(theirs)
    screen = []

    def read():
        try:
            while got := os.read(ours, 4096):
                screen.append(got.decode(errors="replace"))
        except OSError:  # the terminal is gone
            return

    reader = threading.Thread(target=read)
    reader.start()
    out, _ = child.communicate(timeout=120)
    reader.join()
    os.close(ours)
    assert child.returncode == 0, (out, screen)
    stopped, following = out.splitlines()
    assert stopped.startswith("stopped")
    assert float(stopped.split()[1]) < 1
    assert following == "next [(3,)]"
    drawn = "".join(screen)
    if seconds < after:
        assert "self:" in drawn
        assert "/60" in drawn
    else:
        assert "a block that is being read ends in the background" in stopped
    assert "Traceback" not in drawn
    assert drawn.rpartition("\r")[2].strip() == ""


def test_ctrl_c_leaves_the_connection_of_the_user_as_it_was():
    slow = Slow(1.5)
    con = duckdb.connect()
    catalog = slow.dataset().sql

    def press():
        slow.reading.wait()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    with xzsql.options(block_bytes=80, workers=2), pytest.raises(KeyboardInterrupt):
        catalog.query("SELECT sum(v) FROM self", con=con)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            assert con.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall() == []
            break
        except (duckdb.ResourceInUseException, AssertionError):
            time.sleep(0.1)
    else:
        pytest.fail("the view of the catalog stayed")
