"""Maintenance that works on metadata and files, not on rows: expire snapshots, rewrite manifests, delete orphan files.

Each step is done in `commit`, asks the catalog first whether it was done before, and deletes a file only when nothing
that the catalog has names it: after a commit that is known to have happened, or because no metadata ever did.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from reconciler.engines.data_state import OPERATION_STAMP, TableFacts
from reconciler.engines.records import Recorder
from reconciler.engines.site import Draft, Merge, Site
from reconciler.engines.sql import procedure
from reconciler.errors import InvalidTable
from reconciler.model.metadata import MAIN
from reconciler.model.observation import to_ref
from reconciler.plan.data import done_key
from reconciler.plan.events import Progress
from reconciler.plan.expiry import Expiry, SnapshotTime, expire
from reconciler.plan.orphans import is_metadata, owner_of, removable
from reconciler.plan.table_work import Maintain, MaintenanceStep
from reconciler.ports import CommitOutcome

_MANIFEST_TARGET = "commit.manifest.target-size-bytes"
_MANIFEST_BYTES = 8 << 20
_MAY_DELETE = "gc.enabled"
_DELETING = (MaintenanceStep.EXPIRE_SNAPSHOTS, MaintenanceStep.REMOVE_ORPHAN_FILES)


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
        if self._work.step in _DELETING:
            self._require_own_files(facts)
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

    def _require_own_files(self, facts: TableFacts) -> None:
        """Refuse to delete where the table says that others use its files, as Iceberg's own procedures do."""
        if facts.properties.get(_MAY_DELETE, "true").strip().lower() != "true":
            raise InvalidTable(
                f"{_MAY_DELETE} is {facts.properties[_MAY_DELETE]}: other tables may need this one's files.",
                where=str(self._ref.table),
                hint=f"Take this step out of the manifest, or set {_MAY_DELETE} to true when nobody shares its files.",
            )

    def _tell(self, step: str) -> None:
        self._site.tell(Progress(table=self._ref.table, operation=self._operation.id, step=step))

    # ------------------------------------------------------------ expire snapshots

    def _expire(self) -> None:
        """Forget snapshots in one commit; then, and only then, delete what only they named.

        When the commit's outcome was unknown, `swap` has looked for it: either way it has happened when it returns.
        """

        def build(draft: Draft) -> bool:
            if self._is_done(draft.facts):
                return False
            self._require_own_files(draft.facts)
            found = expiry_of(draft.facts, self._work, now_ms=_now_ms())
            draft.remove_refs(sorted(found.refs))
            draft.forget(sorted(found.snapshots))
            self._recorder.files = len(found.snapshots)
            self._tell(f"forgetting {len(found.snapshots)} snapshots and {len(found.refs)} refs")
            draft.set_properties(self._properties(draft.facts))
            return True

        # Every ref is asserted: a tag made meanwhile must start it over.
        self._table.swap(build, uuid=self._ref.uuid, refs=sorted({MAIN, *self._table.facts().refs}))
        self._table.delete_forgotten()

    # ------------------------------------------------------------ rewrite manifests

    def _rewrite_manifests(self) -> None:
        """Write small manifests together, in one commit with its record; nothing is written for less than two."""

        def found(small: int) -> None:
            self._recorder.files = self.files = small if small > 1 else 0
            if small > 1:
                self._tell(f"writing {small} manifests together")

        def start(facts: TableFacts) -> Merge | None:
            target = int(facts.properties.get(_MANIFEST_TARGET) or _MANIFEST_BYTES)
            stamps = {OPERATION_STAMP: self._operation.id}
            return None if self._is_done(facts) else Merge(smaller_than=target // 2, stamps=stamps, found=found)

        def build(draft: Draft) -> bool:
            if self._is_done(draft.facts):
                return False
            if draft.made is not None:
                draft.place(MAIN)
            draft.set_properties(self._properties(draft.facts))
            return True

        self._table.swap(build, start, uuid=self._ref.uuid, reuse=False)

    # ------------------------------------------------------------ orphan files

    def _remove_orphans(self) -> None:
        """List first, check the list, then delete exactly what it names."""
        older_than = _now_ms() - self._work.older_than_ms
        self._tell("listing files that no metadata names")
        listed = self._dry_run(older_than)
        facts = self._table.facts()
        live = frozenset(task.path for task in self._site.live(facts.head)) if facts.head is not None else frozenset()
        found = removable(listed, location=facts.location, neighbours=self._work.neighbours, live=live)
        if found.refusal:
            raise InvalidTable(found.refusal, where=str(self._ref.table), hint="No file was deleted.")
        self._require_no_neighbour(found.paths)
        self._tell(f"deleting {len(found.paths)} files that no metadata names")
        for path in found.paths:
            self._table.delete_file(path)
        self._recorder.files = self.files = len(found.paths)
        self._record()

    def _require_no_neighbour(self, paths: Sequence[str]) -> None:
        """Refuse where metadata of a table lies that has moved away: it may still need the data files beside it."""
        for path in filter(is_metadata, paths):
            if owner_of(self._table.read_file(path)) in self._work.neighbour_uuids:
                raise InvalidTable(
                    f"Another table of the catalog was here before: {path} is its metadata, and it may need its files.",
                    where=str(self._ref.table),
                    hint="No file was deleted.",
                )

    def _dry_run(self, older_than_ms: int) -> list[str]:
        """List orphan files by Iceberg's procedure, which compares all files below the location with all metadata."""
        moment = datetime.fromtimestamp(older_than_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        rest = f"older_than => TIMESTAMP '{moment}', dry_run => true"
        statement = procedure(self._site.catalog, "remove_orphan_files", self._ref.table, rest)
        try:
            return [str(row[0]) for row in self._site.session.sql(statement).collect()]
        except Exception as error:
            raise self._site.told(error) from error

    # ------------------------------------------------------------ done

    def _record(self) -> None:
        def build(draft: Draft) -> bool:
            if self._is_done(draft.facts):
                return False
            draft.set_properties(self._properties(draft.facts))
            return True

        self._table.swap(build, uuid=self._ref.uuid)

    def _properties(self, facts: TableFacts) -> dict[str, str]:
        return {done_key(self._operation): self._operation.id, **self._recorder.properties(facts, {})}


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


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
