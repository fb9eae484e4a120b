"""Look whether every row is converted, at one snapshot: the commit that exchanges the names asserts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reconciler.engines.data_state import OPERATION_STAMP
from reconciler.engines.frames import functions_of
from reconciler.engines.sql import identifier
from reconciler.engines.validation import ScanStaged
from reconciler.errors import RowsNotConverted
from reconciler.plan.amounts import plural
from reconciler.plan.computed import fillers
from reconciler.plan.row_work import Swap

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from reconciler.engines.site import Site


class SwapCheck(ScanStaged):
    """`Staged` for a SWAP; `rows` are those whose twin has another value than theirs becomes."""

    def __init__(self, site: Site, work: Swap) -> None:
        super().__init__(site)
        self._work = work
        self._filled: frozenset[str] = frozenset()

    def _scan(self, head: int) -> None:
        self._filled = self._filled_files(head)
        found = self._count(head, self._wants, self._conditions)
        self.rows = max((count.rows for name, count in found.items() if name.startswith("missing")), default=0)
        if self.rows:
            return
        for column in self._work.columns:
            for what, why in (("failed", "cannot be converted"), ("empty", "would be NULL, and it is required")):
                count = found.get(f"{what} {column.field_id}")
                if count is not None and count.rows:
                    raise RowsNotConverted(
                        f"The value of {column.name} {why} in {plural(count.rows, 'row')} of "
                        f"{plural(count.files, 'file')}; {column.name} is still what it was.",
                        where=str(self._site.ref.table),
                        hint="Correct those rows, or change `using` or `onCastFailure`; then apply again.",
                    )

    def _filled_files(self, head: int) -> frozenset[str]:
        """Name the files that backfills of the twins wrote: others may have copied a twin beside a new value."""
        facts = self._site.table.facts()
        ours = frozenset.intersection(*(fillers(facts.properties, column.new_id) for column in self._work.columns))
        made = (s.snapshot_id for s in facts.ancestors(head) if s.summary.get(OPERATION_STAMP) in ours)
        added = (file for snapshot_id in made for file in self._site.table.changed_files(snapshot_id)[0])
        return frozenset(str(file.location()) for file in added)

    def _wants(self, file: Any) -> bool:
        """Leave out files that were filled, and in which every row has the twin's value."""
        if str(file.location()) not in self._filled:
            return True
        nulls = file.nullValueCounts()
        return nulls is None or any(nulls.get(column.new_id) != 0 for column in self._work.columns)

    def _conditions(self, frame: DataFrame) -> Mapping[str, Column]:
        F = functions_of(frame)
        names = {field.id: field.name for field in self._site.table.facts().schema().fields}
        found = {}
        for column in self._work.columns:
            found[f"missing {column.field_id}"] = F.expr(column.missing)
            if column.failed:
                found[f"failed {column.field_id}"] = F.expr(column.failed)
            if column.required:
                found[f"empty {column.field_id}"] = frame[identifier(names[column.new_id])].isNull()
        return found
