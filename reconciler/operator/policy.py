"""One reconcile of a LakePolicy: is it sound. What it forbids is judged with every plan."""

from __future__ import annotations

from reconciler.errors import LakeError
from reconciler.operator.api import ApiNotFound
from reconciler.operator.catalog import CHECK_SECONDS, write_plain_status
from reconciler.operator.context import Context
from reconciler.operator.objects import POLICIES, Key
from reconciler.operator.policies import read_policy
from reconciler.operator.queue import Again
from reconciler.operator.reasons import Reason, reason_of


async def reconcile_policy(ctx: Context, key: Key) -> Again:
    """Check a LakePolicy, and let the plans that wait be judged again when it changed."""
    try:
        raw = await ctx.api.get(POLICIES, key.namespace, key.name)
    except ApiNotFound:
        ctx.store.policies.pop(key, None)
        _wake_tables(ctx, key)
        return Again()
    if ctx.store.put_policy(key, raw):
        _wake_tables(ctx, key)
    reason, message = Reason.VALID, "The policy is in force."
    try:
        read_policy(raw)
    except LakeError as error:
        reason, message = reason_of(error.reason), str(error)
    await write_plain_status(ctx, POLICIES, raw, reason, message)
    return Again(CHECK_SECONDS)  # a watch may miss a deletion; the next look does not


def _wake_tables(ctx: Context, key: Key) -> None:
    everywhere = key.namespace == ctx.settings.namespace
    for table in list(ctx.store.unsettled_tables(None if everywhere else key.namespace)):
        ctx.enqueue(table)
