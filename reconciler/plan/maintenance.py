"""Plan what a manifest's maintenance asks for: the steps whose schedule has ticked since they were last done.

A step's id names its tick, and the table remembers per step the id that was done: so each tick is done once, however
often it is planned, and a step that was never done is due.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

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
    ticks = ((step, last_tick(schedule, now_ms)) for step, schedule in _schedules(desired.maintenance))
    works = (_work(desired.maintenance, step, tick, current) for step, tick in ticks if tick is not None)
    operations = (_operation(current, work, files) for work in works)
    return tuple(o for o in operations if current.bookkeeping.get(done_key(o)) != o.id)


def declared_operation(
    desired: Desired,
    current: Observed,
    step: MaintenanceStep,
    tick_ms: int,
    files: Sequence[DataFile] | None = None,
) -> Operation | None:
    """Return one step as the manifest has it, for any time; None when it declares no such step."""
    wanted = desired.maintenance
    if wanted is None or current.version.snapshot_id is None or step not in dict(_schedules(wanted)):
        return None
    return _operation(current, _work(wanted, step, tick_ms, current), files)


def orphan_age_ms(declared_ms: int, current: Observed) -> int:
    """Return how old a file must be to count as forgotten: three days at least, and twice the longest job."""
    longest = max((record.duration_ms for record in read(current.bookkeeping).history), default=0)
    return max(declared_ms, ORPHAN_AGE_MS, 2 * longest)


def compactable(files: Sequence[DataFile], work: Maintain) -> tuple[DataFile, ...]:
    """List the files to write together: small ones, where enough wait in one partition.

    Files of different partition specs or values cannot share a file.
    """
    small = [file for file in files if is_small(file.size_bytes, work)]
    waiting = Counter((file.spec_id, file.partition) for file in small)
    return tuple(file for file in small if waiting[file.spec_id, file.partition] >= work.min_files)


def is_small(size_bytes: int, work: Maintain) -> bool:
    """Say whether a file is worth writing again: one near the target gains nothing."""
    return size_bytes < work.target_bytes * 3 // 4


def _schedules(wanted: Maintenance) -> Iterator[tuple[MaintenanceStep, str]]:
    """Pair the declared steps, in the order in which they are done, with their schedules."""
    if wanted.compact:
        yield MaintenanceStep.COMPACT, wanted.compact.schedule
    if wanted.expire:
        yield MaintenanceStep.EXPIRE_SNAPSHOTS, wanted.expire.schedule
    if wanted.manifests:
        yield MaintenanceStep.REWRITE_MANIFESTS, wanted.manifests.schedule
    if wanted.orphans:
        yield MaintenanceStep.REMOVE_ORPHAN_FILES, wanted.orphans.schedule


def _work(wanted: Maintenance, step: MaintenanceStep, tick_ms: int, current: Observed) -> Maintain:
    work = Maintain(step=step, tick_ms=tick_ms)
    if step is MaintenanceStep.COMPACT and wanted.compact:
        target, least = wanted.compact.target_bytes, wanted.compact.min_files
        return replace(work, target_bytes=target, min_files=least)
    if step is MaintenanceStep.EXPIRE_SNAPSHOTS and wanted.expire:
        return replace(work, older_than_ms=wanted.expire.older_than_ms, keep=wanted.expire.keep)
    if step is MaintenanceStep.REMOVE_ORPHAN_FILES and wanted.orphans:
        return replace(work, older_than_ms=orphan_age_ms(wanted.orphans.older_than_ms, current))
    return work


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
