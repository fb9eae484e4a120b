"""List a snapshot's live data files with their statistics, from manifests alone; no data file is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reconciler.catalogs.backend import Loaded
from reconciler.errors import InvalidTable, RefNotFound
from reconciler.model.metadata import SnapshotHead
from reconciler.model.table import DataFile

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.typedef import Record

_PATH_FIELD_ID = 2147483546  # file_path in a position delete file (Iceberg spec, "Reserved Field IDs")


def data_files(loaded: Loaded, io: FileIO, snapshot_id: int, where: str) -> tuple[DataFile, ...]:
    """Read a snapshot's manifests."""
    from pyiceberg.manifest import ManifestContent, read_manifest_list

    from reconciler.catalogs.manifests import manifest_entries

    data: list[ManifestEntry] = []
    deletes: list[ManifestEntry] = []
    snapshot = _snapshot(loaded, snapshot_id, where)
    for manifest in read_manifest_list(io.new_input(snapshot.manifest_list)):
        entries = manifest_entries(manifest, io)
        (data if manifest.content == ManifestContent.DATA else deletes).extend(entries)
    applicable = _Deletes(loaded, deletes)
    # A snapshot of format v3 has given row ids to every manifest of its list; PyIceberg reads them nowhere else.
    has_row_ids = snapshot.first_row_id is not None
    return tuple(to_data_file(e, deletes=applicable.of(e), has_row_ids=has_row_ids) for e in data)


def _snapshot(loaded: Loaded, snapshot_id: int, where: str) -> SnapshotHead:
    snapshot = next((s for s in loaded.metadata.snapshots if s.snapshot_id == snapshot_id), None)
    if snapshot is None:
        raise RefNotFound(f"There is no snapshot {snapshot_id}: it has expired.", where=where, hint="Plan again.")
    if not snapshot.manifest_list:
        raise InvalidTable(
            f"Snapshot {snapshot_id} names no manifest list.", where=where, hint="Commit to the table once to make one."
        )
    return snapshot


class _Deletes:
    """Tells which delete files may apply to a data file; where the manifest leaves it open, they do."""

    def __init__(self, loaded: Loaded, entries: list[ManifestEntry]) -> None:
        from pyiceberg.manifest import DataFileContent

        unpartitioned = {spec.spec_id for spec in loaded.metadata.specs if not spec.fields}
        self._by_partition: dict[tuple[int, str], list[ManifestEntry]] = {}
        self._everywhere: list[ManifestEntry] = []
        self._equality = DataFileContent.EQUALITY_DELETES
        for entry in entries:
            file = entry.data_file
            # An equality delete written unpartitioned applies to every partition.
            if file.content == self._equality and file.spec_id in unpartitioned:
                self._everywhere.append(entry)
            else:
                self._by_partition.setdefault(_partition(file.spec_id, file.partition), []).append(entry)

    def of(self, data: ManifestEntry) -> list[ManifestEntry]:
        file = data.data_file
        candidates = self._by_partition.get(_partition(file.spec_id, file.partition), [])
        return [delete for delete in (*candidates, *self._everywhere) if self._applies(delete, data)]

    def _applies(self, delete: ManifestEntry, data: ManifestEntry) -> bool:
        later, earlier = delete.sequence_number or 0, data.sequence_number or 0
        if delete.data_file.content == self._equality:
            return later > earlier
        path = data.data_file.file_path.encode()
        low = (delete.data_file.lower_bounds or {}).get(_PATH_FIELD_ID)
        high = (delete.data_file.upper_bounds or {}).get(_PATH_FIELD_ID)
        is_outside = low is not None and high is not None and not low <= path <= high
        return later >= earlier and not is_outside


def _partition(spec_id: int, partition: Record | None) -> tuple[int, str]:
    return spec_id, repr(partition) if partition is not None and len(partition) else ""


def to_data_file(entry: ManifestEntry, *, deletes: Sequence[ManifestEntry] = (), has_row_ids: bool = False) -> DataFile:
    """Describe a data file as its manifest entry tells it."""
    file = entry.data_file
    return DataFile(
        path=file.file_path,
        size_bytes=file.file_size_in_bytes,
        rows=file.record_count,
        spec_id=file.spec_id,
        partition=_partition(file.spec_id, file.partition)[1],
        sort_order_id=file.sort_order_id or 0,
        sequence_number=entry.file_sequence_number or 0,
        added_by=entry.snapshot_id,
        has_deletes=bool(deletes),
        deletes=tuple(sorted(delete.data_file.file_path for delete in deletes)),
        format=file.file_format.value,
        is_encrypted=file.key_metadata is not None,
        has_row_ids=has_row_ids,
        column_bytes=dict(file.column_sizes or {}),
        value_counts=dict(file.value_counts or {}),
        null_counts=dict(file.null_value_counts or {}),
        lower_bounds=dict(file.lower_bounds or {}),
        upper_bounds=dict(file.upper_bounds or {}),
    )
