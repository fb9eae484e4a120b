"""Kopf keeps the watches: one async event handler per kind, which only updates the store and enqueues a key.

Kopf's create, update and resume handlers write annotations and finalizers and copy specs into them; its event handlers
write nothing. No other module knows Kopf, `connection` excepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat

import kopf

from reconciler.model.manifest import GROUP, VERSION
from reconciler.operator.health import Health
from reconciler.operator.objects import (
    CATALOGS,
    OWN_KINDS,
    PLANS,
    POLICIES,
    TABLES,
    Json,
    Key,
    Resource,
    key_of,
    text_at,
)
from reconciler.operator.probes import ANSWER_SECONDS
from reconciler.operator.settings import Settings
from reconciler.operator.store import Store, plan_entry
from reconciler.operator.watch_session import open_session

logger = logging.getLogger("laketable.operator")
Enqueue = Callable[[Key], None]
WATCH_SECONDS = 60
"""How long one request of a watch lasts: a connection that died without a word is noticed soon after."""
GIVE_UP_SECONDS, END_SECONDS = 15.0, 8.0
"""How long a watch may be dead while the API server answers before all are begun anew; how long they may take to end.
"""
_STOP_SECONDS, _LOOK_SECONDS, _LEFT_SECONDS = 0.2, 1.0, 0.5
_PLURALS = frozenset(resource.plural for resource in OWN_KINDS)


class Backoffs:
    """Kopf's pauses before it asks again after a 5xx or 429: without an end, for an end of them ends the watches."""

    def __iter__(self) -> Iterator[float]:
        """Wait longer each time, up to 5 seconds."""
        return chain((0.5, 1, 2, 3), repeat(5.0))


def registry(store: Store, enqueue: Enqueue, health: Health, relisted: Callable[[], None]) -> kopf.OperatorRegistry:
    """Return the handlers of one operator; what they hear is told on the loop that calls this.

    `relisted` is called when a watch had to begin anew: what was deleted meanwhile was told to nobody.
    """
    made, loop = kopf.OperatorRegistry(), asyncio.get_running_loop()

    @kopf.on.login(registry=made)
    async def _login(**_: object) -> kopf.AiohttpSession:
        return open_session(health, _PLURALS, lambda: _tell(loop, relisted))

    @kopf.on.startup(registry=made)
    async def _startup(settings: kopf.OperatorSettings, **_: object) -> None:
        configure(settings)

    for resource, seen in (
        (TABLES, _table_seen),
        (CATALOGS, _other_seen),
        (POLICIES, _other_seen),
        (PLANS, _plan_seen),
    ):
        kopf.on.event(GROUP, VERSION, resource.plural, registry=made, id=resource.plural)(
            _handler(resource, seen, store, enqueue, health)
        )
    return made


def configure(settings: kopf.OperatorSettings) -> None:
    """Set what was found to matter; see DESIGN.md."""
    settings.persistence.finalizer = "laketable.dev/kopf-never-sets-this"
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.error_backoffs = Backoffs()
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.client_timeout = WATCH_SECONDS + 15
    settings.queueing.idle_timeout = 1.0


async def run(settings: Settings, made: kopf.OperatorRegistry, stop: threading.Event, health: Health) -> None:
    """Watch until `stop` is set; raises when a watch dies for good.

    On a thread and a loop of its own: on ours Kopf would take our tasks for its own hung ones, and the signals for its.
    """

    for resource in OWN_KINDS:
        for namespace in settings.watched or ("",):
            health.expect(resource.plural, namespace)

    async def watching() -> None:
        health.watch_loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        # Kopf would wait for `stop` itself on a thread that nothing ends, and with it for ever for a watch that died.
        telling = asyncio.create_task(_tell_end(stop, ended), name="end")
        await kopf.operator(
            registry=made,
            settings=kopf.OperatorSettings(),
            standalone=True,
            clusterwide=not settings.namespaces,
            namespaces=list(settings.watched),
            stop_flag=ended,
        )
        telling.cancel()

    with ThreadPoolExecutor(1, thread_name_prefix="watch") as thread:
        ended = asyncio.get_running_loop().run_in_executor(thread, _turn, watching, health)
        await _until_ended(ended, stop, health)


async def _until_ended(ended: asyncio.Future[None], stop: threading.Event, health: Health) -> None:
    """Wait for Kopf, but not for ever: a watch that fails may leave another that swallows its own cancellation."""
    begun, patience = health.clock(), END_SECONDS
    while not (await asyncio.wait({ended}, timeout=_LOOK_SECONDS))[0]:
        loop = health.watch_loop
        if stop.is_set():
            patience -= _LOOK_SECONDS
            problems = ["they do not end"] if patience < 0 else []
        else:
            problems = health.dead(GIVE_UP_SECONDS) if health.clock() - begun > GIVE_UP_SECONDS else []
        if loop is not None and problems:
            logger.error("the watches are given up: %s", "; ".join(problems))
            _tell(loop, loop.stop)
    if not stop.is_set() or ended.exception() is None:
        await ended


def _turn(watching: Callable[[], Coroutine[None, None, None]], health: Health) -> None:
    """Run a loop of its own until it ends or is stopped, and leave nothing behind that could hold the thread."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(watching())
    finally:
        health.watch_loop = None
        loop.set_exception_handler(lambda _loop, _context: None)
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:  # they may cancel one another, and us with them: none is waited for
            loop.call_later(_LEFT_SECONDS, loop.stop)
            loop.run_forever()
        loop.close()


async def _tell_end(stop: threading.Event, ended: asyncio.Event) -> None:
    while not stop.is_set():
        await asyncio.sleep(_STOP_SECONDS)
    ended.set()


async def turns(health: Health) -> bool:
    """Say whether the loop of the watches does what it is asked; one that is being started again counts as turning."""
    loop = health.watch_loop
    if loop is None:
        return True
    try:
        asked = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop)
        await asyncio.wait_for(asyncio.wrap_future(asked), ANSWER_SECONDS)
    except TimeoutError:
        return False
    except (RuntimeError, asyncio.CancelledError):  # it ended meanwhile
        return health.watch_loop is not loop
    return True


Seen = Callable[[Store, Enqueue, Resource, str | None, Json], None]


def _handler(resource: Resource, seen: Seen, store: Store, enqueue: Enqueue, health: Health) -> Callable[..., object]:
    loop = asyncio.get_running_loop()

    async def handler(event: dict[str, object], **_: object) -> None:
        raw, type_ = event.get("object"), event.get("type")
        if isinstance(raw, dict):
            word = type_ if isinstance(type_, str) else None
            health.heard(resource.plural, text_at(raw, "metadata", "namespace"))
            _tell(loop, seen, store, enqueue, resource, word, raw)

    return handler


def _tell(loop: asyncio.AbstractEventLoop, what: Callable[..., object], *arguments: object) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is gone: the operator has ended
        loop.call_soon_threadsafe(what, *arguments)


def _table_seen(store: Store, enqueue: Enqueue, resource: Resource, type_: str | None, raw: Json) -> None:
    key = key_of(resource, raw)
    if type_ == "DELETED" or store.put_table(raw):
        enqueue(key)


def _other_seen(store: Store, enqueue: Enqueue, resource: Resource, type_: str | None, raw: Json) -> None:
    """Let the reconciler compare with the store: it is the one to wake the tables."""
    key = key_of(resource, raw)
    known = key in (store.catalogs if resource is CATALOGS else store.policies)
    if type_ == "DELETED" or not known or _has_new_generation(raw):
        enqueue(key)


def _has_new_generation(raw: Json) -> bool:
    """Say whether the status lags behind the spec: an event of our own status patch does not."""
    metadata, status = raw.get("metadata"), raw.get("status")
    generation = metadata.get("generation") if isinstance(metadata, dict) else None
    return not isinstance(status, dict) or status.get("observedGeneration") != generation


def _plan_seen(store: Store, enqueue: Enqueue, resource: Resource, type_: str | None, raw: Json) -> None:
    entry = plan_entry(raw)
    table = Key(TABLES.kind, entry.key.namespace, entry.table)
    if type_ == "DELETED":
        store.drop_plan(entry)
        if not entry.is_done:
            enqueue(table)
    elif store.put_plan(entry):
        enqueue(table)
