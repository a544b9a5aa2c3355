"""What the tests share: hypothesis profiles, the eager DuckDB that answers are compared with, real files, spies."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import xarray as xr
from hypothesis import HealthCheck, Phase, settings

from xzsql.testing import oracle

_SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("default", max_examples=40, deadline=None, suppress_health_check=_SLOW_DRAWS)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.register_profile("soak", settings.get_profile("default"), max_examples=5000)
settings.register_profile("unshrunk", settings.get_profile("default"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))

SHARED_DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"


class Eager:
    """DuckDB on eager tables: the same SQL that is asked of xzsql is asked here.

    The tables lie in a database `m`, which is the default, under the schemas and names that xzsql gives them.
    """

    def __init__(self) -> None:
        self.con = duckdb.connect()
        self.con.execute("ATTACH ':memory:' AS m")

    def load(self, target: xr.Dataset | xr.DataTree | Mapping[tuple[str, str], pa.Table], **rules: Any) -> Any:
        """Replace the tables; returns them."""
        tables = target if isinstance(target, Mapping) else None
        if tables is None or isinstance(target, xr.Dataset | xr.DataTree):
            tables = oracle.frames(target, oracle.Rules(**rules))
        self.con.execute("USE memory; DETACH m; ATTACH ':memory:' AS m; USE m")
        for (schema, name), table in tables.items():
            self.con.register("eager_rows", table)
            self.con.execute(f'CREATE SCHEMA IF NOT EXISTS m."{schema}"')
            self.con.execute(f'CREATE TABLE m."{schema}"."{name}" AS FROM eager_rows')
            self.con.unregister("eager_rows")
        return tables

    def table(self, sql: str, params: Any = None) -> pa.Table:
        """The answer as an Arrow table."""
        return self.con.sql(sql, params=params).to_arrow_table()


@pytest.fixture(scope="session")
def eager() -> Eager:
    """DuckDB on eager tables; `load` them, then ask for `table(sql)`."""
    return Eager()


def as_table(result: Any) -> pa.Table:
    """The answer of `Catalog.query` as an Arrow table."""
    found = result.arrow()
    return found.read_all() if isinstance(found, pa.RecordBatchReader) else found


@pytest.fixture(scope="session")
def arrow() -> Callable[[Any], pa.Table]:
    """`arrow(result)` is the result as an Arrow table."""
    return as_table


@pytest.fixture(scope="session")
def check(eager: Eager) -> Callable[..., pa.Table]:
    """`check(ds, sql)` asserts that xzsql answers as DuckDB does on the eager tables, and returns the answer."""

    def run(target: xr.Dataset | xr.DataTree, sql: str, params: Any = None, *, zero_sign: bool = True) -> pa.Table:
        tables = eager.load(target)
        if len(tables) == 1:
            (schema, name), _table = next(iter(tables.items()))
            eager.con.execute(f'CREATE VIEW IF NOT EXISTS self AS FROM m."{schema}"."{name}"')
        expected = eager.table(sql, params)
        found = as_table(target.sql.query(sql, params))
        assert oracle.difference(found, expected, zero_sign=zero_sign) == ""
        return found

    return run


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB connection of the user's, in memory."""
    with duckdb.connect() as connection:
        yield connection


@pytest.fixture(scope="session")
def settle() -> Callable[[Callable[[], bool]], bool]:
    """`settle(condition)` waits up to ten seconds for work in other threads to end."""

    def wait(condition: Callable[[], bool], seconds: float = 10) -> bool:
        until = time.monotonic() + seconds
        while not condition() and time.monotonic() < until:
            time.sleep(0.01)
        return condition()

    return wait


@pytest.fixture
def threads_at_start() -> set[int]:
    """The threads that were there before the test."""
    return {t.ident for t in threading.enumerate() if t.ident is not None}


def shared_file(name: str) -> Path:
    """A file beside the repository; skips where it is absent."""
    path = SHARED_DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not there: it belongs to a checkout beside this one")
    return path


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """`shared(name)` is the path of a file beside the repository, or the test is skipped."""
    return shared_file
