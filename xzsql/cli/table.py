"""Rows as a table for people to read."""

from __future__ import annotations

import io
import shutil
import unicodedata
from collections.abc import Sequence

import click
import pyarrow as pa

from xzsql.cli import text

#: Characters of a value that are shown.
_LONGEST = 200
#: Width below which a column of text is not folded.
_NARROWEST = 16
#: Between two columns.
_GAP = 2
_LONGEST_TYPE = 40


def printed(table: pa.Table, types: Sequence[str], *, encoding: str, to_terminal: bool) -> str:
    """The lines of a table. On a terminal texts are folded to its width, and what still does not fit is named."""
    # rich takes a while to import, and most formats do without it
    from rich.box import ASCII2, SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = [_Column(*each) for each in zip(table.column_names, types, table.columns, strict=True)]
    natural = sum(c.width for c in columns) + _GAP * len(columns)
    width = shutil.get_terminal_size().columns if to_terminal else natural
    shown = columns[: _fitting([c.least for c in columns], width)]
    box = SIMPLE_HEAD if encoding.lower().startswith("utf") else ASCII2
    grid = Table(box=box, pad_edge=False, show_edge=False, padding=(0, _GAP - 1, 0, 0))
    for c in shown:
        grid.add_column(
            Text(c.name, style="bold").append(f"\n{c.type}" if any(types) else "", style="not bold dim"),
            justify="right" if c.is_number else "left",
            no_wrap=c.is_number,
            overflow="fold",
            min_width=c.least,
        )
    for row in zip(*(c.cells for c in shown), strict=True):
        grid.add_row(*(Text("NULL", style="dim") if cell is None else Text(cell) for cell in row))
    out = io.StringIO()
    # with a height, or the width would not count on a dumb terminal
    Console(file=out, force_terminal=to_terminal, width=width, height=100, highlight=False).print(grid)
    if len(shown) < len(columns):
        hidden = ", ".join(repr(c.name) for c in columns[len(shown) :])
        click.echo(f"xzsql: the terminal is too narrow for {hidden}; ask for fewer columns, or --format csv", err=True)
    lines = "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
    return f"{lines}({table.num_rows} row{'s' * (table.num_rows != 1)})\n"


class _Column:
    """One column, as text, and the widths it can have."""

    def __init__(self, name: str, type: str, values: pa.ChunkedArray) -> None:
        from rich.cells import cell_len

        self.name = _clean(name)
        self.type = _clean(type if len(type) <= _LONGEST_TYPE else type.split("(")[0] + "(...)")
        texts = [text.plain(chunk).to_pylist() for chunk in values.chunks]
        self.cells = [None if v is None else _clean(v) for chunk in texts for v in chunk]
        kind = values.type
        self.is_number = bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
        lengths = [cell_len(v) for v in (self.name, self.type, *("NULL" if v is None else v for v in self.cells))]
        self.width = max(lengths)
        self.least = self.width if self.is_number else min(self.width, _NARROWEST)


def _fitting(widths: Sequence[int], width: int) -> int:
    """How many of the columns fit beside one another; one is shown in any case."""
    used = 0
    for number, each in enumerate(widths):
        used += each + _GAP * (number > 0)
        if used > width:
            return max(1, number)
    return len(widths)


def _clean(value: str) -> str:
    """No line breaks and nothing that would steer the terminal."""
    if len(value) > _LONGEST:
        value = value[: _LONGEST - 3] + "..."
    if value.isprintable():
        return value
    return "".join(
        f"\\x{ord(c):02x}" if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") else c
        for c in value.replace("\n", "\\n").replace("\t", "\\t")
    )
