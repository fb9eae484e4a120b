"""What a table remembers of the commit that is being made: the `laketable.*` properties that ride in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from reconciler.diff.apply import apply
from reconciler.diff.changes import (
    Change,
    SetProperty,
    UnsetProperty,
)
from reconciler.model import bookkeeping
from reconciler.model.table import BOOKKEEPING_PREFIX, Desired, Observed, TableSpec
from reconciler.pipeline.proposals import Request
from reconciler.plan.approvals import approval_of, undo_tag_change
from reconciler.plan.computed import memory_after
from reconciler.plan.constraints import PREFIX as CONSTRAINT_PREFIX
from reconciler.plan.operations import Plan
from reconciler.plan.rewrites import rewrite_memory_after
from reconciler.plan.tracking import tracked_after
from reconciler.plan.type_changes import expand, type_memory_after


def memory_changes(
    request: Request,
    current: Observed | None,
    changes: Sequence[Change],
    made: Plan,
    *,
    actor: str,
    now_ms: int,
) -> Iterator[Change]:
    """Yield what rides in the same commit: owner, managed parts, history, what is released, the undo tag."""
    desired = request.desired if request.is_undo else expand(request.desired, current, now_ms=now_ms).desired
    before = dict(current.bookkeeping) if current else {}
    known = bookkeeping.read(before)
    target = apply(
        current.spec if current else None, changes, last_field_id=current.version.last_field_id if current else None
    )
    if request.is_undo and current:
        managed = bookkeeping.restored(known, target, current.spec, request.undone)
    else:
        managed = bookkeeping.managed_after(desired, target, known, now_ms=now_ms)
    managed = msgspec.structs.replace(managed, tracked=tracked_after(managed.tracked, changes, now_ms=now_ms))
    record = _record(current, changes, made, actor=actor, now_ms=now_ms)
    if current is not None:
        record = msgspec.structs.replace(record, ownership=bookkeeping.ownership_change(known, managed))
    managed = msgspec.structs.replace(
        bookkeeping.append_history(managed, record), approved=approval_of(made, current, actor=actor)
    )
    undo_tag = undo_tag_change(made, request.desired, current, now_ms=now_ms)
    if undo_tag is not None:
        yield undo_tag
    after = bookkeeping.write(managed)
    yield from _data_memory(request, desired, current, target, changes, now_ms=now_ms)
    for key, value in after.items():
        # The owner rides along unchanged, too: a table that somebody claimed since must refuse the commit.
        if before.get(key) != value or key == bookkeeping.OWNER:
            yield SetProperty(key=key, before=before.get(key), after=value)
    for key in bookkeeping.KEYS:
        if key in before and key not in after:
            yield UnsetProperty(key=key, before=before[key])


def _data_memory(
    request: Request,
    desired: Desired,
    current: Observed | None,
    target: TableSpec,
    changes: Sequence[Change],
    *,
    now_ms: int,
) -> Iterator[Change]:
    live = current.bookkeeping if current else {}
    remembered: dict[str, str | None] = {}
    if not request.is_undo:
        remembered |= memory_after(desired, current, target)
        remembered |= rewrite_memory_after(desired, current, target, changes)
    remembered |= type_memory_after(request.desired, current, target, is_undo=request.is_undo, now_ms=now_ms)
    for key, value in remembered.items():
        if value is None:
            yield UnsetProperty(key=key, before=live[key])
        else:
            yield SetProperty(key=key, before=live.get(key), after=value)


def _record(
    current: Observed | None, changes: Sequence[Change], made: Plan, *, actor: str, now_ms: int
) -> bookkeeping.HistoryRecord:
    version = current.version if current else None
    replaced = {
        change.key: change.before
        for change in changes
        if isinstance(change, SetProperty | UnsetProperty) and _is_undone(change.key)
    }
    return bookkeeping.HistoryRecord(
        plan=made.hash,
        time_ms=now_ms,
        actor=actor,
        schema_id=version.schema_id if version else None,
        spec_id=version.spec_id if version else None,
        sort_order_id=version.sort_order_id if version else None,
        snapshot_id=version.snapshot_id if version else None,
        properties=replaced,
    )


def _is_undone(key: str) -> bool:
    """Say whether an undo puts a property back: constraints are the part of our own memory that a manifest states."""
    return not key.startswith(BOOKKEEPING_PREFIX) or key.startswith(CONSTRAINT_PREFIX)
