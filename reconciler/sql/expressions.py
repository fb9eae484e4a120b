"""Expressions of a manifest (`computed`, `where`, `using`, `check`): from an author's text to SQL that may run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from sqlglot import exp

from reconciler.model.suggestions import did_you_mean
from reconciler.model.types import FieldPath, StructType, Type
from reconciler.sql.literals import quote_name
from reconciler.sql.nodes import Input, Written, few
from reconciler.sql.parsing import check_same, offset_of, parse_scalar
from reconciler.sql.refusals import RefusedSql
from reconciler.sql.scalar import ScalarWriter


class Expression(msgspec.Struct, frozen=True, kw_only=True):
    """An expression that was read, held to the allowlist and printed anew; only `sql` may reach Spark.

    It is deterministic, unless one of `user_functions` is not. `inputs` are the fields it reads, `columns` the columns
    these lie in. `result` is None where the type is not cheaply known.
    """

    sql: str
    inputs: frozenset[FieldPath]
    user_functions: frozenset[str] = frozenset()
    result: Type | None = None

    @property
    def columns(self) -> frozenset[str]:
        """The top-level columns it reads."""
        return frozenset(path[0] for path in self.inputs)


class _SchemaScope:
    """The columns of one table, by exact name; without a schema every name passes."""

    def __init__(self, schema: StructType | None, aliases: Mapping[str, str]) -> None:
        self._aliases = aliases
        known = () if schema is None else schema.fields
        self._types: dict[str, Type | None] = {f.name: None if f.type == "unknown" else f.type for f in known}
        self._is_known = schema is not None

    def find(self, parts: Sequence[exp.Identifier]) -> tuple[Written, int]:
        name = self._aliases.get(parts[0].name, parts[0].name)
        if self._is_known and name not in self._types:
            hint = did_you_mean(name, self._types) or f"There are: {few(self._types)}."
            raise RefusedSql(f"there is no column '{name[:80]}'", hint, offset=offset_of(parts[0]))
        read = frozenset({Input((name,))})
        return Written(quote_name(name, offset_of(parts[0])), self._types.get(name), read), 1

    def names(self) -> frozenset[str]:
        return frozenset(self._types)


def parse_expression(
    text: str,
    *,
    schema: StructType | None,
    functions: frozenset[str] | None = frozenset(),
    aliases: Mapping[str, str] | None = None,
) -> Expression:
    """Return the safe form of a scalar expression over a table's columns; raise RefusedSql.

    `schema` None means not at hand (a view's own columns, offline): any column passes, and types are not known.
    `functions` are the user functions (`package.module:function`) the catalog allows; None means not known here, and
    any well-formed name passes. `aliases` maps names of the text to the columns that they mean.
    """
    expression = _read(text, schema, functions, aliases or {})
    check_same(text, _read(text, None, functions, {}).sql if aliases else expression.sql)
    if _read(expression.sql, schema, functions, {}) != expression:
        raise RefusedSql("it does not read back as it was printed", "Write it more plainly.")
    return expression


def parse_predicate(
    text: str,
    *,
    schema: StructType | None,
    functions: frozenset[str] | None = frozenset(),
    aliases: Mapping[str, str] | None = None,
) -> Expression:
    """Return the safe form of a condition; raise RefusedSql also when it is known to be no boolean."""
    expression = parse_expression(text, schema=schema, functions=functions, aliases=aliases)
    if expression.result not in (None, "boolean"):
        found = expression.result if isinstance(expression.result, str) else "a nested value"
        raise RefusedSql(f"a condition is true or false; this is {found}", "Compare it with something.", offset=0)
    return expression


def _read(
    text: str, schema: StructType | None, functions: frozenset[str] | None, aliases: Mapping[str, str]
) -> Expression:
    tree = parse_scalar(text)
    writer = ScalarWriter(_SchemaScope(schema, aliases), functions)
    try:
        written = writer.write(tree)
    except RecursionError:
        raise RefusedSql("it is nested too deeply", "Split it up.") from None
    return Expression(
        sql=written.sql,
        inputs=frozenset(one.path for one in written.inputs),
        user_functions=frozenset(writer.used_functions),
        result=written.type,
    )
