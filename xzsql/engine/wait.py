"""Waiting for DuckDB so that Ctrl-C is heard."""

from __future__ import annotations

import atexit
import contextvars
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress

#: Seconds that a query has for stopping after Ctrl-C, before it is left to end by itself: a block that is being read
#: cannot be stopped.
_GRACE = 0.5
#: Seconds between looks for a signal: the system may hand it to another thread, which does not wake this one.
_POLL = 0.1
#: Helpers that are still at a call that was left.
_left: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


@atexit.register
def _wait_for_left() -> None:
    """A thread inside DuckDB that the interpreter stops at its end takes the process down."""
    for helper in list(_left):
        helper.join()


class LeftRunningError(KeyboardInterrupt):
    """Ctrl-C while a block was being read, which did not end in time; the call ends when it has been."""

    def __init__(self, call: _Call) -> None:
        super().__init__("the query is stopped; a block that is being read ends in the background")
        self._call = call

    def afterwards(self, action: Callable[[], object]) -> None:
        """Do it when the call has ended: until then its connection is busy."""
        self._call.afterwards(action)


def after(error: BaseException | None, action: Callable[[], object]) -> None:
    """Do it now, or after the call that this error left running."""
    if isinstance(error, LeftRunningError):
        error.afterwards(action)
    else:
        action()


class _Call:
    """What follows a call that nobody waits for any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = False
        self._actions: list[Callable[[], object]] = []

    def afterwards(self, action: Callable[[], object]) -> None:
        with self._lock:
            if not self._ended:
                self._actions.append(action)
                return
        action()

    def end(self) -> None:
        with self._lock:
            self._ended = True
        for action in self._actions:
            with suppress(Exception):
                action()


def interruptible[T](call: Callable[[], T], interrupt: Callable[[], object]) -> T:
    """What `call` returns or raises; KeyboardInterrupt as soon as Ctrl-C is pressed.

    DuckDB does not look for signals in every query (not in a large join), and makes a text of the exception when one
    arrives in the stream that it reads. Signals go to the main thread, so there the call is made by a helper and
    waited for.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    returned: list[T] = []
    raised: list[BaseException] = []
    # a plain lock: an exception of a signal can break the Python code of an Event
    done = threading.Lock()
    done.acquire()
    context = contextvars.copy_context()
    this = _Call()

    def work() -> None:
        try:
            returned.append(context.run(call))
        except BaseException as error:
            raised.append(error)
        finally:
            done.release()
            this.end()

    helper = threading.Thread(target=work, name="xzsql-query", daemon=True)
    helper.start()
    try:
        while not done.acquire(timeout=_POLL):
            pass
    except BaseException as error:
        interrupt()
        if not done.acquire(timeout=_GRACE) and isinstance(error, KeyboardInterrupt):
            _left.add(helper)
            raise LeftRunningError(this) from None
        raise
    if raised:
        try:
            raise raised[0]
        finally:
            raised.clear()  # this frame and the traceback hold each other
    return returned[0]
