"""Carry out what was allowed: renames and drops, one metadata commit with its proofs and its memory, then data jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from reconciler.diff.changes import (
    AdoptTable,
    AlterColumnRequired,
    Change,
    DropTable,
    RenameTable,
)
from reconciler.errors import (
    ApprovalRequired,
    CommitConflict,
    CommitStateUnknown,
    Denied,
    ExitCode,
    LakeError,
    PlanStale,
    ProofInvalidated,
    Unsupported,
)
from reconciler.model.table import Observed, TableIdent, TableVersion
from reconciler.model.types import dotted
from reconciler.pipeline.memory import memory_changes
from reconciler.pipeline.proposals import Proposal, Request, make_plan
from reconciler.pipeline.scanning import prove
from reconciler.plan.approvals import starts
from reconciler.plan.events import Committed, Dropped, Event, Failed, Refused, Renamed, Replayed, Skipped, Started
from reconciler.plan.operations import Operation, OperationKind, Plan
from reconciler.plan.policy import Outcome
from reconciler.plan.proofs import invalidated
from reconciler.plan.validation import NOTHING_SCANNED, Proven, scans
from reconciler.ports import DataRuntime, MetadataExecutor
from reconciler.render.report import short_hash

PROOF_ROUNDS = 4
_COMMITTED = (OperationKind.COMMIT, OperationKind.RENAME_TABLE)


class Execution(msgspec.Struct, frozen=True):
    """How to carry plans out: which engine (auto, catalog, spark), who acts, when, and whether upkeep is included.

    `executor` gives the named executor of a catalog; it is called only for an executor that is needed, so that no JVM
    starts for a plan that the catalog commits. `data` gives what runs a catalog's data jobs.
    """

    executor: Callable[[str, Request], MetadataExecutor]
    actor: str
    now_ms: int
    data: Callable[[Request], DataRuntime] | None = None
    engine: str = "auto"
    include_upkeep: bool = False


def require_same(made: Plan, reviewed: Plan) -> None:
    """Refuse to go on when the plan made now is not the one that was reviewed."""
    if made.hash == reviewed.hash:
        return
    from reconciler.render.moved import what_moved

    now = f"planning now gives {short_hash(made.hash)}" if made.operations else "there is nothing left to do"
    moved = what_moved(reviewed, made)
    raise PlanStale(
        f"The reviewed plan {short_hash(reviewed.hash)} no longer fits {made.table}: {now}"
        f"{f' (moved: {moved})' if moved else ''}.",
        hint="Run 'laketable plan' again and review the new plan.",
    )


def execute(proposal: Proposal, execution: Execution) -> Iterator[Event]:
    """Carry out one proposal and tell what happened; errors become the last event, never an exception."""
    made, decision, table, request = proposal.plan, proposal.decision, proposal.table, proposal.request
    if made is None or decision is None or request is None:
        error = proposal.error or LakeError("There is no plan to carry out.")
        yield failure(table, error, proposal.source)
        return
    # A tag that only its schedule moves is shown but not ours to do.
    is_ours = execution.include_upkeep
    upkeep = [o for o in made.upkeep if is_ours and (o.kind is OperationKind.COMMIT or o.work is not None)]
    operations = (*made.operations, *upkeep)
    if not operations and not made.is_blocked:
        yield Skipped(table=table)
    elif decision.outcome is not Outcome.ALLOW:
        reason = Denied.reason if decision.outcome is Outcome.DENY else ApprovalRequired.reason
        yield Refused(table=table, reason=reason, message=_placed(" ".join(decision.reasons), proposal.source))
    else:
        yield Started(table=table, plan=made.hash, operations=len(operations))
        try:
            yield from _carry_out(request, proposal.current, made, operations, execution)
        except LakeError as error:
            yield failure(table, error, proposal.source)


def failure(table: TableIdent, error: LakeError, source: str) -> Event:
    """Turn an error into the event that ends a table's run; `source` is its manifest's place."""
    message = _placed(f"{error.where}: {error.message}" if error.where else error.message, source)
    if error.exit_code is ExitCode.ERROR:
        is_unknown = isinstance(error, CommitStateUnknown)
        return Failed(table=table, reason=error.reason, message=message, hint=error.hint, is_unknown=is_unknown)
    return Refused(table=table, reason=error.reason, message=message, hint=error.hint)


def _placed(message: str, source: str) -> str:
    return message if not source or message.startswith(source) else f"{source}: {message}"


def _carry_out(
    request: Request, current: Observed | None, made: Plan, operations: Sequence[Operation], execution: Execution
) -> Iterator[Event]:
    if any(operation.work is not None for operation in operations):
        _runtime(request, execution)  # refuses before anything is committed
    for operation in operations:
        for change in operation.changes:
            match change:
                case DropTable(uuid=uuid):
                    _by_executor(request, current, change, made.base, execution)
                    yield Dropped(table=made.table, uuid=uuid)
                    return
                case RenameTable(before=before, after=after):
                    _by_executor(request, current, change, made.base, execution)
                    yield Renamed(table=after, before=before)
    proven = NOTHING_SCANNED
    if scans(operations):
        rested = yield from prove(request, current, made, _runtime(request, execution), now_ms=execution.now_ms)
        if rested is None:
            return
        current, made, proven = rested.current, rested.plan, rested.proven
        operations = [o for o in operations if not scans([o])]
    if starts(made) or any(operation.kind in _COMMITTED for operation in operations):
        yield _commit_proven(request, current, made, operations, execution, proven)
    if made.guards_snapshot:
        _withdraw_invalidated(request, made, execution, proven)
    if any(operation.work is not None for operation in operations):
        # The job plans again by itself: what it does is named by the operations' ids.
        started = msgspec.structs.replace(made, operations=tuple(operations), upkeep=())
        yield from _runtime(request, execution).run(started)


def _runtime(request: Request, execution: Execution) -> DataRuntime:
    if execution.data is None or execution.engine == "catalog":
        raise Unsupported(
            "A catalog reads and fills no rows: what needs that is not done.", hint="Apply with --engine auto."
        )
    return execution.data(request)


def _commit_proven(
    request: Request,
    current: Observed | None,
    made: Plan,
    operations: Sequence[Operation],
    execution: Execution,
    proven: Proven,
) -> Event:
    """Commit; when rows arrived under a proof, prove again on the new head, a bounded number of times."""
    for _ in range(PROOF_ROUNDS):
        try:
            return _commit(request, current, made, operations, execution)
        except CommitConflict:
            if not made.guards_snapshot or request.is_undo:
                raise
            current = request.catalog.get_table_spec(made.table)
            again = make_plan(request, current, now_ms=execution.now_ms, proven=proven)
            if again.is_blocked or again.hash != made.hash or scans(again.operations):
                raise
            made, operations = again, again.operations
    return _commit(request, current, made, operations, execution)


def _withdraw_invalidated(request: Request, made: Plan, execution: Execution, proven: Proven) -> None:
    """Make columns optional again for which a writer that was under way has committed NULLs meanwhile."""
    live = request.catalog.get_table_spec(made.table)
    head = live.version.snapshot_id
    if head is None or (made.base and head == made.base.snapshot_id):
        return
    files = proven.told(request.catalog.get_data_files(made.table, head))
    withdrawn = invalidated(made.changes, live.spec, files)
    if withdrawn:
        choose_executor(request, live, withdrawn, execution).apply(made.table, live.version, withdrawn)
        names = ", ".join(dotted(c.path) for c in withdrawn if isinstance(c, AlterColumnRequired))
        raise ProofInvalidated(
            f"Another writer committed NULLs into {names} while it became required; it is optional again.",
            hint="Stop that writer or mend its rows, then apply again.",
        )


def _by_executor(
    request: Request,
    current: Observed | None,
    change: RenameTable | DropTable,
    base: TableVersion | None,
    execution: Execution,
) -> None:
    """Rename or drop the very table that was planned: its uuid is compared first."""
    executor = choose_executor(request, current, (change,), execution)
    table = change.before if isinstance(change, RenameTable) else change.ident
    if executor is not request.catalog:
        executor.apply(table, base, (change,))
    elif isinstance(change, DropTable):
        request.catalog.drop_table(table, change.uuid)
    else:
        live = request.catalog.get_table_spec(table).version
        if base is None or live.uuid != base.uuid:
            raise CommitConflict(
                f"{table} is not the table that was planned: it was dropped and made anew.", hint="Plan again."
            )
        request.catalog.rename_table(change.before, change.after)


def _commit(
    request: Request, current: Observed | None, made: Plan, operations: Sequence[Operation], execution: Execution
) -> Event:
    """Make every metadata change and the bookkeeping real in one commit."""
    commits = [operation for operation in operations if operation.kind in _COMMITTED]
    changes = tuple(c for o in commits for c in o.changes if not isinstance(c, AdoptTable | RenameTable))
    actor, now_ms = execution.actor, execution.now_ms
    remembered = memory_changes(request, current, changes, made, actor=actor, now_ms=now_ms)
    batch = (*changes, *remembered)
    executor = choose_executor(request, current, batch, execution)
    outcome = executor.apply(made.table, made.base, batch, guard_snapshot=made.guards_snapshot)
    if outcome.replayed:
        return Replayed(table=made.table, plan=made.hash, version=outcome.version)
    return Committed(
        table=made.table,
        plan=made.hash,
        version=outcome.version,
        changes=len(made.changes),
        executor=executor.name,
        metadata_location=outcome.metadata_location,
    )


def choose_executor(
    request: Request, current: Observed | None, changes: Sequence[Change], execution: Execution
) -> MetadataExecutor:
    """Take the named engine, or with `auto` the first that can: the catalog before Spark, which needs a JVM."""
    refusals = []
    for name in ("catalog", "spark") if execution.engine == "auto" else (execution.engine,):
        candidate = execution.executor(name, request)
        refusal = next((r for change in changes if (r := candidate.refusal(change, current))), None)
        if refusal is None:
            return candidate
        refusals.append(refusal)
    raise Unsupported(" ".join(dict.fromkeys(refusals)), hint="The table is untouched.")
