"""The command line: `xzsql tables | query | explain | info | demo`.

Exit codes: 0, 1 where data, SQL or output fail, 2 where the command line itself is wrong, 130 after Ctrl-C, 141 where
the reader of a pipe went away.
"""

from __future__ import annotations

import os
import sys
import traceback
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import click
import pyarrow as pa

import xzsql
from xzsql.cli import arguments
from xzsql.cli.about import installed
from xzsql.cli.output import format_of, write
from xzsql.errors import XzsqlError, XzsqlWarning
from xzsql.result import Result

__all__ = ["main", "shell"]

_FAILED, _INTERRUPTED, _PIPE_CLOSED = 1, 130, 141


class _Shell(click.Group):
    """Commands whose errors and warnings are one line each."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; whatever goes wrong becomes an exit code and a line on stderr."""
        try:
            with _short_warnings():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            _forget_stdout()
            ctx.exit(_PIPE_CLOSED)
        except KeyboardInterrupt:
            _fail(ctx, "interrupted", _INTERRUPTED)
        except XzsqlError as error:
            _fail(ctx, str(error), _FAILED)
        except OSError as error:
            where = f" {error.filename!r}" if error.filename else ""
            _fail(ctx, f"cannot write{where}: {error.strerror or error}", _FAILED)
        except Exception as error:
            _fail(ctx, f"{type(error).__name__}: {error} (an error inside xzsql; --debug shows where)", _FAILED)


@click.group(cls=_Shell, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="xzsql", message="%(prog)s %(version)s")
@arguments.debug
def shell() -> None:
    """SQL questions to labelled arrays: NetCDF, Zarr and whatever else xarray opens."""


@shell.command()
@arguments.how_to_open
@arguments.how_to_write
@arguments.debug
def tables(format: str | None, output: str | None, **how_to_open: Any) -> None:
    """List the tables of TARGET, a path or URL. Reads no data."""
    chosen = format_of(format, output)
    _refuse_same_file(how_to_open["target"], output)
    with arguments.opened(**how_to_open) as catalog:
        found = catalog.tables()
        if chosen == "table":
            found = Result.of_table(_for_people(found.arrow()))
        write(found, format=chosen, path=output, limit=sys.maxsize, typed=False)


@shell.command()
@arguments.how_to_open
@arguments.what_to_ask
@arguments.how_to_write
@click.option("-n", "--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N rows; a table after 50.")
@arguments.how_to_run
@arguments.debug
def query(
    sql: str | None,
    script: str | None,
    params: tuple[str, ...],
    format: str | None,
    output: str | None,
    limit: int | None,
    **options: Any,
) -> None:
    """Ask TARGET, a path or URL, a question in SQL.

    The tables are those that `xzsql tables TARGET` lists; self is the one table of the root.
    """
    text, values = arguments.sql_of(sql, script), arguments.params_of(params)
    chosen = format_of(format, output)
    _refuse_same_file(options["target"], output)
    with _opened(options) as catalog, _ask(catalog.query, text, values) as result:
        write(result, format=chosen, path=output, limit=limit)


@shell.command()
@arguments.how_to_open
@arguments.what_to_ask
@arguments.how_to_run
@arguments.debug
def explain(sql: str | None, script: str | None, params: tuple[str, ...], **options: Any) -> None:
    """Show what a query would read of TARGET, and how. Reads no data."""
    text, values = arguments.sql_of(sql, script), arguments.params_of(params)
    with _opened(options) as catalog:
        click.echo(str(_ask(catalog.explain, text, values)))


@shell.command()
@arguments.how_to_write
@arguments.debug
def info(format: str | None, output: str | None) -> None:
    """Show what is installed: versions, optional libraries, engines."""
    write(Result.of_table(installed()), format=format_of(format, output), path=output, limit=sys.maxsize, typed=False)


@shell.command()
@arguments.debug
def demo() -> None:
    """Make a small store, ask it a question, and show the answer."""
    from xzsql.demo import main as shown

    shown()


def main() -> None:
    """The command `xzsql`."""
    shell(prog_name="xzsql")


@contextmanager
def _opened(options: dict[str, Any]) -> Iterator[xzsql.Catalog]:
    """The catalog of a command that runs SQL, with the settings that were asked for."""
    settings = {name: options.pop(name) for name in ("memory_budget", "workers", "no_progress")}
    with xzsql.options(**arguments.settings(**settings)), arguments.opened(**options) as catalog:
        yield catalog


def _called(_xzsql_method: Any, *_xzsql_arguments: Any) -> Any:
    return _xzsql_method(*_xzsql_arguments)


#: Unknown tables are looked for among the variables of whoever calls into xzsql. For a user of the shell that is
#: nobody's frame: this one is of no module, and its variables have no usual names.
_ask: Any = types.FunctionType(_called.__code__, {"__name__": "shell"})


def _for_people(found: pa.Table) -> pa.Table:
    """The list of tables, with lists as people write them and without columns that say nothing."""
    for index, (field, marks) in enumerate(zip(found.schema, map(_SEPARATORS.get, found.column_names), strict=True)):
        if marks is not None:
            words = [None if v is None else marks.join(map(str, v)) for v in found.column(index).to_pylist()]
            found = found.set_column(index, field.name, pa.array(words, pa.string()))
    found = found.select(["schema", "name", "rows", "dims", "shape", "columns", "blocks", "chunk_shape", "note"])
    idle = ["note"] if found["note"].null_count == found.num_rows else []
    idle += ["schema"] if set(found["schema"].to_pylist()) == {"main"} else []
    return found.drop_columns(idle)


_SEPARATORS = {"dims": ", ", "columns": ", ", "shape": " x ", "chunk_shape": " x "}


def _refuse_same_file(target: str, output: str | None) -> None:
    if output is not None and os.path.exists(target) and os.path.exists(output) and os.path.samefile(target, output):
        raise click.UsageError(f"{output!r} is the target itself; choose another file for --output.")


def _fail(ctx: click.Context, text: str, code: int) -> NoReturn:
    if ctx.meta.get("xzsql.debug"):
        click.echo(traceback.format_exc(), err=True, nl=False)
    else:
        click.echo(f"xzsql: {_one_line(text)}", err=True)
    ctx.exit(code)


def _one_line(text: str) -> str:
    """A message of several lines as one; those of DuckDB end with a mark below the SQL that they quote."""
    lines = [line.strip() for line in text.splitlines()]
    return " ".join(" ".join(line.split()) for line in lines if line.strip("^~ "))


def _forget_stdout() -> None:
    """Nobody reads the standard output any more, so that flushing it at exit must not fail."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Warnings without the line of Python that they come from."""

    def show(message: Warning | str, category: type[Warning], *_where: Any, **_more: Any) -> None:
        kind = "" if issubclass(category, XzsqlWarning) else f"{category.__name__}: "
        click.echo(f"xzsql: warning: {kind}{_one_line(str(message))}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", XzsqlWarning)
        warnings.showwarning = show
        yield
