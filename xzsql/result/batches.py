"""The batches of a result: pulled when asked for, kept while they are few, and where fetching is in them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa

from xzsql.errors import ClosedError
from xzsql.result.run import Row, Run

#: Bytes of a result that are kept, so that it can be taken a second time.
KEPT_BYTES = 64 * 2**20


class Batches:
    """The batches of a run, pulled when asked for, and kept while they are few."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = threading.RLock()
        self._schema: pa.Schema | None = None
        self._kept: dict[int, pa.RecordBatch] = {}
        self._bytes = 0
        self._pulled = 0
        self._end = False
        self._failed: BaseException | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def start(self, batch_rows: int) -> None:
        with self._lock:
            if self._schema is None:
                self._schema = self._run.start(batch_rows)

    def walk(self) -> Iterator[pa.RecordBatch]:
        number = 0
        while (batch := self.get(number)) is not None:
            yield batch
            number += 1

    def first(self, rows: int) -> pa.Table:
        found: list[pa.RecordBatch] = []
        for batch in self.walk():
            found.append(batch)
            rows -= batch.num_rows
            if rows <= 0:
                break
        return pa.Table.from_batches(found, self._schema)

    def get(self, number: int) -> pa.RecordBatch | None:
        with self._lock:
            if number in self._kept:
                return self._kept[number]
            if number < self._pulled:
                raise ClosedError("this result was already streamed, and it is too large to be kept; query again")
            if self._failed is not None:
                raise self._failed
            if self._end:
                return None
            return self._pull()

    def _pull(self) -> pa.RecordBatch | None:
        try:
            batch = self._run.next_batch()
        except BaseException as error:
            self._failed = error
            self._run.close()
            raise
        if batch is None:
            self._end = True
            self._run.close()
            return None
        self._kept[self._pulled] = batch
        self._pulled += 1
        self._bytes += batch.nbytes
        if self._bytes > KEPT_BYTES:
            # the newest stays: whoever only looked at it (a display) must not have used it up
            self._kept = {self._pulled - 1: batch}
        return batch

    def close(self) -> None:
        with self._lock:
            self._end = True
            self._kept.clear()
            self._run.close()


class Cursor:
    """Where fetching row by row is."""

    def __init__(self, batches: Batches, run: Run) -> None:
        self._batches = batches
        self._run = run
        self._next = 0
        self._rows: list[Row] = []
        self._at = 0
        self._told_end = False

    def begin_again(self) -> None:
        if self._told_end:
            self._next, self._rows, self._at, self._told_end = 0, [], 0, False

    def take(self, size: int | None) -> list[Row]:
        found: list[Row] = []
        while size is None or len(found) < size:
            if self._at == len(self._rows):
                batch = self._batches.get(self._next)
                if batch is None:
                    self._told_end = size is None or not found
                    break
                self._rows, self._at = self._run.rows(pa.Table.from_batches([batch])), 0
                self._next += 1
            stop = len(self._rows) if size is None else min(len(self._rows), self._at + size - len(found))
            found += self._rows[self._at : stop]
            self._at = stop
        return found
