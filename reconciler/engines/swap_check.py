"""Look whether every row is converted, at one snapshot: the commit that exchanges the names asserts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reconciler.engines.frames import functions_of
from reconciler.engines.sql import identifier
from reconciler.engines.validation import ScanStaged
from reconciler.errors import RowsNotConverted
from reconciler.plan.amounts import plural
from reconciler.plan.row_work import Swap

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from reconciler.engines.site import Site


class SwapCheck(ScanStaged):
    """`Staged` for a SWAP; `rows` are those that are not converted yet, and could be."""

    def __init__(self, site: Site, work: Swap) -> None:
        super().__init__(site)
        self._work = work

    def _scan(self, head: int) -> None:
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

    def _wants(self, file: Any) -> bool:
        """Leave out files in which every row has the twin's value."""
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
