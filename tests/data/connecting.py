"""The kit's tables and views worked on over a real Spark Connect server, its writes in reach as the gateway's are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.engines.connect import connect_session
from reconciler.engines.connect_job import ConnectEngine, MakeSite
from reconciler.engines.connect_site import ConnectSite
from reconciler.engines.staging import StagingTable
from reconciler.model.table import TableIdent
from tests.data.kit import Lake, Shop, Writes
from tests.data.views import ViewLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Around = Callable[[Callable[[], bool]], bool]


def _done(write: Callable[[], None]) -> bool:
    write()
    return True


class Interrupted(IcebergCatalog):
    """Lets a test act around each of its commits."""

    def __init__(self, catalog: IcebergCatalog, around: Around) -> None:
        super().__init__(catalog.settings, backend=catalog._backend)
        self._around = around

    def commit_updates(self, *args: Any) -> None:
        """Make one write."""
        commit = super().commit_updates
        self._around(lambda: _done(lambda: commit(*args)))


def spied(around: Around) -> MakeSite:
    """Let a test act around each of Spark's appends."""

    class Spied(ConnectSite):
        def write(self, *args: Any) -> None:
            around(lambda: _done(lambda: ConnectSite.write(self, *args)))

    return Spied


def connected(url: str, catalog: IcebergCatalog, name: str, table: object, chunk_bytes: int) -> ConnectEngine:
    """Make the engine; `table` counts the writes when it is a `Writes`."""
    if not isinstance(table, Writes):
        return ConnectEngine(lambda: connect_session(url), name, catalog, chunk_bytes=chunk_bytes)
    watched, site = Interrupted(catalog, table.around), spied(table.around)
    return ConnectEngine(lambda: connect_session(url), name, watched, chunk_bytes=chunk_bytes, site=site)


class ConnectLake(Lake):
    """A table whose jobs run over Spark Connect."""

    url = ""

    def engine(self, table: Callable[..., StagingTable] = StagingTable, *, chunk_bytes: int = 1) -> ConnectEngine:
        """Make the engine; a chunk holds one file unless told otherwise."""
        return connected(self.url, self.catalog, self.catalog_name, table, chunk_bytes)


class ConnectShop(Shop):
    """Makes such tables."""

    def __init__(self, shop: Shop, url: str) -> None:
        super().__init__(shop.spark, shop.lakes)
        self._names, self._url = shop._names, url

    def make(self, lake: str, ident: TableIdent) -> Lake:
        """Describe a table that is to be made."""
        made = ConnectLake(self.spark, lake, ident, self.lakes[lake])
        made.url = self._url
        return made


class ConnectViewLake(ViewLake):
    """Views that are refreshed over Spark Connect."""

    def __init__(self, spark: SparkSession, lake: str, properties: Mapping[str, str], url: str) -> None:
        super().__init__(spark, lake, properties)
        self._properties, self._url = properties, url

    def table(self, name: str) -> Lake:
        """Look at a view's table as at any other."""
        return Lake(self.spark, self.lake, self.ident(name), self._properties)

    def engine(self, table: Callable[..., StagingTable] = StagingTable) -> ConnectEngine:
        """Make the engine."""
        return connected(self._url, self.catalog, self.lake, table, 1 << 30)
