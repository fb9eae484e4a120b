"""Start and stop the operator: the one place that knows all its parts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Mapping, MutableMapping
from functools import partial
from uuid import uuid4

import msgspec

from reconciler.errors import EnvironmentProblem
from reconciler.operator import watch
from reconciler.operator.api import ApiError, ApiNotFound, KubeApi
from reconciler.operator.connection import Connection
from reconciler.operator.context import Context
from reconciler.operator.events import EventWriter
from reconciler.operator.health import BEAT_SECONDS
from reconciler.operator.leading import Prime, lead, unless, until_answered
from reconciler.operator.lease import Alone, Fence, Leadership, Lease
from reconciler.operator.metrics import Gauges, Metrics
from reconciler.operator.objects import (
    CATALOGS,
    NAMESPACES,
    OWN_KINDS,
    PLANS,
    POLICIES,
    TABLES,
    Json,
    Key,
    key_of,
    meta_of,
)
from reconciler.operator.pool import CatalogPool
from reconciler.operator.probes import serving
from reconciler.operator.queue import Limits, WorkQueue
from reconciler.operator.settings import Settings
from reconciler.operator.store import Store, plan_entry
from reconciler.operator.worker import Worker, group_of, lane_of, place_of

logger = logging.getLogger("laketable.operator")
_CLUSTER_DIGITS = 8
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1, 30


def forget_environment(environ: MutableMapping[str, str], *, keep_cloud: bool) -> None:
    """Remove PyIceberg's configuration and the pod's cloud identity: a tenant's catalog must meet neither.

    A catalog without credentials would otherwise read and write with the operator's own.
    """
    prefixes = ("PYICEBERG_",) if keep_cloud else ("PYICEBERG_", "AWS_", "AZURE_", "GOOGLE_")
    for name in [name for name in environ if name.upper().startswith(prefixes)]:
        del environ[name]
    environ["PYICEBERG_HOME"] = os.devnull
    if not keep_cloud:
        environ["AWS_EC2_METADATA_DISABLED"] = "true"
        environ["AWS_SHARED_CREDENTIALS_FILE"] = environ["AWS_CONFIG_FILE"] = os.devnull


def environment_catalogs(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Name the catalogs that PyIceberg finds in an environment."""
    found = (name.lower().split("__", 2) for name in environ if name.lower().startswith("pyiceberg_catalog__"))
    return tuple(sorted({parts[1].replace("_", "-") for parts in found if len(parts) == 3}))


async def operate(connection: Connection, settings: Settings) -> None:
    """Run until told to stop by SIGTERM or SIGINT."""
    settings = msgspec.structs.replace(settings, reserved_catalogs=environment_catalogs(os.environ))
    forget_environment(os.environ, keep_cloud=settings.own_cloud_identity)
    stop, end_watch = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    fence = Fence()
    async with (
        KubeApi(connection, fence.require) as api,
        _queue_of(api, settings, fence) as (ctx, queue),
        serving(settings.listen, ctx.health, partial(watch.turns, ctx.health), ctx.metrics.expose),
        _admission(ctx, connection),
    ):
        prime = partial(_prime, ctx, queue)
        lease = _leadership(api, fence, settings)
        ctx.health.lease_problem = lambda: lease.problem
        watching = asyncio.create_task(_watch(ctx, queue, prime, stop, end_watch), name="watch")
        leading = asyncio.create_task(lead(ctx, queue, lease, prime, stop), name="lead")
        beating = asyncio.create_task(_beat(ctx), name="heartbeat")
        await asyncio.wait({watching, leading, beating}, return_when=asyncio.FIRST_COMPLETED)
        ctx.health.is_stopping = True
        stop.set()
        end_watch.set()
        await leading
        await watching
        beating.cancel()


async def _beat(ctx: Context) -> None:
    """Ask the API server again and again whether it answers: a watch that hears nothing cannot tell."""
    was_ready = False
    while True:
        try:
            async with asyncio.timeout(BEAT_SECONDS):
                await ctx.api.ask(CATALOGS, ctx.settings.namespace)
            ctx.health.api_answered()
        except (ApiError, TimeoutError):
            ctx.health.api_misses += 1
        problems = ctx.health.unready()
        if was_ready and problems:
            logger.warning("not ready: %s", "; ".join(problems))
        elif not was_ready and not problems:
            logger.info("ready")
        was_ready = not problems
        await asyncio.sleep(BEAT_SECONDS)


@contextlib.asynccontextmanager
async def _admission(ctx: Context, connection: Connection) -> AsyncIterator[None]:
    if ctx.settings.webhook is None:
        yield
        return
    from reconciler.operator.webhook import serving

    async with serving(ctx, connection, ctx.settings.webhook):
        yield


def _leadership(api: KubeApi, fence: Fence, settings: Settings) -> Leadership:
    if not settings.lease:
        return Alone(fence)
    identity = settings.identity or f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
    return Lease(
        api,
        fence,
        namespace=settings.namespace,
        name=settings.lease,
        identity=identity,
        seconds=settings.lease_seconds,
    )


async def _watch(ctx: Context, queue: WorkQueue, prime: Prime, stop: asyncio.Event, end: threading.Event) -> None:
    """Watch for ever: watches that end by themselves are started again, and what they missed is read."""
    pause, tasks = FIRST_PAUSE_SECONDS, set[asyncio.Task[None]]()
    while True:
        started = time.monotonic()
        try:
            made = watch.registry(ctx.store, queue.add, ctx.health, partial(_read_again, prime, tasks))
            await watch.run(ctx.settings, made, end, ctx.health)
            place = "without an error"
        except Exception as error:  # noqa: BLE001  (Kopf's own, of any kind)
            place = place_of(error)
        if stop.is_set():
            return
        if time.monotonic() - started > LONGEST_PAUSE_SECONDS:
            pause = FIRST_PAUSE_SECONDS
        logger.error("the watches ended (%s); they are started again in %d s", place, pause)
        ctx.health.watch_restarts += 1
        await unless(stop, asyncio.sleep(pause))
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        if not await unless(stop, until_answered(prime)):
            return


def _read_again(prime: Prime, tasks: set[asyncio.Task[None]]) -> None:
    """List everything once more, in the background; several watches that begin anew are one reason."""
    if not tasks:
        logger.warning("a watch began anew; everything is looked at again")
        task = asyncio.get_running_loop().create_task(until_answered(prime))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


@contextlib.asynccontextmanager
async def _queue_of(api: KubeApi, settings: Settings, fence: Fence) -> AsyncIterator[tuple[Context, WorkQueue]]:
    store, metrics = Store(), Metrics()
    pool = CatalogPool(
        api,
        threads=settings.threads,
        allow_local=settings.allow_local_catalogs,
        reserved=settings.reserved_catalogs,
        guard=fence.require,
        timed=metrics.called,
    )
    keys: list[Key] = []
    ctx = Context(settings, api, store, pool, EventWriter(api), keys.append, fence, metrics=metrics)
    queue = WorkQueue(
        work=Worker(ctx),
        group_of=group_of(store),
        lane_of=lane_of(store),
        limits=Limits(total=settings.concurrency, lane=settings.per_catalog),
    )
    ctx.enqueue = queue.add
    metrics.watch(
        Gauges(store, ctx.health, is_leading=lambda: fence.is_open, queue=lambda: (queue.depth, queue.working))
    )
    try:
        yield ctx, queue
    finally:
        pool.close()


async def cluster_name(api: KubeApi) -> str:
    """Name the cluster by the uid of its kube-system namespace, which no two clusters share."""
    try:
        return meta_of(await api.get(NAMESPACES, None, "kube-system")).uid[:_CLUSTER_DIGITS]
    except ApiError as error:
        raise EnvironmentProblem(
            "The cluster has no name to own tables by: namespace kube-system cannot be read.",
            hint="Start the operator with --cluster NAME.",
        ) from error


async def _prime(ctx: Context, queue: WorkQueue) -> None:
    """Read what there is before anything is worked on: who is older can only be told when all are known."""
    for resource in OWN_KINDS:
        for namespace in ctx.settings.watched or (None,):
            try:
                async for raw in ctx.api.list_all(resource, namespace):
                    _remember(ctx.store, resource.kind, raw)
            except ApiNotFound as error:
                if ctx.health.has_listed:
                    raise  # an API server that has just started does not serve them yet
                raise EnvironmentProblem(
                    f"The cluster does not know {resource.kind}s.",
                    hint="Install the CRDs first: kubectl apply -f crds/.",
                ) from error
    ctx.health.has_listed = True
    for key in (*ctx.store.catalogs, *ctx.store.policies, *ctx.store.tables):
        queue.add(key)
    logger.info("watching %d LakeTables as cluster %s", len(ctx.store.tables), ctx.settings.cluster)


def _remember(store: Store, kind: str, raw: Json) -> None:
    # A list's items carry no kind of their own.
    if kind == TABLES.kind:
        store.put_table(raw)
    elif kind == CATALOGS.kind:
        store.put_catalog(raw)
    elif kind == POLICIES.kind:
        store.put_policy(key_of(POLICIES, raw), raw)
    elif kind == PLANS.kind:
        store.put_plan(plan_entry(raw))
