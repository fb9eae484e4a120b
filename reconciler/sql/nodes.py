"""The words of the walk over an expression: what a printed part is, what a scope answers, how a node is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec
from sqlglot import exp

from reconciler.model.table import TableIdent
from reconciler.model.types import FieldPath, ListType, MapType, Type
from reconciler.sql.parsing import offset_of
from reconciler.sql.refusals import RefusedSql
from reconciler.sql.spark_types import common_type

WHAT: Mapping[type[exp.Expr], tuple[str, str]] = {
    exp.Subquery: ("subqueries are not allowed here", "Compute the value from the row's own columns."),
    exp.Select: ("subqueries are not allowed here", "Compute the value from the row's own columns."),
    exp.Exists: ("subqueries are not allowed here", "Compute the value from the row's own columns."),
    exp.Star: ("'*' is not allowed here", "Name the columns."),
    exp.Window: ("window functions are not allowed here", ""),
    exp.Alias: ("a name with AS is not allowed here", "Remove it; in a struct write named_struct('name', value)."),
    exp.Lambda: ("a lambda is not allowed here", ""),
    exp.Tuple: ("a list of values is not allowed here", "Compare the columns one by one."),
    exp.Concat: ("two strings stand side by side", "Write one string; a quote inside it is \\'."),
    exp.NullSafeNEQ: ("IS DISTINCT FROM is not allowed", "Write NOT (a <=> b)."),
    exp.Distinct: ("DISTINCT is not allowed here", ""),
    exp.Filter: ("FILTER is not allowed here", ""),
    exp.BitwiseLeftShift: ("'<<' is not allowed", "Write shiftleft(a, n)."),
    exp.BitwiseRightShift: ("'>>' is not allowed", "Write shiftright(a, n)."),
    exp.Placeholder: ("parameters are not allowed", "Write the value itself."),
    exp.Parameter: ("variables are not allowed", "Write the value itself."),
    exp.AtTimeZone: ("AT TIME ZONE is not allowed", "Write from_utc_timestamp(x, zone)."),
    **dict.fromkeys(
        (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime, exp.CurrentUser, exp.SessionUser, exp.CurrentRole),
        ("its value depends on the moment or the session", "Write a value, or a column of the row."),
    ),
}


class Input(msgspec.Struct, frozen=True, order=True):
    """A column or nested field that is read; `table` is None when there is only one."""

    path: FieldPath
    table: TableIdent | None = None


class Written(msgspec.Struct, frozen=True):
    """A printed part: its SQL, its type where known, what it reads; constant when it reads nothing of a row."""

    sql: str
    type: Type | None = None
    inputs: frozenset[Input] = frozenset()
    is_constant: bool = False


class Scope(Protocol):
    """What the names of an expression may mean."""

    def find(self, parts: Sequence[exp.Identifier]) -> tuple[Written, int]:
        """Return the column that the first parts name, and how many of them it took; raise RefusedSql."""
        ...

    def names(self) -> frozenset[str]:
        """Return every name a lambda variable must not take."""
        ...


def refusal(node: exp.Expr, message: str, hint: str = "") -> RefusedSql:
    """Return the refusal of a node, with its place."""
    return RefusedSql(message, hint, offset=offset_of(node))


def expect(node: exp.Expr, *names: str) -> None:
    """Refuse a node that holds more than the named arguments."""
    extra = next((key for key, value in node.args.items() if value and key not in names), None)
    if extra is not None:
        raise refusal(node, f"'{extra.rstrip('_')}' is not allowed in {kind_of(node)}", "Write it without.")


def part(node: exp.Expr, name: str) -> exp.Expr:
    """Return a node's argument; refuse when it is missing."""
    found = node.args.get(name)
    if not isinstance(found, exp.Expr):
        raise refusal(node, f"{kind_of(node)} is not complete", "Check the syntax.")
    return found


def kind_of(node: exp.Expr) -> str:
    """Return what sqlglot calls the node."""
    return type(node).__name__.upper()


def check_constant_text(written: Written, parts: Sequence[Written], node: exp.Expr) -> None:
    """Refuse text computed from constant texts or bytes alone: `concat('to', 'day')` would be a moment that moves."""
    if written.is_constant and written.type in (None, "string") and any(may_spell(p) for p in parts):
        raise refusal(node, "this computes a text from constants alone", "Write the result itself.")


def may_spell(written: Written) -> bool:
    """Whether it is, or may hold, a text or the bytes of one."""
    return not isinstance(written.type, str) or written.type in ("string", "binary")


def few(names: Iterable[str]) -> str:
    """List the first names, for a hint."""
    listed = list(names)
    return f"{', '.join(listed[:8])}{', …' if len(listed) > 8 else ''}"


def merge(sql: str, type_: Type | None, parts: Sequence[Written]) -> Written:
    """Return a part made of other parts: it reads what they read."""
    inputs = frozenset[Input]().union(*(p.inputs for p in parts))
    return Written(sql, type_, inputs, all(p.is_constant for p in parts))


def join(parts: Sequence[Written]) -> str:
    """Print a list of arguments."""
    return ", ".join(p.sql for p in parts)


def common(parts: Sequence[Written]) -> Type | None:
    """Return the common type, NULLs aside."""
    return common_type([p.type for p in parts if p.sql != "NULL"] or [None])


def element(type_: Type | None) -> Type | None:
    """Return what a list or a map holds."""
    match type_:
        case ListType():
            return type_.element
        case MapType():
            return type_.value
    return None
