"""Types in SQL text: what CAST may name, how Spark spells it, and what operators make of their operands' types."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from reconciler.model.primitives import decimal_parts
from reconciler.model.types import Field, ListType, MapType, StructType, Type
from reconciler.sql.literals import quote_name
from reconciler.sql.parsing import offset_of
from reconciler.sql.refusals import RefusedSql

_KIND = exp.DataType.Type
# sqlglot's type → Spark's word, and Iceberg's type (None: Iceberg has none)
_PRIMITIVES: dict[object, tuple[str, str | None]] = {
    _KIND.BOOLEAN: ("BOOLEAN", "boolean"),
    _KIND.TINYINT: ("TINYINT", None),
    _KIND.SMALLINT: ("SMALLINT", None),
    _KIND.INT: ("INT", "int"),
    _KIND.BIGINT: ("BIGINT", "long"),
    _KIND.FLOAT: ("FLOAT", "float"),
    _KIND.DOUBLE: ("DOUBLE", "double"),
    _KIND.TEXT: ("STRING", "string"),
    _KIND.BINARY: ("BINARY", "binary"),
    _KIND.DATE: ("DATE", "date"),
    _KIND.TIMESTAMPTZ: ("TIMESTAMP", "timestamptz"),
    _KIND.TIMESTAMPLTZ: ("TIMESTAMP", "timestamptz"),
    _KIND.TIMESTAMPNTZ: ("TIMESTAMP_NTZ", "timestamp"),
}
_HINT = "Types: boolean, int, bigint, float, double, decimal(P,S), string, binary, date, timestamp, timestamp_ntz."
INTEGERS = {"int": 10, "long": 20}
FLOATS = ("float", "double")
MOMENTS = ("date", "timestamp", "timestamptz")


def write_type(node: exp.Expr) -> tuple[str, Type | None]:
    """Print a type of CAST in Spark's words, and return it as one of Iceberg's where there is one."""
    if not isinstance(node, exp.DataType) or any(v for k, v in node.args.items() if k not in _ARGUMENTS):
        raise RefusedSql("this type is not allowed", _HINT, offset=offset_of(node))
    kind, inner = node.this, node.expressions
    if kind in _PRIMITIVES and not inner:
        return _PRIMITIVES[kind]
    if kind is _KIND.DECIMAL:
        return _write_decimal(inner)
    if kind is _KIND.ARRAY and len(inner) == 1:
        text, element = write_type(inner[0])
        type_ = None if element is None else ListType(element=element, element_required=False)
        return f"ARRAY<{text}>", type_
    if kind is _KIND.MAP and len(inner) == 2:
        (key_text, key), (value_text, value) = (write_type(part) for part in inner)
        known = None if key is None or value is None else MapType(key=key, value=value, value_required=False)
        return f"MAP<{key_text}, {value_text}>", known
    if kind is _KIND.STRUCT and inner:
        return _write_struct(inner)
    raise RefusedSql(f"the type {getattr(kind, 'name', kind)} is not allowed", _HINT, offset=offset_of(node))


_ARGUMENTS = {"this", "expressions", "nested"}


def _write_decimal(parameters: Sequence[exp.Expr]) -> tuple[str, Type | None]:
    numbers = [p.this.name for p in parameters if isinstance(p, exp.DataTypeParam) and isinstance(p.this, exp.Literal)]
    if len(numbers) != len(parameters) or not all(n.isascii() and n.isdigit() and len(n) < 3 for n in numbers):
        raise RefusedSql("a decimal's precision and scale are two numbers", "Write decimal(18,2).")
    precision, scale = (*map(int, numbers), 10, 0)[:2] if len(numbers) != 1 else (int(numbers[0]), 0)
    if len(numbers) > 2 or not 0 < precision <= 38 or scale > precision:
        raise RefusedSql("a decimal's precision is 1 to 38 and its scale no larger", "Write decimal(18,2).")
    text = f"DECIMAL({', '.join(map(str, map(int, numbers)))})" if numbers else "DECIMAL"
    return text, f"decimal({precision},{scale})"


def _write_struct(members: Sequence[exp.Expr]) -> tuple[str, Type | None]:
    texts, fields = [], []
    for member in members:
        if not isinstance(member, exp.ColumnDef) or not isinstance(member.this, exp.Identifier):
            raise RefusedSql("a struct's fields have names", "Write struct<name: type>.", offset=offset_of(member))
        if member.args.get("constraints") or member.kind is None:
            raise RefusedSql("a struct's field has a name and a type only", offset=offset_of(member))
        text, type_ = write_type(member.kind)
        texts.append(f"{quote_name(member.name)}: {text}")
        fields.append(None if type_ is None else Field(name=member.name, required=False, type=type_))
    known = [field for field in fields if field is not None]
    return f"STRUCT<{', '.join(texts)}>", StructType(tuple(known)) if len(known) == len(fields) else None


def common_type(types: Sequence[Type | None]) -> Type | None:
    """Return the type all of them have, or the wider of int and long, float and double; else None."""
    distinct = set(types)
    if len(distinct) == 1:
        return next(iter(distinct))
    for order in (("int", "long"), ("float", "double")):
        if distinct <= set(order):
            return order[1]
    return None


def arithmetic_type(operator: str, left: Type | None, right: Type | None) -> Type | None:
    """Return the type of `left operator right` where Spark's rules give one; None when unknown."""
    if not isinstance(left, str) or not isinstance(right, str):
        return None
    if operator == "DIV":
        return "long"
    pair = {left, right}
    if left in MOMENTS or right in MOMENTS:
        return None  # an interval, or a moment
    if pair & set(FLOATS) and pair <= {*FLOATS, *INTEGERS}:
        return "float" if operator != "/" and pair == {"float"} else "double"
    if pair <= set(INTEGERS):
        return "double" if operator == "/" else common_type((left, right))
    return _decimal_arithmetic(operator, left, right)


def _decimal_arithmetic(operator: str, left: str, right: str) -> str | None:
    first, second = _precision(left), _precision(right)
    if first is None or second is None:
        return None
    (p1, s1), (p2, s2) = first, second
    match operator:
        case "+" | "-":
            scale = max(s1, s2)
            return _bounded(max(p1 - s1, p2 - s2) + scale + 1, scale)
        case "*":
            return _bounded(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(6, s1 + p2 + 1)
            return _bounded(p1 - s1 + s2 + scale, scale)
        case "%":
            scale = max(s1, s2)
            return _bounded(min(p1 - s1, p2 - s2) + scale, scale)
    return None


def _precision(type_: str) -> tuple[int, int] | None:
    if type_ in INTEGERS:
        return INTEGERS[type_], 0
    return decimal_parts(type_)


def _bounded(precision: int, scale: int) -> str:
    """Cut to 38 digits as Spark does (`DecimalType.adjustPrecisionScale`): digits before the point are kept first."""
    if precision <= 38:
        return f"decimal({precision},{scale})"
    kept = min(scale, 6)
    return f"decimal(38,{max(38 - (precision - scale), kept)})"


def sum_type(type_: Type | None) -> Type | None:
    """Return what `sum` makes of its argument's type."""
    if type_ in INTEGERS:
        return "long"
    if type_ in FLOATS:
        return "double"
    precision = _precision(type_) if isinstance(type_, str) else None
    return None if precision is None else f"decimal({min(38, precision[0] + 10)},{precision[1]})"


def average_type(type_: Type | None) -> Type | None:
    """Return what `avg` makes of its argument's type."""
    if type_ in INTEGERS or type_ in FLOATS:
        return "double"
    parts = decimal_parts(type_) if isinstance(type_, str) else None
    return parts and f"decimal({min(38, parts[0] + 4)},{min(38, parts[1] + 4)})"


def median_type(type_: Type | None) -> Type | None:
    """Return what `median` makes of its argument's type: a double of every number."""
    return "double" if average_type(type_) is not None else None


def rounded_type(type_: Type | None, digits: int | None) -> Type | None:
    """Return what `round` to so many digits makes of its argument's type; rounding up may take one digit more."""
    if type_ in INTEGERS or type_ in FLOATS:
        return type_
    parts = decimal_parts(type_) if isinstance(type_, str) else None
    if parts is None or digits is None:
        return None
    whole, scale = parts[0] - parts[1] + 1, max(0, min(parts[1], digits))
    return f"decimal({min(38, max(whole + scale, 1 - digits))},{scale})"


def whole_type(type_: Type | None) -> Type | None:
    """Return what `ceil` and `floor` make of their only argument's type."""
    if type_ in INTEGERS or type_ in FLOATS:
        return "long"
    parts = decimal_parts(type_) if isinstance(type_, str) else None
    if parts is None or not parts[1]:
        return parts and type_
    return f"decimal({parts[0] - parts[1] + 1},0)"


def is_exact_number(type_: Type | None) -> bool:
    """Whether sums of it do not depend on their order: integers and decimals."""
    return isinstance(type_, str) and _precision(type_) is not None
