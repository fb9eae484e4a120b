"""One table over the JVM gateway: its facts, its data files, and commits that assert what they rest on.

Iceberg's own `commit()` retries by itself, checks no schema and may delete files after an outcome that nobody knows.
So snapshots are only built by Iceberg (`apply()`), and what becomes of them is one compare-and-swap of ours.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler.engines.asserts import require, requirements
from reconciler.engines.data_state import ROOT_STAMP, TableFacts, read_facts
from reconciler.engines.java_errors import class_names, translate
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
_KEPT_SNAPSHOTS = 1_000_000
_MISSING = "ValidationException"


class FilesMoved(Exception):
    """Somebody rewrote or deleted from a file that was to be replaced."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a commit: the table as it is, what is built upon it, and the snapshot that the commit may add."""

    table: Any
    facts: TableFacts
    base: Any
    builder: Any
    snapshot: Any = None


Build = Callable[[Attempt], bool]
Change = Callable[[Any, TableFacts], Any]
"""Start an update of Iceberg's that makes a snapshot; None when the commit needs none."""


class StagingTable(SparkExecutor):
    """A table being worked on by one operation."""

    def __init__(self, session: SparkSession, catalog: str, table: TableIdent) -> None:
        """Bind to a table; nothing is contacted yet."""
        super().__init__(session, catalog)
        self.ident = table

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

        def build(attempt: Attempt) -> bool:
            if branch in attempt.facts.refs:
                return False
            # Its snapshots must outlive an expiry that knows nothing of this work.
            ref = self._iceberg.SnapshotRef.branchBuilder(snapshot_id).minSnapshotsToKeep(_KEPT_SNAPSHOTS).build()
            attempt.builder.setRef(branch, ref)
            return True

        self.swap(build, uuid=uuid, schema_id=schema_id, refs=(branch,))

    def create_root_branch(self, branch: str, uuid: str, schema_id: int | None) -> None:
        """Make a branch of a table without snapshots: it starts from an empty one, so that main stays as it is."""

        def is_wanted(facts: TableFacts) -> bool:
            return branch not in facts.refs and facts.head is None

        def change(table: Any, facts: TableFacts) -> Any:
            return table.newAppend().set(ROOT_STAMP, "true").toBranch(branch) if is_wanted(facts) else None

        def build(attempt: Attempt) -> bool:
            if not is_wanted(attempt.facts):
                return False
            snapshot, builder = attempt.snapshot, attempt.builder
            ref = self._iceberg.SnapshotRef.branchBuilder(snapshot.snapshotId()).minSnapshotsToKeep(_KEPT_SNAPSHOTS)
            builder.addSnapshot(snapshot)
            builder.setRef(branch, ref.build())
            return True

        self.swap(build, change, uuid=uuid, schema_id=schema_id, refs=(MAIN, branch))

    def drop_branches(self, branches: Sequence[str], uuid: str) -> None:
        """Remove branches, as far as they are there."""

        def build(attempt: Attempt) -> bool:
            present = [branch for branch in branches if branch in attempt.facts.refs]
            for branch in present:
                attempt.builder.removeRef(branch)
            return bool(present)

        self.swap(build, uuid=uuid, refs=())

    def swap(
        self,
        build: Build,
        change: Change | None = None,
        *,
        uuid: str,
        schema_id: int | None = None,
        refs: Sequence[str] = (MAIN,),
        reuse: bool = True,
    ) -> bool:
        """Commit what `build` puts into the metadata builder; it says False when there is nothing (left) to do.

        Another writer's commit, or an outcome that nobody knows, starts it over on what the table is then: a commit
        that did land is found by `build`. The `refs` named are asserted. `reuse`: the update that `change` starts is
        kept for the next try, so that a try costs what others committed since; not for one that deletes what it wrote.
        """
        table = self.load()
        update: Any | None = None
        unknown: CommitStateUnknown | None = None
        for lost in range(ATTEMPTS):
            _pause(lost)
            try:
                if update is None:
                    attempt = self._attempt(table, uuid, schema_id, again=lost > 0)
                    update = change(table, attempt.facts) if change else None
                if update is not None:
                    attempt = self._attempt(table, uuid, schema_id, snapshot=self.snapshot(update))
                if not build(attempt):
                    return False
            except (FilesMoved, LakeError):
                if unknown:
                    raise unknown from None
                raise
            except Exception as error:
                raise translate(error, str(self.ident)) from error
            try:
                if self._send(attempt, refs):
                    return True
                update = _without_merging(update) if reuse and update is not None else None
            except CommitStateUnknown as error:
                unknown, update = error, None  # look before anything is written again
        raise unknown or CommitConflict(
            f"Other writers got in first {ATTEMPTS} times.", where=str(self.ident), hint="Apply again: it goes on."
        )

    def _attempt(
        self, table: Any, uuid: str, schema_id: int | None, *, again: bool = False, snapshot: Any = None
    ) -> Attempt:
        """Look at the table as it is; a snapshot has just been made upon that."""
        with self._translated(self.ident):
            operations = table.operations()
            base = operations.refresh() if again else operations.current()
            facts = self.facts(operations)
            self.require(facts, uuid, schema_id)
            return Attempt(table, facts, base, self._iceberg.TableMetadata.buildFrom(base), snapshot)

    def _send(self, attempt: Attempt, refs: Sequence[str]) -> bool:
        """Compare and swap: False when somebody was faster."""
        with self._translated(self.ident):
            updated = attempt.builder.build()
            changes = list(updated.changes())
        request = _Request(requirements(attempt.facts, {name: attempt.facts.head_of(name) for name in refs}), changes)
        return self._commit(attempt.table.operations(), attempt.base, updated, request, self.ident)

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


def _without_merging(update: Any) -> Any:
    """Let Iceberg leave small manifests as they are: with every new one it would write all of them together again.

    Its fields are private; where another Iceberg has others, tries only take longer.
    """
    with contextlib.suppress(Exception):
        producer = update.getClass().getSuperclass()
        for name in ("mergeManager", "deleteMergeManager"):
            manager = _field(producer, name).get(update)
            _field(manager.getClass().getSuperclass(), "mergeEnabled").setBoolean(manager, False)
    return update


def _field(owner: Any, name: str) -> Any:
    field = owner.getDeclaredField(name)
    field.setAccessible(True)
    return field


def _pause(lost: int) -> None:
    if lost > _AT_ONCE:
        time.sleep(random.uniform(0, _LONGEST_PAUSE_SECONDS))  # noqa: S311
