"""Walk a scalar expression: every node is on the list and printed from its parts, or the whole is refused.

There is no fallback printer. A node's arguments are consumed one by one; one that is left over is a refusal, so what a
later sqlglot adds to its tree is refused until this module knows it. Function calls are added in `scalar`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import msgspec
from sqlglot import exp

from reconciler.model.suggestions import did_you_mean
from reconciler.model.types import FieldPath, ListType, MapType, StructType, Type, fields_of
from reconciler.sql import functions as f
from reconciler.sql.constants import check_fixed, check_moment, write_constant, write_interval, write_typed_literal
from reconciler.sql.literals import quote_name, quote_string
from reconciler.sql.nodes import (
    WHAT,
    Input,
    Scope,
    Written,
    check_constant_text,
    common,
    element,
    expect,
    few,
    join,
    kind_of,
    merge,
    part,
    refusal,
)
from reconciler.sql.parsing import offset_of
from reconciler.sql.spark_types import MOMENTS, arithmetic_type, common_type, write_type

_SUFFIXED = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(L|S|Y|D|F|BD)", re.ASCII | re.IGNORECASE)
_MOMENT = re.compile(r"\b(DATE|TIMESTAMP|TIMESTAMP_NTZ)\b")
_TEXT = re.compile(r"\bSTRING\b")
_SUFFIX_TYPES = {"L": "long", "D": "double", "F": "float"}

ARITHMETIC: Mapping[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "DIV",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
}
LOGIC: Mapping[type[exp.Expr], str] = {
    exp.And: "AND",
    exp.Or: "OR",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.NullSafeEQ: "<=>",
    exp.RegexpLike: "RLIKE",
}
_BINARY: Mapping[type[exp.Expr], str] = {**ARITHMETIC, **LOGIC, exp.DPipe: "||"}


class OperatorWriter:
    """Print expressions over one scope, but for function calls."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._lambdas: list[dict[str, Type | None]] = []
        self._writers: dict[type[exp.Expr], Callable[[exp.Expr], Written]] = {
            **dict.fromkeys(_BINARY, self._binary),
            exp.Between: self._between,
            exp.BitwiseNot: lambda node: self._prefix(node, "~"),
            exp.Boolean: write_constant,
            exp.Bracket: self._bracket,
            exp.Case: self._case,
            exp.Cast: write_typed_literal,
            exp.Column: self._column,
            exp.Dot: self._dot,
            exp.Escape: self._like,
            exp.Extract: self._extract,
            exp.HexString: write_constant,
            exp.ILike: self._like,
            exp.If: self._if,
            exp.In: self._in,
            exp.Interval: write_interval,
            exp.Is: self._is,
            exp.Like: self._like,
            exp.Literal: write_constant,
            exp.Neg: lambda node: self._prefix(node, "-"),
            exp.Not: self._not,
            exp.Null: write_constant,
            exp.Paren: self._paren,
            exp.RawString: write_constant,
            exp.TryCast: self._cast,
        }

    def write(self, node: exp.Expr) -> Written:
        """Print one node and all below it; raise RefusedSql."""
        writer = self._writers.get(type(node))
        if writer is None:
            raise refusal(node, *WHAT.get(type(node), (f"{kind_of(node)} is not allowed here", "")))
        return writer(node)

    # ------------------------------------------------------------ names

    def _column(self, node: exp.Expr) -> Written:
        expect(node, "this", "table", "db", "catalog")
        parts = cast(exp.Column, node).parts
        if not all(type(p) is exp.Identifier for p in parts):
            raise refusal(node, *WHAT[exp.Star])
        identifiers = cast("list[exp.Identifier]", parts)
        head = identifiers[0]
        for variables in reversed(self._lambdas):
            if head.name in variables:
                return self._fields(Written(quote_name(head.name), variables[head.name]), identifiers[1:])
        if len(identifiers) == 1 and not head.args.get("quoted") and head.name not in self.scope.names():
            suffixed = _SUFFIXED.fullmatch(head.name)
            if suffixed:
                return Written(head.name.upper(), _SUFFIX_TYPES.get(suffixed[3].upper()), is_constant=True)
        found, taken = self.scope.find(identifiers)
        return self._fields(found, identifiers[taken:])

    def _fields(self, written: Written, names: Sequence[exp.Identifier]) -> Written:
        for name in names:
            written = self._field(written, name)
        return written

    def _field(self, written: Written, name: exp.Identifier) -> Written:
        """Print `struct.field`, and `list.field`, which Spark reads as the field of each element."""
        is_list = isinstance(written.type, ListType)
        parent = written.type.element if isinstance(written.type, ListType) else written.type
        sql = f"{written.sql}.{quote_name(name.name, offset_of(name))}"
        if parent is None:
            return msgspec.structs.replace(written, sql=sql, type=None)
        if isinstance(parent, MapType):
            raise refusal(name, "a map's value is not reached with a dot", f"Write [{quote_string(name.name)}].")
        field = next((field for field in fields_of(parent) if field.name == name.name), None)
        if field is None or not isinstance(parent, StructType):
            known = [other.name for other in fields_of(parent)] if isinstance(parent, StructType) else []
            hint = did_you_mean(name.name, known) or (f"It has {few(known)}." if known else "It has no fields.")
            raise refusal(name, f"{written.sql} has no field '{name.name}'", hint)
        type_: Type = ListType(element=field.type, element_required=False) if is_list else field.type
        below = ("element", name.name) if is_list else (name.name,)
        inputs = frozenset(_below(one, below) for one in written.inputs) if _is_path(written) else written.inputs
        return Written(sql, type_, inputs, written.is_constant)

    def _dot(self, node: exp.Expr) -> Written:
        expect(node, "this", "expression")
        name = part(node, "expression")
        if type(name) is not exp.Identifier:
            hint = "Built-in functions have no prefix; a user function is called `package.module:function`(x)."
            raise refusal(node, "a function with a dotted name is not allowed", hint)
        return self._field(self.write(part(node, "this")), name)

    def _bracket(self, node: exp.Expr) -> Written:
        expect(node, "this", "expressions")
        if len(node.expressions) != 1:
            raise refusal(node, "brackets take one index or key", "Write a[0] or m['key'].")
        base, index = self.write(part(node, "this")), self.write(node.expressions[0])
        written = merge(f"{base.sql}[{index.sql}]", None, (base, index))
        return msgspec.structs.replace(written, type=element(base.type))

    # ------------------------------------------------------------ operators

    def _binary(self, node: exp.Expr) -> Written:
        """Print a chain of operators; its left spine may be long, so it is walked without recursion."""
        spine: list[exp.Expr] = []
        while type(node) in _BINARY:
            expect(node, "this", "expression", "typed", "safe")
            spine.append(node)
            node = part(node, "this")
        left = self.write(node)
        for operation in reversed(spine):
            right = self.write(part(operation, "expression"))
            operator = _BINARY[type(operation)]
            if type(operation) in LOGIC:
                type_: Type | None = "boolean"
            elif operator == "||":
                type_ = common_type((left.type, right.type))
                type_ = "string" if not isinstance(type_, ListType) and type_ != "binary" else type_
            else:
                type_ = arithmetic_type(operator, *operand_types(left, right))
            merged = merge(f"{left.sql} {operator} {right.sql}", type_, (left, right))
            if operator == "||":
                check_constant_text(merged, (left, right), operation)
            left = merged
        return left

    def _prefix(self, node: exp.Expr, operator: str) -> Written:
        expect(node, "this")
        inner = self.write(part(node, "this"))
        space = " " if inner.sql.startswith("-") else ""
        type_ = arithmetic_type("*", inner.type, inner.type) and inner.type
        return msgspec.structs.replace(inner, sql=f"{operator}{space}{inner.sql}", type=type_)

    def _paren(self, node: exp.Expr) -> Written:
        expect(node, "this")
        inner = self.write(part(node, "this"))
        return msgspec.structs.replace(inner, sql=f"({inner.sql})")

    def _not(self, node: exp.Expr) -> Written:
        expect(node, "this")
        inner = part(node, "this")
        match inner:
            case exp.In():
                return self._in(inner, "NOT ")
            case exp.Is():
                return self._is(inner, "NOT ")
            case exp.Between():
                return self._between(inner, "NOT ")
            case exp.RegexpLike():
                expect(inner, "this", "expression")
                left, right = self.write(part(inner, "this")), self.write(part(inner, "expression"))
                return merge(f"{left.sql} NOT RLIKE {right.sql}", "boolean", (left, right))
        written = self.write(inner)
        return msgspec.structs.replace(written, sql=f"NOT {written.sql}", type="boolean")

    def _in(self, node: exp.Expr, negation: str = "") -> Written:
        if node.args.get("query"):
            raise refusal(node, *WHAT[exp.Subquery])
        if not node.expressions:
            raise refusal(node, "IN takes a list of values", "Write a IN (1, 2).")
        expect(node, "this", "expressions")
        left, *values = [self.write(part(node, "this")), *map(self.write, node.expressions)]
        sql = f"{left.sql} {negation}IN ({join(values)})"
        return merge(sql, "boolean", (left, *values))

    def _is(self, node: exp.Expr, negation: str = "") -> Written:
        expect(node, "this", "expression")
        value = part(node, "expression")
        if not isinstance(value, exp.Null | exp.Boolean):
            raise refusal(node, "IS takes NULL, TRUE or FALSE", "Write a <=> b.")
        left = self.write(part(node, "this"))
        return merge(f"{left.sql} IS {negation}{write_constant(value).sql}", "boolean", (left,))

    def _between(self, node: exp.Expr, negation: str = "") -> Written:
        expect(node, "this", "low", "high")
        parts = [self.write(part(node, name)) for name in ("this", "low", "high")]
        sql = f"{parts[0].sql} {negation}BETWEEN {parts[1].sql} AND {parts[2].sql}"
        return merge(sql, "boolean", parts)

    def _like(self, node: exp.Expr) -> Written:
        escape = ""
        if isinstance(node, exp.Escape):
            expect(node, "this", "expression")
            char = part(node, "expression")
            if not isinstance(char, exp.Literal) or not char.is_string or len(char.this) != 1:
                raise refusal(node, "ESCAPE takes one character", "Write ESCAPE '/'.")
            escape, node = f" ESCAPE {quote_string(char.this)}", part(node, "this")
        if not isinstance(node, exp.Like | exp.ILike):
            raise refusal(node, "ESCAPE belongs to LIKE", "Write a LIKE 'x%' ESCAPE '/'.")
        expect(node, "this", "expression", "negate")
        pattern = part(node, "expression")
        if isinstance(pattern, exp.Any | exp.All | exp.Tuple):
            raise refusal(node, "LIKE takes one pattern", "Write a LIKE 'x%' OR a LIKE 'y%'.")
        left = self.write(part(node, "this"))
        if isinstance(pattern, exp.Literal) and pattern.is_string:
            right = Written(quote_string(pattern.this), "string", is_constant=True)
        else:
            right = self.write(pattern)
        word = f"{'NOT ' if node.args.get('negate') else ''}{'ILIKE' if isinstance(node, exp.ILike) else 'LIKE'}"
        return merge(f"{left.sql} {word} {right.sql}{escape}", "boolean", (left, right))

    def _case(self, node: exp.Expr) -> Written:
        expect(node, "this", "ifs", "default")
        words, parts, results = ["CASE"], [], []
        if node.args.get("this"):
            parts.append(self.write(part(node, "this")))
            words.append(parts[0].sql)
        for branch in node.args.get("ifs") or ():
            expect(branch, "this", "true")
            condition, result = self.write(part(branch, "this")), self.write(part(branch, "true"))
            words.append(f"WHEN {condition.sql} THEN {result.sql}")
            parts += [condition, result]
            results.append(result)
        if node.args.get("default"):
            parts.append(self.write(part(node, "default")))
            results.append(parts[-1])
            words.append(f"ELSE {results[-1].sql}")
        return merge(" ".join([*words, "END"]), common(results), parts)

    def _if(self, node: exp.Expr) -> Written:
        expect(node, "this", "true", "false")
        parts = [self.write(part(node, name)) for name in ("this", "true", "false")]
        return merge(f"if({join(parts)})", common(parts[1:]), parts)

    def _cast(self, node: exp.Expr) -> Written:
        expect(node, "this", "to", "safe")
        operand = part(node, "this")
        inner = self.write(operand)
        word, type_ = write_type(part(node, "to"))
        if type_ in MOMENTS and isinstance(operand, exp.Literal) and operand.is_string:
            check_moment(operand)
        elif _MOMENT.search(word) or (_TEXT.search(word) and inner.type != "string"):
            check_fixed(operand, inner)
        name = "TRY_CAST" if node.args.get("safe") else "CAST"
        return merge(f"{name}({inner.sql} AS {word})", type_, (inner,))

    def _extract(self, node: exp.Expr) -> Written:
        expect(node, "this", "expression")
        field = part(node, "this").name.upper()
        if field not in f.EXTRACT_FIELDS:
            raise refusal(node, f"'{field}' is not a field of a moment", "Write EXTRACT(YEAR FROM x).")
        inner = self.write(part(node, "expression"))
        return merge(f"EXTRACT({field} FROM {inner.sql})", None if field == "SECOND" else "int", (inner,))


def operand_types(left: Written, right: Written) -> tuple[Type | None, Type | None]:
    """Return both types; beside a decimal, Spark takes an integer literal for a decimal of its own digits."""
    pair = (left, right)
    if not any(isinstance(p.type, str) and p.type.startswith("decimal") for p in pair):
        return left.type, right.type
    first, second = (f"decimal({len(p.sql)},0)" if p.sql.isdigit() else p.type for p in pair)
    return first, second


def _is_path(written: Written) -> bool:
    """Whether it is a plain column path, so that a field below it narrows what is read."""
    return len(written.inputs) == 1 and not any(char in written.sql for char in "([ ")


def _below(one: Input, names: FieldPath) -> Input:
    return msgspec.structs.replace(one, path=(*one.path, *names))
