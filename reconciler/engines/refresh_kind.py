"""The kind of work that refreshes a materialized view: one commit on the branch holds all of its new rows.

The plan chose the way from what the catalog tells; here it is looked at again, with the files at hand, and given up for
a full refresh where it would not give the query's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reconciler.engines.data_files import Task, rows_of
from reconciler.engines.data_state import OPERATION_STAMP, Step, TableFacts, position
from reconciler.engines.refresh_rows import ViewRows
from reconciler.engines.site import FilesMoved, Site, SnapshotKind
from reconciler.engines.source_changes import SourceChange, Unreadable
from reconciler.errors import InvalidTable, LakeError
from reconciler.plan.data import done_key, is_our_branch
from reconciler.plan.events import Progress
from reconciler.plan.operations import Operation, Refresh
from reconciler.plan.view_memory import is_aggregation, remembered_view, view_properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOVED = "replace"
_SHUFFLED_BYTES = 32 << 20
_MAX_PARTITIONS = 2000
Make = Callable[[ViewRows], "DataFrame"]


class RefreshKind:
    """`Kind` for a refresh."""

    step = "refreshing"
    snapshots = SnapshotKind.OVERWRITE

    def __init__(self, operation: Operation, refresh: Refresh) -> None:
        self._operation, self._refresh = operation, refresh
        self._make: Make = ViewRows.full
        self._has_written = self._adds_only = False
        self._base_files = 0

    def is_superseded(self, facts: TableFacts) -> bool:
        """Compare with the refresh that the table remembers."""
        memory = remembered_view(facts.properties)
        return memory is not None and memory.round >= self._refresh.round

    def tasks(self, site: Site, base: int) -> list[Task]:
        """List all files of the view, unless its new rows only come on top."""
        facts = site.table.facts()
        branch = facts.ancestors(facts.head_of(site.ref.branch))
        self._has_written = any(s.summary.get(OPERATION_STAMP) == self._operation.id for s in branch)
        if self._has_written:
            return []
        # Sources moved on since an earlier run of another id began: this one replaces all that it would have written.
        others = [name for name in facts.refs if is_our_branch(name) and name != site.ref.branch]
        if others:
            site.table.drop_branches(others, site.ref.uuid)
        self._choose(site, facts, base)
        found = [] if self._adds_only else site.live(base)
        self._base_files = len(found)
        return found

    def chunks(self, tasks: Sequence[Task]) -> list[Sequence[Task]]:
        """Do it all in one commit; a branch that has it needs no other."""
        return [] if self._has_written else [tasks]

    def make(self, site: Site, chunk: Sequence[Task], base: int) -> list[Any]:
        """Write the new rows."""
        with ViewRows(site, self._refresh).open() as rows:
            # A merge of few rows is over before many small tasks have started; a big query needs them.
            partitions = min(_MAX_PARTITIONS, 1 + self._operation.cost.bytes_read // _SHUFFLED_BYTES)
            site.session.conf.set("spark.sql.shuffle.partitions", str(partitions))
            try:
                return rows.write(self._frame(site, rows))
            except LakeError:
                raise
            except Exception as error:
                raise site.told(error) from error

    def _frame(self, site: Site, rows: ViewRows) -> DataFrame:
        try:
            return self._make(rows)
        except Unreadable as unreadable:  # groups replace all files in any case, so there is still a way back
            self._tell_full(site, unreadable)
            return rows.full()

    def keeps_rows(self) -> bool:
        """A refresh has as many rows as its query says."""
        return False

    def audit(self, site: Site, base: int, head: int, added: Sequence[Any]) -> None:
        """Require that the branch holds the rows that were written, and what of the former ones was to stay."""
        totals = {s.snapshot_id: s.summary.get("total-records") for s in site.table.facts().snapshots}
        stay = totals.get(base) if self._adds_only else "0"
        found = totals.get(head)
        if found is None or stay is None or int(found) == int(stay) + rows_of(added):
            return
        raise InvalidTable(
            f"The audit found {found} rows on the branch where {int(stay) + rows_of(added)} were written; nothing is "
            "published.",
            where=site.branch_place,
            hint="Report this; dropping the branch gives the work up.",
        )

    def properties(self, facts: TableFacts) -> Mapping[str, str]:
        """Remember query, lineage and watermarks; raises FilesMoved when main moved: the rows rest on what it was."""
        found = position(facts, self._operation)
        if found.step is Step.WRITE and not found.is_current:
            raise FilesMoved
        return view_properties(self._refresh)

    # ------------------------------------------------------------ the way

    def _choose(self, site: Site, facts: TableFacts, base: int) -> None:
        """Decide how the rows are made, from the files there are now."""
        self._make, self._adds_only = ViewRows.full, False
        source = next((s for s in self._refresh.sources if s.table == self._refresh.delta), None)
        if source is None or source.since is None or source.snapshot_id is None:
            return
        try:
            self._require_own_rows(facts, base)
            sources = site.sources()
            try:
                self._make, self._adds_only = self._way(site, base, sources.changes(source))
            finally:
                sources.close()
        except Unreadable as unreadable:
            self._tell_full(site, unreadable)

    def _tell_full(self, site: Site, why: Unreadable) -> None:
        step = f"in full, because {why.reason}"
        site.tell(Progress(table=site.ref.table, operation=self._operation.id, step=step))

    def _way(self, site: Site, base: int, change: SourceChange) -> tuple[Make, bool]:
        if not is_aggregation(self._refresh):
            if not change.removed:
                return (lambda rows: rows.appended(change)), True
            return (lambda rows: rows.exchanged(site.at(base), change)), False
        if not change.removed:
            return (lambda rows: rows.merged(site.at(base), change)), False
        if not self._refresh.keys:
            raise Unreadable("rows of its source were changed or deleted, and it has no groups")
        return (lambda rows: rows.recomputed(site.at(base), change)), False

    def _require_own_rows(self, facts: TableFacts, base: int) -> None:
        """Raise Unreadable unless the rows to start from are those of the last refresh."""
        done = facts.properties.get(done_key(self._operation))
        written = next((s for s in facts.ancestors(base) if s.summary.get("operation") != _MOVED), None)
        if done is None or written is None or written.summary.get(OPERATION_STAMP) != done:
            raise Unreadable("somebody else wrote into it")
        memory = remembered_view(facts.properties)
        since = {source.table: source.since for source in self._refresh.sources if source.since is not None}
        known = {source.table: source.snapshot_id for source in memory.sources} if memory else {}
        if any(known.get(table) != snapshot for table, snapshot in since.items()):
            raise Unreadable("another refresh came in between")
