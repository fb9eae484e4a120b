"""Read Iceberg table metadata (v1 to v3) by decoding only what a plan needs; every observation path ends here.

A long-lived table carries tens of MiB of old schemas and snapshots, so those stay undecoded bytes until somebody asks.
Source: Iceberg table spec, "Table metadata fields" and Appendix C.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from reconciler.errors import InvalidTable
from reconciler.model.canonical import canonical_fields
from reconciler.model.table import Direction, RefKind, TableVersion
from reconciler.model.types import Field

Json = str | int | float | bool | None | Mapping[str, "Json"] | Sequence["Json"]
JsonObject = Mapping[str, Json]

MAIN = "main"
NEWEST_FORMAT = 3
FIRST_PARTITION_ID = 1000
_RESPELLED = (b'"decimal(', b'"geography(', b'-default"')
"""What a schema must hold for anything in it to have more than one spelling."""
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
    parent_snapshot_id: int | None = None
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

    @property
    def statistics(self) -> tuple[StatisticsJson, ...]:
        """Its statistics files."""
        return _tolerant(_DECODE_STATISTICS, self.raw_statistics)

    @property
    def partition_statistics(self) -> tuple[PartitionStatisticsJson, ...]:
        """Its files of statistics by partition."""
        return _tolerant(_DECODE_PARTITIONS, self.raw_partition_statistics)

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


def _tolerant(decoder: msgspec.json.Decoder[tuple[T, ...] | None], raw: msgspec.Raw) -> tuple[T, ...]:
    """Read statistics; damaged ones count as none, for no plan depends on them."""
    try:
        return (decoder.decode(raw) or ()) if bytes(raw) else ()
    except msgspec.DecodeError:
        return ()


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
