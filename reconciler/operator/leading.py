"""Act while the Lease is held, and only then: take it, read everything anew, work, and stop the moment it is lost.

`run` starts this beside the watches. An operator that waits for the Lease keeps its watches, so that it takes over
warm; whatever it heard meanwhile is looked at once it leads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from reconciler.operator import local_jobs
from reconciler.operator.api import ApiError
from reconciler.operator.context import Context
from reconciler.operator.lease import Leadership, NotLeading
from reconciler.operator.queue import WorkQueue
from reconciler.operator.strays import stop_strays
from reconciler.operator.worker import place_of

logger = logging.getLogger("laketable.operator")
_IDLE_SECONDS = 5.0
_PAUSE_SECONDS = 1.0

Prime = Callable[[], Awaitable[None]]
"""Reads every resource and asks for each to be looked at."""


async def lead(ctx: Context, queue: WorkQueue, lease: Leadership, prime: Prime, stop: asyncio.Event) -> None:
    """Work whenever the Lease is held, until `stop`; then end what is under way and give the Lease back."""
    while await unless(stop, lease.acquire()):
        ctx.health.is_leading = True
        keeping = asyncio.create_task(lease.keep(), name="lease")
        working = asyncio.create_task(_work(ctx, queue, prime), name="work")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait({keeping, working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            is_lost = keeping.done()
            ended_by_itself = working.done() and not stop.is_set()
            working.cancel()
            ctx.health.is_listed = False
            if is_lost and keeping.exception() is not None:
                logger.error("the Lease was not kept: %s", place_of(keeping.exception()))
            if is_lost:
                ctx.health.is_leading = False
                ctx.fence.close()
                await _drop_everything(queue)
            else:
                await _wind_down(ctx, queue, lease, keeping)
        finally:
            await _cancel(keeping, working, stopping)
        if ended_by_itself:
            working.result()


async def until_answered(work: Prime) -> None:
    """Repeat what needs the Kubernetes API until the API answers."""
    while True:
        try:
            return await work()
        except ApiError as error:  # a refusal too: an API server that has just started has not read its roles yet
            logger.warning("the resources cannot be listed: %s", error)
            await asyncio.sleep(_PAUSE_SECONDS)


async def _work(ctx: Context, queue: WorkQueue, prime: Prime) -> None:
    await until_answered(prime)
    ctx.health.is_listed = True
    with contextlib.suppress(NotLeading):  # whoever leads now looks for them too
        await stop_strays(ctx)
    await queue.run()


async def _drop_everything(queue: WorkQueue) -> None:
    """Stop at once: somebody else may act already. Calls on threads are refused by the fence at their next write."""
    await asyncio.gather(queue.halt(), local_jobs.stop_everything(grace_seconds=0.0))


async def _wind_down(ctx: Context, queue: WorkQueue, lease: Leadership, keeping: asyncio.Task[None]) -> None:
    """End what is under way, within the time that a pod is given, while the Lease is still renewed."""
    await queue.drain(ctx.settings.grace_seconds)
    await local_jobs.stop_everything()
    await ctx.events.flush()
    await _cancel(keeping)  # a renewal under way would take the Lease back
    for _ in range(int(_IDLE_SECONDS / 0.05)):
        if ctx.pool.is_idle:
            await lease.release()
            return
        await asyncio.sleep(0.05)
    ctx.fence.close()
    logger.warning("the Lease runs out by itself: a call to a catalog is still under way")


async def unless(stop: asyncio.Event, work: Awaitable[object]) -> bool:
    """Do the work and say so, or give it up when told to stop."""
    working, stopping = asyncio.ensure_future(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if stopping.done():
            return False
        await working
        return True
    finally:
        await _cancel(working, stopping)


async def _cancel(*tasks: asyncio.Future[object] | asyncio.Task[None] | asyncio.Task[bool]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
