"""One table over the JVM gateway: its facts, its data files, and commits that assert what they rest on.

Iceberg's own `commit()` retries by itself, checks no schema and may delete files after an outcome that nobody knows.
So snapshots are only built by Iceberg (`apply()`), and what becomes of them is one compare-and-swap of ours.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reconciler.engines.asserts import require, requirements
from reconciler.engines.data_files import iterate, listed_rows
from reconciler.engines.data_state import ROOT_STAMP, TableFacts, read_facts
from reconciler.engines.gateway import field_of
from reconciler.engines.java_errors import class_names, translate
from reconciler.engines.site import Build, Change, Draft, FilesMoved, Merge, SnapshotKind, Start
from reconciler.engines.spark_metadata import SparkExecutor, _Request
from reconciler.errors import CommitConflict, CommitStateUnknown, LakeError
from reconciler.model.metadata import MAIN
from reconciler.model.table import TableIdent
from reconciler.ports import CommitOutcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS = 100
"""An ingest that commits all the time wins some races; each lost one costs a read and a list of manifests."""

_AT_ONCE = 5
"""Who lost has the most time until the next commit right then; only after this many losses others get room."""
_LONGEST_PAUSE_SECONDS = 0.1
KEPT_SNAPSHOTS = 1_000_000
_MISSING = "ValidationException"


class StagingTable(SparkExecutor):
    """A table being worked on by one operation."""

    def __init__(self, session: SparkSession, catalog: str, table: TableIdent) -> None:
        """Bind to a table; nothing is contacted yet."""
        super().__init__(session, catalog)
        self.ident = table
        self._before: Any = None

    # ------------------------------------------------------------ observe

    def load(self) -> Any:
        """Return Iceberg's table, freshly loaded."""
        with self._translated(self.ident):
            return self._catalog.loadTable(self._identifier(self.ident))

    def facts(self, operations: Any | None = None) -> TableFacts:
        """Read the metadata, of these operations or freshly."""
        with self._translated(self.ident):
            current = (operations or self._operations(self.ident)).current()
            return read_facts(self._iceberg.TableMetadataParser.toJson(current))

    def outcome(self, *, replayed: bool = False) -> CommitOutcome:
        """Describe the table as it is."""
        with self._translated(self.ident):
            found = self._outcome(self.ident)
        return CommitOutcome(version=found.version, metadata_location=found.metadata_location, replayed=replayed)

    # ------------------------------------------------------------ commit

    def create_branch(self, branch: str, snapshot_id: int, uuid: str, schema_id: int | None) -> None:
        """Make a branch; a no-op when somebody made it meanwhile."""

        def build(draft: Draft) -> bool:
            if branch in draft.facts.refs:
                return False
            # Its snapshots must outlive an expiry that knows nothing of this work.
            ref = self._iceberg.SnapshotRef.branchBuilder(snapshot_id).minSnapshotsToKeep(KEPT_SNAPSHOTS).build()
            _java(draft).builder.setRef(branch, ref)
            return True

        self.swap(build, uuid=uuid, schema_id=schema_id, refs=(branch,))

    def create_root_branch(self, branch: str, uuid: str, schema_id: int | None) -> None:
        """Make a branch of a table without snapshots: it starts from an empty one, so that main stays as it is."""

        def is_wanted(facts: TableFacts) -> bool:
            return branch not in facts.refs and facts.head is None

        def start(facts: TableFacts) -> Change | None:
            stamps = {ROOT_STAMP: "true"}
            if not is_wanted(facts):
                return None
            return Change(before=(), after=(), base=None, stamps=stamps, kind=SnapshotKind.OVERWRITE, branch=branch)

        def build(draft: Draft) -> bool:
            if not is_wanted(draft.facts):
                return False
            made = _java(draft)
            ref = self._iceberg.SnapshotRef.branchBuilder(draft.made).minSnapshotsToKeep(KEPT_SNAPSHOTS)
            made.builder.addSnapshot(made.snapshot)
            made.builder.setRef(branch, ref.build())
            return True

        self.swap(build, start, uuid=uuid, schema_id=schema_id, refs=(MAIN, branch))

    def drop_branches(self, branches: Sequence[str], uuid: str) -> None:
        """Remove branches, as far as they are there."""

        def build(draft: Draft) -> bool:
            present = [branch for branch in branches if branch in draft.facts.refs]
            draft.remove_refs(present)
            return bool(present)

        self.swap(build, uuid=uuid, refs=())

    def swap(
        self,
        build: Build,
        start: Start | None = None,
        *,
        uuid: str,
        schema_id: int | None = None,
        refs: Sequence[str] = (MAIN,),
        reuse: bool = True,
    ) -> bool:
        """Commit what `build` puts into a draft, with the snapshot that `start` asks for.

        `build` says False when there is nothing (left) to do. Another writer's commit, or an outcome that nobody knows,
        starts it over on what the table is then: a commit that did land is found by `build`. The `refs` named are
        asserted. `reuse`: Iceberg's update is kept for the next try, so that a try costs what others committed since;
        not for one that deletes what it wrote.
        """
        table = self.load()
        update: Any | None = None
        unknown: CommitStateUnknown | None = None
        for lost in range(ATTEMPTS):
            pause(lost)
            try:
                if update is None:
                    draft = self._attempt(table, uuid, schema_id, again=lost > 0)
                    wanted = start(draft.facts) if start else None
                    update = self._update(table, wanted) if wanted else None
                if update is not None:
                    draft = self._attempt(table, uuid, schema_id, snapshot=self.snapshot(update))
                if not build(draft):
                    return False
            except (FilesMoved, LakeError):
                if unknown:
                    raise unknown from None
                raise
            except Exception as error:
                raise translate(error, str(self.ident)) from error
            try:
                if self._send(draft, refs):
                    return True
                update = _without_merging(update) if reuse and update is not None else None
            except CommitStateUnknown as error:
                unknown, update = error, None  # look before anything is written again
        raise unknown or CommitConflict(
            f"Other writers got in first {ATTEMPTS} times.", where=str(self.ident), hint="Apply again: it goes on."
        )

    def _attempt(
        self, table: Any, uuid: str, schema_id: int | None, *, again: bool = False, snapshot: Any = None
    ) -> JavaDraft:
        """Look at the table as it is; a snapshot has just been made upon that."""
        with self._translated(self.ident):
            operations = table.operations()
            base = operations.refresh() if again else operations.current()
            facts = self.facts(operations)
            self.require(facts, uuid, schema_id)
            return JavaDraft(self, table, facts, base, snapshot)

    def _send(self, draft: JavaDraft, refs: Sequence[str]) -> bool:
        """Compare and swap: False when somebody was faster."""
        self._before = draft.base if draft.forgets else self._before
        with self._translated(self.ident):
            updated = draft.builder.build()
            changes = updated.changes()
        request = _Request(requirements(draft.facts, {name: draft.facts.head_of(name) for name in refs}), changes)
        return self._commit(draft.table.operations(), draft.base, updated, request, self.ident)

    def snapshot(self, update: Any) -> Any:
        """Let Iceberg write an update's manifests; raises FilesMoved when a file to replace is not what it was.

        It reads the table anew first, and keeps for a next call what it need not do again.
        """
        try:
            return update.apply()
        except Exception as error:
            if _MISSING in class_names(error)[:1]:
                raise FilesMoved from error
            raise translate(error, str(self.ident)) from error

    def require(self, facts: TableFacts, uuid: str, schema_id: int | None) -> None:
        """Raise CommitConflict unless it is still this table, with this schema."""
        require(facts, self.ident, uuid, schema_id)

    # ------------------------------------------------------------ files

    def changed_files(self, snapshot_id: int) -> tuple[list[Any], list[Any]]:
        """Return the data files that a snapshot added, and those that it removed."""
        with self._translated(self.ident):
            table = self.load()
            # With the table's partition specs: a manifest's own may name a column that was dropped since.
            changes = self._iceberg.SnapshotChanges.builderFor(table).snapshot(table.snapshot(snapshot_id)).build()
            added = [file.copy() for file in iterate(changes.addedDataFiles())]
            return added, [file.copy() for file in iterate(changes.removedDataFiles())]

    def listed_rows(self, snapshot_id: int) -> int | None:
        """Add up the live rows that a snapshot's list of manifests states; None where it does not tell."""
        with self._translated(self.ident):
            return listed_rows(self.load(), snapshot_id)

    def delete_file(self, path: str) -> None:
        """Delete one file of the table's storage."""
        with self._translated(self.ident):
            self.load().io().deleteFile(path)

    def read_file(self, path: str) -> bytes:
        """Read one file of the table's storage."""
        with self._translated(self.ident):
            stream = self.load().io().newInputFile(path).newStream()
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def delete_forgotten(self) -> None:
        """Delete the files that were reachable and are not any more, by Iceberg's own comparison of both.

        Its class is private; the pinned runtime and the tests keep this honest.
        """
        if self._before is None:
            return
        with self._translated(self.ident):
            java, table = self._java, self.load()
            cleanup = _constructor(java, "org.apache.iceberg.ReachableFileCleanup", table)
            pool = java.java.util.concurrent.Executors.newFixedThreadPool(4)
            try:
                arguments = self._session.sparkContext._gateway.new_array(java.java.lang.Object, 4)
                arguments[0], arguments[1], arguments[2], arguments[3] = table.io(), pool, pool, None
                everything = self._iceberg.ExpireSnapshots.CleanupLevel.ALL
                cleanup.newInstance(arguments).cleanFiles(self._before, table.operations().current(), everything)
            finally:
                pool.shutdown()

    def _update(self, table: Any, wanted: Change | Merge) -> Any | None:
        """Start an update of Iceberg's that makes the wanted snapshot; None when there is nothing to do."""
        update = self._merge(table, wanted) if isinstance(wanted, Merge) else self._replace(table, wanted)
        if update is not None:
            for key, value in wanted.stamps.items():
                update.set(key, value)
        return update

    def _replace(self, table: Any, wanted: Change) -> Any:
        if wanted.base is None:
            return table.newAppend().toBranch(wanted.branch)
        if wanted.kind is SnapshotKind.REPLACE:
            update = table.newRewrite()
        else:
            update = table.newOverwrite()
            update.validateNoConflictingDeletes()
        for file in wanted.before:
            update.deleteFile(file)
        for file in wanted.after:
            update.addFile(file)
        update.validateFromSnapshot(wanted.base)
        return update if wanted.branch == MAIN else update.toBranch(wanted.branch)

    def _merge(self, table: Any, wanted: Merge) -> Any | None:
        """Iceberg's own action would commit by itself, and delete what it wrote after an outcome that nobody knows."""
        head = table.currentSnapshot()
        manifests = iterate(head.dataManifests(table.io())) if head is not None else ()
        small = sum(manifest.length() < wanted.smaller_than for manifest in manifests)
        wanted.found(small)
        guava = self._java.com.google.common.base  # Spark's own
        return table.rewriteManifests().clusterBy(guava.Functions.constant("together")) if small > 1 else None


class JavaDraft:
    """`Draft` in Iceberg's own metadata builder."""

    def __init__(self, owner: StagingTable, table: Any, facts: TableFacts, base: Any, snapshot: Any) -> None:
        self.facts, self.table, self.base, self.snapshot = facts, table, base, snapshot
        self.builder = owner._iceberg.TableMetadata.buildFrom(base)
        self.made: int | None = None if snapshot is None else snapshot.snapshotId()
        self.forgets = False
        self._java = owner._java

    def place(self, branch: str) -> None:
        """Make the new snapshot a branch's head."""
        self.builder.setBranchSnapshot(self.snapshot, branch)

    def set_main(self, snapshot_id: int) -> None:
        """Point main to a snapshot of a branch."""
        self.builder.setBranchSnapshot(snapshot_id, MAIN)

    def remove_refs(self, names: Sequence[str]) -> None:
        """Remove branches and tags."""
        for name in names:
            self.builder.removeRef(name)

    def forget(self, snapshot_ids: Sequence[int]) -> None:
        """Remove snapshots."""
        gone = self._java.java.util.ArrayList()
        for snapshot_id in snapshot_ids:
            gone.add(self.base.snapshot(snapshot_id))
        if snapshot_ids:
            self.builder.removeSnapshots(gone)
        self.forgets = True

    def set_properties(self, values: Mapping[str, str]) -> None:
        """Set table properties."""
        properties = self._java.java.util.HashMap()
        for key, value in values.items():
            properties.put(key, value)
        self.builder.setProperties(properties)


def _without_merging(update: Any) -> Any:
    """Let Iceberg leave small manifests as they are: with every new one it would write all of them together again.

    Its fields are private; where another Iceberg has others, tries only take longer.
    """
    with contextlib.suppress(Exception):
        producer = update.getClass().getSuperclass()
        for name in ("mergeManager", "deleteMergeManager"):
            manager = field_of(producer, name).get(update)
            field_of(manager.getClass().getSuperclass(), "mergeEnabled").setBoolean(manager, False)
    return update


def pause(lost: int) -> None:
    """Give others room after some lost races."""
    if lost > _AT_ONCE:
        time.sleep(random.uniform(0, _LONGEST_PAUSE_SECONDS))  # noqa: S311


def _java(draft: Draft) -> JavaDraft:
    assert isinstance(draft, JavaDraft)  # noqa: S101
    return draft


def _constructor(java: Any, name: str, table: Any) -> Any:
    loader = table.getClass().getClassLoader()
    found = java.java.lang.Class.forName(name, True, loader).getDeclaredConstructors()[0]
    found.setAccessible(True)
    return found
