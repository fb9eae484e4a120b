"""What a table remembers of a plan that was released: its data operations go on after a crash, and its undo tag stays.

The commit that starts a plan writes both: the ids of its data operations into `laketable.approved`, and the tag
`lt_undo_<plan>` on what main's head was. A plan made after a crash finds its operations released already. A refresh is
remembered by its key too: its id moves with its sources, and with the table that its own plan creates.
"""

from __future__ import annotations

import msgspec

from reconciler.diff.changes import CreateRef, MoveRef
from reconciler.model.bookkeeping import Approved, approved
from reconciler.model.maintenance import UNDO_AGE_MS
from reconciler.model.table import Desired, Observed, Ref, RefKind
from reconciler.plan.expiry import UNDO_PREFIX
from reconciler.plan.hashing import PREFIX
from reconciler.plan.operations import Backfill, Operation, OperationClass, Plan, Refresh
from reconciler.plan.row_work import Validate
from reconciler.plan.table_work import Maintain, Restore

UNDO_DIGITS = 12


def released(plan: Plan, current: Observed | None) -> Plan:
    """Mark the operations that an approval of before covers: they resume."""
    before = approved(current.bookkeeping) if current else None
    if before is None or not plan.operations:
        return plan
    ids = {o.id for o in plan.operations if _is_named(o, before)}
    operations = tuple(
        msgspec.structs.replace(o, resumes=True) if o.id in ids and not o.changes else o for o in plan.operations
    )
    return plan if operations == plan.operations else msgspec.structs.replace(plan, operations=operations)


def starts(plan: Plan) -> bool:
    """Say whether carrying a plan out begins with a commit that releases its data operations."""
    return any(not o.resumes and not _comes_again(o) for o in _released_by(plan))


def may_run(operation: Operation) -> bool:
    """Say whether a job may carry an operation out: it was released, or it is what may be done any day."""
    return operation.resumes or _comes_again(operation)


def plan_of(operation: Operation, made: Plan | None, current: Observed) -> str:
    """Return the hash of the plan that an operation was released by; empty for upkeep."""
    before = approved(current.bookkeeping)
    is_planned = made is not None and operation.id in {o.id for o in made.operations}
    if before is not None and (operation.id in before.operations or (is_planned and _is_named(operation, before))):
        return before.plan
    return made.hash if made is not None and is_planned else ""


def _comes_again(operation: Operation) -> bool:
    """Say whether an operation needs no undoing: what it writes follows from what is there, today as any day."""
    work = operation.work
    return isinstance(work, Refresh | Maintain) or (isinstance(work, Backfill) and work.is_fill)


def is_continued(plan: Plan, current: Observed | None, reviewed: Plan) -> bool:
    """Say whether a plan is what is left of a reviewed one that was started."""
    before = approved(current.bookkeeping) if current else None
    is_same = before is not None and before.plan == reviewed.hash
    return is_same and bool(plan.operations) and all(operation.resumes for operation in plan.operations)


def approval_of(plan: Plan, current: Observed | None, *, actor: str) -> Approved | None:
    """Return what the commit that starts a plan remembers: None for a plan of metadata only."""
    works = _released_by(plan)
    if not works:
        return None
    refreshes = [o.work.key for o in works if isinstance(o.work, Refresh) and not o.resumes]
    if not starts(plan) and not refreshes and current is not None:
        return approved(current.bookkeeping)
    needs = tuple(sorted({o.work.target for o in works if isinstance(o.work, Restore)}))
    names = tuple(dict.fromkeys([*(operation.id for operation in works), *refreshes]))
    return Approved(plan=plan.hash, actor=actor, operations=names, needs=needs)


def _is_named(operation: Operation, before: Approved) -> bool:
    names = {operation.id, operation.work.key} if isinstance(operation.work, Refresh) else {operation.id}
    return not names.isdisjoint(before.operations)


def _released_by(plan: Plan) -> tuple[Operation, ...]:
    """List the operations that change rows; a scan only looks."""
    return tuple(o for o in plan.operations if o.work is not None and not isinstance(o.work, Validate))


# ---------------------------------------------------------------- undo tags


def undo_tag(plan_hash: str) -> str:
    """Name the tag on what a plan replaced."""
    return f"{UNDO_PREFIX}{plan_hash.removeprefix(PREFIX)[:UNDO_DIGITS]}"


def undo_tag_change(
    plan: Plan, desired: Desired, current: Observed | None, *, now_ms: int
) -> CreateRef | MoveRef | None:
    """Return the tag that a destructive or rewriting plan leaves on main's head; None: it needs none, or has it."""
    classes = (o.operation_class for o in plan.operations if not _comes_again(o))
    if (
        max(classes, default=OperationClass.METADATA_ONLY) < OperationClass.REWRITE
        or current is None
        or current.version.snapshot_id is None
    ):
        return None
    name, head = undo_tag(plan.hash), current.version.snapshot_id
    before = current.spec.refs.get(name)
    if before is not None and not (_is_elsewhere(before, head) and _is_one_commit(plan)):
        return None
    keep_ms = desired.maintenance.undo_age_ms if desired.maintenance else UNDO_AGE_MS
    # Iceberg counts a tag's age from its snapshot, which may be old by now.
    age_ms = max(0, now_ms - current.snapshot_times.get(head, now_ms))
    tag = Ref(name=name, kind=RefKind.TAG, snapshot_id=head, max_ref_age_ms=age_ms + keep_ms)
    return CreateRef(ref=tag) if before is None else MoveRef(before=before, after=tag)


def _is_elsewhere(ref: Ref, head: int) -> bool:
    return ref.kind is RefKind.TAG and ref.snapshot_id != head


def _is_one_commit(plan: Plan) -> bool:
    """Say whether a plan is done at once: one that has its tag already is run again then, never gone on with."""
    return all(_comes_again(operation) for operation in _released_by(plan))
