"""Snapshots made of files that exist already: a few of a snapshot's files to read, or new files in the place of others.

For engines that have no Iceberg API of their own to do it with. PyIceberg writes the manifests; nothing is committed
here, and what was written is read back before anybody may commit it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.table.update.snapshot import _OverwriteFiles

from reconciler.catalogs.backend import Loaded
from reconciler.catalogs.data_files import _Deletes
from reconciler.catalogs.refusals import NEWEST_PYICEBERG_VERSION
from reconciler.catalogs.writes import _json
from reconciler.errors import InvalidTable, RefNotFound, Unsupported
from reconciler.model.metadata import MAIN, JsonObject

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table


def select(
    table: Table, base: int, paths: Iterable[str], summary: Mapping[str, str], where: str
) -> tuple[int, JsonObject]:
    """Write a snapshot of only these files of the base, its deletes included; return its id and what adds it."""
    _require_writable(table, where)
    transaction = Transaction(table)
    with _Selection(transaction, table.io, _snapshot(table, base, where), frozenset(paths), dict(summary)) as made:
        pass
    (update,) = (u for u in transaction._updates if isinstance(u, AddSnapshotUpdate))
    found = {entry.data_file.file_path for entry in _live(update.snapshot, table.io)}
    if found != set(paths):
        raise InvalidTable("A selection of files would hold others than were chosen.", where=where, hint="Report this.")
    return made.snapshot_id, _json(update)


def replace(
    loaded: Loaded,
    table: Table,
    *,
    base: int,
    removed: Iterable[str],
    added_by: Sequence[int],
    summary: Mapping[str, str],
    where: str,
) -> tuple[int, JsonObject] | None:
    """Write main's next snapshot: without the `removed` files of the base, with those that some snapshots added.

    None when somebody has rewritten, deleted or deleted from one of the removed files since the base, or when the new
    files lie in another layout than the table's: then they must be made again.
    """
    _require_writable(table, where)
    gone = frozenset(removed)
    main = table.metadata.snapshot_by_name(MAIN)
    if main is None:
        return None
    live = {entry.data_file.file_path: entry for entry in _live(main, table.io)}
    if not gone <= live.keys() or _was_deleted_from(loaded, table, main, base, [live[path] for path in gone], where):
        return None
    added = [entry for source in added_by for entry in _added(table, _snapshot(table, source, where))]
    if any(entry.data_file.spec_id != table.metadata.default_spec_id for entry in added):
        return None
    transaction = Transaction(table)
    producer = _OverwriteFiles(Operation.OVERWRITE, transaction, table.io, snapshot_properties=dict(summary))
    for path in sorted(gone):
        producer.delete_data_file(live[path].data_file)
    for entry in added:
        producer.append_data_file(entry.data_file)
    producer.commit()
    (update,) = (u for u in transaction._updates if isinstance(u, AddSnapshotUpdate))
    _check(table, main, update.snapshot, live.keys() - gone, [entry.data_file.file_path for entry in added], where)
    return producer.snapshot_id, _json(update)


class _Selection(_OverwriteFiles):
    """Keeps some data files of a snapshot, with their sequence numbers, and all of its deletes."""

    def __init__(
        self, transaction: Transaction, io: FileIO, base: Snapshot, paths: frozenset[str], summary: dict[str, str]
    ) -> None:
        super().__init__(Operation.OVERWRITE, transaction, io, snapshot_properties=summary, branch=None)
        self._base, self._paths = base, paths

    def _existing_manifests(self) -> list[ManifestFile]:
        kept, by_spec = [], dict[int, list[ManifestEntry]]()
        for manifest in self._base.manifests(self._io):
            if manifest.content != ManifestContent.DATA:
                kept.append(manifest)
                continue
            for entry in manifest.fetch_manifest_entry(self._io, discard_deleted=True):
                if entry.data_file.file_path in self._paths:
                    by_spec.setdefault(manifest.partition_spec_id, []).append(entry)
        return kept + [self._written(spec_id, entries) for spec_id, entries in by_spec.items()]

    def _written(self, spec_id: int, entries: Sequence[ManifestEntry]) -> ManifestFile:
        with self.new_manifest_writer(self.spec(spec_id)) as writer:
            for entry in entries:
                writer.add_entry(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.EXISTING,
                        snapshot_id=entry.snapshot_id,
                        sequence_number=entry.sequence_number,
                        file_sequence_number=entry.file_sequence_number,
                        data_file=entry.data_file,
                    )
                )
        return writer.to_manifest_file()

    def _deleted_entries(self) -> list[ManifestEntry]:
        return []


# ---------------------------------------------------------------- reading


def _snapshot(table: Table, snapshot_id: int, where: str) -> Snapshot:
    found = table.metadata.snapshot_by_id(snapshot_id)
    if found is None:
        raise RefNotFound(f"There is no snapshot {snapshot_id}: it has expired.", where=where, hint="Apply again.")
    return found


def _live(snapshot: Snapshot, io: FileIO) -> list[ManifestEntry]:
    return [
        entry
        for manifest in snapshot.manifests(io)
        if manifest.content == ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)
    ]


def _added(table: Table, snapshot: Snapshot) -> list[ManifestEntry]:
    return [
        entry
        for manifest in snapshot.manifests(table.io)
        if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id == snapshot.snapshot_id
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        if entry.status == ManifestEntryStatus.ADDED
    ]


def _was_deleted_from(
    loaded: Loaded, table: Table, main: Snapshot, base: int, files: Iterable[ManifestEntry], where: str
) -> bool:
    """Say whether a delete that came after the base may apply to one of the files."""
    since = _snapshot(table, base, where).sequence_number or 0
    later = [
        entry
        for manifest in main.manifests(table.io)
        if manifest.content != ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        if (entry.sequence_number or 0) > since
    ]
    deletes = _Deletes(loaded, later)
    return any(deletes.touch(file) for file in files)


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
    return sorted(
        entry.data_file.file_path
        for manifest in snapshot.manifests(io)
        if manifest.content != ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)
    )
