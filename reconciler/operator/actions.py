"""Carry a released plan out: the metadata commit on a thread, work on rows as a job that outlives this reconcile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from reconciler.diff.changes import Change
from reconciler.errors import LakeError
from reconciler.model.table import Observed, TableIdent, TableVersion
from reconciler.operator import jobs, plans
from reconciler.operator.case import Case
from reconciler.operator.context import Context
from reconciler.operator.gate import Gate
from reconciler.operator.job_pod import actor
from reconciler.operator.objects import print_time
from reconciler.operator.reasons import Reason, reason_of
from reconciler.operator.status import Applied, Found
from reconciler.operator.store import PlanEntry
from reconciler.pipeline import Approval, Execution, Proposal, Request, execute, propose_all
from reconciler.plan.data import data_operations
from reconciler.plan.events import Committed, Dropped, Event, Failed, Refused, Renamed, Replayed, Validated
from reconciler.plan.operations import Operation, Plan
from reconciler.plan.validation import scans
from reconciler.ports import CommitOutcome, DataRuntime, MetadataExecutor

SCAN_ROUNDS = 4
_COMMITTED = Committed | Replayed | Renamed | Dropped


class JobNeeded(Exception):
    """A commit rests on rows that a job has to look at first."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan


class CommitNeeded(Exception):
    """A metadata change that only Spark can commit, which a job has to do."""


class ByJob:
    """A `MetadataExecutor` that commits nothing: a job does, where Spark is, and it says what Spark cannot."""

    name = "spark"

    def refusal(self, change: Change, current: Observed | None) -> None:
        """Refuse nothing."""

    def apply(
        self,
        table: TableIdent,
        base: TableVersion | None,
        changes: Sequence[Change],
        *,
        guard_snapshot: bool = False,
    ) -> CommitOutcome:
        """Ask for the job."""
        raise CommitNeeded


@dataclass(slots=True)
class Deferred:
    """A `DataRuntime` that only takes note: a job runs longer than a reconcile may.

    `told` is what a scan that was waited for has found; it counts once.
    """

    told: Validated | None = None
    plan: Plan | None = None

    def run(self, plan: Plan) -> Iterator[Event]:
        """Remember what a job has to do, or hand over what one found."""
        wanted = {operation.id for operation in scans(plan.operations)}
        if not wanted:
            self.plan = plan
            return iter(())
        told, self.told = self.told, None
        if told is None or told.operation not in wanted:
            raise JobNeeded(plan)
        return iter((told,))


async def act(ctx: Context, case: Case, entry: PlanEntry | None) -> Found:
    """Carry the plan out and observe again; `entry` is its plan object, None for what goes on under an earlier one."""
    jobs.require_runtime(ctx, case)
    if entry is not None and data_operations(case.plan):
        ctx.store.begin(entry, print_time(ctx.now_ms()))
        await plans.set_phase(ctx, entry, "Applying")
    deferred, events = Deferred(), list[Event]()
    for _ in range(SCAN_ROUNDS):
        try:
            events = await ctx.pool.run(lambda: list(execute(case.proposal, _execution(ctx, deferred))))
            break
        except JobNeeded as needed:
            state = await jobs.ensure(ctx, case, needed.plan)
            if state.is_running or state.failure is not None or not isinstance(state.told, Validated):
                return jobs.found_of(case, needed.plan, state, None)
            deferred.told = state.told
        except CommitNeeded:
            return await _commit_by_job(ctx, case)
    last = events[-1] if events else None
    did_commit = any(isinstance(event, _COMMITTED) for event in events)
    applied = Applied(hash=case.plan.hash, time_ms=ctx.now_ms()) if did_commit else None
    if isinstance(last, Failed | Refused):
        reason = reason_of(last.reason)
        if reason is Reason.UNAUTHENTICATED:
            ctx.pool.forget(case.catalog_key)
        return case.found(Gate(reason, f"{last.message} {last.hint}".strip()), applied=applied)
    if did_commit or deferred.plan is None:  # a look at a job that runs has changed nothing
        case = await _observed_again(ctx, case)
    if deferred.plan is not None:
        work = _by_its_table(deferred.plan, case.plan)
        return jobs.found_of(case, work, await jobs.ensure(ctx, case, work), applied)
    await plans.settle_plans(ctx, case.key, case.proposal.current, case.plan)
    if case.plan.is_empty:
        return case.found(Gate(Reason.IN_SYNC), applied=applied)
    return case.found(Gate(Reason.APPLYING, "The next step is planned."), applied=applied)


def _by_its_table(work: Plan, now: Plan) -> Plan:
    """Name work on a table that was just created as every later look does: its ids come of the table's uuid."""
    if work.base is not None or not data_operations(now):
        return work
    return msgspec.structs.replace(now, upkeep=())


async def _commit_by_job(ctx: Context, case: Case) -> Found:
    """Let a job make the metadata commit; what it makes of the table is observed like anybody's."""
    jobs.require_jobs(ctx, case)
    state = await jobs.ensure(ctx, case, case.plan, commits=True)
    if state.is_running or state.failure is not None:
        return jobs.found_of(case, case.plan, state, None, commits=True)
    applied = Applied(hash=case.plan.hash, time_ms=ctx.now_ms()) if isinstance(state.told, _COMMITTED) else None
    case = await _observed_again(ctx, case)
    await plans.settle_plans(ctx, case.key, case.proposal.current, case.plan)
    if case.plan.is_empty:
        return case.found(Gate(Reason.IN_SYNC), applied=applied)
    return case.found(Gate(Reason.APPLYING, "The next step is planned."), applied=applied)


def with_upkeep(case: Case, due: tuple[Operation, ...]) -> Case:
    """Let nothing but the upkeep that is due be carried out."""
    plan = msgspec.structs.replace(case.plan, upkeep=due)
    return replace(case, plan=plan, proposal=msgspec.structs.replace(case.proposal, plan=plan))


async def _observed_again(ctx: Context, case: Case) -> Case:
    proposal = await propose_one(ctx, case.request, Approval())
    if proposal.plan is None or proposal.decision is None:
        raise proposal.error or LakeError("There is no plan.")
    return replace(
        case, proposal=proposal, plan=proposal.plan, decision=proposal.decision, has_drifted=False, plan_name=""
    )


async def propose_one(ctx: Context, request: Request, approval: Approval) -> Proposal:
    """Observe one table and plan it, on a thread."""
    now_ms = ctx.now_ms()

    def planned() -> Proposal:
        (made,) = propose_all([request], approval, now_ms=now_ms)
        return made

    return await ctx.pool.run(planned)


def _execution(ctx: Context, deferred: Deferred) -> Execution:
    def data(_: Request) -> DataRuntime:
        return deferred

    return Execution(
        executor=_executor,
        actor=actor(ctx.settings.cluster),
        now_ms=ctx.now_ms(),
        data=data,
        engine="auto",
        include_upkeep=True,
    )


def _executor(name: str, request: Request) -> MetadataExecutor:
    return request.catalog if name == "catalog" else ByJob()
