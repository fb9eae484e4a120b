"""Observe, propose, execute: the one composition that every shell shares.

Level-triggered: each run observes again and holds no state between runs. The shells turn arguments and resources into
`Request`s and `Proposal`s into text, exit codes and status; every decision is made here or below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import msgspec

from reconciler.dialects import dialect_for
from reconciler.diff.apply import apply
from reconciler.diff.bind import bind
from reconciler.diff.changes import (
    AdoptTable,
    AlterColumnRequired,
    Change,
    DropTable,
    RenameTable,
    SetProperty,
    UnsetProperty,
)
from reconciler.diff.diff import diff
from reconciler.errors import (
    ApprovalRequired,
    CommitConflict,
    CommitStateUnknown,
    Denied,
    ExitCode,
    LakeError,
    PlanStale,
    ProofInvalidated,
    RefNotFound,
    TableNotFound,
    Unsupported,
)
from reconciler.model import bookkeeping
from reconciler.model.table import DataFile, Desired, Observed, TableIdent, TableSpec, TableVersion
from reconciler.model.types import StructType, dotted
from reconciler.plan.data import data_operations, memory_after, needs_files
from reconciler.plan.events import Committed, Dropped, Event, Failed, Refused, Renamed, Replayed, Skipped, Started
from reconciler.plan.findings import finding
from reconciler.plan.operations import Operation, OperationClass, OperationKind, Plan
from reconciler.plan.planner import plan, plan_drop, plan_offline, plan_undo
from reconciler.plan.policy import Decision, Outcome, Policy, approves, judge
from reconciler.plan.proofs import invalidated, needs_data_files
from reconciler.ports import CatalogProvider, DataRuntime, MetadataExecutor
from reconciler.render.report import short_hash

PROOF_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Request:
    """One manifest against one catalog; `source` is its file:line."""

    desired: Desired
    catalog: CatalogProvider
    catalog_name: str
    policies: tuple[Policy, ...] = ()
    source: str = ""
    is_undo: bool = False
    runtime: str = "local"

    @classmethod
    def undo(
        cls,
        table: TableIdent,
        owner: str,
        catalog: CatalogProvider,
        catalog_name: str,
        policies: tuple[Policy, ...],
    ) -> Request:
        """Ask for a table's own past instead of a manifest's wish."""
        nothing_stated = Desired(ident=table, owner=owner, columns=StructType(()))
        return cls(nothing_stated, catalog, catalog_name, policies, is_undo=True)


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one request comes to: a plan with its decision, or the error that kept it from one.

    `request` None: nothing live was asked (specs compared offline, or no catalog could be found).
    """

    table: TableIdent
    source: str = ""
    request: Request | None = None
    current: Observed | None = None
    plan: Plan | None = None
    decision: Decision | None = None
    error: LakeError | None = None


@dataclass(frozen=True, slots=True)
class Approval:
    """What the caller releases: plan hashes, and whether everything short of destructive goes through."""

    hashes: frozenset[str] = frozenset()
    auto: bool = False
    take_ownership: bool = False


# ---------------------------------------------------------------- observe and propose


def propose_all(requests: Sequence[Request], approval: Approval, *, now_ms: int) -> Iterator[Proposal]:
    """Plan every request, one catalog at a time; one table's failure is that table's proposal."""
    by_catalog = sorted(requests, key=lambda request: request.catalog_name)
    for _, group in groupby(by_catalog, key=lambda request: request.catalog_name):
        batch = list(group)
        seen = observe(batch[0].catalog, [request.desired for request in batch])
        for request in batch:
            yield propose(request, seen[request.desired.ident], approval, now_ms=now_ms)


def observe(catalog: CatalogProvider, desired: Sequence[Desired]) -> dict[TableIdent, Observed | LakeError | None]:
    """Read the live tables of these manifests: None for a table that is not there, under its former name neither."""
    seen: dict[TableIdent, Observed | LakeError | None] = {}
    for ident, found in catalog.get_table_specs([d.ident for d in desired]):
        seen[ident] = None if isinstance(found, TableNotFound) else found
    former = {d.renamed_from: d.ident for d in desired if d.renamed_from and seen[d.ident] is None}
    if former:
        for ident, found in catalog.get_table_specs(list(former)):
            seen[former[ident]] = None if isinstance(found, TableNotFound) else found
    return seen


def propose(request: Request, seen: Observed | LakeError | None, approval: Approval, *, now_ms: int) -> Proposal:
    """Bind, diff, plan and judge one observed table."""
    if isinstance(seen, LakeError):
        return _proposal(request, error=seen)
    try:
        made = make_plan(request, seen, now_ms=now_ms, take_ownership=approval.take_ownership)
    except LakeError as error:
        return _proposal(request, current=seen, error=error)
    return judged(_proposal(request, current=seen, plan=made), approval, now_ms=now_ms)


def _proposal(
    request: Request, *, current: Observed | None = None, plan: Plan | None = None, error: LakeError | None = None
) -> Proposal:
    return Proposal(request.desired.ident, request.source, request, current, plan, error=error)


def propose_offline(before: Desired | None, after: Desired, *, source: str, now_ms: int) -> Proposal:
    """Compare two versions of a manifest without a catalog; `before` None: the manifest is new."""
    try:
        made = plan_offline(before, after, dialect=dialect_for(after.format), now_ms=now_ms)
    except LakeError as error:
        return Proposal(after.ident, source, error=error)
    return Proposal(after.ident, source, plan=made)


def make_plan(request: Request, current: Observed | None, *, now_ms: int, take_ownership: bool = False) -> Plan:
    """Plan one table; manifests are read only when a change needs a proof or a cost."""
    desired = request.desired
    binding = bind(desired, current, now_ms=now_ms)
    changes = diff(current.spec if current else None, binding.spec)
    needs_rows = needs_data_files(changes) or needs_files(desired, current)
    made = plan(
        desired,
        current,
        binding,
        changes,
        dialect=dialect_for(desired.format),
        catalog=request.catalog_name,
        files=_data_files(request.catalog, current) if needs_rows else None,
        take_ownership=take_ownership,
    )
    if request.runtime == "local" or not data_operations(made):
        return made
    message = f"Computed columns need a data job, and the runtime {request.runtime} of catalog {request.catalog_name}"
    refusal = finding("LK208", f"{message} does not run yet.", hint="Set its runtime to local.")
    return msgspec.structs.replace(made, findings=(*made.findings, refusal))


def propose_undo(request: Request, current: Observed, approval: Approval, *, now_ms: int) -> Proposal:
    """Plan the way back to the spec before our last commit; before a creation there was no table, so that is a drop.

    Raises RefNotFound when we never changed the table, or its metadata no longer holds that past.
    """
    history = bookkeeping.read(current.bookkeeping).history
    if not history:
        raise RefNotFound(f"LakeTable has not changed {current.spec.ident}; there is nothing to undo.")
    last = history[-1]
    dialect = dialect_for(current.spec.format)
    if last.schema_id is None or last.spec_id is None or last.sort_order_id is None:
        made = plan_drop(current, owner=request.desired.owner, catalog=request.catalog_name, dialect=dialect)
    else:
        ids = last.schema_id, last.spec_id, last.sort_order_id
        past = request.catalog.get_past_spec(current.spec.ident, *ids)
        past = msgspec.structs.replace(past, properties=_past_properties(current, last), refs=current.spec.refs)
        made = plan_undo(
            current,
            past,
            owner=request.desired.owner,
            catalog=request.catalog_name,
            dialect=dialect,
            files=_data_files(request.catalog, current) if needs_data_files(diff(current.spec, past)) else None,
        )
    if not made.operations:
        raise RefNotFound(
            f"The last commit of LakeTable to {current.spec.ident} left nothing that undo brings back: tags, branches, "
            "the format version, ownership and properties above 1 KiB stay as they are.",
            hint="Change the manifest instead, and apply it.",
        )
    return judged(_proposal(request, current=current, plan=made), approval, now_ms=now_ms)


def _past_properties(current: Observed, last: bookkeeping.HistoryRecord) -> dict[str, str]:
    properties = dict(current.spec.properties)
    for key, before in (last.properties or {}).items():
        if before is None:
            properties.pop(key, None)
        else:
            properties[key] = before
    return properties


def judged(proposal: Proposal, approval: Approval, *, now_ms: int) -> Proposal:
    """Judge a proposal's plan by its policies, the caller's approval and the one committed in the spec."""
    if proposal.plan is None or proposal.request is None:
        return proposal
    committed = proposal.request.desired.approval
    is_used = committed is not None and _is_used(committed, proposal)
    hashes = approval.hashes | ({committed} if committed and not is_used else set())
    decision = judge(
        proposal.plan,
        proposal.request.policies,
        approvals=frozenset(hashes),
        auto_approve=approval.auto,
        now_ms=now_ms,
    )
    if is_used and decision.outcome is Outcome.NEEDS_APPROVAL:
        why = "The approval in the manifest released this plan once already, and it was taken back since."
        decision = msgspec.structs.replace(decision, reasons=(why, *decision.reasons))
    return replace(proposal, decision=decision)


def _is_used(committed: str, proposal: Proposal) -> bool:
    """Say whether a committed approval of a destructive plan was carried out before: after an undo it lies there still.

    `--approve` is somebody's word of today, so it counts again.
    """
    made, current = proposal.plan, proposal.current
    if made is None or current is None or made.operation_class is not OperationClass.DESTRUCTIVE:
        return False
    is_this = approves(committed, made.hash)
    return is_this and any(made.hash == record.plan for record in bookkeeping.read(current.bookkeeping).history)


def _data_files(catalog: CatalogProvider, current: Observed | None) -> tuple[DataFile, ...] | None:
    if current is None:
        return None
    if current.version.snapshot_id is None:
        return ()
    return catalog.get_data_files(current.spec.ident, current.version.snapshot_id)


# ---------------------------------------------------------------- execute


@dataclass(frozen=True, slots=True)
class Execution:
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
    # Upkeep that needs a data job is shown but not ours to do.
    upkeep = [o for o in made.upkeep if execution.include_upkeep and o.kind is OperationKind.COMMIT]
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
    if any(operation.kind in (OperationKind.COMMIT, OperationKind.RENAME_TABLE) for operation in operations):
        yield _commit_proven(request, current, made, operations, execution)
    if made.guards_snapshot:
        _withdraw_invalidated(request, made, execution)
    if data_operations(made):
        # The job plans again by itself: what it does is named by the operations' ids.
        yield from _runtime(request, execution).run(made)


def _runtime(request: Request, execution: Execution) -> DataRuntime:
    if execution.data is None or execution.engine == "catalog":
        raise Unsupported(
            "A catalog cannot fill rows: the metadata is committed, the rows are not.", hint="Apply with --engine auto."
        )
    return execution.data(request)


def _commit_proven(
    request: Request, current: Observed | None, made: Plan, operations: Sequence[Operation], execution: Execution
) -> Event:
    """Commit; when rows arrived under a proof, prove again on the new head, a bounded number of times."""
    for _ in range(PROOF_ROUNDS):
        try:
            return _commit(request, current, made, operations, execution)
        except CommitConflict:
            if not made.guards_snapshot or request.is_undo:
                raise
            current = request.catalog.get_table_spec(made.table)
            again = make_plan(request, current, now_ms=execution.now_ms)
            if again.is_blocked or again.hash != made.hash:
                raise
            made, operations = again, again.operations
    return _commit(request, current, made, operations, execution)


def _withdraw_invalidated(request: Request, made: Plan, execution: Execution) -> None:
    """Make columns optional again for which a writer that was under way has committed NULLs meanwhile."""
    live = request.catalog.get_table_spec(made.table)
    head = live.version.snapshot_id
    if head is None or (made.base and head == made.base.snapshot_id):
        return
    withdrawn = invalidated(made.changes, live.spec, request.catalog.get_data_files(made.table, head))
    if withdrawn:
        _choose_executor(request, live, withdrawn, execution).apply(made.table, live.version, withdrawn)
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
    executor = _choose_executor(request, current, (change,), execution)
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
    changes = tuple(c for o in operations for c in o.changes if not isinstance(c, AdoptTable | RenameTable))
    batch = (*changes, *_bookkeeping(request, current, changes, made.hash, execution))
    executor = _choose_executor(request, current, batch, execution)
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


def _choose_executor(
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


def _bookkeeping(
    request: Request, current: Observed | None, changes: Sequence[Change], plan_hash: str, execution: Execution
) -> Iterator[Change]:
    """Yield the `laketable.*` properties that ride in the same commit: owner, managed parts, history."""
    before = dict(current.bookkeeping) if current else {}
    known = bookkeeping.read(before)
    target = apply(
        current.spec if current else None, changes, last_field_id=current.version.last_field_id if current else None
    )
    if request.is_undo and current:
        managed = bookkeeping.restored(known, target, current.spec)
    else:
        managed = bookkeeping.managed_after(request.desired, target, known, now_ms=execution.now_ms)
    record = _record(current, changes, plan_hash, execution)
    after = bookkeeping.write(bookkeeping.append_history(managed, record))
    yield from _computed_memory(request, current, target)
    for key, value in after.items():
        # The owner rides along unchanged, too: a table that somebody claimed since must refuse the commit.
        if before.get(key) != value or key == bookkeeping.OWNER:
            yield SetProperty(key=key, before=before.get(key), after=value)
    for key in bookkeeping.KEYS:
        if key in before and key not in after:
            yield UnsetProperty(key=key, before=before[key])


def _computed_memory(request: Request, current: Observed | None, target: TableSpec) -> Iterator[Change]:
    if request.is_undo:
        return
    live = current.bookkeeping if current else {}
    for key, value in memory_after(request.desired, current, target).items():
        if value is None:
            yield UnsetProperty(key=key, before=live[key])
        else:
            yield SetProperty(key=key, before=live.get(key), after=value)


def _record(
    current: Observed | None, changes: Sequence[Change], plan_hash: str, execution: Execution
) -> bookkeeping.HistoryRecord:
    version = current.version if current else None
    replaced = {c.key: c.before for c in changes if isinstance(c, SetProperty | UnsetProperty)}
    return bookkeeping.HistoryRecord(
        plan=plan_hash,
        time_ms=execution.now_ms,
        actor=execution.actor,
        schema_id=version.schema_id if version else None,
        spec_id=version.spec_id if version else None,
        sort_order_id=version.sort_order_id if version else None,
        snapshot_id=version.snapshot_id if version else None,
        properties=replaced,
    )
