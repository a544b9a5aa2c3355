"""What every `TableSource` must do, as a class of tests to inherit from.

class TestMine(SourceConformance):
    @pytest.fixture
    def source(self): ...

    @pytest.fixture
    def table(self): ...  # all rows, computed in another way
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from xzsql.engine.dataset import plain
from xzsql.ir.predicate import And, Compare, In, IsNull, Not, Or, Predicate, Value
from xzsql.source import ROLE, TableSource
from xzsql.testing.sources import matching


class SourceConformance:
    """Inherit, give the two fixtures, and every rule of the seam is tested."""

    @pytest.fixture
    def source(self) -> TableSource:
        """The source under test; a new one for each test."""
        raise NotImplementedError

    @pytest.fixture
    def table(self) -> pa.Table:
        """All rows that the source must have, from elsewhere, in any order."""
        raise NotImplementedError

    def test_is_a_source(self, source: TableSource) -> None:
        """It has the methods of the protocol."""
        assert isinstance(source, TableSource)

    def test_schema_says_roles_and_stays(self, source: TableSource) -> None:
        """Every column has a role, and asking twice gives the same."""
        roles = {(f.metadata or {}).get(ROLE) for f in source.schema}
        assert roles <= {b"dimension", b"coordinate", b"data"}
        assert source.schema.equals(source.schema, check_metadata=True)

    def test_rows(self, source: TableSource, table: pa.Table) -> None:
        """Exact, or an upper bound."""
        assert source.rows() >= table.num_rows

    def test_all_rows_come_once(self, source: TableSource, table: pa.Table) -> None:
        """The whole table, in the types that the schema says."""
        read = read_all(source, source.schema.names)
        assert [(f.name, f.type) for f in read.schema] == [(f.name, f.type) for f in source.schema]
        assert rows(read) == rows(table.select(source.schema.names))

    def test_columns_come_as_asked(self, source: TableSource, table: pa.Table) -> None:
        """Each column alone, and all of them backwards."""
        asked = [[n] for n in source.schema.names] + [source.schema.names[::-1]]
        for columns in asked:
            read = read_all(source, columns)
            assert read.column_names == columns
            assert rows(read) == rows(table.select(columns))

    def test_streams_start_afresh(self, source: TableSource, table: pa.Table) -> None:
        """A second stream gives the same rows in the same order."""
        first, second = (read_all(source, source.schema.names) for _ in range(2))
        assert [_plain_row(r) for r in first.to_pylist()] == [_plain_row(r) for r in second.to_pylist()]
        assert first.num_rows == table.num_rows

    def test_streams_interleave(self, source: TableSource, table: pa.Table) -> None:
        """Two streams that are read in turns."""
        columns = source.schema.names
        readers = [source.stream(columns, []) for _ in range(2)]
        found: list[list[pa.RecordBatch]] = [[], []]
        for pair in itertools.zip_longest(*readers):
            for mine, batch in zip(found, pair, strict=True):
                if batch is not None:
                    mine.append(plain(batch, source.schema))
        for mine in found:
            assert rows(pa.Table.from_batches(mine, source.schema)) == rows(table.select(columns))

    def test_streams_from_threads(self, source: TableSource, table: pa.Table) -> None:
        """Four streams at once."""
        expected = rows(table.select(source.schema.names))
        found: list[Counter[Any]] = []

        def read() -> None:
            found.append(rows(read_all(source, source.schema.names)))

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4
        assert all(f == expected for f in found)

    def test_accepted_predicates_are_exact(self, source: TableSource, table: pa.Table) -> None:
        """What is accepted gives the rows that a look at every row gives, whichever columns are asked for."""
        for predicate in predicates_for(table.select(source.schema.names)):
            if not source.accepts(predicate):
                continue
            expected = matching(table, [predicate])
            for columns in (source.schema.names, source.schema.names[-1:]):
                read = read_all(source, columns, [predicate])
                assert rows(read) == rows(expected.select(columns)), str(predicate)

    def test_several_predicates_all_hold(self, source: TableSource, table: pa.Table) -> None:
        """Predicates are joined by AND."""
        accepted = [p for p in predicates_for(table.select(source.schema.names)) if source.accepts(p)]
        for pair in itertools.pairwise(accepted[::5]):
            read = read_all(source, source.schema.names, pair)
            assert rows(read) == rows(matching(table, pair).select(source.schema.names)), str(And(pair))

    def test_predicates_on_keys_are_accepted(self, source: TableSource, table: pa.Table) -> None:
        """A comparison of a dimension with one of its values, where the type has constants."""
        for field in source.schema:
            if (field.metadata or {}).get(ROLE) == b"dimension" and (values := _constants(table, field.name)):
                assert source.accepts(Compare(field.name, ">=", values[0])), field.name

    def test_an_offer_is_not_remembered(self, source: TableSource, table: pa.Table) -> None:
        """Offering has no effect on a stream that does not name the predicate."""
        for predicate in predicates_for(table.select(source.schema.names)):
            source.accepts(predicate)
        assert read_all(source, source.schema.names).num_rows == table.num_rows

    def test_a_stream_can_be_left(self, source: TableSource, table: pa.Table) -> None:
        """Closing a reader early leaves no thread that was not there, and the source can be read again."""
        read_all(source, source.schema.names)  # what is made once is there now
        before = threading.active_count()
        for _ in range(3):
            reader = source.stream(source.schema.names, [])
            next(iter(reader), None)
            reader.close()
            del reader
        deadline = time.monotonic() + 10
        while threading.active_count() > before and time.monotonic() < deadline:
            time.sleep(0.01)
        assert threading.active_count() <= before
        assert read_all(source, source.schema.names).num_rows == table.num_rows

    def test_plan_is_within_the_whole(self, source: TableSource, table: pa.Table) -> None:
        """A plan costs no more than everything, and nothing asked for costs no data."""
        full = source.plan(source.schema.names, [])
        assert 0 <= full.blocks <= full.blocks_total
        assert 0 <= full.bytes <= full.bytes_total
        for predicate in predicates_for(table.select(source.schema.names)):
            if source.accepts(predicate):
                cost = source.plan(source.schema.names, [predicate])
                assert 0 <= cost.blocks <= cost.blocks_total
                assert 0 <= cost.bytes <= cost.bytes_total


def read_all(source: TableSource, columns: Sequence[str], where: Sequence[Predicate] = ()) -> pa.Table:
    """A stream to its end, with the types of the source's schema."""
    schema = pa.schema([source.schema.field(n) for n in columns])
    reader = source.stream(columns, where)
    assert reader.schema.names == list(columns)
    return pa.Table.from_batches([plain(batch, schema) for batch in reader], schema)


def rows(table: pa.Table) -> Counter[Any]:
    """The multiset of rows; NaN is one value."""
    return Counter(_plain_row(row) for row in table.to_pylist())


def _plain_row(row: dict[str, Any]) -> tuple[str, ...]:
    # repr tells 1 from 1.0 and True, -0.0 from 0.0, and makes NaN equal to itself
    return tuple(repr(v) for v in row.values())


def predicates_for(table: pa.Table) -> list[Predicate]:
    """Predicates of every shape over the columns of a table, with values that it has and values between them."""
    found: list[Predicate] = []
    for name in table.column_names:
        found += [IsNull(name), Not(IsNull(name))]
        values = _constants(table, name)
        for value in values:
            found += [Compare(name, op, value) for op in ("=", "!=", "<", "<=", ">", ">=")]
        if values:
            low, high = values[0], values[-1]
            found += [In(name, tuple(values)), Not(In(name, tuple(values[:2]))), Not(Compare(name, "<", high))]
            found.append(And((Compare(name, ">=", low), Compare(name, "<=", high))))
            found.append(Or((Compare(name, "<", low), Compare(name, "=", high), IsNull(name))))
    firsts = [Compare(n, "=", values[0]) for n in table.column_names if (values := _constants(table, n))]
    for one, other in itertools.pairwise(firsts):
        found += [Or((one, other)), Not(And((one, other))), And((Not(one), Or((other, IsNull(one.column)))))]
    return found


def _constants(table: pa.Table, name: str) -> list[Value]:
    """A few values of a column that a predicate can hold: its least, some in the middle, its greatest."""
    kind = table.schema.field(name).type
    if not (pa.types.is_primitive(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return []
    if pa.types.is_temporal(kind) and kind != pa.timestamp("us"):
        return []
    values = {v for v in table[name].to_pylist() if v is not None and not (isinstance(v, float) and math.isnan(v))}
    ordered = sorted(values)
    return ordered if len(ordered) < 4 else [ordered[0], ordered[len(ordered) // 3], ordered[-2], ordered[-1]]
