"""`Engine` over a classic Spark session: picks the kind of work and stages it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.engines.backfill_kind import BackfillKind
from reconciler.engines.compaction_kind import CompactionKind
from reconciler.engines.data_files import CHUNK_BYTES
from reconciler.engines.data_progress import Tell
from reconciler.engines.distinct_counts import CountedColumns
from reconciler.engines.maintenance import MaintenanceWork
from reconciler.engines.refresh_kind import RefreshKind
from reconciler.engines.restore_kind import RestoreKind
from reconciler.engines.rewrite_kind import RewriteKind
from reconciler.engines.staged import Kind, MakeTable, Site, StagedWork
from reconciler.engines.staging import StagingTable
from reconciler.engines.swap_check import SwapCheck
from reconciler.engines.validation import ScanStaged, ValidationScan
from reconciler.errors import InvalidInput
from reconciler.plan.index_work import CountDistinct
from reconciler.plan.operations import Backfill, Operation, Refresh, Rewrite
from reconciler.plan.row_work import Swap, Validate
from reconciler.plan.table_work import Maintain, MaintenanceStep, Restore
from reconciler.ports import StagingRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
}


class SparkEngine:
    """`Engine` over one catalog of a classic Spark session."""

    def __init__(
        self,
        session: SparkSession,
        catalog: str,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        table: MakeTable = StagingTable,
        splices: bool = True,
    ) -> None:
        """Work in a session of our own: its settings decide what an expression means.

        Without `splices` every file that a backfill fills is rewritten.
        """
        self._session = session.newSession()
        for key, value in session.conf.getAll.items():
            if key.startswith("spark.sql.catalog."):
                self._session.conf.set(key, value)
        for key, value in SETTINGS.items():
            self._session.conf.set(key, value)
        self._catalog, self._chunk_bytes, self._table, self._splices = catalog, chunk_bytes, table, splices

    def execute(self, operation: Operation, ref: StagingRef, tell: Tell) -> StagedWork | ScanStaged | MaintenanceWork:
        """Write what is left of an operation on its branch, and audit it; a scan only looks."""
        table = self._table(self._session, self._catalog, ref.table)
        site = Site(self._session, self._catalog, table, operation, ref, tell)
        work = self._unstaged(site) or StagedWork(site, self._kind(operation))
        work.stage()
        return work

    def _unstaged(self, site: Site) -> ScanStaged | MaintenanceWork | None:
        match site.operation.work:
            case Validate() as work:
                return ValidationScan(site, work)
            case CountDistinct() as work:
                return CountedColumns(site, work)
            case Swap() as work:
                return SwapCheck(site, work)
            case Maintain() as work if work.step is not MaintenanceStep.COMPACT:
                return MaintenanceWork(site, work)
            case _:
                return None

    resume = execute

    def _kind(self, operation: Operation) -> Kind:
        match operation.work:
            case Backfill() as backfill:
                return BackfillKind(backfill, self._chunk_bytes, splices=self._splices)
            case Rewrite() as rewrite:
                return RewriteKind(rewrite, operation, self._chunk_bytes)
            case Refresh() as refresh:
                return RefreshKind(operation, refresh)
            case Restore() as restore:
                return RestoreKind(restore, self._chunk_bytes)
            case Maintain(step=MaintenanceStep.COMPACT) as work:
                return CompactionKind(work, self._chunk_bytes)
            case _:
                raise InvalidInput(f"A data job has nothing to do for {operation.kind.value}.")
