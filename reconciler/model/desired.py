"""From a checked `LakeTable` manifest to `Desired`, its normal form, and the canonical bytes that a plan hash covers.

The way back, from a live table to a manifest, is `model.observed_manifest`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from reconciler.model.defaults import canonical_default
from reconciler.model.indexes import index_properties, index_sort_order
from reconciler.model.maintenance import (
    DAILY,
    WEEKLY,
    CompactFiles,
    ExpireSnapshots,
    Maintenance,
    RemoveOrphans,
    RewriteManifests,
)
from reconciler.model.property_keys import COMMENT, DISTRIBUTION_MODE
from reconciler.model.quantities import parse_duration, parse_size
from reconciler.model.schedules import parse_instant
from reconciler.model.table import (
    Computed,
    Constraint,
    Desired,
    DesiredIndex,
    DesiredPartitionField,
    DesiredRef,
    DesiredSortField,
    Direction,
    Nulls,
    RefKind,
    Suppression,
    TableFormat,
    TableIdent,
    TypeChange,
    UnmanagedColumns,
    View,
)
from reconciler.model.transforms import parse_transform
from reconciler.model.type_strings import parse_path, parse_type
from reconciler.model.types import Field, FieldPath, StructType, fields_of, with_fields

if TYPE_CHECKING:
    from reconciler.model.manifest import table as manifests
    from reconciler.model.manifest.table import (
        Branch,
        Column,
        Index,
        LakeTable,
        LakeTableSpec,
        MaterializedView,
        NestedField,
        PartitionEntry,
        SortEntry,
        Tag,
    )

DEFAULT_PROJECT = "default"


def to_desired(manifest: LakeTable, project: str = DEFAULT_PROJECT) -> Desired:
    """Return a manifest's normal form; the manifest has passed `load_documents`."""
    spec, metadata = manifest.spec, manifest.metadata
    identifier = spec.identifier or f"{metadata.namespace}.{metadata.name}"
    columns = tuple(_column(column) for column in spec.columns or ())
    renames: dict[FieldPath, str] = {
        (c.name,): c.renamed_from for c in spec.columns or () if c.renamed_from is not None
    }
    stated: set[FieldPath] = {(c.name,) for c in spec.columns or () if c.states("default")}
    if spec.nested_fields:
        columns = _with_nested_fields(columns, spec.nested_fields, renames, stated)
    indexes = tuple(_index(index) for index in spec.indexes or ())
    return Desired(
        ident=TableIdent.parse(identifier),
        owner=f"{project}/{metadata.namespace}/{metadata.name}",
        format=TableFormat(spec.format),
        renamed_from=TableIdent.parse(spec.renamed_from) if spec.renamed_from else None,
        columns=StructType(columns),
        column_renames=renames,
        defaults_stated=frozenset(stated),
        unmanaged_columns=UnmanagedColumns(spec.unmanaged_columns),
        identifier_fields=_paths(spec.identifier_fields),
        partitioning=_partitioning(spec.partitioning),
        sort_order=index_sort_order(indexes) or _sort_order(spec.sort_order),
        properties=index_properties(indexes) | _properties(spec),
        refs=_refs(spec),
        format_version=spec.format_version,
        location=spec.location,
        computed={
            (c.name,): Computed(
                expression=c.computed.expression,
                on_change=c.computed.on_change,
                version=c.computed.version,
                where=c.computed.where,
            )
            for c in spec.columns or ()
            if c.computed is not None
        },
        type_changes={
            c.name: TypeChange(
                using=c.type_change.using,
                on_cast_failure=c.type_change.on_cast_failure,
                keep_old_ms=parse_duration(c.type_change.keep_old_for),
            )
            for c in spec.columns or ()
            if c.type_change is not None
        },
        constraints=None
        if spec.constraints is None
        else tuple(Constraint(name=c.name, check=c.check) for c in spec.constraints),
        rewrite_existing=spec.rewrite_existing,
        indexes=indexes,
        maintenance=_maintenance(spec.maintenance),
        view=_view(spec.materialized_view) if spec.materialized_view is not None else None,
        suppressions=tuple(
            Suppression(code=s.code, reason=s.reason, path=parse_path(s.path) if s.path else None)
            for s in spec.suppress or ()
        ),
        approval=spec.approval.plan if spec.approval else None,
    )


def _column(column: Column) -> Field:
    type_ = parse_type(column.type)
    if not column.states("default"):
        return Field(name=column.name, required=column.required, type=type_, doc=column.doc)
    default = canonical_default(type_, column.default)
    return Field(
        name=column.name,
        required=column.required,
        type=type_,
        doc=column.doc,
        initial_default=default,
        write_default=default,
    )


def _with_nested_fields(
    columns: tuple[Field, ...],
    entries: Sequence[NestedField],
    renames: dict[FieldPath, str],
    stated: set[FieldPath],
) -> tuple[Field, ...]:
    by_path = {parse_path(entry.path): entry for entry in entries}
    for path, entry in by_path.items():
        if entry.renamed_from is not None:
            renames[path] = entry.renamed_from
        if entry.states("default"):
            stated.add(path)
    touched = {path[0] for path in by_path}
    return tuple(_amend(column, (column.name,), by_path) if column.name in touched else column for column in columns)


def _amend(field: Field, path: FieldPath, entries: Mapping[FieldPath, NestedField]) -> Field:
    if not isinstance(field.type, str):
        children = tuple(_amend(child, (*path, child.name), entries) for child in fields_of(field.type))
        field = msgspec.structs.replace(field, type=with_fields(field.type, children))
    entry = entries.get(path)
    if entry is None:
        return field
    if entry.doc is not None:
        field = msgspec.structs.replace(field, doc=entry.doc)
    if entry.states("default"):
        default = canonical_default(field.type, entry.default)
        field = msgspec.structs.replace(field, initial_default=default, write_default=default)
    return field


def _paths(texts: Sequence[str] | None) -> tuple[FieldPath, ...] | None:
    return None if texts is None else tuple(parse_path(text) for text in texts)


def _partitioning(entries: Sequence[PartitionEntry] | None) -> tuple[DesiredPartitionField, ...] | None:
    if entries is None:
        return None
    return tuple(
        DesiredPartitionField(path=parse_path(e.column), transform=parse_transform(e.transform), name=e.name)
        for e in entries
    )


def _sort_order(entries: Sequence[SortEntry] | None) -> tuple[DesiredSortField, ...] | None:
    return None if entries is None else tuple(_sort_field(entry) for entry in entries)


def _sort_field(entry: SortEntry) -> DesiredSortField:
    by_direction = Nulls.FIRST if entry.direction == "asc" else Nulls.LAST
    return DesiredSortField(
        path=parse_path(entry.column),
        transform=parse_transform(entry.transform),
        direction=Direction(entry.direction),
        nulls=Nulls(entry.nulls) if entry.nulls else by_direction,
    )


def _index(index: Index) -> DesiredIndex:
    return DesiredIndex(
        name=index.name,
        type=index.type,
        columns=tuple(parse_path(text) for text in index.columns),
        rewrite_existing=index.rewrite_existing,
        properties=index.properties or {},
    )


def _properties(spec: LakeTableSpec) -> dict[str, str]:
    properties = dict(spec.properties or {})
    if spec.comment is not None:
        properties[COMMENT] = spec.comment
    if spec.write_distribution is not None:
        properties[DISTRIBUTION_MODE] = spec.write_distribution
    return properties


def _refs(spec: LakeTableSpec) -> tuple[DesiredRef, ...] | None:
    if spec.tags is None and spec.branches is None:
        return None
    return (*map(_tag, spec.tags or ()), *map(_branch, spec.branches or ()))


def _tag(tag: Tag) -> DesiredRef:
    point = tag.snapshot
    return DesiredRef(
        name=tag.name,
        kind=RefKind.TAG,
        snapshot_id=point.id if point else None,
        as_of_ms=parse_instant(point.as_of) if point and point.as_of else None,
        track=tag.track,
        schedule=tag.schedule,
        max_ref_age_ms=_milliseconds(tag.retain),
    )


def _branch(branch: Branch) -> DesiredRef:
    point = branch.snapshot
    return DesiredRef(
        name=branch.name,
        kind=RefKind.BRANCH,
        snapshot_id=point.id if point else None,
        as_of_ms=parse_instant(point.as_of) if point and point.as_of else None,
        max_ref_age_ms=_milliseconds(branch.retain),
        max_snapshot_age_ms=_milliseconds(branch.max_snapshot_age),
        min_snapshots_to_keep=branch.min_snapshots_to_keep,
    )


def _view(view: MaterializedView) -> View:
    refresh = view.refresh
    if refresh is None:
        return View(query=view.query)
    return View(
        query=view.query,
        mode=refresh.mode,
        on_source_change=refresh.on_source_change,
        max_staleness_ms=_milliseconds(refresh.max_staleness),
        schedule=refresh.schedule,
    )


def _milliseconds(text: str | None) -> int | None:
    return None if text is None else parse_duration(text)


def _maintenance(declared: manifests.Maintenance | None) -> Maintenance | None:
    if declared is None:
        return None
    rewrite = declared.rewrite_manifests
    return Maintenance(
        expire=_expiry(declared.expire_snapshots) if declared.expire_snapshots else None,
        compact=_compaction(declared.compact) if declared.compact else None,
        manifests=RewriteManifests(schedule=rewrite.schedule or WEEKLY) if rewrite else None,
        orphans=_orphans(declared.remove_orphan_files) if declared.remove_orphan_files else None,
        undo_age_ms=parse_duration(declared.keep_undo),
        stale_branch_ms=parse_duration(declared.stale_branches),
    )


def _expiry(declared: manifests.ExpireSnapshots) -> ExpireSnapshots:
    age = parse_duration(declared.older_than)
    return ExpireSnapshots(older_than_ms=age, keep=declared.keep, schedule=declared.schedule or DAILY)


def _compaction(declared: manifests.Compact) -> CompactFiles:
    target = parse_size(str(declared.target_file_size))
    return CompactFiles(target_bytes=target, min_files=declared.min_input_files, schedule=declared.schedule or DAILY)


def _orphans(declared: manifests.RemoveOrphanFiles) -> RemoveOrphans:
    return RemoveOrphans(older_than_ms=parse_duration(declared.older_than), schedule=declared.schedule or WEEKLY)


def canonical_desired(desired: Desired) -> bytes:
    """Return what the plan hash covers of a spec: deterministic JSON, blind to the order of maps and of refs.

    Not covered, so that they void no approval: the approval itself, maintenance, and the owner (a CLI project and an
    operator must agree on the hash).
    """
    plain = {name: getattr(desired, name) for name in desired.__struct_fields__}
    for name in ("approval", "owner", "maintenance"):
        del plain[name]
    for name in ("rewrite_existing", "indexes", "type_changes", "constraints"):
        if not plain[name]:
            del plain[name]  # the hashes of manifests that do not speak of it stay what they were
    plain["column_renames"] = sorted((list(path), name) for path, name in desired.column_renames.items())
    plain["defaults_stated"] = sorted(list(path) for path in desired.defaults_stated)
    plain["computed"] = [
        [*path, computed] for path, computed in sorted(desired.computed.items(), key=lambda item: item[0])
    ]
    plain["refs"] = None if desired.refs is None else sorted(desired.refs, key=lambda ref: (ref.kind, ref.name))
    plain["suppressions"] = sorted(desired.suppressions, key=lambda s: (s.code, s.path or (), s.reason))
    if desired.identifier_fields is not None:
        plain["identifier_fields"] = sorted(desired.identifier_fields)
    return msgspec.json.encode(plain, order="sorted")
