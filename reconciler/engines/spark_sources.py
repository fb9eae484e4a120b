"""The tables that a view reads, over Iceberg's Java API: just the files that changed, or a snapshot as it was."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from reconciler.engines.data_files import Task, live_tasks
from reconciler.engines.gateway import jvm_of
from reconciler.engines.source_changes import SourceChange, expired, made_anew, source_change
from reconciler.engines.sql import table_name
from reconciler.engines.staging import StagingTable
from reconciler.engines.table_cache import table_cache
from reconciler.model.table import TableIdent
from reconciler.plan.operations import SourceRead

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkSources:
    """`Sources` of a classic session."""

    def __init__(self, session: SparkSession, catalog: str) -> None:
        """Load nothing yet."""
        self._session, self._catalog = session, catalog
        self._stack = ExitStack()
        self._tables: dict[TableIdent, Any] = {}

    def close(self) -> None:
        """Give back what Spark keeps for us."""
        self._stack.close()

    def changes(self, source: SourceRead) -> SourceChange:
        """Return the files that came and went since the last refresh; raises Unreadable."""
        assert source.since is not None and source.snapshot_id is not None  # noqa: S101, PT018
        return source_change(self._load(source), source.since, source.snapshot_id, str(source.table))

    def rows(self, source: SourceRead, part: Sequence[Task]) -> DataFrame:
        """Read some files of a source."""
        return self._tasks(self._load(source), part, source)

    def pinned(self, source: SourceRead) -> DataFrame:
        """Read a source at its watermark, under its schema of today."""
        name, table = table_name(self._catalog, source.table), self._load(source)
        if source.snapshot_id is None:
            return self._session.table(name).where("false")
        snapshot = table.snapshot(source.snapshot_id)
        if snapshot is None:
            raise expired(source)
        if snapshot.schemaId() == table.schema().schemaId():
            return self._session.read.option("versionAsOf", str(source.snapshot_id)).table(name)
        return self._tasks(table, live_tasks(table, source.snapshot_id, lambda file: True), source)

    def _load(self, source: SourceRead) -> Any:
        """Load a source's table; another table of that name is a conflict."""
        if source.table not in self._tables:
            table = StagingTable(self._session, self._catalog, source.table).load()
            if str(table.uuid().toString()) != source.uuid:
                raise made_anew(source)
            self._tables[source.table] = table
        return self._tables[source.table]

    def _tasks(self, table: Any, tasks: Sequence[Task], source: SourceRead) -> DataFrame:
        if not tasks:
            return self._session.table(table_name(self._catalog, source.table)).where("false")
        spark = jvm_of(self._session).org.apache.iceberg.spark
        group, staged = str(uuid4()), jvm_of(self._session).java.util.ArrayList()
        for task in tasks:
            staged.add(task.java)
        cache, reads = table_cache(self._session), spark.ScanTaskSetManager.get()
        cache.add(group, table)
        self._stack.callback(cache.remove, group)
        reads.stageTasks(table, group, staged)
        self._stack.callback(reads.removeTasks, table, group)
        return self._session.read.format("iceberg").load(group)
