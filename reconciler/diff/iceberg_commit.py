"""Turn "this table, these changes" into the requirements and updates of one Iceberg commit; pure.

The target comes from the model (`diff.apply`), so ids are the same whatever executes. What the table had before is
used again, as Iceberg's own builder does: an identical schema, partition spec or sort order keeps its id, and so does
a partition field. Source: Iceberg REST specification, TableRequirement and TableUpdate; Java's TableMetadata.Builder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

import msgspec

from reconciler.diff.apply import CannotApply, apply
from reconciler.diff.changes import (
    AdoptTable,
    Change,
    CreateRef,
    DropRef,
    MoveRef,
    SetProperty,
    SetRefRetention,
    UnsetProperty,
)
from reconciler.diff.name_mapping import NAME_MAPPING
from reconciler.errors import CommitConflict
from reconciler.model.metadata import (
    FIRST_PARTITION_ID,
    MAIN,
    Json,
    JsonObject,
    PartitionFieldJson,
    SchemaJson,
    TableMetadata,
)
from reconciler.model.observation import shown_partitioning, to_observed, to_ref
from reconciler.model.table import (
    BOOKKEEPING_PREFIX,
    Nulls,
    PartitionField,
    Ref,
    SortField,
    TableIdent,
    TableSpec,
    TableVersion,
)
from reconciler.model.types import StructType, highest_id

FORMAT_VERSION = "format-version"
_PLAN_AGAIN = "Plan again."


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What one commit wants to be true afterwards; None and empty: not touched."""

    spec: TableSpec
    schema: StructType | None = None
    identifier_field_ids: frozenset[int] = frozenset()
    partitioning: tuple[PartitionField, ...] | None = None
    sort_order: tuple[SortField, ...] | None = None
    format_version: int | None = None
    set_properties: Mapping[str, str] = {}
    unset_properties: tuple[str, ...] = ()
    set_refs: Mapping[str, Ref] = {}
    dropped_refs: tuple[str, ...] = ()
    refs_before: Mapping[str, int | None] = {}


# ---------------------------------------------------------------- what is wanted


def check_base(metadata: TableMetadata, base: TableVersion, ident: TableIdent, *, guard_snapshot: bool) -> None:
    """Raise CommitConflict unless the live table still is what was planned against."""
    live = metadata.version()
    pairs: list[tuple[str, object, object]] = [
        ("uuid", base.uuid, live.uuid),
        ("schema", base.schema_id, live.schema_id),
        ("partition spec", base.spec_id, live.spec_id),
        ("sort order", base.sort_order_id, live.sort_order_id),
        ("last field id", base.last_field_id, live.last_field_id),
    ]
    if guard_snapshot:
        pairs.append(("snapshot of main", base.snapshot_id, live.snapshot_id))
    for what, planned, found in pairs:
        if planned != found:
            raise CommitConflict(
                f"{ident} changed since it was planned: its {what} was {planned} and is {found}.",
                hint=_PLAN_AGAIN,
            )


def check_bookkeeping(live: Mapping[str, str], changes: Sequence[Change], ident: TableIdent) -> None:
    """Raise CommitConflict when somebody claimed the table, or remembered something in it, since it was planned."""
    for change in changes:
        if not isinstance(change, SetProperty | UnsetProperty) or not change.key.startswith(BOOKKEEPING_PREFIX):
            continue
        after = change.after if isinstance(change, SetProperty) else None
        if live.get(change.key) not in (change.before, after):
            raise CommitConflict(
                f"{ident} changed since it was planned: its property {change.key} has another value.", hint=_PLAN_AGAIN
            )


def target_of(metadata: TableMetadata, ident: TableIdent, changes: Sequence[Change]) -> Target:
    """Apply the changes to the live table; raise CommitConflict when they no longer fit it."""
    check_bookkeeping(metadata.properties, changes, ident)
    current = to_observed(metadata, ident).spec
    moved = {change.before.name for change in changes if isinstance(change, MoveRef)}
    fitted = tuple(_follow(change, metadata, moved) for change in changes if not isinstance(change, AdoptTable))
    try:
        spec = apply(current, fitted, last_field_id=metadata.last_column_id)
    except CannotApply as e:
        raise CommitConflict(f"{ident} changed since it was planned. {e}", hint=_PLAN_AGAIN) from e
    is_same_schema = spec.schema == current.schema and spec.identifier_field_ids == current.identifier_field_ids
    is_repartitioned = spec.partitioning != current.partitioning
    properties = _property_changes(fitted)
    if spec.properties.get(NAME_MAPPING) != current.properties.get(NAME_MAPPING):
        properties[NAME_MAPPING] = spec.properties.get(NAME_MAPPING)
    return Target(
        spec=_shown(spec, metadata, is_repartitioned=is_repartitioned),
        schema=None if is_same_schema else spec.schema,
        identifier_field_ids=spec.identifier_field_ids,
        partitioning=spec.partitioning if is_repartitioned else None,
        sort_order=None if spec.sort_order == current.sort_order else spec.sort_order,
        format_version=None if spec.format_version == current.format_version else spec.format_version,
        set_properties={key: value for key, value in properties.items() if value is not None},
        unset_properties=tuple(key for key, value in properties.items() if value is None),
        set_refs={name: ref for name, ref in spec.refs.items() if ref != current.refs.get(name)},
        dropped_refs=tuple(name for name in current.refs if name not in spec.refs),
        refs_before=_refs_before(fitted),
    )


def _shown(spec: TableSpec, metadata: TableMetadata, *, is_repartitioned: bool) -> TableSpec:
    """Return `spec` as it is read back: an upgrade from version 1 shows the void fields that were hidden before."""
    stored = metadata.spec(metadata.default_spec_id)
    if stored is None or is_repartitioned:
        return spec
    return msgspec.structs.replace(spec, partitioning=shown_partitioning(stored, spec.format_version))


def _follow(change: Change, metadata: TableMetadata, moved: Set[str]) -> Change:
    """Let a retention change follow its branch: other writers may have committed to it, and that must stay.

    Not where the same commit moves it: there the branch must be where the plan saw it.
    """
    if not isinstance(change, SetRefRetention) or change.before.name in moved:
        return change
    live = metadata.refs.get(change.before.name)
    if live is None:
        return change
    return msgspec.structs.replace(
        change,
        before=msgspec.structs.replace(change.before, snapshot_id=live.snapshot_id),
        after=msgspec.structs.replace(change.after, snapshot_id=live.snapshot_id),
    )


def _property_changes(changes: Iterable[Change]) -> dict[str, str | None]:
    """Return each touched key's last value, bookkeeping included; None means unset."""
    touched: dict[str, str | None] = {}
    for change in changes:
        if isinstance(change, SetProperty):
            touched[change.key] = change.after
        elif isinstance(change, UnsetProperty):
            touched[change.key] = None
    return touched


def _refs_before(changes: Iterable[Change]) -> dict[str, int | None]:
    """Return where each touched ref is before its first change; None: nowhere."""
    before: dict[str, int | None] = {}
    for name, snapshot_id in _found_refs(changes):
        before.setdefault(name, snapshot_id)
    return before


def _found_refs(changes: Iterable[Change]) -> Iterator[tuple[str, int | None]]:
    for change in changes:
        match change:
            case CreateRef(ref=ref):
                yield ref.name, None
            case MoveRef(before=before) | SetRefRetention(before=before):
                yield before.name, before.snapshot_id
            case DropRef(ref=ref):
                yield ref.name, ref.snapshot_id
            case _:
                pass


# ---------------------------------------------------------------- requirements and updates


def requirements(metadata: TableMetadata, target: Target, *, guard_snapshot: bool) -> list[JsonObject]:
    """Assert everything the target was computed from; property-only commits assert it too."""
    asserted: list[JsonObject] = [
        {"type": "assert-table-uuid", "uuid": metadata.uuid},
        {"type": "assert-current-schema-id", "current-schema-id": metadata.current_schema_id},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": metadata.last_column_id},
        {"type": "assert-default-spec-id", "default-spec-id": metadata.default_spec_id},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": metadata.last_partition_id},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": metadata.default_sort_order_id},
    ]
    refs = dict(target.refs_before)
    if guard_snapshot:
        refs[MAIN] = metadata.head()
    asserted += [{"type": "assert-ref-snapshot-id", "ref": n, "snapshot-id": at} for n, at in refs.items()]
    return asserted


def updates(metadata: TableMetadata, target: Target) -> list[JsonObject]:
    """Return what is still to be done for the target to be true; empty: the table is there already."""
    wanted: list[JsonObject] = []
    if target.format_version is not None and target.format_version != metadata.format_version:
        wanted.append({"action": "upgrade-format-version", "format-version": target.format_version})
    wanted += _schema_updates(metadata, target)
    wanted += _spec_updates(metadata, target)
    wanted += _sort_order_updates(metadata, target)
    live = metadata.properties
    if new := {key: value for key, value in target.set_properties.items() if live.get(key) != value}:
        wanted.append({"action": "set-properties", "updates": new})
    if gone := [key for key in target.unset_properties if key in live]:
        wanted.append({"action": "remove-properties", "removals": gone})
    for name, ref in target.set_refs.items():
        found = metadata.refs.get(name)
        if found is None or to_ref(name, found) != ref:
            wanted.append(_set_ref(ref))
    wanted += [{"action": "remove-snapshot-ref", "ref-name": n} for n in target.dropped_refs if n in metadata.refs]
    return wanted


def creation(spec: TableSpec, location: str, uuid: str, properties: Mapping[str, str]) -> list[JsonObject]:
    """Return the updates that make a table from nothing, with the model's own field ids."""
    fields = (
        PartitionFieldJson(f.source_id, f.transform, f.name, FIRST_PARTITION_ID + position)
        for position, f in enumerate(spec.partitioning)
    )
    order_id = 1 if spec.sort_order else 0
    last_id = highest_id(spec.schema)
    made: list[JsonObject] = [
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "upgrade-format-version", "format-version": spec.format_version},
        {
            "action": "add-schema",
            "schema": schema_json(spec.schema, spec.identifier_field_ids, 0),
            "last-column-id": last_id,
        },
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": _spec_json(0, fields)},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": _order_json(order_id, spec.sort_order)},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": location},
    ]
    if properties:
        made.append({"action": "set-properties", "updates": dict(properties)})
    return made


def creation_properties(spec: TableSpec, changes: Iterable[Change]) -> dict[str, str]:
    """Return a new table's properties: the model's, and the bookkeeping that rides along."""
    extra = {k: v for k, v in _property_changes(changes).items() if v is not None and k.startswith(BOOKKEEPING_PREFIX)}
    return {key: value for key, value in spec.properties.items() if key != FORMAT_VERSION} | extra


def schema_json(schema: StructType, identifier_field_ids: frozenset[int], schema_id: int) -> JsonObject:
    """Return a schema as Iceberg's JSON."""
    built: dict[str, Json] = msgspec.to_builtins(schema)
    built["schema-id"] = schema_id
    if identifier_field_ids:
        built["identifier-field-ids"] = sorted(identifier_field_ids)
    return built


# ---------------------------------------------------------------- one aspect each


def _schema_updates(metadata: TableMetadata, target: Target) -> list[JsonObject]:
    if target.schema is None:
        return []
    same = next((s.schema_id for s in metadata.schemas() if _is_schema(s, target)), None)
    if same is not None:
        is_current = same == metadata.current_schema_id
        return [] if is_current else [{"action": "set-current-schema", "schema-id": same}]
    highest = highest_id(target.schema)
    schema = schema_json(target.schema, target.identifier_field_ids, metadata.highest_schema_id() + 1)
    return [
        {"action": "add-schema", "schema": schema, "last-column-id": max(highest, metadata.last_column_id)},
        {"action": "set-current-schema", "schema-id": -1},
    ]


def _is_schema(schema: SchemaJson, target: Target) -> bool:
    is_same_struct = target.schema is not None and schema.fields == target.schema.fields
    return is_same_struct and frozenset(schema.identifier_field_ids or ()) == target.identifier_field_ids


def _spec_updates(metadata: TableMetadata, target: Target) -> list[JsonObject]:
    if target.partitioning is None:
        return []
    fields = _partition_fields(metadata, target.partitioning, target.spec.format_version)
    names = [(f.source_id, f.transform, f.name) for f in fields]
    for spec in metadata.specs:
        if [(f.source_id, f.transform, f.name) for f in spec.fields] == names:
            is_current = spec.spec_id == metadata.default_spec_id
            return [] if is_current else [{"action": "set-default-spec", "spec-id": spec.spec_id}]
    new_id = max(spec.spec_id for spec in metadata.specs) + 1
    return [
        {"action": "add-spec", "spec": _spec_json(new_id, fields)},
        {"action": "set-default-spec", "spec-id": -1},
    ]


def _partition_fields(
    metadata: TableMetadata, wanted: Sequence[PartitionField], format_version: int
) -> list[PartitionFieldJson]:
    """Give each field the id it had in any earlier spec, or the next one; v1 keeps every position, voided if gone."""
    current = metadata.spec(metadata.default_spec_id)
    present = current.fields if current else ()
    if format_version == 1:
        return _positional_fields(metadata, present, wanted)
    known = {(f.source_id, f.transform): f.field_id for spec in metadata.specs for f in spec.fields}
    known |= {(f.source_id, f.transform): f.field_id for f in present}
    last, taken, fields = metadata.last_partition_id, set[int](), []
    for field in wanted:
        field_id = known.get((field.source_id, field.transform))
        if field_id is None or field_id in taken:
            last = max(last, FIRST_PARTITION_ID - 1) + 1
            field_id = last
        taken.add(field_id)
        fields.append(PartitionFieldJson(field.source_id, field.transform, field.name, field_id))
    return fields


def _positional_fields(
    metadata: TableMetadata, present: Sequence[PartitionFieldJson], wanted: Sequence[PartitionField]
) -> list[PartitionFieldJson]:
    remaining = list(wanted)
    fields = []
    for field in present:
        kept = next((w for w in remaining if (w.source_id, w.transform) == (field.source_id, field.transform)), None)
        if kept is None:
            name = field.name
            if any(w.name == name for w in wanted):  # the name moves on to another field
                name = f"{name}_{field.field_id}"
            fields.append(msgspec.structs.replace(field, transform="void", name=name))
        else:
            remaining.remove(kept)
            fields.append(msgspec.structs.replace(field, name=kept.name))
    last = max(metadata.last_partition_id, FIRST_PARTITION_ID - 1)
    for position, new in enumerate(remaining, start=1):
        fields.append(PartitionFieldJson(new.source_id, new.transform, new.name, last + position))
    return fields


def _spec_json(spec_id: int, fields: Iterable[PartitionFieldJson]) -> JsonObject:
    built: dict[str, Json] = {"spec-id": spec_id, "fields": [msgspec.to_builtins(field) for field in fields]}
    return built


def _sort_order_updates(metadata: TableMetadata, target: Target) -> list[JsonObject]:
    if target.sort_order is None:
        return []
    wanted = [_sort_field_json(field) for field in target.sort_order]
    same = 0 if not wanted else None
    for order in metadata.sort_orders:
        if [msgspec.to_builtins(field) for field in order.fields] == wanted:
            same = order.order_id
            break
    known = {order.order_id for order in metadata.sort_orders}
    if same is not None and same in known:
        is_current = same == metadata.default_sort_order_id
        return [] if is_current else [{"action": "set-default-sort-order", "sort-order-id": same}]
    new_id = max(known, default=0) + 1 if wanted else 0
    return [
        {"action": "add-sort-order", "sort-order": _order_json(new_id, target.sort_order)},
        {"action": "set-default-sort-order", "sort-order-id": -1 if wanted else 0},
    ]


def _order_json(order_id: int, fields: Iterable[SortField]) -> JsonObject:
    return {"order-id": order_id, "fields": [_sort_field_json(field) for field in fields]}


def _sort_field_json(field: SortField) -> JsonObject:
    return {
        "source-id": field.source_id,
        "transform": field.transform,
        "direction": str(field.direction),
        "null-order": "nulls-first" if field.nulls is Nulls.FIRST else "nulls-last",
    }


def _set_ref(ref: Ref) -> JsonObject:
    built: dict[str, Json] = {
        "action": "set-snapshot-ref",
        "ref-name": ref.name,
        "type": str(ref.kind),
        "snapshot-id": ref.snapshot_id,
    }
    ages = {
        "max-ref-age-ms": ref.max_ref_age_ms,
        "max-snapshot-age-ms": ref.max_snapshot_age_ms,
        "min-snapshots-to-keep": ref.min_snapshots_to_keep,
    }
    return {**built, **{key: value for key, value in ages.items() if value is not None}}
