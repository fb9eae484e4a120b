"""One line per commit: which parts of the table it touches."""

from __future__ import annotations

from collections.abc import Sequence

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
    MoveColumn,
    MoveRef,
    RenameColumn,
    SetIdentifierFields,
    SetPartitioning,
    SetProperty,
    SetRefRetention,
    SetSortOrder,
    UnsetProperty,
    UpgradeFormat,
)

_PARTS: dict[type[Change], str] = {
    UpgradeFormat: "format version",
    AddColumn: "schema",
    DropColumn: "schema",
    RenameColumn: "schema",
    MoveColumn: "schema",
    AlterColumnType: "schema",
    AlterColumnRequired: "schema",
    AlterColumnDoc: "schema",
    AlterColumnDefault: "schema",
    SetIdentifierFields: "schema",
    SetPartitioning: "partition spec",
    SetSortOrder: "sort order",
    SetProperty: "properties",
    UnsetProperty: "properties",
    CreateRef: "refs",
    MoveRef: "refs",
    SetRefRetention: "refs",
    DropRef: "refs",
}


def commit_summary(changes: Sequence[Change]) -> str:
    """Name the parts that one commit changes, each once, in the order of the changes."""
    parts = list(dict.fromkeys(_PARTS[type(change)] for change in changes if type(change) in _PARTS))
    lead = [
        word
        for kind, word in ((CreateTable, "create table"), (AdoptTable, "adopt table"))
        if any(isinstance(change, kind) for change in changes)
    ]
    if parts:
        return f"{', '.join([*lead, 'commit ' + ', '.join(parts)])} (1 commit)"
    return f"{', '.join(lead)} (1 commit)"
