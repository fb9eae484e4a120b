"""Iceberg table metadata, as observation reads it; the reader itself is `reconciler.model.metadata`.

It lies below, because the engines read the same JSON and are siblings of the catalogs. Edit it there.
"""

from reconciler.model.metadata import (
    FIRST_PARTITION_ID,
    MAIN,
    PartitionFieldJson,
    RefJson,
    SchemaJson,
    SnapshotHead,
    SnapshotLogEntry,
    SortFieldJson,
    SortOrderJson,
    SpecJson,
    TableMetadata,
    canonical_fields,
    decode_metadata,
    past_spec,
    to_observed,
    to_ref,
)

__all__ = [
    "FIRST_PARTITION_ID",
    "MAIN",
    "PartitionFieldJson",
    "RefJson",
    "SchemaJson",
    "SnapshotHead",
    "SnapshotLogEntry",
    "SortFieldJson",
    "SortOrderJson",
    "SpecJson",
    "TableMetadata",
    "canonical_fields",
    "decode_metadata",
    "past_spec",
    "to_observed",
    "to_ref",
]
