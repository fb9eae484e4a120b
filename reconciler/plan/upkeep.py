"""What a table in sync still wants: to be claimed or remembered. Never drift; tags that follow main: `tracking`."""

from __future__ import annotations

from reconciler.model import bookkeeping
from reconciler.model.table import Desired, Observed
from reconciler.plan.data import upkeep_commit
from reconciler.plan.operations import Operation


def upkeep_operations(desired: Desired, current: Observed) -> tuple[Operation, ...]:
    """Write owner and managed memory when the table does not hold them as they are."""
    live = current.bookkeeping
    before = bookkeeping.Bookkeeping(
        owner=live.get(bookkeeping.OWNER) or None,
        columns=bookkeeping.managed_columns(live),
        properties=bookkeeping.managed_properties(live),
        refs=bookkeeping.managed_refs(live),
        tracked=bookkeeping.tracked(live),
    )
    # Pins only matter to refs, whose changes write them; without a clock they stay out of the comparison.
    after = bookkeeping.managed_after(desired, current.spec, before, now_ms=0)
    if after == before:
        return ()
    summary = "remember what this manifest manages" if before.owner else f"claim the table for {desired.owner}"
    return (upkeep_commit(summary, current),)
