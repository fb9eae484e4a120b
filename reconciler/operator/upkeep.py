"""Which upkeep the operator does by itself: what is due by the spec's own words; pure.

Rewrites of lagging files and counts stay on request (`laketable apply --include-upkeep`): they would follow every
ingest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.model.schedules import last_tick
from reconciler.model.table import Desired, Observed
from reconciler.plan.operations import Operation, OperationKind, Plan, Refresh
from reconciler.plan.policy import Policy
from reconciler.plan.table_work import Maintain
from reconciler.plan.windows import is_open, next_opening


def due(plan: Plan, desired: Desired, current: Observed | None, *, now_ms: int) -> tuple[Operation, ...]:
    """Return the upkeep to do now; nothing while the plan itself has work to do."""
    if plan.operations or plan.is_blocked:
        return ()
    return tuple(_due(plan, desired, current, now_ms=now_ms))


def within_windows(
    operations: Sequence[Operation], policies: Sequence[Policy], now_ms: int
) -> tuple[tuple[Operation, ...], str]:
    """Return the upkeep that may be done now, and why the rest waits: work on rows keeps to the policies' windows."""
    closed = next((policy for policy in policies if not is_open(policy.windows, now_ms)), None)
    if closed is None:
        return tuple(operations), ""
    allowed = tuple(operation for operation in operations if operation.work is None)
    opens = next_opening(closed.windows, now_ms)
    return allowed, f"Upkeep waits for a window of LakePolicy {closed.name}; the next one opens at {opens}."


def is_stale(plan: Plan) -> bool:
    """Say whether a view's sources moved since it was refreshed."""
    return any(isinstance(operation.work, Refresh) for operation in (*plan.operations, *plan.upkeep))


def _due(plan: Plan, desired: Desired, current: Observed | None, *, now_ms: int) -> Iterator[Operation]:
    for operation in plan.upkeep:
        work = operation.work
        is_commit = work is None and operation.kind is OperationKind.COMMIT and bool(operation.changes)
        is_refresh = isinstance(work, Refresh) and _wants_refresh(desired, current, now_ms)
        if is_commit or is_refresh or isinstance(work, Maintain):
            yield operation


def _wants_refresh(desired: Desired, current: Observed | None, now_ms: int) -> bool:
    view = desired.view
    if view is None or current is None:
        return False
    if view.on_source_change:
        return True
    head = current.version.snapshot_id
    refreshed = current.snapshot_times.get(head, 0) if head is not None else 0
    if view.max_staleness_ms is not None and now_ms - refreshed > view.max_staleness_ms:
        return True
    tick = last_tick(view.schedule, now_ms) if view.schedule else None
    return tick is not None and tick > refreshed
