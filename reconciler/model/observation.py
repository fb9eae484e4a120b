"""Turn table metadata into one reading of the live table, in the model's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reconciler.errors import RefNotFound
from reconciler.model.metadata import (
    MAIN,
    RefJson,
    SnapshotHead,
    SortFieldJson,
    SpecJson,
    StatisticsJson,
    TableMetadata,
)
from reconciler.model.table import (
    BOOKKEEPING_PREFIX,
    Nulls,
    Observed,
    PartitionField,
    Ref,
    SortField,
    Statistics,
    TableIdent,
    TableSpec,
)
from reconciler.model.types import StructType

_DISTINCT = "apache-datasketches-theta-v1"
_MOVING = "replace"


def to_observed(metadata: TableMetadata, ident: TableIdent) -> Observed:
    """Turn metadata into one reading of the live table."""
    head = _snapshot(metadata, metadata.head())
    return Observed(
        spec=past_spec(
            metadata, ident, metadata.current_schema_id, metadata.default_spec_id, metadata.default_sort_order_id
        ),
        version=metadata.version(),
        statistics=_statistics(metadata, head),
        rows_summary=_rows_summary(metadata, head),
        bookkeeping={k: v for k, v in metadata.properties.items() if k.startswith(BOOKKEEPING_PREFIX)},
        snapshot_log=tuple((entry.timestamp_ms, entry.snapshot_id) for entry in metadata.snapshot_log),
        snapshot_ids=frozenset(snapshot.snapshot_id for snapshot in metadata.snapshots),
        counted=counted_fields(metadata.statistics),
        counted_partitions=frozenset(file.snapshot_id for file in metadata.partition_statistics),
        snapshot_times={snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots},
        snapshot_schemas={s.snapshot_id: s.schema_id for s in metadata.snapshots if s.schema_id is not None},
    )


def counted_fields(statistics: Sequence[StatisticsJson]) -> dict[int, frozenset[int]]:
    """Return, by snapshot, the columns whose distinct values were counted."""
    return {
        file.snapshot_id: frozenset(
            field_id for blob in file.blob_metadata if blob.type == _DISTINCT for field_id in blob.fields
        )
        for file in statistics
    }


def past_spec(
    metadata: TableMetadata, ident: TableIdent, schema_id: int, spec_id: int, sort_order_id: int
) -> TableSpec:
    """Return the spec with the schema, partition spec and sort order of these ids, the rest as it is now."""
    schema, spec, order = metadata.schema(schema_id), metadata.spec(spec_id), metadata.sort_order(sort_order_id)
    if schema is None or spec is None or order is None:
        raise RefNotFound(
            f"The metadata of {ident} no longer holds schema {schema_id}, partition spec {spec_id} "
            f"and sort order {sort_order_id} together.",
            hint="Choose a later entry of `laketable history`.",
        )
    return TableSpec(
        ident=ident,
        format_version=metadata.format_version,
        location=metadata.location,
        schema=StructType(schema.fields),
        identifier_field_ids=frozenset(schema.identifier_field_ids or ()),
        partitioning=shown_partitioning(spec, metadata.format_version),
        sort_order=tuple(_sort_field(f) for f in order.fields),
        properties={k: v for k, v in metadata.properties.items() if not k.startswith(BOOKKEEPING_PREFIX)},
        refs={name: to_ref(name, ref) for name, ref in metadata.refs.items() if name != MAIN},
    )


def to_ref(name: str, ref: RefJson) -> Ref:
    """Return a stored tag or branch in the model's words."""
    return Ref(
        name=name,
        kind=ref.type,
        snapshot_id=ref.snapshot_id,
        max_ref_age_ms=ref.max_ref_age_ms,
        max_snapshot_age_ms=ref.max_snapshot_age_ms,
        min_snapshots_to_keep=ref.min_snapshots_to_keep,
    )


def shown_partitioning(spec: SpecJson, format_version: int) -> tuple[PartitionField, ...]:
    """Return a partition spec in the model's words, as a table of this format version shows it."""
    # A v1 table cannot drop a partition field, only void it: those placeholders partition nothing.
    return tuple(
        PartitionField(source_id=f.source_id, transform=f.transform, name=f.name)
        for f in spec.fields
        if format_version > 1 or f.transform != "void"
    )


def _sort_field(field: SortFieldJson) -> SortField:
    return SortField(
        source_id=field.source_id,
        transform=field.transform,
        direction=field.direction,
        nulls=Nulls.FIRST if field.null_order == "nulls-first" else Nulls.LAST,
    )


def _snapshot(metadata: TableMetadata, snapshot_id: int | None) -> SnapshotHead | None:
    return next((s for s in reversed(metadata.snapshots) if s.snapshot_id == snapshot_id), None)


def _rows_summary(metadata: TableMetadata, head: SnapshotHead | None) -> Mapping[str, str]:
    """Return the summary of the snapshot that wrote main's rows; of the oldest one left when that has expired."""
    summary = head.summarise() if head is not None else {}
    while head is not None and summary.get("operation") == _MOVING:
        head = _snapshot(metadata, head.parent_snapshot_id)
        summary = head.summarise() if head is not None else summary
    return summary


def _statistics(metadata: TableMetadata, head: SnapshotHead | None) -> Statistics:
    if metadata.head() is None:
        return Statistics(rows=0, files=0, bytes=0, delete_files=0)
    summary = head.summarise() if head is not None else {}
    return Statistics(
        rows=_count(summary, "total-records"),
        files=_count(summary, "total-data-files"),
        bytes=_count(summary, "total-files-size"),
        delete_files=_count(summary, "total-delete-files"),
    )


def _count(summary: Mapping[str, str], key: str) -> int | None:
    value = summary.get(key, "")
    return int(value) if value.isdecimal() else None
