"""Read Iceberg table metadata (v1 to v3) by decoding only what a plan needs; every observation path ends here.

A long-lived table carries tens of MiB of old schemas and snapshots, so those stay undecoded bytes until somebody asks.
Source: Iceberg table spec, "Table metadata fields" and Appendix C.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from operator import is_
from typing import TypeVar

import msgspec

from reconciler.errors import InvalidTable, RefNotFound
from reconciler.model.defaults import canonical_default
from reconciler.model.table import (
    BOOKKEEPING_PREFIX,
    Direction,
    Nulls,
    Observed,
    PartitionField,
    Ref,
    RefKind,
    SortField,
    Statistics,
    TableIdent,
    TableSpec,
    TableVersion,
)
from reconciler.model.types import Field, JsonValue, StructType, Type, fields_of, with_fields

Json = str | int | float | bool | None | Mapping[str, "Json"] | Sequence["Json"]
JsonObject = Mapping[str, Json]

MAIN = "main"
NEWEST_FORMAT = 3
FIRST_PARTITION_ID = 1000
_PARAMETER_GAP = re.compile(r",\s+")
_RESPELLED = (b'"decimal(', b'"geography(', b'-default"')
"""What a schema must hold for anything in it to have more than one spelling."""
_DISTINCT = "apache-datasketches-theta-v1"
_ABSENT = msgspec.Raw()
T = TypeVar("T")


class SchemaJson(msgspec.Struct, frozen=True, rename="kebab"):
    """One schema of a table."""

    fields: tuple[Field, ...]
    schema_id: int = 0
    identifier_field_ids: tuple[int, ...] | None = None


class PartitionFieldJson(msgspec.Struct, frozen=True, rename="kebab"):
    """A partition field as stored; v1 writers may leave out the field id."""

    source_id: int
    transform: str
    name: str
    field_id: int | None = None


class SpecJson(msgspec.Struct, frozen=True, rename="kebab"):
    """One partition spec of a table."""

    fields: tuple[PartitionFieldJson, ...]
    spec_id: int = 0


class SortFieldJson(msgspec.Struct, frozen=True, rename="kebab"):
    """A sort field as stored."""

    source_id: int
    transform: str
    direction: Direction
    null_order: str


class SortOrderJson(msgspec.Struct, frozen=True, rename="kebab"):
    """One sort order of a table."""

    fields: tuple[SortFieldJson, ...] = ()
    order_id: int = 0


class RefJson(msgspec.Struct, frozen=True, rename="kebab"):
    """A tag or branch as stored."""

    snapshot_id: int
    type: RefKind
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


class SnapshotHead(msgspec.Struct, frozen=True, rename="kebab"):
    """A snapshot; its summary stays bytes until asked for. v1 tables may lack the manifest list."""

    snapshot_id: int
    timestamp_ms: int = 0
    manifest_list: str = ""
    summary: msgspec.Raw = _ABSENT
    first_row_id: int | None = None
    schema_id: int | None = None

    def summarise(self) -> Mapping[str, str]:
        """Decode the summary."""
        return _DECODE_SUMMARY.decode(self.summary) if bytes(self.summary) else {}


class SnapshotLogEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """From `timestamp_ms` on, main's head was this snapshot."""

    timestamp_ms: int
    snapshot_id: int


class BlobJson(msgspec.Struct, frozen=True):
    """A part of a statistics file: a sketch of some columns."""

    type: str
    fields: tuple[int, ...] = ()


class StatisticsJson(msgspec.Struct, frozen=True, rename="kebab"):
    """A statistics file of one snapshot."""

    snapshot_id: int
    blob_metadata: tuple[BlobJson, ...] = ()


class PartitionStatisticsJson(msgspec.Struct, frozen=True, rename="kebab"):
    """A file of statistics per partition."""

    snapshot_id: int


class _SchemaHead(msgspec.Struct, frozen=True, rename="kebab"):
    schema_id: int = 0


class _RawMetadata(msgspec.Struct, frozen=True, rename="kebab"):
    format_version: int
    location: str
    last_column_id: int
    table_uuid: str = ""
    current_schema_id: int = 0
    schemas: list[msgspec.Raw] | None = None
    schema: msgspec.Raw = _ABSENT
    partition_specs: tuple[SpecJson, ...] | None = None
    partition_spec: tuple[PartitionFieldJson, ...] | None = None
    default_spec_id: int = 0
    last_partition_id: int | None = None
    sort_orders: tuple[SortOrderJson, ...] | None = None
    default_sort_order_id: int = 0
    properties: dict[str, str] | None = None
    current_snapshot_id: int | None = None
    refs: dict[str, RefJson] | None = None
    snapshots: list[SnapshotHead] | None = None
    snapshot_log: list[SnapshotLogEntry] | None = None
    statistics: msgspec.Raw = _ABSENT
    partition_statistics: msgspec.Raw = _ABSENT


_DECODE = msgspec.json.Decoder(_RawMetadata)
_DECODE_HEAD = msgspec.json.Decoder(_SchemaHead)
_DECODE_SCHEMA = msgspec.json.Decoder(SchemaJson)
_DECODE_STATISTICS = msgspec.json.Decoder(tuple[StatisticsJson, ...] | None)
_DECODE_PARTITIONS = msgspec.json.Decoder(tuple[PartitionStatisticsJson, ...] | None)
_DECODE_SUMMARY: msgspec.json.Decoder[dict[str, str]] = msgspec.json.Decoder(dict[str, str])


class TableMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan and a commit need of a table's metadata; v1's older spellings are already in v2's shape."""

    format_version: int
    uuid: str
    location: str
    last_column_id: int
    current_schema_id: int
    raw_schemas: tuple[msgspec.Raw, ...]
    specs: tuple[SpecJson, ...]
    default_spec_id: int
    last_partition_id: int
    sort_orders: tuple[SortOrderJson, ...]
    default_sort_order_id: int
    properties: Mapping[str, str]
    refs: Mapping[str, RefJson]
    snapshots: tuple[SnapshotHead, ...]
    snapshot_log: tuple[SnapshotLogEntry, ...]
    raw_statistics: msgspec.Raw
    raw_partition_statistics: msgspec.Raw

    def schema(self, schema_id: int) -> SchemaJson | None:
        """Decode one schema; the latest are looked at first."""
        for raw in reversed(self.raw_schemas):
            if _DECODE_HEAD.decode(raw).schema_id == schema_id:
                return _schema(raw)
        return None

    def schemas(self) -> tuple[SchemaJson, ...]:
        """Decode every schema the table ever had."""
        return tuple(_schema(raw) for raw in self.raw_schemas)

    def highest_schema_id(self) -> int:
        """Return the highest schema id in use."""
        return max(_DECODE_HEAD.decode(raw).schema_id for raw in self.raw_schemas)

    def spec(self, spec_id: int) -> SpecJson | None:
        """Return one partition spec."""
        return next((spec for spec in self.specs if spec.spec_id == spec_id), None)

    def sort_order(self, order_id: int) -> SortOrderJson | None:
        """Return one sort order; 0 always is "unsorted"."""
        found = next((order for order in self.sort_orders if order.order_id == order_id), None)
        return SortOrderJson() if found is None and order_id == 0 else found

    def head(self) -> int | None:
        """Return main's snapshot id."""
        main = self.refs.get(MAIN)
        return None if main is None else main.snapshot_id

    def version(self) -> TableVersion:
        """Return what a commit asserts."""
        return TableVersion(
            uuid=self.uuid,
            schema_id=self.current_schema_id,
            spec_id=self.default_spec_id,
            sort_order_id=self.default_sort_order_id,
            last_field_id=self.last_column_id,
            snapshot_id=self.head(),
        )


def decompress(data: bytes) -> bytes:
    """Return metadata as JSON: gzip is recognised by its first bytes, whatever the file is called."""
    return zlib.decompress(data, wbits=31) if data[:2] == b"\x1f\x8b" else data


def decode_metadata(data: bytes, *, where: str = "") -> TableMetadata:
    """Decode a metadata file, gzip or not, or the `metadata` object of a REST answer."""
    try:
        raw = _DECODE.decode(decompress(data))
    except (msgspec.DecodeError, zlib.error, UnicodeDecodeError) as e:
        raise InvalidTable(
            "Cannot read the table's metadata: it is not valid Iceberg JSON.",
            where=where,
            hint="Open the metadata file the catalog points to, or register the last good one.",
        ) from e
    return _normalise(raw, where)


def to_observed(metadata: TableMetadata, ident: TableIdent) -> Observed:
    """Turn metadata into one reading of the live table."""
    summary = _head_summary(metadata)
    return Observed(
        spec=past_spec(
            metadata, ident, metadata.current_schema_id, metadata.default_spec_id, metadata.default_sort_order_id
        ),
        version=metadata.version(),
        statistics=_statistics(summary),
        head_summary=summary,
        bookkeeping={k: v for k, v in metadata.properties.items() if k.startswith(BOOKKEEPING_PREFIX)},
        snapshot_log=tuple((entry.timestamp_ms, entry.snapshot_id) for entry in metadata.snapshot_log),
        snapshot_ids=frozenset(snapshot.snapshot_id for snapshot in metadata.snapshots),
        counted=counted_fields(_tolerant(_DECODE_STATISTICS, metadata.raw_statistics)),
        counted_partitions=frozenset(
            file.snapshot_id for file in _tolerant(_DECODE_PARTITIONS, metadata.raw_partition_statistics)
        ),
        snapshot_times={snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots},
        snapshot_schemas={s.snapshot_id: s.schema_id for s in metadata.snapshots if s.schema_id is not None},
    )


def _tolerant(decoder: msgspec.json.Decoder[tuple[T, ...] | None], raw: msgspec.Raw) -> tuple[T, ...]:
    """Read statistics; damaged ones count as none, for no plan depends on them."""
    try:
        return (decoder.decode(raw) or ()) if bytes(raw) else ()
    except msgspec.DecodeError:
        return ()


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


def canonical_fields(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Return fields with every primitive and default spelled canonically, however the writer spelled it.

    `decimal(9,2)`, not `decimal(9, 2)`; bytes as `00ff`, not `00FF`, which is what Iceberg's Java writes.
    """
    result = tuple(_canonical_field(field) for field in fields)
    return fields if all(map(is_, result, fields)) else result


def _canonical_field(field: Field) -> Field:
    canonical = field
    if not isinstance(field.type, str):
        children = fields_of(field.type)
        respelled = canonical_fields(children)
        if respelled is not children:
            canonical = msgspec.structs.replace(field, type=with_fields(field.type, respelled))
    elif "," in field.type:
        spelled = _PARAMETER_GAP.sub(",", field.type)
        if spelled != field.type:
            canonical = msgspec.structs.replace(field, type=spelled)
    if field.initial_default is None and field.write_default is None:
        return canonical
    return _with_canonical_defaults(canonical)


def _with_canonical_defaults(field: Field) -> Field:
    initial, write = (_respelled(field.type, value) for value in (field.initial_default, field.write_default))
    if (initial, write) == (field.initial_default, field.write_default):
        return field
    return msgspec.structs.replace(field, initial_default=initial, write_default=write)


def _respelled(type_: Type, value: JsonValue) -> JsonValue:
    try:
        return canonical_default(type_, value)
    except ValueError:  # another writer's mistake stays as it is
        return value


def _schema(raw: msgspec.Raw) -> SchemaJson:
    try:
        schema = _DECODE_SCHEMA.decode(raw)
    except msgspec.DecodeError as e:
        raise InvalidTable(
            "A schema in the table's metadata breaks the Iceberg specification.",
            hint="Open the metadata file the catalog points to, or register the last good one.",
        ) from e
    text = memoryview(raw).tobytes()
    if any(part in text for part in _RESPELLED):
        return msgspec.structs.replace(schema, fields=canonical_fields(schema.fields))
    return schema


def _normalise(raw: _RawMetadata, where: str) -> TableMetadata:
    if not 1 <= raw.format_version <= NEWEST_FORMAT:
        raise InvalidTable(
            f"The table has format version {raw.format_version}; this laketable reads versions 1 to {NEWEST_FORMAT}.",
            where=where,
            hint="Use a newer laketable.",
        )
    schemas = raw.schemas or ([raw.schema] if bytes(raw.schema) else [])
    if not schemas:
        raise InvalidTable("The table's metadata holds no schema.", where=where)
    specs = raw.partition_specs or (SpecJson(fields=raw.partition_spec or (), spec_id=raw.default_spec_id),)
    specs = tuple(_with_field_ids(spec) for spec in specs)
    assigned = max((f.field_id or 0 for spec in specs for f in spec.fields), default=FIRST_PARTITION_ID - 1)
    refs = raw.refs or {}
    head = raw.current_snapshot_id
    if MAIN not in refs and head is not None and head >= 0:
        refs[MAIN] = RefJson(snapshot_id=head, type=RefKind.BRANCH)
    return TableMetadata(
        format_version=raw.format_version,
        uuid=raw.table_uuid,
        location=raw.location,
        last_column_id=raw.last_column_id,
        current_schema_id=raw.current_schema_id if raw.schemas else _DECODE_HEAD.decode(schemas[0]).schema_id,
        raw_schemas=tuple(schemas),
        specs=specs,
        default_spec_id=raw.default_spec_id,
        last_partition_id=assigned if raw.last_partition_id is None else raw.last_partition_id,
        sort_orders=raw.sort_orders or (),
        default_sort_order_id=raw.default_sort_order_id,
        properties=raw.properties or {},
        refs=refs,
        snapshots=tuple(raw.snapshots or ()),
        snapshot_log=tuple(raw.snapshot_log or ()),
        raw_statistics=raw.statistics,
        raw_partition_statistics=raw.partition_statistics,
    )


def _with_field_ids(spec: SpecJson) -> SpecJson:
    if all(field.field_id is not None for field in spec.fields):
        return spec
    fields = tuple(
        field if field.field_id is not None else msgspec.structs.replace(field, field_id=FIRST_PARTITION_ID + position)
        for position, field in enumerate(spec.fields)
    )
    return msgspec.structs.replace(spec, fields=fields)


def _sort_field(field: SortFieldJson) -> SortField:
    return SortField(
        source_id=field.source_id,
        transform=field.transform,
        direction=field.direction,
        nulls=Nulls.FIRST if field.null_order == "nulls-first" else Nulls.LAST,
    )


def _head_summary(metadata: TableMetadata) -> Mapping[str, str] | None:
    """Return the summary of main's head; None: it has none."""
    head = metadata.head()
    if head is None:
        return None
    snapshot = next((s for s in reversed(metadata.snapshots) if s.snapshot_id == head), None)
    return {} if snapshot is None else snapshot.summarise()


def _statistics(summary: Mapping[str, str] | None) -> Statistics:
    if summary is None:
        return Statistics(rows=0, files=0, bytes=0, delete_files=0)
    return Statistics(
        rows=_count(summary, "total-records"),
        files=_count(summary, "total-data-files"),
        bytes=_count(summary, "total-files-size"),
        delete_files=_count(summary, "total-delete-files"),
    )


def _count(summary: Mapping[str, str], key: str) -> int | None:
    value = summary.get(key, "")
    return int(value) if value.isdecimal() else None
