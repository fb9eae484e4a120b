"""One table over the JVM gateway: its facts, its data files, and commits that assert what they rest on.

Iceberg's own `commit()` retries by itself, checks no schema and may delete files after an outcome that nobody knows.
So snapshots are only built by Iceberg (`apply()`), and what becomes of them is one compare-and-swap of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

ATTEMPTS = 30
"""An ingest that commits all the time wins some races; each lost one costs a read and no rewrite."""

_KEPT_SNAPSHOTS = 1_000_000
_MISSING = "ValidationException"


class FilesMoved(Exception):
    """Somebody rewrote or deleted from a file that was to be replaced."""


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

        def build(table: Any, facts: TableFacts, builder: Any) -> bool:
            if branch in facts.refs:
                return False
            # Its snapshots must outlive an expiry that knows nothing of this work.
            ref = self._iceberg.SnapshotRef.branchBuilder(snapshot_id).minSnapshotsToKeep(_KEPT_SNAPSHOTS).build()
            builder.setRef(branch, ref)
            return True

        self.swap(build, uuid=uuid, schema_id=schema_id, refs=(branch,))

    def create_root_branch(self, branch: str, uuid: str, schema_id: int | None) -> None:
        """Make a branch of a table without snapshots: it starts from an empty one, so that main stays as it is."""

        def build(table: Any, facts: TableFacts, builder: Any) -> bool:
            if branch in facts.refs or facts.head is not None:
                return False
            empty = table.newAppend().set(ROOT_STAMP, "true").toBranch(branch)
            snapshot = self.snapshot(empty)
            ref = self._iceberg.SnapshotRef.branchBuilder(snapshot.snapshotId()).minSnapshotsToKeep(_KEPT_SNAPSHOTS)
            builder.addSnapshot(snapshot)
            builder.setRef(branch, ref.build())
            return True

        self.swap(build, uuid=uuid, schema_id=schema_id, refs=(branch,))

    def drop_branches(self, branches: Sequence[str], uuid: str) -> None:
        """Remove branches, as far as they are there."""

        def build(table: Any, facts: TableFacts, builder: Any) -> bool:
            present = [branch for branch in branches if branch in facts.refs]
            for branch in present:
                builder.removeRef(branch)
            return bool(present)

        self.swap(build, uuid=uuid)

    def swap(
        self,
        build: Callable[[Any, TableFacts, Any], bool],
        *,
        uuid: str,
        schema_id: int | None = None,
        refs: Sequence[str] = (),
    ) -> bool:
        """Commit what `build` puts into the metadata builder; it says False when there is nothing (left) to do.

        Another writer's commit, or an outcome that nobody knows, starts it over on what the table is then: a commit
        that did land is found by `build`. Main is always asserted, and the `refs` named.
        """
        unknown: CommitStateUnknown | None = None
        for _ in range(ATTEMPTS):
            with self._translated(self.ident):
                table = self._catalog.loadTable(self._identifier(self.ident))
                operations = table.operations()
                facts = self.facts(operations)
                self.require(facts, uuid, schema_id)
                builder = self._iceberg.TableMetadata.buildFrom(operations.current())
            try:
                if not build(table, facts, builder):
                    return False
            except (FilesMoved, LakeError):
                if unknown:
                    raise unknown from None
                raise
            except Exception as error:
                raise translate(error, str(self.ident)) from error
            with self._translated(self.ident):
                base = operations.current()
                updated = builder.build()
                changes = list(updated.changes())
            named = {name: facts.head_of(name) for name in (*refs, MAIN)}
            request = _Request(requirements(facts, named), changes)
            try:
                if self._commit(operations, base, updated, request, self.ident):
                    return True
            except CommitStateUnknown as error:
                unknown = error
        raise unknown or CommitConflict(
            f"Other writers got in first {ATTEMPTS} times.", where=str(self.ident), hint="Apply again: it goes on."
        )

    def snapshot(self, overwrite: Any) -> Any:
        """Let Iceberg write an overwrite's manifests; raises FilesMoved when a file to replace is not what it was."""
        try:
            return overwrite.apply()
        except Exception as error:
            if _MISSING in class_names(error)[:1]:
                raise FilesMoved from error
            raise translate(error, str(self.ident)) from error

    def require(self, facts: TableFacts, uuid: str, schema_id: int | None) -> None:
        """Raise CommitConflict unless it is still this table, with this schema."""
        require(facts, self.ident, uuid, schema_id)
