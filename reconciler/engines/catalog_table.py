"""One table through the catalog port: its facts, its files, and commits that assert what they rest on.

The counterpart of `staging` where there is no JVM gateway: what a commit holds is Iceberg's JSON. Beside an operation's
branch lie scratch branches, one for each of Spark's writes; the commit that takes over what was written removes them,
and forgets the operation's snapshots that no ref leads to any more: whoever expired them would take the files that they
added for abandoned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import uuid4

import msgspec

from reconciler.engines.asserts import require, requirements
from reconciler.engines.catalog_files import CatalogFile
from reconciler.engines.data_state import OPERATION_STAMP, ROOT_STAMP, TableFacts, read_facts
from reconciler.engines.site import Build, Change, Draft, FilesMoved, Merge, SnapshotKind, Start
from reconciler.engines.staging import ATTEMPTS, KEPT_SNAPSHOTS, pause
from reconciler.errors import CommitConflict, CommitStateUnknown, LakeError
from reconciler.model.metadata import MAIN, JsonObject, RefJson
from reconciler.model.table import TableIdent
from reconciler.plan.data import is_our_branch
from reconciler.ports import CommitOutcome, StagingCatalog


class CatalogTable:
    """`WorkTable` of one operation, through the catalog."""

    def __init__(self, catalog: StagingCatalog, table: TableIdent, operation: str) -> None:
        """Bind to a table and the operation's id; nothing is contacted yet."""
        self.catalog, self.ident, self.operation = catalog, table, operation
        self._before = b""

    # ------------------------------------------------------------ observe

    def facts(self) -> TableFacts:
        """Read the metadata."""
        return read_facts(self.catalog.get_metadata(self.ident).decode())

    def require(self, facts: TableFacts, uuid: str, schema_id: int | None) -> None:
        """Raise CommitConflict unless it is still this table, with this schema."""
        require(facts, self.ident, uuid, schema_id)

    def live_files(self, snapshot_id: int) -> list[CatalogFile]:
        """List a snapshot's live data files."""
        return [CatalogFile(file, snapshot_id) for file in self.catalog.get_data_files(self.ident, snapshot_id)]

    def changed_files(self, snapshot_id: int) -> tuple[list[CatalogFile], list[CatalogFile]]:
        """Return the data files that a snapshot added, and those that it removed."""
        added, removed = self.catalog.get_changed_files(self.ident, snapshot_id)
        return [CatalogFile(file, snapshot_id) for file in added], [CatalogFile(file, snapshot_id) for file in removed]

    def listed_rows(self, snapshot_id: int) -> int | None:
        """Leave them to be counted: the manifests are our own writing."""
        return None

    def outcome(self, *, replayed: bool = False) -> CommitOutcome:
        """Describe the table as it is."""
        return CommitOutcome(version=self.catalog.get_table_spec(self.ident).version, replayed=replayed)

    # ------------------------------------------------------------ branches

    def create_branch(self, branch: str, snapshot_id: int, uuid: str, schema_id: int | None) -> None:
        """Make a branch; a no-op when somebody made it meanwhile."""

        def build(draft: Draft) -> bool:
            if branch in draft.facts.refs:
                return False
            _catalog(draft).start_branch(branch, snapshot_id)
            return True

        self.swap(build, uuid=uuid, schema_id=schema_id, refs=(branch,))

    def create_root_branch(self, branch: str, uuid: str, schema_id: int | None) -> None:
        """Make a branch of a table without snapshots: it starts from an empty one, so that main stays as it is."""

        def build(draft: Draft) -> bool:
            if branch in draft.facts.refs or draft.facts.head is not None:
                return False
            _catalog(draft).start_branch(branch, _catalog(draft).select(None, (), {ROOT_STAMP: "true"}))
            return True

        self.swap(build, uuid=uuid, schema_id=schema_id, refs=(MAIN, branch))

    def create_scratch(
        self, branch: str, base: int, paths: Sequence[str] | None, uuid: str, schema_id: int | None
    ) -> tuple[str, int]:
        """Make a branch beside one, for a single read or write: of a snapshot, or of only some of its files.

        Returns its name, which nobody had before, and the snapshot that it starts from.
        """
        scratch, start = f"{branch}_{uuid4().hex[:16]}", base

        def build(draft: Draft) -> bool:
            nonlocal start
            if scratch in draft.facts.refs:
                return False
            if paths is not None:
                start = _catalog(draft).select(base, paths, {OPERATION_STAMP: self.operation})
            _catalog(draft).start_branch(scratch, start)
            return True

        self.swap(build, uuid=uuid, schema_id=schema_id)
        return scratch, start

    def drop_branches(self, branches: Sequence[str], uuid: str) -> None:
        """Remove branches, as far as they are there, and the scratch branches beside them."""

        def build(draft: Draft) -> bool:
            present = _with_scratches(branches, draft.facts.refs)
            draft.remove_refs(present)
            return bool(present)

        self.swap(build, uuid=uuid, refs=())

    # ------------------------------------------------------------ commit

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
        """Commit what `build` puts into a draft, with the snapshot that `start` asks for; manifests are never reused.

        Another writer's commit, or an outcome that nobody knows, starts it over on what the table is then: a commit
        that did land is found by `build`.
        """
        unknown: CommitStateUnknown | None = None
        for lost in range(ATTEMPTS):
            pause(lost)
            metadata = self.catalog.get_metadata(self.ident)
            draft = CatalogDraft(self, read_facts(metadata.decode()))
            self.require(draft.facts, uuid, schema_id)
            try:
                draft.prepare(start(draft.facts) if start else None)
                if not build(draft):
                    return False
            except (FilesMoved, LakeError):
                if unknown:
                    raise unknown from None
                raise
            self._before = metadata if draft.forgets else self._before
            try:
                self.catalog.commit_updates(
                    self.ident,
                    requirements(draft.facts, _asserted(draft.facts, refs)),
                    draft.finished(),
                )
            except CommitStateUnknown as error:
                unknown = error
            except CommitConflict:
                continue
            except LakeError:
                # A snapshot's number must be the next one, which commits to other branches take too.
                if self.facts().last_sequence_number == draft.facts.last_sequence_number:
                    raise
            else:
                return True
        raise unknown or CommitConflict(
            f"Other writers got in first {ATTEMPTS} times.", where=str(self.ident), hint="Apply again: it goes on."
        )

    # ------------------------------------------------------------ files

    def delete_forgotten(self) -> None:
        """Delete the files that only snapshots named which the last committed draft forgot."""
        if self._before:
            self.catalog.delete_forgotten(self.ident, self._before)

    def delete_file(self, path: str) -> None:
        """Delete one file of the table's storage."""
        self.catalog.delete_file(self.ident, path)

    def read_file(self, path: str) -> bytes:
        """Read one file of the table's storage."""
        with self.catalog.open_file(self.ident, path) as file:
            return file.read()


class CatalogDraft:
    """`Draft` as the updates of Iceberg's REST specification."""

    def __init__(self, table: CatalogTable, facts: TableFacts) -> None:
        self.facts = facts
        self.made: int | None = None
        self.forgets = False
        self._table = table
        self._updates: list[JsonObject] = []
        self._points = {name: ref.snapshot_id for name, ref in facts.refs.items()}
        self._gone: list[int] = []

    def prepare(self, wanted: Change | Merge | None) -> None:
        """Write the snapshot that is asked for; raises FilesMoved."""
        catalog, ident = self._table.catalog, self._table.ident
        made = None
        match wanted:
            case Merge():
                small, made = catalog.merge_manifests(ident, wanted.smaller_than, wanted.stamps)
                wanted.found(small)
            case Change(base=int() as base):
                made = catalog.replace_files(
                    ident,
                    branch=wanted.branch,
                    base=base,
                    removed=[file.location() for file in wanted.before],
                    added_by=list(dict.fromkeys(file.snapshot_id for file in wanted.after)),
                    summary=wanted.stamps,
                    is_move=wanted.kind is SnapshotKind.REPLACE,
                )
                if made is None:
                    raise FilesMoved
        if made is not None:
            self.made, update = made
            self._updates.append(update)

    def place(self, branch: str) -> None:
        """Make the new snapshot a branch's head; the scratch branches that its files were written on go."""
        assert self.made is not None  # noqa: S101
        self._point(branch, self.made)
        self.remove_refs(_with_scratches([branch], self._points)[1:])

    def select(self, base: int | None, paths: Sequence[str], stamps: Mapping[str, str]) -> int:
        """Add a snapshot of only these files of another."""
        snapshot_id, update = self._table.catalog.select_files(self._table.ident, base, paths, stamps)
        self._updates.append(update)
        return snapshot_id

    def start_branch(self, name: str, snapshot_id: int) -> None:
        """Make a branch whose snapshots outlive an expiry that knows nothing of this work."""
        self._updates.append({**_set_branch(name, snapshot_id), "min-snapshots-to-keep": KEPT_SNAPSHOTS})
        self._points[name] = snapshot_id

    def set_main(self, snapshot_id: int) -> None:
        """Point main to a snapshot of a branch."""
        self._point(MAIN, snapshot_id)

    def _point(self, name: str, snapshot_id: int) -> None:
        self._updates.append(_set_branch(name, snapshot_id, self.facts.refs.get(name)))
        self._points[name] = snapshot_id

    def remove_refs(self, names: Sequence[str]) -> None:
        """Remove branches and tags, an operation's branch with the scratch branches beside it."""
        for name in _with_scratches(names, self._points):
            self._updates.append({"action": "remove-snapshot-ref", "ref-name": name})
            del self._points[name]

    def forget(self, snapshot_ids: Sequence[int]) -> None:
        """Remove snapshots."""
        self._gone += snapshot_ids
        self.forgets = True

    def set_properties(self, values: Mapping[str, str]) -> None:
        """Set table properties."""
        self._updates.append({"action": "set-properties", "updates": dict(values)})

    def finished(self) -> list[JsonObject]:
        """Return the updates; snapshots that the operation made and that nothing leads to any more go with them."""
        heads = {*self._points.values(), *(self.facts.head_of(name) for name in self._points)}
        reached = {snapshot.snapshot_id for head in heads for snapshot in self.facts.ancestors(head)}
        ours = (s for s in self.facts.snapshots if s.summary.get(OPERATION_STAMP) == self._table.operation)
        left = {snapshot.snapshot_id for snapshot in ours} - reached
        gone = [*dict.fromkeys([*self._gone, *sorted(left)])]
        forgotten: JsonObject = {"action": "remove-snapshots", "snapshot-ids": gone}
        return [*self._updates, forgotten] if gone else self._updates


def _asserted(facts: TableFacts, refs: Sequence[str]) -> dict[str, int | None]:
    """Say where refs point; of a table without snapshots PyIceberg lets nobody say it of any but main."""
    return {name: facts.head_of(name) for name in refs if facts.snapshots or name == MAIN}


def _with_scratches(names: Sequence[str], refs: Collection[str]) -> list[str]:
    """Return those names that are refs, each of our branches with the scratch branches beside it."""
    ours = tuple(f"{name}_" for name in names if is_our_branch(name))
    beside = (ref for ref in refs if is_our_branch(ref) and ref.startswith(ours))
    return list(dict.fromkeys([*(name for name in names if name in refs), *beside]))


def _catalog(draft: Draft) -> CatalogDraft:
    assert isinstance(draft, CatalogDraft)  # noqa: S101
    return draft


def _set_branch(name: str, snapshot_id: int, before: RefJson | None = None) -> JsonObject:
    """Point a branch to a snapshot, its retention kept."""
    kept: JsonObject = {}
    if before is not None:
        ages = msgspec.to_builtins(before)
        kept = {key: value for key, value in ages.items() if key not in ("snapshot-id", "type") and value is not None}
    return {"action": "set-snapshot-ref", "ref-name": name, "type": "branch", "snapshot-id": snapshot_id, **kept}
