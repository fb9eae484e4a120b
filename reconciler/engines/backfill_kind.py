"""The kind of work that fills computed columns: every file that lacks a value is replaced by one that has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reconciler.engines import backfill_files as files
from reconciler.engines.data_files import Task, chunked
from reconciler.engines.data_state import TableFacts
from reconciler.engines.site import Site, SnapshotKind
from reconciler.errors import InvalidTable
from reconciler.plan.computed import published_properties, remembered
from reconciler.plan.operations import Backfill
from reconciler.plan.splicing import lacks_value


class BackfillKind:
    """`Kind` for a backfill; `overwrite`, because changelog readers skip `replace` and views would miss the values."""

    step = "filling"
    snapshots = SnapshotKind.OVERWRITE

    def __init__(self, backfill: Backfill, chunk_bytes: int, *, splices: bool = True) -> None:
        self._backfill, self._chunk_bytes, self._splices = backfill, chunk_bytes, splices

    def is_superseded(self, facts: TableFacts) -> bool:
        """Compare with the revisions that the table remembers."""
        memories = ((remembered(facts.properties, c.field_id), c) for c in self._backfill.columns)
        return any(m is not None and (m.revision, m.round) >= (c.revision, c.round) for m, c in memories)

    def tasks(self, site: Site, base: int) -> list[Task]:
        """List the files to rewrite: those the manifests cannot clear; in a fill, those that do hold unfilled rows.

        A legitimate NULL looks like a missing value to a manifest, so a fill, which may run often, asks the rows.
        """
        tasks = site.live(base, self._wants)
        if not self._backfill.is_fill or not tasks:
            return tasks
        frame = site.at(base)
        found = files.unfilled(frame, self._backfill).select(frame.metadataColumn("_file")).distinct().collect()
        wanted = {row[0] for row in found}
        return [task for task in tasks if task.path in wanted]

    def _wants(self, file: Any) -> bool:
        nulls = file.nullValueCounts()
        counts = (None if nulls is None else nulls.get(c.field_id) for c in self._backfill.columns)
        return any(lacks_value(c, n) for c, n in zip(self._backfill.columns, counts, strict=True))

    def chunks(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """Bound chunks in bytes."""
        return chunked(tasks, self._chunk_bytes)

    def make(self, site: Site, chunk: Sequence[Task], base: int) -> list[Any]:
        """Splice the values into the files that can take them, and write the others anew."""
        return site.fill(chunk, self._backfill, splices=self._splices)

    def keeps_rows(self) -> bool:
        """Values change, rows do not."""
        return True

    def audit(self, site: Site, base: int, head: int, added: Sequence[Any]) -> None:
        """Require that no row lacks a value that it could have."""
        if _is_full(added, self._backfill):
            return
        left = files.unfilled(site.at(head), self._backfill).count()
        if left:
            raise InvalidTable(
                f"The audit found {left} rows without their value on the branch; nothing is published.",
                where=site.branch_place,
                hint="Report this; dropping the branch gives the work up.",
            )

    def properties(self, facts: TableFacts) -> Mapping[str, str]:
        """Remember expressions and revisions."""
        return published_properties(self._backfill)


def _is_full(added: Iterable[Any], backfill: Backfill) -> bool:
    """Say whether the new files' own counts prove that no value is missing."""
    for file in added:
        nulls = file.nullValueCounts()
        if nulls is None or any(nulls.get(column.field_id) != 0 for column in backfill.columns):
            return False
    return True
