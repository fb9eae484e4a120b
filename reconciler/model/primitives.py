"""Facts about Iceberg's primitive types: which there are, since which format version, what widens to what.

A primitive is its canonical string (`decimal(18,2)`, `fixed[16]`, `geometry(srid:4326)`). `can_widen` is our own table:
libraries let promotions through that lose data. Source: Iceberg table spec, "Schema Evolution".
"""

from __future__ import annotations

import re

from reconciler.model.types import Type, fields_of

MAX_DECIMAL_PRECISION = 38
NEWEST_FORMAT_VERSION = 3

V3_NAMES = frozenset({"timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry", "geography"})
PLAIN_NAMES = frozenset(
    {
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "timestamp_ns",
        "timestamptz_ns",
        "string",
        "uuid",
        "binary",
        "variant",
        "unknown",
        "geometry",
        "geography",
    }
)
PARAMETERISED_NAMES = frozenset({"decimal", "fixed", "geometry", "geography"})
GEOGRAPHY_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")
DEFAULT_CRS = "OGC:CRS84"
DEFAULT_ALGORITHM = "spherical"

_DECIMAL = re.compile(r"decimal\((\d{1,3}),(\d{1,3})\)")
_FIXED = re.compile(r"fixed\[(\d{1,10})\]")
_HEAD = re.compile(r"[a-z_]+")
_DATE_WIDENS_TO = ("timestamp", "timestamp_ns")


def primitive_name(type_: str) -> str:
    """Return a primitive's name without its parameters: `decimal(18,2)` is `decimal`."""
    match = _HEAD.match(type_)
    return match[0] if match else type_


def decimal_parts(type_: str) -> tuple[int, int] | None:
    """Return a decimal's precision and scale, None for any other type."""
    match = _DECIMAL.fullmatch(type_)
    return (int(match[1]), int(match[2])) if match else None


def fixed_length(type_: str) -> int | None:
    """Return the length of a `fixed[L]`, None for any other type."""
    match = _FIXED.fullmatch(type_)
    return int(match[1]) if match else None


def minimum_format_version(type_: Type) -> int:
    """Return the first Iceberg format version that has this type and everything inside it."""
    if isinstance(type_, str):
        return 3 if primitive_name(type_) in V3_NAMES else 1
    return max((minimum_format_version(field.type) for field in fields_of(type_)), default=1)


def can_widen(before: str, after: str, format_version: int) -> bool:
    """Tell whether Iceberg may read old files of type `before` as `after` without rewriting them."""
    if before == after:
        return True
    if (before, after) in (("int", "long"), ("float", "double")):
        return True
    old, new = decimal_parts(before), decimal_parts(after)
    if old and new:
        return old[1] == new[1] and old[0] <= new[0]
    if format_version < 3:
        return False
    return before == "unknown" or (before == "date" and after in _DATE_WIDENS_TO)
