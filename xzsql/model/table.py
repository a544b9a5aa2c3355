"""What a table is: its dimensions and its columns, as records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

type Role = Literal["dimension", "coordinate", "data"]

#: Positions along one dimension: a slice with start and stop, or sorted distinct integers.
type Positions = slice | np.ndarray[Any, np.dtype[np.intp]]


class Cells(Protocol):
    """Decoded values, as numpy holds them."""

    @property
    def values(self) -> np.ndarray:
        """One value a cell; what stands under an invalid cell means nothing."""

    @property
    def valid(self) -> np.ndarray | None:
        """Which cells are not NULL; None says all."""


class Lazy(Protocol):
    """An array whose values are loaded by region."""

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of its dimensions, in the order they are stored."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each."""

    @property
    def chunks(self) -> Mapping[str, int | tuple[int, ...]]:
        """Storage chunks by dimension: one length, or the lengths; {} where it has none."""

    @property
    def type(self) -> Any:
        """The Arrow type of its column."""

    @property
    def itemsize(self) -> int:
        """Bytes of a stored value."""

    @property
    def in_memory(self) -> bool:
        """Whether loading reads nothing."""

    @property
    def kept(self) -> bool:
        """Whether it is read once, whole, and kept."""

    @property
    def categories(self) -> Any:
        """What the values number, as an Arrow array; None where they are no codes."""

    def load(self, region: Mapping[str, Positions]) -> Cells:
        """The values at these positions, orthogonally; a dimension that is not named is read whole."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column of a table."""

    name: str
    """The SQL name."""
    role: Role
    dims: tuple[str, ...]
    """The dimensions it varies along: a subset of the table's."""
    array: Lazy | None
    """Its values; None is the position along its one dimension."""
    comment: str = ""
    """Long name and units, for COMMENT ON COLUMN."""
    variable: str = ""
    """The name in the dataset, where the SQL name had to differ."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table: one row for every cell of its dimensions."""

    group: str
    """Path of the group, "/" for the root."""
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    columns: tuple[Column, ...]
    """Dimensions in order, then coordinates, then data."""
    schema: str | None = "main"
    """The SQL schema; None where the group's name collides with another's."""
    name: str | None = None
    """The SQL name; None where it cannot be read by name."""
    note: str = ""
    """Why there is no name, or what a reader should know."""
    readable: bool = True
    """False for a misaligned group: listed, never read."""

    @property
    def rows(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @property
    def sizes(self) -> dict[str, int]:
        """Length by dimension."""
        return dict(zip(self.dims, self.shape, strict=True))

    def column(self, name: str) -> Column:
        """The column of this SQL name."""
        return next(c for c in self.columns if c.name == name)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A variable that is in no table."""

    group: str
    variable: str
    reason: str
    dims: tuple[str, ...] = field(default=())
    shape: tuple[int, ...] = field(default=())


_FOLD = str.maketrans({chr(c): chr(c + 32) for c in range(ord("A"), ord("Z") + 1)})


def folded(name: str) -> str:
    """The name as DuckDB compares it: ASCII letters without their case."""
    return name.translate(_FOLD)
