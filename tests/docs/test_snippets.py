"""Every ```python block of the README and the documentation is run, and what it shows is compared.

The blocks of a page share one namespace and run in order. A ```text block that follows with nothing but blank lines
between is what the block shows: what it prints, then its last expression as a notebook would show it, or the error or
warning that it ends with (`KeyError: ...`). `...` stands for anything. A block after `<!-- no-run: reason -->` is not
run. Where a block sets both `by_xarray` and `by_sql`, these are the same values.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import xzsql

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- no-run: (.+?) -->\s*$", re.DOTALL)
_MISSPELT = re.compile(r"<!-- *no-?run(?!: \S)")


@dataclass(frozen=True)
class Block:
    code: str
    line: int
    """Where the code begins in the page."""
    shown: str | None
    """The text that follows."""


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page that are run."""
    assert not _MISSPELT.search(text), "a block that is not run needs a reason: <!-- no-run: reason -->"
    fences = list(_FENCE.finditer(text))
    found = []
    for n, fence in enumerate(fences):
        if fence[1] != "python" or _NOT_RUN.search(text[: fence.start()]):
            continue
        following = fences[n + 1] if n + 1 < len(fences) else None
        shows = following and following[1] == "text" and not text[fence.end() : following.start()].strip()
        line = text.count("\n", 0, fence.start(2)) + 1
        found.append(Block(fence[2], line, following[2] if following and shows else None))
    return found


def run(block: Block, page: str, names: dict[str, Any]) -> str:
    """What the block shows."""
    tree = ast.increment_lineno(ast.parse(block.code), block.line - 1)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(tree, page, "exec"), names)
            value = None if last is None else eval(compile(ast.Expression(last.value), page, "eval"), names)
            if value is not None:
                print(repr(value))
        except Exception as error:
            if block.shown is None:
                raise
            print(f"{type(error).__name__}: {error}")
    return out.getvalue()


def look_alike() -> xr.Dataset:
    """A small Dataset with the names of xarray's tutorial dataset of air temperatures."""
    time = np.arange("2013-01-01", "2015-01-01", dtype="M8[D]").astype("M8[ns]")
    lat, lon = np.arange(75, 10, -15, dtype="f4"), np.arange(200, 331, 26, dtype="f4")
    shape = (time.size, lat.size, lon.size)
    air = 280 + np.arange(np.prod(shape)).reshape(shape) % 97 / 4
    air = xr.Variable(("time", "lat", "lon"), air, {"units": "degK", "long_name": "Air temperature"})
    return xr.Dataset({"air": air}, {"time": time, "lat": lat, "lon": lon})


def era5() -> xr.Dataset:
    return look_alike().isel(time=slice(60)).rename(air="t2m", lat="latitude", lon="longitude")


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What the pages take for granted: names, and files in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(xr.tutorial, "open_dataset", lambda name, **_options: look_alike())
    era5().to_zarr("era5.zarr", zarr_format=2)
    era5().to_netcdf("file.nc")
    cells = xr.Dataset({"height": (("x", "y"), np.arange(6.0).reshape(2, 3))}, {"x": [0, 1], "y": [0, 1, 2]})
    # flox, which xarray takes where it is installed, warns on import
    with duckdb.connect() as con, xr.set_options(use_flox=False):
        yield {
            "__name__": "page",
            "duckdb": duckdb,
            "np": np,
            "xr": xr,
            "xzsql": xzsql,
            "con": con,
            "ds": look_alike(),
            "dt": xr.DataTree.from_dict({"/simulation/fine": cells}),
            "stations": pd.DataFrame({"station": ["A", "B"], "x": [0, 1], "y": [2, 0]}),
        }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_does_what_it_says(page: Path, names: dict[str, Any]) -> None:
    name = str(page.relative_to(ROOT))
    for block in blocks_of(page.read_text("utf-8")):
        names.pop("by_xarray", None)
        names.pop("by_sql", None)
        shown = run(block, name, names)
        if block.shown is not None:
            checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            same = checker.check_output(block.shown, shown, flags)
            assert same, f"{name}:{block.line} shows\n{shown}\nand not\n{block.shown}"
        if "by_xarray" in names and "by_sql" in names:
            expected = names["by_xarray"]
            found = names["by_sql"][expected.name] if isinstance(expected, xr.DataArray) else names["by_sql"]
            found = found.transpose(*expected.dims)
            np.testing.assert_allclose(found.values, expected.values, rtol=1e-5, err_msg=f"{name}:{block.line}")
            for dim in expected.dims:
                np.testing.assert_array_equal(found[dim].values, expected[dim].values, f"{name}:{block.line}")


def test_a_block_that_is_not_run_has_a_reason() -> None:
    assert blocks_of("```python\n1\n```\n\n```text\n1\n```\n") == [Block("1\n", 2, "1\n")]
    assert blocks_of("<!-- no-run: needs a network -->\n\n```python\n1\n```\n") == []
    with pytest.raises(AssertionError, match="needs a reason"):
        blocks_of("<!-- no-run -->\n\n```python\n1\n```\n")
