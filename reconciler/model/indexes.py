"""How declared indexes become a table's own settings: bloom filters are properties, a sort index is the sort order.

Iceberg has no indexes. What comes closest to one is said here once; `plan.rewrites` brings existing files up to it.
"""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.model.table import DesiredIndex, DesiredSortField
from reconciler.model.types import FieldPath, dotted

BLOOM, SORT, ZORDER, NDV = "bloom", "sort", "zorder", "ndv"
ON_ICEBERG = (BLOOM, SORT, ZORDER, NDV)
BLOOM_ENABLED = "write.parquet.bloom-filter-enabled.column."
BLOOM_PARAMETERS = {
    "fpp": "write.parquet.bloom-filter-fpp.column.",
    "ndv": "write.parquet.bloom-filter-ndv.column.",
}
MAX_ZORDER_COLUMNS = 8
ZORDER_TYPES = frozenset(
    {"int", "long", "float", "double", "decimal", "date", "timestamp", "timestamptz", "string", "boolean"}
)
NO_BLOOM_TYPES = frozenset({"boolean", "variant", "geometry", "geography", "unknown"})


def bloom_key(path: FieldPath) -> str:
    """Name the property that turns a column's bloom filter on."""
    return f"{BLOOM_ENABLED}{dotted(path)}"


def index_properties(indexes: Iterable[DesiredIndex]) -> dict[str, str]:
    """Return the table properties that the declared indexes come to."""
    properties: dict[str, str] = {}
    for index in indexes:
        if index.type == BLOOM:
            for path in index.columns:
                properties[bloom_key(path)] = "true"
                for name, value in index.properties.items():
                    properties[f"{BLOOM_PARAMETERS[name]}{dotted(path)}"] = value
    return properties


def index_sort_order(indexes: Iterable[DesiredIndex]) -> tuple[DesiredSortField, ...] | None:
    """Return the sort order that a sort index comes to; None: there is no such index."""
    for index in indexes:
        if index.type == SORT:
            return tuple(DesiredSortField(path=path) for path in index.columns)
    return None
