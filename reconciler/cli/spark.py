"""Spark, for the commands that turn out to need it: one session for all catalogs, one executor per catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from reconciler.catalogs.connection import EMBEDDED, CatalogSettings
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.cli.console import note
from reconciler.model.manifest.catalog import Runtime
from reconciler.model.quantities import parse_size
from reconciler.ports import Engine, MetadataExecutor


def spark_executors(
    settings: Sequence[CatalogSettings], urls: dict[str, str], catalogs: dict[str, IcebergCatalog]
) -> Callable[[str], MetadataExecutor]:
    """Return what gives a catalog's Spark executor: over Spark Connect where its runtime says so, else a local JVM.

    `urls` are the Spark Connect addresses by catalog name.
    """
    executors: dict[str, MetadataExecutor] = {}

    def executor(name: str) -> MetadataExecutor:
        if name not in executors:
            executors[name] = _connect(name, urls[name], catalogs[name]) if name in urls else _local(name, settings)
        return executors[name]

    return executor


def _local(name: str, settings: Sequence[CatalogSettings]) -> MetadataExecutor:
    from reconciler.engines.session import spark_session
    from reconciler.engines.spark_metadata import SparkExecutor

    note("Starting Spark …")
    for known in settings:
        if known.origin == EMBEDDED and known.sqlite_path is not None:
            known.sqlite_path.parent.mkdir(parents=True, exist_ok=True)  # SQLite makes the file, but no folder
    catalogs = [(s.name, {k: v for k, v in s.properties.items() if isinstance(v, str)}) for s in settings]
    return SparkExecutor(spark_session(catalogs, short=True), name)


def _connect(name: str, url: str, catalog: IcebergCatalog) -> MetadataExecutor:
    from reconciler.engines.connect import ConnectExecutor, connect_session

    return ConnectExecutor(connect_session(url), name, observe=catalog.get_table_spec)
