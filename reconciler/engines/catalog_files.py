"""Data files as the catalog's manifests tell them, answering as Iceberg's DataFile and FileScanTask do.

The kinds of work ask files in Iceberg's words; where there is no gateway to Iceberg, these answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.engines.data_files import Task
from reconciler.model.table import DataFile


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """A data file, and the snapshot in which it was seen."""

    file: DataFile
    snapshot_id: int

    def location(self) -> str:
        """Return its path."""
        return self.file.path

    def fileSizeInBytes(self) -> int:
        """Return its size."""
        return self.file.size_bytes

    def recordCount(self) -> int:
        """Return its rows, deleted ones included."""
        return self.file.rows

    def nullValueCounts(self) -> Mapping[int, int]:
        """Return its null counts by field id."""
        return self.file.null_counts

    def valueCounts(self) -> Mapping[int, int]:
        """Return its value counts by field id."""
        return self.file.value_counts

    def fileSequenceNumber(self) -> int:
        """Return the sequence number of the snapshot that added it."""
        return self.file.sequence_number

    def partition(self) -> str:
        """Return what tells its partition from others of the same spec."""
        return self.file.partition


@dataclass(frozen=True, slots=True)
class CatalogDelete:
    """A file of row deletes."""

    path: str

    def location(self) -> str:
        """Return its path."""
        return self.path

    def contentOffset(self) -> int | None:
        """Return where in it the deletes lie; only deletion vectors of format v3 share a file."""
        return None


@dataclass(frozen=True, slots=True)
class CatalogTask:
    """A data file with its deletes."""

    of: CatalogFile

    def file(self) -> CatalogFile:
        """Return the file."""
        return self.of

    def deletes(self) -> tuple[CatalogDelete, ...]:
        """Return the deletes that may apply to it."""
        return tuple(map(CatalogDelete, self.of.file.deletes))


def task_of(file: CatalogFile) -> Task:
    """Describe a file as work goes through it."""
    told = file.file
    return Task(
        path=told.path,
        size=told.size_bytes,
        rows=told.rows,
        spec_id=told.spec_id,
        sort_order_id=told.sort_order_id,
        has_deletes=told.has_deletes,
        is_parquet=told.format.upper() == "PARQUET",
        java=CatalogTask(file),
    )
