"""The stream of a source on its way into DuckDB, which hands on nothing of an exception but its text."""

from __future__ import annotations

import itertools
import re
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from xzsql.errors import ReadError, XzsqlError

_KEPT = 64
_errors: OrderedDict[str, BaseException] = OrderedDict()
_lock = threading.Lock()
_numbers = itertools.count(1)
_MARK = re.compile(r"\[xzsql error (\d+)\]")


def recorded(error: BaseException) -> BaseException | None:
    """The exception of a source that an error of DuckDB stands for."""
    found = _MARK.search(str(error))
    if found is None:
        return None
    with _lock:
        return _errors.get(found[1])


def record(error: BaseException) -> ReadError:
    """What to raise into DuckDB instead: on a plain connection its text is all that the user will see."""
    number = str(next(_numbers))
    # the frames hold blocks of data, and the record outlives them
    traceback.clear_frames(error.__traceback__)
    with _lock:
        _errors[number] = error
        while len(_errors) > _KEPT:
            _errors.popitem(last=False)
    text = str(error) if isinstance(error, XzsqlError) else f"{type(error).__name__}: {error}"
    return ReadError(f"{text} [xzsql error {number}]")


def guarded(open_reader: Callable[[], pa.RecordBatchReader], columns: Sequence[str]) -> pa.RecordBatchReader:
    """The reader, each of its exceptions recorded; its work ends as soon as the consumer drops this one."""
    try:
        reader = open_reader()
        if reader.schema.names != list(columns):
            raise XzsqlError(f"a source was asked for the columns {list(columns)} and gave {reader.schema.names}")
    except BaseException as error:
        raise record(error) from None
    return pa.RecordBatchReader.from_batches(reader.schema, _batches(reader))


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except GeneratorExit:
        raise
    except BaseException as error:  # Ctrl-C too: DuckDB would make it a text
        raise record(error) from None
    finally:
        reader.close()
