"""One reconcile of a LakeTable: read it again, observe, plan, judge, act if the gate is open, patch the status once."""

from __future__ import annotations

import logging
from dataclasses import replace

import msgspec

from reconciler.errors import CatalogUnavailable, LakeError, Unauthenticated
from reconciler.model.manifest.table import Reconcile
from reconciler.model.quantities import parse_duration
from reconciler.operator import jobs, plans
from reconciler.operator.actions import act, with_upkeep
from reconciler.operator.adoption import adoption
from reconciler.operator.api import ApiNotFound
from reconciler.operator.case import Case
from reconciler.operator.conditions import merge_patch
from reconciler.operator.context import Context
from reconciler.operator.deletion import delete_table, keep_finalizer
from reconciler.operator.gate import Gate
from reconciler.operator.intake import policies_of, propose_case, refuse_silent_rename, require_all, with_config_map
from reconciler.operator.logs import about_plan
from reconciler.operator.manifests import Wanted, columns_source, read_table
from reconciler.operator.objects import (
    POLICIES,
    TABLES,
    Json,
    Key,
    Meta,
    items_at,
    mapping_at,
    meta_of,
    text_at,
)
from reconciler.operator.pool import OpenCatalog, catalog_key
from reconciler.operator.queue import Again
from reconciler.operator.reasons import STANDINGS, EventReason, Reason, reason_of
from reconciler.operator.status import Found, is_done, is_working, plan_summary, published, table_status
from reconciler.operator.store import CANCEL, PlanEntry
from reconciler.operator.upkeep import due, within_windows
from reconciler.plan.operations import Refresh
from reconciler.plan.policy import grew_too_much
from reconciler.plan.view_query import named_sources

logger = logging.getLogger("laketable.operator")
_EVENTS = {
    Reason.APPROVAL_REQUIRED: EventReason.APPROVAL_REQUIRED,
    Reason.DENIED: EventReason.DENIED,
    Reason.DRIFTED: EventReason.DRIFT_FOUND,
    Reason.OWNERSHIP_CONFLICT: EventReason.OWNERSHIP_CONFLICT,
    Reason.JOB_DIED: EventReason.JOB_DIED,
}
SOON = 1.0
WINDOW_SECONDS = 60.0
CONFIG_MAP_SECONDS = 60.0


async def reconcile_table(ctx: Context, key: Key) -> Again:
    """Bring one table nearer to its spec, and say so; returns when to look again."""
    try:
        raw = await ctx.api.get(TABLES, key.namespace, key.name)
    except ApiNotFound:
        await _forget(ctx, key)
        return Again()
    ctx.store.put_table(raw)
    if meta_of(raw).deletion_timestamp is not None:
        return await delete_table(ctx, raw)
    raw = await keep_finalizer(ctx, raw)
    try:
        found = await _look(ctx, key, raw)
    except LakeError as error:
        found = Found(reason=reason_of(error.reason), message=str(error))
    except Exception:  # else the status would go on saying what was true before
        await write_status(ctx, raw, Found(reason=Reason.INTERNAL, message=STANDINGS[Reason.INTERNAL].doc))
        raise
    if found.observed is not None:  # else nobody knows whether an operation still runs
        raw = await keep_finalizer(ctx, raw, is_running=found.running is not None)
    await write_status(ctx, raw, found)
    return _again(found, raw)


async def _forget(ctx: Context, key: Key) -> None:
    """Stop the jobs of a resource that is gone, and let the next one that claims its table try."""
    entry = ctx.store.tables.get(key)
    if entry is not None and entry.uid:
        await jobs.stop_all(ctx, entry.catalog_namespace, entry.uid)
    for other in ctx.store.drop_table(key):
        ctx.enqueue(other)


async def write_status(ctx: Context, raw: Json, found: Found) -> None:
    """Patch the status, in one request that another writer's change refuses; none when it says so already."""
    before = mapping_at(raw, "status")
    after = table_status(found, raw, ctx.now_ms())
    patch = merge_patch(before, after)
    if not patch:
        return
    meta = meta_of(raw)
    body: Json = {"metadata": {"resourceVersion": meta.resource_version}, "status": patch}
    written = await ctx.api.patch(TABLES, meta.namespace, meta.name, body, part="status")
    ctx.store.put_table(written)
    if "phase" in patch:
        logger.info("%s: %s%s", after["phase"], found.reason, f": {found.message}" if found.message else "")
    _tell(ctx, raw, found, was_stalled=_was_stalled(before))
    done = published(found, before)
    if done is not None:
        ctx.metrics.job("succeeded", done.bytes)
        ctx.tell(TABLES, raw, EventReason.PUBLISHED, f"Published: {done.summary}.")
    if "table" in patch or "phase" in patch:
        for reader in ctx.store.readers_of(Key(TABLES.kind, meta.namespace, meta.name)):
            ctx.enqueue(reader)


def _was_stalled(status: Json) -> bool:
    conditions = items_at(status, "conditions")
    return any(text_at(c, "type") == "Stalled" and text_at(c, "status") == "True" for c in conditions)


def _tell(ctx: Context, raw: Json, found: Found, *, was_stalled: bool) -> None:
    """Write the event of a change of state; what says nothing new writes no status, hence no event."""
    if found.applied is not None:
        ctx.tell(TABLES, raw, EventReason.APPLIED, f"Applied plan {found.applied.hash}.")
    if was_stalled and STANDINGS[found.reason].is_ready:
        ctx.tell(TABLES, raw, EventReason.RECOVERED, "The table is what the spec says again.")
    if found.reason in _EVENTS:
        ctx.tell(TABLES, raw, _EVENTS[found.reason], found.message, warning=True)
    elif STANDINGS[found.reason].is_stalled:
        ctx.tell(TABLES, raw, EventReason.STALLED, f"{found.reason}: {found.message}", warning=True)


def _again(found: Found, raw: Json) -> Again:
    standing = STANDINGS[found.reason]
    if found.running is not None:
        return Again(found.running.look_again_seconds)
    if found.reason is Reason.APPLYING:
        return Again(SOON)
    if found.reason is Reason.OUTSIDE_WINDOW or found.waits_for_window:
        return Again(WINDOW_SECONDS)
    if standing.is_reconciling or found.reason in (Reason.CATALOG_NOT_READY, Reason.INTERNAL):
        return Again(failed=True)
    try:
        interval = parse_duration(text_at(raw, "spec", "reconcile", "interval") or "10m") / 1000
    except ValueError:
        interval = 600.0
    if columns_source(raw) is not None:  # nobody tells when a ConfigMap changes
        interval = min(interval, CONFIG_MAP_SECONDS)
    return Again(max(interval, 5.0))


# ---------------------------------------------------------------- looking


async def _look(ctx: Context, key: Key, raw: Json) -> Found:
    rival = ctx.store.rival(key)
    if rival is not None:
        message = f"LakeTable {rival.key.namespace}/{rival.key.name} is older and claims {rival.identifier} too."
        return Found(reason=Reason.OWNERSHIP_CONFLICT, message=f"{message} Delete one of the two.")
    meta = meta_of(raw)
    raw = await with_config_map(ctx, raw, meta)
    wanted = await ctx.pool.run(lambda: read_table(raw, ctx.settings.cluster))
    settings = wanted.manifest.spec.reconcile or Reconcile()
    refuse_silent_rename(raw, wanted)
    if settings.suspend:
        return Found(reason=Reason.SUSPENDED)
    place = catalog_key(ctx.store, wanted.manifest, meta.namespace)
    catalog = await ctx.pool.open(place)
    try:
        return await _decide(ctx, await _propose(ctx, raw, meta, wanted, settings, catalog))
    except CatalogUnavailable:
        ctx.enqueue(place)  # its own status is to say so now, and to wake its tables once it answers
        raise
    except Unauthenticated:
        ctx.pool.forget(place)  # its Secret may hold new credentials by now
        raise


async def _propose(
    ctx: Context, raw: Json, meta: Meta, wanted: Wanted, settings: Reconcile, catalog: OpenCatalog
) -> Case:
    allow_local = ctx.settings.allow_local_catalogs
    require_all(catalog.manifest, meta.namespace, wanted, settings, allow_local=allow_local)
    view = wanted.desired.view
    sources = named_sources(view.query) if view is not None else ()
    place = (catalog.namespace, catalog.settings.name)
    ctx.store.put_reads(Key(TABLES.kind, meta.namespace, meta.name), frozenset((*place, str(s)) for s in sources))
    key = catalog_key(ctx.store, wanted.manifest, meta.namespace)
    return await propose_case(ctx, raw, meta, wanted, settings, catalog, key)


# ---------------------------------------------------------------- deciding


async def _decide(ctx: Context, case: Case) -> Found:
    plan = case.plan
    if not plan.is_empty:
        about_plan(plan.hash)
    if plan.is_empty:
        await plans.settle_plans(ctx, case.key, case.proposal.current, None)
        chosen = due(plan, case.wanted.desired, case.proposal.current, now_ms=ctx.now_ms())
        if chosen and case.settings.mode == "Apply" and not case.is_cancelled:
            case = await _read_again(ctx, case)
            chosen, why = within_windows(chosen, case.request.policies, ctx.now_ms())
            if chosen:
                return await act(ctx, with_upkeep(case, chosen), None)
            found = await _closed(ctx, case, Gate(Reason.IN_SYNC, why))
            return msgspec.structs.replace(found, waits_for_window=bool(why))
        return await _closed(ctx, case, Gate(Reason.IN_SYNC))
    case, entry = await _with_plan_object(ctx, case)
    closed = case.gate()
    await plans.settle_plans(ctx, case.key, case.proposal.current, plan)
    if case.is_cancelled:
        return await _closed(ctx, case, Gate(Reason.CANCELLED, f"Annotation {CANCEL} is set."))
    if closed.reason is None:
        # What was read from the watches may be old: nothing is written on its word.
        case = await _read_again(ctx, case)
        closed = case.gate()
    if closed.reason is None:
        closed = _gate_of_sources(ctx, case)
    if closed.reason is None and entry is not None:
        closed = await _gate_of_cost(ctx, case, entry)
        if closed.reason is Reason.PLAN_STALE:
            return await _closed(ctx, case, closed)
    if closed.reason is None:
        return await act(ctx, case, entry)
    if entry is not None:
        await plans.set_phase(ctx, entry, "Pending")
    return await _closed(ctx, case, closed)


async def _closed(ctx: Context, case: Case, closed: Gate) -> Found:
    """Say why nothing is begun, and what still runs; that most tables have no job the status before tells for free."""
    found = case.found(closed)
    if case.is_cancelled:
        await jobs.cancel(ctx, case)
    elif is_working(case.raw) and not is_done(found, mapping_at(case.raw, "status")):
        return case.found(closed, running=await jobs.under_way(ctx, case))
    return found


def _gate_of_sources(ctx: Context, case: Case) -> Gate:
    """Hold the rows of a new query while a table that it reads is being changed: a column may have none of its yet.

    A refresh that only follows its sources does not wait: it shows what others see of them too.
    """
    if any(isinstance(operation.work, Refresh) and not operation.resumes for operation in case.plan.operations):
        for source in ctx.store.sources_of(case.key):
            if not source.is_settled:
                table = f"{source.key.namespace}/{source.key.name}"
                message = f"The view reads LakeTable {table}, which is not settled yet ({source.phase or 'new'})."
                return Gate(Reason.SOURCE_NOT_READY, message)
    return Gate(None)


async def _with_plan_object(ctx: Context, case: Case) -> tuple[Case, PlanEntry | None]:
    """Make the plan object, or find it, and hear whether it was approved; what goes on needs no new one."""
    plan = case.plan
    if case.goes_on or not plan.operations or case.settings.mode == "Observe":
        return case, None
    entry, is_new = await plans.ensure_plan(ctx, case.meta, case.wanted, plan, adoption=_adoption(case))
    case = replace(case, plan_name=entry.key.name)
    if is_new:
        note = f"Made LakeTablePlan {entry.key.name}: {plan_summary(plan)}"
        ctx.tell(TABLES, case.raw, EventReason.PLAN_MADE, note)
    if entry.is_approved and not is_new:
        case = case.rejudged(ctx.now_ms(), approved=plan.hash)
    return case, entry


async def _gate_of_cost(ctx: Context, case: Case, entry: PlanEntry) -> Gate:
    """Hold what grew since it was approved; a hash says nothing of cost, so a new plan object must be approved."""
    grew = any(known.hash == entry.hash and known.phase == "Stale" for known in ctx.store.plans_of(case.key))
    if grew and not entry.is_approved:
        message = f"The plan costs more than was approved. Approve LakeTablePlan {entry.key.name}."
        return Gate(Reason.APPROVAL_REQUIRED, message)
    why = grew_too_much(case.plan, case.costing(entry.bytes), case.request.policies) if case.is_approved else ""
    if not why:
        return Gate(None)
    await plans.set_phase(ctx, entry, "Stale", why)
    return Gate(Reason.PLAN_STALE, f"Plan {entry.key.name} is stale: {why}.")


def _adoption(case: Case) -> str:
    """Return the manifest's patch that would make the drifted table the wanted one, where the spec asks for it."""
    current = case.proposal.current
    if not case.has_drifted or case.settings.on_drift != "ProposeAdopt" or current is None:
        return ""
    return adoption(case.wanted.manifest, current)


async def _read_again(ctx: Context, case: Case) -> Case:
    """Judge by the LakeCatalog and the LakePolicies as the API server has them now."""
    namespace = case.meta.namespace
    catalog = await ctx.pool.open(case.catalog_key, fresh=True)
    allow_local = ctx.settings.allow_local_catalogs
    require_all(catalog.manifest, namespace, case.wanted, case.settings, allow_local=allow_local)
    raws = [
        raw
        for place in dict.fromkeys((namespace, ctx.settings.namespace))
        async for raw in ctx.api.list_all(POLICIES, place)
    ]
    return case.rejudged(
        ctx.now_ms(), catalog=catalog, policies=await policies_of(ctx, namespace, raws, case.meta.name)
    )
