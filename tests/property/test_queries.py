"""A query on a dataset gives what DuckDB gives on the eager frame: through `query`, and through a mount."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import xarray as xr
from hypothesis import given, note
from hypothesis import strategies as st

import xzsql
from xzsql.testing import oracle, strategies


def _agree(found: pa.Table, query: strategies.Query, whole: pa.Table) -> str:
    """The difference between an answer and the eager one; a LIMIT without ORDER BY may give any of the rows."""
    if query.sample is None:
        return oracle.difference(found, whole, zero_sign=query.zero_sign)
    if found.schema != whole.schema:
        return f"{found.schema} against {whole.schema}"
    extra = oracle.rows_of(found) - oracle.rows_of(whole)
    if extra or found.num_rows != min(query.sample, whole.num_rows):
        return f"{found.num_rows} rows of {whole.num_rows}, LIMIT {query.sample}, not among them {extra}"
    return ""


def _limited(query: strategies.Query, sql: str) -> str:
    return sql if query.sample is None else f"{sql} LIMIT {query.sample}"


@given(st.data())
def test_query_equals_duckdb_on_the_eager_frame(eager, arrow, data):
    ds = data.draw(strategies.datasets())
    tables = eager.load(ds)
    catalog = ds.sql
    for _ in range(3):
        schema, name = data.draw(st.sampled_from(sorted(tables)))
        query = data.draw(strategies.queries(tables[schema, name]))
        sql = query.sql.format(table=f'"{schema}"."{name}"')
        note(sql)
        assert _agree(arrow(catalog.query(_limited(query, sql))), query, eager.table(sql)) == ""


@given(st.data())
def test_mount_on_a_second_cursor_equals_duckdb_on_the_eager_frame(eager, data):
    ds = data.draw(strategies.datasets())
    tables = eager.load(ds)
    with duckdb.connect() as con:
        ds.sql.mount(con, "m")
        with con.cursor() as cursor:
            for _ in range(3):
                schema, name = data.draw(st.sampled_from(sorted(tables)))
                query = data.draw(strategies.queries(tables[schema, name]))
                sql = query.sql.format(table=f'm."{schema}"."{name}"')
                note(sql)
                found = cursor.sql(_limited(query, sql)).to_arrow_table()
                assert _agree(found, query, eager.table(sql)) == ""


@given(st.data())
def test_predicates_where_nan_is_a_value(eager, arrow, data):
    ds = data.draw(strategies.datasets(storages=("memory", "zarr-raw")))
    tables = eager.load(ds, nan_as_null=False)
    with xzsql.open(ds, nan_as_null=False) as catalog:
        schema, name = data.draw(st.sampled_from(sorted(tables)))
        for _ in range(3):
            sql = f'FROM "{schema}"."{name}" WHERE {data.draw(strategies.predicates(tables[schema, name]))}'
            note(sql)
            assert oracle.difference(arrow(catalog.query(sql)), eager.table(sql)) == ""


@given(st.data())
def test_predicates_over_blocks_of_few_cells(eager, arrow, data):
    """Small blocks: what is skipped, cut at a hull or filtered inside must add up."""
    rank = data.draw(st.integers(2, 3))
    shape = tuple(data.draw(st.integers(2, 7)) for _ in range(rank))
    dims = ("t", "y", "x")[:rank]
    cells = int(np.prod(shape))
    ds = xr.Dataset(
        {"v": (dims, np.arange(cells).reshape(shape))},
        coords={
            "t": (np.datetime64("2000-02-27", "ns") + np.arange(shape[0]) * np.timedelta64(36, "h")),
            "y": np.linspace(50, 30, shape[1]).astype("f4"),
            "lat2": (("t", "y"), np.sin(np.arange(shape[0] * shape[1])).reshape(shape[:2])),
        },
    )
    chunks = {d: data.draw(st.integers(1, n)) for d, n in zip(dims, shape, strict=True)}
    ds = ds.assign(v=ds.v.variable.chunk(chunks))
    tables = eager.load(ds)
    (key,) = tables
    sql = f'FROM "{key[1]}" WHERE {data.draw(strategies.predicates(tables[key], ["t", "y", "lat2"]))}'
    note(sql)
    with xzsql.options(
        block_bytes=data.draw(st.sampled_from([1, 64, 2**20])), batch_rows=data.draw(st.integers(1, 40))
    ):
        assert oracle.difference(arrow(ds.sql.query(sql)), eager.table(sql)) == ""
