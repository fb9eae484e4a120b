"""Spark, for the commands that turn out to need it: one session for all catalogs, one executor per catalog."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from reconciler.catalogs.connection import EMBEDDED, CatalogSettings
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.cli.console import note
from reconciler.engines.executors import executors_conf
from reconciler.model.manifest.catalog import Runtime
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
    return SparkExecutor(spark_session(_known(settings), short=True), name)


def _known(settings: Sequence[CatalogSettings]) -> list[tuple[str, Mapping[str, str]]]:
    return [(s.name, {k: v for k, v in s.properties.items() if isinstance(v, str)}) for s in settings]


def data_engine(
    name: str,
    settings: Sequence[CatalogSettings],
    runtime: Runtime | None,
    catalog: IcebergCatalog,
    *,
    is_small: bool,
) -> Engine:
    """Return what runs a catalog's data jobs: a Spark Connect server, or a Spark as large as its runtime says.

    `is_small`: there is too little data to make the most of the JVM.
    """
    if runtime is not None and runtime.type == "connect" and runtime.url is not None:
        from reconciler.engines.connect import connect_session
        from reconciler.engines.connect_job import ConnectEngine

        url = runtime.url
        return ConnectEngine(lambda: connect_session(url), name, catalog)
    from reconciler.engines.data_job import SparkEngine
    from reconciler.engines.session import spark_session

    return SparkEngine(spark_session(_known(settings), _profile(runtime), is_small=is_small), name)


def _profile(runtime: Runtime | None) -> dict[str, str]:
    """Translate a runtime into Spark's settings."""
    if runtime is None:
        return {}
    conf = dict(runtime.spark_conf or {})
    if runtime.memory is not None:
        conf["spark.driver.memory"] = runtime.memory.removesuffix("i").lower()  # 2Gi and 2g are the same to the JVM
    if runtime.executors is not None:
        conf |= executors_conf(runtime.executors, os.environ)
    elif runtime.cores is not None:
        conf["spark.master"] = f"local[{runtime.cores}]"
    return conf


def _connect(name: str, url: str, catalog: IcebergCatalog) -> MetadataExecutor:
    from reconciler.engines.connect import ConnectExecutor, connect_session

    return ConnectExecutor(connect_session(url), name, observe=catalog.get_table_spec)
