"""`Engine` over Spark Connect: the same work as over a classic session, at another site."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reconciler.engines.catalog_table import CatalogTable
from reconciler.engines.connect_site import ConnectSite
from reconciler.engines.data_files import CHUNK_BYTES
from reconciler.engines.data_job import SETTINGS, work_of
from reconciler.engines.data_progress import Tell
from reconciler.engines.maintenance import MaintenanceWork
from reconciler.engines.staged import StagedWork
from reconciler.engines.validation import ScanStaged
from reconciler.errors import LakeError, Unsupported
from reconciler.plan.operations import Operation
from reconciler.plan.runtimes import connect_refusal
from reconciler.ports import CommitOutcome, StagingCatalog, StagingRef

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

MakeSite = Callable[..., ConnectSite]


class ConnectEngine:
    """`Engine` over a catalog that we and a Spark Connect server both reach, under one name."""

    def __init__(
        self,
        connect: Callable[[], SparkSession],
        name: str,
        catalog: StagingCatalog,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        site: MakeSite = ConnectSite,
    ) -> None:
        """Contact nothing yet; each operation gets a session of its own."""
        self._connect, self._name, self._catalog = connect, name, catalog
        self._chunk_bytes, self._site = chunk_bytes, site

    def execute(self, operation: Operation, ref: StagingRef, tell: Tell) -> ConnectStaged:
        """Write what is left of an operation on its branch, and audit it; a scan only looks."""
        table = CatalogTable(self._catalog, ref.table, operation.id)
        refusal = connect_refusal(operation.work, table.facts().format_version)
        if refusal:
            raise Unsupported(f"Spark Connect {refusal}.", where=str(ref.table), hint="Set the runtime to local.")
        session = self._connect()
        for key, value in SETTINGS.items():
            session.conf.set(key, value)
        site = self._site(session, self._name, table, operation, ref, tell)
        staged = ConnectStaged(site, work_of(site, self._chunk_bytes))
        staged.stage()
        return staged

    resume = execute


class ConnectStaged:
    """`Staged` whose session ends with it, and whose server's errors are told in our words."""

    def __init__(self, site: ConnectSite, work: StagedWork | ScanStaged | MaintenanceWork) -> None:
        self._site, self._work = site, work
        self.main_moved = False
        self.rows = self.files = self.bytes = 0

    def stage(self) -> None:
        """Do what nobody sees."""
        try:
            with self._told():
                self._work.stage()
        except BaseException:
            self._site.session.stop()
            raise

    def commit(self) -> CommitOutcome:
        """Publish; a second call finds it done."""
        try:
            with self._told():
                return self._work.commit()
        finally:
            self._site.session.stop()

    def abort(self) -> None:
        """Drop what was staged."""
        self._site.session.stop()
        self._work.abort()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except LakeError:
            raise
        except Exception as error:
            raise self._site.told(error) from error
        finally:
            work = self._work
            self.rows, self.files, self.bytes, self.main_moved = work.rows, work.files, work.bytes, work.main_moved
