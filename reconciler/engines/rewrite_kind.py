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
from reconciler.engines.data_files import Task, chunked
from reconciler.engines.data_state import OPERATION_STAMP, Step, TableFacts, position
from reconciler.engines.layout_files import lay_out
from reconciler.engines.site import Site, SnapshotKind
from reconciler.errors import CommitConflict, InvalidTable
from reconciler.model.types import FieldPath, paths_by_id
from reconciler.plan.amounts import plural
from reconciler.plan.built import Built, FileLayout, TableLayout, is_whole, lacks, ranges_of, read_built
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
        self._live: set[int] | None = None

    # ------------------------------------------------------------ where it stands

    def is_superseded(self, facts: TableFacts) -> bool:
        """Compare with the revisions that the table remembers, and with the layout that files are being given."""
        if self._layout is not None and self._layout != _layout_of(facts):
            raise CommitConflict("The partition spec or sort order changed meanwhile.", hint="Plan and apply again.")
        memories = ((read_built(facts.properties, aspect.name), aspect) for aspect in self._rewrite.aspects)
        is_newer = any(m is not None and (m.revision, m.round) >= (a.revision, a.round) for m, a in memories)
        return is_newer or (self._values is not None and self._values.is_superseded(facts))

    def properties(self, facts: TableFacts) -> Mapping[str, str]:
        """Remember which files are our own, and the snapshot in which every file has what was wanted."""
        sequence = {snapshot.snapshot_id: snapshot.sequence_number for snapshot in facts.snapshots}
        found, whole = position(facts, self._operation), 0
        if found.step is not Step.WRITE:  # published already, the memory was set back
            stamped = (s for s in facts.ancestors(facts.head) if s.summary.get(OPERATION_STAMP) == self._operation.id)
            numbers = {snapshot.sequence_number for snapshot in stamped}
        elif found.is_current:
            numbers, whole = {sequence.get(id_, 0) for id_ in found.chunks}, found.head
        else:
            numbers = {facts.last_sequence_number + 1} if found.chunks else set()
        built = {}
        for aspect in self._rewrite.aspects:
            before = read_built(facts.properties, aspect.name)
            is_same = before is not None and before.definition == aspect.definition
            kept = {n for low, high in before.own for n in range(low, high + 1)} if before and is_same else set[int]()
            kept = kept if self._live is None else kept & self._live
            built[aspect.name] = Built(whole=whole, own=_own(aspect, kept | numbers))
        return rewritten_properties(self._rewrite, built)

    # ------------------------------------------------------------ files

    def tasks(self, site: Site, base: int) -> list[Task]:
        """List the files that lack something, and note what each of them needs."""
        facts = site.table.facts()
        self._layout = _layout_of(facts)
        tasks = site.live(base)
        valued = {task.path for task in self._values.tasks(site, base)} if self._values else set[str]()
        self._needs = self._read_needs(site, tasks, facts, base, valued)
        return [task for task in tasks if task.path in self._needs]

    def _read_needs(
        self, site: Site, tasks: Sequence[Task], facts: TableFacts, base: int, valued: set[str]
    ) -> dict[str, Need]:
        layout, files = _layout_of(facts), {task.path: _file_layout(task) for task in tasks}
        self._live = {file.sequence_number for file in files.values()}
        needs: dict[str, Need] = {task.path: Need.FILL for task in tasks if task.path in valued}
        if self._rewrite.deletes:
            needs |= {task.path: Need.RENEW for task in tasks if task.has_deletes}
        for aspect in sorted(self._rewrite.aspects, key=lambda a: a.kind is not AspectKind.BLOOM):
            built = read_built(facts.properties, aspect.name)
            if aspect.kind is not AspectKind.LAYOUT and is_whole(aspect, built, base):
                continue
            lacking = [task for task in tasks if lacks(aspect, files[task.path], layout, built)]
            if aspect.kind is AspectKind.BLOOM:
                needs |= dict.fromkeys(site.without_filters(lacking, aspect.columns), Need.RENEW)
            else:
                needs |= {task.path: Need.LAY_OUT for task in lacking}
        return needs

    def chunks(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """Bound chunks in bytes; the files of one go the same way."""
        by_need = {need: [task for task in tasks if self._needs[task.path] is need] for need in Need}
        return [chunk for same in by_need.values() for chunk in chunked(same, self._chunk_bytes)]

    def make(self, site: Site, chunk: Sequence[Task], base: int) -> list[Any]:
        """Write the files that replace a chunk."""
        backfill = self._rewrite.backfill or Backfill(columns=())
        match self._needs[chunk[0].path]:
            case Need.FILL if self._values is not None:
                return list(self._values.make(site, chunk, base))
            case Need.LAY_OUT:
                return lay_out(site, chunk, backfill, self._curve(site))
            case _:
                return rewrite(site, chunk, backfill)

    def _curve(self, site: Site) -> list[FieldPath]:
        """Return the columns of the z-order."""
        curve = next((a for a in self._rewrite.aspects if a.kind is AspectKind.ZORDER), None)
        paths = paths_by_id(site.table.facts().schema()) if curve else {}
        return [paths[field_id] for field_id in (curve.columns if curve else ())]

    def keeps_rows(self) -> bool:
        """Rows move, none comes or goes."""
        return True

    # ------------------------------------------------------------ audit

    def audit(self, site: Site, base: int, head: int, added: Sequence[Any]) -> None:
        """Require that the new files have what was wanted."""
        paths = {str(file.location()) for file in added}
        tasks = site.live(head, lambda file: str(file.location()) in paths)
        layout = _layout_of(site.table.facts())
        for aspect in self._rewrite.aspects:
            missing = self._missing(aspect, site, tasks, layout)
            if missing:
                raise InvalidTable(
                    f"The audit found {plural(missing, 'new file')} without {_name(aspect)}; nothing is published.",
                    where=site.branch_place,
                    hint="Report this; dropping the branch gives the work up.",
                )
        if self._values is not None:
            self._values.audit(site, base, head, added)

    def _missing(self, aspect: Aspect, site: Site, tasks: Sequence[Task], layout: TableLayout) -> int:
        match aspect.kind:
            case AspectKind.LAYOUT:
                return sum(lacks(aspect, _file_layout(task), layout, None) for task in tasks)
            case AspectKind.BLOOM:
                return len(site.without_filters(tasks, aspect.columns))
            case AspectKind.ZORDER:
                return 0  # how rows lie within a file stands nowhere


def _own(aspect: Aspect, numbers: set[int]) -> tuple[tuple[int, int], ...]:
    """Layouts stand in the manifests: nothing is to be remembered of them."""
    return () if aspect.kind is AspectKind.LAYOUT else ranges_of(numbers)


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
