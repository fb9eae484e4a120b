"""What happened to a source between two of its snapshots, told by its files, never by reading it whole.

While others only appended (and compacted), the appended files are the change. Else it is the files that one snapshot
has and the other has not; a file with other row deletes counts on both sides. That way deletes of every kind are seen,
merge-on-read too, which changelog scans cannot read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reconciler.engines.data_files import Task, iterate, live_tasks, task_of
from reconciler.errors import CommitConflict
from reconciler.plan.operations import SourceRead

_ADDING, _MOVING = "append", "replace"


class Unreadable(Exception):
    """The changes cannot be had; `reason` completes "Full, because …"."""

    def __init__(self, reason: str) -> None:
        """Keep the reason."""
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SourceChange:
    """What came and what went, as `Sources` reads it: files, mostly; rows that are in both did not change."""

    added: tuple[Any, ...]
    removed: tuple[Any, ...] = ()


def source_change(table: Any, since: int, until: int, name: str) -> SourceChange:
    """Return what changed after one snapshot up to another; raises Unreadable when the first is gone."""
    if table.snapshot(since) is None:
        raise Unreadable(f"snapshot {since} of {name} has expired")
    operations = _operations(table, since, until)
    if operations is not None and operations <= {_ADDING, _MOVING}:
        return SourceChange(tuple(_appended(table, since, until)) if _ADDING in operations else ())
    before, after = _by_content(table, since), _by_content(table, until)
    return SourceChange(
        added=tuple(task for key, task in after.items() if key not in before),
        removed=tuple(task for key, task in before.items() if key not in after),
    )


def _operations(table: Any, since: int, until: int) -> set[str] | None:
    """Collect what the snapshots after `since` did; None when `since` is no ancestor of `until`."""
    found: set[str] = set()
    at: int | None = until
    while at is not None and at != since:
        snapshot = table.snapshot(at)
        if snapshot is None:
            return None
        found.add(str(snapshot.operation()))
        at = snapshot.parentId()
    return found if at == since else None


def _appended(table: Any, since: int, until: int) -> Iterator[Task]:
    planned = table.newIncrementalAppendScan().fromSnapshotExclusive(since).toSnapshot(until).planFiles()
    try:
        yield from [task_of(task) for task in iterate(planned) if task.file().recordCount()]
    finally:
        planned.close()


def _by_content(table: Any, snapshot_id: int) -> dict[tuple[str, ...], Task]:
    """Key each file by its path and the deletes that apply to it."""
    return {(task.path, *_deletes(task)): task for task in live_tasks(table, snapshot_id, lambda file: True)}


def _deletes(task: Task) -> list[str]:
    if not task.has_deletes:
        return []
    return sorted(f"{file.location()}@{file.contentOffset()}" for file in iterate(task.java.deletes()))


def made_anew(source: SourceRead) -> CommitConflict:
    """Say that a source is another table by now."""
    return CommitConflict("It was dropped and made anew.", where=str(source.table), hint="Plan again.")


def expired(source: SourceRead) -> CommitConflict:
    """Say that a source cannot be read at its watermark."""
    return CommitConflict(
        f"Its snapshot {source.snapshot_id} expired before it was read.", where=str(source.table), hint="Apply again."
    )
