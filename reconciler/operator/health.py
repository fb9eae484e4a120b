"""How the operator's parts are: told by the watches, the Lease and a heartbeat; read by probes and metrics.

A watch is alive when the API server accepted a request for it within the last minute and a half: one request lasts a
minute (`watch.WATCH_SECONDS`), so a connection that died silently is asked for anew, and one that cannot be had shows.
Written on two loops; every field is one assignment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

SILENT_SECONDS = 12.0
"""How long the API server may say nothing to the heartbeat, which asks every `BEAT_SECONDS`."""
BEAT_SECONDS = 2.0
TOO_MANY_MISSES = 3
BROKEN_SECONDS = 10.0
"""How long a watch may take to be accepted again."""
STALE_SECONDS = 90.0
DEAD_SECONDS = 300.0
"""How long a watch may be dead while the API server answers: then this process is at fault, and is to be restarted."""


@dataclass(slots=True)
class WatchHealth:
    """One watch: when it was last accepted, when it last heard an event, and since when it is not accepted.

    `has_ended` asks the answer that was accepted whether it still goes on.
    """

    broken_since: float | None
    accepted_at: float = 0.0
    heard_at: float = 0.0
    has_ended: Callable[[], bool] = lambda: False

    def look(self, now: float) -> None:
        """Notice that its answer has ended: nobody tells when nothing follows."""
        if self.broken_since is None and self.has_ended():
            self.broken_since = now

    def problem(self, now: float) -> str:
        """Say what is wrong with it; "" when nothing is."""
        self.look(now)
        if self.broken_since is not None and now - self.broken_since > BROKEN_SECONDS:
            return f"has not been accepted for {now - self.broken_since:.0f} s"
        if self.accepted_at and now - self.accepted_at > STALE_SECONDS:
            return f"was accepted {now - self.accepted_at:.0f} s ago and not since"
        return "" if self.accepted_at else "has not begun"

    def dead_seconds(self, now: float) -> float:
        """Return how long it has been dead."""
        self.look(now)
        stale = now - self.accepted_at - STALE_SECONDS if self.accepted_at else 0.0
        return max(stale, now - self.broken_since if self.broken_since is not None else 0.0)


@dataclass(slots=True)
class Health:
    """The state of one operator; `clock` counts seconds."""

    clock: Callable[[], float] = time.monotonic
    is_leading: bool = False
    is_listed: bool = False
    is_stopping: bool = False
    lease_problem: Callable[[], str] = lambda: ""
    api_heard_at: float = 0.0
    api_misses: int = 0
    api_back_at: float = 0.0
    has_listed: bool = False
    watch_restarts: int = 0
    watch_loop: asyncio.AbstractEventLoop | None = None
    watches: dict[tuple[str, str], WatchHealth] = field(default_factory=dict)

    def expect(self, plural: str, namespace: str) -> None:
        """Count a watch as missing until it is accepted."""
        self.watches.setdefault((plural, namespace), WatchHealth(broken_since=self.clock()))

    def asked(self, plural: str, namespace: str) -> None:
        """Hear that a watch, or the listing before it, was asked for."""
        watch = self._watch(plural, namespace)
        if watch.broken_since is None:
            watch.broken_since = self.clock()

    def accepted(self, plural: str, namespace: str, has_ended: Callable[[], bool] = lambda: False) -> None:
        """Hear that the API server answers it."""
        watch = self._watch(plural, namespace)
        watch.has_ended = has_ended
        watch.accepted_at, watch.broken_since = self.clock(), None

    def heard(self, plural: str, namespace: str) -> None:
        """Hear of an event."""
        watch = self.watches.get((plural, namespace)) or self.watches.get((plural, ""))
        if watch is not None:
            watch.heard_at = self.clock()

    def api_answered(self) -> None:
        """Hear that the API server answered the heartbeat."""
        now = self.clock()
        if not self.is_api_heard:
            self.api_back_at = now
        self.api_heard_at, self.api_misses = now, 0

    @property
    def is_api_heard(self) -> bool:
        """Whether the API server has answered lately."""
        is_recent = bool(self.api_heard_at) and self.clock() - self.api_heard_at < SILENT_SECONDS
        return is_recent and self.api_misses < TOO_MANY_MISSES

    def unready(self) -> list[str]:
        """Say why this operator cannot be relied on now; it can while another one holds the Lease and it only waits."""
        now = self.clock()
        found = [] if self.is_api_heard else ["the Kubernetes API does not answer"]
        if self.is_stopping:
            found.append("the operator is stopping")
        if not self.is_leading and self.lease_problem():
            found.append(self.lease_problem())
        if self.is_leading and not self.is_listed:
            found.append("the resources are not listed yet")
        for (plural, namespace), watch in sorted(self.watches.items()):
            if problem := watch.problem(now):
                found.append(f"the watch of {plural}{f' in {namespace}' if namespace else ''} {problem}")
        return found

    def dead(self, seconds: float = DEAD_SECONDS) -> list[str]:
        """Say which watches have been dead for so long although the API server answered all the time."""
        now = self.clock()
        if not self.is_api_heard or now - self.api_back_at < seconds:
            return []
        return [
            f"the watch of {plural} is dead"
            for (plural, _), watch in sorted(self.watches.items())
            if watch.dead_seconds(now) > seconds
        ]

    def _watch(self, plural: str, namespace: str) -> WatchHealth:
        self.expect(plural, namespace)
        return self.watches[plural, namespace]
