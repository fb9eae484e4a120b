"""What a catalog does for engines without an Iceberg API: snapshots of files there are, and files read or deleted.

Manifests are written by PyIceberg (`by_reference`); each commit is the caller's, once and without a retry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, TypeVar, cast

from reconciler.catalogs import storage
from reconciler.catalogs.backend import Backend, Loaded
from reconciler.catalogs.connection import CatalogSettings
from reconciler.catalogs.errors import translating
from reconciler.model.metadata import JsonObject
from reconciler.model.table import DataFile, TableIdent

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

_T = TypeVar("_T")


class ReferenceWrites:
    """The part of `StagingCatalog` that every Iceberg catalog does alike."""

    settings: CatalogSettings
    _backend: Backend

    def get_metadata(self, table: TableIdent) -> bytes:
        """Return the table's whole metadata as Iceberg's JSON."""
        return self._in(table, lambda: self._backend.load(table).json())

    def get_changed_files(
        self, table: TableIdent, snapshot_id: int
    ) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
        """List the data files that a snapshot added, and those that it removed."""
        from reconciler.catalogs.by_reference import changed
        from reconciler.catalogs.data_files import to_data_file

        def read() -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
            added, removed = changed(self._handle(table)[1], snapshot_id, self.settings.where(table))
            return tuple(map(to_data_file, added)), tuple(map(to_data_file, removed))

        return self._in(table, read)

    def select_files(
        self, table: TableIdent, base: int | None, paths: Sequence[str], summary: Mapping[str, str]
    ) -> tuple[int, JsonObject]:
        """Write a snapshot of only these files of another; return its id and the update that adds it."""
        from reconciler.catalogs.by_reference import select

        return self._in(table, lambda: select(self._handle(table)[1], base, paths, summary, self.settings.where(table)))

    def replace_files(
        self,
        table: TableIdent,
        *,
        branch: str,
        base: int,
        removed: Sequence[str],
        added_by: Sequence[int],
        summary: Mapping[str, str],
        is_move: bool,
    ) -> tuple[int, JsonObject] | None:
        """Write a branch's next snapshot without the removed files, with those that the named snapshots added."""
        from reconciler.catalogs.by_reference import replace

        def write() -> tuple[int, JsonObject] | None:
            loaded, handle = self._handle(table)
            return replace(
                loaded,
                handle,
                branch=branch,
                base=base,
                removed=removed,
                added_by=added_by,
                summary=summary,
                is_move=is_move,
                where=self.settings.where(table),
            )

        return self._in(table, write)

    def merge_manifests(
        self, table: TableIdent, smaller_than: int, summary: Mapping[str, str]
    ) -> tuple[int, tuple[int, JsonObject] | None]:
        """Write main's next snapshot, its small data manifests written together."""
        from reconciler.catalogs.by_reference import merge

        return self._in(table, lambda: merge(self._handle(table)[1], smaller_than, summary, self.settings.where(table)))

    def open_file(self, table: TableIdent, path: str) -> IO[bytes]:
        """Open one of the table's files to read parts of it."""
        return self._in(table, lambda: cast("IO[bytes]", self._io(table).new_input(path).open()))

    def delete_file(self, table: TableIdent, path: str) -> None:
        """Delete one file of the table's storage."""
        self._in(table, lambda: self._io(table).delete(path))

    def delete_forgotten(self, table: TableIdent, before: bytes) -> None:
        """Delete the files that the metadata of before could reach and that the present one cannot."""
        from pyiceberg.table.metadata import TableMetadataUtil

        from reconciler.catalogs.forgotten_files import delete_all, forgotten

        def delete() -> None:
            handle = self._handle(table)[1]
            delete_all(forgotten(TableMetadataUtil.parse_raw(before.decode()), handle.metadata, handle.io), handle.io)

        self._in(table, delete)

    def _io(self, table: TableIdent) -> FileIO:
        loaded = self._backend.load(table)
        return storage.file_io(self._backend.storage_access(table), loaded.metadata.properties)

    def commit_updates(
        self, table: TableIdent, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]
    ) -> None:
        """Commit once, without a retry; CommitConflict and CommitStateUnknown are the caller's to look into."""
        self._in(table, lambda: self._backend.commit(table, requirements, updates))

    def _handle(self, table: TableIdent) -> tuple[Loaded, Table]:
        loaded = self._backend.load(table)
        return loaded, storage.pyiceberg_table(table, loaded, self._backend.storage_access(table))

    def _in(self, about: TableIdent | tuple[str, ...], work: Callable[[], _T]) -> _T:
        with translating(self.settings.where(about)):
            return work()
