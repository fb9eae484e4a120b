"""The work queue: nothing twice, nothing lost, one worker per table, bounded, later after each failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from reconciler.operator.objects import Key
from reconciler.operator.queue import FIRST_BACKOFF, LONGEST_BACKOFF, Again, Limits, WorkQueue


def key(name: str, lane: str = "a") -> Key:
    return Key("LakeTable", lane, name)


class Recorder:
    """Works on keys as a test tells it to."""

    def __init__(self) -> None:
        self.started: list[Key] = []
        self.running: set[Key] = set()
        self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.answers: dict[Key, Again] = {}

    async def __call__(self, key: Key) -> Again:
        self.started.append(key)
        self.running.add(key)
        self.most = max(self.most, len(self.running))
        await self.gate.wait()
        self.running.discard(key)
        return self.answers.get(key, Again())


class Clock:
    """Time that stands still until it is told to move."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


Scenario = Callable[[WorkQueue, Recorder, Clock], Awaitable[None]]


def play(scenario: Scenario, limits: Limits | None = None, group: Callable[[Key], str] | None = None) -> None:
    async def main() -> None:
        recorder, clock = Recorder(), Clock()
        queue = WorkQueue(
            work=recorder,
            group_of=group or str,
            lane_of=lambda key: key.namespace,
            limits=limits or Limits(),
            clock=clock,
            random=Random(1),
        )
        loop = asyncio.create_task(queue.run())
        try:
            await scenario(queue, recorder, clock)
        finally:
            loop.cancel()
            recorder.gate.set()
            await queue.drain(1)

    asyncio.run(asyncio.wait_for(main(), 60))


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_key_added_often_is_worked_on_once() -> None:
    async def scenario(queue: WorkQueue, recorder: Recorder, _: Clock) -> None:
        for _again in range(5):
            queue.add(key("t"))
        await settle()
        assert recorder.started == [key("t")]
        assert queue.is_idle

    play(scenario)


def test_a_key_added_while_it_is_worked_on_runs_once_more() -> None:
    async def scenario(queue: WorkQueue, recorder: Recorder, _: Clock) -> None:
        recorder.gate.clear()
        queue.add(key("t"))
        await settle()
        queue.add(key("t"))
        queue.add(key("t"))
        await settle()
        assert len(recorder.started) == 1
        recorder.gate.set()
        await settle()
        assert len(recorder.started) == 2
        assert queue.is_idle

    play(scenario)


def test_two_keys_of_one_group_never_run_at_once_and_others_do() -> None:
    async def scenario(queue: WorkQueue, recorder: Recorder, _: Clock) -> None:
        recorder.gate.clear()
        for name in ("same-1", "same-2", "other"):
            queue.add(key(name))
        await settle()
        assert {k.name for k in recorder.running} == {"same-1", "other"}
        recorder.gate.set()
        await settle()
        assert {k.name for k in recorder.started} == {"same-1", "same-2", "other"}

    play(scenario, group=lambda key: key.name.partition("-")[0])


@pytest.mark.parametrize(("limits", "most"), [(Limits(total=3, lane=8), 3), (Limits(total=16, lane=2), 4)])
def test_work_is_bounded_in_all_and_per_lane(limits: Limits, most: int) -> None:
    async def scenario(queue: WorkQueue, recorder: Recorder, _: Clock) -> None:
        recorder.gate.clear()
        for number in range(10):
            queue.add(key(f"t{number}", "ab"[number % 2]))
        await settle()
        assert len(recorder.running) == most
        recorder.gate.set()
        await settle()
        assert len(recorder.started) == 10
        assert recorder.most == most

    play(scenario, limits)


def test_each_failure_waits_longer_up_to_a_limit_and_success_forgets_it() -> None:
    async def scenario(queue: WorkQueue, recorder: Recorder, clock: Clock) -> None:
        recorder.answers[key("t")] = Again(failed=True)
        queue.add(key("t"))
        await settle()
        delays = []
        for _ in range(12):
            delays.append(queue.next_in(key("t")) or 0.0)
            clock.now += delays[-1]
            queue.wake()
            await settle()
        assert FIRST_BACKOFF / 2 <= delays[0] <= FIRST_BACKOFF
        assert LONGEST_BACKOFF / 2 <= delays[-1] <= LONGEST_BACKOFF
        assert len(recorder.started) == 13
        recorder.answers[key("t")] = Again()
        queue.add(key("t"))
        await settle()
        recorder.answers[key("t")] = Again(failed=True)
        queue.add(key("t"))
        await settle()
        assert (queue.next_in(key("t")) or 0.0) <= FIRST_BACKOFF

    play(scenario)


def test_a_resync_is_jittered_and_an_event_comes_before_it() -> None:
    async def scenario(queue: WorkQueue, recorder: Recorder, _: Clock) -> None:
        recorder.answers[key("t")] = Again(100.0)
        queue.add(key("t"))
        await settle()
        assert 90 <= (queue.next_in(key("t")) or 0.0) <= 110
        queue.add(key("t"))
        await settle()
        assert len(recorder.started) == 2

    play(scenario)


def test_a_forgotten_key_does_not_come_back() -> None:
    async def scenario(queue: WorkQueue, recorder: Recorder, clock: Clock) -> None:
        queue.add(key("t"), delay=5)
        queue.forget(key("t"))
        clock.now += 10
        queue.wake()
        await settle()
        assert recorder.started == []

    play(scenario)
