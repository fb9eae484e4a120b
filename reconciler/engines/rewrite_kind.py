"""The kind of work that rewrites existing files: into the table's layout, for an index, without deleted rows.

Each file goes one of three ways: laid out anew, written again as it lies, or (when a backfill came along) only given
its values. A file that must be rewritten anyway gets its values in that rewrite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from reconciler.engines.backfill_files import rewrite
from reconciler.engines.backfill_kind import BackfillKind
from reconciler.engines.bloom_filters import without_filters
from reconciler.engines.data_files import Task, chunked, live_tasks
from reconciler.engines.data_state import CHUNK_STAMP, OPERATION_STAMP, Step, TableFacts, position
from reconciler.engines.layout_files import lay_out
from reconciler.engines.staged import Site, SnapshotKind
from reconciler.errors import CommitConflict, InvalidTable
from reconciler.plan.amounts import plural
from reconciler.plan.built import FileLayout, TableLayout, lacks, read_built, trusted
from reconciler.plan.operations import Aspect, AspectKind, Backfill, Operation, Rewrite
from reconciler.plan.rewrites import rewritten_properties


class Need(StrEnum):
    """What has to happen to a file."""

    LAY_OUT = "lay out"
    RENEW = "renew"
    FILL = "fill"


class RewriteKind:
    """`Kind` for a rewrite: `replace`, unless values come along."""

    step = "rewriting"

    def __init__(self, rewrite: Rewrite, operation: Operation, chunk_bytes: int) -> None:
        self._rewrite, self._operation, self._chunk_bytes = rewrite, operation, chunk_bytes
        self._values = BackfillKind(rewrite.backfill, chunk_bytes) if rewrite.backfill else None
        self.snapshots = SnapshotKind.OVERWRITE if self._values else SnapshotKind.REPLACE
        self._needs: dict[str, Need] = {}
        self._layout: TableLayout | None = None

    # ------------------------------------------------------------ where it stands

    def is_superseded(self, facts: TableFacts) -> bool:
        """Compare with the revisions that the table remembers, and with the layout that files are being given."""
        if self._layout is not None and self._layout != _layout_of(facts):
            raise CommitConflict("The partition spec or sort order changed meanwhile.", hint="Plan and apply again.")
        memories = ((read_built(facts.properties, aspect.name), aspect) for aspect in self._rewrite.aspects)
        is_newer = any(m is not None and (m.revision, m.round) >= (a.revision, a.round) for m, a in memories)
        return is_newer or (self._values is not None and self._values.is_superseded(facts))

    def properties(self, facts: TableFacts) -> Mapping[str, str]:
        """Remember that every file of the base has what was wanted, and which files are our own."""
        sequence = {snapshot.snapshot_id: snapshot.sequence_number for snapshot in facts.snapshots}
        found = position(facts, self._operation)
        if found.step is Step.WRITE:
            base, chunks = found.base, found.chunks
            is_ahead = found.is_current or not chunks
            own = 0 if is_ahead else facts.last_sequence_number + 1
        else:
            ours = [s for s in facts.ancestors(facts.head) if s.summary.get(OPERATION_STAMP) == self._operation.id]
            base = ours[-1].parent_snapshot_id or 0
            is_ahead = all(CHUNK_STAMP in snapshot.summary for snapshot in ours)
            chunks = tuple(snapshot.snapshot_id for snapshot in ours)
            own = 0 if is_ahead else ours[0].sequence_number
        through = max((sequence.get(id_, 0) for id_ in (base, *(chunks if is_ahead else ()))), default=0)
        base = max(chunks, key=lambda id_: sequence.get(id_, 0)) if is_ahead and chunks else base
        return rewritten_properties(self._rewrite, base=base, through=through, own=own)

    # ------------------------------------------------------------ files

    def tasks(self, site: Site, table: Any, base: int) -> list[Task]:
        """List the files that lack something, and note what each of them needs."""
        facts = site.table.facts()
        self._layout = _layout_of(facts)
        tasks = live_tasks(table, base, lambda file: True)
        valued = {task.path for task in self._values.tasks(site, table, base)} if self._values else set[str]()
        self._needs = self._read_needs(table, tasks, facts, valued)
        return [task for task in tasks if task.path in self._needs]

    def _read_needs(self, table: Any, tasks: Sequence[Task], facts: TableFacts, valued: set[str]) -> dict[str, Need]:
        layout, log = _layout_of(facts), [entry.snapshot_id for entry in facts.snapshot_log]
        files = {task.path: _file_layout(task) for task in tasks}
        needs: dict[str, Need] = {task.path: Need.FILL for task in tasks if task.path in valued}
        if self._rewrite.deletes:
            needs |= {task.path: Need.RENEW for task in tasks if task.has_deletes}
        for aspect in sorted(self._rewrite.aspects, key=lambda a: a.kind is not AspectKind.BLOOM):
            built = trusted(read_built(facts.properties, aspect.name), log)
            lacking = [task for task in tasks if lacks(aspect, files[task.path], layout, built)]
            if aspect.kind is AspectKind.BLOOM:
                needs |= dict.fromkeys(without_filters(table, lacking, aspect.columns), Need.RENEW)
            else:
                needs |= {task.path: Need.LAY_OUT for task in lacking}
        return needs

    def chunks(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """Bound chunks in bytes; the files of one go the same way."""
        by_need = {need: [task for task in tasks if self._needs[task.path] is need] for need in Need}
        return [chunk for same in by_need.values() for chunk in chunked(same, self._chunk_bytes)]

    def make(self, site: Site, table: Any, chunk: Sequence[Task], base: int) -> list[Any]:
        """Write the files that replace a chunk."""
        backfill = self._rewrite.backfill or Backfill(columns=())
        match self._needs[chunk[0].path]:
            case Need.FILL if self._values is not None:
                return list(self._values.make(site, table, chunk, base))
            case Need.LAY_OUT:
                return lay_out(site, table, chunk, backfill, self._curve(table))
            case _:
                return rewrite(site.session, table, chunk, backfill)

    def _curve(self, table: Any) -> list[list[str]]:
        """Return the columns of the z-order."""
        curve = next((a for a in self._rewrite.aspects if a.kind is AspectKind.ZORDER), None)
        names = [str(table.schema().findColumnName(id_)) for id_ in (curve.columns if curve else ())]
        return [name.split(".") for name in names]

    def keeps_rows(self) -> bool:
        """Rows move, none comes or goes."""
        return True

    # ------------------------------------------------------------ audit

    def audit(self, site: Site, base: int, head: int, added: Sequence[Any]) -> None:
        """Require that the new files have what was wanted."""
        paths = {str(file.location()) for file in added}
        table = site.table.load()
        tasks = [task for task in live_tasks(table, head, lambda file: True) if task.path in paths]
        layout = _layout_of(site.table.facts())
        for aspect in self._rewrite.aspects:
            missing = self._missing(aspect, table, tasks, layout)
            if missing:
                raise InvalidTable(
                    f"The audit found {plural(missing, 'new file')} without {_name(aspect)}; nothing is published.",
                    where=site.branch_place,
                    hint="Report this; dropping the branch gives the work up.",
                )
        if self._values is not None:
            self._values.audit(site, base, head, added)

    def _missing(self, aspect: Aspect, table: Any, tasks: Sequence[Task], layout: TableLayout) -> int:
        match aspect.kind:
            case AspectKind.LAYOUT:
                return sum(lacks(aspect, _file_layout(task), layout, None) for task in tasks)
            case AspectKind.BLOOM:
                return len(without_filters(table, tasks, aspect.columns))
            case AspectKind.ZORDER:
                return 0  # how rows lie within a file stands nowhere


def _name(aspect: Aspect) -> str:
    return "the table's layout" if aspect.kind is AspectKind.LAYOUT else aspect.name.replace(".", " ", 1)


def _layout_of(facts: TableFacts) -> TableLayout:
    return TableLayout(spec_id=facts.default_spec_id, sort_order_id=facts.default_sort_order_id)


def _file_layout(task: Task) -> FileLayout:
    return FileLayout(
        spec_id=task.spec_id,
        sort_order_id=task.sort_order_id,
        sequence_number=task.java.file().fileSequenceNumber() or 0,
        has_deletes=task.has_deletes,
    )
