"""Explanation: what a query would read, to print and to draw."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from xzsql._optional import require
from xzsql.engine.progress import size
from xzsql.errors import UnsupportedError
from xzsql.ir.predicate import Predicate
from xzsql.source import Extent, SupportsCoverage, TableSource

_SHOWN_WIDTH = 100
#: Along a dimension of more blocks than this, only what is kept is drawn.
_DRAWN_BLOCKS = 400


@dataclass(frozen=True, slots=True)
class Left:
    """A predicate that DuckDB evaluates itself, row by row; it does not reduce what is read."""

    predicate: str
    """As in DuckDB's plan."""
    reason: str
    """Why, and what to write instead."""

    def __str__(self) -> str:
        return f"{_short(self.predicate)}  ({self.reason})"


@dataclass(frozen=True, slots=True)
class TableScan:
    """One scan of a table; a query that names a table twice has two."""

    table: str
    """The name, with its schema if that is not the root's."""
    columns: tuple[str, ...]
    """The columns that DuckDB asks for."""
    blocks: int
    """Blocks to read."""
    blocks_total: int
    """Blocks of a full scan of these columns; 0 where all of them are in memory."""
    bytes: int
    """Uncompressed bytes to read."""
    bytes_total: int
    """Uncompressed bytes of a full scan of these columns."""
    exact: tuple[str, ...]
    """Predicates that select what is read; DuckDB does not look at them again."""
    left: tuple[Left, ...]
    """Predicates that are left to DuckDB."""
    _where: tuple[Predicate, ...] = field(repr=False, compare=False)
    _source: TableSource = field(repr=False, compare=False)

    def coverage(self) -> Sequence[Extent]:
        """What is read along each dimension; none for a table that is not over a grid. Reads coordinates only."""
        if not isinstance(self._source, SupportsCoverage):
            return []
        return self._source.coverage(self.columns, self._where)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.table}: {self._cost()}"
        yield f"  columns    {_short(', '.join(self.columns))}"
        for title, texts in (("exact", map(_short, self.exact)), ("by DuckDB", map(str, self.left))):
            for text in texts:
                yield f"  {title:<9}  {text}"
                title = ""

    def _cost(self) -> str:
        if not self.blocks_total:
            return "no block (coordinates are in memory)"
        return (
            f"{self.blocks:,} of {self.blocks_total:,} block{'s' * (self.blocks_total != 1)}, "
            f"{size(self.bytes)} of {size(self.bytes_total)}"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """What a query would read, without having read it.

    Printed, it lists the scans and DuckDB's plan; `_repr_html_` does that in a notebook, and `plot` draws it.
    """

    tables: tuple[TableScan, ...]
    """The scans of tables of the catalog, in the order of the plan."""
    plan: str
    """The plan as DuckDB prints it, with its estimates of row counts."""
    notes: tuple[str, ...] = ()
    """What the numbers do not say."""

    @property
    def blocks(self) -> int:
        """Blocks to read, over all scans."""
        return sum(t.blocks for t in self.tables)

    @property
    def bytes(self) -> int:
        """Uncompressed bytes to read, over all scans."""
        return sum(t.bytes for t in self.tables)

    def plot(self) -> list[Any]:
        """Draw for each scan the block grid along each dimension, and what is read of it.

        Returns
        -------
        list of matplotlib.axes.Axes
            One for each scan of a table over a grid. A block that is touched is shaded, a kept position is dark; of
            a predicate over several dimensions (`lat = 3 OR lon = 2`) the hull is drawn.

        Raises
        ------
        MissingDependencyError
            matplotlib is not installed.
        UnsupportedError
            No table over a grid is read.
        """
        pyplot = require("matplotlib.pyplot", extra="plot", purpose="draw what a query reads")
        drawn = [(scan, extents) for scan in self.tables if (extents := scan.coverage())]
        if not drawn:
            raise UnsupportedError("there is nothing to draw: the query reads no table over a grid of blocks")
        heights = [1 + 0.45 * len(extents) for _, extents in drawn]
        _, grid = pyplot.subplots(
            len(drawn), 1, figsize=(8, sum(heights)), height_ratios=heights, squeeze=False, layout="constrained"
        )
        axes = [row[0] for row in grid]
        for ax, (scan, extents) in zip(axes, drawn, strict=True):
            ax.set_title(f"{scan.table}: {scan._cost()}", loc="left", fontsize="medium")
            _draw(ax, extents)
        return axes

    def __repr__(self) -> str:
        parts = [str(t) for t in self.tables] or ["reads no table of the catalog"]
        parts += [f"note: {note}" for note in self.notes]
        return "\n".join([*parts, "", self.plan.rstrip("\n")])

    def _repr_html_(self) -> str:
        head = ("table", "blocks", "bytes", "columns", "exact", "left to DuckDB")
        rows = [
            (
                t.table,
                f"{t.blocks:,} of {t.blocks_total:,}",
                f"{size(t.bytes)} of {size(t.bytes_total)}",
                ", ".join(t.columns),
                "\n".join(map(_short, t.exact)),
                "\n".join(map(str, t.left)),
            )
            for t in self.tables
        ]
        lines = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
        table = f"<table><thead><tr>{''.join(f'<th>{h}</th>' for h in head)}</tr></thead><tbody>{lines}</tbody></table>"
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return (
            f"{table if rows else '<p>reads no table of the catalog</p>'}{notes}"
            f"<details><summary>plan</summary><pre>{html.escape(self.plan)}</pre></details>"
        )


def _draw(ax: Any, extents: Sequence[Extent]) -> None:
    """Each dimension as a bar of the same length."""
    for row, extent in enumerate(extents):
        scale = 1 / max(1, extent.length)
        blocks = list(zip(extent.edges, extent.edges[1:], strict=False))
        runs = [(start * scale, (stop - start) * scale) for start, stop in extent.kept]
        if len(blocks) <= _DRAWN_BLOCKS:
            bars = [(start * scale, (stop - start) * scale) for start, stop in blocks]
            touched = [any(k < stop and start < end for k, end in extent.kept) for start, stop in blocks]
            colors = ["#c6dbef" if t else "white" for t in touched]
            ax.broken_barh(bars, (row - 0.35, 0.7), facecolors=colors, edgecolors="0.6", linewidth=0.5)
        else:
            ax.broken_barh([(0, 1)], (row - 0.35, 0.7), facecolors="white", edgecolors="0.6", linewidth=0.5)
        if runs:
            ax.broken_barh(runs, (row - 0.2, 0.4), facecolors="#2171b5", edgecolors="#2171b5", linewidth=0.5)
    ax.set_yticks(range(len(extents)), [f"{e.dimension} ({e.length:,})" for e in extents])
    ax.invert_yaxis()
    ax.set_xlim(-0.01, 1.01)
    ax.set_xticks([])
    ax.spines[:].set_visible(False)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_WIDTH else line[: _SHOWN_WIDTH - 3] + "..."


def _cell(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")
