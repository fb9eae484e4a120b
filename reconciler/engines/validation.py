"""A validation scan: read only the files that manifests do not clear, at one snapshot, and write nothing.

Its finding is worth something to the commit that asserts this snapshot, or proves the files that came since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from reconciler.engines.backfill_files import check_plan
from reconciler.engines.data_files import Task
from reconciler.engines.frames import functions_of
from reconciler.errors import RowsRefused
from reconciler.model.types import FieldPath, dotted
from reconciler.plan.amounts import plural
from reconciler.plan.events import Progress
from reconciler.plan.row_work import RequiredColumn, Validate
from reconciler.ports import CommitOutcome

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from reconciler.engines.site import Site


class Found(msgspec.Struct, frozen=True):
    """How many rows, in how many files, fulfil a condition."""

    rows: int
    files: int


class ScanStaged:
    """What scans have in common as `Staged`: nothing is staged, and there is nothing to take back."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.main_moved = False
        self.rows = self.files = self.bytes = 0
        self.head: int | None = None

    def stage(self) -> None:
        """Look at main's head, as it is now."""
        facts = self._site.table.facts()
        self._site.table.require(facts, self._site.ref.uuid, None)
        self.head = facts.head
        if self.head is not None:
            self._scan(self.head)

    def commit(self) -> CommitOutcome:
        """Say which snapshot was scanned; committing what rests on it is the caller's."""
        outcome = self._site.table.outcome()
        return msgspec.structs.replace(outcome, version=msgspec.structs.replace(outcome.version, snapshot_id=self.head))

    def abort(self) -> None:
        """Nothing was staged."""

    def _scan(self, head: int) -> None:
        raise AssertionError

    def _count(
        self, head: int, wants: Callable[[Any], bool], conditions: Callable[[DataFrame], Mapping[str, Column]]
    ) -> dict[str, Found]:
        """Count the rows of the wanted files that fulfil each condition."""
        tasks = self._site.live(head, wants)
        self.files, self.rows = len(tasks), sum(task.rows for task in tasks)
        self.bytes = sum(task.size for task in tasks)
        self._site.tell(
            Progress(
                table=self._site.ref.table,
                operation=self._site.operation.id,
                step=f"scanning {plural(len(tasks), 'file')}",
            )
        )
        return count_rows(self._site, tasks, conditions) if tasks else {}


class ValidationScan(ScanStaged):
    """`Staged` for a VALIDATE: raises RowsRefused when the rows are not as the metadata is going to say."""

    def __init__(self, site: Site, work: Validate) -> None:
        super().__init__(site)
        self._work = work
        self._seen: frozenset[str] = frozenset()

    def _scan(self, head: int) -> None:
        if self._work.since is not None:
            tasks = self._site.live(self._work.since)
            self._seen = frozenset(task.path for task in tasks if not task.has_deletes)
        found = self._count(head, self._wants, self._conditions)
        for column in self._work.required:
            _refuse(found.get(f"required {column.field_id}"), self.files, f"have no value in {dotted(column.path)}")
        for number, check in enumerate(self._work.checks):
            _refuse(found.get(f"check {number}"), self.files, check.fault)

    def _wants(self, file: Any) -> bool:
        """A condition over rows is proven by no manifest; a null count is, and so is what was scanned before."""
        if str(file.location()) in self._seen:
            return False
        if self._work.checks:
            return True
        return not all(is_proven(file, column.field_id) for column in self._work.required)

    def _conditions(self, frame: DataFrame) -> dict[str, Column]:
        F = functions_of(frame)
        found = {f"required {column.field_id}": lacks(frame, column) for column in self._work.required}
        found |= {f"check {number}": ~F.expr(check.sql) for number, check in enumerate(self._work.checks)}
        return found


def is_proven(file: Any, field_id: int) -> bool:
    """Say whether a file's own counts prove that a column has a value in every row."""
    nulls, values = file.nullValueCounts(), file.valueCounts()
    return bool(nulls and values and nulls.get(field_id) == 0 and values.get(field_id) == file.recordCount())


def lacks(frame: DataFrame, column: RequiredColumn) -> Column:
    """Find rows without a value; a field is not missing where the struct around it is."""
    missing = at(frame, column.path).isNull()
    parent = column.path[:-1]
    return at(frame, parent).isNotNull() & missing if parent else missing


def at(frame: DataFrame, path: FieldPath) -> Column:
    """Address a column, or a field of structs."""
    found = frame[f"`{path[0].replace('`', '``')}`"]
    for name in path[1:]:
        found = found.getField(name)
    return found


def count_rows(
    site: Site, tasks: Sequence[Task], conditions: Callable[[DataFrame], Mapping[str, Column]]
) -> dict[str, Found]:
    """Read just these files, with their deletes, and count rows and files per condition, in one pass."""
    with site.staged(tasks) as frame:
        F, wanted = functions_of(frame), conditions(frame)
        flags = [F.coalesce(c, F.lit(False)).cast("int").alias(f"c{i}") for i, c in enumerate(wanted.values())]
        check_plan(frame.select(*flags))
        # staged tasks of a format v3 table have row ids, and therefore no metadata column `_file`
        flagged = frame.select(F.input_file_name().alias("file"), *flags)
        names = [f"c{i}" for i in range(len(wanted))]
        per_file = flagged.groupBy("file").agg(*(F.sum(name).alias(name) for name in names))
        sums = [F.sum(name) for name in names] + [F.sum((F.col(name) > 0).cast("int")) for name in names]
        try:
            row = per_file.agg(*sums).collect()[0]
        except Exception as error:
            raise site.told(error) from error
    count = len(wanted)
    return {name: Found(row[i] or 0, row[count + i] or 0) for i, name in enumerate(wanted)}


def _refuse(found: Found | None, files: int, what: str) -> None:
    if found is not None and found.rows:
        verb = what.replace("have", "has", 1).replace("break", "breaks", 1) if found.rows == 1 else what
        raise RowsRefused(
            f"{plural(found.rows, 'row')} in {found.files:,} of {plural(files, 'scanned file')} {verb}.",
            hint="Correct or delete those rows, then apply again.",
        )
