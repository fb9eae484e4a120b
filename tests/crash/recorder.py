"""Every write to a REST catalog, as its proxy sees it, and the means to end a run at any of them.

Nothing of ours is asked: a write is a request that is not a GET, and what it does is read from what was sent. So a
write that nobody thought of is in the list too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from tests.proxy import Fault, FaultProxy, Recorded

_READS = ("GET", "HEAD")
_NOT_WRITES = ("/metrics", "/oauth/tokens", "/plan", "/tasks")
_REFUSAL = b'{"error": {"message": "cut off", "type": "ForbiddenException", "code": 403}}'


class When(StrEnum):
    """On which side of a write the run ends."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True)
class Point:
    """One place to end a run: the n-th write it makes, counted from 1."""

    number: int
    when: When

    def __str__(self) -> str:
        return f"{self.when} write {self.number}"


def points(writes: Sequence[str]) -> list[Point]:
    """List the places around these writes."""
    return [Point(number, when) for number in range(1, len(writes) + 1) for when in When]


def is_write(method: str, path: str, body: bytes = b"") -> bool:
    """Say whether a request changes the catalog; staging a creation makes nothing."""
    path = path.partition("?")[0]
    is_staging = path.endswith("/tables") and bool(_decoded(body).get("stage-create"))
    return method not in _READS and not path.endswith(_NOT_WRITES) and not is_staging


class CommitProxy(FaultProxy):
    """Records the writes; one of them may be the last thing that gets through."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self._counting = threading.Lock()
        self._seen = 0
        self._at: dict[int, Fault] = {}
        self._is_cut = False

    # ------------------------------------------------------------ what happened

    @property
    def written(self) -> list[str]:
        """Describe the writes that the catalog took, in order."""
        return [describe(r) for r in self._answered() if r.upstream_status is not None and r.upstream_status < 300]

    @property
    def attempted(self) -> list[str]:
        """Describe all writes that were sent, taken or not."""
        return [describe(r) for r in self._answered()]

    def _answered(self) -> Iterator[Recorded]:
        return (r for r in self.requests if is_write(r.method, r.path, r.body))

    # ------------------------------------------------------------ what shall happen

    def start(self) -> None:
        """Begin a run: nothing recorded, nothing planned."""
        self.forget()
        with self._counting:
            self._seen, self._at, self._is_cut = 0, {}, False

    def end_at(self, point: Point, kill: Callable[[], None]) -> None:
        """Call `kill` before or after the n-th write; its sender never hears of it."""
        before = point.when is When.BEFORE
        self._at[point.number] = Fault(drop_before=before, drop_after=not before, call=kill)

    def cut_at(self, point: Point) -> None:
        """Let nothing through any more from just before or just after the n-th write: for the catalog, a crash."""
        if point.when is When.BEFORE:
            self._at[point.number] = Fault(status=403, body=_REFUSAL, call=self._cut)
        else:
            self._at[point.number] = Fault(drop_after=True, call=self._cut)

    def meet(self, faults: Mapping[int, Fault]) -> None:
        """Let the n-th write meet a fault."""
        self._at |= faults

    def _cut(self) -> None:
        with self._counting:
            self._is_cut = True

    def take(self, method: str, path: str, body: bytes = b"") -> Fault | None:
        """Find the fault of a request."""
        with self._counting:
            if self._is_cut:
                return Fault(status=403, body=_REFUSAL)
            if is_write(method, path, body):
                self._seen += 1
                return self._at.pop(self._seen, None)
        return super().take(method, path, body)


# ---------------------------------------------------------------- what a write does


def describe(request: Recorded) -> str:
    """Say in a few words what a request does, from what was sent."""
    path = request.path.partition("?")[0]
    body = _decoded(request.body)
    if request.method == "POST" and "updates" in body:
        is_new = {"type": "assert-create"} in body.get("requirements", ())
        parts = ["create"] if is_new else dict.fromkeys(_parts(body["updates"]))
        return f"{path.rpartition('/')[2]}: {' + '.join(parts)}"
    if path.endswith("/transactions/commit"):
        return " & ".join(
            f"{change['identifier']['name']}: {' + '.join(dict.fromkeys(_parts(change['updates'])))}"
            for change in body.get("table-changes", ())
        )
    if request.method == "POST" and path.endswith("/tables"):
        return f"create {body.get('name')}"
    return f"{request.method} {path.partition('/namespaces')[2] or path}"


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body or b"{}")
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _parts(updates: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Name the parts of one commit; `rows on x` is a new snapshot there, `point x` only moves the ref."""
    added = {u["snapshot"]["snapshot-id"] for u in updates if u["action"] == "add-snapshot"}
    for update in updates:
        match update["action"]:
            case "set-snapshot-ref":
                ref = _kind_of_ref(update["ref-name"])
                yield f"rows on {ref}" if update["snapshot-id"] in added else f"point {ref}"
            case "remove-snapshot-ref":
                yield f"drop {_kind_of_ref(update['ref-name'])}"
            case "set-properties":
                done = any(key.startswith("laketable.done") for key in update["updates"])
                yield "done" if done else "properties"
            case "add-schema" | "set-current-schema":
                yield "schema"
            case "add-snapshot":
                pass
            case action:
                yield action


def _kind_of_ref(name: str) -> str:
    if name.startswith("lt_undo_"):
        return "undo tag"
    return "branch" if name.startswith("lt_") else name
