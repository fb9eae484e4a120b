"""Print constants: numbers, strings, typed literals, intervals; refuse those whose value moves with the clock."""

from __future__ import annotations

import re

from sqlglot import exp

from reconciler.sql import functions as f
from reconciler.sql.literals import quote_string
from reconciler.sql.nodes import Written, expect, kind_of, may_spell, part, refusal
from reconciler.sql.spark_types import write_type

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_HEX = re.compile(r"[0-9A-Fa-f]*", re.ASCII)
_STARTS_WITH_DIGIT = re.compile(r"\s*[+-]?\d", re.ASCII)
# Spark turns these strings into a moment wherever a date or timestamp is wanted
_MOVING = re.compile(r"\s*(epoch|now|today|yesterday|tomorrow)(?![a-z])\s*\S*\s*", re.IGNORECASE)
_INTERVAL = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_HOLDING = frozenset({"array", "map", "struct", "named_struct"})
_TYPED_LITERALS = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")


def write_constant(node: exp.Expr) -> Written:
    """Print NULL, a boolean, a number, a string or bytes."""
    expect(node, "this", "is_string")
    match node:
        case exp.Null():
            return Written("NULL", is_constant=True)
        case exp.Boolean():
            return Written("TRUE" if node.this else "FALSE", "boolean", is_constant=True)
        case exp.HexString() if _HEX.fullmatch(str(node.this)):
            return Written(f"X'{str(node.this).upper()}'", "binary", is_constant=True)
        case exp.Literal(is_string=False):
            return _number(node)
        case exp.Literal() | exp.RawString():
            value = str(node.this)
            if _MOVING.fullmatch(value):
                hint = "Write the date itself; to compare text write LIKE."
                raise refusal(node, f"Spark may read '{value.strip()}' as a moment that moves", hint)
            return Written(quote_string(value), "string", is_constant=True)
    raise refusal(node, f"{kind_of(node)} is not allowed here")


def _number(node: exp.Expr) -> Written:
    text = str(node.this)
    match = _NUMBER.fullmatch(text)
    if match is None or len(text) > 64:
        raise refusal(node, f"'{text[:40]}' is not a number", "Write it in decimal digits.")
    if match[2]:
        return Written(text, "double", is_constant=True)
    if "." in text:
        whole, _, fraction = text.partition(".")
        digits = len(whole.lstrip("0")) + len(fraction)
        return Written(text, f"decimal({max(digits, len(fraction), 1)},{len(fraction)})", is_constant=True)
    size = int(text)
    return Written(text, "int" if size < 2**31 else "long" if size < 2**63 else None, is_constant=True)


def write_typed_literal(node: exp.Expr) -> Written:
    """Print `DATE '2026-10-01'`; sqlglot keeps Cast for it and TryCast for what is written CAST."""
    expect(node, "this", "to")
    literal = part(node, "this")
    word, type_ = write_type(part(node, "to"))
    if not isinstance(literal, exp.Literal) or not literal.is_string or word not in _TYPED_LITERALS:
        raise refusal(node, "only a date or a timestamp is written as a typed literal", "Write CAST(x AS type).")
    check_moment(literal)
    return Written(f"{word} {quote_string(literal.this)}", type_, is_constant=True)


def write_interval(node: exp.Expr) -> Written:
    """Print `INTERVAL '1' DAY`."""
    expect(node, "this", "unit")
    amount, unit = part(node, "this"), part(node, "unit")
    word = unit.name.upper() if isinstance(unit, exp.Var) else ""
    if not isinstance(amount, exp.Literal) or not _INTERVAL.fullmatch(amount.name) or word not in f.INTERVAL_UNITS:
        raise refusal(node, "an interval is one number and one unit", "Write INTERVAL '1' DAY.")
    return Written(f"INTERVAL {quote_string(amount.name)} {word}", is_constant=True)


def check_moment(literal: exp.Expr) -> None:
    """Refuse a text that is to become a moment unless it starts as a date does."""
    if not _STARTS_WITH_DIGIT.match(literal.name):
        raise refusal(
            literal, f"'{literal.name[:40]}' is not a fixed moment", "Write it as 2026-10-01 or 2026-10-01 12:00:00."
        )


def check_fixed(node: exp.Expr, written: Written) -> None:
    """Refuse a constant that may spell a moment which moves, unless it is written out: Spark computes it first."""
    if written.is_constant and may_spell(written) and not _is_written_out(node):
        message = "a moment or a text of constants alone may be one that moves"
        raise refusal(node, message, "Write the result itself, as 2026-10-01 or 2026-10-01 12:00:00.")


def _is_written_out(node: exp.Expr) -> bool:
    """Whether a constant consists of literals, which were looked at one by one; bytes may spell anything."""
    match node:
        case exp.Literal() | exp.RawString() | exp.Null() | exp.Boolean() | exp.Interval() | exp.Cast() | exp.Column():
            return type(node) is not exp.TryCast or _is_written_out(part(node, "this"))
        case exp.Paren() | exp.Neg():
            return _is_written_out(part(node, "this"))
        case exp.Add() | exp.Sub():
            return _is_written_out(part(node, "this")) and _is_written_out(part(node, "expression"))
        case exp.Anonymous(this=str() as name):
            return name.lower() in _HOLDING and all(map(_is_written_out, node.expressions))
        case exp.Anonymous():
            return True  # a user function, which Spark does not work out beforehand
    return False
