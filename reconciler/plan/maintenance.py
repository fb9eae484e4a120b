"""Plan what a manifest's maintenance asks for: the steps whose schedule has ticked since they were last done.

A step's id names its tick, and the table remembers per step the id that was done: so each tick is done once, however
often it is planned, and a step that was never done is due.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from reconciler.model.bookkeeping import read
from reconciler.model.maintenance import ORPHAN_AGE_MS, Maintenance
from reconciler.model.quantities import print_duration
from reconciler.model.schedules import last_tick
from reconciler.model.table import DataFile, Desired, Observed
from reconciler.plan.amounts import plural, size
from reconciler.plan.data import branch_of, done_key
from reconciler.plan.hashing import data_operation_id
from reconciler.plan.operations import Cost, Operation, OperationClass, OperationKind
from reconciler.plan.table_work import Maintain, MaintenanceStep

CLASSES = {
    MaintenanceStep.COMPACT: OperationClass.REWRITE,
    MaintenanceStep.EXPIRE_SNAPSHOTS: OperationClass.DESTRUCTIVE,
    MaintenanceStep.REWRITE_MANIFESTS: OperationClass.METADATA_ONLY,
    MaintenanceStep.REMOVE_ORPHAN_FILES: OperationClass.DESTRUCTIVE,
}


def maintenance_operations(
    desired: Desired, current: Observed, *, now_ms: int, files: Sequence[DataFile] | None = None
) -> tuple[Operation, ...]:
    """List the steps that are due, in their order; `files` give compaction its cost, else its bound is told."""
    if desired.maintenance is None or current.version.snapshot_id is None:
        return ()
    operations = (_operation(current, work, files) for work in _steps(desired.maintenance, current, now_ms))
    return tuple(o for o in operations if current.bookkeeping.get(done_key(o)) != o.id)


def orphan_age_ms(declared_ms: int, current: Observed) -> int:
    """Return how old a file must be to count as forgotten: three days at least, and twice the longest job."""
    longest = max((record.duration_ms for record in read(current.bookkeeping).history), default=0)
    return max(declared_ms, ORPHAN_AGE_MS, 2 * longest)


def compactable(files: Sequence[DataFile], work: Maintain) -> tuple[DataFile, ...]:
    """List the files to write together: those below three quarters of the target, where enough wait in one partition.

    A file near the target gains nothing; files of different partition specs or values cannot share a file.
    """
    small = [file for file in files if file.size_bytes < work.target_bytes * 3 // 4]
    waiting = Counter((file.spec_id, file.partition) for file in small)
    return tuple(file for file in small if waiting[file.spec_id, file.partition] >= work.min_files)


def _steps(wanted: Maintenance, current: Observed, now_ms: int) -> Iterator[Maintain]:
    if wanted.compact and (tick := last_tick(wanted.compact.schedule, now_ms)) is not None:
        yield Maintain(
            step=MaintenanceStep.COMPACT,
            tick_ms=tick,
            target_bytes=wanted.compact.target_bytes,
            min_files=wanted.compact.min_files,
        )
    if wanted.expire and (tick := last_tick(wanted.expire.schedule, now_ms)) is not None:
        yield Maintain(
            step=MaintenanceStep.EXPIRE_SNAPSHOTS,
            tick_ms=tick,
            older_than_ms=wanted.expire.older_than_ms,
            keep=wanted.expire.keep,
        )
    if wanted.manifests and (tick := last_tick(wanted.manifests.schedule, now_ms)) is not None:
        yield Maintain(step=MaintenanceStep.REWRITE_MANIFESTS, tick_ms=tick)
    if wanted.orphans and (tick := last_tick(wanted.orphans.schedule, now_ms)) is not None:
        age = orphan_age_ms(wanted.orphans.older_than_ms, current)
        yield Maintain(step=MaintenanceStep.REMOVE_ORPHAN_FILES, tick_ms=tick, older_than_ms=age)


def _operation(current: Observed, work: Maintain, files: Sequence[DataFile] | None) -> Operation:
    id_ = data_operation_id(current.version.uuid, OperationKind.MAINTAIN, [work.step], str(work.tick_ms))
    cost = _cost(current, work, files)
    return Operation(
        id=id_,
        kind=OperationKind.MAINTAIN,
        summary=_summary(work, cost, is_bound=files is None),
        operation_class=CLASSES[work.step],
        cost=cost,
        work=work,
        resumes=branch_of(id_) in current.spec.refs,
    )


def _cost(current: Observed, work: Maintain, files: Sequence[DataFile] | None) -> Cost:
    if work.step is not MaintenanceStep.COMPACT:
        return Cost()
    if files is None:
        count, total = current.statistics.files or 0, current.statistics.bytes or 0
    else:
        found = compactable(files, work)
        count, total = len(found), sum(file.size_bytes for file in found)
    return Cost(files_read=count, bytes_read=total, files_rewritten=count, bytes_rewritten=total)


def _summary(work: Maintain, cost: Cost, *, is_bound: bool) -> str:
    match work.step:
        case MaintenanceStep.COMPACT:
            most = "at most " if is_bound else ""
            files = plural(cost.files_rewritten, "file")
            return f"compact {most}{files} into files of {size(work.target_bytes)}"
        case MaintenanceStep.EXPIRE_SNAPSHOTS:
            return f"expire snapshots older than {print_duration(work.older_than_ms)}, keep {work.keep} at least"
        case MaintenanceStep.REWRITE_MANIFESTS:
            return "rewrite small manifests"
        case MaintenanceStep.REMOVE_ORPHAN_FILES:
            return f"delete files older than {print_duration(work.older_than_ms)} that no metadata names"
