"""Snapshots made of files that exist already: a few of a snapshot's files to read, or new files in the place of others.

For engines that have no Iceberg API of their own to do it with. PyIceberg writes the manifests; nothing is committed
here, and what was written is read back before anybody may commit it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.table.update.snapshot import _SnapshotProducer

from reconciler.catalogs.backend import Loaded
from reconciler.catalogs.data_files import _Deletes
from reconciler.catalogs.manifests import manifest_entries
from reconciler.catalogs.refusals import NEWEST_PYICEBERG_VERSION
from reconciler.catalogs.writes import _json
from reconciler.errors import InvalidTable, RefNotFound, Unsupported
from reconciler.model.metadata import MAIN, JsonObject

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

Made = tuple[int, JsonObject]
_ADDED, _EXISTING, _DELETED = ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED


def select(table: Table, base: int | None, paths: Sequence[str], summary: Mapping[str, str], where: str) -> Made:
    """Write a snapshot of only these files of the base, its deletes included; return its id and what adds it.

    Without a base it is an empty one.
    """
    _require_writable(table, where)
    wanted, start = frozenset(paths), None if base is None else _snapshot(table, base, where)
    chosen = [entry for entry in _live(start, table.io) if entry.data_file.file_path in wanted]
    totals = {
        "total-data-files": len(chosen),
        "total-records": sum(entry.data_file.record_count for entry in chosen),
        "total-files-size": sum(entry.data_file.file_size_in_bytes for entry in chosen),
    }
    stamps = {**summary, **{key: str(value) for key, value in totals.items()}}
    producer = _Producer(table, None, Operation.OVERWRITE, stamps)
    deletes = [] if start is None else [m for m in start.manifests(table.io) if m.content != ManifestContent.DATA]
    made = producer.make(lambda: [*deletes, *producer.existing(chosen)])
    if {entry.data_file.file_path for entry in _live(made, table.io)} != wanted:
        raise InvalidTable("A selection of files would hold others than were chosen.", where=where, hint="Report this.")
    return made.snapshot_id, _json(AddSnapshotUpdate(snapshot=made))


def replace(
    loaded: Loaded,
    table: Table,
    *,
    branch: str,
    base: int,
    removed: Iterable[str],
    added_by: Sequence[int],
    summary: Mapping[str, str],
    is_move: bool,
    where: str,
) -> Made | None:
    """Write a branch's next snapshot: without the `removed` files, with those that some snapshots added.

    None when somebody has rewritten, deleted or deleted from one of the removed files since the base. `is_move`: the
    same rows lie in other files.
    """
    _require_writable(table, where)
    gone, head = frozenset(removed), table.metadata.snapshot_by_name(branch)
    if head is None:
        return None
    live = {entry.data_file.file_path: entry for entry in _live(head, table.io)}
    if not gone <= live.keys() or _was_deleted_from(loaded, table, head, base, [live[path] for path in gone], where):
        return None
    added = [entry for source in added_by for entry in changed(table, source, where)[0]]
    taken = [live[path] for path in sorted(gone)]
    producer = _Producer(table, head, _operation(added, taken, is_move=is_move), summary)
    producer.count([entry.data_file for entry in added], [entry.data_file for entry in taken])
    made = producer.make(
        lambda: [*producer.added(added), *producer.deleted(taken), *producer.kept(head.manifests(table.io), gone)]
    )
    _check(table, head, made, live.keys() - gone, [entry.data_file.file_path for entry in added], where)
    return made.snapshot_id, _json(AddSnapshotUpdate(snapshot=made))


def merge(table: Table, smaller_than: int, summary: Mapping[str, str], where: str) -> tuple[int, Made | None]:
    """Write main's next snapshot, its small data manifests written together; with how many there are of them."""
    _require_writable(table, where)
    head = table.metadata.snapshot_by_name(MAIN)
    manifests = [] if head is None else head.manifests(table.io)
    small = [m for m in manifests if m.content == ManifestContent.DATA and m.manifest_length < smaller_than]
    if head is None or len(small) < 2:
        return len(small), None
    producer = _Producer(table, head, Operation.REPLACE, summary)
    merged = [_entries(lot, table.io) for lot in _lots(small, 2 * smaller_than)]
    others = [manifest for manifest in manifests if manifest not in small]
    made = producer.make(lambda: [*others, *(made for entries in merged for made in producer.existing(entries))])
    _check(table, head, made, [entry.data_file.file_path for entry in _live(head, table.io)], [], where)
    return len(small), (made.snapshot_id, _json(AddSnapshotUpdate(snapshot=made)))


def changed(table: Table, snapshot_id: int, where: str) -> tuple[list[ManifestEntry], list[ManifestEntry]]:
    """Return the entries of the data files that a snapshot added, and of those that it removed."""
    entries = [
        entry
        for manifest in _snapshot(table, snapshot_id, where).manifests(table.io)
        if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id == snapshot_id
        for entry in manifest_entries(manifest, table.io, is_live=False)
    ]
    return [e for e in entries if e.status == _ADDED], [e for e in entries if e.status == _DELETED]


def _operation(added: Sequence[ManifestEntry], removed: Sequence[ManifestEntry], *, is_move: bool) -> Operation:
    """Name what a commit does as Iceberg's own does: changelog readers go by it."""
    if is_move:
        return Operation.REPLACE
    if not removed:
        return Operation.APPEND
    return Operation.OVERWRITE if added else Operation.DELETE


def _lots(manifests: Sequence[ManifestFile], target: int) -> list[list[ManifestFile]]:
    """Group manifests of one partition spec up to a size."""
    lots: list[list[ManifestFile]] = []
    for manifest in sorted(manifests, key=lambda m: m.partition_spec_id):
        last = lots[-1] if lots else []
        fits = last and sum(m.manifest_length for m in last) + manifest.manifest_length <= target
        if fits and last[0].partition_spec_id == manifest.partition_spec_id:
            last.append(manifest)
        else:
            lots.append([manifest])
    return lots


class _Producer(_SnapshotProducer["_Producer"]):
    """Writes the manifests of one snapshot after another one; commits nothing."""

    def __init__(self, table: Table, parent: Snapshot | None, operation: Operation, summary: Mapping[str, str]) -> None:
        self._made_in = Transaction(table)
        super().__init__(operation, self._made_in, table.io, snapshot_properties=dict(summary), branch=None)
        self._parent = parent
        self._parent_snapshot_id = parent.snapshot_id if parent else None
        self._write: Callable[[], list[ManifestFile]] = list
        self._removed: list[DataFile] = []

    def make(self, write: Callable[[], list[ManifestFile]]) -> Snapshot:
        """Write the snapshot's manifest list."""
        self._write = write
        updates, _ = self._commit()
        (update,) = (u for u in updates if isinstance(u, AddSnapshotUpdate))
        return update.snapshot

    def count(self, added: Sequence[DataFile], removed: Sequence[DataFile]) -> None:
        """Say what the summary counts."""
        self._added_data_files, self._removed = list(added), list(removed)

    # ------------------------------------------------------------ manifests

    def added(self, entries: Iterable[ManifestEntry]) -> list[ManifestFile]:
        """Add files, as new ones: their sequence number is this snapshot's."""
        return self._manifests_of(entries, lambda e: self._entry(e, _ADDED, self._snapshot_id, numbers=(None, None)))

    def deleted(self, entries: Iterable[ManifestEntry]) -> list[ManifestFile]:
        """Say that files are gone."""
        return self._manifests_of(entries, lambda e: self._entry(e, _DELETED, self._snapshot_id))

    def existing(self, entries: Iterable[ManifestEntry]) -> list[ManifestFile]:
        """Carry files over."""
        return self._manifests_of(entries, lambda e: self._entry(e, _EXISTING, e.snapshot_id))

    def kept(self, manifests: Iterable[ManifestFile], gone: frozenset[str]) -> list[ManifestFile]:
        """Carry manifests over, those anew that hold a file which is gone."""
        found: list[ManifestFile] = []
        for manifest in manifests:
            entries = _entries([manifest], self._io) if manifest.content == ManifestContent.DATA else []
            left = [entry for entry in entries if entry.data_file.file_path not in gone]
            found += [manifest] if len(left) == len(entries) else self.existing(left)
        return found

    def _entry(
        self,
        entry: ManifestEntry,
        status: ManifestEntryStatus,
        snapshot_id: int | None,
        *,
        numbers: tuple[int | None, int | None] | None = None,
    ) -> ManifestEntry:
        sequence, of_file = numbers or (entry.sequence_number, entry.file_sequence_number)
        return ManifestEntry.from_args(
            status=status,
            snapshot_id=snapshot_id,
            sequence_number=sequence,
            file_sequence_number=of_file,
            data_file=entry.data_file,
        )

    def _manifests_of(
        self, entries: Iterable[ManifestEntry], to_entry: Callable[[ManifestEntry], ManifestEntry]
    ) -> list[ManifestFile]:
        by_spec: dict[int, list[ManifestEntry]] = {}
        for entry in entries:
            by_spec.setdefault(entry.data_file.spec_id, []).append(entry)
        return [self._written(spec_id, map(to_entry, found)) for spec_id, found in by_spec.items()]

    def _written(self, spec_id: int, entries: Iterable[ManifestEntry]) -> ManifestFile:
        with self.new_manifest_writer(self.spec(spec_id)) as writer:
            for entry in entries:
                writer.add_entry(entry)
        return writer.to_manifest_file()

    # ------------------------------------------------------------ what PyIceberg asks

    def _manifests(self) -> list[ManifestFile]:
        return self._write()

    def _existing_manifests(self) -> list[ManifestFile]:
        return []

    def _deleted_entries(self) -> list[ManifestEntry]:
        return []

    def _summary(self, snapshot_properties: Mapping[str, str] = {}) -> Summary:
        metadata = self._made_in.table_metadata
        counted, schema, specs = (
            SnapshotSummaryCollector(partition_summary_limit=0),
            metadata.schema(),
            metadata.specs(),
        )
        for file in self._added_data_files:
            counted.add_file(file, schema=schema, partition_spec=specs[file.spec_id])
        for file in self._removed:
            counted.remove_file(file, schema=schema, partition_spec=specs[file.spec_id])
        before = self._parent.summary if self._parent else None
        found = Summary(operation=Operation.OVERWRITE, **counted.build())  # it counts for no other name
        totalled = update_snapshot_summaries(found, before.additional_properties if before else None)
        return Summary(operation=self._operation, **{**totalled.additional_properties, **snapshot_properties})


# ---------------------------------------------------------------- reading


def _snapshot(table: Table, snapshot_id: int, where: str) -> Snapshot:
    found = table.metadata.snapshot_by_id(snapshot_id)
    if found is None:
        raise RefNotFound(f"There is no snapshot {snapshot_id}: it has expired.", where=where, hint="Apply again.")
    return found


def _entries(manifests: Iterable[ManifestFile], io: FileIO) -> list[ManifestEntry]:
    return [entry for manifest in manifests for entry in manifest_entries(manifest, io)]


def _live(snapshot: Snapshot | None, io: FileIO) -> list[ManifestEntry]:
    manifests = snapshot.manifests(io) if snapshot else []
    return _entries([manifest for manifest in manifests if manifest.content == ManifestContent.DATA], io)


def _was_deleted_from(
    loaded: Loaded, table: Table, head: Snapshot, base: int, files: Iterable[ManifestEntry], where: str
) -> bool:
    """Say whether a delete that came after the base may apply to one of the files."""
    since = _snapshot(table, base, where).sequence_number or 0
    manifests = [manifest for manifest in head.manifests(table.io) if manifest.content != ManifestContent.DATA]
    later = [entry for entry in _entries(manifests, table.io) if (entry.sequence_number or 0) > since]
    deletes = _Deletes(loaded, later)
    return any(deletes.of(file) for file in files)


# ---------------------------------------------------------------- checks


def _require_writable(table: Table, where: str) -> None:
    if table.metadata.format_version > NEWEST_PYICEBERG_VERSION:
        raise Unsupported(
            f"PyIceberg cannot write manifests of a format v{table.metadata.format_version} table.",
            where=where,
            hint="Use the runtime local.",
        )


def _check(
    table: Table, before: Snapshot, made: Snapshot, kept: Iterable[str], added: Sequence[str], where: str
) -> None:
    """Compare what was written with what was meant: a lost or a doubled file is not to be committed."""
    expected = sorted([*kept, *added])
    is_same = sorted(entry.data_file.file_path for entry in _live(made, table.io)) == expected
    if not is_same or _delete_files(before, table.io) != _delete_files(made, table.io):
        raise InvalidTable(
            "The snapshot to publish would hold other files than it should; nothing was committed.",
            where=where,
            hint="Report this.",
        )


def _delete_files(snapshot: Snapshot, io: FileIO) -> list[str]:
    manifests = [manifest for manifest in snapshot.manifests(io) if manifest.content != ManifestContent.DATA]
    return sorted(entry.data_file.file_path for entry in _entries(manifests, io))
