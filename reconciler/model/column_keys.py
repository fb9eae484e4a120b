"""Table properties that name a column in their key, and the names by which Iceberg finds a column there."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.model.types import ListType, MapType, StructType, Type, fields_of

METRICS = "write.metadata.metrics.column."
"""Iceberg's Java library refuses every change of properties while one of these names no column."""

PER_COLUMN = (
    METRICS,
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.bloom-filter-fpp.column.",
    "write.parquet.bloom-filter-ndv.column.",
    "write.parquet.stats-enabled.column.",
)


def split_key(key: str) -> tuple[str, str] | None:
    """Return the prefix and the column's name; None: the key names no column."""
    if not key.startswith(PER_COLUMN):
        return None
    prefix = next(prefix for prefix in PER_COLUMN if key.startswith(prefix))
    return prefix, key.removeprefix(prefix)


def is_column(schema: StructType, name: str) -> bool:
    """Say whether a key's name is that of a column, at any depth."""
    return any(field.name == name for field in schema.fields) or any(
        name in names for _, *names in column_names(schema)
    )


def column_names(type_: Type, full: str = "", short: str = "") -> Iterator[tuple[int, str, str]]:
    """Yield each field's id, its full name, and the short one that passes over structs in lists and maps.

    Source: Iceberg's Java TypeUtil.indexByName, which accepts both.
    """
    is_passed_over = isinstance(type_, ListType | MapType)
    for field in fields_of(type_):
        is_short = is_passed_over and field.name != "key" and isinstance(field.type, StructType)
        full_name = f"{full}{field.name}"
        short_name = short.removesuffix(".") if is_short else f"{short}{field.name}"
        yield field.id, full_name, short_name
        yield from column_names(field.type, f"{full_name}.", f"{short_name}.")
