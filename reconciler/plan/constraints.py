"""Plan row constraints: which have to be validated, and what the table remembers of them.

Iceberg has no CHECK. A constraint is a property `laketable.constraint.<name>` that LakeTable alone honours: it scans
the rows before it writes the property, and audits what its own data operations write. Others are not held to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from reconciler.diff.changes import AlterColumnType, Change, DropColumn, RenameColumn, SetProperty, UnsetProperty
from reconciler.errors import InvalidTable
from reconciler.model.table import BOOKKEEPING_PREFIX, Constraint, Desired, Observed, TableSpec
from reconciler.model.types import StructType
from reconciler.plan.findings import finding
from reconciler.plan.hashing import data_operation_id
from reconciler.plan.operations import Cost, Finding, Operation, OperationClass, OperationKind
from reconciler.plan.row_work import RowCheck, Validate

PREFIX = f"{BOOKKEEPING_PREFIX}constraint."


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What a table knows of a constraint: its condition printed anew, the columns it reads, its text's hash."""

    check: str
    columns: tuple[str, ...] = ()
    text: str = ""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What the constraints of a manifest come to."""

    changes: tuple[Change, ...] = ()
    checks: tuple[RowCheck, ...] = ()
    findings: tuple[Finding, ...] = ()


_MEMORY = msgspec.json.Decoder(Remembered)
_ENCODER = msgspec.json.Encoder(order="deterministic")


def remembered(bookkeeping: Mapping[str, str]) -> dict[str, Remembered | None]:
    """Read a table's constraints by name; None: its memory is damaged."""
    return {key.removeprefix(PREFIX): _decode(text) for key, text in bookkeeping.items() if key.startswith(PREFIX)}


def encoded(memory: Remembered) -> str:
    """Write what a table shall remember of a constraint."""
    return _ENCODER.encode(memory).decode()


def is_readable(memory: Remembered, schema: StructType) -> bool:
    """Say whether a condition can be evaluated over these columns."""
    from reconciler.sql.expressions import parse_predicate
    from reconciler.sql.refusals import RefusedSql

    try:
        parse_predicate(memory.check, schema=schema)
    except RefusedSql:
        return False
    return True


def is_left_behind(memory: Remembered, after: StructType, changes: Sequence[Change]) -> bool:
    """Say whether a condition no longer means the columns that it was validated over; `after` is the new schema."""
    moved = [c for c in changes if isinstance(c, RenameColumn | DropColumn) and c.path[0] in memory.columns]
    return any(len(change.path) == 1 for change in moved) or (bool(moved) and not is_readable(memory, after))


def _has_columns(memory: Remembered, schema: StructType) -> bool:
    """Say whether a condition's columns are there: somebody else may have renamed or dropped one."""
    return {field.name for field in schema.fields}.issuperset(memory.columns)


def audited(bookkeeping: Mapping[str, str], schema: StructType, written: frozenset[str] | None) -> tuple[RowCheck, ...]:
    """Return what rows written anew must fulfil; `written` are the columns that got values, None: all of them.

    Raises InvalidTable when a condition cannot be evaluated over the table's columns: somebody renamed or dropped one.
    """
    found = {
        name: memory
        for name, memory in sorted(remembered(bookkeeping).items())
        if memory is None or written is None or not written.isdisjoint(memory.columns)
    }
    checks = tuple(RowCheck(fault=f"break constraint {n}", sql=_parsed(n, memory)) for n, memory in found.items())
    for name, memory in found.items():
        if memory is not None and not is_readable(memory, schema):
            raise InvalidTable(
                f"Constraint {name} ({memory.check}) does not fit the table's columns any more.",
                hint="State it in the manifest over the columns there are, or state constraints without it; apply.",
            )
    return checks


def _parsed(name: str, memory: Remembered | None) -> str:
    """Hold what the table says to the allowlist once more: whoever may set its properties wrote it, maybe not we."""
    from reconciler.sql.expressions import parse_predicate
    from reconciler.sql.refusals import RefusedSql

    try:
        if memory is not None:
            return parse_predicate(memory.check, schema=None).sql
    except RefusedSql:
        pass
    raise InvalidTable(
        f"The table's property {PREFIX}{name} is not what LakeTable wrote; nothing was run.",
        hint="Remove the property, then apply the manifest: it validates the constraint again.",
    )


def recheck(current: Observed) -> Operation | None:
    """Return the scan that holds the rows there are, whoever wrote them, to what the table remembers; None: nothing."""
    checks = audited(current.bookkeeping, current.spec.schema, None)
    if not checks or current.version.snapshot_id is None:
        return None
    statistics = current.statistics
    sqls = [check.sql for check in checks]
    return Operation(
        id=data_operation_id(current.version.uuid, OperationKind.VALIDATE, sqls, "recheck"),
        kind=OperationKind.VALIDATE,
        summary=f"scan all files: {', '.join(f'no rows that {check.fault}' for check in checks)}",
        operation_class=OperationClass.AUDIT,
        cost=Cost(files_read=statistics.files or 0, bytes_read=statistics.bytes or 0),
        work=Validate(checks=checks),
    )


def needs_scan(desired: Desired, current: Observed | None) -> bool:
    """Say whether planning needs the live data files, to price the scan of a constraint."""
    if current is None or current.version.snapshot_id is None:
        return False
    live = remembered(current.bookkeeping)
    return any(not _is_unchanged(constraint, live.get(constraint.name)) for constraint in desired.constraints or ())


def plan_constraints(
    desired: Desired,
    current: Observed | None,
    target: TableSpec,
    changes: tuple[Change, ...],
    changing: frozenset[str] = frozenset(),
) -> Planned:
    """Compare the declared constraints with those the table remembers; without a statement `plan_kept` says what stays.

    `changing` are the columns that are being converted to another type.
    """
    if desired.constraints is None:
        return Planned()
    bookkeeping = current.bookkeeping if current else {}
    live = remembered(bookkeeping)
    made: list[Change] = []
    checks: list[RowCheck] = []
    findings: list[Finding] = []
    for constraint in desired.constraints:
        before = live.get(constraint.name)
        is_stale = before is not None and (
            is_left_behind(before, target.schema, changes) or not _has_columns(before, target.schema)
        )
        if _is_unchanged(constraint, before) and not is_stale:
            continue
        memory = _read(desired, constraint, target)
        if isinstance(memory, Finding):
            findings.append(memory)
            continue
        key = PREFIX + constraint.name
        late = _not_there_yet(memory, current, changes, changing)
        if late:
            if is_stale:
                made.append(UnsetProperty(key=key, before=bookkeeping[key]))
            message = f"Constraint {constraint.name} waits for {', '.join(late)}: apply again when this plan is done."
            findings.append(finding("LK218", message))
            continue
        made.append(SetProperty(key=key, before=bookkeeping.get(key), after=encoded(memory)))
        if current is not None and current.version.snapshot_id is not None:
            checks.append(RowCheck(fault=f"break constraint {constraint.name}", sql=memory.check))
    stated = {constraint.name for constraint in desired.constraints}
    made += [UnsetProperty(key=PREFIX + name, before=bookkeeping[PREFIX + name]) for name in live if name not in stated]
    return Planned(changes=tuple(made), checks=tuple(checks), findings=tuple(findings))


def _read(desired: Desired, constraint: Constraint, target: TableSpec) -> Remembered | Finding:
    from reconciler.sql.expressions import parse_predicate
    from reconciler.sql.refusals import RefusedSql

    try:
        parsed = parse_predicate(constraint.check, schema=target.schema)
    except RefusedSql as refused:
        message = f"Constraint {constraint.name} of {desired.ident.name} is refused: {refused.message}."
        return finding("LK217", message, hint=refused.hint)
    return Remembered(check=parsed.sql, columns=tuple(sorted(parsed.columns)), text=_hash(constraint.check))


def _not_there_yet(
    memory: Remembered, current: Observed | None, changes: tuple[Change, ...], changing: frozenset[str]
) -> list[str]:
    """Name the columns that this very plan adds, renames or gives another type: the scan comes before it."""
    if current is None or current.version.snapshot_id is None:
        return []
    live = {field.name for field in current.spec.schema.fields}
    moving = set(changing) | {c.to for c in changes if isinstance(c, RenameColumn) and len(c.path) == 1}
    moving |= {c.path[0] for c in changes if isinstance(c, RenameColumn | AlterColumnType)}
    return [name for name in memory.columns if name not in live or name in moving]


def _is_unchanged(constraint: Constraint, memory: Remembered | None) -> bool:
    """Compare texts: parsing costs more than everything else of a plan that finds nothing to do."""
    return memory is not None and memory.text == _hash(constraint.check)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _decode(text: str) -> Remembered | None:
    try:
        return _MEMORY.decode(text)
    except ValueError:  # msgspec's decoding errors are ValueErrors too
        return None
