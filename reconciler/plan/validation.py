"""Plan the scan of what manifests leave unproven: it reads rows first, then the metadata commit that rests on it goes.

A scan is proof, not work: whether one is needed moves with the files, so no plan hash covers it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from reconciler.diff.changes import AlterColumnRequired
from reconciler.model.table import DataFile, Observed
from reconciler.plan.amounts import plural
from reconciler.plan.dialect import Context
from reconciler.plan.hashing import data_operation_id
from reconciler.plan.operations import Finding, Note, Operation, OperationClass, OperationKind, Severity
from reconciler.plan.proofs import cost_of_reading, uncounted
from reconciler.plan.row_work import RequiredColumn, RowCheck, Validate

UNPROVEN = "LK204"


class Proven(msgspec.Struct, frozen=True, kw_only=True):
    """What a scan has found true: these columns have values in all rows of these files, and these checks hold."""

    columns: frozenset[int] = frozenset()
    files: frozenset[str] = frozenset()
    checks: frozenset[str] = frozenset()

    def told(self, files: Iterable[DataFile]) -> tuple[DataFile, ...]:
        """Write into what the manifests tell what the scan has found."""
        return tuple(self._tell(file) for file in files)

    def and_(self, other: Proven) -> Proven:
        """Add what a later scan has found of the same columns."""
        return Proven(
            columns=self.columns | other.columns,
            files=self.files | other.files,
            checks=self.checks | other.checks,
        )

    def _tell(self, file: DataFile) -> DataFile:
        if file.path not in self.files:
            return file
        keys = self.columns | {uncounted(field_id) for field_id in self.columns}
        return msgspec.structs.replace(
            file,
            null_counts={**file.null_counts, **dict.fromkeys(keys, 0)},
            value_counts={**file.value_counts, **dict.fromkeys(keys, file.rows)},
        )


NOTHING_SCANNED = Proven()


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan's notes and findings once a scan is to prove what they leave open; None: there is nothing to scan."""

    operation: Operation | None
    notes: tuple[Note, ...]
    findings: tuple[Finding, ...]

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The scan, if there is one."""
        return (self.operation,) if self.operation else ()

    @property
    def guards_snapshot(self) -> bool:
        """Whether the commit must assert the head that was scanned."""
        work = self.operation.work if self.operation else None
        return isinstance(work, Validate) and bool(work.required)


def plan_scan(
    context: Context, notes: tuple[Note, ...], findings: tuple[Finding, ...], checks: Sequence[RowCheck]
) -> Scan:
    """Let a scan settle what only rows can: columns that become required unproven, and conditions of rows."""
    current, files = context.current, context.files
    if current is None or context.is_empty or files is None:
        return Scan(operation=None, notes=notes, findings=findings)
    open_ = {found.path for found in findings if found.code == UNPROVEN}
    columns = tuple(column for note in notes if (column := _column(note, open_, context)))
    if not columns and not checks:
        return Scan(operation=None, notes=notes, findings=findings)
    scanned = {column.field_id for column in columns}
    settled = {
        note.change.path
        for note in notes
        if isinstance(note.change, AlterColumnRequired) and note.change.field_id in scanned
    }
    return Scan(
        operation=_operation(current, files, columns, tuple(checks)),
        notes=tuple(_announced(note) if _is_about(note, scanned) else note for note in notes),
        findings=tuple(_settled(f) if f.code == UNPROVEN and f.path in settled else f for f in findings),
    )


def _column(note: Note, unproven: set[tuple[str, ...]], context: Context) -> RequiredColumn | None:
    """Return what a scan can prove, by its live path; what lies in lists and maps it cannot."""
    change = note.change
    if not isinstance(change, AlterColumnRequired) or not change.required or change.path not in unproven:
        return None
    located = context.current_fields.get(change.field_id)
    if located is None or located.in_collection:
        return None
    return RequiredColumn(path=located.path, field_id=change.field_id)


def _is_about(note: Note, scanned: set[int]) -> bool:
    return isinstance(note.change, AlterColumnRequired) and note.change.field_id in scanned


def _announced(note: Note) -> Note:
    """Class the commit as what it is once the scan, an operation of its own, has proven its point."""
    return msgspec.structs.replace(
        note, operation_class=OperationClass.METADATA_ONLY, evidence=f"{note.evidence}, scanned first"
    )


def _settled(found: Finding) -> Finding:
    said = found.message.replace("Cannot make", "To make", 1)
    return msgspec.structs.replace(
        found, severity=Severity.INFO, message=said, hint="'laketable apply' scans those files before it commits."
    )


def _operation(
    current: Observed, files: Sequence[DataFile], columns: tuple[RequiredColumn, ...], checks: tuple[RowCheck, ...]
) -> Operation:
    ids = [column.field_id for column in columns]
    unproven = [file for file in files if file.rows and (checks or not _is_proven(file, ids))]
    what = [f"no NULL in {'.'.join(column.path)}" for column in columns]
    what += [f"no rows that {check.fault}" for check in checks]
    return Operation(
        id=data_operation_id(
            current.version.uuid, OperationKind.VALIDATE, [ids, [c.sql for c in checks]], str(current.version.schema_id)
        ),
        kind=OperationKind.VALIDATE,
        summary=f"scan {plural(len(unproven), 'file')} first: {', '.join(what)}",
        operation_class=OperationClass.AUDIT,
        cost=cost_of_reading(unproven, () if checks else ids),
        work=Validate(required=columns, checks=checks),
    )


def _is_proven(file: DataFile, ids: Sequence[int]) -> bool:
    return all(file.null_counts.get(id_) == 0 and file.value_counts.get(id_) == file.rows for id_ in ids)


def scans(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """Pick the scans out of a plan's operations."""
    return tuple(operation for operation in operations if isinstance(operation.work, Validate))
