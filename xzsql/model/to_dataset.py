"""From the rows of a result back to a Dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import xarray as xr

from xzsql.errors import InvalidInputError, UnsupportedError
from xzsql.model.axes import Axis, axis_of
from xzsql.model.keys import Key, KeyColumns, chosen_keys
from xzsql.model.placement import Placement
from xzsql.model.rows import Rows, as_values
from xzsql.model.table import Column, Table, folded
from xzsql.model.template import Template, kind_of_objects, lasting
from xzsql.model.variables import in_memory, nbytes

__all__ = ["Template", "to_dataset"]

#: What is put back from a file up to this size is loaded, so that the file may be closed.
_LOADED_BYTES = 2**26


def to_dataset(
    data: Any,
    dims: Sequence[str] | None = None,
    *,
    template: xr.Dataset | Template | None = None,
    max_cells: int | None = None,
) -> xr.Dataset:
    """Rows as a Dataset: key columns become dimensions, the other columns variables over them.

    Parameters
    ----------
    data
        Anything with the Arrow stream interface: a result of xzsql, an Arrow table or reader, a DuckDB relation, a
        polars or pandas frame. A stream is read to its end.
    dims
        The key columns, in the order that the dimensions shall have; the name of a dimension with a MultiIndex stands
        for its levels. None: see Notes.
    template
        What the rows were made from, as far as it is known: a Dataset, or what a catalog knows.
    max_cells
        Up to how many cells the grid may have. None: ten for each row, and always ten million.

    Returns
    -------
    xarray.Dataset
        In memory. Keys are in the order of the template where it has them all, else sorted (downward where the
        template's fall). A variable that the template has gets its name, attributes, dimensions (if its values do
        not vary along the others) and dtype back: dtypes only where the column has the type that the variable has in
        SQL, and no value changes. Cells without a row, and NULLs, are NaN, NaT or None (which xarray makes NaN
        among text); integers with such holes become float64 if that holds each of them exactly, else objects;
        booleans become objects.

    Raises
    ------
    InvalidInputError
        Two rows have the same keys, a key is NULL, the grid would have more than `max_cells` cells, or nothing
        says which columns are keys.
    UnknownNameError
        `dims` names no column.
    UnsupportedError
        `data` is nothing of the above, or a column has a type that no array has.

    Notes
    -----
    Without `dims`, the dimensions are the key columns of the table of the template that fits best, as many of them as
    the result has, and columns of time under another name in front of these (`date_trunc('month', time) AS month`).
    Where that does not tell the rows apart, columns are added from the left, as few as do, up to the first that is
    a number with a fraction. Without a template, they are the fewest columns from the left whose combinations
    are unique; that is refused where it leaves no column for data or a grid of mostly holes.

    What is in no table (bounds, grid mappings) and coordinates that were not selected are put back from the template,
    as long as each of their dimensions is still there from end to end.

    Examples
    --------
    >>> rows = pa.table({"y": [1, 1, 2], "x": [10, 20, 10], "t": [0.5, 1.5, 2.5]})
    >>> to_dataset(rows, dims=["y", "x"])["t"].values
    array([[0.5, 1.5],
           [2.5, nan]])
    """
    _check_allowance(max_cells)
    table = _table_of(data)
    known = _Known(_template_of(template), table.column_names)
    columns = KeyColumns(table)
    keys = chosen_keys(columns, _checked_dims(dims), known.table)
    for key in keys:
        for name in key.columns:
            if columns.coded(name).nulls:
                raise InvalidInputError(
                    f"column {name!r} is a dimension, and {columns.null_count(name):,} of its keys are NULL; "
                    f'leave them out with WHERE "{name}" IS NOT NULL, or pass other dims='
                )
    axes = [_axis(key, columns, known) for key in keys]
    grid = Placement.of(axes, columns, keys, max_cells)
    found = _Assembly(known, axes, grid)
    taken = {name for key in keys for name in key.columns}
    for name in table.column_names:
        if name not in taken:
            found.add(name, columns.rows(name))
    return found.dataset()


def _check_allowance(max_cells: int | None) -> None:
    whole = isinstance(max_cells, int | np.integer) and not isinstance(max_cells, bool)
    if max_cells is not None and (not whole or max_cells < 0):
        raise InvalidInputError(f"max_cells must be a number of cells or None, got {max_cells!r}; pass e.g. 10**8")


def _table_of(data: Any) -> pa.Table:
    if isinstance(data, type) or not hasattr(data, "__arrow_c_stream__"):
        raise UnsupportedError(
            f"to_dataset takes rows with the Arrow stream interface, got {type(data).__name__}; pass a result of "
            f"xzsql, a DuckDB relation, an Arrow table or reader, or a polars or pandas frame"
        )
    table = pa.table(data)
    names = table.column_names
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidInputError(f"two columns are called {name!r}; give one another name with AS")
        seen.add(name)
    return table


def _template_of(template: Any) -> Template | None:
    if template is None or isinstance(template, Template):
        return template
    if isinstance(template, xr.Dataset):
        return Template.of(template)
    raise InvalidInputError(
        f"template must be an xarray Dataset, got {type(template).__name__}; pass the Dataset that the rows came from"
    )


def _checked_dims(dims: Any) -> tuple[str, ...] | None:
    if dims is None:
        return None
    given = (dims,) if isinstance(dims, str) else tuple(dims)
    if len(set(given)) != len(given) or not all(isinstance(d, str) for d in given):
        raise InvalidInputError(f"dims must be distinct names of columns, got {dims!r}; pass e.g. dims=['time', 'lat']")
    return given


class _Known:
    """What the template knows of the columns of one result."""

    def __init__(self, template: Template | None, names: Sequence[str]) -> None:
        self.template = template
        self.table: Table | None = template.best(names) if template is not None else None
        self.dataset: xr.Dataset | None = None
        self._columns: Mapping[str, Column] = {}
        if template is not None and self.table is not None:
            self._columns = template.columns(self.table)
            self.dataset = template.dataset(self.table.group)

    def column(self, name: str) -> Column | None:
        """The column of a table that has this name."""
        return self._columns.get(folded(name))

    def variable(self, column: Column) -> xr.Variable | None:
        """What a column was made from."""
        return None if self.dataset is None else self.dataset.variables.get(column.variable or column.name)


def _axis(key: Key, columns: KeyColumns, known: _Known) -> Axis:
    coded = [columns.coded(name) for name in key.columns]
    if not key.known or known.dataset is None:
        return axis_of(key.dim, coded, key.columns, [], known.dataset)
    return axis_of(key.dim, coded, [c.variable or c.name for c in key.known], key.known, known.dataset)


class _Assembly:
    """The Dataset as its variables are added."""

    def __init__(self, known: _Known, axes: Sequence[Axis], grid: Placement) -> None:
        self._known, self._axes, self._grid = known, {a.dim: a for a in axes}, grid
        self._data: dict[str, xr.Variable] = {}
        self._coords: dict[str, xr.Variable] = {}
        self._indexed = {str(n) for a in axes for n in a.coords.variables}

    def add(self, name: str, rows: Rows) -> None:
        """One column that is no key."""
        column = self._known.column(name)
        variable = None if column is None else self._known.variable(column)
        if column is None or variable is None or (column.variable in self._axes and variable.ndim < 2):
            self._put(name, xr.Variable(self._grid.dims, as_values(self._grid.placed(rows))), coordinate=False)
            return
        coordinate, own = column.role != "data", tuple(str(d) for d in variable.dims)
        if coordinate and not len(rows.values) and all(d in self._axes and self._axes[d].whole for d in own):
            # Without rows there is no value to take, and the coordinate is still there.
            made = _own(variable)
        else:
            dims, placed = self._grid.reduced(rows, own)
            if coordinate and set(dims) == set(own):
                dims, placed = own, placed.transposed([dims.index(d) for d in own])
            made = _made(rows, placed, dims, column, variable)
        plain = column.variable or name
        self._put(plain if plain not in self._taken() else name, made, coordinate=coordinate)

    def _taken(self) -> set[str]:
        return self._indexed | set(self._data) | set(self._coords)

    def _put(self, name: str, variable: xr.Variable, *, coordinate: bool) -> None:
        if name in self._taken():
            raise InvalidInputError(f"two columns would become the variable {name!r}; give one another name with AS")
        if name in self._axes and variable.ndim == 1 and variable.dims != (name,):
            raise InvalidInputError(f"column {name!r} is called as a dimension is; give it another name with AS")
        (self._coords if coordinate else self._data)[name] = variable

    def dataset(self) -> xr.Dataset:
        """All of it, with what the template has and no table."""
        made = xr.Dataset(self._data)
        for axis in self._axes.values():
            made = made.assign_coords(axis.coords.coords)
        made = made.assign_coords(self._coords)
        if self._known.dataset is None:
            return made
        extra = self._extra(made)
        made = made.assign_coords(extra.coords).assign(extra.data_vars)
        return made.assign_attrs(self._known.dataset.attrs)

    def _extra(self, made: xr.Dataset) -> xr.Dataset:
        """What the template has besides: over dimensions that are here from end to end, or that no table has."""
        template, table, dataset = self._known.template, self._known.table, self._known.dataset
        assert template is not None
        assert table is not None
        assert dataset is not None
        held, tabled = template.held(table.group), template.dimensions(table.group)

        def fits(dim: str) -> bool:
            axis = self._axes.get(dim)
            return axis.whole if axis is not None else dim not in tabled

        wanted = {
            name
            for name, v in dataset.variables.items()
            if name not in made.variables
            and (name in dataset.coords or name not in held)
            and all(fits(str(d)) for d in v.dims)
            and name not in self._axes
        }
        extra = dataset.drop_vars([n for n in dataset.variables if n not in wanted])
        plain = {n: _own(v) for n, v in extra.variables.items() if n not in extra.xindexes}
        return extra.assign({n: v for n, v in plain.items() if n not in extra.coords}).assign_coords(
            {n: v for n, v in plain.items() if n in extra.coords}
        )


def _own(variable: xr.Variable) -> xr.Variable:
    """A copy that does not share values; what is stored is loaded unless it is large."""
    if in_memory(variable):
        return variable.copy(deep=True)
    copied = variable.copy(deep=False)
    return copied.load() if variable.chunks is None and nbytes(variable) <= _LOADED_BYTES else copied


def _made(rows: Rows, placed: Rows, dims: tuple[str, ...], column: Column, variable: xr.Variable) -> xr.Variable:
    """Values as the variable that they are known to be, as far as they still have its type."""
    if not _has_type(rows, column):
        related = _family(rows.kind) == _family(variable.dtype.kind)
        return xr.Variable(dims, as_values(placed), dict(variable.attrs) if related else {})
    kind = kind_of_objects(variable)
    # Numbers that were objects of another kind, such as dates of model calendars, stay numbers.
    counted = variable.dtype == np.dtype(object) and rows.kind in "biuf" and kind not in ("b", "i", "u", "f")
    like = None if counted else variable.dtype
    values = as_values(placed, like, as_bytes=kind == "S")
    return xr.Variable(dims, values, dict(variable.attrs), lasting(variable.encoding))


def _has_type(rows: Rows, column: Column) -> bool:
    """Whether the values have the type that the column has in SQL."""
    if column.array is None:
        return rows.kind in "iu"
    kind = column.array.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return rows.kind == "T"
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return rows.kind == ("M" if pa.types.is_timestamp(kind) else "m")
    if pa.types.is_struct(kind):
        return rows.kind in "cO"
    return bool(rows.values.dtype == np.dtype(kind.to_pandas_dtype()))


def _family(kind: str) -> str:
    return "number" if kind in "fiu" else "text" if kind in "USTO" else kind
