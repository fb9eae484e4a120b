"""The kind of work that brings back the rows of an earlier snapshot, in new files after main's head.

Files of the target are never added again by name: whoever expires snapshots by their deletions would delete them. What
is the same on both sides stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.engines.backfill_files import rewrite
from reconciler.engines.data_files import Task, chunked, iterate
from reconciler.engines.data_state import TableFacts
from reconciler.engines.site import Site, SnapshotKind
from reconciler.errors import CommitConflict, InvalidTable
from reconciler.plan.operations import Backfill
from reconciler.plan.table_work import Restore

_AS_IT_IS = Backfill(columns=())
FileKey = tuple[str, frozenset[tuple[str, int]]]


class RestoreKind:
    """`Kind` for a restore: one commit on the branch takes files out and puts the others in."""

    step = "restoring"
    snapshots = SnapshotKind.OVERWRITE

    def __init__(self, restore: Restore, chunk_bytes: int) -> None:
        self._restore, self._chunk_bytes = restore, chunk_bytes
        self._back: list[Task] = []
        self._all = 0

    def is_superseded(self, facts: TableFacts) -> bool:
        """Its id names the head that it starts from, so no other restore can be newer."""
        return False

    def tasks(self, site: Site, base: int) -> list[Task]:
        """List the files of the approved head that the target lacks, and note those that come back.

        What others appended between the approval and the start is not in either, and stays.
        """
        there = {snapshot.snapshot_id for snapshot in site.table.facts().snapshots}
        for snapshot_id in (self._restore.head, self._restore.target):
            if snapshot_id not in there:
                raise CommitConflict(
                    f"Snapshot {snapshot_id} has expired meanwhile.", where=str(site.ref.table), hint="Plan again."
                )
        before = site.live(self._restore.head)
        after = site.live(self._restore.target)
        same = {_key(task) for task in before} & {_key(task) for task in after}
        self._back = [task for task in after if _key(task) not in same]
        gone = [task for task in before if _key(task) not in same]
        self._all = len(gone)
        return gone

    def chunks(self, tasks: Sequence[Task]) -> list[Sequence[Task]]:
        """Do all in one commit, which either is on the branch or not; it may only add files."""
        is_done = len(tasks) < self._all
        return [] if is_done or not (tasks or self._back) else [tasks]

    def make(self, site: Site, chunk: Sequence[Task], base: int) -> list[Any]:
        """Write the files that come back, under the table's schema."""
        made: list[Any] = []
        for group in chunked(self._back, self._chunk_bytes):
            made += rewrite(site, group, _AS_IT_IS)
        return made

    def keeps_rows(self) -> bool:
        """As many rows come out as the target has, which the audit counts."""
        return False

    def audit(self, site: Site, base: int, head: int, added: Sequence[Any]) -> None:
        """Require the target's rows, and those that came after the approval."""
        later = site.at(base).count() - site.at(self._restore.head).count() if base != self._restore.head else 0
        before, after = site.at(self._restore.target).count() + later, site.at(head).count()
        if before != after:
            raise InvalidTable(
                f"The audit found {after} rows on the branch where {before} shall come back; nothing is published.",
                where=site.branch_place,
                hint="Report this; dropping the branch gives the work up.",
            )

    def properties(self, facts: TableFacts) -> Mapping[str, str]:
        """Remember what computed columns hold now."""
        return self._restore.memory


def _key(task: Task) -> FileKey:
    """Tell a file with its row deletes; several deletion vectors share one file."""
    deletes = ((str(delete.location()), delete.contentOffset() or 0) for delete in iterate(task.java.deletes()))
    return task.path, frozenset(deletes)
