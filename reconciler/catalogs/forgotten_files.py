"""Which files nothing names any more, once snapshots were removed: told by manifests, deleted afterwards.

As Iceberg's own cleanup by reachability does it: a file goes only when an expired snapshot held it and no manifest of a
snapshot that is left does.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from pyiceberg.manifest import ManifestFile

from reconciler.catalogs.manifests import manifest_entries

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_THREADS = 8


def forgotten(before: TableMetadata, after: TableMetadata, io: FileIO) -> list[str]:
    """Return what only the snapshots named that are in one metadata and no longer in the other."""
    left = {snapshot.snapshot_id for snapshot in after.snapshots}
    gone = [snapshot for snapshot in before.snapshots if snapshot.snapshot_id not in left]
    if before.table_uuid != after.table_uuid or not gone:
        return []
    kept = _manifests(after.snapshots, io)
    expired = {path: manifest for path, manifest in _manifests(gone, io).items() if path not in kept}
    files = _files(expired.values(), io)
    if files:
        files -= _files(kept.values(), io)
    lists = {snapshot.manifest_list for snapshot in gone} - {snapshot.manifest_list for snapshot in after.snapshots}
    statistics = _statistics(before) - _statistics(after)
    return sorted({*files, *expired, *filter(None, lists), *statistics})


def delete_all(paths: Iterable[str], io: FileIO) -> None:
    """Delete files; one that is gone already, or that resists, is left to the removal of orphans."""

    def delete(path: str) -> None:
        with suppress(OSError):
            io.delete(path)

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(delete, paths))


def _manifests(snapshots: Iterable[Snapshot], io: FileIO) -> dict[str, ManifestFile]:
    return {manifest.manifest_path: manifest for snapshot in snapshots for manifest in snapshot.manifests(io)}


def _files(manifests: Iterable[ManifestFile], io: FileIO) -> set[str]:
    entries = (entry for manifest in manifests for entry in manifest_entries(manifest, io))
    return {entry.data_file.file_path for entry in entries}


def _statistics(metadata: TableMetadata) -> set[str]:
    return {file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)}
