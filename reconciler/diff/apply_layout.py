"""Apply changes of layout, properties and refs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

import msgspec

from reconciler.diff.cannot_apply import CannotApply
from reconciler.diff.changes import (
    CreateRef,
    DropRef,
    MoveRef,
    SetIdentifierFields,
    SetPartitioning,
    SetProperty,
    SetRefRetention,
    SetSortOrder,
    UnsetProperty,
)
from reconciler.model.table import BOOKKEEPING_PREFIX, PartitionField, SortField, TableSpec
from reconciler.model.types import walk

LayoutChange = SetIdentifierFields | SetPartitioning | SetSortOrder


def apply_layout(spec: TableSpec, change: LayoutChange, resolve: Callable[[int], int]) -> TableSpec:
    """Return `spec` after one layout change; `resolve` turns provisional ids into those given out."""
    match change:
        case SetIdentifierFields():
            if spec.identifier_field_ids != {resolve(id_) for id_ in change.before}:
                raise CannotApply(change, "the identifier fields are others than the change expects")
            ids = frozenset(resolve(id_) for id_ in change.after)
            _require_fields(spec, ids, change)
            return msgspec.structs.replace(spec, identifier_field_ids=ids)
        case SetPartitioning():
            if spec.partitioning != _resolved_partitioning(change.before, resolve):
                raise CannotApply(change, "the partitioning is another than the change expects")
            partitioning = _resolved_partitioning(change.after, resolve)
            _require_fields(spec, (f.source_id for f in partitioning if f.transform != "void"), change)
            if len({field.name for field in partitioning}) < len(partitioning):
                raise CannotApply(change, "two partition fields have one name")
            return msgspec.structs.replace(spec, partitioning=partitioning)
        case SetSortOrder():
            if spec.sort_order != _resolved_sort_order(change.before, resolve):
                raise CannotApply(change, "the sort order is another than the change expects")
            sort_order = _resolved_sort_order(change.after, resolve)
            _require_fields(spec, (field.source_id for field in sort_order), change)
            return msgspec.structs.replace(spec, sort_order=sort_order)
        case _:
            assert_never(change)


def _resolved_partitioning(
    fields: Iterable[PartitionField], resolve: Callable[[int], int]
) -> tuple[PartitionField, ...]:
    return tuple(msgspec.structs.replace(field, source_id=resolve(field.source_id)) for field in fields)


def _resolved_sort_order(fields: Iterable[SortField], resolve: Callable[[int], int]) -> tuple[SortField, ...]:
    return tuple(msgspec.structs.replace(field, source_id=resolve(field.source_id)) for field in fields)


def _require_fields(spec: TableSpec, ids: Iterable[int], change: LayoutChange) -> None:
    missing = set(ids).difference(field.id for _, field in walk(spec.schema))
    if missing:
        raise CannotApply(change, f"there is no field {min(missing)}")


def apply_property(spec: TableSpec, change: SetProperty | UnsetProperty) -> TableSpec:
    """Return `spec` after one property change; bookkeeping keys are not part of a spec and pass by."""
    if change.key.startswith(BOOKKEEPING_PREFIX):
        return spec
    if spec.properties.get(change.key) != change.before:
        raise CannotApply(change, f"property {change.key} has another value than the change expects")
    properties = {key: value for key, value in spec.properties.items() if key != change.key}
    if isinstance(change, SetProperty):
        properties[change.key] = change.after
    return msgspec.structs.replace(spec, properties=properties)


def apply_ref(spec: TableSpec, change: CreateRef | MoveRef | SetRefRetention | DropRef) -> TableSpec:
    """Return `spec` after one change of a tag or branch."""
    refs = dict(spec.refs)
    match change:
        case CreateRef():
            if change.ref.name in refs:
                raise CannotApply(change, f"there is a {refs[change.ref.name].kind.value} {change.ref.name}")
            refs[change.ref.name] = change.ref
        case MoveRef() | SetRefRetention():
            before, after = change.before, change.after
            if refs.get(before.name) != before or (before.name, before.kind) != (after.name, after.kind):
                raise CannotApply(change, f"{before.kind.value} {before.name} is not what the change expects")
            refs[before.name] = after
        case DropRef():
            if refs.get(change.ref.name) != change.ref:
                raise CannotApply(change, f"{change.ref.kind.value} {change.ref.name} is not what the change expects")
            del refs[change.ref.name]
        case _:
            assert_never(change)
    return msgspec.structs.replace(spec, refs=refs)
