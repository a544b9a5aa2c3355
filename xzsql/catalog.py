"""Catalog: the tables of anything xzsql opens, and what can be asked of them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.dataset as pads

from xzsql._frames import caller, depth, variables_of
from xzsql.adapters.base import Contents, adapter_for
from xzsql.engine.explain import explained
from xzsql.engine.explanation import Explanation
from xzsql.engine.mount import Tables, mount, unmount
from xzsql.engine.query import Session
from xzsql.engine.scan import scannable
from xzsql.errors import AmbiguousTableError, ClosedError, InvalidInputError, UnknownNameError, XzsqlError, XzsqlWarning
from xzsql.model.decode import DecodeOptions
from xzsql.model.dense import GridSource
from xzsql.model.fingerprint import fingerprint
from xzsql.model.names import TableNames, renamed
from xzsql.model.split import Split, schema_name, split
from xzsql.model.table import Table, folded
from xzsql.model.template import Template
from xzsql.model.to_dataset import to_dataset
from xzsql.options import OF_SCANS
from xzsql.options import options as settings
from xzsql.result import Result
from xzsql.source import TableSource


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """The tables as they were when the target was last looked at."""

    fingerprint: object
    split: Split
    sources: Mapping[Table, GridSource]
    extra: Mapping[tuple[str, str], TableSource]
    """Tables that are no grid, by schema and name."""
    reasons: Mapping[tuple[str, str], str]
    """What the adapter left out, by group and name."""
    template: Template
    """What `Result.to_xarray` may put back."""


class Catalog:
    """The tables of a Dataset, DataArray, DataTree, path or URL.

    `ds.sql` is the catalog of a Dataset; `xzsql.open` makes one of anything. A group is a schema (the root is `main`),
    and the variables of a group that have the same dimensions are one table with a row for every cell. Making a
    catalog reads metadata and index coordinates; no data is read before a query asks for it, and then only the blocks
    that its predicates on coordinates can touch.

    Parameters
    ----------
    target
        What to open. An object in memory is looked at anew for each query, so that changes to it are seen.
    decode_times
        Whether CF times become TIMESTAMP; False leaves the stored numbers.
    decode_timedelta
        Whether variables with units of time alone ("days") become INTERVAL.
    nan_as_null
        Whether NaN is NULL, as xarray users mean it. False masks only `_FillValue` and `missing_value`.
    mask_fill_value
        Whether a Zarr fill_value is missing. By default in Zarr v2 only, where xarray stores `_FillValue`, if not zero.
    **options
        Options of `xzsql.options` for the scans of this catalog alone: `memory_budget`, `batch_rows`, `block_bytes`,
        `workers`, `progress`. All else is for the adapter of the target, such as `engine=` for a path. What is not
        given, of these and of the above, is what `xzsql.options` says.

    Examples
    --------
    >>> import xarray as xr, xzsql
    >>> ds = xr.Dataset({"t": (("y", "x"), [[1, 2], [3, 4]])}, coords={"y": [10.0, 20.0]})
    >>> ds.sql.query("SELECT y, sum(t) AS total FROM self GROUP BY y ORDER BY y").fetchall()
    [(10.0, 3), (20.0, 7)]
    """

    def __init__(
        self,
        target: Any,
        *,
        decode_times: bool | None = None,
        decode_timedelta: bool | None = None,
        nan_as_null: bool | None = None,
        mask_fill_value: bool | None = None,
        **options: Any,
    ) -> None:
        said = {
            "decode_times": decode_times,
            "decode_timedelta": decode_timedelta,
            "nan_as_null": nan_as_null,
            "mask_fill_value": mask_fill_value,
        }
        now = settings.current(**{k: v for k, v in said.items() if v is not None})
        self._decoding = DecodeOptions(now.decode_times, now.decode_timedelta, now.nan_as_null, now.mask_fill_value)
        self._settings = {k: options.pop(k) for k in OF_SCANS if k in options}
        settings.current(**self._settings)  # refuses what is no value of an option
        self._target, self._options = target, options
        self._adapter = adapter_for(target)
        self._opened: Contents | None = None
        self._held: _State | None = None
        self._session: Session | None = None
        self._closed = False
        self._warned: set[str] = set()

    def query(
        self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None, *, con: Any | None = None
    ) -> Result:
        """Run SQL over the tables of this catalog.

        Parameters
        ----------
        sql
            Any DuckDB SQL. A table of the root is named plainly, one of a group as `"group/path".table`; `self` is
            the one table of the root. Names of Python variables of the caller (pandas, polars, Arrow, DuckDB
            relations, xarray is not among them) stand for these.
        params
            Values for `?` or `$1` (a sequence) or `$name` (a mapping). numpy and pandas scalars keep their type.
        con
            A DuckDB connection of yours to run on, so that its tables can be joined. The catalog's root tables are
            temporary views there during the call, and the result is read whole before it returns.

        Returns
        -------
        Result
            Rows to be fetched once: `fetchall`, `df`, `arrow`, ...

        Raises
        ------
        UnknownNameError
            No such table or column; the text lists what there is.
        QueryError
            DuckDB refused the statement.
        ReadError
            A block could not be read; raised when rows are fetched.
        """
        state = self._state()
        session = self._connected(state)
        result = session.query(sql, params, variables=variables_of(caller()), con=con)
        return result.made_xarray_by(partial(to_dataset, template=state.template))

    def __call__(
        self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None, *, con: Any | None = None
    ) -> Result:
        """The same as `query`."""
        return self.query(sql, params, con=con)

    def explain(self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Explanation:
        """What a query would read, without running it. Reads no data.

        Parameters
        ----------
        sql
            One statement, as for `query`; CREATE TABLE AS, COPY and others are explained and not run.
        params
            Values, as for `query`.

        Returns
        -------
        Explanation
            For each scan of a table blocks and bytes to read and of all, the predicates that select exactly what is
            read, those that are left to DuckDB with the reason, and DuckDB's plan. It prints; `.plot()` draws it.

        Raises
        ------
        UnknownNameError, QueryError
            As for `query`.
        UnsupportedError
            Several statements, or one that cannot even be planned without reading a table (PIVOT without IN).
        """
        return explained(self._connected(self._state()), sql, params, variables_of(caller()))

    def tables(self) -> Result:
        """The tables there are, and what is in none of them. Reads no data.

        Returns
        -------
        Result
            schema, name (NULL where the table has none), dims, shape, chunk_shape, rows, columns, blocks (as if all
            data columns were asked for) and note (why there is no name; what was left out and why).
        """
        state = self._state()
        rows = [_row(table, state.sources.get(table)) for table in state.split.tables]
        rows += [
            {"schema": s, "name": n, "rows": source.rows(), "columns": source.schema.names}
            for (s, n), source in state.extra.items()
        ]
        for left in state.split.left_out:
            rows.append(
                {
                    "schema": schema_name(left.group),
                    "dims": list(left.dims),
                    "shape": list(left.shape),
                    "columns": [left.variable],
                    "note": f"left out: {left.reason}",
                }
            )
        for (group, name), reason in state.reasons.items():
            rows.append({"schema": schema_name(group), "columns": [name], "note": f"left out: {reason}"})
        return Result.of_table(pa.Table.from_pylist(rows, schema=_TABLES))

    def table(self, name: str | None = None, *, dims: Iterable[str] | None = None, group: str = "/") -> pads.Dataset:
        """One table as an object that DuckDB, polars and pyarrow read.

        DuckDB hands its predicates and columns over, so that only what they touch is read; a filter of polars or
        pyarrow is applied block by block to the columns asked for.

        Parameters
        ----------
        name
            Its name; None or "self" is the one table of the group.
        dims
            Its dimensions in order, in place of a name; also for tables that have no name.
        group
            Path of its group, "/" for the root.

        Returns
        -------
        pyarrow.dataset.Dataset
            For `con.register`, a Python variable in `FROM`, `polars.scan_pyarrow_dataset`, or `to_table()`.
        """
        state = self._state()
        return scannable(state.sources[_chosen(state, name, dims, group)])

    def mount(self, con: Any, name: str, table_names: TableNames | None = None) -> None:
        """Make the tables visible on a DuckDB connection as a database called `name`.

        Every cursor of the same database sees them, as `name.table` and `name."group/path".table`, also in
        information_schema; nothing is written to a database file. Mounting again under the name of an own mount
        replaces it. The tables are those that the target has now.

        Parameters
        ----------
        con
            Any DuckDB connection, read-only ones included.
        name
            Name of the database to attach.
        table_names
            Other names for tables: `{"surface": ("time", "lat", "lon")}`, `{("time", "lat", "lon"): "surface"}` or
            `{"group/path/time_lat_lon": "surface"}`.

        Raises
        ------
        NameTakenError
            If `name` is a database, schema or reserved word and no mount of xzsql.
        UnknownNameError
            If a key of `table_names` matches nothing.
        """
        tables = self._tables(self._state(), table_names)
        if not any(tables.schemas.values()):
            raise InvalidInputError(
                f"there is nothing to mount as {name!r}: {self._described()} has no table with a name"
                f"{'; ' + '; '.join(tables.notes.values()) if tables.notes else ''}; see .tables()"
            )
        mount(con, name, tables)

    def unmount(self, con: Any, name: str) -> None:
        """Take a mount of xzsql away again; the names of what is no mount of xzsql are refused."""
        unmount(con, name)

    def close(self) -> None:
        """Close the connection of this catalog and the files that it opened. Mounts of it can no longer be read."""
        self._closed = True
        if self._session is not None:
            self._session.close()
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._closed:
            return "<xzsql.Catalog, closed>"
        lines = [f"<xzsql.Catalog of {self._described()}>"]
        for table in self._state().split.tables:
            name = f'"{table.schema}".{table.name}' if table.schema != "main" else str(table.name)
            lines.append(f"  {name} ({', '.join(c.name for c in table.columns)}): {table.rows:,} rows")
        return "\n".join(lines)

    def _described(self) -> str:
        if isinstance(self._target, str | os.PathLike):
            return repr(os.fspath(self._target))
        return f"a {type(self._target).__name__}"

    def _state(self) -> _State:
        """The tables as they are now; split anew only if the target has changed."""
        if self._closed:
            raise ClosedError("this catalog is closed; open it again with xzsql.open(...)")
        if self._opened is None:
            contents = self._opened = self._adapter.open(self._target, **self._options)
        elif self._opened.store:
            contents = self._opened
        else:
            contents = self._adapter.open(self._target, **self._options)
        seen = fingerprint(contents.groups)
        if self._held is None or self._held.fingerprint != seen:
            self._held = self._looked_at(contents, seen)
        return self._held

    def _looked_at(self, contents: Contents, seen: object) -> _State:
        found = split(contents.groups, self._decoding, contents.store)
        for text in [f"variable {x.variable!r} of group {x.group!r} is left out: {x.reason}" for x in found.left_out]:
            self._warn(text)
        for text in found.renamed:
            self._warn(text)
        sources = {t: GridSource(t, self._settings) for t in found.tables}
        extra = {(schema_name(g), n): source for (g, n), source in contents.tables.items()}
        # A shallow copy: what is done to the Dataset later is no business of a result that was made before.
        groups = {path: dataset.copy(deep=False) for path, dataset in contents.groups.items()}
        return _State(seen, found, sources, extra, contents.left_out, Template(found.tables, groups))

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, XzsqlWarning, stacklevel=depth())

    def _connected(self, state: _State) -> Session:
        if self._session is None:
            self._session = Session(progress=self._settings.get("progress", True))
        self._session.update(self._tables(state))
        return self._session

    def _tables(self, state: _State, table_names: TableNames | None = None) -> Tables:
        schemas: dict[str, dict[str, TableSource]] = {"main": {}}
        notes: dict[str, str] = {}
        for table, name in renamed(state.split.tables, table_names or {}):
            if name is None or table.schema is None:
                plain = "_".join(table.dims) or "scalar"
                notes[plain if table.group == "/" else f"{table.group.strip('/')}.{plain}"] = table.note
            else:
                schemas.setdefault(table.schema, {})[name] = state.sources[table]
        for (schema, name), source in state.extra.items():
            schemas.setdefault(schema, {})[name] = source
        for left in state.split.left_out:
            notes.setdefault(left.variable, f"variable {left.variable!r} is left out: {left.reason}")
        return Tables(schemas, self._self_table(state), notes)

    def _self_table(self, state: _State) -> TableSource | XzsqlError:
        root = [t for t in state.split.tables if t.group == "/"]
        over = [t for t in root if t.dims] or root
        if len(over) == 1:
            return state.sources[over[0]]
        return AmbiguousTableError.of_self([t.name or f"dims {list(t.dims)}" for t in over])


_TABLES = pa.schema(
    [
        ("schema", pa.string()),
        ("name", pa.string()),
        ("dims", pa.list_(pa.string())),
        ("shape", pa.list_(pa.int64())),
        ("chunk_shape", pa.list_(pa.int64())),
        ("rows", pa.int64()),
        ("columns", pa.list_(pa.string())),
        ("blocks", pa.int64()),
        ("note", pa.string()),
    ]
)


def _row(table: Table, source: GridSource | None) -> dict[str, Any]:
    assert source is not None
    return {
        "schema": table.schema,
        "name": table.name,
        "dims": list(table.dims),
        "shape": list(table.shape),
        "chunk_shape": list(source.chunk_shape()),
        "rows": table.rows,
        "columns": [c.name for c in table.columns],
        "blocks": len(source.full_grid()),
        "note": table.note or None,
    }


def _chosen(state: _State, name: str | None, dims: Iterable[str] | None, group: str) -> Table:
    """The table that `Catalog.table` means."""
    path = "/" + group.strip("/")
    groups = {t.group for t in state.split.tables}
    tables = [t for t in state.split.tables if t.group == path]
    if not tables:
        raise UnknownNameError.of("group", group, sorted(groups))
    listed = [t.name or f"dims {list(t.dims)}" for t in tables]
    if dims is not None:
        wanted = tuple(dims)
        found = [t for t in tables if t.dims == wanted]
        if not found:
            raise UnknownNameError.of("table with dimensions", list(wanted), [list(t.dims) for t in tables])
    elif name is None or folded(name) == "self":
        found = [t for t in tables if t.dims] or tables
        if len(found) != 1:
            raise AmbiguousTableError.of_self(listed)
    else:
        found = [t for t in tables if t.name is not None and folded(t.name) == folded(name)]
        if not found:
            raise UnknownNameError.of("table", name, listed, where=f"group {path}")
    if not found[0].readable:
        raise XzsqlError(f"table {listed[tables.index(found[0])]!r} cannot be read: {found[0].note}")
    return found[0]
