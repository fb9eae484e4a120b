"""The Lease: of several operators only its holder acts, and every write is fenced by the holder's own clocks.

A holder that cannot renew stops before anybody else may take over: what it may still do ends two thirds of the Lease's
duration after the renewal was *sent*, another waits the whole of it after it *saw* it. Each reconcile belongs to one
term; what began in an earlier term writes nothing in a later one. The Lease spares double work; that nothing is applied
twice rests on the catalogs' compare-and-swap.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from reconciler.errors import LakeError
from reconciler.operator.api import ApiConflict, ApiError, ApiExists, ApiForbidden, ApiNotFound, KubeApi
from reconciler.operator.objects import LEASES, Json, int_at, meta_of, text_at

logger = logging.getLogger("laketable.operator")
HELD_PART, RETRY_PART = 2 / 3, 2 / 15
_TERM: contextvars.ContextVar[int] = contextvars.ContextVar("term", default=0)


class NotLeading(LakeError):
    """This operator lost its Lease, or never held it: the write was not made."""

    reason = "NotLeading"


class Clocks(msgspec.Struct, frozen=True):
    """Two clocks: one also counts a suspended machine, the other also jumps when a paused one is set right."""

    steady: Callable[[], float] = lambda: time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    wall: Callable[[], float] = time.time


class Fence:
    """Says whether this operator may write now; asked right before every write, on any thread.

    `open_until_closed` is for an operator that runs without a Lease.
    """

    def __init__(self, clocks: Clocks | None = None) -> None:
        self._clocks = clocks or Clocks()
        self._until = (0.0, 0.0)
        self.term = 0

    @property
    def seconds_left(self) -> float:
        """How long writes are allowed, by the clock that is further on."""
        steady, wall = self._until
        return min(steady - self._clocks.steady(), wall - self._clocks.wall())

    @property
    def is_open(self) -> bool:
        """Whether the Lease is held by both clocks."""
        return self.seconds_left > 0

    def now(self) -> tuple[float, float]:
        """Read the clocks, before a renewal is sent."""
        return self._clocks.steady(), self._clocks.wall()

    def open(self, sent: tuple[float, float], seconds: float) -> None:
        """Allow writes until so long after a renewal was sent; a new term when they were not allowed."""
        if not self.is_open:
            self.term += 1
        self._until = (sent[0] + seconds, sent[1] + seconds)

    def open_until_closed(self) -> None:
        """Allow writes without a Lease."""
        self.open((float("inf"), float("inf")), 0.0)

    def close(self) -> None:
        """Allow nothing more."""
        self._until = (0.0, 0.0)

    def enter(self) -> None:
        """Bind what the current task does from here on to the current term."""
        _TERM.set(self.term)

    def require(self) -> None:
        """Raise NotLeading unless the Lease is held, in the term in which the current work began."""
        began = _TERM.get()
        if not self.is_open or (began and began != self.term):
            raise NotLeading("The Lease is not held any more.", hint="The operator that holds it goes on.")


class Leadership(Protocol):
    """How an operator comes to act, and how it ends; `problem` says why it cannot even wait."""

    problem: str

    async def acquire(self) -> None:
        """Wait until this operator may act."""
        ...

    async def keep(self) -> None:
        """Return when it may not any more."""
        ...

    async def release(self) -> None:
        """Let another operator act at once; nothing of this one may be under way."""
        ...


class Alone:
    """Leadership of the only operator there is, by its user's word."""

    problem = ""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    async def acquire(self) -> None:
        """Act at once."""
        self._fence.open_until_closed()

    async def keep(self) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Act no more."""
        self._fence.close()


class Lease:
    """One candidate for the Lease of its operators."""

    def __init__(
        self, api: KubeApi, fence: Fence, *, namespace: str, name: str, identity: str, seconds: int = 15
    ) -> None:
        self._api = api
        self._fence = fence
        self._namespace, self._name, self.identity = namespace, name, identity
        self._duration, self._hold, self._retry = seconds, seconds * HELD_PART, seconds * RETRY_PART
        self._seen: tuple[str, float] = ("", 0.0)
        self.holder = ""
        self.problem = ""

    async def acquire(self) -> None:
        """Wait until the Lease is ours; `problem` says what is in the way but another holder."""
        said = ""
        while True:
            try:
                async with asyncio.timeout(self._hold):
                    is_ours = await self._try()
                self.problem = ""
                if is_ours and self._fence.is_open:
                    logger.info("holding Lease %s/%s as %s", self._namespace, self._name, self.identity)
                    return
            except ApiForbidden:
                # not the end: an API server that has just started forbids much before it has read its roles
                self.problem = f"may not get, create and patch Lease {self._namespace}/{self._name}"
            except (ApiError, TimeoutError):
                self.problem = f"cannot ask for Lease {self._namespace}/{self._name}"
            state = (
                self.problem or f"waiting for Lease {self._namespace}/{self._name}, held by {self.holder or 'nobody'}"
            )
            if state != said:
                logger.log(logging.WARNING if self.problem else logging.INFO, "%s", state)
                said = state
            await asyncio.sleep(self._retry)

    async def keep(self) -> None:
        """Renew until the Lease is lost, then return."""
        while self._fence.is_open:
            await asyncio.sleep(self._retry)
            left = self._fence.seconds_left
            if left <= 0:
                break  # we slept too long: another may hold it by now
            try:
                async with asyncio.timeout(left):
                    if not await self._try():
                        break
            except ApiError as error:
                logger.warning("the Lease was not renewed: %s", error)
            except TimeoutError:
                logger.warning("the Lease was not renewed: the Kubernetes API does not answer")
        self._fence.close()
        by = f": {self.holder} holds it" if self.holder not in ("", self.identity) else ""
        logger.warning("Lease %s/%s is lost%s", self._namespace, self._name, by)

    async def release(self) -> None:
        """Let another operator take over at once."""
        was_open = self._fence.is_open
        self._fence.close()
        if not was_open:
            return
        with contextlib.suppress(ApiError):
            raw = await self._api.get(LEASES, self._namespace, self._name)
            if text_at(raw, "spec", "holderIdentity") == self.identity:
                await self._patch(raw, {"holderIdentity": "", "leaseDurationSeconds": 1})
                logger.info("released Lease %s/%s", self._namespace, self._name)

    async def _try(self) -> bool:
        """Take the Lease, or renew it; say whether it is ours."""
        sent = self._fence.now()
        spec: Json = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._duration,
            "renewTime": _micro_time(),
        }
        try:
            raw = await self._api.get(LEASES, self._namespace, self._name)
        except ApiNotFound:
            body: Json = {
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": {**spec, "acquireTime": spec["renewTime"], "leaseTransitions": 0},
            }
            try:
                await self._api.create(LEASES, self._namespace, body, fenced=False)
            except ApiExists:
                return False
            return self._held(sent)
        self.holder = text_at(raw, "spec", "holderIdentity")
        if self.holder not in ("", self.identity) and not self._has_expired(raw):
            return False
        if self.holder != self.identity:
            turns = int_at(raw, "spec", "leaseTransitions") or 0
            spec |= {"acquireTime": spec["renewTime"], "leaseTransitions": turns + 1}
        try:
            await self._patch(raw, spec)
        except (ApiConflict, ApiNotFound):
            return False
        return self._held(sent)

    def _held(self, sent: tuple[float, float]) -> bool:
        self.holder = self.identity
        self._fence.open(sent, self._hold)
        return True

    def _has_expired(self, raw: Json) -> bool:
        """Say whether its holder said nothing for as long as it promised to, by our own clock since we saw it."""
        version, (now, _) = meta_of(raw).resource_version, self._fence.now()
        if version != self._seen[0]:
            self._seen = (version, now)
        return now - self._seen[1] > (int_at(raw, "spec", "leaseDurationSeconds") or self._duration)

    async def _patch(self, raw: Json, spec: Json) -> None:
        body: Json = {"metadata": {"resourceVersion": meta_of(raw).resource_version}, "spec": spec}
        await self._api.patch(LEASES, self._namespace, self._name, body, fenced=False)


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
