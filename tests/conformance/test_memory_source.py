"""The in-memory source follows the protocol, so that tests which use it say something about the real ones."""

import datetime as dt

import pyarrow as pa
import pytest

from xzsql.testing.conformance import SourceConformance
from xzsql.testing.sources import MemorySource

TABLE = pa.table(
    {
        "time": pa.array([dt.datetime(2000, 1, 1 + i // 6) for i in range(24)], pa.timestamp("us")),
        "x": pa.array([float(i % 6) if i % 6 != 4 else float("nan") for i in range(24)]),
        "name": pa.array([None if i % 5 == 0 else "abc"[i % 3] for i in range(24)]),
        "big": pa.array([2**53 + i for i in range(24)], pa.int64()),
        "flag": pa.array([i % 3 == 0 for i in range(24)]),
        "value": pa.array([None if i == 3 else i / 7 for i in range(24)], pa.float32()),
    }
)


class TestMemorySource(SourceConformance):
    @pytest.fixture
    def table(self):
        return TABLE

    @pytest.fixture(params=["plain", "encoded", "takes all", "one batch"])
    def source(self, request):
        match request.param:
            case "plain":
                return MemorySource(TABLE, 5, dimensions=["time", "x", "name", "big"])
            case "encoded":
                encode = {"time": "runs", "name": "dictionary"}
                return MemorySource(TABLE, 5, dimensions=["time", "x", "name"], encode=encode)
            case "takes all":
                return MemorySource(TABLE, 7, dimensions=["time"], accept=lambda _: True)
            case _:
                return MemorySource(TABLE, 100, dimensions=["time", "x"])


class TestEmpty(SourceConformance):
    @pytest.fixture
    def table(self):
        return TABLE.slice(0, 0)

    @pytest.fixture
    def source(self):
        return MemorySource(TABLE.slice(0, 0), dimensions=["time", "x"])
