"""Add to a plan what the clock asks for: tags that follow main, due maintenance, branches that went stale."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from reconciler.diff.changes import DropRef
from reconciler.model.bookkeeping import approved
from reconciler.model.maintenance import STALE_BRANCH_MS
from reconciler.model.table import Desired, Observed
from reconciler.plan.data import branch_of, is_our_branch, upkeep_commit
from reconciler.plan.maintenance import maintenance_operations
from reconciler.plan.operations import Operation, Plan
from reconciler.plan.tracking import tracked_moves


def with_table_upkeep(made: Plan, desired: Desired, current: Observed, *, now_ms: int) -> Plan:
    """Return the plan of a table that is in sync with what is due."""
    if made.operations:
        return made
    maintenance = maintenance_operations(desired, current, now_ms=now_ms)
    kept = (*made.upkeep, *maintenance)
    due = (
        *tracked_moves(desired, current, now_ms=now_ms),
        *_stale_branches(desired, current, kept, now_ms=now_ms),
        *maintenance,
    )
    return msgspec.structs.replace(made, upkeep=(*made.upkeep, *due)) if due else made


def _stale_branches(
    desired: Desired, current: Observed, wanted: tuple[Operation, ...], *, now_ms: int
) -> Iterator[Operation]:
    """Drop the branches of given-up work on which nothing was written for long; main never had anything of them."""
    before = approved(current.bookkeeping)
    released = before.operations if before else ()
    kept = {branch_of(id_) for id_ in (*(o.id for o in wanted), *released)}
    oldest = now_ms - (desired.maintenance.stale_branch_ms if desired.maintenance else STALE_BRANCH_MS)
    changes = tuple(
        DropRef(ref=ref)
        for name, ref in sorted(current.spec.refs.items())
        if is_our_branch(name) and name not in kept and current.snapshot_times.get(ref.snapshot_id, 0) < oldest
    )
    if changes:
        branches = "1 branch" if len(changes) == 1 else f"{len(changes)} branches"
        yield upkeep_commit(f"drop {branches} of given-up work", current, changes)
