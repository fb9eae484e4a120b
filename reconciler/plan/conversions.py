"""How a value becomes one of another type: the default conversion, or the author's, printed as safe SQL.

A default conversion loses nothing and invents nothing: a value that would be rounded or cut counts as one that does not
convert. Whoever wants the rounding says so with `using`.
"""

from __future__ import annotations

import msgspec

from reconciler.model.primitives import decimal_parts
from reconciler.model.table import TypeChange
from reconciler.model.types import StructType
from reconciler.sql.refusals import RefusedSql

_WORDS = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "binary": "BINARY",
    "date": "DATE",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP",
}
_MOMENTS = frozenset({"date", "timestamp", "timestamptz"})
_NUMBERS = frozenset({"int", "long", "float", "double"})
_EXTREMES = {"int": 2**31 - 1, "long": 2**63 - 1}
_SATURATING = frozenset({("int", "float"), ("long", "float"), ("long", "double")})
"""The highest of these integers is no such float; a cast makes the next one of it, and back the integer again."""
_DATE = "[0-9]{4,}-[0-9]{1,2}-[0-9]{1,2}"
_TIME = "[0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}([.][0-9]{0,6}0*)?)?"
_MOMENT_TEXTS = {
    "date": _DATE,
    "timestamp": f"{_DATE}([T ]{_TIME})?",
    "timestamptz": f"{_DATE}([T ]{_TIME}([^0-9.:].*)?)?",  # a zone may follow
}


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """`source` is what is converted, `value` what becomes of it: NULL where it does not convert."""

    source: str
    value: str

    def missing(self, twin: str) -> str:
        """Find rows whose twin has not what their value becomes: not yet, or no longer."""
        return f"NOT ({quoted(twin)} <=> ({self.value}))"

    @property
    def failed(self) -> str:
        """Find rows whose value does not convert."""
        return f"(({self.source}) IS NOT NULL) AND (({self.value}) IS NULL)"


def conversion(
    rule: TypeChange, before: str, after: str, *, name: str, stands_as: str, schema: StructType
) -> Conversion:
    """Read how a column's values convert; `stands_as` is the name it has in `schema`. Raises RefusedSql."""
    from reconciler.sql.expressions import parse_expression

    word = spark_word(after)
    if word is None:
        raise RefusedSql(f"Spark cannot cast to {after}", "Keep the type, and add a column of the new one.")
    if rule.using is not None:
        aliases = {name: stands_as} if name != stands_as else {}
        source = parse_expression(rule.using, schema=schema, aliases=aliases).sql
        text = f"TRY_CAST(({source}) AS {word})"
    else:
        source = quoted(stands_as)
        text = _default(source, before, after)
    return Conversion(source=source, value=parse_expression(text, schema=schema).sql)


def quoted(name: str) -> str:
    """Print a column's name."""
    from reconciler.sql.literals import quote_name

    return quote_name(name)


def spark_word(type_: str) -> str | None:
    """Spell a primitive type as CAST does; None: Spark has none like it."""
    parts = decimal_parts(type_)
    return f"DECIMAL({parts[0]}, {parts[1]})" if parts else _WORDS.get(type_)


def _default(source: str, before: str, after: str) -> str:
    """Print the default conversion; raise RefusedSql for a pair that has none."""
    word, back = spark_word(after), spark_word(before)
    if word is None or back is None or not _converts(before, after):
        raise RefusedSql(f"there is no default conversion from {before} to {after}", "Say how with `using`.")
    value = f"TRY_CAST({source} AS {word})"
    is_kept = ""
    if before == "string":
        is_kept = _text_is_kept(source, value, after)
    elif (_is_number(before) and _is_number(after)) or (before in _MOMENTS and after in _MOMENTS):
        is_kept = f"TRY_CAST({value} AS {back}) = {source}{_is_no_extreme(source, value, before, after)}"
    return f"CASE WHEN {is_kept} THEN {value} END" if is_kept else value


def _text_is_kept(source: str, value: str, after: str) -> str:
    """Print what holds for a text of which nothing is lost; empty: the cast alone tells."""
    parts = decimal_parts(after)
    if parts:
        return _is_like(source, f"[+-]?[0-9]*([.][0-9]{{0,{parts[1]}}}0*)?")
    if after in _MOMENT_TEXTS:
        return _is_like(source, _MOMENT_TEXTS[after])
    if after in ("float", "double"):
        return f"{_digits(source)} = {_digits(f'TRY_CAST({value} AS STRING)')}"
    return ""


def _is_like(source: str, pattern: str) -> str:
    from reconciler.sql.literals import quote_string

    whole = rf"^\s*{pattern}\s*$"
    return f"{source} RLIKE {quote_string(whole)}"


def _digits(text: str) -> str:
    """Print a number's significant digits: of the float nearest to it they are the same, or some were lost."""
    return f"REGEXP_REPLACE(REGEXP_REPLACE({text}, '[eE].*|[^0-9]', ''), '^0+|0+$', '')"


def _is_no_extreme(source: str, value: str, before: str, after: str) -> str:
    if (before, after) in _SATURATING:
        return f" AND {source} <> {_EXTREMES[before]}"
    if (after, before) in _SATURATING:
        return f" AND {value} <> {_EXTREMES[after]}"
    return ""


def _converts(before: str, after: str) -> bool:
    if _is_number(before):
        return _is_number(after) or after == "string"
    if before == "string":
        return _is_number(after) or after == "boolean" or after in _MOMENTS
    if before in _MOMENTS:
        return after in _MOMENTS or after == "string"
    return before == "boolean" and after == "string"


def _is_number(type_: str) -> bool:
    return type_ in _NUMBERS or decimal_parts(type_) is not None
