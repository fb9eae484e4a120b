"""The kind of work that writes small files of one partition together; no value changes, so it commits as `replace`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from reconciler.engines.backfill_files import filled, staged_frame
from reconciler.engines.data_files import Task, chunked, iterate, live_tasks
from reconciler.engines.data_state import TableFacts
from reconciler.engines.layout_files import lay_out
from reconciler.engines.staged import Site, SnapshotKind
from reconciler.plan.maintenance import is_small
from reconciler.plan.operations import Backfill
from reconciler.plan.table_work import Maintain

_AS_IT_IS = Backfill(columns=())
Place = tuple[int, str]


class CompactionKind:
    """`Kind` for a compaction; a chunk is some files of one partition."""

    step = "compacting"
    snapshots = SnapshotKind.REPLACE

    def __init__(self, work: Maintain, chunk_bytes: int) -> None:
        self._work, self._chunk_bytes = work, max(chunk_bytes, work.target_bytes)

    def is_superseded(self, facts: TableFacts) -> bool:
        """Any run compacts what it finds; its tick is in its id."""
        return False

    def tasks(self, site: Site, table: Any, base: int) -> list[Task]:
        """List the small files where enough of them wait in one partition."""
        small = live_tasks(table, base, lambda file: is_small(file.fileSizeInBytes(), self._work))
        waiting = Counter(_place(task) for task in small)
        return [task for task in small if waiting[_place(task)] >= self._work.min_files]

    def chunks(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """Group by partition, bounded in bytes; a file alone has nothing to be written together with."""
        places: dict[Place, list[Task]] = {}
        for task in tasks:
            places.setdefault(_place(task), []).append(task)
        chunks = (chunk for place in places.values() for chunk in chunked(_unsorted(place), self._chunk_bytes))
        return [chunk for chunk in chunks if len(chunk) > 1]

    def make(self, site: Site, table: Any, chunk: Sequence[Task], base: int) -> list[Any]:
        """Write a chunk's rows together: sorted when the table is, and otherwise in the order they have."""
        if table.sortOrder().isSorted() and chunk[0].spec_id == table.spec().specId():
            return lay_out(site, table, chunk, _AS_IT_IS, ())
        writes = site.session._jvm.org.apache.iceberg.spark.FileRewriteCoordinator.get()
        count = max(1, -(-sum(task.size for task in chunk) // self._work.target_bytes))
        with staged_frame(site.session, table, chunk) as (frame, group):
            writer = filled(frame, _AS_IT_IS).coalesce(count).write.format("iceberg")
            try:
                (
                    writer.option("use-table-distribution-and-ordering", "false")
                    .option("target-file-size-bytes", self._work.target_bytes)
                    .option("output-spec-id", chunk[0].spec_id)
                    .mode("append")
                    .save(group)
                )
                return list(iterate(writes.fetchNewFiles(table, group)))
            finally:
                writes.clearRewrite(table, group)

    def keeps_rows(self) -> bool:
        """Rows move, none comes or goes."""
        return True

    def audit(self, site: Site, base: int, head: int, added: Sequence[Any]) -> None:
        """Ask for no more than that the rows are as many as before, which is counted already."""

    def properties(self, facts: TableFacts) -> Mapping[str, str]:
        """Remember nothing besides that it is done."""
        return {}


def _place(task: Task) -> Place:
    return task.spec_id, str(task.java.file().partition())


def _unsorted(tasks: Sequence[Task]) -> list[Task]:
    """Order by spec and path only: files of any sort order may be written together."""
    return [msgspec.structs.replace(task, sort_order_id=0) for task in sorted(tasks, key=lambda t: t.path)]
