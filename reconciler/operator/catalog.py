"""One reconcile of a LakeCatalog: is it sound, and does it answer."""

from __future__ import annotations

from reconciler.errors import LakeError
from reconciler.operator.api import ApiNotFound
from reconciler.operator.conditions import merge_patch, print_conditions, standing_conditions
from reconciler.operator.context import Context
from reconciler.operator.objects import CATALOGS, Json, Key, Resource, mapping_at, meta_of, print_time
from reconciler.operator.queue import Again
from reconciler.operator.reasons import STANDINGS, Reason, reason_of
from reconciler.operator.tenancy import require_connect
from reconciler.plan.runtimes import CONNECT

CHECK_SECONDS = 300.0


async def reconcile_catalog(ctx: Context, key: Key) -> Again:
    """Check a LakeCatalog and say how it is; its tables are looked at again when that changed."""
    try:
        raw = await ctx.api.get(CATALOGS, key.namespace, key.name)
    except ApiNotFound:
        ctx.store.catalogs.pop(key, None)
        ctx.pool.forget(key)
        _wake_tables(ctx, key)
        return Again()
    if ctx.store.put_catalog(raw):
        _wake_tables(ctx, key)
    reason, message = Reason.VALID, "The catalog answers."
    try:
        opened = await ctx.pool.open(key, fresh=True)
        runtime = opened.manifest.spec.runtime
        if runtime is not None and runtime.type == CONNECT:
            name = f"{key.namespace}/{key.name}"
            require_connect(runtime, name, allow_local=ctx.settings.allow_local_catalogs)
        await ctx.pool.run(opened.catalog.check)
    except LakeError as error:
        reason, message = reason_of(error.reason), str(error)
    except Exception:  # else the status would go on saying what was true before
        await write_plain_status(ctx, CATALOGS, raw, Reason.INTERNAL, "")
        raise
    changed = await write_plain_status(ctx, CATALOGS, raw, reason, message)
    if changed:
        _wake_tables(ctx, key)
    return Again(failed=True) if STANDINGS[reason].is_reconciling else Again(CHECK_SECONDS)


async def write_plain_status(ctx: Context, resource: Resource, raw: Json, reason: Reason, message: str) -> bool:
    """Patch a status that holds conditions only; say whether there was anything to patch."""
    meta = meta_of(raw)
    before = mapping_at(raw, "status")
    conditions = print_conditions(
        standing_conditions(reason, message), before.get("conditions"), meta.generation, print_time(ctx.now_ms())
    )
    after: Json = {"observedGeneration": meta.generation, "conditions": conditions}
    patch = merge_patch(before, after)
    if patch:
        body: Json = {"metadata": {"resourceVersion": meta.resource_version}, "status": patch}
        await ctx.api.patch(resource, meta.namespace, meta.name, body, part="status")
    return bool(patch)


def _wake_tables(ctx: Context, key: Key) -> None:
    for table in list(ctx.store.tables_of_catalog(key.namespace, key.name)):
        ctx.enqueue(table)
