"""The plan of a dry run, as warnings: what would be done, what it costs, and whether it would wait.

It is made from what the catalog says now, through connections that cannot write, and in bounded time: a catalog that
hangs holds a few threads of its own and nobody else's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from reconciler.errors import LakeError
from reconciler.model.manifest.table import Reconcile
from reconciler.operator.case import Case
from reconciler.operator.context import Context
from reconciler.operator.gate import Gate
from reconciler.operator.intake import propose_case
from reconciler.operator.manifests import Wanted
from reconciler.operator.objects import TABLES, Json, Key, Meta
from reconciler.operator.reasons import Reason
from reconciler.operator.worker import place_of
from reconciler.plan.data import data_operations
from reconciler.render.report import Report
from reconciler.render.text import render_report

PER_CATALOG = 2
WIDTH = 120
ROWS = 12


@dataclass(frozen=True, slots=True)
class Wish:
    """A LakeTable that somebody tries out, checked and allowed to use its catalog."""

    raw: Json
    meta: Meta
    wanted: Wanted
    settings: Reconcile
    catalog: Key


@dataclass(slots=True)
class DryRuns:
    """Makes plans that nobody carries out; `ctx` must not be able to write."""

    ctx: Context
    _places: dict[Key, asyncio.Semaphore] = field(default_factory=dict)
    _running: set[asyncio.Task[list[str]]] = field(default_factory=set)

    async def lines(self, wish: Wish, until: float) -> list[str]:
        """Return the plan, or in one line why there is none; `until` is a time of the loop's clock."""
        loop = asyncio.get_running_loop()
        places = self._places.setdefault(wish.catalog, asyncio.Semaphore(PER_CATALOG))
        try:
            async with asyncio.timeout_at(until):
                await places.acquire()
        except TimeoutError:
            return ["No plan: the catalog has not answered earlier dry runs yet. Try again."]
        task = loop.create_task(self._plan(wish))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda _: places.release())
        done, _ = await asyncio.wait({task}, timeout=max(0.0, until - loop.time()))
        if not done:
            # The thread cannot be stopped; it counts until the catalog's own time limit ends it.
            return ["No plan: it was not ready in time. Try again, or run laketable plan."]
        return task.result()

    async def _plan(self, wish: Wish) -> list[str]:
        if wish.settings.suspend:
            return ["No plan: reconcile.suspend is true, so nothing would be done."]
        try:
            catalog = await self.ctx.pool.open(wish.catalog, fresh=True)
            case = await propose_case(self.ctx, wish.raw, wish.meta, wish.wanted, wish.settings, catalog, wish.catalog)
            case = self._with_approvals(case)
            return await self.ctx.pool.run(lambda: list(_told(case)))
        except LakeError as error:
            return [f"No plan: {error}"]
        except Exception as error:  # noqa: BLE001  (nobody waits for it any more, perhaps)
            return [f"No plan: a defect in LakeTable ({place_of(error)})."]

    def _with_approvals(self, case: Case) -> Case:
        """Hear of approvals on plan objects, as a reconcile would."""
        key = Key(TABLES.kind, case.meta.namespace, case.meta.name)
        same = [plan for plan in self.ctx.store.plans_of(key) if plan.hash == case.plan.hash and not plan.is_done]
        is_approved = any(plan.is_approved for plan in same)
        return case.rejudged(self.ctx.now_ms(), approved=case.plan.hash) if is_approved else case


def _told(case: Case) -> Iterator[str]:
    plan = msgspec.structs.replace(case.plan, upkeep=())
    closed = case.gate()
    yield from _verdict(case, closed)
    if closed.reason is Reason.IN_SYNC:
        return
    report = Report.of(plan, case.decision)
    yield from render_report(report, width=WIDTH, color=False, limit=ROWS, next_step=False).splitlines()


def _verdict(case: Case, closed: Gate) -> Iterator[str]:
    """Say first what would become of it: what comes behind may be cut."""
    plan = case.plan
    if closed.reason is Reason.IN_SYNC:
        yield "Dry run: the table is what the spec says; nothing would be done."
        return
    if closed.reason is None:
        later = " Its rows are written by a job." if data_operations(plan) else ""
        yield f"Dry run: plan {plan.hash} would be carried out.{later}"
        return
    yield f"Dry run: plan {plan.hash} would not be carried out now ({closed.reason})."
    if closed.reason is Reason.APPROVAL_REQUIRED:
        yield from case.decision.reasons
        yield f"To release exactly this plan commit spec.approval.plan: {plan.hash}"
    elif closed.reason is Reason.PLAN_ONLY:
        yield "reconcile.mode is Plan: a real apply makes a LakeTablePlan and carries nothing out."
    elif not plan.is_blocked:  # else the findings below say it
        yield closed.message
