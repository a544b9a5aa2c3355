"""Rows of a result on their way out: batch by batch, whatever the format."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import click
import pyarrow as pa

from xzsql.cli import text
from xzsql.cli.table import printed
from xzsql.errors import InvalidInputError, UnsupportedError
from xzsql.result import Result

FORMATS = ("table", "csv", "json", "jsonl", "parquet", "arrow")
_SUFFIXES = {
    ".txt": "table",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
#: Files of Arrow that are a stream, which can be read from a pipe, and not the format with a footer.
_STREAM_SUFFIX = ".arrows"
#: Rows that a table shows where no number is given.
TABLE_ROWS = 50


class Sink(Protocol):
    """What takes the batches of a result."""

    def write(self, batch: pa.RecordBatch) -> None:
        """The next rows."""

    def end(self) -> None:
        """After the last batch."""

    def abandon(self) -> None:
        """After a failure: what was written must not pass for all of it."""


def format_of(given: str | None, path: str | None) -> str:
    """The format to write: the one given, else that of the suffix, else a table."""
    if given is not None:
        return given
    if path is None:
        return "table"
    suffix = Path(path).suffix.lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if _is_device(path):
        return "table"
    raise click.UsageError(
        f"the suffix {suffix!r} of {path!r} is none of a format ({', '.join(_SUFFIXES)}); name one with --format."
    )


def write(result: Result, *, format: str, path: str | None, limit: int | None, typed: bool = True) -> None:
    """Write the rows, at most `limit`, to a file or to the standard output; what was left out is told on stderr.

    `typed` is whether a table shows the types of its columns.
    """
    if format in ("parquet", "arrow") and path is None and sys.stdout.isatty():
        raise click.UsageError(f"{format} is nothing for a terminal; give --output FILE, or send it through a pipe.")
    if format == "table" and limit is None:
        limit = TABLE_ROWS
    with _opened(path) as out:
        batches = result.reader()
        types = result.types if typed or format != "table" else [""] * len(result.types)
        sink = _sink(format, out, batches.schema, types, path)
        try:
            cut = _copied(batches, sink, limit)
            sink.end()
        except BaseException:
            with suppress(OSError):
                sink.abandon()
            raise
        out.flush()
    if cut:
        hint = "--limit N for more, --format csv or another for all of them" if format == "table" else "there are more"
        click.echo(f"xzsql: stopped after {limit:,} row{'s' * (limit != 1)}; {hint}", err=True)


def _copied(batches: pa.RecordBatchReader, sink: Sink, limit: int | None) -> bool:
    """Pass the rows on; whether there are more than the limit."""
    left = limit
    for batch in batches:
        if left is None:
            sink.write(batch)
            continue
        if left > 0 and batch.num_rows:
            # taken, not sliced: what a slice leaves out is still there for whoever looks at nested values
            sink.write(batch if batch.num_rows <= left else batch.take(pa.array(range(left))))
        left -= batch.num_rows
        if left < 0:
            return True
    return False


def _sink(format: str, out: BinaryIO, schema: pa.Schema, types: Sequence[str], path: str | None) -> Sink:
    if format in ("json", "jsonl", "parquet"):
        _refuse_repeated(schema.names, format)
    if format not in ("parquet", "arrow"):
        _refuse_carried(schema.names, types)
    match format:
        case "csv":
            return _Csv(out, schema.names)
        case "json" | "jsonl":
            return _Json(out, schema.names, types, whole=format == "json")
        case "parquet":
            return _Parquet(out, schema)
        case "arrow":
            return _Arrow(out, schema, stream=path is None or Path(path).suffix.lower() == _STREAM_SUFFIX)
    return _Table(out, schema, types, to_stdout=path is None)


def _refuse_repeated(names: Sequence[str], format: str) -> None:
    for name in names:
        if list(names).count(name) > 1:
            raise InvalidInputError(f"{format} cannot hold two columns {name!r}; name one of them otherwise with AS")


def _refuse_carried(names: Sequence[str], types: Sequence[str]) -> None:
    """Types whose form in Arrow is DuckDB's own."""
    for name, kind in zip(names, types, strict=True):
        if kind in ("VARIANT", "BIGNUM") or kind.startswith("UNION("):
            raise UnsupportedError(
                f"column {name!r} is a {kind.split('(')[0]}, which has no text of its own; write CAST(... AS VARCHAR)"
            )


class _Csv:
    def __init__(self, out: BinaryIO, names: Sequence[str]) -> None:
        self._out = out
        # readers skip an empty line, and with it a row
        self._null = '""' if len(names) == 1 else ""
        header = text.quoted(pa.array(names, pa.large_string())).to_pylist()
        out.write(",".join(header).encode() + b"\n")

    def write(self, batch: pa.RecordBatch) -> None:
        null = pa.scalar(self._null, pa.large_string())
        parts: list[Any] = []
        for column in batch.columns:
            parts += [text.csv_field(column).fill_null(null), ","]
        _write_texts(self._out, text.joined(*parts[:-1], "\n"))

    def end(self) -> None:
        pass

    def abandon(self) -> None:
        pass


class _Json:
    """An object a row: on a line of its own, or in one array."""

    def __init__(self, out: BinaryIO, names: Sequence[str], types: Sequence[str], *, whole: bool) -> None:
        self._out = out
        self._names = names
        self._types = types
        self._whole = whole
        self._begun = False
        self._nulled: list[str] = []
        self._keys = [json.dumps(n, ensure_ascii=False) + ":" for n in names]

    def write(self, batch: pa.RecordBatch) -> None:
        parts: list[Any] = []
        for index, (name, kind) in enumerate(zip(self._names, self._types, strict=True)):
            convert = text.JsonText()
            parts += ["," if index else "{", self._keys[index]]
            parts.append(convert(batch.column(index), is_json=kind == "JSON"))
            if convert.nulled and name not in self._nulled:
                self._nulled.append(name)
        if not self._whole:
            _write_texts(self._out, text.joined(*parts, "}\n"))
            return
        if batch.num_rows:
            self._out.write(b",\n" if self._begun else b"[\n")
            self._begun = True
            _write_texts(self._out, text.joined(*parts, "},\n"), but_last=2)

    def end(self) -> None:
        if self._whole:
            self._out.write(b"\n]\n" if self._begun else b"[]\n")
        if self._nulled:
            click.echo(
                f"xzsql: NaN and infinity, which JSON does not have, are null in {', '.join(map(repr, self._nulled))}; "
                "csv, parquet and arrow keep them",
                err=True,
            )

    def abandon(self) -> None:
        pass


def _write_texts(out: BinaryIO, texts: pa.Array, but_last: int = 0) -> None:
    """All texts of a large_string array, which lie one after the other in its buffer."""
    if len(texts) == 0:
        return
    start, stop = texts.offset * 8, (texts.offset + len(texts)) * 8
    offsets = memoryview(texts.buffers()[1]).cast("B")
    first = int.from_bytes(offsets[start : start + 8], sys.byteorder)
    last = int.from_bytes(offsets[stop : stop + 8], sys.byteorder)
    out.write(memoryview(texts.buffers()[2])[first : last - but_last])
    out.flush()


class _Gate(io.RawIOBase):
    """A file that can be shut before those who hold it are done with it."""

    def __init__(self, out: BinaryIO) -> None:
        super().__init__()
        self._out = out
        self.shut = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return memoryview(data).nbytes if self.shut else self._out.write(data)


class _Parquet:
    def __init__(self, out: BinaryIO, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        for field in schema:
            try:
                pq.ParquetWriter(io.BytesIO(), pa.schema([field])).close()
            except pa.ArrowNotImplementedError as error:
                raise UnsupportedError(
                    f"parquet cannot hold column {field.name!r} of type {field.type}; write CAST(... AS VARCHAR), "
                    "epoch(...) for the seconds of an INTERVAL, or --format arrow"
                ) from error
        self._gate = _Gate(out)
        self._writer = pq.ParquetWriter(self._gate, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def end(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        # the writer puts a footer to the file when it is collected, which would make the file valid
        self._gate.shut = True


class _Arrow:
    def __init__(self, out: BinaryIO, schema: pa.Schema, *, stream: bool) -> None:
        self._out = out
        self._writer = pa.ipc.new_stream(out, schema) if stream else pa.ipc.new_file(out, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def end(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        # a stream that just stops reads as complete; this announces a message that never comes
        self._out.write(b"\xff\xff\xff\xff\x08\x00\x00\x00")
        self._out.flush()


class _Table:
    """Keeps the rows, which are few, for columns as wide as their values."""

    def __init__(self, out: BinaryIO, schema: pa.Schema, types: Sequence[str], *, to_stdout: bool) -> None:
        self._out = out
        self._schema = schema
        self._types = types
        self._to_stdout = to_stdout
        self._batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def end(self) -> None:
        table = pa.Table.from_batches(self._batches, self._schema)
        encoding = (sys.stdout.encoding if self._to_stdout else None) or "utf-8"
        lines = printed(table, self._types, encoding=encoding, to_terminal=self._to_stdout and sys.stdout.isatty())
        self._out.write(lines.encode(encoding, "backslashreplace"))

    def abandon(self) -> None:
        pass


@contextmanager
def _opened(path: str | None) -> Iterator[BinaryIO]:
    """The standard output, or a file that is there when all of it is written, and not before."""
    if path is None:
        yield sys.stdout.buffer
    elif _is_device(path):
        with open(path, "wb") as out:
            yield out
    else:
        # through a link to the file that it stands for
        target = os.path.realpath(path)
        handle, part = tempfile.mkstemp(
            prefix=f".{os.path.basename(target)}.", suffix=".part", dir=os.path.dirname(target)
        )
        try:
            with open(handle, "wb") as out:
                yield out
            os.chmod(part, _mode(target))
            os.replace(part, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(part)
            raise


def _is_device(path: str) -> bool:
    """A pipe, /dev/null, /dev/stdout: what has no place for a second file beside it."""
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def _mode(target: str) -> int:
    """The permissions of the file that is replaced, or those of a new one."""
    if os.path.exists(target):
        return stat.S_IMODE(os.stat(target).st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
