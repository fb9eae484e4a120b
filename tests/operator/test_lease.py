"""The Lease and its fence, by clocks that the test turns: who may act, until when, and what is refused afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import kopf
import pytest

from reconciler.catalogs.connection import explicit
from reconciler.catalogs.iceberg import IcebergCatalog, open_backend
from reconciler.diff.changes import CreateTable
from reconciler.model.table import TableIdent
from reconciler.operator.api import CONNECTIONS, ApiConflict, ApiExists, ApiNotFound, KubeApi
from reconciler.operator.connection import Connection
from reconciler.operator.guarded import GuardedBackend
from reconciler.operator.health import DEAD_SECONDS, TOO_MANY_MISSES, Health
from reconciler.operator.lease import Alone, Clocks, Fence, Lease, NotLeading
from reconciler.operator.objects import EVENTS, Json, Resource
from tests.suites.catalog_changes import orders


@dataclass
class Time:
    """Two clocks that stand still until they are turned."""

    steady: float = 1_000.0
    wall: float = 5_000.0

    def pass_(self, seconds: float) -> None:
        self.steady += seconds
        self.wall += seconds

    @property
    def clocks(self) -> Clocks:
        return Clocks(steady=lambda: self.steady, wall=lambda: self.wall)


@dataclass
class OneLease:
    """An API server's Lease: compare-and-swap by resourceVersion, as the real one has it; requests may be lost."""

    raw: dict[str, Any] | None = None
    version: int = 0
    calls: list[str] = field(default_factory=list)

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Json:
        if self.raw is None:
            raise ApiNotFound("no")
        return {"metadata": {"name": name, "resourceVersion": str(self.version)}, "spec": dict(self.raw)}

    async def create(self, resource: Resource, namespace: str | None, body: Json, *, fenced: bool = True) -> Json:
        if self.raw is not None:
            raise ApiExists("yes")
        return self._write(body)

    async def patch(
        self, resource: Resource, namespace: str | None, name: str, body: Json, *, fenced: bool = True
    ) -> Json:
        metadata = body["metadata"]
        assert isinstance(metadata, dict)
        if metadata["resourceVersion"] != str(self.version):
            raise ApiConflict("moved")
        return self._write(body)

    def _write(self, body: Json) -> Json:
        spec = body["spec"]
        assert isinstance(spec, dict)
        self.raw = {**(self.raw or {}), **spec}
        self.version += 1
        return body


def candidate(server: OneLease, time: Time, identity: str) -> tuple[Lease, Fence]:
    fence = Fence(time.clocks)
    api: KubeApi = server  # type: ignore[assignment]
    return Lease(api, fence, namespace="system", name="operator", identity=identity), fence


def test_one_of_two_acts_and_the_other_waits_for_the_whole_duration() -> None:
    async def story() -> None:
        server, time = OneLease(), Time()
        (first, first_fence), (second, second_fence) = candidate(server, time, "a"), candidate(server, time, "b")
        assert await first._try()
        assert not await second._try()
        time.pass_(9.9)
        assert first_fence.is_open
        time.pass_(0.2)
        assert not first_fence.is_open, "it must have stopped well before another may start"
        assert not await second._try()
        time.pass_(4.8)
        assert not await second._try()
        time.pass_(0.3)
        assert await second._try()
        assert second_fence.is_open
        assert not await first._try(), "the first one found out"
        assert server.raw is not None
        assert (server.raw["holderIdentity"], server.raw["leaseTransitions"]) == ("b", 1)

    asyncio.run(story())


def test_a_holder_that_goes_on_renewing_is_never_followed() -> None:
    async def story() -> None:
        server, time = OneLease(), Time()
        (first, first_fence), (second, _) = candidate(server, time, "a"), candidate(server, time, "b")
        for _ in range(50):
            assert await first._try()
            assert first_fence.is_open
            assert not await second._try()
            time.pass_(2.0)
        assert first_fence.term == 1

    asyncio.run(story())


def test_released_it_is_free_at_once_and_the_restarted_holder_need_not_wait() -> None:
    async def story() -> None:
        server, time = OneLease(), Time()
        (first, first_fence), (second, second_fence) = candidate(server, time, "a"), candidate(server, time, "b")
        assert await first._try()
        await first.release()
        assert not first_fence.is_open
        assert await second._try()
        again, again_fence = candidate(server, time, "b")
        assert await again._try()
        assert again_fence.is_open
        await first.release()
        assert server.raw is not None
        assert server.raw["holderIdentity"] == "b", "who does not hold it cannot give it away"
        assert second_fence.is_open

    asyncio.run(story())


def test_two_that_ask_at_once_do_not_both_get_it() -> None:
    async def story() -> None:
        server, time = OneLease({"holderIdentity": "", "leaseDurationSeconds": 1}), Time()
        (first, _), (second, _) = candidate(server, time, "a"), candidate(server, time, "b")
        assert sorted(await asyncio.gather(first._try(), second._try())) == [False, True]

    asyncio.run(story())


@pytest.mark.parametrize("clock", ["steady", "wall"])
def test_either_clock_closes_the_fence(clock: str) -> None:
    time = Time()
    fence = Fence(time.clocks)
    fence.open(fence.now(), 10.0)
    fence.require()
    setattr(time, clock, getattr(time, clock) + 11)
    with pytest.raises(NotLeading):
        fence.require()


def test_a_renewal_counts_from_when_it_was_sent() -> None:
    time = Time()
    fence = Fence(time.clocks)
    sent = fence.now()
    time.pass_(11)  # stopped between the request and its answer
    fence.open(sent, 10.0)
    assert not fence.is_open


def test_what_began_in_an_earlier_term_writes_nothing_in_a_later_one() -> None:
    time = Time()
    fence = Fence(time.clocks)
    fence.open(fence.now(), 10.0)
    old = contextvars.copy_context()
    old.run(fence.enter)
    old.run(fence.require)
    time.pass_(60)
    fence.open(fence.now(), 10.0)
    with pytest.raises(NotLeading):
        old.run(fence.require)
    new = contextvars.copy_context()
    new.run(fence.enter)
    new.run(fence.require)


def test_without_a_lease_it_acts_until_it_ends() -> None:
    async def story() -> None:
        fence = Fence()
        with pytest.raises(NotLeading):
            fence.require()
        await Alone(fence).acquire()
        fence.require()
        await Alone(fence).release()
        with pytest.raises(NotLeading):
            fence.require()

    asyncio.run(story())


def test_a_catalog_is_not_written_to_without_the_lease(sqlite_catalog: dict[str, str]) -> None:
    """Every write asks, right before it is made; reads do not."""
    time, settings = Time(), explicit("lake", sqlite_catalog)
    fence = Fence(time.clocks)
    calls: list[tuple[str, str]] = []
    backend = GuardedBackend(open_backend(settings), fence.require, lambda call, said, _: calls.append((call, said)))
    fenced, direct = IcebergCatalog(settings, backend=backend), IcebergCatalog(settings)
    direct.create_namespace(("fenced",))
    table = TableIdent(("fenced",), "orders")

    def create_table() -> None:
        fenced.apply(table, None, [CreateTable(spec=orders(table))])

    writes: tuple[Callable[[], None], ...] = (
        lambda: fenced.create_namespace(("other",)),
        create_table,
        lambda: fenced.drop_namespace(("fenced",)),
    )
    assert fenced.list_tables(("fenced",)) == ()
    for write in writes:
        with pytest.raises(NotLeading):
            write()
    assert direct.list_tables(("fenced",)) == ()
    assert {call for call, _ in calls} == {"list"}
    fence.open(fence.now(), 10.0)
    create_table()
    assert direct.list_tables(("fenced",)) == (table,)
    assert ("commit", "ok") in calls


@pytest.mark.parametrize("is_lost", [True, pytest.param(False, id="control-held")])
def test_what_waited_for_a_connection_while_the_lease_was_lost_is_not_sent(is_lost: bool) -> None:
    """All connections are taken when a write begins; one is free again when somebody else may act already."""
    heard: list[str] = []

    async def story() -> None:
        time, gate = Time(), asyncio.Event()
        fence = Fence(time.clocks)
        fence.open(fence.now(), 10.0)

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(asyncio.IncompleteReadError):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = re.search(rb"Content-Length: (\d+)", head)
                    await reader.readexactly(int(length[1]) if length else 0)
                    heard.append(head.split()[0].decode())
                    await gate.wait()
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        connection = Connection(kopf.ConnectionInfo(server=f"http://{host}:{port}"))
        async with server, KubeApi(connection, fence.require) as api:
            looks = [asyncio.create_task(api.get(EVENTS, "sales", "x")) for _ in range(CONNECTIONS)]
            while len(heard) < CONNECTIONS:
                await asyncio.sleep(0.01)
            write = asyncio.create_task(api.create(EVENTS, "sales", {"note": "applied"}))
            await asyncio.sleep(0)  # it has asked its fence, and waits
            if is_lost:
                time.pass_(11)
            gate.set()
            await asyncio.gather(*looks)
            if is_lost:
                with pytest.raises(NotLeading):
                    await write
            else:
                await write
            await api.get(EVENTS, "sales", "x")  # what was refused has spoilt nothing for others

    asyncio.run(story())
    assert heard.count("POST") == (0 if is_lost else 1)


# ---------------------------------------------------------------- readiness and liveness


@pytest.fixture
def health() -> tuple[Health, Time]:
    time = Time()
    made = Health(clock=lambda: time.steady)
    for plural in ("laketables", "lakecatalogs"):
        made.expect(plural, "")
        made.accepted(plural, "")
    made.api_answered()
    return made, time


def test_it_is_ready_when_the_api_answers_and_every_watch_is_accepted(health: tuple[Health, Time]) -> None:
    made, time = health
    assert made.unready() == []
    made.asked("laketables", "")
    time.pass_(5)
    made.api_answered()
    assert made.unready() == [], "a watch is asked for anew each minute"
    time.pass_(6)
    made.api_answered()
    assert made.unready() == ["the watch of laketables has not been accepted for 11 s"]
    made.accepted("laketables", "")
    assert made.unready() == []


def test_a_watch_that_says_nothing_for_too_long_is_noticed(health: tuple[Health, Time]) -> None:
    made, time = health
    time.pass_(91)
    made.api_answered()
    made.accepted("laketables", "")
    assert made.unready() == ["the watch of lakecatalogs was accepted 91 s ago and not since"]


def test_a_watch_whose_answer_ended_and_that_asks_no_more_is_noticed(health: tuple[Health, Time]) -> None:
    made, time = health
    ended: list[bool] = []
    made.accepted("laketables", "", has_ended=lambda: bool(ended))
    assert made.unready() == []
    ended.append(True)
    assert made.unready() == [], "it is given the time to ask again"
    time.pass_(11)
    made.api_answered()
    assert made.unready() == ["the watch of laketables has not been accepted for 11 s"]


def test_one_that_leads_is_ready_only_when_everything_is_listed(health: tuple[Health, Time]) -> None:
    made, _ = health
    made.is_leading = True
    assert made.unready() == ["the resources are not listed yet"]
    made.is_listed = True
    assert made.unready() == []


def test_it_is_dead_only_when_a_watch_stays_dead_while_the_api_answers(health: tuple[Health, Time]) -> None:
    made, time = health
    made.asked("laketables", "")
    made.api_misses = TOO_MANY_MISSES
    time.pass_(10 * DEAD_SECONDS)
    assert made.unready()
    assert made.dead() == [], "the API server is away: a restart would mend nothing"
    made.api_answered()
    assert made.dead() == [], "it is given the time to come back"
    for _ in range(int(DEAD_SECONDS)):
        time.pass_(2)
        made.api_answered()
    made.accepted("lakecatalogs", "")
    assert made.dead() == ["the watch of laketables is dead"]
    made.accepted("laketables", "")
    assert made.dead() == []
