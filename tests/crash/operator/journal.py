"""Every write of an operator, to Kubernetes and to the catalog, as the proxies before both see it; and its end at any.

Nothing of ours is asked: a write is a request that is not a GET. What it does is read from what was sent, with names,
hashes and numbers left out, so that two runs of one story write the same. Events are written beside the rest, so order
says nothing: a point is the n-th write of its description.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.operator.objects import TABLES
from tests.crash.recorder import When, describe, is_write
from tests.proxy import Fault, FaultProxy, Recorded

_READS = ("GET", "HEAD")
_VERBS = {"POST": "create", "PUT": "replace", "PATCH": "patch", "DELETE": "delete"}
_ITEM = re.compile(r"^/apis?/(?:[^/]+/)?v[^/]+(?:/namespaces/(?P<namespace>[^/]+))?/(?P<rest>[^?]+)")
_HEX = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8,}")
_BESIDE = re.compile(r"\w+ leases\b")
"""What goes on whether there is work or not: the Lease is renewed, and that belongs to no story."""


@dataclass(frozen=True)
class Place:
    """One place to end an operator: before or after the n-th write of a description, counted from 1."""

    write: str
    number: int
    when: When

    def __str__(self) -> str:
        return f"{self.when} {self.write}" + (f" (no. {self.number})" if self.number > 1 else "")


def places(writes: Iterable[str]) -> list[Place]:
    """List the places around these writes."""
    seen: Counter[str] = Counter()
    found = []
    for write in writes:
        seen[write] += 1
        found += [Place(write, seen[write], when) for when in When]
    return found


class Journal:
    """What one operator did in one namespace, told by both proxies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reached = threading.Event()
        self.begin("", "")

    def begin(self, namespace: str, table: str) -> None:
        """Forget what was, and leave these names out of what comes."""
        with self._lock:
            self.namespace, self.table = namespace, table
            self._tried: list[str] = []
            self._count: Counter[str] = Counter()
            self._taken: list[str] = []
            self._reads: Counter[str] = Counter()
            self._place: Place | None = None
            self._kill: Callable[[], None] = lambda: None
            self._reached.clear()

    def end_at(self, place: Place, kill: Callable[[], None]) -> None:
        """Call `kill` at a place; its sender never hears of what it sent."""
        with self._lock:
            self._place, self._kill = place, kill

    def is_reached(self, seconds: float) -> bool:
        """Wait for the end."""
        return self._reached.wait(seconds)

    @property
    def taken(self) -> list[str]:
        """The writes that had an effect."""
        with self._lock:
            return list(self._taken)

    @property
    def tried(self) -> list[str]:
        """The writes that were sent, whatever came of them."""
        with self._lock:
            return list(self._tried)

    def reads(self, what: str) -> int:
        """Count the reads of one thing: `laketable orders`, `catalog table orders`."""
        with self._lock:
            return self._reads[what]

    @property
    def all_reads(self) -> dict[str, int]:
        """Count the reads of each thing."""
        with self._lock:
            return dict(self._reads)

    # ------------------------------------------------------------ told by the proxies

    def meet(self, write: str) -> Fault | None:
        """Hear of a write before it is forwarded; the fault is the operator's end."""
        with self._lock:
            self._count[write] += 1
            if not _BESIDE.match(write):
                self._tried.append(write)
            place = self._place
            if place is None or place.write != write or self._count[write] != place.number:
                return None
            self._place = None
        before = place.when is When.BEFORE
        return Fault(drop_before=before, drop_after=not before, call=self._end)

    def took(self, write: str) -> None:
        """Hear of a write that had an effect."""
        with self._lock:
            if not _BESIDE.match(write):
                self._taken.append(write)

    def read(self, what: str) -> None:
        """Hear of a read."""
        with self._lock:
            self._reads[what] += 1

    def named(self, text: str, namespace: str | None, table: str = "") -> str:
        """Describe a write by what it does, and where, unless that is the story's own table."""
        with self._lock:
            own, known = self.namespace, self.table
        place = f" of {table}" if table and table != known else ""
        return f"{'elsewhere ' if namespace not in (None, own) else ''}{self.plain(text)}{place}"

    def plain(self, text: str) -> str:
        """Leave out what differs from run to run."""
        with self._lock:
            names = {self.namespace: "NS", self.table: "TABLE"}
        for name, word in names.items():
            text = text.replace(name, word) if name else text
        return _HEX.sub("#", text)

    def _end(self) -> None:
        self._kill()
        self._reached.set()


class KubeProxy(FaultProxy):
    """Stands before the API server: plain HTTP on the loopback, the sender's own token behind."""

    def __init__(self, server: str, context: ssl.SSLContext, journal: Journal) -> None:
        super().__init__(server, context)
        self._journal = journal

    def take(self, method: str, path: str, body: bytes = b"") -> Fault | None:
        """Find the fault of a request."""
        if method in _READS:
            return super().take(method, path, body)
        return self._journal.meet(self._named(method, path, body))

    def record(self, request: Recorded) -> None:
        """Remember one request."""
        super().record(request)
        if request.method in _READS:
            found = _ITEM.match(request.path)
            kind, _, name = found["rest"].partition("/") if found else ("", "", "")
            if found and kind == TABLES.plural and name and found["namespace"] == self._journal.namespace:
                self._journal.read(f"laketable {name}")
        elif (request.upstream_status or 500) < 300:
            self._journal.took(self._named(request.method, request.path, request.body))

    def _named(self, method: str, path: str, body: bytes) -> str:
        found, text = _ITEM.match(path), describe_kube(method, path, body)
        if found is None or _BESIDE.match(text):
            return text
        kind, _, rest = found["rest"].partition("/")
        return self._journal.named(text, found["namespace"], rest.partition("/")[0] if kind == TABLES.plural else "")


class CatalogProxy(FaultProxy):
    """Stands before the REST catalog."""

    def __init__(self, uri: str, journal: Journal) -> None:
        super().__init__(uri)
        self._journal = journal

    def take(self, method: str, path: str, body: bytes = b"") -> Fault | None:
        """Find the fault of a request."""
        if not is_write(method, path, body):
            return super().take(method, path, body)
        return self._journal.meet(self._named(Recorded(method, path, {}, body, None, None)))

    def record(self, request: Recorded) -> None:
        """Remember one request."""
        super().record(request)
        if not is_write(request.method, request.path, request.body):
            own = f"/namespaces/{self._journal.namespace}/tables/"
            name = request.path.partition("?")[0].partition(own)[2]
            if name:
                self._journal.read(f"catalog table {name}")
        elif (request.upstream_status or 500) < 300:
            self._journal.took(self._named(request))

    def _named(self, request: Recorded) -> str:
        found = re.search(r"/namespaces/([^/?]+)/", request.path)
        return self._journal.named(f"catalog: {describe(request)}", found[1] if found else None)


# ---------------------------------------------------------------- what a write does


def describe_kube(method: str, path: str, body: bytes) -> str:
    """Say in a few words what a request to the API server does: verb, kind, and what it says."""
    found = _ITEM.match(path)
    document = _decoded(body)
    if found is None:
        return f"{method} {path}"
    kind, _, rest = found["rest"].partition("/")
    part = rest.partition("/")[2]
    words = [_VERBS.get(method, method), f"{kind}/{part}" if part else kind]
    return " ".join(filter(None, [*words, _said(kind, method, document)]))


def _said(kind: str, method: str, document: Mapping[str, Any]) -> str:
    status, meta = document.get("status"), document.get("metadata", {})
    if kind == "events":
        return str(document.get("reason"))
    if isinstance(status, dict):
        return (
            str(status["phase"]) if "phase" in status else "+".join(_part(key, status[key]) for key in sorted(status))
        )
    if method == "PATCH" and "finalizers" in meta:
        return f"finalizers {'+'.join(meta['finalizers']) or 'none'}"
    return ""


def _part(key: str, value: object) -> str:
    """Tell the beginning and the end of an operation from how far it is: that is written as often as time allows."""
    if key != "operation":
        return key
    if value is None:
        return "operation ended"
    return "operation begun" if isinstance(value, dict) and "id" in value else "progress"


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
