"""Have rows scanned before a commit that rests on them, and plan again with what the scan has found."""

from __future__ import annotations

from collections.abc import Generator

import msgspec

from reconciler.errors import CommitConflict, PlanStale
from reconciler.model.table import Observed
from reconciler.pipeline.proposals import Request, make_plan
from reconciler.plan.events import Event, Failed, Refused, Validated
from reconciler.plan.operations import Operation, Plan
from reconciler.plan.row_work import Validate
from reconciler.plan.validation import NOTHING_SCANNED, Proven, scans
from reconciler.ports import DataRuntime

SCAN_ROUNDS = 3


class Rested(msgspec.Struct, frozen=True):
    """A plan whose commit rests on nothing unproven any more, the table it was made for, and what a scan proved."""

    current: Observed | None
    plan: Plan
    proven: Proven = NOTHING_SCANNED


def prove(
    request: Request, current: Observed | None, made: Plan, runtime: DataRuntime, *, now_ms: int
) -> Generator[Event, None, Rested | None]:
    """Run a plan's scans, a bounded number of times while files keep coming; None: the last event says why not."""
    rested, since = Rested(current, made), None
    for _ in range(SCAN_ROUNDS):
        asked = tuple(_since(operation, since) for operation in scans(rested.plan.operations))
        if not asked:
            return rested
        found: Event | None = None
        for found in runtime.run(msgspec.structs.replace(rested.plan, operations=asked, upkeep=())):
            yield found
        if isinstance(found, Failed | Refused):
            return None
        if not isinstance(found, Validated):
            raise CommitConflict("The scan ended without a finding.", hint="Apply again.")
        seen = request.catalog.get_table_spec(made.table)
        work = asked[0].work
        proven = rested.proven
        if isinstance(work, Validate):
            proven = proven.and_(_proven(request, seen, found, work))
        since = found.snapshot_id
        again = make_plan(request, seen, now_ms=now_ms, proven=proven)
        if again.is_blocked or again.hash != made.hash:
            raise PlanStale("The table changed while its rows were scanned.", where=str(made.table), hint="Plan again.")
        rested = Rested(seen, again, proven)
    raise CommitConflict("Files that no null count clears keep coming.", where=str(made.table), hint="Apply again.")


def _since(operation: Operation, snapshot_id: int | None) -> Operation:
    """Read nothing twice: the files of the snapshot that was scanned are proven."""
    work = operation.work
    if snapshot_id is None or not isinstance(work, Validate):
        return operation
    return msgspec.structs.replace(operation, work=msgspec.structs.replace(work, since=snapshot_id))


def _proven(request: Request, seen: Observed, found: Validated, work: Validate) -> Proven:
    """Hold a scan's finding for the files it read; one with deletes only while nobody has committed since."""
    files = () if found.snapshot_id is None else request.catalog.get_data_files(seen.spec.ident, found.snapshot_id)
    is_head = found.snapshot_id == seen.version.snapshot_id
    return Proven(
        columns=frozenset(column.field_id for column in work.required),
        files=frozenset(file.path for file in files if is_head or not file.has_deletes),
        checks=frozenset(check.sql for check in work.checks),
    )
