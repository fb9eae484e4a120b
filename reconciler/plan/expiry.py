"""Decide which snapshots, tags and branches a table may forget; pure, because a mistake here deletes data.

Kept are: the newest `keep` of main and all younger than the given age, whatever a tag names, the branches of others by
the same rule, a branch of ours down to where it left main, and what the caller protects (the watermarks of views, the
target of a restore that is under way). Iceberg's own settings on a ref only ever keep more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from reconciler.model.metadata import MAIN
from reconciler.model.table import Ref, RefKind
from reconciler.plan.data import BRANCH_PREFIX, branch_of

UNDO_PREFIX = f"{BRANCH_PREFIX}undo_"


class SnapshotTime(msgspec.Struct, frozen=True, kw_only=True):
    """What expiry asks of a snapshot; `operation` is the data operation that made it."""

    snapshot_id: int
    parent_id: int | None
    time_ms: int
    operation: str | None = None


class Expiry(msgspec.Struct, frozen=True, kw_only=True):
    """What may go: snapshots, and tags and branches past their own age."""

    snapshots: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()


def expire(
    snapshots: Sequence[SnapshotTime],
    refs: Mapping[str, Ref],
    *,
    now_ms: int,
    older_than_ms: int,
    keep: int,
    protected: frozenset[int],
) -> Expiry:
    """Choose what to forget; `refs` holds main too."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
    past = tuple(sorted(name for name, ref in refs.items() if name != MAIN and _is_past(ref, by_id, now_ms)))
    kept: set[int] = set(protected)
    for name, ref in refs.items():
        if name in past:
            continue
        if ref.kind is RefKind.TAG:
            kept.add(ref.snapshot_id)
        elif name.startswith(BRANCH_PREFIX):
            kept.update(_own_branch(ref, by_id))
        else:
            least = max(keep, ref.min_snapshots_to_keep or 1)
            age = max(older_than_ms, ref.max_snapshot_age_ms or 0)
            kept.update(_young(ref.snapshot_id, by_id, now_ms - age, least))
    gone = [s.snapshot_id for s in snapshots if s.snapshot_id not in kept and s.time_ms < now_ms - older_than_ms]
    return Expiry(snapshots=tuple(sorted(gone)), refs=past)


def _is_past(ref: Ref, by_id: Mapping[int, SnapshotTime], now_ms: int) -> bool:
    """Say whether a ref outlived its age, which Iceberg counts from its snapshot."""
    snapshot = by_id.get(ref.snapshot_id)
    return ref.max_ref_age_ms is not None and snapshot is not None and now_ms - snapshot.time_ms > ref.max_ref_age_ms


def _own_branch(ref: Ref, by_id: Mapping[int, SnapshotTime]) -> Iterator[int]:
    """Yield the snapshots of unfinished work, and the one that it started from."""
    for snapshot in _ancestors(ref.snapshot_id, by_id):
        yield snapshot.snapshot_id
        if snapshot.operation is None or branch_of(snapshot.operation) != ref.name:
            return


def _young(head: int, by_id: Mapping[int, SnapshotTime], since_ms: int, least: int) -> Iterator[int]:
    for number, snapshot in enumerate(_ancestors(head, by_id)):
        if number < least or snapshot.time_ms >= since_ms:
            yield snapshot.snapshot_id


def _ancestors(head: int | None, by_id: Mapping[int, SnapshotTime]) -> Iterator[SnapshotTime]:
    while head is not None and (snapshot := by_id.get(head)) is not None:
        yield snapshot
        head = snapshot.parent_id
