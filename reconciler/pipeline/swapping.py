"""Exchange the names at the end of a type change: one metadata commit on exactly the snapshot that was checked."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from reconciler.diff.diff import diff
from reconciler.errors import ApprovalRequired, CommitConflict, InvalidInput, PlanStale
from reconciler.model.table import Observed
from reconciler.pipeline.execution import Execution, choose_executor
from reconciler.pipeline.memory import memory_changes
from reconciler.pipeline.proposals import Proposal, Request, make_plan
from reconciler.plan.approvals import may_run, plan_of
from reconciler.plan.data import branch_of
from reconciler.plan.events import Event, Published
from reconciler.plan.operations import Operation, Plan
from reconciler.plan.row_work import Swap
from reconciler.plan.swaps import is_swapped, swapped_spec
from reconciler.ports import CommitOutcome, Engine, StagingRef

SWAP_ROUNDS = 8
"""How often rows that others append while the names are exchanged are converted first."""

Fill = Callable[[Observed, frozenset[str]], bool]


def swap(
    proposal: Proposal,
    wanted: Operation,
    engine: Callable[[], Engine],
    tell: Callable[[Event], None],
    execution: Execution,
    fill: Fill,
) -> None:
    """Exchange names once every row of main's head is converted; `fill` converts rows, or says there is no way."""
    request = proposal.request
    if request is None or not isinstance(wanted.work, Swap):
        raise proposal.error or InvalidInput("There is no such table.", where=str(proposal.table))
    for _ in range(SWAP_ROUNDS):
        seen = request.catalog.get_table_spec(proposal.table)
        if is_swapped(seen.spec, wanted.work):
            tell(_published(proposal, wanted, seen.version.snapshot_id, replayed=True))
            return
        made, operation, work = _asked(request, seen, wanted, execution)
        ref = StagingRef(table=proposal.table, uuid=seen.version.uuid, branch=branch_of(operation.id))
        checked = engine().execute(operation, ref, tell)
        head = checked.commit().version.snapshot_id
        if checked.rows:
            names = {field.id: field.name for field in seen.spec.schema.fields}
            if not fill(seen, frozenset(names[column.new_id] for column in work.columns)):
                raise PlanStale("Its rows were never converted.", where=str(proposal.table), hint="Apply again.")
        elif head == seen.version.snapshot_id:
            try:
                outcome = commit_swap(request, seen, made, operation, work, execution)
            except CommitConflict:
                continue  # somebody committed meanwhile: look at their rows first
            tell(_published(proposal, operation, outcome.version.snapshot_id, replayed=outcome.replayed))
            return
    raise CommitConflict(
        f"Others committed rows {SWAP_ROUNDS} times while the names were to be exchanged.",
        where=str(proposal.table),
        hint="Pause the writers for a moment and apply again; readers still see the former columns.",
    )


def _asked(request: Request, seen: Observed, wanted: Operation, execution: Execution) -> tuple[Plan, Operation, Swap]:
    """Plan again: what the table and its manifest ask for is done, and only if it was released."""
    made = make_plan(request, seen, now_ms=execution.now_ms)
    operation = next((o for o in made.operations if o.id == wanted.id), None)
    if made.is_blocked or operation is None or not isinstance(operation.work, Swap):
        raise PlanStale(
            f"The table or its manifest no longer asks for operation {wanted.id}.", hint="Plan and apply again."
        )
    if not may_run(operation):
        raise ApprovalRequired(
            f"Nobody released operation {operation.id}.", hint="Run 'laketable apply', which asks for its approval."
        )
    return made, operation, operation.work


def _published(proposal: Proposal, operation: Operation, snapshot_id: int | None, *, replayed: bool) -> Published:
    columns = operation.work.columns if isinstance(operation.work, Swap) else ()
    names = ", ".join(column.name for column in columns)
    return Published(
        table=proposal.table,
        operation=operation.id,
        summary=f"exchanged the former columns for the converted ones: {names}",
        snapshot_id=snapshot_id,
        replayed=replayed,
    )


def commit_swap(
    request: Request, current: Observed, made: Plan, operation: Operation, work: Swap, execution: Execution
) -> CommitOutcome:
    """Give the twins their columns' names; raises CommitConflict when main is not where `current` saw it."""
    changes = diff(current.spec, swapped_spec(current.spec, work))
    released = msgspec.structs.replace(made, hash=plan_of(operation, made, current))
    remembered = memory_changes(request, current, changes, released, actor=execution.actor, now_ms=execution.now_ms)
    batch = (*changes, *remembered)
    executor = choose_executor(request, current, batch, execution)
    return executor.apply(current.spec.ident, current.version, batch, guard_snapshot=True)
