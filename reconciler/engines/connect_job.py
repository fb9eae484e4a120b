"""`Engine` over Spark Connect, which has no gateway to Iceberg: Spark reads and appends, the catalog does the rest.

The new files are appended to the operation's branch, beside the ones they stand for; which files those are is said in
each snapshot's stamp. To publish, the catalog replaces them on main by reference, in one commit. A chunk that was
appended twice, by a server that went on after its client was gone, counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from reconciler.engines.asserts import require
from reconciler.engines.backfill_kind import BackfillKind
from reconciler.engines.catalog_table import CatalogTable, remove_branch
from reconciler.engines.connect_chunks import accepted, chunks, is_whole, own_snapshots, stamps_of, task_of, total
from reconciler.engines.connect_rows import ConnectRows
from reconciler.engines.data_files import CHUNK_BYTES, Task
from reconciler.engines.data_job import SETTINGS
from reconciler.engines.data_progress import Counter, Tell
from reconciler.engines.data_state import (
    Position,
    Step,
    TableFacts,
    position,
)
from reconciler.engines.records import Recorder
from reconciler.engines.sql import table_name
from reconciler.engines.staged import ROUNDS, PublishConflict
from reconciler.engines.staging import FilesMoved
from reconciler.errors import CommitConflict, InvalidTable, LakeError, Unsupported
from reconciler.model.metadata import JsonObject
from reconciler.model.table import TableIdent
from reconciler.plan.constraints import audited
from reconciler.plan.data import done_key
from reconciler.plan.events import Progress
from reconciler.plan.operations import Backfill, Operation
from reconciler.plan.splicing import lacking
from reconciler.ports import CommitOutcome, StagingCatalog, StagingRef

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

_WHOLE = str(1 << 50)  # larger than any file: never split one, never put two into one task
_CHUNK_FILES = 2_000
MakeTable = Callable[[StagingCatalog, TableIdent], CatalogTable]


class ConnectEngine:
    """`Engine` over a catalog that we and a Spark Connect server both reach, under one name."""

    def __init__(
        self,
        connect: Callable[[], SparkSession],
        name: str,
        catalog: StagingCatalog,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        table: MakeTable = CatalogTable,
    ) -> None:
        """Contact nothing yet; each operation gets a session of its own."""
        self._connect, self._name, self._catalog = connect, name, catalog
        self._chunk_bytes, self._table = chunk_bytes, table

    def execute(self, operation: Operation, ref: StagingRef, tell: Tell) -> ConnectWork:
        """Write what is left of an operation on its branch, and audit it."""
        if not isinstance(operation.work, Backfill):
            raise Unsupported(f"Spark Connect cannot run {operation.kind.value}.", hint="Use the runtime local.")
        session = self._connect()
        for key, value in SETTINGS.items():
            session.conf.set(key, value)
        rows = ConnectRows(session, table_name(self._name, ref.table), ref)
        work = ConnectWork(rows, self._table(self._catalog, ref.table), operation, ref, tell, self._chunk_bytes)
        try:
            work.stage()
        except BaseException:
            session.stop()
            raise
        return work

    resume = execute


class ConnectWork:
    """`Staged` over Spark Connect."""

    def __init__(
        self,
        rows: ConnectRows,
        table: CatalogTable,
        operation: Operation,
        ref: StagingRef,
        tell: Tell,
        chunk_bytes: int,
    ) -> None:
        assert isinstance(operation.work, Backfill)  # noqa: S101
        self._rows, self._table, self._operation, self._ref, self._tell = rows, table, operation, ref, tell
        self._backfill, self._chunk_bytes = operation.work, chunk_bytes
        self._kind = BackfillKind(operation.work, chunk_bytes)
        self._recorder = Recorder(operation, ref)
        self._tasks_of: dict[int, list[Task]] = {}
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
                self._table.drop_branch(self._ref.branch, self._ref.uuid)
                found = self._find()
            if found.step is Step.CREATE_BRANCH:
                self._create_branch()
                found = self._find()
            if found.step is not Step.WRITE:
                return
            self._replayed = False
            self._write(found)
            if self._audit():
                return
        raise self._conflict()

    def commit(self) -> CommitOutcome:
        """Publish in one commit with its properties, and drop the branch; a second call finds it done."""
        for _ in range(ROUNDS):
            found = self._find()
            match found.step:
                case Step.DONE:
                    self._rows.close()
                    return self._table.outcome(replayed=self._replayed)
                case Step.DROP_BRANCH:
                    self._table.drop_branch(self._ref.branch, self._ref.uuid)
                case Step.RECORD:
                    self._record()
                case Step.WRITE:
                    self._publish_or_start_over()
                case Step.CREATE_BRANCH | Step.START_OVER:
                    self.stage()
        if self._find().step is Step.DONE:
            self._rows.close()
            return self._table.outcome(replayed=self._replayed)
        raise self._conflict()

    def abort(self) -> None:
        """Drop the branch; what was published stays published."""
        self._rows.close()
        self._table.drop_branch(self._ref.branch, self._ref.uuid)

    # ------------------------------------------------------------ steps

    def _find(self) -> Position:
        """Ask the catalog where this operation stands; the first schema seen is the one it is for."""
        facts = self._table.facts()
        require(facts, self._ref.table, self._ref.uuid, None)
        if self._schema_id is None:
            self._schema_id = facts.current_schema_id
        return self._position(facts)

    def _position(self, facts: TableFacts) -> Position:
        """Tell the next step; an operation that a newer one has replaced must not come back."""
        found = position(facts, self._operation, appends=True)
        if found.step in (Step.DONE, Step.DROP_BRANCH) or not self._kind.is_superseded(facts):
            return found
        if found.step is Step.RECORD:
            return Position(step=Step.DONE)
        raise CommitConflict(
            "A newer operation of the same kind has been published.", where=str(self._ref.table), hint="Plan again."
        )

    def _create_branch(self) -> None:
        head = self._table.facts().head
        if head is None:
            raise CommitConflict("The table has no rows any more.", where=str(self._ref.table), hint="Plan again.")
        self._table.create_branch(self._ref.branch, head, self._ref.uuid, self._schema_id)

    def _tasks(self, base: int) -> list[Task]:
        """List the files of the base that are to be replaced, in an order that every run finds again."""
        if base not in self._tasks_of:
            live = self._table.files(base)
            tasks = [task_of(file) for file in live if lacking(file, self._backfill.columns)]
            if self._backfill.is_fill and tasks:
                self._rows.refresh()
                wanted = self._rows.unfilled_files(self._backfill)
                tasks = [task for task in tasks if task.path in wanted]
            self._tasks_of[base] = sorted(tasks, key=lambda task: (task.spec_id, task.path))
        return self._tasks_of[base]

    def _write(self, found: Position) -> None:
        """Append, chunk by chunk, what stands for the files that no earlier chunk stands for."""
        tasks = self._tasks(found.base)
        done = accepted(self._table.facts(), found, tasks)
        covered = {task.path for start, end in done.values() for task in tasks[start:end]}
        left = list(chunks(tasks, covered, self._chunk_bytes))
        earlier = [task for task in tasks if task.path in covered]
        counter = Counter(self._tell, self._ref.table, self._operation.id, self._kind.step, tasks, earlier, len(left))
        counter.tell()
        for start, end in left:
            chunk = tasks[start:end]
            paths = [task.path for task in chunk]
            selection = self._table.select(found.base, paths, self._operation.id, self._ref.uuid, self._schema_id)
            stamps = stamps_of(self._operation.id, found.base, tasks, start, end)
            self._rows.refresh()
            self._append(selection, stamps)
            counter.add(chunk)

    def _append(self, selection: int, stamps: Mapping[str, str]) -> None:
        """Let Spark append; when its answer is lost, the branch tells whether it has."""
        try:
            self._rows.append(selection, self._backfill, stamps)
        except LakeError:
            facts = self._table.facts()
            require(facts, self._ref.table, self._ref.uuid, self._schema_id)
            branch = facts.ancestors(facts.head_of(self._ref.branch))
            if not any(stamps.items() <= snapshot.summary.items() for snapshot in branch):
                raise

    # ------------------------------------------------------------ audit

    def _audit(self) -> bool:
        """Compare what was appended with what it stands for; False: the branch is not whole (any more)."""
        found = self._find()
        if found.step is not Step.WRITE:
            return True
        facts, tasks = self._table.facts(), self._tasks(found.base)
        done = accepted(facts, found, tasks)
        if not is_whole(done.values(), len(tasks)):
            return False
        totals = {s.snapshot_id: s.summary for s in facts.snapshots if s.snapshot_id in done}
        for snapshot_id, (start, end) in done.items():
            self._check_rows(found.base, tasks[start:end], total(totals[snapshot_id], "added-records"))
        if done:
            self._check_values(facts, found)
        self.files = sum(total(summary, "added-data-files") for summary in totals.values())
        self.rows = sum(total(summary, "added-records") for summary in totals.values())
        self.bytes = sum(total(summary, "added-files-size") for summary in totals.values())
        return True

    def _check_rows(self, base: int, chunk: Sequence[Task], appended: int) -> None:
        expected = sum(task.rows for task in chunk)
        if any(task.has_deletes for task in chunk):
            paths = [task.path for task in chunk]
            selection = self._table.select(base, paths, self._operation.id, self._ref.uuid, self._schema_id)
            self._rows.refresh()
            expected = self._rows.count(selection)
        if appended != expected:
            raise self._failed(f"{appended} rows in place of {expected}", "Report this")

    def _check_values(self, facts: TableFacts, found: Position) -> None:
        names = frozenset(column.name for column in self._backfill.columns)
        checks = audited(facts.properties, names)
        self._rows.refresh()
        conditions = [self._rows.unfilled_condition(self._backfill), *(f"NOT ({check.sql})" for check in checks)]
        left, *broken = self._rows.count_appended(found.base, found.head, conditions)
        if left:
            raise self._failed(f"{left} rows without their value", "Report this")
        for check, rows in zip(checks, broken, strict=True):
            if rows:
                raise self._failed(f"{rows} rows that {check.fault}", "Correct the rows' inputs or the constraint")

    def _failed(self, what: str, hint: str) -> InvalidTable:
        return InvalidTable(
            f"The audit found {what} on the branch; nothing is published.",
            where=f"{self._ref.table} branch {self._ref.branch}",
            hint=f"{hint}; dropping the branch gives the work up.",
        )

    # ------------------------------------------------------------ publish

    def _publish_or_start_over(self) -> None:
        try:
            self._publish()
        except FilesMoved:
            self._tell(Progress(table=self._ref.table, operation=self._operation.id, step="others changed its files"))
            self._table.drop_branch(self._ref.branch, self._ref.uuid)
            self.stage()

    def _publish(self) -> None:
        """Put the new files on main in the place of the old ones; branch and leftovers go in the same commit."""

        def build(facts: TableFacts) -> Sequence[JsonObject]:
            found = self._position(facts)
            if found.step is not Step.WRITE:
                return ()
            tasks = self._tasks(found.base)
            done = accepted(facts, found, tasks)
            if not is_whole(done.values(), len(tasks)):
                raise FilesMoved  # another run began anew
            self.main_moved = not found.is_current
            updates: list[JsonObject] = []
            published_id = facts.head
            if tasks:
                made = self._table.replace(found.base, [task.path for task in tasks], list(done), self._operation.id)
                if made is None:
                    raise FilesMoved
                published_id, update = made
                updates += [update, self._table.set_main(facts, published_id)]
            return [
                *updates,
                remove_branch(self._ref.branch),
                *self._forgotten(facts),
                self._properties(facts, published_id),
            ]

        self._table.swap(build, uuid=self._ref.uuid, schema_id=self._schema_id, refs=(self._ref.branch,))

    def _forgotten(self, facts: TableFacts) -> list[JsonObject]:
        ours = own_snapshots(facts, self._operation.id, self._ref.branch)
        return [{"action": "remove-snapshots", "snapshot-ids": ours}] if ours else []

    def _record(self) -> None:
        """Write the properties that should have come with the rows: somebody set them back."""

        def build(facts: TableFacts) -> Sequence[JsonObject]:
            if self._position(facts).step is not Step.RECORD:
                return ()
            return (self._properties(facts, facts.head),)

        self._table.swap(build, uuid=self._ref.uuid)

    def _properties(self, facts: TableFacts, published_id: int | None) -> JsonObject:
        written = dict(self._kind.properties(facts))
        self._recorder.files, self._recorder.rows, self._recorder.bytes = self.files, self.rows, self.bytes
        history = self._recorder.properties(facts, written, published_id=published_id)
        values = {**written, **history, done_key(self._operation): self._operation.id}
        return {"action": "set-properties", "updates": dict(values)}

    def _conflict(self) -> LakeError:
        return PublishConflict(
            f"Others changed the files of {self._ref.table} {ROUNDS} times while they were being replaced.",
            hint="Apply again when compaction and deletes are quiet; main has nothing of it.",
        )
