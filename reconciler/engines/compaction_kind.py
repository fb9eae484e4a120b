"""The kind of work that writes small files of one partition together; no value changes, so it commits as `replace`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from reconciler.engines.backfill_files import filled
from reconciler.engines.data_files import Task, chunked
from reconciler.engines.data_state import TableFacts
from reconciler.engines.site import Site, SnapshotKind
from reconciler.plan.maintenance import files_made, is_small, is_worthwhile
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
        self._partitions: dict[str, str] = {}

    def is_superseded(self, facts: TableFacts) -> bool:
        """Any run compacts what it finds; its tick is in its id."""
        return False

    def tasks(self, site: Site, base: int) -> list[Task]:
        """List the small files where writing them together makes fewer."""
        small = site.live(base, lambda file: is_small(file.fileSizeInBytes(), self._work))
        self._partitions = {task.path: site.partition_of(task) for task in small}
        groups = (group for group in self._by_place(small) if is_worthwhile([task.size for task in group], self._work))
        return [task for group in groups for task in group]

    def chunks(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """Group by partition, bounded in bytes; a file alone has nothing to be written together with."""
        chunks = (chunk for group in self._by_place(tasks) for chunk in chunked(_unsorted(group), self._chunk_bytes))
        return [chunk for chunk in chunks if len(chunk) > 1]

    def _by_place(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """Group by partition spec and partition: only those may share a file."""
        places: dict[Place, list[Task]] = {}
        for task in tasks:
            places.setdefault((task.spec_id, self._partitions[task.path]), []).append(task)
        return list(places.values())

    def make(self, site: Site, chunk: Sequence[Task], base: int) -> list[Any]:
        """Write a chunk's rows together: sorted when the table is, and otherwise in the order they have."""
        count = files_made([task.size for task in chunk], self._work)
        facts = site.table.facts()
        sorts = bool(facts.default_sort_order_id) and chunk[0].spec_id == facts.default_spec_id
        options = {
            "use-table-distribution-and-ordering": str(sorts).lower(),
            "distribution-mode": "none",  # which leaves the order, within each of the files
            "target-file-size-bytes": str(self._work.target_bytes),
            **facts.output_spec(chunk[0].spec_id),
        }
        return site.rewrite(chunk, lambda frame: filled(frame, _AS_IT_IS).coalesce(count), options)

    def keeps_rows(self) -> bool:
        """Rows move, none comes or goes."""
        return True

    def audit(self, site: Site, base: int, head: int, added: Sequence[Any]) -> None:
        """Ask for no more than that the rows are as many as before, which is counted already."""

    def properties(self, facts: TableFacts) -> Mapping[str, str]:
        """Remember nothing besides that it is done."""
        return {}


def _unsorted(tasks: Sequence[Task]) -> list[Task]:
    """Order by spec and path only: files of any sort order may be written together."""
    return [msgspec.structs.replace(task, sort_order_id=0) for task in sorted(tasks, key=lambda t: t.path)]
