"""Carry out a data operation on real Iceberg through Spark: write on a branch, audit, publish in one commit.

Every run asks the catalog where the operation stands (`data_state`) and does the next step, so a crash anywhere, a lost
answer or a second runner end in the same table. Main never shows a part of it, and what others commit meanwhile stays.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from reconciler.engines import backfill_files as files
from reconciler.engines.data_state import CHUNK_STAMP, OPERATION_STAMP, Position, Step, TableFacts, position
from reconciler.engines.staging import FilesMoved, StagingTable
from reconciler.errors import CommitConflict, InvalidInput, InvalidTable, LakeError
from reconciler.model.metadata import MAIN
from reconciler.model.table import TableIdent
from reconciler.plan.data import branch_of, published_properties, remembered
from reconciler.plan.events import Event, Progress
from reconciler.plan.operations import Backfill, Operation
from reconciler.ports import CommitOutcome, StagingRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROUNDS = 4
"""How often work starts over because others rewrote or deleted what was being filled."""

_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",  # only counts and lists of files are ever shuffled
}
Tell = Callable[[Event], None]


class PublishConflict(CommitConflict):
    """Others kept rewriting the files that were to be replaced."""

    reason = "PublishConflict"


class SparkEngine:
    """`Engine` over one catalog of a classic Spark session."""

    def __init__(
        self,
        session: SparkSession,
        catalog: str,
        *,
        chunk_bytes: int = files.CHUNK_BYTES,
        table: Callable[[SparkSession, str, TableIdent], StagingTable] = StagingTable,
    ) -> None:
        """Work in a session of our own: its settings decide what an expression means."""
        self._session = session.newSession()
        for key, value in session.conf.getAll.items():
            if key.startswith("spark.sql.catalog."):
                self._session.conf.set(key, value)
        for key, value in _SETTINGS.items():
            self._session.conf.set(key, value)
        self._catalog = catalog
        self._chunk_bytes = chunk_bytes
        self._table = table

    def execute(self, operation: Operation, ref: StagingRef, tell: Tell) -> StagedBackfill:
        """Write what is left of an operation on its branch, and audit it."""
        if operation.backfill is None:
            raise InvalidInput(f"This engine runs backfills only, not {operation.kind.value}.")
        table = self._table(self._session, self._catalog, ref.table)
        job = StagedBackfill(
            self._session, self._catalog, table, operation, operation.backfill, ref, self._chunk_bytes, tell
        )
        job.stage()
        return job

    resume = execute


class StagedBackfill:
    """`Staged` for a backfill."""

    def __init__(
        self,
        session: SparkSession,
        catalog: str,
        table: StagingTable,
        operation: Operation,
        backfill: Backfill,
        ref: StagingRef,
        chunk_bytes: int,
        tell: Tell,
    ) -> None:
        self._session, self._catalog, self._table = session, catalog, table
        self._operation, self._backfill, self._ref = operation, backfill, ref
        self._chunk_bytes, self._tell = chunk_bytes, tell
        self._schema_id: int | None = None
        self._replayed = True
        self.main_moved = False
        self.rows = self.files = self.bytes = 0

    # ------------------------------------------------------------ the protocol

    def stage(self) -> None:
        """Bring the branch to where it can be published, whatever an earlier run left of it."""
        for _ in range(ROUNDS):
            found = self._find()
            if found.step is Step.START_OVER:
                self._table.drop_branches([self._ref.branch], self._ref.uuid)
                found = self._find()
            if found.step is Step.CREATE_BRANCH:
                self._create_branch()
                found = self._find()
            if found.step is not Step.WRITE:
                return
            self._replayed = False
            try:
                self._write(found)
                self._audit()
            except FilesMoved:
                continue  # another run worked on this branch; look again
            return
        raise self._conflict()

    def commit(self) -> CommitOutcome:
        """Publish in one commit with its properties, then drop the branch; a second call finds it done."""
        for _ in range(ROUNDS):
            found = self._find()
            match found.step:
                case Step.DONE:
                    return self._table.outcome(replayed=self._replayed)
                case Step.DROP_BRANCH:
                    self._table.drop_branches([self._ref.branch], self._ref.uuid)
                case Step.RECORD:
                    self._record()
                case Step.WRITE:
                    self._publish_or_start_over()
                case Step.CREATE_BRANCH | Step.START_OVER:
                    self.stage()
        found = self._find()
        if found.step is Step.DONE:
            return self._table.outcome(replayed=self._replayed)
        raise self._conflict()

    def abort(self) -> None:
        """Drop the branch; what was published stays published."""
        self._table.drop_branches([self._ref.branch], self._ref.uuid)

    # ------------------------------------------------------------ steps

    def _find(self) -> Position:
        """Ask the catalog where this operation stands; the first schema seen is the one it is for."""
        facts = self._table.facts()
        self._table.require(facts, self._ref.uuid, None)
        if self._schema_id is None:
            self._schema_id = facts.current_schema_id
        return self._position(facts)

    def _position(self, facts: TableFacts) -> Position:
        """Tell the next step; an operation that a newer one has replaced must not come back."""
        found = position(facts, self._operation.id)
        if found.step in (Step.DONE, Step.DROP_BRANCH) or not self._is_replaced(facts):
            return found
        if found.step is Step.RECORD:
            return Position(step=Step.DONE)
        raise CommitConflict(
            "A newer backfill of the same columns has been published.", where=str(self._ref.table), hint="Plan again."
        )

    def _is_replaced(self, facts: TableFacts) -> bool:
        memories = ((remembered(facts.properties, c.field_id), c) for c in self._backfill.columns)
        return any(m is not None and (m.revision, m.round) >= (c.revision, c.round) for m, c in memories)

    def _create_branch(self) -> None:
        head = self._table.facts().head
        if head is None:
            raise CommitConflict("The table has no rows any more.", where=str(self._ref.table), hint="Plan again.")
        self._table.create_branch(self._ref.branch, head, self._ref.uuid, self._schema_id)

    def _write(self, found: Position) -> None:
        """Rewrite, chunk by chunk, the files of the base that no earlier chunk replaced."""
        table = self._table.load()
        replaced = {path for path, _ in self._replaced(table, found)}
        tasks = self._candidates(table, found.base)
        chunks = files.chunked([task for task in tasks if task.path not in replaced], self._chunk_bytes)
        earlier = [task for task in tasks if task.path in replaced]
        counter = _Counter(self._tell, self._ref.table, self._operation.id, tasks, earlier, len(chunks))
        counter.tell()
        for chunk in chunks:
            made = files.rewrite(self._session, table, chunk, self._backfill)
            self._check_rows(table, chunk, made)
            self._commit_chunk(table, chunk, made, found.base)
            counter.add(chunk, sum(f.fileSizeInBytes() for f in made))

    def _candidates(self, table: Any, base: int) -> list[files.Task]:
        """List the files to rewrite: those the manifests cannot clear; in a fill, those that do hold unfilled rows.

        A legitimate NULL looks like a missing value to a manifest, so a fill, which may run often, asks the rows.
        """
        tasks = files.live_tasks(table, base, self._backfill)
        if not self._backfill.is_fill or not tasks:
            return tasks
        frame = self._at(base)
        found = files.unfilled(frame, self._backfill).select(frame.metadataColumn("_file")).distinct().collect()
        wanted = {row[0] for row in found}
        return [task for task in tasks if task.path in wanted]

    def _check_rows(self, table: Any, chunk: Sequence[files.Task], made: Sequence[Any]) -> None:
        if any(task.has_deletes for task in chunk):
            return  # how many rows are live is for the audit, which counts them all
        before, after = sum(task.rows for task in chunk), files.rows_of(made)
        if before != after:
            raise InvalidTable(
                f"A chunk of {before} rows came out with {after}; nothing of it was committed.",
                where=str(self._ref.table),
                hint="Report this.",
            )

    def _commit_chunk(self, table: Any, chunk: Sequence[files.Task], made: Sequence[Any], base: int) -> None:
        """Commit one chunk on the branch, unless a run beside this one has just done so."""
        chunk_id = chunk_id_of(task.path for task in chunk)
        branch = self._ref.branch

        def build(table: Any, facts: TableFacts, builder: Any) -> bool:
            stamps = self._stamps(facts)
            if chunk_id in stamps:
                return False
            if branch not in facts.refs:
                raise CommitConflict(
                    "Its branch was dropped meanwhile: another plan took its place.",
                    where=str(self._ref.table),
                    hint="Plan again.",
                )
            overwrite = self._overwrite(table, [task.java.file() for task in chunk], made, base)
            overwrite.toBranch(branch)
            overwrite.set(CHUNK_STAMP, chunk_id)
            builder.setBranchSnapshot(self._table.snapshot(overwrite), branch)
            return True

        self._table.swap(build, uuid=self._ref.uuid, schema_id=self._schema_id, refs=(branch,))

    def _stamps(self, facts: TableFacts) -> set[str]:
        mine = self._operation.id
        return {
            s.summary.get(CHUNK_STAMP, "")
            for s in facts.ancestors(facts.head_of(self._ref.branch))
            if s.summary.get(OPERATION_STAMP) == mine
        }

    def _overwrite(self, table: Any, before: Iterable[Any], after: Iterable[Any], base: int) -> Any:
        overwrite = table.newOverwrite()
        for file in before:
            overwrite.deleteFile(file)
        for file in after:
            overwrite.addFile(file)
        overwrite.validateFromSnapshot(base)
        overwrite.validateNoConflictingDeletes()
        overwrite.set(OPERATION_STAMP, self._operation.id)
        return overwrite

    def _replaced(self, table: Any, found: Position) -> list[tuple[str, Any]]:
        return [(str(file.location()), file) for file in self._of_chunks(table, found, "removedDataFiles")]

    def _of_chunks(self, table: Any, found: Position, side: str) -> list[Any]:
        """Collect the files that this operation's snapshots removed or added, as Iceberg's objects."""
        io = table.io()
        return [
            file.copy()
            for snapshot_id in found.chunks
            for file in files._iterate(getattr(table.snapshot(snapshot_id), side)(io))
        ]

    # ------------------------------------------------------------ audit

    def _at(self, snapshot_id: int) -> DataFrame:
        name = ".".join(f"`{part}`" for part in (self._catalog, *self._ref.table.namespace, self._ref.table.name))
        return self._session.read.option("versionAsOf", str(snapshot_id)).table(name)

    def _audit(self) -> None:
        """Compare the branch with what it started from: as many rows, and none without a value it could have."""
        found = self._find()
        if found.step is not Step.WRITE or not found.chunks:
            return
        table = self._table.load()
        added = self._of_chunks(table, found, "addedDataFiles")
        self.rows, self.files = files.rows_of(added), len(added)
        self.bytes = sum(file.fileSizeInBytes() for file in added)
        before, after = self._at(found.base).count(), self._at(found.head).count()
        if before != after:
            raise InvalidTable(
                f"The audit found {after} rows on the branch and {before} before; nothing is published.",
                where=f"{self._ref.table} branch {self._ref.branch}",
                hint="Report this; dropping the branch gives the work up.",
            )
        if _is_full(added, self._backfill):
            return
        left = files.unfilled(self._at(found.head), self._backfill).count()
        if left:
            raise InvalidTable(
                f"The audit found {left} rows without their value on the branch; nothing is published.",
                where=f"{self._ref.table} branch {self._ref.branch}",
                hint="Report this; dropping the branch gives the work up.",
            )

    # ------------------------------------------------------------ publish

    def _publish_or_start_over(self) -> None:
        try:
            self._publish()
        except FilesMoved:
            self._tell(Progress(table=self._ref.table, operation=self._operation.id, step="others changed its files"))
            self._table.drop_branches([self._ref.branch], self._ref.uuid)
            self.stage()

    def _publish(self) -> None:
        """Put the work on main: by pointing main to it while main has not moved, else by reference.

        Either way the branch goes and the properties come in the same commit.
        """
        branch = self._ref.branch

        def build(table: Any, facts: TableFacts, builder: Any) -> bool:
            found = self._position(facts)
            if found.step is not Step.WRITE:
                return False
            if found.is_current and found.chunks:
                builder.setBranchSnapshot(found.head, MAIN)
            elif found.chunks:
                before = self._of_chunks(table, found, "removedDataFiles")
                after = self._of_chunks(table, found, "addedDataFiles")
                overwrite = self._overwrite(table, before, after, found.base)
                builder.setBranchSnapshot(self._table.snapshot(overwrite), MAIN)
            self.main_moved = not found.is_current
            builder.removeRef(branch)
            builder.setProperties(self._properties())
            return True

        self._table.swap(build, uuid=self._ref.uuid, schema_id=self._schema_id, refs=(branch,))

    def _record(self) -> None:
        """Write the properties that should have come with the rows: somebody set them back."""

        def build(table: Any, facts: TableFacts, builder: Any) -> bool:
            if self._position(facts).step is not Step.RECORD:
                return False
            builder.setProperties(self._properties())
            return True

        self._table.swap(build, uuid=self._ref.uuid)

    def _properties(self) -> Any:
        properties = self._session._jvm.java.util.HashMap()
        for key, value in published_properties(self._operation).items():
            properties.put(key, value)
        return properties

    def _conflict(self) -> LakeError:
        return PublishConflict(
            f"Others changed the files of {self._ref.table} {ROUNDS} times while they were being filled.",
            hint="Apply again when compaction and deletes are quiet; main has nothing of it.",
        )


def staging_ref(table: TableIdent, uuid: str, operation: Operation) -> StagingRef:
    """Say where an operation's work lies."""
    return StagingRef(table=table, uuid=uuid, branch=branch_of(operation.id))


def chunk_id_of(paths: Iterable[str]) -> str:
    """Name a chunk by the files it replaces."""
    return hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()[:16]


def _is_full(added: Iterable[Any], backfill: Backfill) -> bool:
    """Say whether the new files' own counts prove that no value is missing."""
    for file in added:
        nulls = file.nullValueCounts()
        if nulls is None or any(nulls.get(column.field_id) != 0 for column in backfill.columns):
            return False
    return True


class _Counter:
    """Tells how far a job is."""

    def __init__(
        self,
        tell: Tell,
        table: TableIdent,
        operation: str,
        tasks: Sequence[files.Task],
        done: Sequence[files.Task],
        chunks: int,
    ) -> None:
        self._tell, self._table, self._operation = tell, table, operation
        self._all, self._files, self._chunks, self._all_chunks = len(tasks), len(done), 0, chunks
        self._all_bytes, self._bytes = sum(t.size for t in tasks), sum(t.size for t in done)
        self._rows = sum(t.rows for t in done)
        self._skipped, self._started = self._bytes, time.monotonic()

    def add(self, chunk: Sequence[files.Task], written: int) -> None:
        """Count a committed chunk."""
        self._files += len(chunk)
        self._chunks += 1
        self._bytes += sum(t.size for t in chunk)
        self._rows += sum(t.rows for t in chunk)
        self.tell()

    def tell(self) -> None:
        """Say how far it is."""
        done = self._bytes - self._skipped
        speed = done / max(time.monotonic() - self._started, 1e-3)
        self._tell(
            Progress(
                table=self._table,
                operation=self._operation,
                step="rewriting",
                chunks=self._chunks,
                all_chunks=self._all_chunks,
                files=self._files,
                all_files=self._all,
                rows=self._rows,
                bytes=self._bytes,
                all_bytes=self._all_bytes,
                percent=100 * self._bytes // self._all_bytes if self._all_bytes else 100,
                eta_seconds=round((self._all_bytes - self._bytes) / speed) if done else None,
            )
        )
