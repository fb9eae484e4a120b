"""`Engine` over a classic Spark session: picks the kind of work and stages it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.engines.backfill_kind import BackfillKind
from reconciler.engines.data_files import CHUNK_BYTES
from reconciler.engines.data_progress import Tell
from reconciler.engines.staged import Kind, MakeTable, Site, StagedWork
from reconciler.engines.staging import StagingTable
from reconciler.errors import InvalidInput
from reconciler.plan.operations import Backfill, Operation
from reconciler.ports import StagingRef

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
}


class SparkEngine:
    """`Engine` over one catalog of a classic Spark session."""

    def __init__(
        self, session: SparkSession, catalog: str, *, chunk_bytes: int = CHUNK_BYTES, table: MakeTable = StagingTable
    ) -> None:
        """Work in a session of our own: its settings decide what an expression means."""
        self._session = session.newSession()
        for key, value in session.conf.getAll.items():
            if key.startswith("spark.sql.catalog."):
                self._session.conf.set(key, value)
        for key, value in _SETTINGS.items():
            self._session.conf.set(key, value)
        self._catalog, self._chunk_bytes, self._table = catalog, chunk_bytes, table

    def execute(self, operation: Operation, ref: StagingRef, tell: Tell) -> StagedWork:
        """Write what is left of an operation on its branch, and audit it."""
        kind = self._kind(operation)
        table = self._table(self._session, self._catalog, ref.table)
        work = StagedWork(Site(self._session, self._catalog, table, operation, ref, tell), kind)
        work.stage()
        return work

    resume = execute

    def _kind(self, operation: Operation) -> Kind:
        match operation.work:
            case Backfill() as backfill:
                return BackfillKind(backfill, self._chunk_bytes)
            case None:
                raise InvalidInput(f"A data job has nothing to do for {operation.kind.value}.")
