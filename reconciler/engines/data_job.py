"""`Engine` over a classic Spark session: picks the kind of work and stages it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from reconciler.engines.backfill_kind import BackfillKind
from reconciler.engines.compaction_kind import CompactionKind
from reconciler.engines.data_files import CHUNK_BYTES
from reconciler.engines.data_progress import Tell
from reconciler.engines.distinct_counts import CountedColumns
from reconciler.engines.gateway import text_map
from reconciler.engines.maintenance import MaintenanceWork
from reconciler.engines.refresh_kind import RefreshKind
from reconciler.engines.restore_kind import RestoreKind
from reconciler.engines.rewrite_kind import RewriteKind
from reconciler.engines.site import Site
from reconciler.engines.spark_site import SparkSite
from reconciler.engines.staged import Kind, StagedWork
from reconciler.engines.staging import StagingTable
from reconciler.engines.swap_check import SwapCheck
from reconciler.engines.validation import ScanStaged, ValidationScan
from reconciler.errors import InvalidInput
from reconciler.model.table import TableIdent
from reconciler.plan.index_work import CountDistinct
from reconciler.plan.operations import Backfill, Operation, Refresh, Rewrite
from reconciler.plan.row_work import Swap, Validate
from reconciler.plan.table_work import Maintain, MaintenanceStep, Restore
from reconciler.ports import StagingRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeTable = Callable[["SparkSession", str, TableIdent], StagingTable]
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
        for key, value in text_map(session, session.conf._jconf.getAllAsJava()).items():
            if key.startswith("spark.sql.catalog."):
                self._session.conf.set(key, value)
        for key, value in SETTINGS.items():
            self._session.conf.set(key, value)
        self._catalog, self._chunk_bytes, self._table, self._splices = catalog, chunk_bytes, table, splices

    def execute(self, operation: Operation, ref: StagingRef, tell: Tell) -> StagedWork | ScanStaged | MaintenanceWork:
        """Write what is left of an operation on its branch, and audit it; a scan only looks."""
        table = self._table(self._session, self._catalog, ref.table)
        site = SparkSite(self._session, self._catalog, table, operation, ref, tell)
        work = work_of(site, self._chunk_bytes, splices=self._splices)
        work.stage()
        return work

    resume = execute


def work_of(site: Site, chunk_bytes: int, *, splices: bool = True) -> StagedWork | ScanStaged | MaintenanceWork:
    """Pick what carries an operation out, wherever it works."""
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
            return StagedWork(site, _kind(site.operation, chunk_bytes, splices=splices))


def _kind(operation: Operation, chunk_bytes: int, *, splices: bool) -> Kind:
    match operation.work:
        case Backfill() as backfill:
            return BackfillKind(backfill, chunk_bytes, splices=splices)
        case Rewrite() as rewrite:
            return RewriteKind(rewrite, operation, chunk_bytes)
        case Refresh() as refresh:
            return RefreshKind(operation, refresh)
        case Restore() as restore:
            return RestoreKind(restore, chunk_bytes)
        case Maintain(step=MaintenanceStep.COMPACT) as work:
            return CompactionKind(work, chunk_bytes)
        case _:
            raise InvalidInput(f"A data job has nothing to do for {operation.kind.value}.")
