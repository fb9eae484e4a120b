"""What a data job does: observe and plan again, then stage and publish the operations it was started for.

The document that starts a job names operations by id. What they do is read from its manifest and the live table, so a
document cannot bring in an expression that was not parsed, nor work that is no longer wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from reconciler.errors import ApprovalRequired, InvalidInput, LakeError, PlanStale
from reconciler.model.table import Observed
from reconciler.pipeline import Execution, Proposal, Request, failure
from reconciler.pipeline.swapping import swap
from reconciler.pipeline.table_jobs import table_operation
from reconciler.plan.approvals import may_run, plan_of
from reconciler.plan.constraints import recheck
from reconciler.plan.data import branch_of, data_operations, done_key, fill_operation
from reconciler.plan.events import Event, Published, Validated
from reconciler.plan.index_work import CountDistinct
from reconciler.plan.operations import Backfill, Operation, OperationKind, Plan, Refresh, Rewrite
from reconciler.plan.rewrites import summary_when_done
from reconciler.plan.row_work import Swap, Validate
from reconciler.plan.table_work import Restore
from reconciler.plan.type_changes import expand
from reconciler.plan.validation import scans
from reconciler.ports import Engine, StagingRef

FILL_ROUNDS = 3
"""How often a job fills what others appended while it ran; the rest is for `laketable backfill`."""

_METADATA = (OperationKind.COMMIT, OperationKind.RENAME_TABLE, OperationKind.DROP_TABLE)
Tell = Callable[[Event], None]


def run_job(
    proposal: Proposal,
    wanted: Sequence[Operation],
    engine: Callable[[], Engine],
    tell: Tell,
    execution: Execution,
) -> None:
    """Carry out the wanted data operations of one table; an error becomes the last event.

    `execution` is for the metadata commit that ends a type change.
    """
    try:
        for operation in wanted:
            if isinstance(operation.work, Swap):
                fill = partial(_fill, proposal, engine, tell, execution.now_ms)
                swap(proposal, operation, engine, tell, execution, fill)
            else:
                _run(proposal, operation, engine, tell, now_ms=execution.now_ms)
    except LakeError as error:
        tell(failure(proposal.table, error, proposal.source))


def _run(proposal: Proposal, wanted: Operation, engine: Callable[[], Engine], tell: Tell, *, now_ms: int) -> None:
    request, current, made = proposal.request, proposal.current, proposal.plan
    if request is None or current is None or made is None:
        raise proposal.error or InvalidInput("There is no such table.", where=str(proposal.table))
    on_table = table_operation(request, current, wanted)
    if on_table is not None:
        _carry_out(proposal, request, current, on_table, engine, tell)
        return
    if made.is_blocked:
        raise InvalidInput("A finding forbids this plan.", where=str(proposal.table), hint="Run 'laketable plan'.")
    if isinstance(wanted.work, Validate):
        _scan(proposal, current, made, wanted, engine, tell)
        return
    if any(operation.kind in _METADATA for operation in made.operations):
        raise PlanStale(
            f"{proposal.table} waits for a metadata commit first.", hint="Run 'laketable apply', which does both."
        )
    asked = (o for o in made.upkeep if o.work is not None)
    desired = expand(request.desired, current, now_ms=now_ms).desired
    candidates = [*data_operations(made), *asked, *filter(None, [fill_operation(desired, current)])]
    operation = next((o for o in candidates if o.id == wanted.id or _is_same_refresh(o, wanted)), None)
    if operation is None:
        is_fresh = isinstance(wanted.work, Refresh) and not any(isinstance(o.work, Refresh) for o in candidates)
        if is_fresh or current.bookkeeping.get(done_key(wanted)) == wanted.id:
            tell(_published(proposal, wanted, replayed=True))
            return
        raise PlanStale(
            f"The table or its manifest no longer asks for operation {wanted.id}.", hint="Plan and apply again."
        )
    if operation in made.operations and not may_run(operation):
        raise ApprovalRequired(
            f"Nobody released operation {operation.id}.", hint="Run 'laketable apply', which asks for its approval."
        )
    has_moved = _carry_out(proposal, request, current, operation, engine, tell)
    for _ in range(FILL_ROUNDS):
        if not has_moved:
            return
        seen = request.catalog.get_table_spec(proposal.table)
        names = _filled_columns(operation)
        fill = fill_operation(desired, seen, names)
        if fill is None:
            return
        has_moved = _carry_out(proposal, request, seen, fill, engine, tell)


def _fill(
    proposal: Proposal,
    engine: Callable[[], Engine],
    tell: Tell,
    now_ms: int,
    current: Observed,
    names: frozenset[str],
) -> bool:
    """Convert the rows that came since; False: there is nothing to convert them by."""
    request = proposal.request
    desired = expand(request.desired, current, now_ms=now_ms).desired if request else None
    fill = fill_operation(desired, current, names) if desired else None
    if request is None or fill is None:
        return False
    _carry_out(proposal, request, current, fill, engine, tell)
    return True


def _scan(
    proposal: Proposal, current: Observed, made: Plan, wanted: Operation, engine: Callable[[], Engine], tell: Tell
) -> None:
    """Scan what the plan of now leaves open, before its metadata commit: a plan has one scan. Or look at all rows."""
    again = recheck(current)
    is_again = again is not None and again.id == wanted.id
    operation = again if is_again else next(iter(scans(made.operations)), None)
    if operation is None:
        raise PlanStale("Nothing is left to scan.", where=str(proposal.table), hint="Apply again.")
    if isinstance(operation.work, Validate) and isinstance(wanted.work, Validate):
        work = msgspec.structs.replace(operation.work, since=wanted.work.since)
        operation = msgspec.structs.replace(operation, work=work)
    ref = StagingRef(table=proposal.table, uuid=current.version.uuid, branch=branch_of(operation.id))
    staged = engine().execute(operation, ref, tell)
    tell(
        Validated(
            table=proposal.table,
            operation=operation.id,
            summary=operation.summary.partition(": ")[2],
            snapshot_id=staged.commit().version.snapshot_id,
            files=staged.files,
            rows=staged.rows,
            bytes=staged.bytes,
        )
    )


def _carry_out(
    proposal: Proposal,
    request: Request,
    current: Observed,
    operation: Operation,
    engine: Callable[[], Engine],
    tell: Tell,
) -> bool:
    """Stage and publish one operation; say whether others committed in between."""
    ref = StagingRef(
        table=proposal.table,
        uuid=current.version.uuid,
        branch=branch_of(operation.id),
        plan=plan_of(operation, proposal.plan, current),
        actor=request.actor,
    )
    staged = engine().execute(operation, ref, tell)
    outcome = staged.commit()
    tell(
        Published(
            table=proposal.table,
            operation=operation.id,
            summary=summary_of(operation),
            snapshot_id=outcome.version.snapshot_id,
            files=staged.files,
            rows=staged.rows,
            bytes=staged.bytes,
            replayed=outcome.replayed,
        )
    )
    return staged.main_moved


def _is_same_refresh(operation: Operation, wanted: Operation) -> bool:
    """Compare queries only: the job reads the sources where they are by now, and they may never stand still."""
    one, other = operation.work, wanted.work
    return isinstance(one, Refresh) and isinstance(other, Refresh) and one.query == other.query


def _published(proposal: Proposal, operation: Operation, *, replayed: bool) -> Published:
    return Published(table=proposal.table, operation=operation.id, summary=summary_of(operation), replayed=replayed)


def summary_of(operation: Operation) -> str:
    """Say what was done."""
    match operation.work:
        case Backfill(columns=columns, is_fill=is_fill):
            names = ", ".join(column.name for column in columns)
            return f"filled {names} in rows written meanwhile" if is_fill else f"published {names}"
        case Refresh(delta=delta):
            return f"refreshed from the changes of {delta}" if delta else "refreshed in full"
        case Rewrite() as rewrite:
            return summary_when_done(rewrite)
        case CountDistinct(columns=names):
            return f"counted distinct values of {', '.join(names)}"
        case Restore(target=target):
            return f"restored the rows of snapshot {target}"
        case _:
            return operation.summary


def _filled_columns(operation: Operation) -> frozenset[str]:
    work = operation.work.backfill if isinstance(operation.work, Rewrite) else operation.work
    columns = work.columns if isinstance(work, Backfill) else ()
    return frozenset(column.name for column in columns)
