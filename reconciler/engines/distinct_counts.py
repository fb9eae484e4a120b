"""Count distinct values by Iceberg's own procedures, which write a Puffin file and name it in the metadata.

They commit by themselves, and may: a statistics file belongs to one snapshot and changes no row, a second one for the
same snapshot takes the place of the first, and no writer's commit conflicts with it. A run that was cut off is found
by what the metadata says; at worst a file is left that nothing names, which orphan removal finds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.engines.data_state import TableFacts
from reconciler.engines.sql import literal, procedure
from reconciler.engines.validation import ScanStaged
from reconciler.errors import CommitStateUnknown
from reconciler.model.observation import counted_fields
from reconciler.plan.events import Progress
from reconciler.plan.index_work import CountDistinct

if TYPE_CHECKING:
    from reconciler.engines.site import Site

ATTEMPTS = 3
"""How often counting starts over when the catalog did not take its result: a refusal that passes costs no run."""


class CountedColumns(ScanStaged):
    """`Staged` for distinct counts: done once the metadata names them for main's head."""

    def __init__(self, site: Site, work: CountDistinct) -> None:
        super().__init__(site)
        self._work = work

    def _scan(self, head: int) -> None:
        work = self._work
        counts, partitions = self._missing(self._site.table.facts(), head)
        if not counts and not partitions:
            return
        tasks = self._site.live(head)
        self.files, self.rows = len(tasks), sum(task.rows for task in tasks)
        step = f"counting distinct values of {', '.join(work.columns)}"
        self._site.tell(Progress(table=self._site.ref.table, operation=self._site.operation.id, step=step))
        for attempts_left in reversed(range(ATTEMPTS)):
            try:
                self._count_missing(head, counts=counts, partitions=partitions)
                return
            except Exception as error:
                counts, partitions = self._missing(self._site.table.facts(), head)
                if not counts and not partitions:
                    return
                told = self._site.told(error, committing=True)
                if not attempts_left or not isinstance(told, CommitStateUnknown):
                    raise told from error

    def _count_missing(self, head: int, *, counts: bool, partitions: bool) -> None:
        if counts:
            names = ", ".join(literal(name) for name in self._work.columns)
            self._call("compute_table_stats", f"snapshot_id => {head}, columns => array({names})")
        if partitions:
            self._call("compute_partition_stats", f"snapshot_id => {head}")

    def _call(self, name: str, arguments: str) -> None:
        site = self._site
        site.session.sql(procedure(site.catalog, name, site.ref.table, arguments)).collect()

    def _missing(self, facts: TableFacts, head: int) -> tuple[bool, bool]:
        """Say which of the two kinds of statistics the metadata does not name for a snapshot."""
        counted = counted_fields(facts.statistics).get(head, frozenset())
        has_partitions = any(file.snapshot_id == head for file in facts.partition_statistics)
        return not counted.issuperset(self._work.field_ids), self._work.partitions and not has_partitions
