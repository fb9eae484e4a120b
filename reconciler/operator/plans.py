"""LakeTablePlan objects: made before a plan is carried out or waits, settled afterwards, the oldest removed.

The store tells which there are; the API server decides. A crash between any two writes leaves an object that the next
reconcile finds by its name and settles by what the table remembers.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from reconciler.model.bookkeeping import approved
from reconciler.model.bookkeeping import read as read_bookkeeping
from reconciler.model.table import Observed
from reconciler.model.yaml import Data
from reconciler.operator.api import ApiConflict, ApiExists, ApiNotFound
from reconciler.operator.context import Context
from reconciler.operator.manifests import Wanted
from reconciler.operator.objects import PLANS, TABLES, Json, Key, Meta, meta_of, print_time
from reconciler.operator.plan_objects import plan_name, plan_object
from reconciler.operator.store import PlanEntry, plan_entry
from reconciler.plan.operations import Plan

logger = logging.getLogger("laketable.operator")


async def ensure_plan(
    ctx: Context, table: Meta, wanted: Wanted, plan: Plan, *, adoption: str = ""
) -> tuple[PlanEntry, bool]:
    """Return the open plan object of this plan, made now if there is none; say whether it was made."""
    key = Key(TABLES.kind, table.namespace, table.name)
    same = [entry for entry in ctx.store.plans_of(key) if entry.hash == plan.hash and entry.uid]
    live = next((entry for entry in reversed(same) if not entry.is_done), None)
    if live is not None:
        found = await _read(ctx, live)
        if found is not None and not found.is_done and found.hash == plan.hash:
            return found, False
    number = len(same)
    while True:
        name = plan_name(table.name, plan.hash, number)
        try:
            raw = await ctx.api.create(
                PLANS, table.namespace, plan_object(name, table, wanted, plan, adoption=adoption)
            )
        except ApiExists:
            found = plan_entry(await ctx.api.get(PLANS, table.namespace, name))
            ctx.store.put_plan(found)
            if found.hash == plan.hash and not found.is_done:
                return found, False
            number += 1
            continue
        entry = plan_entry(raw)
        ctx.store.put_plan(entry)
        ctx.metrics.planned(plan.operation_class)
        logger.info("LakeTablePlan %s is made: %s", name, plan.operation_class.value)
        return entry, True


async def set_phase(ctx: Context, entry: PlanEntry, phase: str, message: str = "") -> None:
    """Record what became of a plan; a plan object that is gone is none of our business any more.

    One that was changed since it was read, by who approves it or by another operator, is an ApiConflict.
    """
    known = ctx.store.plan(entry) or entry
    if known.phase == phase:
        return
    now = print_time(ctx.now_ms())
    status: dict[str, Data] = {"phase": phase, "observedGeneration": 1}
    if message:
        status["message"] = message[:1000]
    if phase == "Applying":
        status["startedAt"] = now
    elif phase not in ("Pending", "Approved"):
        status["finishedAt"] = now
    body: Json = {"metadata": {"resourceVersion": str(known.version)}, "status": status}
    try:
        raw = await ctx.api.patch(PLANS, entry.key.namespace, entry.key.name, body, part="status")
    except ApiNotFound:
        ctx.store.drop_plan(entry)
        return
    except ApiConflict:
        await _read(ctx, known)  # the next look must not meet it again
        raise
    ctx.store.put_plan(plan_entry(raw))


async def settle_plans(ctx: Context, table: Key, seen: Observed | None, plan: Plan | None) -> None:
    """Close the plan objects that `plan` replaces: applied when the table remembers their hash, else superseded."""
    history = read_bookkeeping(seen.bookkeeping).history if seen else ()
    applied = {record.plan for record in history}
    live = {plan.hash} if plan is not None and plan.operations else set()
    before = approved(seen.bookkeeping) if seen else None
    if before is not None and plan is not None and any(operation.resumes for operation in plan.operations):
        live.add(before.plan)  # its data operations are still under way
    for entry in ctx.store.plans_of(table):
        if entry.is_done or entry.hash in live:
            continue
        if entry.hash in applied or entry.phase == "Applying":
            await set_phase(ctx, entry, "Applied")
        else:
            await set_phase(
                ctx, entry, "Superseded", "The spec or the table changed since: see the table's newer plan."
            )
    await _prune(ctx, table, keep=live)


async def _prune(ctx: Context, table: Key, *, keep: Collection[str]) -> None:
    done = [entry for entry in ctx.store.plans_of(table) if entry.is_done and entry.hash not in keep]
    for entry in done[: max(0, len(done) - ctx.settings.history_limit)]:
        await ctx.api.delete(PLANS, entry.key.namespace, entry.key.name, uid=entry.uid)
        ctx.store.drop_plan(entry)


async def _read(ctx: Context, entry: PlanEntry) -> PlanEntry | None:
    raw = await _raw(ctx, entry)
    return plan_entry(raw) if raw is not None else None


async def _raw(ctx: Context, entry: PlanEntry) -> Json | None:
    try:
        raw = await ctx.api.get(PLANS, entry.key.namespace, entry.key.name)
    except ApiNotFound:
        ctx.store.drop_plan(entry)
        return None
    ctx.store.put_plan(plan_entry(raw))
    return raw if meta_of(raw).uid == entry.uid else None
