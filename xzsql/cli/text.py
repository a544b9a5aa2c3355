"""Columns of a result as text: exact, by Arrow's own loops where there are any."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xzsql.errors import UnsupportedError

_TEXT = pa.large_string()
#: Rows that are looked at to find out whether the values of a column repeat.
_SAMPLE = 4096
_ARROW_OVERFLOW = "<value out of range"
_SPECIAL_IN_JSON = r'["\\\x00-\x1f]'
_SPECIAL_IN_CSV = r'[",\r\n]|^$'
_INTERVAL = np.dtype([("months", "i4"), ("days", "i4"), ("nanoseconds", "i8")])
#: How DuckDB writes the bytes of a BLOB.
_BYTES = [chr(b) if 32 <= b < 127 and chr(b) not in "\"'\\" else f"\\x{b:02X}" for b in range(256)]


def plain(column: pa.Array) -> pa.Array:
    """The values of a column as large_string, NULL where they are NULL.

    Times are ISO 8601, a struct, list or map is JSON (with NaN and Infinity), the others read as in DuckDB. Floats
    have the fewest digits that give the same value back in their own type.

    Raises
    ------
    UnsupportedError
        A type of DuckDB that Arrow only carries as bytes.
    """
    return _repeated(column, _plain)


def csv_field(column: pa.Array) -> pa.Array:
    """The values as CSV fields: quoted only where they must be, the empty text `""`, NULL nothing."""
    return _repeated(column, lambda c: quoted(_plain(c)) if _may_need_quotes(c.type) else _plain(c))


def quoted(texts: pa.Array) -> pa.Array:
    """Texts as CSV fields, NULL where they are NULL."""
    special = pc.match_substring_regex(texts, _SPECIAL_IN_CSV)
    if not pc.any(special).as_py():
        return texts
    doubled = pc.replace_substring(texts, '"', '""')
    return pc.if_else(special, joined('"', doubled, '"'), texts)


class JsonText:
    """Columns as JSON, in which NaN and infinity do not exist.

    Strictly they become null, which is remembered; else they are `NaN` and `Infinity`, as Python's json has them.
    """

    def __init__(self, *, strict: bool = True) -> None:
        self._strict = strict
        self.nulled = False
        """Whether there was a NaN or an infinity."""

    def __call__(self, column: pa.Array, *, is_json: bool = False) -> pa.Array:
        """The values as large_string, `null` for NULL; `is_json` where the text is JSON already."""
        if is_json:
            # a line break between the tokens would break JSON lines; within a string JSON has it escaped
            texts = pc.replace_substring_regex(column.cast(_TEXT), r"[\r\n]+", " ")
        else:
            texts = _repeated(column, self._value)
        return pc.fill_null(texts, pa.scalar("null", _TEXT))

    def _value(self, column: pa.Array) -> pa.Array:
        kind = column.type
        if pa.types.is_dictionary(kind):
            return self._value(column.dictionary_decode())
        if (
            pa.types.is_null(kind)
            or pa.types.is_boolean(kind)
            or pa.types.is_integer(kind)
            or pa.types.is_decimal(kind)
        ):
            return _plain(column)
        if pa.types.is_floating(kind):
            return self._number(column)
        if pa.types.is_map(kind):
            return self._map(column)
        if pa.types.is_struct(kind):
            return self._struct(column)
        if _is_list(kind):
            return self._list(column)
        return json_string(_plain(column))

    def _number(self, column: pa.Array) -> pa.Array:
        finite = pc.is_finite(column)
        if pc.all(finite).as_py():
            return _plain(column)
        if self._strict:
            self.nulled = True
            return _plain(pc.if_else(finite, column, pa.scalar(None, column.type)))
        texts = pc.replace_substring(_plain(column), "inf", "Infinity")
        return pc.replace_substring_regex(texts, "^-?nan$", "NaN")

    def _struct(self, column: pa.Array) -> pa.Array:
        parts: list[Any] = []
        for index, field in enumerate(column.type):
            parts += ["{" if index == 0 else ",", json.dumps(field.name, ensure_ascii=False) + ":"]
            parts.append(self(column.field(index)))
        return _where_valid(column, joined(*parts, "}") if parts else pa.array(["{}"] * len(column), _TEXT))

    def _list(self, column: pa.Array) -> pa.Array:
        if pa.types.is_fixed_size_list(column.type):
            column = column.cast(pa.list_(column.type.value_type))
        return _where_valid(column, joined("[", _runs(column.offsets, self(column.values)), "]"))

    def _map(self, column: pa.Array) -> pa.Array:
        keys = json_string(pc.fill_null(_plain(column.keys), ""))
        return _where_valid(column, joined("{", _runs(column.offsets, joined(keys, ":", self(column.items))), "}"))


def json_string(texts: pa.Array) -> pa.Array:
    """Texts as JSON strings, NULL where they are NULL."""
    if not pc.any(pc.match_substring_regex(texts, _SPECIAL_IN_JSON)).as_py():
        return joined('"', texts, '"')
    return _one_by_one(texts.to_pylist(), lambda v: json.dumps(v, ensure_ascii=False))


def joined(*parts: pa.Array | str) -> pa.Array:
    """The parts of each row one after the other; NULL where one is."""
    return pc.binary_join_element_wise(
        *(pa.scalar(p, _TEXT) if isinstance(p, str) else p for p in parts), pa.scalar("", _TEXT)
    )


def _repeated(column: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Convert each value once, where values repeat, as those of coordinates do."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return convert(column.dictionary).take(column.indices)
    if len(column) > _SAMPLE and _is_hashable(kind) and len(column.slice(0, _SAMPLE).unique()) < _SAMPLE // 4:
        encoded = column.dictionary_encode()
        return convert(encoded.dictionary).take(encoded.indices)
    return convert(column)


def _plain(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.dictionary_decode())
    if pa.types.is_floating(kind):
        return _floats(column)
    if pa.types.is_decimal(kind):
        texts = column.cast(_TEXT)
        if not pc.any(pc.match_substring(texts, "E")).as_py():
            return texts
        return _one_by_one(column.to_pylist(), lambda v: format(v, "f"))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _dates(column)
    if pa.types.is_time(kind):
        return _short_seconds(column.cast(_TEXT))
    if _is_interval(kind):
        return _one_by_one(_intervals(column), _interval)
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_union(kind):
        raise UnsupportedError(f"a column of type {_described(kind)} has no text of its own; write column::VARCHAR")
    if pa.types.is_nested(kind):
        return JsonText(strict=False)._value(column)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _one_by_one(column.to_pylist(), lambda v: "".join(map(_BYTES.__getitem__, v)))
    return column.cast(_TEXT)


def _floats(column: pa.Array) -> pa.Array:
    """1 as 1.0 and -0 as -0.0, so that a reader sees what they are."""
    texts = column.cast(_TEXT)
    if pc.any(pc.equal(pc.trunc(column), column)).as_py():
        texts = pc.replace_substring_regex(texts, r"^(-?\d+)$", r"\1.0")
    return texts


def _dates(column: pa.Array) -> pa.Array:
    texts = column.cast(_TEXT)
    if pc.any(pc.starts_with(texts, _ARROW_OVERFLOW)).as_py():
        texts = _one_by_one(_counts(column), _far_date(column.type))
    texts = pc.replace_substring_regex(texts, r"^(\d{5,}-)", r"+\1")
    if pa.types.is_timestamp(column.type):
        texts = _short_seconds(pc.replace_substring(texts, " ", "T", max_replacements=1))
        if column.type.tz is not None:
            texts = pc.replace_substring_regex(texts, r"([+-]\d{2})(\d{2})$", r"\1:\2")
            texts = pc.replace_substring_regex(texts, "Z$", "+00:00")
    return texts


def _counts(column: pa.Array) -> list[int | None]:
    """Days or microseconds since 1970, as Arrow stores them."""
    whole = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
    counts: list[int | None] = column.view(whole).to_pylist()
    return counts


def _far_date(kind: pa.DataType) -> Callable[[int], str]:
    """The text of a date in any year, as Arrow writes those of near ones; the ends of the range are infinity."""
    days = pa.types.is_date32(kind)
    unit: Any = "D" if days else kind.unit
    most = 2**31 - 1 if days else 2**63 - 1
    zone = "+0000" if not days and kind.tz is not None else ""

    def text(count: int) -> str:
        if abs(count) == most:
            return "infinity" if count > 0 else "-infinity"
        return str(np.datetime64(count, unit)).replace("T", " ") + zone

    return text


def _short_seconds(texts: pa.Array) -> pa.Array:
    """No fraction where it is zero, as in Python's isoformat."""
    return pc.replace_substring_regex(texts, r"\.0+((?:[+-]\d{4}|Z)?)$", r"\1")


def _intervals(column: pa.Array) -> list[tuple[int, int, int] | None]:
    parts = np.frombuffer(column.buffers()[1], _INTERVAL)[column.offset : column.offset + len(column)]
    rows = zip(*(parts[name].tolist() for name in ("months", "days", "nanoseconds")), strict=True)
    return [row if valid else None for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)]


def _interval(parts: tuple[int, int, int]) -> str:
    """As DuckDB writes and reads it."""
    months, days, nanoseconds = parts
    years, months = int(months / 12), months - 12 * int(months / 12)
    words = [f"{n} {unit}{'s' * (abs(n) != 1)}" for n, unit in ((years, "year"), (months, "month"), (days, "day")) if n]
    if nanoseconds or not words:
        seconds, fraction = divmod(abs(nanoseconds) // 1000, 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        decimals = f".{fraction:06}".rstrip("0") if fraction else ""
        words.append(f"{'-' * (nanoseconds < 0)}{clock}{decimals}")
    return " ".join(words)


def _one_by_one(values: list[Any], convert: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if v is None else convert(v) for v in values], _TEXT)


def _runs(offsets: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts of each list, with commas between."""
    kind = pa.LargeListArray if offsets.type == pa.int64() else pa.ListArray
    return pc.binary_join(kind.from_arrays(offsets, texts), pa.scalar(",", _TEXT))


def _where_valid(column: pa.Array, texts: pa.Array) -> pa.Array:
    return texts if column.null_count == 0 else pc.if_else(column.is_valid(), texts, pa.scalar(None, _TEXT))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_hashable(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or _is_bytes(kind)) and not _is_interval(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def _is_interval(kind: pa.DataType) -> bool:
    return bool(kind == pa.month_day_nano_interval())


def _may_need_quotes(kind: pa.DataType) -> bool:
    return not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind))


def _described(kind: pa.DataType) -> str:
    found = re.search(r"type_name=(\w+)", str(kind))
    return found[1].upper() if found else "UNION" if pa.types.is_union(kind) else str(kind)
