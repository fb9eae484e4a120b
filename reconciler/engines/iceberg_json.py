"""A target spec as the JSON pieces Iceberg's own parsers read; pure, so that it is tested without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from reconciler.diff.changes import Change, SetProperty, UnsetProperty
from reconciler.errors import Unsupported
from reconciler.model.metadata import FIRST_PARTITION_ID, MAIN, TableMetadata
from reconciler.model.table import PartitionField, Ref, TableSpec, TableVersion
from reconciler.model.types import walk

_ENCODE = msgspec.json.Encoder().encode


def schema_json(spec: TableSpec) -> str:
    """Print a schema with its identifier fields."""
    body = {
        "type": "struct",
        "schema-id": 0,
        "identifier-field-ids": sorted(spec.identifier_field_ids),
        "fields": spec.schema.fields,
    }
    return _ENCODE(body).decode()


def highest_field_id(spec: TableSpec) -> int:
    """Return the highest field id of a schema; 0 when it has no field."""
    return max((field.id for _, field in walk(spec.schema)), default=0)


def partition_spec_json(target: TableSpec, base: TableMetadata | None) -> str:
    """Print the partition spec; a field that any earlier spec had keeps its partition field id."""
    if target.format_version == 1:
        fields = _stored_fields(target.partitioning, base)
        ids = list(range(FIRST_PARTITION_ID, FIRST_PARTITION_ID + len(fields)))  # v1 knows positions only
    else:
        fields = target.partitioning
        ids = _partition_field_ids(fields, base)
    body = [
        {"source-id": field.source_id, "transform": field.transform, "name": field.name, "field-id": id_}
        for field, id_ in zip(fields, ids, strict=True)
    ]
    return _ENCODE({"spec-id": 0, "fields": body}).decode()


def sort_order_json(target: TableSpec) -> str | None:
    """Print the sort order; None: unsorted."""
    if not target.sort_order:
        return None
    fields = [
        {
            "transform": field.transform,
            "source-id": field.source_id,
            "direction": field.direction.value,
            "null-order": f"nulls-{field.nulls.value}",
        }
        for field in target.sort_order
    ]
    return _ENCODE({"order-id": 1, "fields": fields}).decode()


def ref_json(ref: Ref) -> str:
    """Print a tag or branch."""
    body: dict[str, int | str] = {"snapshot-id": ref.snapshot_id, "type": ref.kind.value}
    ages = {
        "max-ref-age-ms": ref.max_ref_age_ms,
        "max-snapshot-age-ms": ref.max_snapshot_age_ms,
        "min-snapshots-to-keep": ref.min_snapshots_to_keep,
    }
    body.update({key: value for key, value in ages.items() if value is not None})
    return _ENCODE(body).decode()


def property_updates(changes: Iterable[Change]) -> tuple[dict[str, str], set[str]]:
    """Return what to set and what to remove; the last change of a key wins."""
    final: dict[str, str | None] = {}
    for change in changes:
        if isinstance(change, SetProperty):
            final[change.key] = change.after
        elif isinstance(change, UnsetProperty):
            final[change.key] = None
    return {k: v for k, v in final.items() if v is not None}, {k for k, v in final.items() if v is None}


def format_version_json(version: int) -> str:
    """Print the update that says which format version a new table has."""
    return _ENCODE({"action": "upgrade-format-version", "format-version": version}).decode()


def requirements_json(
    live: TableMetadata, changed_refs: Mapping[str, Ref | None], *, guard_snapshot: bool
) -> Iterator[str]:
    """Print what a REST catalog must assert: the version, the refs we touch, and main when a proof rests on it."""
    version: TableVersion = live.version()
    asserts: list[dict[str, str | int | None]] = [
        {"type": "assert-table-uuid", "uuid": version.uuid},
        {"type": "assert-current-schema-id", "current-schema-id": version.schema_id},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": version.last_field_id},
        {"type": "assert-default-spec-id", "default-spec-id": version.spec_id},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": live.last_partition_id},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": version.sort_order_id},
    ]
    for name in sorted(changed_refs):
        before = live.refs.get(name)
        asserts.append(_assert_ref(name, None if before is None else before.snapshot_id))
    if guard_snapshot:
        asserts.append(_assert_ref(MAIN, version.snapshot_id))
    return (_ENCODE(requirement).decode() for requirement in asserts)


def _assert_ref(name: str, snapshot_id: int | None) -> dict[str, str | int | None]:
    return {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": snapshot_id}


def _partition_field_ids(fields: Sequence[PartitionField], base: TableMetadata | None) -> list[int]:
    last = FIRST_PARTITION_ID - 1 if base is None else base.last_partition_id
    specs = () if base is None else base.specs
    known = {(f.source_id, f.transform, f.name): f.field_id for spec in specs for f in spec.fields}
    ids = []
    for field in fields:
        id_ = known.get((field.source_id, field.transform, field.name))
        if id_ is None:
            last += 1
            id_ = last
        ids.append(id_)
    return ids


def _stored_fields(fields: Sequence[PartitionField], base: TableMetadata | None) -> tuple[PartitionField, ...]:
    """Lay out a v1 spec: fields keep their places for ever, and a removed one stays as `void`."""
    stored = None if base is None else base.spec(base.default_spec_id)
    if stored is None:
        return tuple(fields)
    wanted = {(f.source_id, f.transform): f for f in fields}
    names = {f.name for f in fields}
    result = []
    for before in stored.fields:
        kept = wanted.pop((before.source_id, before.transform), None)
        if kept is None:
            name = f"{before.name}_{before.field_id}" if before.name in names else before.name
            kept = PartitionField(source_id=before.source_id, transform="void", name=name)
        result.append(kept)
    result.extend(wanted.values())
    if tuple(f for f in result if f.transform != "void") != tuple(fields):
        raise Unsupported(
            "A v1 table cannot reorder its partition fields.",
            hint="List new partition fields last, or upgrade formatVersion to 2.",
        )
    return tuple(result)
