"""What the commands have in common: the options that open a target, values of parameters, the SQL."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

import xzsql
from xzsql.cli.output import FORMATS
from xzsql.errors import XzsqlError

_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)

type _Command = Callable[..., Any]


def applied(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Several options as one decorator, in the order of the help text."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _remember_debug(ctx: click.Context, _parameter: click.Parameter, given: bool) -> None:
    # of the group and of the command, one is enough
    ctx.meta["xzsql.debug"] = given or ctx.meta.get("xzsql.debug", False)


def _size(_ctx: click.Context, parameter: click.Parameter, given: str | None) -> str | int | None:
    """A setting of `xzsql.options`, checked before anything is opened."""
    if given is None:
        return None
    value = int(given) if given.isdecimal() else given
    try:
        xzsql.options.current(**{str(parameter.name): value})
    except XzsqlError as error:
        raise click.BadParameter(str(error)) from error
    return value


debug = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_remember_debug,
    help="Show the traceback of an error.",
)

how_to_open = applied(
    click.argument("target"),
    click.option("--engine", metavar="NAME", help="xarray engine to open the path with, such as h5netcdf or zarr."),
    click.option("--no-decode-times", is_flag=True, help="Leave times the numbers that are stored."),
    click.option("--decode-timedelta", is_flag=True, help='Make variables in units of time alone ("days") INTERVAL.'),
    click.option("--keep-nan", is_flag=True, help="Keep NaN; without this it is NULL."),
    click.option(
        "--mask-fill-value/--no-mask-fill-value",
        default=None,
        help="Whether a Zarr fill_value is NULL; without this only in Zarr version 2, if it is not zero.",
    ),
    click.option(
        "--open-option",
        "open_options",
        metavar="NAME=VALUE",
        multiple=True,
        help="One more argument for the engine, such as group=/fine; VALUE as for --param of query.",
    ),
)

how_to_write = applied(
    click.option(
        "-f", "--format", type=click.Choice(FORMATS), help="Without this by the suffix of FILE, else a table."
    ),
    click.option(
        "-o", "--output", metavar="FILE", type=click.Path(), help="Write to FILE; one that exists is replaced."
    ),
)

how_to_run = applied(
    click.option(
        "--memory-budget", metavar="SIZE", callback=_size, help="Memory for blocks on their way, such as 64MiB."
    ),
    click.option("--workers", metavar="N", callback=_size, help="Threads that load and decode."),
    click.option("--no-progress", is_flag=True, help="Show no progress."),
)

what_to_ask = applied(
    click.argument("sql", required=False),
    click.option("--file", "script", metavar="F", type=click.Path(allow_dash=True), help="Read the SQL from a file."),
    click.option(
        "-p",
        "--param",
        "params",
        metavar="[NAME=]VALUE",
        multiple=True,
        help="A value for $NAME, or for the next ?. A VALUE that is JSON (50, true, null, [1, 2]) is what it says, "
        "anything else is text.",
    ),
)


def opened(
    target: str,
    *,
    engine: str | None,
    no_decode_times: bool,
    decode_timedelta: bool,
    keep_nan: bool,
    mask_fill_value: bool | None,
    open_options: Sequence[str],
) -> xzsql.Catalog:
    """The catalog of a target, by the options of `how_to_open`."""
    further: dict[str, Any] = {}
    for given in open_options:
        found = _NAMED.fullmatch(given)
        if found is None:
            raise click.BadParameter(f"{given!r} is not NAME=VALUE.", param_hint="'--open-option'")
        further[found[1]] = _value(found[2])
    return xzsql.open(
        target,
        decode_times=not no_decode_times,
        decode_timedelta=decode_timedelta,
        nan_as_null=not keep_nan,
        mask_fill_value=mask_fill_value,
        **({} if engine is None else {"engine": engine}),
        **further,
    )


def settings(*, memory_budget: int | str | None, workers: int | None, no_progress: bool) -> dict[str, Any]:
    """What was given of the options of `how_to_run`, for `xzsql.options`."""
    given = {"memory_budget": memory_budget, "workers": workers, "progress": False if no_progress else None}
    return {name: value for name, value in given.items() if value is not None}


def sql_of(sql: str | None, script: str | None) -> str:
    """The SQL: the argument, or what is in a file or comes on the standard input."""
    if script is not None and sql is not None:
        raise click.UsageError("give the SQL as an argument or with --file, not both.")
    if script is None and sql is None:
        raise click.UsageError(
            "there is no SQL; give it as an argument, with --file F, or - to read the standard input."
        )
    if script is None and sql != "-":
        return str(sql)
    try:
        if script is None or script == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return Path(script).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise click.UsageError(f"cannot read the SQL from {script or '-'!r}: {reason}.") from error


def params_of(given: Sequence[str]) -> list[Any] | dict[str, Any] | None:
    """Values for `?`, or for `$name`."""
    named = {found[1]: _value(found[2]) for p in given if (found := _NAMED.fullmatch(p))}
    if not named:
        return [_value(p) for p in given] or None
    if len(named) < len(given):
        raise click.UsageError("every --param has a name of its own, or none has a name.")
    return named


def _value(given: str) -> Any:
    try:
        return json.loads(given, parse_constant=_not_json)
    except ValueError:
        return given


def _not_json(word: str) -> NoReturn:
    """NaN and Infinity, which Python's reader would take."""
    raise ValueError(word)
