"""A table's live data files as Iceberg plans them, and how they are grouped into chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

CHUNK_BYTES = 1 << 30


def everything(file: Any) -> bool:
    """Pick every file."""
    return True


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One live data file; `java` is Iceberg's FileScanTask, or what answers like one."""

    path: str
    size: int
    rows: int
    spec_id: int
    sort_order_id: int
    has_deletes: bool
    is_parquet: bool
    java: Any


def live_tasks(table: Any, snapshot_id: int, wants: Callable[[Any], bool]) -> list[Task]:
    """List a snapshot's files that hold rows and that `wants` (given Iceberg's DataFile) picks: by spec, then path."""
    scan = table.newScan().useSnapshot(snapshot_id).includeColumnStats()
    tasks = []
    planned = scan.planFiles()
    try:
        for task in iterate(planned):
            file = task.file()
            if file.recordCount() and wants(file):
                tasks.append(task_of(task))
    finally:
        planned.close()
    return sorted(tasks, key=lambda t: (t.spec_id, t.sort_order_id, t.path))


def task_of(task: Any) -> Task:
    """Describe one of Iceberg's FileScanTasks."""
    file = task.file()
    return Task(
        path=str(file.location()),
        size=file.fileSizeInBytes(),
        rows=file.recordCount(),
        spec_id=file.specId(),
        sort_order_id=file.sortOrderId() or 0,
        has_deletes=not task.deletes().isEmpty(),
        is_parquet=str(file.format()) == "PARQUET",
        java=task,
    )


def iterate(iterable: Any) -> Iterator[Any]:
    """Walk a Java Iterable, or one of ours."""
    if isinstance(iterable, tuple):
        yield from iterable
        return
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def chunked(tasks: Sequence[Task], chunk_bytes: int) -> list[list[Task]]:
    """Group files bounded in bytes; a chunk's files share their partition spec and sort order."""
    chunks: list[list[Task]] = []
    for task in tasks:
        last = chunks[-1] if chunks else []
        fits = last and sum(t.size for t in last) + task.size <= chunk_bytes
        if fits and (last[0].spec_id, last[0].sort_order_id) == (task.spec_id, task.sort_order_id):
            last.append(task)
        else:
            chunks.append([task])
    return chunks


def rows_of(files: Iterable[Any]) -> int:
    """Add up the rows of Iceberg's DataFiles."""
    return sum(file.recordCount() for file in files)


def listed_rows(table: Any, snapshot_id: int) -> int | None:
    """Add up the live rows that a snapshot's list of manifests states; None: rows are deleted in part, or it says less.

    Whoever wrote a manifest may have stated it wrongly: equal sums prove something, others call for counting.
    """
    snapshot, io, total = table.snapshot(snapshot_id), table.io(), 0
    if snapshot is None or not snapshot.deleteManifests(io).isEmpty():
        return None
    for manifest in iterate(snapshot.dataManifests(io)):
        added, existing = manifest.addedRowsCount(), manifest.existingRowsCount()
        if added is None or existing is None:
            return None
        total += added + existing
    return total
