"""Expressions of a query: scalar ones, and where a clause allows it aggregates and window functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from sqlglot import exp

from reconciler.model.types import Type
from reconciler.sql import functions as f
from reconciler.sql.nodes import Scope, Written, expect, part, refusal
from reconciler.sql.scalar import ScalarWriter
from reconciler.sql.shapes import Call
from reconciler.sql.spark_types import average_type, median_type, sum_type

_BOUNDS = {"UNBOUNDED", "CURRENT ROW"}
_RULES: Mapping[str, Callable[[Type | None], Type | None]] = {
    "unknown": lambda type_: None,
    "first": lambda type_: type_,
    "sum": sum_type,
    "average": average_type,
    "median": median_type,
}
"""How an aggregate's type follows from its argument's; any other rule is the type itself."""


class QueryWriter(ScalarWriter):
    """Print an expression of one clause; `calls` and `has_window` say what it used."""

    def __init__(
        self,
        scope: Scope,
        user_functions: frozenset[str] | None,
        *,
        aggregates: bool = False,
        windows: bool = False,
    ) -> None:
        super().__init__(scope, user_functions)
        self.calls: list[Call] = []
        self.has_window = False
        self._aggregates = aggregates
        self._is_over = False
        if aggregates:
            self._writers[exp.Filter] = self._filter
        if windows:
            self._writers[exp.Window] = self._window

    def _function(self, node: exp.Expr) -> Written:
        name = str(node.this).lower() if isinstance(node.this, str) and node.this.isascii() else ""
        if self._is_over and name in f.WINDOW_ONLY:
            self._is_over = False
            return self._call(node, name, f.WINDOW_ONLY[name])
        if self._aggregates and name in f.AGGREGATES and not self._lambdas:
            return self._aggregate(node, name)
        return super()._function(node)

    def _aggregate(self, node: exp.Expr, name: str) -> Written:
        is_over, self._is_over = self._is_over, False
        self._aggregates = is_over
        written = self._call(node, name, f.AGGREGATES[name])
        self._aggregates = True
        return written

    def _call(self, node: exp.Expr, name: str, rule: str) -> Written:
        expect(node, "this", "expressions")
        arguments = list(node.expressions)
        if name == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
            expect(arguments[0])
            self.calls.append(Call(function=name, argument=None, type=None))
            return Written("count(*)", "long")
        if not arguments and name not in {"row_number", "rank", "dense_rank", "percent_rank", "cume_dist"}:
            raise refusal(node, f"{name}() needs an argument", f"Write {name}(column).")
        is_distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
        if is_distinct:
            expect(arguments[0], "expressions")
            arguments = list(arguments[0].expressions)
        parts = [self.write(argument) for argument in arguments]
        inside = ", ".join(p.sql for p in parts)
        first = parts[0].type if parts else None
        type_ = _RULES[rule](first) if rule in _RULES else rule
        if name in f.AGGREGATES:
            self.calls.append(Call(function=name, argument=inside, type=first, is_distinct=is_distinct))
        inputs = frozenset(one for p in parts for one in p.inputs)
        return Written(f"{name}({'DISTINCT ' if is_distinct else ''}{inside})", type_, inputs)

    def _filter(self, node: exp.Expr) -> Written:
        expect(node, "this", "expression")
        call, where = part(node, "this"), part(node, "expression")
        expect(where, "this")
        if not isinstance(call, exp.Anonymous) or str(call.this).lower() not in f.AGGREGATES:
            raise refusal(node, "FILTER belongs to an aggregate", "Write sum(x) FILTER (WHERE condition).")
        written = self.write(call)
        self._aggregates = False
        condition = self.write(part(where, "this"))
        self._aggregates = True
        self.calls[-1] = msgspec.structs.replace(self.calls[-1], function=f"{self.calls[-1].function} FILTER")
        sql = f"{written.sql} FILTER (WHERE {condition.sql})"
        return Written(sql, written.type, written.inputs | condition.inputs)

    def _window(self, node: exp.Expr) -> Written:
        expect(node, "this", "partition_by", "order", "spec", "over")
        call = part(node, "this")
        if not isinstance(call, exp.Anonymous) or node.args.get("over") != "OVER":
            raise refusal(node, "a window belongs to a function", "Write rank() OVER (PARTITION BY a ORDER BY b).")
        self.has_window = self._is_over = True
        before = len(self.calls)
        name = str(call.this).lower()
        if name not in f.WINDOW_ONLY and name not in f.AGGREGATES:
            self.refuse_function(call, name)
        # an aggregate inside a window reads the groups, which may be aggregates themselves
        outer, self._aggregates = self._aggregates, True
        written = self._function(call)
        self._aggregates, self._is_over = outer, False
        del self.calls[before:]
        words, inputs = [], written.inputs
        keys = [self.write(key) for key in node.args.get("partition_by") or ()]
        if keys:
            words.append(f"PARTITION BY {', '.join(key.sql for key in keys)}")
        if node.args.get("order"):
            text, ordered = self.order(part(node, "order"))
            words.append(text)
            keys += ordered
        if node.args.get("spec"):
            words.append(_frame(part(node, "spec")))
        inputs = inputs.union(*(key.inputs for key in keys))
        return Written(f"{written.sql} OVER ({' '.join(words)})", written.type, inputs)

    def order(self, node: exp.Expr) -> tuple[str, list[Written]]:
        """Print an ORDER BY clause; NULLS is always said."""
        expect(node, "expressions")
        keys: list[Written] = []
        texts: list[str] = []
        for ordered in node.expressions:
            expect(ordered, "this", "desc", "nulls_first")
            keys.append(self.write(part(ordered, "this")))
            direction = "DESC" if ordered.args.get("desc") else "ASC"
            nulls = "FIRST" if ordered.args.get("nulls_first") else "LAST"
            texts.append(f"{keys[-1].sql} {direction} NULLS {nulls}")
        return f"ORDER BY {', '.join(texts)}", keys


def _frame(node: exp.Expr) -> str:
    expect(node, "kind", "start", "start_side", "end", "end_side")
    kind = str(node.args.get("kind") or "").upper()
    if kind not in {"ROWS", "RANGE"}:
        raise refusal(node, "a window's frame is ROWS or RANGE", "Write ROWS BETWEEN 1 PRECEDING AND CURRENT ROW.")
    sides: Sequence[str] = ("start", "end") if node.args.get("end") else ("start",)
    bounds = [_bound(node, side) for side in sides]
    return f"{kind} BETWEEN {bounds[0]} AND {bounds[1]}" if len(bounds) == 2 else f"{kind} {bounds[0]}"


def _bound(node: exp.Expr, side: str) -> str:
    bound, direction = node.args.get(side), str(node.args.get(f"{side}_side") or "").upper()
    if isinstance(bound, exp.Literal) and not bound.is_string and bound.name.isascii() and bound.name.isdigit():
        text = bound.name
    elif isinstance(bound, str) and bound.upper() in _BOUNDS:
        text = bound.upper()
    else:
        raise refusal(node, "a frame's bound is a number, UNBOUNDED or CURRENT ROW", "Write 1 PRECEDING.")
    if direction not in {"", "PRECEDING", "FOLLOWING"}:
        raise refusal(node, "a frame's bound is PRECEDING or FOLLOWING", "Write 1 PRECEDING.")
    return f"{text} {direction}".strip()
