"""What a table remembers of the commit that is being made: the `laketable.*` properties that ride in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.diff.apply import apply
from reconciler.diff.changes import (
    Change,
    SetProperty,
    UnsetProperty,
)
from reconciler.model import bookkeeping
from reconciler.model.table import Observed, TableSpec
from reconciler.pipeline.proposals import Request
from reconciler.plan.data import memory_after
from reconciler.plan.rewrites import rewrite_memory_after


def memory_changes(
    request: Request,
    current: Observed | None,
    changes: Sequence[Change],
    plan_hash: str,
    *,
    actor: str,
    now_ms: int,
) -> Iterator[Change]:
    """Yield the `laketable.*` properties that ride in the same commit: owner, managed parts, history."""
    before = dict(current.bookkeeping) if current else {}
    known = bookkeeping.read(before)
    target = apply(
        current.spec if current else None, changes, last_field_id=current.version.last_field_id if current else None
    )
    if request.is_undo and current:
        managed = bookkeeping.restored(known, target, current.spec)
    else:
        managed = bookkeeping.managed_after(request.desired, target, known, now_ms=now_ms)
    record = _record(current, changes, plan_hash, actor=actor, now_ms=now_ms)
    after = bookkeeping.write(bookkeeping.append_history(managed, record))
    yield from _data_memory(request, current, target, changes)
    for key, value in after.items():
        # The owner rides along unchanged, too: a table that somebody claimed since must refuse the commit.
        if before.get(key) != value or key == bookkeeping.OWNER:
            yield SetProperty(key=key, before=before.get(key), after=value)
    for key in bookkeeping.KEYS:
        if key in before and key not in after:
            yield UnsetProperty(key=key, before=before[key])


def _data_memory(
    request: Request, current: Observed | None, target: TableSpec, changes: Sequence[Change]
) -> Iterator[Change]:
    if request.is_undo:
        return
    live = current.bookkeeping if current else {}
    remembered = memory_after(request.desired, current, target)
    remembered |= rewrite_memory_after(request.desired, current, target, changes)
    for key, value in remembered.items():
        if value is None:
            yield UnsetProperty(key=key, before=live[key])
        else:
            yield SetProperty(key=key, before=live.get(key), after=value)


def _record(
    current: Observed | None, changes: Sequence[Change], plan_hash: str, *, actor: str, now_ms: int
) -> bookkeeping.HistoryRecord:
    version = current.version if current else None
    replaced = {c.key: c.before for c in changes if isinstance(c, SetProperty | UnsetProperty)}
    return bookkeeping.HistoryRecord(
        plan=plan_hash,
        time_ms=now_ms,
        actor=actor,
        schema_id=version.schema_id if version else None,
        spec_id=version.spec_id if version else None,
        sort_order_id=version.sort_order_id if version else None,
        snapshot_id=version.snapshot_id if version else None,
        properties=replaced,
    )
