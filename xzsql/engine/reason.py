"""Why a predicate is left to DuckDB, as far as its text in the plan tells."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from xzsql.source import ROLE

_CAST = re.compile(r'CAST\((?P<column>"(?:[^"]|"")+"|\w+) AS (?P<kind>[^()]+(?:\([^()]*\))?)\)')
_COMPARED = re.compile(r"\s*(=|!=|<>|<=?|>=?|IN|BETWEEN)\s|\s*$")
_NAMES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.timestamp("us"): "TIMESTAMP",
}


def reason(text: str, fields: Sequence[pa.Field], *, joins: bool) -> str:
    """Why the condition `text`, which mentions these columns of one table, does not select what is read.

    Examples
    --------
    >>> reason("CAST(lat AS DOUBLE) = 0.1", [pa.field("lat", pa.float32())], joins=False)
    'compared as DOUBLE; write ?::FLOAT'
    """
    if joins:
        return "a condition of a join or subquery; DuckDB offers constants only"
    data = [f.name for f in fields if (f.metadata or {}).get(ROLE) == b"data"]
    if data:
        return f"mentions the data variable {' and '.join(data)}"
    if "TIMESTAMP WITH TIME ZONE" in text:
        return "TIMESTAMP WITH TIME ZONE; compare with a TIMESTAMP, as in ?::TIMESTAMP"
    for cast in _CAST.finditer(text):
        own = [f for f in fields if f.name == cast["column"].strip('"')]
        if own and pa.types.is_dictionary(own[0].type):
            return "the labels of a categorical are compared as ENUM"
        if own and own[0].type in _NAMES and _COMPARED.match(text, cast.end()):
            return f"compared as {cast['kind']}; write ?::{_NAMES[own[0].type]}"
    return _by_form(text, fields)


def _by_form(text: str, fields: Sequence[pa.Field]) -> str:
    if '"row"(' in text or text.startswith("row("):
        return "a row of columns; write the columns one by one, as in (y = 1 AND x = 2) OR (y = 3 AND x = 4)"
    if re.fullmatch(r'(NOT )?\(?("(?:[^"]|"")+"|\w+)\)?', text):
        return "a column by itself; write column = true"
    if "DISTINCT FROM" in text:
        return "IS [NOT] DISTINCT FROM; write = or IS NULL"
    if re.search(r"~~|\b(prefix|suffix|contains|regexp_\w+)\(", text):
        return "a pattern; write a range or IN"
    if re.search(r"'-?(nan|inf|infinity)'", text, re.IGNORECASE):
        return "NaN and infinity are not offered by DuckDB"
    if re.search(r"[\w\"]\(|[-+*/%] ", text):
        return "a function of the column; write a range instead"
    if len(fields) > 1 and not re.search(r"\d|'", text):
        return "compares columns with one another"
    return "DuckDB does not offer it, or the table does not take it over"
