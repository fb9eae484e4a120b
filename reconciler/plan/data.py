"""Plan what fills computed columns: which rows need their values, on which branch, and what that costs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from reconciler.diff.apply import CannotApply, apply
from reconciler.diff.changes import Change
from reconciler.model.table import (
    BOOKKEEPING_PREFIX,
    DataFile,
    Desired,
    Observed,
    TableSpec,
)
from reconciler.plan.amounts import plural
from reconciler.plan.computed import (
    BACKFILL,
    computed_columns,
    has_rows,
    is_unchanged,
    keeps_values,
    memory_after,
    read_column,
    remembered,
)
from reconciler.plan.hashing import compared_properties, data_operation_id, desired_hash, operation_id, plan_hash
from reconciler.plan.operations import (
    Backfill,
    BackfillColumn,
    Cost,
    Finding,
    Operation,
    OperationClass,
    OperationKind,
    Plan,
)
from reconciler.plan.splicing import ways
from reconciler.plan.table_work import Maintain
from reconciler.plan.type_changes import twins

DONE_PREFIX = f"{BOOKKEEPING_PREFIX}done."
BRANCH_PREFIX = "lt_"
_OUR_BRANCH = re.compile(r"lt_[0-9a-f]{16}(_[0-9a-f]{16})?")
_IGNORE = "Ignore"


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What the computed columns of one manifest come to."""

    operations: tuple[Operation, ...] = ()
    findings: tuple[Finding, ...] = ()
    upkeep: tuple[Operation, ...] = ()


_NOTHING = Planned()


def branch_of(operation: str) -> str:
    """Name the branch that an operation works on."""
    return f"{BRANCH_PREFIX}{operation}"


def branches_of(planned: Planned) -> frozenset[str]:
    """Name the branches of planned work."""
    return frozenset(branch_of(o.id) for o in (*planned.operations, *planned.upkeep) if o.work is not None)


def is_our_branch(name: str) -> bool:
    """Say whether a branch is one that operations work on."""
    return _OUR_BRANCH.fullmatch(name) is not None


def done_key(operation: Operation) -> str:
    """Name the property that holds the id of the last operation of a kind that was done; replaced, never piled up.

    Every step of maintenance is a kind of its own here.
    """
    step = f".{operation.work.step}" if isinstance(operation.work, Maintain) else ""
    return f"{DONE_PREFIX}{operation.kind.value}{step}"


# ---------------------------------------------------------------- plan


def data_operations(plan: Plan) -> tuple[Operation, ...]:
    """Return the operations that need a data job."""
    return tuple(operation for operation in plan.operations if operation.work is not None)


def needs_files(desired: Desired, current: Observed | None) -> bool:
    """Say whether planning needs the live data files for a backfill's cost."""
    if current is None or not desired.computed or not has_rows(current):
        return False
    fields = {field.name: field.id for field in current.spec.schema.fields}
    return any(
        rule.on_change == BACKFILL and not is_unchanged(rule, remembered(current.bookkeeping, fields.get(name, 0)))
        for (name,), rule in desired.computed.items()
    )


def plan_computed(
    desired: Desired,
    current: Observed | None,
    target: TableSpec,
    changes: Sequence[Change],
    files: tuple[DataFile, ...] | None,
) -> Planned:
    """Plan the computed columns of a manifest; `target` is what the metadata changes lead to."""
    if not desired.computed:
        return _NOTHING
    target = with_real_ids(current, target, changes)
    findings: list[Finding] = []
    pending: list[BackfillColumn] = []
    names = frozenset(name for (name,) in desired.computed)
    for field, rule in computed_columns(desired, target):
        before = remembered(current.bookkeeping, field.id) if current else None
        if is_unchanged(rule, before) and not changes:
            continue
        column, refused = read_column(field, rule, target, names)
        findings += refused
        if column is None or current is None or not has_rows(current) or rule.on_change != BACKFILL:
            continue
        if before is None or not keeps_values(column, rule, before, current, target):
            revision = before.revision + 1 if before else 1
            pending.append(
                msgspec.structs.replace(
                    column, revision=revision, recompute=before is not None and before.expression != ""
                )
            )
    if current is None:
        return Planned(findings=tuple(findings))
    operations = _operations(current, target, Backfill(columns=tuple(pending)), files) if pending else ()
    if not pending and not findings:
        unfinished = fill_operation(desired, current)
        if unfinished is not None and unfinished.resumes:
            operations = _with_parts(unfinished)
    upkeep = tuple(_forgotten(desired, current, target))
    return Planned(operations=operations, findings=tuple(findings), upkeep=upkeep)


def fill_operation(
    desired: Desired,
    current: Observed,
    names: frozenset[str] | None = None,
    files: tuple[DataFile, ...] | None = None,
) -> Operation | None:
    """Return the operation that fills rows written without their values since the last backfill; None: no column.

    A twin's rows are filled anew where the value that they are converted from has changed since.
    """
    columns = []
    converting = twins(current.bookkeeping)
    for field, rule in computed_columns(desired, current.spec):
        before = remembered(current.bookkeeping, field.id)
        if before is None or rule.on_change == _IGNORE or (names is not None and field.name not in names):
            continue
        column, refused = read_column(field, rule, current.spec, frozenset())
        if column is not None and not refused and column.expression == before.expression:
            columns.append(
                msgspec.structs.replace(
                    column,
                    revision=before.revision,
                    round=before.round + 1,
                    recompute=field.id in converting,
                )
            )
    if not columns or not has_rows(current):
        return None
    fill = Backfill(columns=tuple(columns), is_fill=True)
    return _backfill(current, current.spec, fill, files or ())


def fill_plan(desired: Desired, current: Observed, made: Plan, files: tuple[DataFile, ...]) -> Plan | None:
    """Turn the plan of a table in sync into one that fills its rows; None: no column is computed."""
    fill = fill_operation(desired, current, files=files)
    if fill is None:
        return None
    operations = _with_parts(fill)
    wanted = desired_hash(desired)
    hash_ = plan_hash(wanted, current.version, compared_properties(desired, current), operations)
    return msgspec.structs.replace(made, operations=operations, upkeep=(), desired_hash=wanted, hash=hash_)


def unfilled_rows(desired: Desired, current: Observed, files: Iterable[DataFile]) -> dict[str, int]:
    """Count per computed column the rows without a value, from manifests: at most so many, for NULL may be right."""
    fields = [f for f, rule in computed_columns(desired, current.spec) if rule.on_change == BACKFILL]
    counts = {field.name: 0 for field in fields}
    for file in files:
        for field in fields:
            counts[field.name] += file.null_counts.get(field.id, file.rows)
    return {name: rows for name, rows in counts.items() if rows}


def with_real_ids(current: Observed | None, target: TableSpec, changes: Sequence[Change]) -> TableSpec:
    """Apply the changes to the live spec: that predicts the field ids that new columns will get."""
    if current is None or not changes:
        return target
    try:
        return apply(current.spec, changes, last_field_id=current.version.last_field_id)
    except (CannotApply, ValueError):
        return target  # a finding blocks such a plan anyway


# ---------------------------------------------------------------- operations


def _operations(
    current: Observed, target: TableSpec, backfill: Backfill, files: tuple[DataFile, ...] | None
) -> tuple[Operation, ...]:
    return _with_parts(_backfill(current, target, backfill, files or ()))


def _backfill(current: Observed, target: TableSpec, backfill: Backfill, files: Iterable[DataFile]) -> Operation:
    found = ways(files, backfill.columns, target.schema, target.format_version)
    arguments = [[c.field_id, c.sql, c.where, c.recompute] for c in backfill.columns]
    revision = ",".join(f"{c.revision}.{c.round}" for c in backfill.columns)
    id_ = data_operation_id(current.version.uuid, OperationKind.BACKFILL, arguments, revision)
    names = ", ".join(column.name for column in backfill.columns)
    resumes = branch_of(id_) in current.spec.refs
    is_anew = not backfill.is_fill and any(column.recompute for column in backfill.columns)
    verb = "go on to" if resumes else "all rows:" if is_anew else ""
    fill = "fill rows without" if backfill.is_fill else "backfill"
    return Operation(
        id=id_,
        kind=OperationKind.BACKFILL,
        summary=f"{verb} {fill} {names} on a branch".strip(),
        operation_class=OperationClass.REWRITE,
        cost=sum((way.cost for way in found), Cost()),
        ways=found,
        work=backfill,
        resumes=resumes,
    )


def _with_parts(backfill: Operation) -> tuple[Operation, ...]:
    """Show what follows a backfill: it is one unit of work with it."""
    count = len(backfill.work.columns) if isinstance(backfill.work, Backfill) else 0
    audit = Operation(
        id=backfill.id,
        kind=OperationKind.VALIDATE,
        summary="audit: as many rows as before, none left without its value",
        operation_class=OperationClass.AUDIT,
        resumes=backfill.resumes,
    )
    publish = Operation(
        id=backfill.id,
        kind=OperationKind.PUBLISH,
        summary=f"publish {plural(count, 'column')} on main (1 commit)",
        operation_class=OperationClass.METADATA_ONLY,
        resumes=backfill.resumes,
    )
    return backfill, audit, publish


# ---------------------------------------------------------------- upkeep


def _forgotten(desired: Desired, current: Observed, target: TableSpec) -> Iterator[Operation]:
    if memory_after(desired, current, target):
        yield upkeep_commit("remember the expressions of computed columns", current)


def upkeep_commit(summary: str, current: Observed, changes: tuple[Change, ...] = ()) -> Operation:
    """Make a metadata commit that is upkeep."""
    return Operation(
        id=operation_id(current.version, OperationKind.COMMIT, changes),
        kind=OperationKind.COMMIT,
        summary=summary,
        changes=changes,
        operation_class=OperationClass.METADATA_ONLY,
    )
