"""Iceberg's partition and sort transforms: spellings, which types they take, the names they give.

Source: Iceberg table spec, "Partition Transforms". Called by the manifest checks, desired and fmt.
"""

from __future__ import annotations

import re

from reconciler.model.primitives import primitive_name

_ARGUMENT = r"(bucket|truncate)\s*(?:\[\s*(\d{1,10})\s*\]|\(\s*(\d{1,10})\s*\))"
_PLURALS = {"years": "year", "months": "month", "days": "day", "hours": "hour", "trunc": "truncate"}
_SIMPLE = frozenset({"identity", "year", "month", "day", "hour", "void"})
TIME_TRANSFORMS = frozenset({"year", "month", "day", "hour"})
NAMES = (*sorted(_SIMPLE), "bucket", "truncate")

_TIMESTAMPS = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_NOT_IDENTITY = frozenset({"geometry", "geography", "variant"})
_TAKES = {
    "bucket": _TIMESTAMPS | {"int", "long", "decimal", "date", "time", "string", "uuid", "fixed", "binary"},
    "truncate": frozenset({"int", "long", "decimal", "string", "binary"}),
    "year": _TIMESTAMPS | {"date"},
    "month": _TIMESTAMPS | {"date"},
    "day": _TIMESTAMPS | {"date"},
    "hour": _TIMESTAMPS,
}


def parse_transform(text: str) -> str:
    """Return the canonical spelling (`bucket[16]`); raise ValueError with what is wrong and what would be right."""
    folded = text.strip().lower()
    folded = _PLURALS.get(folded, folded)
    if folded in _SIMPLE:
        return folded
    match = re.fullmatch(_ARGUMENT, folded)
    if match is None:
        raise ValueError(_refusal(text, folded))
    number = int(match[2] or match[3])
    if not 1 <= number <= 2**31 - 1:
        raise ValueError(f"the number in '{text}' must be between 1 and {2**31 - 1}.")
    return f"{match[1]}[{number}]"


def _refusal(text: str, folded: str) -> str:
    name = re.split(r"[\[(]", folded)[0].strip()
    if name in ("bucket", "truncate"):
        example = "bucket[16]" if name == "bucket" else "truncate[4]"
        return f"'{text}' needs one number. Write '{example}'."
    if name in _SIMPLE:
        return f"'{name}' takes no number. Write '{name}'."
    from reconciler.model.suggestions import did_you_mean

    known = did_you_mean(name, NAMES) or "Known: identity, bucket[N], truncate[W], year, month, day, hour, void."
    return f"unknown transform '{text}'. {known}"


def takes(transform: str, type_: str) -> bool:
    """Tell whether a canonical transform applies to a primitive type."""
    if transform == "void":
        return True
    name = primitive_name(type_)
    if transform == "identity":
        return name not in _NOT_IDENTITY
    return name in _TAKES[transform.partition("[")[0]]


def types_taken(transform: str) -> str:
    """List the types a transform takes, for a message."""
    base = transform.partition("[")[0]
    return ", ".join(sorted(_TAKES[base])) if base in _TAKES else "any primitive type but geometry, geography, variant"


def default_field_name(column: str, transform: str) -> str:
    """Return the partition field name that Iceberg's libraries agree on for a column and a canonical transform."""
    base, _, number = transform.rstrip("]").partition("[")
    if base == "identity":
        return column
    if base == "void":
        return f"{column}_null"
    return f"{column}_{'trunc' if base == 'truncate' else base}{f'_{number}' if number else ''}"
