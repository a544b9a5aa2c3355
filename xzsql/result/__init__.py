"""Results: the rows of one query, as Python values, Arrow, DataFrames, or a Dataset again."""

from __future__ import annotations

from xzsql.result.result import Result
from xzsql.result.run import Row, Run

__all__ = ["Result", "Row", "Run"]
