"""Waiting for DuckDB so that Ctrl-C is heard."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

#: Seconds that a query has for stopping after Ctrl-C, before it is left to end by itself.
_GRACE = 10.0
#: Seconds between looks for a signal: the system may hand it to another thread, which does not wake this one.
_POLL = 0.1


def interruptible[T](call: Callable[[], T], interrupt: Callable[[], object]) -> T:
    """What `call` returns or raises; KeyboardInterrupt as soon as Ctrl-C is pressed.

    DuckDB looks for signals in some of its loops only, and makes a text of the exception when one arrives in the
    stream that it reads. Signals go to the main thread, so there the call is made by a helper and waited for.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    returned: list[T] = []
    raised: list[BaseException] = []
    # a plain lock: an exception of a signal can break the Python code of an Event
    done = threading.Lock()
    done.acquire()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            returned.append(context.run(call))
        except BaseException as error:
            raised.append(error)
        finally:
            done.release()

    threading.Thread(target=work, name="xzsql-query", daemon=True).start()
    try:
        while not done.acquire(timeout=_POLL):
            pass
    except BaseException:
        interrupt()
        done.acquire(timeout=_GRACE)
        raise
    if raised:
        try:
            raise raised[0]
        finally:
            raised.clear()  # this frame and the traceback hold each other
    return returned[0]
