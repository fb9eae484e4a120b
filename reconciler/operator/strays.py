"""Stop the Jobs of LakeTables that are gone: what was deleted while no operator ran told nobody."""

from __future__ import annotations

import logging

from reconciler.operator.api import ApiError, ApiNotFound
from reconciler.operator.context import Context
from reconciler.operator.job_manifest import MANAGED_BY, TABLE_OF_ANNOTATION, TABLE_UID_LABEL
from reconciler.operator.objects import JOBS, TABLES, Json, meta_of

logger = logging.getLogger("laketable.operator")


async def stop_strays(ctx: Context) -> None:
    """Delete every Job whose LakeTable is gone; those of namespaces we do not watch are not ours."""
    try:
        await _stop_strays(ctx)
    except ApiError as error:  # Jobs end by their deadline at the latest
        logger.warning("Jobs of deleted LakeTables were not looked for: %s", error)


async def _stop_strays(ctx: Context) -> None:
    labels = "=".join(MANAGED_BY)
    for namespace in ctx.settings.watched or (None,):
        async for raw in ctx.api.list_all(JOBS, namespace, labels=labels):
            meta = meta_of(raw)
            if meta.deletion_timestamp is None and await _is_stray(ctx, raw):
                logger.info("Job %s/%s is stopped: its LakeTable is gone", meta.namespace, meta.name)
                await ctx.api.delete(JOBS, meta.namespace, meta.name, uid=meta.uid)


async def _is_stray(ctx: Context, raw: Json) -> bool:
    meta = meta_of(raw)
    namespace, _, name = meta.annotations.get(TABLE_OF_ANNOTATION, "").partition("/")
    watched = ctx.settings.watched
    if not name or (watched and namespace not in watched):
        return False
    try:
        table = await ctx.api.get(TABLES, namespace, name)
    except ApiNotFound:
        return True
    return meta_of(table).uid != meta.labels.get(TABLE_UID_LABEL)
