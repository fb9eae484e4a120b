"""Which files a chunk stands for, and which chunks on a branch count; pure.

A server may go on after its client is gone, so a chunk may be there twice, or made from what is no longer the base.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from reconciler.engines.data_files import Task, chunked
from reconciler.engines.data_state import CHUNK_STAMP, FILES_STAMP, OPERATION_STAMP, Position, SnapshotFacts, TableFacts
from reconciler.engines.staged import chunk_id_of
from reconciler.model.table import DataFile

_CHUNK_FILES = 2_000


def stamps_of(operation: str, base: int, tasks: Sequence[Task], start: int, end: int) -> dict[str, str]:
    """Say on a snapshot what it stands for."""
    chunk_id = chunk_id_of(task.path for task in tasks[start:end])
    return {OPERATION_STAMP: operation, CHUNK_STAMP: chunk_id, FILES_STAMP: f"{base}:{start}-{end}"}


def accepted(facts: TableFacts, found: Position, tasks: Sequence[Task]) -> dict[int, tuple[int, int]]:
    """Choose the snapshots of the branch that count, with the range of tasks each stands for; no task counts twice."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in facts.snapshots}
    taken: dict[int, tuple[int, int]] = {}
    for snapshot_id in found.chunks:
        span = _span(by_id[snapshot_id], found.base, tasks)
        if span is not None and all(span[1] <= start or end <= span[0] for start, end in taken.values()):
            taken[snapshot_id] = span
    return taken


def _span(snapshot: SnapshotFacts, base: int, tasks: Sequence[Task]) -> tuple[int, int] | None:
    """Read what a chunk stands for; None when it was made from another base or for other files."""
    started_from, _, span = snapshot.summary.get(FILES_STAMP, "").partition(":")
    start, _, end = span.partition("-")
    if started_from != str(base) or not (start.isdigit() and end.isdigit()):
        return None
    paths = [task.path for task in tasks[int(start) : int(end)]]
    is_same = bool(paths) and chunk_id_of(paths) == snapshot.summary.get(CHUNK_STAMP)
    return (int(start), int(end)) if is_same else None


def is_whole(spans: Iterable[tuple[int, int]], count: int) -> bool:
    """Say whether the ranges leave nothing out."""
    return sum(end - start for start, end in spans) == count


def chunks(tasks: Sequence[Task], covered: set[str], chunk_bytes: int) -> Iterable[tuple[int, int]]:
    """Group what is left into ranges, bounded in bytes and in files."""
    place = {task.path: index for index, task in enumerate(tasks)}
    run: list[Task] = []
    runs = [run]
    for task in tasks:
        if task.path in covered:
            run = []
            runs.append(run)
        else:
            run.append(task)
    for left in runs:
        for chunk in chunked(left, chunk_bytes):
            first = place[chunk[0].path]
            for start in range(first, first + len(chunk), _CHUNK_FILES):
                yield start, min(start + _CHUNK_FILES, first + len(chunk))


def own_snapshots(facts: TableFacts, operation: str, branch: str) -> list[int]:
    """List this operation's snapshots, to be forgotten: whoever expired them would take the files for abandoned."""
    named = {ref.snapshot_id for name, ref in facts.refs.items() if name != branch}
    ours = [s.snapshot_id for s in facts.snapshots if s.summary.get(OPERATION_STAMP) == operation]
    return [snapshot_id for snapshot_id in ours if snapshot_id not in named]


def total(summary: Mapping[str, str], key: str) -> int:
    """Read a number of a snapshot's summary."""
    return int(summary.get(key, "0"))


def task_of(file: DataFile) -> Task:
    """Describe a file as the catalog lists it."""
    return Task(
        path=file.path,
        size=file.size_bytes,
        rows=file.rows,
        spec_id=file.spec_id,
        sort_order_id=0,
        has_deletes=file.has_deletes,
        is_parquet=True,
        java=None,
    )
