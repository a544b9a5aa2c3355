"""A `TableSource` as a pyarrow Dataset, which is what polars and users of pyarrow read."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, Never

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from xzsql.errors import UnknownNameError, UnsupportedError
from xzsql.source import TableSource

type Columns = Sequence[str] | Mapping[str, pc.Expression] | None


class SourceDataset(pads.Dataset):  # type: ignore[misc]  # no type in the stubs
    """A Dataset without a C++ dataset behind it: every method of the base that would look for one is defined here."""

    def __init__(self, source: TableSource) -> None:
        if not len(source.schema):
            raise UnsupportedError("a table without columns cannot be read by SQL")
        self._source = source
        self._schema = source.schema

    @property
    def schema(self) -> pa.Schema:
        """The columns and types; each field's metadata says its role."""
        return self._schema

    @property
    def partition_expression(self) -> pc.Expression:
        """Always true: nothing is known of all rows."""
        return pc.scalar(True)

    def count_rows(self, filter: pc.Expression | None = None, **_options: Any) -> int:
        """The number of rows, counted on the first column: a source may know no more than an upper bound."""
        return sum(batch.num_rows for batch in self._batches([], filter))

    def scanner(
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        **options: Any,
    ) -> pads.Scanner:
        """A scanner over the rows that match; reads only columns that the projection or the filter needs."""
        schema = self._projected(columns)
        reader = pa.RecordBatchReader.from_batches(schema, self._batches(columns, filter))
        return pads.Scanner.from_batches(reader, **options)

    def to_batches(
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        **_options: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The rows that match, one batch after the other."""
        return self._batches(columns, filter)

    def to_table(
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        **_options: Any,
    ) -> pa.Table:
        """The rows that match, in memory."""
        return pa.Table.from_batches(list(self._batches(columns, filter)), self._projected(columns))

    def head(
        self,
        num_rows: int,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        **_options: Any,
    ) -> pa.Table:
        """The first rows that match; stops reading when it has them."""
        kept: list[pa.RecordBatch] = []
        batches = self._batches(columns, filter)
        while num_rows > 0 and (batch := next(batches, None)) is not None:
            kept.append(batch.slice(0, num_rows))
            num_rows -= kept[-1].num_rows
        batches.close()
        return pa.Table.from_batches(kept, self._projected(columns))

    def take(self, indices: Any, **options: Any) -> pa.Table:
        """Rows by number; reads everything."""
        return self.to_table(**options).take(indices)

    def filter(self, expression: pc.Expression) -> pads.Dataset:
        """The rows that match, read into memory."""
        return pads.dataset(self.to_table(filter=expression))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All rows as an Arrow stream: what `pa.table(...)` and `pl.DataFrame(...)` ask for."""
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches(None, None))
        return reader.__arrow_c_stream__(requested_schema)

    def _refuse(self, *_args: Any, **_options: Any) -> Never:
        raise UnsupportedError(
            "a table of xzsql has no files and no fragments; read it with .to_table(), .to_batches() or .scanner(), "
            "or ask it with SQL"
        )

    get_fragments = _get_fragments = replace_schema = join = join_asof = sort_by = _refuse
    _scanner_options = _refuse
    __reduce__ = __reduce_ex__ = _refuse

    def __repr__(self) -> str:
        columns = ", ".join(f"{f.name}: {f.type}" for f in self._schema)
        return f"<xzsql table of {self._source.rows():,} rows: {columns}>"

    __str__ = __repr__

    def _batches(self, columns: Columns, where: pc.Expression | None) -> Generator[pa.RecordBatch]:
        """Plain batches, projected and filtered."""
        asked = self._schema.names if columns is None else columns
        needed = self._needed(asked, where)
        declared = pa.schema([self._schema.field(n) for n in needed])
        if where is not None or isinstance(asked, Mapping):
            pads.Scanner.from_batches([], schema=declared, columns=asked, filter=where)  # unknown names raise now
        return self._read(needed, declared, asked, where)

    def _read(
        self, needed: list[str], declared: pa.Schema, asked: Any, where: pc.Expression | None
    ) -> Generator[pa.RecordBatch]:
        reader = self._source.stream(needed, [])
        try:
            for encoded in reader:
                batch = plain(encoded, declared)
                if where is not None or isinstance(asked, Mapping):
                    scanner = pads.Scanner.from_batches([batch], schema=declared, columns=asked, filter=where)
                    yield from (b for b in scanner.to_reader() if b.num_rows)
                else:
                    yield batch.select(list(asked))
        finally:
            reader.close()

    def _projected(self, columns: Columns) -> pa.Schema:
        if columns is None:
            return self._schema
        if isinstance(columns, Mapping):
            return pads.Scanner.from_batches([], schema=self._schema, columns=columns).projected_schema
        return pa.schema([self._schema.field(n) for n in self._known(columns)])

    def _known(self, columns: Sequence[str]) -> Sequence[str]:
        for name in columns:
            if name not in self._schema.names:
                raise UnknownNameError.of("column", name, self._schema.names)
        return columns

    def _needed(self, asked: Sequence[str] | Mapping[str, pc.Expression], where: pc.Expression | None) -> list[str]:
        """The columns without which the projection or the filter cannot be bound; never none."""
        needed = set() if isinstance(asked, Mapping) else set(self._known(asked))
        if where is not None or isinstance(asked, Mapping):
            computed = asked if isinstance(asked, Mapping) else []
            for index, name in enumerate(self._schema.names):
                if name not in needed and not _binds(self._schema.remove(index), computed, where):
                    needed.add(name)
        return [n for n in self._schema.names if n in needed] or [self._schema.names[0]]


def _binds(schema: pa.Schema, columns: Any, where: pc.Expression | None) -> bool:
    """Whether the expressions find all their columns here; pyarrow does not say which ones they name."""
    try:
        pads.Scanner.from_batches([], schema=schema, columns=columns, filter=where)
    except pa.ArrowInvalid:
        return False
    return True


def plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the types of `schema`: run ends and dictionaries decoded where it has none."""
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        if pa.types.is_run_end_encoded(column.type) and not pa.types.is_run_end_encoded(field.type):
            column = pc.run_end_decode(column)
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
