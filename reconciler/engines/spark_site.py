"""Where an operation works over a classic Spark session: Iceberg's Java API is at hand, behind the gateway.

Files are read and written by the parts of Iceberg's own rewrite_data_files: a group of scan tasks that Spark reads as a
table, and a write to it that is collected instead of committed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from reconciler.engines.backfill_files import as_one, row_error, staged_frame
from reconciler.engines.bloom_filters import Opened, without_filters
from reconciler.engines.data_files import Task, everything, iterate, live_tasks
from reconciler.engines.data_progress import Tell
from reconciler.engines.gateway import jvm_of
from reconciler.engines.java_errors import translate
from reconciler.engines.refresh_rows import row_failure
from reconciler.engines.spark_sources import SparkSources
from reconciler.engines.sql import table_name
from reconciler.engines.staging import StagingTable
from reconciler.engines.table_cache import table_cache
from reconciler.errors import LakeError
from reconciler.plan.operations import Backfill, Operation, Refresh
from reconciler.ports import StagingRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_BUFFER = "java.nio."
_PRINTED_ALIKE = ("null", _BUFFER)


@dataclass(frozen=True, slots=True)
class SparkSite:
    """`Site` beside Iceberg's Java API."""

    session: SparkSession
    catalog: str
    table: StagingTable
    operation: Operation
    ref: StagingRef
    tell: Tell

    @property
    def branch_place(self) -> str:
        """Name table and branch for a message."""
        return f"{self.ref.table} branch {self.ref.branch}"

    def at(self, snapshot_id: int) -> DataFrame:
        """Read the table as of a snapshot."""
        name = table_name(self.catalog, self.ref.table)
        return self.session.read.option("versionAsOf", str(snapshot_id)).table(name)

    def live(self, snapshot_id: int, wants: Callable[[Any], bool] = everything) -> list[Task]:
        """List a snapshot's files that hold rows and that `wants` picks."""
        return live_tasks(self.table.load(), snapshot_id, wants)

    @contextmanager
    def staged(self, tasks: Sequence[Task]) -> Iterator[DataFrame]:
        """Read just these files, their deletes applied."""
        with staged_frame(self.session, self.table.load(), tasks) as (frame, _):
            yield frame

    def rewrite(
        self,
        tasks: Sequence[Task],
        make: Callable[[DataFrame], DataFrame],
        options: Mapping[str, str],
        *,
        is_whole: bool = False,
    ) -> list[Any]:
        """Write what becomes of these files' rows; commit nothing."""
        table = self.table.load()
        staged = [as_one(self.session, table, task) for task in tasks] if is_whole else tasks
        with staged_frame(self.session, table, staged) as (frame, group):
            return self._write(table, group, make(frame), options)

    def append(self, frame: DataFrame, options: Mapping[str, str]) -> list[Any]:
        """Write rows as files of the table and return them; commit nothing."""
        table, group, cache = self.table.load(), str(uuid4()), table_cache(self.session)
        cache.add(group, table)
        try:
            return self._write(table, group, frame, options)
        finally:
            cache.remove(group)

    def _write(self, table: Any, group: str, frame: DataFrame, options: Mapping[str, str]) -> list[Any]:
        writes = jvm_of(self.session).org.apache.iceberg.spark.FileRewriteCoordinator.get()
        try:
            frame.write.format("iceberg").options(**options).mode("append").save(group)
            return [file.copy() for file in iterate(writes.fetchNewFiles(table, group))]
        except LakeError:
            raise
        except Exception as error:
            raise self.told(error) from error
        finally:
            writes.clearRewrite(table, group)

    def fill(self, tasks: Sequence[Task], backfill: Backfill, *, splices: bool) -> list[Any]:
        """Splice the values into the files that can take them, and write the others anew."""
        from reconciler.engines.splice_files import fill_files

        return fill_files(self, self.table.load(), tasks, backfill, splices=splices)

    def without_filters(self, tasks: Sequence[Task], columns: Collection[int]) -> set[str]:
        """Return the paths of the files in which one of these columns has no bloom filter, nor needs one."""
        io = self.table.load().io()
        return without_filters(lambda path: Opened(io, path), tasks, columns)

    def partition_of(self, task: Task) -> str:
        """Return what tells a file's partition from all others of its spec."""
        partition = task.java.file().partition()
        text = str(partition.toString())
        if not any(word in text for word in _PRINTED_ALIKE):
            return text
        to_bytes = jvm_of(self.session).org.apache.iceberg.util.ByteBuffers.toByteArray
        return repr([_plain(partition.get(number), to_bytes) for number in range(partition.size())])

    def sources(self) -> SparkSources:
        """Open the tables that a view reads."""
        return SparkSources(self.session, self.catalog)

    def told(self, error: Exception, *, committing: bool = False) -> LakeError:
        """Return what to raise for what Spark threw."""
        where = str(self.ref.table)
        if isinstance(error, LakeError):
            return error
        if isinstance(self.operation.work, Refresh):
            return row_failure(error, where)
        return row_error(error) or translate(error, where, committing=committing)


def _plain(value: Any, to_bytes: Callable[[Any], bytes]) -> Any:
    """Return a value of Java's as one that prints like no other."""
    from py4j.java_gateway import JavaObject

    if not isinstance(value, JavaObject):
        return value
    text = str(value)
    return to_bytes(value) if text.startswith(_BUFFER) else text
