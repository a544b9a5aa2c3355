"""Loading ahead: blocks are loaded and decoded by a few threads, shared by all scans, within a budget of bytes."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from xzsql.options import Options


@dataclass(frozen=True, slots=True, eq=False)
class Task[T]:
    """One block to load."""

    run: Callable[[], T]
    nbytes: int
    """Bytes that the block takes while it is in flight, about."""


class _Budget:
    """Bytes in flight over all scans of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.taken = 0

    def take(self, nbytes: int, limit: int, *, must: bool) -> bool:
        """Take the bytes if they fit under the limit, or if the scan would stand still without them."""
        with self._lock:
            if not must and self.taken + nbytes > limit:
                return False
            self.taken += nbytes
            return True

    def give(self, nbytes: int) -> None:
        with self._lock:
            self.taken -= nbytes


class _Shared:
    """What all scans of the process share: the threads, by their number, and the budget."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew: in the child of a fork the threads are gone, and a lock may be held by one of them."""
        self._lock = threading.Lock()
        self._pools: dict[int, ThreadPoolExecutor] = {}
        self.budget = _Budget()

    def pool(self, workers: int) -> ThreadPoolExecutor:
        with self._lock:
            if workers not in self._pools:
                self._pools[workers] = ThreadPoolExecutor(workers, thread_name_prefix="xzsql")
            return self._pools[workers]


_shared = _Shared()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_shared.reset)


def bytes_in_flight() -> int:
    """Bytes that blocks of all scans take now."""
    return _shared.budget.taken


def ahead[T](tasks: Iterable[Task[T]], options: Options) -> Generator[T]:
    """The results of the tasks in their order, each computed before it is asked for.

    The depth grows from one task as results are taken, so that a LIMIT loads little more than it shows. Closing the
    generator cancels what has not begun.
    """
    waiting = iter(tasks)
    pending: deque[tuple[Future[T], int]] = deque()
    budget = _shared.budget
    spare: Task[T] | None = None
    depth = 1
    try:
        while True:
            while len(pending) < depth:
                task = spare if spare is not None else next(waiting, None)
                spare = None
                if task is None:
                    break
                if not budget.take(task.nbytes, options.memory_budget, must=not pending):
                    spare = task
                    break
                try:
                    pending.append((_shared.pool(options.workers).submit(task.run), task.nbytes))
                except BaseException:
                    budget.give(task.nbytes)
                    raise
            if not pending:
                return
            depth = min(depth + 1, options.workers + 1)
            result = pending[0][0].result()
            yield result
            del result
            budget.give(pending.popleft()[1])
    finally:
        for future, nbytes in pending:
            future.cancel()
            budget.give(nbytes)
