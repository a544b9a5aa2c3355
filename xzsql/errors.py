"""Every error that xzsql raises on purpose.

A message says what failed (the value in repr), what there was instead, and what to type next. Each class derives from
`XzsqlError` and from the builtin that a caller would expect, so both `except XzsqlError` and `except KeyError` work.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Self


class XzsqlError(Exception):
    """Base of all errors of xzsql."""


class XzsqlWarning(UserWarning):
    """Something was left out or changed on the way to SQL; the text names it and says why."""


class UnknownNameError(XzsqlError, LookupError):
    """A schema, table, column, group or option that does not exist."""

    @classmethod
    def of(
        cls, kind: str, name: object, known: Iterable[object], *, where: str = "", hint: str = ""
    ) -> UnknownNameError:
        """`kind` is the noun (table, column, ...), `known` what there is."""
        there = [str(k) for k in known]
        listed = ", ".join(map(repr, there)) if there else "none"
        close = difflib.get_close_matches(str(name), there, n=1)
        text = f"no {kind} {name!r}{f' in {where}' if where else ''}; there is {listed}."
        if close:
            text += f" Did you mean {close[0]!r}?"
        return cls(f"{text}{' ' + hint if hint else ''}")


class AmbiguousTableError(XzsqlError, ValueError):
    """`self`, or a name, stands for several tables or for none."""

    @classmethod
    def of_self(cls, tables: Sequence[str]) -> AmbiguousTableError:
        """`self` asked for, where the root has no table over dimensions or several."""
        if not tables:
            return cls(
                "'self' is the one table over dimensions of the root group, and there is none; "
                "list what there is with .tables()."
            )
        listed = ", ".join(map(repr, tables))
        return cls(
            f"'self' is the one table over dimensions of the root group, but there are {len(tables)}: {listed}; "
            f'name one of them, as in SELECT * FROM "{tables[0]}".'
        )


class NameTakenError(XzsqlError, ValueError):
    """A name that xzsql was asked to use belongs to something else."""


class InvalidInputError(XzsqlError, ValueError):
    """An argument or a dataset that cannot be used as it is."""


class UnsupportedError(XzsqlError, TypeError):
    """A target, type or value that xzsql cannot turn into a table."""


class OpenError(XzsqlError, OSError):
    """A path or URL that cannot be opened."""


class ReadError(XzsqlError, OSError):
    """A block of a variable that could not be read or decoded; the original exception is the cause."""

    @classmethod
    def of_block(cls, error: BaseException, *, store: str, group: str, variable: str, block: str) -> Self:
        """`block` is the region in numpy slice notation, one range a dimension."""
        return cls(
            f"cannot read variable {variable!r} of group {group!r}{f' in {store}' if store else ''}, block {block}: "
            f"{type(error).__name__}: {error}"
        )


class ValueRangeError(ReadError, ValueError):
    """A stored value that its SQL type cannot hold exactly (never rounded, never wrapped)."""


class QueryError(XzsqlError, RuntimeError):
    """DuckDB refused or failed a query; its own exception is the cause."""


class ClosedError(XzsqlError, RuntimeError):
    """The catalog, connection or result was closed, or was read already."""


class MissingDependencyError(XzsqlError, ImportError):
    """An optional library is needed for this."""

    @classmethod
    def of(cls, module: str, extra: str, purpose: str) -> MissingDependencyError:
        """`purpose` completes "is needed to ..."."""
        return cls(f"{module!r} is needed to {purpose}; install it with: pip install 'xzsql[{extra}]'")
