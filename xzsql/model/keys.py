"""Which columns of a result are its keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from xzsql.errors import InvalidInputError, UnknownNameError
from xzsql.model.axes import Coded, coded, combined, distinct_count
from xzsql.model.rows import Rows, rows_of
from xzsql.model.table import Column, Table, folded
from xzsql.model.template import key_columns

#: A guess of the keys that gives a grid of more cells a row than this is taken for a wrong one.
_GUESSED_CELLS = 10


@dataclass(frozen=True, slots=True, eq=False)
class Key:
    """A dimension of the result."""

    dim: str
    columns: tuple[str, ...]
    """Its columns in the result: one, or the levels of its MultiIndex."""
    known: tuple[Column, ...] = ()
    """The columns of the template's table that these are."""


class KeyColumns:
    """The columns of a result, each converted once and numbered once."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._rows: dict[str, Rows] = {}
        self._coded: dict[str, Coded] = {}

    def rows(self, name: str) -> Rows:
        """The values of a column."""
        if name not in self._rows:
            self._rows[name] = rows_of(self.table[name], name)
        return self._rows[name]

    def coded(self, name: str) -> Coded:
        """A column as numbers into its distinct values."""
        if name not in self._coded:
            self._coded[name] = coded(self.rows(name), name)
        return self._coded[name]

    def null_count(self, name: str) -> int:
        """How many rows have no value there."""
        valid = self.rows(name).valid
        return 0 if valid is None else int(np.count_nonzero(~valid))

    def tell_apart(self, names: Sequence[str]) -> bool:
        """Whether no two rows have the same values in these columns."""
        codes, size = combined([self.coded(n) for n in names], self.table.num_rows)
        return distinct_count(codes, size) == int(self.table.num_rows)

    def cells(self, names: Sequence[str]) -> int:
        """How many combinations of their values there can be."""
        return math.prod(self.coded(n).size for n in names)

    def repeated(self, names: Sequence[str], codes: np.ndarray) -> InvalidInputError:
        """The error that names one of the keys that several rows have."""
        _, first, counts = np.unique(codes, return_index=True, return_counts=True)
        at = int(np.argmax(counts > 1))
        key = self.table.slice(int(first[at]), 1).select(list(names)).to_pylist()[0] if names else {}
        shown = ", ".join(f"{n}={_shown(v)}" for n, v in key.items())
        if not names:
            return InvalidInputError(
                f"dims=[] stands for a single row, and there are {self.table.num_rows:,}; pass the key columns as dims="
            )
        return InvalidInputError(
            f"the columns {list(names)} do not tell the rows apart: {int(counts[at]):,} rows have {shown} "
            f"({int((counts > 1).sum()):,} such keys); add the missing key columns with dims=, or aggregate with "
            f"GROUP BY {', '.join(names)}"
        )


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str | bytes) else str(value)


def chosen_keys(columns: KeyColumns, dims: tuple[str, ...] | None, table: Table | None) -> list[Key]:
    """The dimensions that were asked for, or else that the columns and the template suggest.

    Raises
    ------
    UnknownNameError
        A name in `dims` is no column.
    InvalidInputError
        Nothing says which columns are keys.
    """
    known = _known_keys(columns.table.column_names, table)
    if dims is not None:
        return [_named(d, columns, known) for d in dims]
    if table is None:
        return [Key(n, (n,)) for n in _leading(columns)]
    return _suggested(columns, known, table)


def _known_keys(names: Sequence[str], table: Table | None) -> list[Key]:
    """The dimensions of the template's table that the result has, in its order."""
    given = {folded(n): n for n in reversed(names)}
    found: list[Key] = []
    for dim, levels in (key_columns(table) if table is not None else {}).items():
        there = [(given[folded(c.name)], c) for c in levels if folded(c.name) in given]
        if len(there) == len(levels):
            found.append(Key(dim, tuple(n for n, _ in there), tuple(c for _, c in there)))
        else:
            found.extend(Key(c.name, (n,)) for n, c in there)
    return found


def _named(dim: str, columns: KeyColumns, known: Sequence[Key]) -> Key:
    for key in known:
        if dim == key.dim or key.columns == (dim,):
            return key
    names = columns.table.column_names
    if dim in names:
        return Key(dim, (dim,))
    close = [n for n in names if folded(n) == folded(dim)]
    if len(close) != 1:
        raise UnknownNameError.of("column", dim, names, where="the result", hint="dims= names columns of the result.")
    return _named(close[0], columns, known)


def _leading(columns: KeyColumns) -> list[str]:
    """The fewest columns from the left whose combinations are unique."""
    names: list[str] = columns.table.column_names
    if not columns.table.num_rows:
        raise InvalidInputError("without rows nothing tells keys from data; pass the key columns as dims=")
    for count in range(len(names)):
        if columns.tell_apart(names[:count]):
            _check_guess(columns, names[:count])
            return names[:count]
    raise InvalidInputError(
        f"no leading columns of {names} tell the rows apart and leave a column for data; "
        f"pass the key columns as dims=, or aggregate with GROUP BY"
    )


def _check_guess(columns: KeyColumns, names: Sequence[str]) -> None:
    cells, rows = columns.cells(names), columns.table.num_rows
    if len(names) > 1 and cells > _GUESSED_CELLS * rows:
        raise InvalidInputError(
            f"it is not clear which columns are keys: {list(names)} are the first that tell the {rows:,} rows apart, "
            f"but would make {cells:,} cells; pass the key columns as dims="
        )


def _suggested(columns: KeyColumns, known: Sequence[Key], table: Table) -> list[Key]:
    if not known and (columns.table.num_rows != 1):
        return [Key(n, (n,)) for n in _leading(columns)]
    names = columns.table.column_names
    of = {n: key for key in known for n in key.columns}
    last = max((i for i, n in enumerate(names) if n in of), default=-1)
    of_table = {folded(c.name): c for c in table.columns}
    moments = [n for n in names[:last] if folded(n) not in of_table and pa.types.is_temporal(_type(columns, n))]
    there = {key.dim for key in known}
    chosen = [*of, *(n for n in moments if not pa.types.is_duration(_type(columns, n)))]
    if not columns.table.num_rows or columns.tell_apart(chosen):
        return _in_order(names, known, chosen)
    for name in names:
        if name in chosen:
            continue
        column = of_table.get(folded(name))
        if column is not None and column.role == "coordinate" and set(column.dims) <= there:
            continue  # a function of keys that are here already
        if column.role == "data" if column is not None else not _is_discrete(_type(columns, name)):
            break
        chosen.append(name)
        if columns.tell_apart(chosen):
            _check_guess(columns, chosen)
            return _in_order(names, known, chosen)
    raise columns.repeated([*of], combined([columns.coded(n) for n in of], columns.table.num_rows)[0])


def _is_discrete(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind) or pa.types.is_floating(kind):
        return False
    return not pa.types.is_decimal(kind) or kind.scale == 0


def _type(columns: KeyColumns, name: str) -> pa.DataType:
    kind = columns.table.schema.field(name).type
    return kind.value_type if pa.types.is_run_end_encoded(kind) or pa.types.is_dictionary(kind) else kind


def _in_order(names: Sequence[str], known: Sequence[Key], chosen: Sequence[str]) -> list[Key]:
    """The known dimensions in the order of their table; with others among them, all as the columns stand."""
    of = {n: key for key in known for n in key.columns}
    if len(chosen) == len(of):
        return list(known)
    found: list[Key] = []
    for name in names:
        key = of.get(name) or (Key(name, (name,)) if name in chosen else None)
        if key is not None and key not in found:
            found.append(key)
    return found
