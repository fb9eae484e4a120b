"""Carry a released plan out: the metadata commit on a thread, data operations as a job that outlives this reconcile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from reconciler.errors import LakeError, Unsupported
from reconciler.operator import jobs, plans
from reconciler.operator.case import Case
from reconciler.operator.context import Context
from reconciler.operator.gate import Gate
from reconciler.operator.reasons import Reason, reason_of
from reconciler.operator.status import Applied, Found
from reconciler.operator.store import PlanEntry
from reconciler.pipeline import Approval, Execution, Proposal, Request, execute, observe, propose
from reconciler.plan.data import data_operations
from reconciler.plan.events import Committed, Dropped, Event, Failed, Refused, Renamed, Replayed
from reconciler.plan.operations import Plan
from reconciler.ports import DataRuntime, MetadataExecutor


@dataclass(slots=True)
class Deferred:
    """A `DataRuntime` that only takes note: a job runs longer than a reconcile may."""

    plan: Plan | None = None

    def run(self, plan: Plan) -> Iterator[Event]:
        """Remember what a job has to do."""
        self.plan = plan
        return iter(())


async def act(ctx: Context, case: Case, entry: PlanEntry | None) -> Found:
    """Carry the plan out and observe again; `entry` is its plan object, None for what goes on under an earlier one."""
    if entry is not None and data_operations(case.plan):
        # Recorded before anything happens: from here on its operations may go on without being approved again.
        await plans.set_phase(ctx, entry, "Applying")
    deferred = Deferred()
    events = await ctx.pool.run(lambda: list(execute(case.proposal, _execution(ctx, deferred))))
    last = events[-1] if events else None
    did_commit = any(isinstance(event, Committed | Replayed | Renamed | Dropped) for event in events)
    applied = Applied(hash=case.plan.hash, time_ms=ctx.now_ms()) if did_commit else None
    if isinstance(last, Failed | Refused):
        reason = reason_of(last.reason)
        if reason is Reason.UNAUTHENTICATED:
            ctx.pool.forget(case.catalog_key)
        return case.found(Gate(reason, f"{last.message} {last.hint}".strip()), applied=applied)
    case = await _observed_again(ctx, case)
    if deferred.plan is not None and not case.plan.is_empty:
        return await jobs.follow(ctx, case, deferred.plan, applied)
    await plans.settle_plans(ctx, case.key, case.proposal.current, case.plan)
    if case.plan.is_empty:
        return case.found(Gate(Reason.IN_SYNC), applied=applied)
    return case.found(Gate(Reason.APPLYING, "The next step is planned."), applied=applied)


async def _observed_again(ctx: Context, case: Case) -> Case:
    request = case.proposal.request
    if request is None:
        raise TypeError("a case has a request")
    now_ms = ctx.now_ms()

    def planned() -> Proposal:
        seen = observe(request.catalog, [request.desired])[request.desired.ident]
        return propose(request, seen, Approval(), now_ms=now_ms)

    proposal = await ctx.pool.run(planned)
    if proposal.plan is None or proposal.decision is None:
        raise proposal.error or LakeError("There is no plan.")
    return replace(
        case, proposal=proposal, plan=proposal.plan, decision=proposal.decision, has_drifted=False, plan_name=""
    )


def _execution(ctx: Context, deferred: Deferred) -> Execution:
    def data(_: Request) -> DataRuntime:
        return deferred

    return Execution(
        executor=_executor, actor=f"operator/{ctx.settings.cluster}", now_ms=ctx.now_ms(), data=data, engine="auto"
    )


def _executor(name: str, request: Request) -> MetadataExecutor:
    if name == "catalog":
        return request.catalog
    raise Unsupported(
        f"Catalog {request.catalog_name} cannot make this change, and the operator holds no Spark.",
        hint="Apply it once with 'laketable apply --engine spark'.",
    )
