"""Tags that follow main: moved by us at each tick of their schedule, to what main's head was then. Upkeep, never drift.

A tag that somebody else has moved is not ours to move back: it is a finding, and stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from reconciler.diff.changes import Change, CreateRef, MoveRef
from reconciler.model.bookkeeping import Tracked, tracked
from reconciler.model.schedules import last_tick
from reconciler.model.table import Desired, DesiredRef, Observed, Ref
from reconciler.plan.data import upkeep_commit
from reconciler.plan.findings import finding
from reconciler.plan.operations import Finding, Operation


def tracked_moves(desired: Desired, current: Observed, *, now_ms: int) -> tuple[Operation, ...]:
    """Move, in one commit, every tag whose schedule has ticked since we put it where it is."""
    due = tuple(_due(desired, current, now_ms))
    if not due:
        return ()
    names = ", ".join(move.after.name for move in due)
    return (upkeep_commit(f"move {names} to where main was at the last tick", current, due),)


def moved_by_others(desired: Desired, current: Observed) -> tuple[Finding, ...]:
    """Report tags that follow main and are not where we put them."""
    memory = tracked(current.bookkeeping)
    return tuple(
        finding(
            "LK113",
            f"Tag {ref.name} follows main, but somebody else moved it from snapshot {memory[ref.name].snapshot_id} "
            f"to {current.spec.refs[ref.name].snapshot_id}.",
        )
        for ref in _followed(desired, current)
        if ref.name in memory and not _is_where_we_put_it(ref.name, memory, current)
    )


def tracked_after(memory: Mapping[str, Tracked], changes: Sequence[Change], *, now_ms: int) -> Mapping[str, Tracked]:
    """Return the memory once these changes are made: tags are moved, or made anew after somebody dropped them."""
    put = (_put(change) for change in changes)
    moved = {ref.name: Tracked(snapshot_id=ref.snapshot_id, time_ms=now_ms) for ref in put if ref is not None}
    return {name: moved.get(name, before) for name, before in memory.items()}


def _put(change: Change) -> Ref | None:
    match change:
        case MoveRef(after=ref) | CreateRef(ref=ref):
            return ref
        case _:
            return None


def _followed(desired: Desired, current: Observed) -> Iterator[DesiredRef]:
    return (ref for ref in desired.refs or () if ref.track is not None and ref.name in current.spec.refs)


def _is_where_we_put_it(name: str, memory: Mapping[str, Tracked], current: Observed) -> bool:
    return name in memory and memory[name].snapshot_id == current.spec.refs[name].snapshot_id


def _due(desired: Desired, current: Observed, now_ms: int) -> Iterator[MoveRef]:
    memory = tracked(current.bookkeeping)
    for ref in _followed(desired, current):
        if ref.schedule is None or not _is_where_we_put_it(ref.name, memory, current):
            continue
        tick = last_tick(ref.schedule, now_ms)
        if tick is None or tick <= memory[ref.name].time_ms:
            continue
        there = _head_at(current, tick)
        before = current.spec.refs[ref.name]
        if there is not None and there != before.snapshot_id:
            yield MoveRef(before=before, after=msgspec.structs.replace(before, snapshot_id=there))


def _head_at(current: Observed, time_ms: int) -> int | None:
    """Return main's head at a time or, when that has expired, the first later one that is still there."""
    then: int | None = None
    for since_ms, snapshot_id in current.snapshot_log:
        is_there = snapshot_id in current.snapshot_ids
        if since_ms <= time_ms:
            then = snapshot_id if is_there else None
        elif then is None and is_there:
            return snapshot_id
    return then
