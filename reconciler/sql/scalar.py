"""Walk a scalar expression: every node is on the list and printed from its parts, or the whole is refused.

There is no fallback printer. A node's arguments are consumed one by one; one that is left over is a refusal, so what a
later sqlglot adds to its tree is refused until this module knows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, Protocol, cast

import msgspec
from sqlglot import exp

from reconciler.model.suggestions import did_you_mean
from reconciler.model.table import TableIdent
from reconciler.model.types import FieldPath, ListType, MapType, StructType, Type, fields_of
from reconciler.sql import functions as f
from reconciler.sql.literals import quote_name, quote_string
from reconciler.sql.parsing import offset_of
from reconciler.sql.refusals import RefusedSql
from reconciler.sql.spark_types import MOMENTS, arithmetic_type, common_type, write_type

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_SUFFIXED = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(L|S|Y|D|F|BD)", re.ASCII | re.IGNORECASE)
_SUFFIX_TYPES = {"L": "long", "D": "double", "F": "float"}
_HEX = re.compile(r"[0-9A-Fa-f]*", re.ASCII)
_STARTS_WITH_DIGIT = re.compile(r"\s*[+-]?\d", re.ASCII)
# Spark turns these strings into a moment wherever a date or timestamp is wanted
_MOVING = re.compile(r"\s*(epoch|now|today|yesterday|tomorrow)\b.*", re.IGNORECASE | re.DOTALL)
_INTERVAL = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_TYPED_LITERALS = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")

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
_WHAT: Mapping[type[exp.Expr], tuple[str, str]] = {
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


def refuse(node: exp.Expr, message: str, hint: str = "") -> NoReturn:
    """Raise RefusedSql at a node."""
    raise RefusedSql(message, hint, offset=offset_of(node))


def expect(node: exp.Expr, *names: str) -> None:
    """Refuse a node that holds more than the named arguments."""
    extra = next((key for key, value in node.args.items() if value and key not in names), None)
    if extra is not None:
        refuse(node, f"'{extra.rstrip('_')}' is not allowed in {_kind(node)}", "Write it without.")


def part(node: exp.Expr, name: str) -> exp.Expr:
    """Return a node's argument; refuse when it is missing."""
    found = node.args.get(name)
    if not isinstance(found, exp.Expr):
        refuse(node, f"{_kind(node)} is not complete", "Check the syntax.")
    return found


def _kind(node: exp.Expr) -> str:
    return type(node).__name__.upper()


class ScalarWriter:
    """Print expressions over one scope; `user_functions` None means any well-formed user function."""

    def __init__(self, scope: Scope, user_functions: frozenset[str] | None) -> None:
        self.scope = scope
        self.user_functions = user_functions
        self.used_functions: set[str] = set()
        self._lambdas: list[dict[str, Type | None]] = []
        self._writers: dict[type[exp.Expr], Callable[[exp.Expr], Written]] = {
            **dict.fromkeys(_BINARY, self._binary),
            exp.Anonymous: lambda node: self._function(cast(exp.Anonymous, node)),
            exp.Between: self._between,
            exp.BitwiseNot: lambda node: self._prefix(node, "~"),
            exp.Boolean: self._constant,
            exp.Bracket: self._bracket,
            exp.Case: self._case,
            exp.Cast: self._typed_literal,
            exp.Column: lambda node: self._column(cast(exp.Column, node)),
            exp.Dot: self._dot,
            exp.Escape: lambda node: self._like(node),
            exp.Extract: self._extract,
            exp.HexString: self._constant,
            exp.ILike: lambda node: self._like(node),
            exp.If: self._if,
            exp.In: lambda node: self._in(node),
            exp.Interval: self._interval,
            exp.Is: lambda node: self._is(node),
            exp.Like: lambda node: self._like(node),
            exp.Literal: self._constant,
            exp.Neg: lambda node: self._prefix(node, "-"),
            exp.Not: self._not,
            exp.Null: self._constant,
            exp.Paren: self._paren,
            exp.RawString: self._constant,
            exp.TryCast: self._cast,
        }

    def write(self, node: exp.Expr) -> Written:
        """Print one node and all below it; raise RefusedSql."""
        writer = self._writers.get(type(node))
        if writer is None:
            refuse(node, *_WHAT.get(type(node), (f"{_kind(node)} is not allowed here", "")))
        return writer(node)

    # ------------------------------------------------------------ constants

    def _constant(self, node: exp.Expr) -> Written:
        expect(node, "this", "is_string")
        match node:
            case exp.Null():
                return Written("NULL", is_constant=True)
            case exp.Boolean():
                return Written("TRUE" if node.this else "FALSE", "boolean", is_constant=True)
            case exp.HexString() if _HEX.fullmatch(str(node.this)):
                return Written(f"X'{str(node.this).upper()}'", "binary", is_constant=True)
            case exp.Literal(is_string=False):
                return self._number(node)
            case exp.Literal() | exp.RawString():
                value = str(node.this)
                if _MOVING.fullmatch(value):
                    hint = "Write the date itself; to compare text write LIKE."
                    refuse(node, f"Spark may read '{value.strip()}' as a moment that moves", hint)
                return Written(quote_string(value), "string", is_constant=True)
        refuse(node, f"{_kind(node)} is not allowed here")

    def _number(self, node: exp.Expr) -> Written:
        text = str(node.this)
        match = _NUMBER.fullmatch(text)
        if match is None or len(text) > 64:
            refuse(node, f"'{text[:40]}' is not a number", "Write it in decimal digits.")
        if match[2]:
            return Written(text, "double", is_constant=True)
        if "." in text:
            whole, _, fraction = text.partition(".")
            digits = len(whole.lstrip("0")) + len(fraction)
            return Written(text, f"decimal({max(digits, len(fraction), 1)},{len(fraction)})", is_constant=True)
        return Written(text, "int" if int(text) < 2**31 else "long", is_constant=True)

    def _typed_literal(self, node: exp.Expr) -> Written:
        """Print `DATE '2026-10-01'`; sqlglot keeps Cast for it and TryCast for what is written CAST."""
        expect(node, "this", "to")
        literal = part(node, "this")
        word, type_ = write_type(part(node, "to"))
        if not isinstance(literal, exp.Literal) or not literal.is_string or word not in _TYPED_LITERALS:
            refuse(node, "only a date or a timestamp is written as a typed literal", "Write CAST(x AS type).")
        _check_moment(literal)
        return Written(f"{word} {quote_string(literal.this)}", type_, is_constant=True)

    def _interval(self, node: exp.Expr) -> Written:
        expect(node, "this", "unit")
        amount, unit = part(node, "this"), part(node, "unit")
        word = unit.name.upper() if isinstance(unit, exp.Var) else ""
        if not isinstance(amount, exp.Literal) or not _INTERVAL.fullmatch(amount.name) or word not in f.INTERVAL_UNITS:
            refuse(node, "an interval is one number and one unit", "Write INTERVAL '1' DAY.")
        return Written(f"INTERVAL {quote_string(amount.name)} {word}", is_constant=True)

    # ------------------------------------------------------------ names

    def _column(self, node: exp.Column) -> Written:
        expect(node, "this", "table", "db", "catalog")
        parts = node.parts
        if not all(type(p) is exp.Identifier for p in parts):
            refuse(node, *_WHAT[exp.Star])
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
            refuse(name, "a map's value is not reached with a dot", f"Write [{quote_string(name.name)}].")
        field = next((field for field in fields_of(parent) if field.name == name.name), None)
        if field is None or not isinstance(parent, StructType):
            known = [other.name for other in fields_of(parent)] if isinstance(parent, StructType) else []
            hint = did_you_mean(name.name, known) or (f"It has {_few(known)}." if known else "It has no fields.")
            refuse(name, f"{written.sql} has no field '{name.name}'", hint)
        type_: Type = ListType(element=field.type, element_required=False) if is_list else field.type
        below = ("element", name.name) if is_list else (name.name,)
        inputs = frozenset(_below(one, below) for one in written.inputs) if _is_path(written) else written.inputs
        return Written(sql, type_, inputs)

    def _dot(self, node: exp.Expr) -> Written:
        expect(node, "this", "expression")
        name = part(node, "expression")
        if type(name) is not exp.Identifier:
            hint = "Built-in functions have no prefix; a user function is called `package.module:function`(x)."
            refuse(node, "a function with a dotted name is not allowed", hint)
        return self._field(self.write(part(node, "this")), name)

    def _bracket(self, node: exp.Expr) -> Written:
        expect(node, "this", "expressions")
        if len(node.expressions) != 1:
            refuse(node, "brackets take one index or key", "Write a[0] or m['key'].")
        base, index = self.write(part(node, "this")), self.write(node.expressions[0])
        written = _merge(f"{base.sql}[{index.sql}]", None, (base, index))
        return msgspec.structs.replace(written, type=_element(base.type))

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
                type_ = "string" if type_ is None or isinstance(type_, str) and type_ != "binary" else type_
            else:
                type_ = arithmetic_type(operator, left.type, right.type)
            merged = _merge(f"{left.sql} {operator} {right.sql}", type_, (left, right))
            if operator == "||":
                _check_constant_text(merged, (left, right), operation)
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
                return _merge(f"{left.sql} NOT RLIKE {right.sql}", "boolean", (left, right))
        written = self.write(inner)
        return msgspec.structs.replace(written, sql=f"NOT {written.sql}", type="boolean")

    def _in(self, node: exp.Expr, negation: str = "") -> Written:
        if node.args.get("query"):
            refuse(node, *_WHAT[exp.Subquery])
        if not node.expressions:
            refuse(node, "IN takes a list of values", "Write a IN (1, 2).")
        expect(node, "this", "expressions")
        left, *values = [self.write(part(node, "this")), *map(self.write, node.expressions)]
        sql = f"{left.sql} {negation}IN ({_join(values)})"
        return _merge(sql, "boolean", (left, *values))

    def _is(self, node: exp.Expr, negation: str = "") -> Written:
        expect(node, "this", "expression")
        value = part(node, "expression")
        if not isinstance(value, exp.Null | exp.Boolean):
            refuse(node, "IS takes NULL, TRUE or FALSE", "Write a <=> b.")
        left = self.write(part(node, "this"))
        return _merge(f"{left.sql} IS {negation}{self._constant(value).sql}", "boolean", (left,))

    def _between(self, node: exp.Expr, negation: str = "") -> Written:
        expect(node, "this", "low", "high")
        parts = [self.write(part(node, name)) for name in ("this", "low", "high")]
        sql = f"{parts[0].sql} {negation}BETWEEN {parts[1].sql} AND {parts[2].sql}"
        return _merge(sql, "boolean", parts)

    def _like(self, node: exp.Expr) -> Written:
        escape = ""
        if isinstance(node, exp.Escape):
            expect(node, "this", "expression")
            char = part(node, "expression")
            if not isinstance(char, exp.Literal) or not char.is_string or len(char.this) != 1:
                refuse(node, "ESCAPE takes one character", "Write ESCAPE '/'.")
            escape, node = f" ESCAPE {quote_string(char.this)}", part(node, "this")
        if not isinstance(node, exp.Like | exp.ILike):
            refuse(node, "ESCAPE belongs to LIKE", "Write a LIKE 'x%' ESCAPE '/'.")
        expect(node, "this", "expression", "negate")
        pattern = part(node, "expression")
        if isinstance(pattern, exp.Any | exp.All | exp.Tuple):
            refuse(node, "LIKE takes one pattern", "Write a LIKE 'x%' OR a LIKE 'y%'.")
        left = self.write(part(node, "this"))
        if isinstance(pattern, exp.Literal) and pattern.is_string:
            right = Written(quote_string(pattern.this), "string", is_constant=True)
        else:
            right = self.write(pattern)
        word = f"{'NOT ' if node.args.get('negate') else ''}{'ILIKE' if isinstance(node, exp.ILike) else 'LIKE'}"
        return _merge(f"{left.sql} {word} {right.sql}{escape}", "boolean", (left, right))

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
        return _merge(" ".join([*words, "END"]), _common(results), parts)

    def _if(self, node: exp.Expr) -> Written:
        expect(node, "this", "true", "false")
        parts = [self.write(part(node, name)) for name in ("this", "true", "false")]
        return _merge(f"if({_join(parts)})", _common(parts[1:]), parts)

    def _cast(self, node: exp.Expr) -> Written:
        expect(node, "this", "to", "safe")
        operand = part(node, "this")
        inner = self.write(operand)
        word, type_ = write_type(part(node, "to"))
        if type_ in MOMENTS and isinstance(operand, exp.Literal) and operand.is_string:
            _check_moment(operand)
        name = "TRY_CAST" if node.args.get("safe") else "CAST"
        return _merge(f"{name}({inner.sql} AS {word})", type_, (inner,))

    def _extract(self, node: exp.Expr) -> Written:
        expect(node, "this", "expression")
        field = part(node, "this").name.upper()
        if field not in f.EXTRACT_FIELDS:
            refuse(node, f"'{field}' is not a field of a moment", "Write EXTRACT(YEAR FROM x).")
        inner = self.write(part(node, "expression"))
        return _merge(f"EXTRACT({field} FROM {inner.sql})", None if field == "SECOND" else "int", (inner,))

    # ------------------------------------------------------------ functions

    def _function(self, node: exp.Anonymous) -> Written:
        expect(node, "this", "expressions")
        if isinstance(node.this, exp.Identifier):
            return self._user_function(node, node.this.name)
        name = str(node.this).lower() if str(node.this).isascii() else str(node.this)
        if name not in f.SCALAR:
            self.refuse_function(node, name)
        if not node.expressions and name not in f.NO_ARGUMENTS:
            refuse(node, f"{name}() without arguments is not allowed", "Give it a column of the row.")
        arguments: list[Written] = []
        for position, argument in enumerate(node.expressions):
            arguments.append(self._argument(name, position, len(node.expressions), argument, arguments))
        type_ = _result_type(f.SCALAR[name], arguments)
        if name in f.UNIT_FUNCTIONS and len(arguments) == 3 and name.endswith("add"):
            type_ = None
        written = _merge(f"{name}({_join(arguments)})", type_, arguments)
        if name not in _MAY_BE_CONSTANT:
            _check_constant_text(written, arguments, node)
        return written

    def refuse_function(self, node: exp.Expr, name: str) -> NoReturn:
        """Refuse a function that is not on the list, with the reason where there is a special one."""
        if name in f.WHY_NOT:
            refuse(node, f"{name}() is not allowed: {f.WHY_NOT[name]}", "Write a value, or a column of the row.")
        if name in f.AGGREGATES or name in f.WINDOW_ONLY:
            refuse(node, f"{name}() is not allowed here: it reads many rows", "Aggregate in a materialized view.")
        hint = did_you_mean(name, f.SCALAR) or "Use one of Spark's deterministic built-in functions."
        refuse(node, f"the function '{name[:80]}' is not on the list of allowed functions", hint)

    def _user_function(self, node: exp.Anonymous, name: str) -> Written:
        if not f.USER_FUNCTION.fullmatch(name):
            refuse(node, f"'{name[:80]}' is not a user function", "Write `package.module:function`(x).")
        if self.user_functions is not None and name not in self.user_functions:
            hint = did_you_mean(name, self.user_functions) or "Its catalog must list it first."
            refuse(node, f"the user function '{name}' is not allowed by the catalog", hint)
        arguments = [self.write(argument) for argument in node.expressions]
        self.used_functions.add(name)
        return _merge(f"{quote_name(name)}({_join(arguments)})", None, arguments)

    def _argument(self, name: str, position: int, count: int, node: exp.Expr, before: Sequence[Written]) -> Written:
        if isinstance(node, exp.Lambda):
            allowed = f.LAMBDAS.get(name, {}).get(position)
            if allowed is None:
                refuse(node, f"{name}() takes no lambda here", "Give it a value.")
            return self._lambda(node, allowed, before)
        if f.LAMBDAS.get(name, {}).get(position) and name != "array_sort":
            refuse(node, f"{name}() takes a lambda here", "Write x -> expression.")
        if name in f.UNIT_FUNCTIONS and position == 0 and count == 3:
            unit = node.name.upper() if isinstance(node, exp.Column) and len(node.parts) == 1 else ""
            if unit not in f.UNITS:
                refuse(node, f"{name}() with three arguments starts with a unit", "Write DAY, MONTH, HOUR or the like.")
            return Written(unit, is_constant=True)
        return self.write(node)

    def _lambda(self, node: exp.Lambda, allowed: tuple[int, ...], before: Sequence[Written]) -> Written:
        expect(node, "this", "expressions")
        names = [n.name for n in node.expressions if type(n) is exp.Identifier]
        taken = {name.casefold() for name in (*self.scope.names(), *(v for vs in self._lambdas for v in vs))}
        if len(names) != len(node.expressions) or len(names) not in allowed:
            refuse(node, f"this lambda takes {' or '.join(map(str, allowed))} variables", "Write (x, y) -> expression.")
        for name in names:
            if name.casefold() in taken:
                refuse(node, f"the lambda variable '{name}' is taken", "Give the variable another name.")
            taken.add(name.casefold())
        first = before[0].type if before else None
        element = first.element if isinstance(first, ListType) and len(before) == 1 else None
        types: list[Type | None] = [element, *([None] * len(names))]
        self._lambdas.append(dict(zip(names, types, strict=False)))
        body = self.write(part(node, "this"))
        self._lambdas.pop()
        heads = ", ".join(quote_name(name) for name in names)
        heads = f"({heads})" if len(names) > 1 else heads
        is_constant = not body.inputs and not self._lambdas
        return Written(f"{heads} -> {body.sql}", body.type, body.inputs, is_constant)


_MAY_BE_CONSTANT = frozenset(
    """array map struct named_struct to_timestamp to_timestamp_ntz to_timestamp_ltz try_to_timestamp timestamp
    make_timestamp make_timestamp_ntz make_timestamp_ltz from_utc_timestamp to_utc_timestamp convert_timezone date_trunc
    trunc to_number try_to_number timestampadd dateadd date_part datepart""".split()
)
"""Their results are no text, though their types are not worked out here."""


def _check_moment(literal: exp.Expr) -> None:
    if not _STARTS_WITH_DIGIT.match(literal.name):
        refuse(
            literal, f"'{literal.name[:40]}' is not a fixed moment", "Write it as 2026-10-01 or 2026-10-01 12:00:00."
        )


def _check_constant_text(written: Written, parts: Sequence[Written], node: exp.Expr) -> None:
    """Refuse text computed from constant texts alone: `concat('to', 'day')` would be a moment that moves."""
    if written.is_constant and written.type in (None, "string") and any(p.type in (None, "string") for p in parts):
        refuse(node, "this computes a text from constants alone", "Write the result itself.")


def _merge(sql: str, type_: Type | None, parts: Sequence[Written]) -> Written:
    inputs = frozenset().union(*(p.inputs for p in parts))
    return Written(sql, type_, inputs, all(p.is_constant for p in parts))


def _join(parts: Sequence[Written]) -> str:
    return ", ".join(p.sql for p in parts)


def _common(parts: Sequence[Written]) -> Type | None:
    """Return the common type, NULLs aside."""
    return common_type([p.type for p in parts if p.sql != "NULL"] or [None])


def _element(type_: Type | None) -> Type | None:
    match type_:
        case ListType():
            return type_.element
        case MapType():
            return type_.value
    return None


def _result_type(rule: str, arguments: Sequence[Written]) -> Type | None:
    first = arguments[0].type if arguments else None
    match rule:
        case "unknown":
            return None
        case "first":
            return first
        case "same":
            return _common(arguments)
        case "concat":
            arrays = _common(arguments)
            if isinstance(arrays, ListType):
                return arrays
            return "string" if all(isinstance(a.type, str) and a.type != "binary" for a in arguments) else None
        case "second":
            return _common(arguments[1:])
        case "arithmetic":
            same = _common(arguments)
            return same if isinstance(same, str) and "decimal" not in same else None
        case "element":
            return _element(first)
        case "string":
            return None if "binary" in {a.type for a in arguments} else "string"
    return rule


def _is_path(written: Written) -> bool:
    """Whether it is a plain column path, so that a field below it narrows what is read."""
    return len(written.inputs) == 1 and not any(char in written.sql for char in "([ ")


def _below(one: Input, names: FieldPath) -> Input:
    return msgspec.structs.replace(one, path=(*one.path, *names))


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
