"""What a job may do to a table as a whole: restores that were released, and maintenance that the manifest declares.

A plan document brings neither in by itself: a restore must be the one that the table remembers as approved, and a
step of maintenance takes its settings from the manifest.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from reconciler.errors import ApprovalRequired, CommitConflict, LakeError, PlanStale
from reconciler.model.bookkeeping import approved
from reconciler.model.table import Observed, TableIdent
from reconciler.pipeline.proposals import Request
from reconciler.plan.maintenance import declared_operation
from reconciler.plan.operations import Operation
from reconciler.plan.restore import restore_id
from reconciler.plan.table_work import Maintain, MaintenanceStep, Restore
from reconciler.plan.view_memory import remembered_view


def table_operation(request: Request, current: Observed, wanted: Operation) -> Operation | None:
    """Return what a job carries out for a restore or a step of maintenance; None for any other work."""
    match wanted.work:
        case Restore() as work:
            return _restore(current, wanted, work)
        case Maintain() as work:
            return _maintain(request, current, wanted, work)
        case _:
            return None


def _restore(current: Observed, wanted: Operation, work: Restore) -> Operation:
    before = approved(current.bookkeeping)
    is_released = before is not None and wanted.id in before.operations
    if wanted.id != restore_id(current.version.uuid, work) or not is_released:
        raise ApprovalRequired(
            "Nobody released this restore.",
            where=str(current.spec.ident),
            hint="Run 'laketable restore', which asks for its approval.",
        )
    return wanted


def _maintain(request: Request, current: Observed, wanted: Operation, work: Maintain) -> Operation:
    declared = declared_operation(request.desired, current, work.step, work.tick_ms)
    if declared is None or declared.id != wanted.id or not isinstance(declared.work, Maintain):
        raise PlanStale(f"The manifest no longer asks to {wanted.summary}.", hint="Plan again.")
    seen = _neighbours(request, current) if work.step in _LOOKS_AROUND else {}
    needed = sorted(snapshot for other in seen.values() for snapshot in _watermarks(other, current.version.uuid))
    before = approved(current.bookkeeping)
    needed += before.needs if before else ()
    places = sorted({place for other in seen.values() for place in _places(other)})
    uuids = sorted(other.version.uuid for other in seen.values())
    prepared = msgspec.structs.replace(
        declared.work, protected=tuple(needed), neighbours=tuple(places), neighbour_uuids=tuple(uuids)
    )
    cost = wanted.cost if work.step is MaintenanceStep.COMPACT else declared.cost
    return msgspec.structs.replace(declared, work=prepared, cost=cost, summary=wanted.summary)


_LOOKS_AROUND = (MaintenanceStep.EXPIRE_SNAPSHOTS, MaintenanceStep.REMOVE_ORPHAN_FILES)


def _neighbours(request: Request, current: Observed) -> dict[TableIdent, Observed]:
    """Observe every other table of the catalog; one that cannot be read might need what would be deleted."""
    others = [ident for ident in request.catalog.list_tables() if ident != current.spec.ident]
    seen: dict[TableIdent, Observed] = {}
    for ident, found in request.catalog.get_table_specs(others):
        if isinstance(found, LakeError):
            raise CommitConflict(
                f"Table {ident} cannot be read, and it might be a view that needs snapshots of this one.",
                where=str(current.spec.ident),
                hint=f"Mend or drop {ident}, then run this again. Nothing was deleted.",
            )
        seen[ident] = found
    return seen


def _places(table: Observed) -> Iterable[str]:
    """List the folders that a table writes to: its location, and where `write.data.path` and its like lead instead."""
    led = [value for key, value in table.spec.properties.items() if key.startswith("write.") and key.endswith(".path")]
    return filter(None, (table.spec.location, *led))


def _watermarks(view: Observed, uuid: str) -> list[int]:
    """List the snapshots of a source that a view's rows come from."""
    memory = remembered_view(view.bookkeeping)
    sources = memory.sources if memory else ()
    return [source.snapshot_id for source in sources if source.uuid == uuid and source.snapshot_id is not None]
