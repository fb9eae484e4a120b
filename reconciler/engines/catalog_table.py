"""One table through the catalog port: its facts, and commits that assert what they rest on.

The counterpart of `staging` where there is no JVM gateway: what a commit holds is Iceberg's JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from reconciler.engines.asserts import require, requirements
from reconciler.engines.data_state import OPERATION_STAMP, TableFacts, read_facts
from reconciler.engines.staging import ATTEMPTS, FilesMoved
from reconciler.errors import CommitConflict, CommitStateUnknown, LakeError
from reconciler.model.metadata import MAIN, JsonObject, RefJson
from reconciler.model.table import DataFile, TableIdent
from reconciler.ports import CommitOutcome, StagingCatalog

SELECTION_STAMP = "laketable.selection"
_KEPT_SNAPSHOTS = 1_000_000
Build = Callable[[TableFacts], Sequence[JsonObject]]


class CatalogTable:
    """A table being worked on by one operation."""

    def __init__(self, catalog: StagingCatalog, table: TableIdent) -> None:
        """Bind to a table; nothing is contacted yet."""
        self.catalog, self.ident = catalog, table

    # ------------------------------------------------------------ observe

    def facts(self) -> TableFacts:
        """Read the metadata."""
        return read_facts(self.catalog.get_metadata(self.ident).decode())

    def files(self, snapshot_id: int) -> tuple[DataFile, ...]:
        """List a snapshot's live data files."""
        return self.catalog.get_data_files(self.ident, snapshot_id)

    def outcome(self, *, replayed: bool = False) -> CommitOutcome:
        """Describe the table as it is."""
        return CommitOutcome(version=self.catalog.get_table_spec(self.ident).version, replayed=replayed)

    # ------------------------------------------------------------ commit

    def create_branch(self, branch: str, snapshot_id: int, uuid: str, schema_id: int | None) -> None:
        """Make a branch; a no-op when somebody made it meanwhile."""

        def build(facts: TableFacts) -> Sequence[JsonObject]:
            if branch in facts.refs:
                return ()
            # Its snapshots must outlive an expiry that knows nothing of this work.
            return ({**set_branch(branch, snapshot_id), "min-snapshots-to-keep": _KEPT_SNAPSHOTS},)

        self.swap(build, uuid=uuid, schema_id=schema_id, refs=(branch,))

    def drop_branch(self, branch: str, uuid: str) -> None:
        """Remove a branch, if it is there."""

        def build(facts: TableFacts) -> Sequence[JsonObject]:
            return (remove_branch(branch),) if branch in facts.refs else ()

        self.swap(build, uuid=uuid)

    def select(self, base: int, paths: Sequence[str], operation: str, uuid: str, schema_id: int | None) -> int:
        """Commit a snapshot of only these files, which no branch leads to, and return its id."""
        made: list[int] = []

        def build(facts: TableFacts) -> Sequence[JsonObject]:
            if any(snapshot.snapshot_id == made[-1] for snapshot in facts.snapshots if made):
                return ()
            stamps = {OPERATION_STAMP: operation, SELECTION_STAMP: str(base)}
            snapshot_id, update = self.catalog.select_files(self.ident, base, paths, stamps)
            made.append(snapshot_id)
            return (update,)

        self.swap(build, uuid=uuid, schema_id=schema_id)
        return made[-1]

    def replace(
        self, base: int, removed: Sequence[str], added_by: Sequence[int], operation: str
    ) -> tuple[int, JsonObject] | None:
        """Write main's next snapshot, in which other snapshots' files stand for some; commit nothing."""
        return self.catalog.replace_files(self.ident, base, removed, added_by, {OPERATION_STAMP: operation})

    def set_main(self, facts: TableFacts, snapshot_id: int) -> JsonObject:
        """Point main to a snapshot."""
        return set_branch(MAIN, snapshot_id, facts.refs.get(MAIN))

    def swap(self, build: Build, *, uuid: str, schema_id: int | None = None, refs: Sequence[str] = ()) -> bool:
        """Commit what `build` makes of the facts; nothing means that there is nothing (left) to do.

        Another writer's commit, or an outcome that nobody knows, starts it over on what the table is then: a commit
        that did land is found by `build`. Main is always asserted, and the `refs` named.
        """
        unknown: CommitStateUnknown | None = None
        for _ in range(ATTEMPTS):
            facts = self.facts()
            require(facts, self.ident, uuid, schema_id)
            try:
                updates = build(facts)
            except (FilesMoved, LakeError):
                if unknown:
                    raise unknown from None
                raise
            if not updates:
                return False
            asserted = requirements(facts, {name: facts.head_of(name) for name in (*refs, MAIN)})
            try:
                self.catalog.commit_updates(self.ident, asserted, updates)
            except CommitStateUnknown as error:
                unknown = error
            except CommitConflict:
                continue
            else:
                return True
        raise unknown or CommitConflict(
            f"Other writers got in first {ATTEMPTS} times.", where=str(self.ident), hint="Apply again: it goes on."
        )


def set_branch(name: str, snapshot_id: int, before: RefJson | None = None) -> JsonObject:
    """Point a branch to a snapshot, its retention kept."""
    kept: JsonObject = {}
    if before is not None:
        ages = msgspec.to_builtins(before)
        kept = {key: value for key, value in ages.items() if key not in ("snapshot-id", "type") and value is not None}
    return {"action": "set-snapshot-ref", "ref-name": name, "type": "branch", "snapshot-id": snapshot_id, **kept}


def remove_branch(name: str) -> JsonObject:
    """Remove a branch."""
    return {"action": "remove-snapshot-ref", "ref-name": name}
