"""Apply changes to a spec: the model that every engine must match.

An executor computes its target as `apply(current, changes)` and commits that, so field ids are predicted here once and
are the same everywhere. A change that does not fit the spec it meets is refused, never bent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import msgspec

from reconciler.diff.apply_columns import Columns
from reconciler.diff.apply_layout import apply_layout, apply_property, apply_ref
from reconciler.diff.cannot_apply import CannotApply
from reconciler.diff.changes import (
    AddColumn,
    AdoptTable,
    AlterColumnDefault,
    AlterColumnDoc,
    AlterColumnRequired,
    AlterColumnType,
    Change,
    CreateRef,
    CreateTable,
    DropColumn,
    DropRef,
    DropTable,
    MoveColumn,
    MoveRef,
    RenameColumn,
    RenameTable,
    SetIdentifierFields,
    SetPartitioning,
    SetProperty,
    SetRefRetention,
    SetSortOrder,
    UnsetProperty,
    UpgradeFormat,
)
from reconciler.diff.name_mapping import follow_schema
from reconciler.model.table import TableSpec
from reconciler.model.types import walk

__all__ = ["CannotApply", "apply"]


def apply(spec: TableSpec | None, changes: Iterable[Change], *, last_field_id: int | None = None) -> TableSpec:
    """Return what the table is after `changes`, left to right; raise CannotApply at the first that does not fit.

    New fields get the ids after `last_field_id` (default: the highest in the schema; a live table's own counter is
    higher when fields were dropped), in the order of the AddColumn changes and, inside one, as Iceberg numbers them.
    A provisional id in a later change of the same list means the id that was given to that field.
    """
    columns: Columns | None = None
    before = spec
    for change in changes:
        if spec is None:
            if not isinstance(change, CreateTable):
                raise CannotApply(change, "there is no table")
            spec = change.spec
            continue
        if columns is None:
            columns = Columns(_highest_id(spec) if last_field_id is None else last_field_id)
        spec = _apply(spec, change, columns)
    if spec is None:
        raise ValueError("Cannot apply no changes to no table.")
    return spec if before is None else follow_schema(before, spec)


def _highest_id(spec: TableSpec) -> int:
    return max((field.id for _, field in walk(spec.schema)), default=0)


def _apply(spec: TableSpec, change: Change, columns: Columns) -> TableSpec:
    match change:
        case (
            AddColumn()
            | DropColumn()
            | RenameColumn()
            | MoveColumn()
            | AlterColumnType()
            | AlterColumnRequired()
            | AlterColumnDoc()
            | AlterColumnDefault()
        ):
            return columns.apply(spec, change)
        case SetIdentifierFields() | SetPartitioning() | SetSortOrder():
            return apply_layout(spec, change, columns.resolve)
        case SetProperty() | UnsetProperty():
            return apply_property(spec, change)
        case CreateRef() | MoveRef() | SetRefRetention() | DropRef():
            return apply_ref(spec, change)
        case RenameTable() | UpgradeFormat() | AdoptTable() | CreateTable() | DropTable():
            return _apply_table(spec, change)
        case _:
            assert_never(change)


def _apply_table(
    spec: TableSpec, change: RenameTable | UpgradeFormat | AdoptTable | CreateTable | DropTable
) -> TableSpec:
    match change:
        case RenameTable():
            if spec.ident != change.before:
                raise CannotApply(change, f"the table is {spec.ident}")
            return msgspec.structs.replace(spec, ident=change.after)
        case UpgradeFormat():
            if spec.format_version != change.before or change.after <= change.before:
                raise CannotApply(change, f"the table has format version {spec.format_version}")
            return msgspec.structs.replace(spec, format_version=change.after)
        case AdoptTable():  # ownership is bookkeeping, which a spec does not hold
            return spec
        case CreateTable():
            raise CannotApply(change, "the table exists")
        case DropTable():
            raise CannotApply(change, "no spec is left behind it")
        case _:
            assert_never(change)
