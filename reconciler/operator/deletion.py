"""Deleting a LakeTable: the table stays, unless `deletionPolicy: Drop` was approved; what runs for it is ended.

Approved means: `approval.drop` names the live table's uuid. Otherwise, and in a namespace that is itself being deleted,
the table is retained and the finalizer released, with an event that says so: no deletion hangs on a missing approval.
Without `Drop` and a running operation there is no finalizer at all.
"""

from __future__ import annotations

import contextlib
from functools import partial

from reconciler.diff.changes import DropRef
from reconciler.errors import LakeError, TableNotFound, Unsupported
from reconciler.model import bookkeeping
from reconciler.model.manifest.table import Reconcile
from reconciler.model.table import Desired, Observed
from reconciler.operator import jobs
from reconciler.operator.api import ApiNotFound
from reconciler.operator.context import Context
from reconciler.operator.manifests import Wanted, read_table
from reconciler.operator.objects import TABLES, Json, Meta, mapping_at, meta_of, read_time, text_at
from reconciler.operator.pool import OpenCatalog, catalog_key
from reconciler.operator.queue import Again
from reconciler.operator.reasons import EventReason, reason_of
from reconciler.operator.tenancy import require_access
from reconciler.plan.data import branch_of

FINALIZER = "laketable.dev/table"
SOON = 1.0
_OF_IDENTITY = ("catalogRef", "identifier", "renamedFrom", "reconcile", "approval")
GIVE_UP_SECONDS = 600
"""How long an unreachable catalog holds a deletion up; afterwards the table is retained."""


async def keep_finalizer(ctx: Context, raw: Json, *, is_running: bool | None = None) -> Json:
    """Hold the resource while its deletion has something to do: a table to drop, an operation to end.

    Where it is not known whether one runs, a hold stays while the status names one. Returns the resource as it is now.
    """
    meta, is_dropping = meta_of(raw), text_at(raw, "spec", "reconcile", "deletionPolicy") == "Drop"
    if is_running is None:
        is_running = FINALIZER in meta.finalizers and bool(_operation(raw))
    is_needed = is_dropping or is_running
    if is_needed is (FINALIZER in meta.finalizers):
        return raw
    kept = [name for name in meta.finalizers if name != FINALIZER]
    return await _set_finalizers(ctx, meta, [*kept, FINALIZER] if is_needed else kept)


async def delete_table(ctx: Context, raw: Json) -> Again:
    """Do what a deletion asks for, then let the resource go."""
    meta = meta_of(raw)
    if FINALIZER not in meta.finalizers:
        return Again()
    try:
        dropped = await _drop_if_approved(ctx, raw, meta)
        if dropped and not await _end_operation(ctx, raw, meta) and not _is_late(meta, ctx.now_ms()):
            return Again(SOON)
    except LakeError as error:
        if not _is_late(meta, ctx.now_ms()):
            return Again(failed=True)
        dropped = f"The table is retained: {reason_of(error.reason)}."
    is_dropped = dropped == ""
    note = "The table was dropped." if is_dropped else dropped
    ctx.tell(TABLES, raw, EventReason.TABLE_DROPPED if is_dropped else EventReason.TABLE_RETAINED, note)
    with contextlib.suppress(ApiNotFound):
        await _set_finalizers(ctx, meta, [name for name in meta.finalizers if name != FINALIZER])
    return Again()


async def _drop_if_approved(ctx: Context, raw: Json, meta: Meta) -> str:
    """Drop the table and return ""; or return why it is retained."""
    if await ctx.is_terminating(meta.namespace):
        return "The table is retained: its namespace is being deleted."
    wanted = _identity(raw, ctx.settings.cluster)
    settings, approval = wanted.manifest.spec.reconcile or Reconcile(), wanted.manifest.spec.approval
    if settings.deletion_policy != "Drop":
        return "The table is retained: deletionPolicy is Retain."
    approved = approval.drop if approval else None
    if approved is None:
        return "The table is retained: spec.approval.drop names no table."
    opened = await ctx.pool.open(catalog_key(ctx.store, wanted.manifest, meta.namespace), fresh=True)
    seen = await _live(ctx, opened, wanted.desired, meta.namespace, "drop")
    await jobs.stop_all(ctx, opened.namespace, meta.uid)
    if seen is None:
        return ""
    if seen.version.uuid != approved:
        return f"The table is retained: spec.approval.drop names {approved}, the live table is {seen.version.uuid}."
    owner = bookkeeping.read(seen.bookkeeping).owner
    if owner is not None and owner != wanted.desired.owner:
        return f"The table is retained: {owner} owns it."
    await ctx.pool.run(lambda: opened.catalog.drop_table(seen.spec.ident, seen.version.uuid))
    return ""


async def _end_operation(ctx: Context, raw: Json, meta: Meta) -> bool:
    """Stop what runs for a table that stays, and drop the branch it wrote on; False while its pods still end."""
    operation = _operation(raw)
    if not operation or await ctx.is_terminating(meta.namespace):
        return True
    wanted, name = _identity(raw, ctx.settings.cluster), branch_of(operation)
    opened = await ctx.pool.open(catalog_key(ctx.store, wanted.manifest, meta.namespace), fresh=True)
    seen = await _live(ctx, opened, wanted.desired, meta.namespace, "apply")
    await jobs.stop_all(ctx, opened.namespace, meta.uid)
    if await jobs.has_pods(ctx, opened.namespace, meta.uid):
        return False
    if seen is None:
        return True
    branch, owner = seen.spec.refs.get(name), bookkeeping.read(seen.bookkeeping).owner
    if branch is not None and owner == wanted.desired.owner:
        with contextlib.suppress(Unsupported):  # only Spark could: whoever declares the table next drops it as stale
            await ctx.pool.run(lambda: opened.catalog.apply(seen.spec.ident, seen.version, [DropRef(ref=branch)]))
    return True


def _identity(raw: Json, cluster: str) -> Wanted:
    """Read which table a resource is about and what it approves; its columns may be wrong, or in a ConfigMap."""
    stated = mapping_at(raw, "spec")
    spec: Json = {key: stated[key] for key in _OF_IDENTITY if key in stated}
    return read_table({**raw, "spec": {**spec, "columns": [{"name": "any", "type": "long"}]}}, cluster)


async def _live(ctx: Context, opened: OpenCatalog, desired: Desired, namespace: str, verb: str) -> Observed | None:
    """Observe the table under its name, else under the one that it is still to be renamed from."""
    for table in filter(None, (desired.ident, desired.renamed_from)):
        require_access(opened.manifest, namespace, table, verb)
        with contextlib.suppress(TableNotFound):
            return await ctx.pool.run(partial(opened.catalog.get_table_spec, table))
    return None


def _operation(raw: Json) -> str:
    return text_at(raw, "status", "operation", "id")


async def _set_finalizers(ctx: Context, meta: Meta, names: list[str]) -> Json:
    body: Json = {"metadata": {"finalizers": list(names), "resourceVersion": meta.resource_version}}
    written = await ctx.api.patch(TABLES, meta.namespace, meta.name, body)
    ctx.store.put_table(written)
    return written


def _is_late(meta: Meta, now_ms: int) -> bool:
    return meta.deletion_timestamp is not None and now_ms - read_time(meta.deletion_timestamp) > GIVE_UP_SECONDS * 1000
