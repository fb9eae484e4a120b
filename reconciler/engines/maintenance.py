"""Maintenance that works on metadata and files, not on rows: expire snapshots, rewrite manifests, delete orphan files.

Each step is done in `commit`, asks the catalog first whether it was done before, and deletes a file only when nothing
that the catalog has names it: after a commit that is known to have happened, or because no metadata ever did.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from reconciler.engines.data_files import iterate
from reconciler.engines.data_state import OPERATION_STAMP, TableFacts
from reconciler.engines.java_errors import translate
from reconciler.engines.records import Recorder
from reconciler.engines.staging import Attempt
from reconciler.errors import InvalidTable
from reconciler.model.metadata import MAIN, to_ref
from reconciler.plan.data import done_key
from reconciler.plan.events import Progress
from reconciler.plan.expiry import Expiry, SnapshotTime, expire
from reconciler.plan.orphans import removable
from reconciler.plan.table_work import Maintain, MaintenanceStep
from reconciler.ports import CommitOutcome

if TYPE_CHECKING:
    from reconciler.engines.staged import Site


_MANIFEST_TARGET = "commit.manifest.target-size-bytes"
_MANIFEST_BYTES = 8 << 20


class MaintenanceWork:
    """`Staged` for a step of maintenance: nothing is staged, `commit` does it."""

    def __init__(self, site: Site, work: Maintain) -> None:
        """Contact nothing yet."""
        self._site, self._work = site, work
        self._table, self._operation, self._ref = site.table, site.operation, site.ref
        self._recorder = Recorder(site.operation, site.ref)
        self.main_moved = False
        self.rows = self.files = self.bytes = 0

    def stage(self) -> None:
        """Nothing is prepared."""

    def abort(self) -> None:
        """Nothing was staged."""

    def commit(self) -> CommitOutcome:
        """Do the step, unless it was done."""
        facts = self._table.facts()
        self._table.require(facts, self._ref.uuid, None)
        if self._is_done(facts):
            return self._table.outcome(replayed=True)
        match self._work.step:
            case MaintenanceStep.EXPIRE_SNAPSHOTS:
                self._expire()
            case MaintenanceStep.REWRITE_MANIFESTS:
                self._rewrite_manifests()
            case MaintenanceStep.REMOVE_ORPHAN_FILES:
                self._remove_orphans()
            case MaintenanceStep.COMPACT:
                raise AssertionError("compaction is staged work")
        return self._table.outcome()

    def _is_done(self, facts: TableFacts) -> bool:
        return facts.properties.get(done_key(self._operation)) == self._operation.id

    def _tell(self, step: str) -> None:
        self._site.tell(Progress(table=self._ref.table, operation=self._operation.id, step=step))

    # ------------------------------------------------------------ expire snapshots

    def _expire(self) -> None:
        """Forget snapshots in one commit; then, and only then, delete what only they named.

        When the commit's outcome was unknown, `swap` has looked for it: either way it has happened when it returns.
        """
        before: list[Any] = []

        def build(attempt: Attempt) -> bool:
            if self._is_done(attempt.facts):
                return False
            before.append(attempt.base)
            found = expiry_of(attempt.facts, self._work, now_ms=_now_ms())
            gone = self._site.session._jvm.java.util.ArrayList()
            for snapshot_id in found.snapshots:
                gone.add(attempt.base.snapshot(snapshot_id))
            for name in found.refs:
                attempt.builder.removeRef(name)
            if found.snapshots:
                attempt.builder.removeSnapshots(gone)
            self._recorder.files = len(found.snapshots)
            self._tell(f"forgetting {len(found.snapshots)} snapshots and {len(found.refs)} refs")
            attempt.builder.setProperties(self._properties(attempt.facts))
            return True

        # Every ref is asserted: a tag made meanwhile must start it over.
        self._table.swap(build, uuid=self._ref.uuid, refs=sorted({MAIN, *self._table.facts().refs}))
        if before:
            self._delete_unreachable(before[-1])

    def _delete_unreachable(self, before: Any) -> None:
        """Delete the files that were reachable and are not any more, by Iceberg's own comparison of both.

        Its class is private; the pinned runtime and the tests keep this honest.
        """
        java = self._site.session._jvm
        table = self._table.load()
        after = table.operations().current()
        cleanup = _constructor(java, "org.apache.iceberg.ReachableFileCleanup", table)
        pool = java.java.util.concurrent.Executors.newFixedThreadPool(4)
        try:
            gateway = self._site.session.sparkContext._gateway
            arguments = gateway.new_array(java.java.lang.Object, 4)
            arguments[0], arguments[1], arguments[2], arguments[3] = table.io(), pool, pool, None
            everything = java.org.apache.iceberg.ExpireSnapshots.CleanupLevel.ALL
            cleanup.newInstance(arguments).cleanFiles(before, after, everything)
        except Exception as error:
            raise translate(error, str(self._ref.table)) from error
        finally:
            pool.shutdown()

    # ------------------------------------------------------------ rewrite manifests

    def _rewrite_manifests(self) -> None:
        """Write small manifests together, in one commit with its record; nothing is written for less than two.

        Iceberg's own action would commit by itself, and delete what it wrote after an outcome that nobody knows.
        """

        def change(table: Any, facts: TableFacts) -> Any:
            small = 0 if self._is_done(facts) else self._small_manifests(table)
            self._recorder.files = self.files = small if small > 1 else 0
            if small <= 1:
                return None
            self._tell(f"writing {small} manifests together")
            guava = self._site.session._jvm.com.google.common.base  # Spark's own
            rewrite = table.rewriteManifests().clusterBy(guava.Functions.constant("together"))
            return rewrite.set(OPERATION_STAMP, self._operation.id)

        def build(attempt: Attempt) -> bool:
            if self._is_done(attempt.facts):
                return False
            if attempt.snapshot is not None:
                attempt.builder.setBranchSnapshot(attempt.snapshot, MAIN)
            attempt.builder.setProperties(self._properties(attempt.facts))
            return True

        self._table.swap(build, change, uuid=self._ref.uuid, reuse=False)

    def _small_manifests(self, table: Any) -> int:
        head = table.currentSnapshot()
        if head is None:
            return 0
        target = int(table.properties().get(_MANIFEST_TARGET) or _MANIFEST_BYTES)
        return sum(manifest.length() < target // 2 for manifest in iterate(head.dataManifests(table.io())))

    # ------------------------------------------------------------ orphan files

    def _remove_orphans(self) -> None:
        """List first, check the list, then delete exactly what it names."""
        table = self._table.load()
        older_than = _now_ms() - self._work.older_than_ms
        self._tell("listing files that no metadata names")
        listed = self._dry_run(older_than)
        live = {str(task.file().location()) for task in iterate(table.newScan().planFiles())}
        found = removable(
            listed, location=str(table.location()), neighbours=self._work.neighbours, live=frozenset(live)
        )
        if found.refusal:
            raise InvalidTable(found.refusal, where=str(self._ref.table), hint="No file was deleted.")
        self._tell(f"deleting {len(found.paths)} files that no metadata names")
        io = table.io()
        for path in found.paths:
            try:
                io.deleteFile(path)
            except Exception as error:
                raise translate(error, str(self._ref.table)) from error
        self._recorder.files = self.files = len(found.paths)
        self._record()

    def _dry_run(self, older_than_ms: int) -> list[str]:
        """List orphan files by Iceberg's procedure, which compares all files below the location with all metadata."""
        name = ".".join(f"`{part.replace('`', '``')}`" for part in (*self._ref.table.namespace, self._ref.table.name))
        literal = name.replace("\\", "\\\\").replace("'", "\\'")
        catalog = self._site.catalog.replace("`", "``")
        moment = datetime.fromtimestamp(older_than_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        statement = (
            f"CALL `{catalog}`.system.remove_orphan_files(table => '{literal}', "
            f"older_than => TIMESTAMP '{moment}', dry_run => true)"
        )
        try:
            return [str(row[0]) for row in self._site.session.sql(statement).collect()]
        except Exception as error:
            raise translate(error, str(self._ref.table)) from error

    # ------------------------------------------------------------ done

    def _record(self) -> None:
        def build(attempt: Attempt) -> bool:
            if self._is_done(attempt.facts):
                return False
            attempt.builder.setProperties(self._properties(attempt.facts))
            return True

        self._table.swap(build, uuid=self._ref.uuid)

    def _properties(self, facts: TableFacts) -> Any:
        written: Mapping[str, str] = {done_key(self._operation): self._operation.id}
        properties = self._site.session._jvm.java.util.HashMap()
        for key, value in {**written, **self._recorder.properties(facts, {})}.items():
            properties.put(key, value)
        return properties


def expiry_of(facts: TableFacts, work: Maintain, *, now_ms: int) -> Expiry:
    """Ask the rule of a table's metadata."""
    snapshots = [
        SnapshotTime(
            snapshot_id=snapshot.snapshot_id,
            parent_id=snapshot.parent_snapshot_id,
            time_ms=snapshot.timestamp_ms,
            operation=snapshot.summary.get(OPERATION_STAMP),
        )
        for snapshot in facts.snapshots
    ]
    return expire(
        snapshots,
        {name: to_ref(name, ref) for name, ref in facts.refs.items()},
        now_ms=now_ms,
        older_than_ms=work.older_than_ms,
        keep=work.keep,
        protected=frozenset(work.protected),
    )


def _constructor(java: Any, name: str, table: Any) -> Any:
    loader = table.getClass().getClassLoader()
    found = java.java.lang.Class.forName(name, True, loader).getDeclaredConstructors()[0]
    found.setAccessible(True)
    return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
