"""Function calls of an expression: built-in ones from the list, user functions, lambdas."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import msgspec
from sqlglot import exp

from reconciler.model.suggestions import did_you_mean
from reconciler.model.types import ListType, Type
from reconciler.sql import functions as f
from reconciler.sql.constants import check_fixed
from reconciler.sql.literals import quote_name
from reconciler.sql.nodes import (
    Scope,
    Written,
    check_constant_text,
    common,
    element,
    expect,
    join,
    merge,
    part,
    refusal,
)
from reconciler.sql.operators import OperatorWriter, operand_types
from reconciler.sql.spark_types import (
    FLOATS,
    INTEGERS,
    MOMENTS,
    arithmetic_type,
    is_exact_number,
    rounded_type,
    whole_type,
)


class ScalarWriter(OperatorWriter):
    """Print expressions over one scope; `user_functions` None means any well-formed user function."""

    def __init__(self, scope: Scope, user_functions: frozenset[str] | None) -> None:
        super().__init__(scope)
        self.user_functions = user_functions
        self.used_functions: set[str] = set()
        self._writers[exp.Anonymous] = self._function

    def _function(self, node: exp.Expr) -> Written:
        expect(node, "this", "expressions")
        if isinstance(node.this, exp.Identifier):
            return self._user_function(node, node.this.name)
        name = str(node.this).lower() if str(node.this).isascii() else str(node.this)
        if name not in f.SCALAR:
            self.refuse_function(node, name)
        if not node.expressions and name not in f.NO_ARGUMENTS:
            raise refusal(node, f"{name}() without arguments is not allowed", "Give it a column of the row.")
        arguments: list[Written] = []
        for position, argument in enumerate(node.expressions):
            arguments.append(self._argument(name, position, len(node.expressions), argument, arguments))
        type_ = _result_type(f.SCALAR[name], arguments)
        if name in f.UNIT_FUNCTIONS and len(arguments) == 3:
            type_ = None if name.endswith("add") else "long"
        written = merge(f"{name}({join(arguments)})", type_, arguments)
        self._check_constants(node, name, written, arguments)
        return msgspec.structs.replace(written, is_constant=True) if name in f.FOLDED else written

    def _check_constants(self, node: exp.Expr, name: str, written: Written, arguments: Sequence[Written]) -> None:
        if written.type in MOMENTS:
            for argument, part_ in zip(node.expressions, arguments, strict=True):
                check_fixed(argument, part_)
        if name in f.SPELLING and written.is_constant:
            raise refusal(node, "this computes a text from constants alone", "Write the result itself.")
        if name not in _MAY_BE_CONSTANT:
            check_constant_text(written, arguments, node)

    def refuse_function(self, node: exp.Expr, name: str) -> NoReturn:
        """Refuse a function that is not on the list, with the reason where there is a special one."""
        if name in f.WHY_NOT:
            raise refusal(node, f"{name}() is not allowed: {f.WHY_NOT[name]}", "Write a value, or a column of the row.")
        if name in f.AGGREGATES or name in f.WINDOW_ONLY:
            raise refusal(node, f"{name}() is not allowed here: it reads many rows", "Use a materialized view.")
        hint = did_you_mean(name, f.SCALAR) or "Use one of Spark's deterministic built-in functions."
        raise refusal(node, f"the function '{name[:80]}' is not on the list of allowed functions", hint)

    def _user_function(self, node: exp.Expr, name: str) -> Written:
        if not f.USER_FUNCTION.fullmatch(name):
            raise refusal(node, f"'{name[:80]}' is not a user function", "Write `package.module:function`(x).")
        if self.user_functions is not None and name not in self.user_functions:
            hint = did_you_mean(name, self.user_functions) or "Its catalog must list it first."
            raise refusal(node, f"the user function '{name}' is not allowed by the catalog", hint)
        arguments = [self.write(argument) for argument in node.expressions]
        self.used_functions.add(name)
        return merge(f"{quote_name(name)}({join(arguments)})", None, arguments)

    def _argument(self, name: str, position: int, count: int, node: exp.Expr, before: Sequence[Written]) -> Written:
        if isinstance(node, exp.Lambda):
            allowed = f.LAMBDAS.get(name, {}).get(position)
            if allowed is None:
                raise refusal(node, f"{name}() takes no lambda here", "Give it a value.")
            return self._lambda(node, allowed, before)
        if f.LAMBDAS.get(name, {}).get(position) and name != "array_sort":
            raise refusal(node, f"{name}() takes a lambda here", "Write x -> expression.")
        if name in f.UNIT_FUNCTIONS and position == 0 and count == 3:
            unit = node.name.upper() if isinstance(node, exp.Column) and len(node.parts) == 1 else ""
            if unit not in f.UNITS:
                raise refusal(node, f"{name}() with three arguments starts with a unit", "Write DAY, MONTH or HOUR.")
            return Written(unit, is_constant=True)
        return self.write(node)

    def _lambda(self, node: exp.Lambda, allowed: tuple[int, ...], before: Sequence[Written]) -> Written:
        expect(node, "this", "expressions")
        names = [n.name for n in node.expressions if type(n) is exp.Identifier]
        taken = {name.casefold() for name in (*self.scope.names(), *(v for vs in self._lambdas for v in vs))}
        if len(names) != len(node.expressions) or len(names) not in allowed:
            raise refusal(node, f"it takes {' or '.join(map(str, allowed))} variables", "Write (x, y) -> expression.")
        for name in names:
            if name.casefold() in taken:
                raise refusal(node, f"the lambda variable '{name}' is taken", "Give the variable another name.")
            taken.add(name.casefold())
        first = before[0].type if before else None
        each = first.element if isinstance(first, ListType) and len(before) == 1 else None
        types: list[Type | None] = [each, *([None] * len(names))]
        self._lambdas.append(dict(zip(names, types, strict=False)))
        body = self.write(part(node, "this"))
        self._lambdas.pop()
        heads = ", ".join(quote_name(name) for name in names)
        heads = f"({heads})" if len(names) > 1 else heads
        is_constant = not body.inputs and not self._lambdas
        return Written(f"{heads} -> {body.sql}", body.type, body.inputs, is_constant)


_INTEGER = re.compile(r"-?[0-9]{1,3}")
_MAY_BE_CONSTANT = frozenset(
    f.words("""array map struct named_struct to_timestamp to_timestamp_ntz to_timestamp_ltz try_to_timestamp timestamp
    make_timestamp make_timestamp_ntz make_timestamp_ltz from_utc_timestamp to_utc_timestamp convert_timezone date_trunc
    trunc to_number try_to_number timestampadd dateadd date_part datepart""")
)
"""Their results are no text, though the types of some are not worked out here."""


_OF_FIRST: Mapping[str, Callable[[Type | None], Type | None]] = {
    "unknown": lambda type_: None,
    "first": lambda type_: type_,
    "number": lambda type_: type_ if is_exact_number(type_) or type_ in FLOATS else None,
    "shifted": lambda type_: type_ if type_ in INTEGERS else None,
    "zero": lambda type_: type_ if type_ in INTEGERS or type_ == "double" else None,
    "reversed": lambda type_: type_ if type_ is None or isinstance(type_, ListType) else "string",
}
"""How a result's type follows from that of the first argument alone."""


def _result_type(rule: str, arguments: Sequence[Written]) -> Type | None:
    first = arguments[0].type if arguments else None
    if rule in _OF_FIRST:
        return _OF_FIRST[rule](first)
    match rule:
        case "elements":
            return first if _fits(first, arguments[-1]) else None
        case "same":
            return common(arguments)
        case "concat":
            arrays = common(arguments)
            if isinstance(arrays, ListType):
                return arrays
            return "string" if all(isinstance(a.type, str) and a.type != "binary" for a in arguments) else None
        case "second":
            return common(arguments[1:])
        case "arithmetic":
            same = common(arguments)
            return same if isinstance(same, str) and "decimal" not in same else None
        case "element":
            return element(first)
        case "rounded":
            return rounded_type(first, _digits(arguments))
        case "whole":
            return whole_type(first) if len(arguments) == 1 else None
        case "quotient":
            return arithmetic_type("/", *operand_types(arguments[0], arguments[-1]))
        case "string":
            return None if "binary" in {a.type for a in arguments} else "string"
    return rule


def _fits(list_: Type | None, other: Written) -> bool:
    """Whether a list keeps its type beside another list, or a value; Spark widens the elements where these differ."""
    mine = element(list_)
    if not isinstance(mine, str) or other.sql == "NULL":
        return True
    return mine == (element(other.type) if isinstance(other.type, ListType) else other.type)


def _digits(arguments: Sequence[Written]) -> int | None:
    """Return to how many digits is rounded; None when that is not said by a number."""
    text = arguments[1].sql if len(arguments) > 1 else "0"
    return int(text) if _INTEGER.fullmatch(text) else None
