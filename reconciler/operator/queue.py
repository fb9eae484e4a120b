"""The work queue: each key at most once, one key of a group at a time, bounded in all and per lane, with backoff.

A group is a live table (two resources may claim one), a lane is a catalog. Adding a key that is being worked on makes
it run once more afterwards. One asyncio loop, no threads: the clock and chance are passed in, so that tests own them.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from random import Random

from reconciler.operator.objects import Key

FIRST_BACKOFF = 1.0
LONGEST_BACKOFF = 300.0


@dataclass(frozen=True, slots=True)
class Again:
    """When a key is looked at again: after `seconds`; `failed` makes each time later than the last."""

    seconds: float | None = None
    failed: bool = False


@dataclass(slots=True)
class Limits:
    """How many keys are worked on at once."""

    total: int = 16
    lane: int = 8


@dataclass(slots=True)
class WorkQueue:
    """Keys to look at, and the loop that does."""

    work: Callable[[Key], Awaitable[Again]]
    group_of: Callable[[Key], Hashable]
    lane_of: Callable[[Key], Hashable]
    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], float] = field(default_factory=lambda: asyncio.get_running_loop().time)
    random: Random = field(default_factory=Random)
    _ready: dict[Key, None] = field(default_factory=dict)
    _due: dict[Key, float] = field(default_factory=dict)
    _timers: list[tuple[float, Key]] = field(default_factory=list)
    _running: dict[Key, tuple[Hashable, Hashable]] = field(default_factory=dict)
    _again: set[Key] = field(default_factory=set)
    _failures: dict[Key, int] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def depth(self) -> int:
        """How many keys wait for their turn."""
        return len(self._ready)

    @property
    def working(self) -> int:
        """How many keys are being worked on."""
        return len(self._running)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for its turn or is being worked on; what is due later does not count."""
        return not self._ready and not self._running

    def add(self, key: Key, *, delay: float = 0.0) -> None:
        """Ask for a key to be looked at, now or at the latest after `delay` seconds."""
        if delay > 0:
            self._schedule(key, self.clock() + delay)
        elif key in self._running:
            self._again.add(key)
        else:
            self._due.pop(key, None)
            self._ready[key] = None
        self._wake.set()

    def forget(self, key: Key) -> None:
        """Drop what is planned for a key that is gone."""
        self._due.pop(key, None)
        self._ready.pop(key, None)
        self._failures.pop(key, None)

    def next_in(self, key: Key) -> float | None:
        """Return the seconds until a key's turn comes by time; None when nothing is planned."""
        due = self._due.get(key)
        return None if due is None else due - self.clock()

    def wake(self) -> None:
        """Look at the clock again."""
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled; then what is under way is given the chance to end by whoever cancels."""
        while True:
            self._take_due()
            self._start_ready()
            self._wake.clear()
            wait = self._timers[0][0] - self.clock() if self._timers else None
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), None if wait is None else max(wait, 0.0))

    async def halt(self) -> None:
        """Stop at once: forget what was to be done, cancel what is under way and wait until it is."""
        self._ready.clear()
        self._due.clear()
        self._timers.clear()
        self._again.clear()
        await self.drain(0)
        self._due.clear()
        self._timers.clear()
        self._failures.clear()

    async def drain(self, seconds: float) -> None:
        """Wait for what is under way, then cancel it."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _schedule(self, key: Key, when: float) -> None:
        planned = self._due.get(key)
        if planned is None or when < planned:
            self._due[key] = when
            heapq.heappush(self._timers, (when, key))

    def _take_due(self) -> None:
        now = self.clock()
        while self._timers and self._timers[0][0] <= now:
            when, key = heapq.heappop(self._timers)
            if self._due.get(key) == when:  # else it was planned anew, or forgotten
                del self._due[key]
                self.add(key)

    def _start_ready(self) -> None:
        groups = {group for group, _ in self._running.values()}
        lanes: dict[Hashable, int] = {}
        for _, lane in self._running.values():
            lanes[lane] = lanes.get(lane, 0) + 1
        for key in list(self._ready):
            if len(self._running) >= self.limits.total:
                return
            group, lane = self.group_of(key), self.lane_of(key)
            if group in groups or lanes.get(lane, 0) >= self.limits.lane:
                continue
            groups.add(group)
            lanes[lane] = lanes.get(lane, 0) + 1
            del self._ready[key]
            self._due.pop(key, None)
            self._running[key] = (group, lane)
            task = asyncio.get_running_loop().create_task(self._work(key), name=str(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self, key: Key) -> None:
        again = Again(failed=True)
        try:
            again = await self.work(key)
        finally:
            del self._running[key]
            self._plan_next(key, again)
            self._wake.set()

    def _plan_next(self, key: Key, again: Again) -> None:
        if again.failed:
            self._failures[key] = self._failures.get(key, 0) + 1
            longest = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(self._failures[key] - 1, 16))
            self._schedule(key, self.clock() + longest * self.random.uniform(0.5, 1.0))
        else:
            self._failures.pop(key, None)
            if again.seconds is not None:
                self._schedule(key, self.clock() + again.seconds * self.random.uniform(0.9, 1.1))
        if key in self._again:
            self._again.discard(key)
            self.add(key)
