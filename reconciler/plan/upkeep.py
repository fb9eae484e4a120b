"""What a table in sync still wants: to be claimed or remembered, and tags that follow a branch. Never drift."""

from __future__ import annotations

from reconciler.model import bookkeeping
from reconciler.model.table import Desired, Observed
from reconciler.plan.hashing import operation_id
from reconciler.plan.operations import Operation, OperationClass, OperationKind


def upkeep_operations(desired: Desired, current: Observed) -> tuple[Operation, ...]:
    """List the upkeep of a table that is what its manifest says."""
    claim = _claim(desired, current)
    return (*claim, *_tracked_tags(desired, current)) if desired.refs else claim


def _claim(desired: Desired, current: Observed) -> tuple[Operation, ...]:
    """Write owner and managed memory when the table does not hold them as they are."""
    live = current.bookkeeping
    before = bookkeeping.Bookkeeping(
        owner=live.get(bookkeeping.OWNER) or None,
        columns=bookkeeping.managed_columns(live),
        properties=bookkeeping.managed_properties(live),
        refs=bookkeeping.managed_refs(live),
    )
    # Pins only matter to refs, whose changes write them; without a clock they stay out of the comparison.
    after = bookkeeping.managed_after(desired, current.spec, before, now_ms=0)
    if after == before:
        return ()
    summary = "remember what this manifest manages" if before.owner else f"claim the table for {desired.owner}"
    return (_upkeep(OperationKind.COMMIT, summary, current),)


def _tracked_tags(desired: Desired, current: Observed) -> tuple[Operation, ...]:
    """Say which tags lag behind the branch they follow; moving them needs the schedule, not an apply."""
    return tuple(
        _upkeep(
            OperationKind.MAINTAIN,
            f"tag {ref.name} lags behind {ref.track}; its schedule '{ref.schedule or 'none'}' moves it",
            current,
        )
        for ref in desired.refs or ()
        if ref.track and ref.name in current.spec.refs and _lags(ref.name, ref.track, current)
    )


def _lags(name: str, track: str, current: Observed) -> bool:
    head = current.spec.refs.get(track)
    snapshot_id = head.snapshot_id if head else current.version.snapshot_id
    return current.spec.refs[name].snapshot_id != snapshot_id


def _upkeep(kind: OperationKind, summary: str, current: Observed) -> Operation:
    return Operation(
        id=operation_id(current.version, kind, ()),
        kind=kind,
        summary=summary,
        operation_class=OperationClass.METADATA_ONLY,
    )
