"""Carry out whatever changes rows: write on a branch, audit, publish in one commit.

Every run asks the catalog where the operation stands (`data_state`) and does the next step, so a crash anywhere, a lost
answer or a second runner end in the same table. Main never shows a part of it, and what others commit meanwhile stays.
What an operation does to which files is its `Kind`; this machine is the same for all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from reconciler.engines.constraint_audit import audit_constraints
from reconciler.engines.data_files import Task, rows_of
from reconciler.engines.data_progress import Counter
from reconciler.engines.data_state import CHUNK_STAMP, OPERATION_STAMP, Position, Step, TableFacts, position
from reconciler.engines.records import Recorder
from reconciler.engines.site import Change, Draft, FilesMoved, Site, SnapshotKind
from reconciler.errors import CommitConflict, InvalidTable, LakeError
from reconciler.model.metadata import MAIN
from reconciler.model.table import TableIdent
from reconciler.plan.data import branch_of, done_key
from reconciler.plan.events import Progress
from reconciler.plan.operations import Operation
from reconciler.ports import CommitOutcome, StagingRef

ROUNDS = 4
"""How often work starts over because others rewrote or deleted what was being replaced."""


class PublishConflict(CommitConflict):
    """Others kept rewriting the files that were to be replaced."""

    reason = "PublishConflict"


class Kind(Protocol):
    """What one kind of work does to a table's files; `step` is the word for it in progress events."""

    step: str
    snapshots: SnapshotKind

    def is_superseded(self, facts: TableFacts) -> bool:
        """Say whether a newer operation of this kind has been published: this one must not come back."""
        ...

    def tasks(self, site: Site, base: int) -> Sequence[Task]:
        """List the files of the base snapshot that are to be replaced, in a stable order."""
        ...

    def chunks(self, tasks: Sequence[Task]) -> Sequence[Sequence[Task]]:
        """Group them into commits on the branch. A chunk without files only adds some."""
        ...

    def make(self, site: Site, chunk: Sequence[Task], base: int) -> Sequence[Any]:
        """Write the files that replace a chunk and return them; commit nothing."""
        ...

    def keeps_rows(self) -> bool:
        """Say whether as many rows come out as went in, which is then checked per chunk and in the audit."""
        ...

    def audit(self, site: Site, base: int, head: int, added: Sequence[Any]) -> None:
        """Raise InvalidTable when the branch is not what it should be; counting rows is done already."""
        ...

    def properties(self, facts: TableFacts) -> Mapping[str, str]:
        """Return the properties that ride in the publishing commit, besides the done property."""
        ...


class StagedWork:
    """`Staged` for any kind of work."""

    def __init__(self, site: Site, kind: Kind) -> None:
        self._site, self._kind = site, kind
        self._table, self._operation, self._ref, self._tell = site.table, site.operation, site.ref, site.tell
        self._recorder = Recorder(site.operation, site.ref)
        self._changed: dict[int, tuple[list[Any], list[Any]]] = {}
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
        found = position(facts, self._operation)
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
            self._table.create_root_branch(self._ref.branch, self._ref.uuid, self._schema_id)
        else:
            self._table.create_branch(self._ref.branch, head, self._ref.uuid, self._schema_id)

    def _write(self, found: Position) -> None:
        """Replace, chunk by chunk, the files of the base that no earlier chunk replaced."""
        _, removed = self._of_chunks(found)
        replaced = {str(file.location()) for file in removed}
        tasks = self._kind.tasks(self._site, found.base)
        chunks = self._kind.chunks([task for task in tasks if task.path not in replaced])
        earlier = [task for task in tasks if task.path in replaced]
        counter = Counter(self._tell, self._ref.table, self._operation.id, self._kind.step, tasks, earlier, len(chunks))
        counter.tell()
        stamps = self._stamps(self._table.facts())
        for chunk in chunks:
            if chunk_id_of(task.path for task in chunk) not in stamps:
                made = self._kind.make(self._site, chunk, found.base)
                self._check_rows(chunk, made)
                self._commit_chunk(chunk, made, found.base)
            counter.add(chunk)

    def _check_rows(self, chunk: Sequence[Task], made: Sequence[Any]) -> None:
        if not self._kind.keeps_rows() or any(task.has_deletes for task in chunk):
            return  # how many rows are live is for the audit, which counts them all
        before, after = sum(task.rows for task in chunk), rows_of(made)
        if before != after:
            raise InvalidTable(
                f"A chunk of {before} rows came out with {after}; nothing of it was committed.",
                where=str(self._ref.table),
                hint="Report this.",
            )

    def _commit_chunk(self, chunk: Sequence[Task], made: Sequence[Any], base: int) -> None:
        """Commit one chunk on the branch, unless a run beside this one has just done so."""
        chunk_id = chunk_id_of(task.path for task in chunk)
        branch = self._ref.branch

        def start(facts: TableFacts) -> Change | None:
            if chunk_id in self._stamps(facts):
                return None
            if branch not in facts.refs:
                raise self._displaced()
            return self._change([task.java.file() for task in chunk], made, base, branch, {CHUNK_STAMP: chunk_id})

        def build(draft: Draft) -> bool:
            if chunk_id in self._stamps(draft.facts):
                return False
            draft.place(branch)
            return True

        # snapshots are numbered table-wide: one more on main must be a lost race, and not a refusal of our number
        self._table.swap(build, start, uuid=self._ref.uuid, schema_id=self._schema_id, refs=(MAIN, branch))

    def _change(
        self,
        before: Sequence[Any],
        after: Sequence[Any],
        base: int,
        branch: str,
        stamps: Mapping[str, str] = {},
    ) -> Change:
        """Describe the snapshot that puts some files in the place of others."""
        stamped = {OPERATION_STAMP: self._operation.id, **stamps}
        kind = self._kind.snapshots
        return Change(before=before, after=after, base=base, stamps=stamped, kind=kind, branch=branch)

    def _stamps(self, facts: TableFacts) -> set[str]:
        mine = self._operation.id
        return {
            s.summary.get(CHUNK_STAMP, "")
            for s in facts.ancestors(facts.head_of(self._ref.branch))
            if s.summary.get(OPERATION_STAMP) == mine
        }

    def _of_chunks(self, found: Position) -> tuple[list[Any], list[Any]]:
        """Collect the files that this operation's snapshots added, and those that they removed.

        A snapshot never changes, so each is read once: an ingest that commits all the time leaves little time to win.
        """
        for snapshot_id in found.chunks:
            if snapshot_id not in self._changed:
                self._changed[snapshot_id] = self._table.changed_files(snapshot_id)
        added = [file for snapshot_id in found.chunks for file in self._changed[snapshot_id][0]]
        return added, [file for snapshot_id in found.chunks for file in self._changed[snapshot_id][1]]

    # ------------------------------------------------------------ audit

    def _audit(self) -> None:
        """Compare the branch with what it started from; nothing is published when it is not as it should be."""
        found = self._find()
        if found.step is not Step.WRITE or not found.chunks:
            return
        added, _ = self._of_chunks(found)
        self.rows, self.files = rows_of(added), len(added)
        self.bytes = sum(file.fileSizeInBytes() for file in added)
        if self._kind.keeps_rows() and not self._lists_as_many(found):
            before, after = self._site.at(found.base).count(), self._site.at(found.head).count()
            if before != after:
                raise InvalidTable(
                    f"The audit found {after} rows on the branch and {before} before; nothing is published.",
                    where=self._site.branch_place,
                    hint="Report this; dropping the branch gives the work up.",
                )
        self._kind.audit(self._site, found.base, found.head, added)
        audit_constraints(self._site, found.head, added)

    def _lists_as_many(self, found: Position) -> bool:
        """Say whether the manifests alone tell that the branch has as many rows as what it started from."""
        before, after = (self._table.listed_rows(snapshot_id) for snapshot_id in (found.base, found.head))
        return before is not None and before == after

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
        chunks: tuple[int, ...] = ()

        def start(facts: TableFacts) -> Change | None:
            nonlocal chunks
            found = self._position(facts)
            if found.step is not Step.WRITE or found.is_current or not found.chunks:
                return None
            chunks = found.chunks
            after, before = self._of_chunks(found)
            return self._change(before, after, found.base, MAIN)

        def build(draft: Draft) -> bool:
            found = self._position(draft.facts)
            if found.step is not Step.WRITE:
                return False
            published_id = draft.facts.head
            if draft.made is not None:
                if found.chunks != chunks:  # tries are built once: another run of this work began it anew meanwhile
                    raise self._displaced()
                published_id = draft.made
                draft.place(MAIN)
            elif found.chunks:
                published_id = found.head
                draft.set_main(found.head)
            self.main_moved = not found.is_current
            draft.remove_refs([branch])
            draft.set_properties(self._properties(draft.facts, published_id))
            return True

        self._table.swap(build, start, uuid=self._ref.uuid, schema_id=self._schema_id, refs=(MAIN, branch))

    def _record(self) -> None:
        """Write the properties that should have come with the rows: somebody set them back."""

        def build(draft: Draft) -> bool:
            if self._position(draft.facts).step is not Step.RECORD:
                return False
            draft.set_properties(self._properties(draft.facts))
            return True

        self._table.swap(build, uuid=self._ref.uuid)

    def _properties(self, facts: TableFacts, published_id: int | None = None) -> dict[str, str]:
        written = dict(self._kind.properties(facts))
        self._recorder.files, self._recorder.rows, self._recorder.bytes = self.files, self.rows, self.bytes
        history = self._recorder.properties(facts, written, published_id=published_id)
        return {**written, **history, done_key(self._operation): self._operation.id}

    def _displaced(self) -> LakeError:
        return CommitConflict(
            "Its branch was dropped meanwhile: another plan, or another run of this one, took its place.",
            where=str(self._ref.table),
            hint="Plan again.",
        )

    def _conflict(self) -> LakeError:
        return PublishConflict(
            f"Others changed the files of {self._ref.table} {ROUNDS} times while they were being replaced.",
            hint="Apply again when compaction and deletes are quiet; main has nothing of it.",
        )


def staging_ref(table: TableIdent, uuid: str, operation: Operation) -> StagingRef:
    """Say where an operation's work lies."""
    return StagingRef(table=table, uuid=uuid, branch=branch_of(operation.id))


def chunk_id_of(paths: Iterable[str]) -> str:
    """Name a chunk by the files it replaces."""
    return hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()[:16]
