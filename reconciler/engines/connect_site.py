"""Where an operation works over Spark Connect: Spark reads and appends, the catalog makes snapshots of files.

There is no gateway to Iceberg's API, and SQL can neither read some of a snapshot's files nor replace a file. So the
catalog commits a snapshot that holds the wanted files alone, and Spark reads that; and Spark appends to a scratch
branch, from which the commit of the work takes the new files by reference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from reconciler.engines.backfill_files import WHOLE, rewrite
from reconciler.engines.bloom_filters import without_filters
from reconciler.engines.catalog_files import CatalogFile, task_of
from reconciler.engines.catalog_table import CatalogTable
from reconciler.engines.connect_errors import translate
from reconciler.engines.connect_sources import ConnectSources
from reconciler.engines.data_files import Task, everything
from reconciler.engines.data_progress import Tell
from reconciler.engines.data_state import OPERATION_STAMP
from reconciler.engines.sql import identifier, table_name
from reconciler.errors import CatalogUnavailable, LakeError
from reconciler.plan.operations import Backfill, Operation
from reconciler.ports import StagingRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WRITE_STAMP = "laketable.write"
"""On what Spark appended: a name of its own for each write, by which a lost answer is looked up."""


@dataclass(frozen=True, slots=True)
class ConnectSite:
    """`Site` beside a Spark Connect server."""

    session: SparkSession
    catalog: str
    table: CatalogTable
    operation: Operation
    ref: StagingRef
    tell: Tell

    @property
    def branch_place(self) -> str:
        """Name table and branch for a message."""
        return f"{self.ref.table} branch {self.ref.branch}"

    # ------------------------------------------------------------ read

    def at(self, snapshot_id: int) -> DataFrame:
        """Read the table as of a snapshot."""
        return self._fresh().option("versionAsOf", str(snapshot_id)).table(self._name)

    def live(self, snapshot_id: int, wants: Callable[[Any], bool] = everything) -> list[Task]:
        """List a snapshot's files that hold rows and that `wants` picks: by spec, sort order, then path."""
        files = (file for file in self.table.live_files(snapshot_id) if file.recordCount() and wants(file))
        return sorted(map(task_of, files), key=lambda t: (t.spec_id, t.sort_order_id, t.path))

    @contextmanager
    def staged(self, tasks: Sequence[Task]) -> Iterator[DataFrame]:
        """Read just these files of one snapshot, their deletes applied, under the table's schema of today."""
        scratch, start = self._select(tasks)
        try:
            yield self.at(start)
        finally:
            self.table.drop_branches([scratch], self.ref.uuid)

    # ------------------------------------------------------------ write

    def rewrite(
        self,
        tasks: Sequence[Task],
        make: Callable[[DataFrame], DataFrame],
        options: Mapping[str, str],
        *,
        is_whole: bool = False,
    ) -> list[Any]:
        """Write what becomes of these files' rows as new files: a file of several row groups becomes several."""
        scratch, start = self._select(tasks)
        reader = self._fresh().option("split-size", str(WHOLE)).option("file-open-cost", str(WHOLE))
        return self._append(
            scratch, start, lambda: make(reader.option("versionAsOf", str(start)).table(self._name)), options
        )

    def append(self, frame: DataFrame, options: Mapping[str, str]) -> list[Any]:
        """Write rows as files of the table and return them."""
        head = self.table.facts().head_of(self.ref.branch)
        if head is None:
            raise CatalogUnavailable("Its branch is gone.", where=self.branch_place, hint="Apply again.")
        scratch, start = self.table.create_scratch(self.ref.branch, head, None, self.ref.uuid, None)
        return self._append(scratch, start, lambda: frame, options)

    def fill(self, tasks: Sequence[Task], backfill: Backfill, *, splices: bool) -> list[Any]:
        """Write the files anew with their values: splicing needs a Python of ours on the server."""
        return rewrite(self, tasks, backfill)

    def _select(self, tasks: Sequence[Task]) -> tuple[str, int]:
        paths, seen_in = [task.path for task in tasks], tasks[0].java.file().snapshot_id
        return self.table.create_scratch(self.ref.branch, seen_in, paths, self.ref.uuid, None)

    def _append(
        self, scratch: str, start: int, make: Callable[[], DataFrame], options: Mapping[str, str]
    ) -> list[CatalogFile]:
        """Let Spark append to a scratch branch; when its answer is lost, the branch tells whether it has."""
        stamp, failed = uuid4().hex, None
        stamps = {OPERATION_STAMP: self.operation.id, WRITE_STAMP: stamp}
        stamped = {f"snapshot-property.{key}": value for key, value in stamps.items()}
        place = f"{self._name}.{identifier(f'branch_{scratch}')}"
        try:
            self._fresh()
            self.write(make(), place, {"fanout-enabled": "true", **options, **stamped})
        except Exception as error:  # noqa: BLE001 - the branch decides whether it is one
            failed = error
        facts = self.table.facts()
        # A server may go on after its client gave up, and append twice: the first time counts.
        landed = [s for s in facts.ancestors(facts.head_of(scratch)) if s.summary.get(WRITE_STAMP) == stamp]
        if landed:
            return self.table.changed_files(landed[-1].snapshot_id)[0]
        if failed is not None:
            with suppress(LakeError):
                self.table.drop_branches([scratch], self.ref.uuid)
            if isinstance(failed, LakeError):
                raise failed
            raise self.told(failed) from failed
        if facts.head_of(scratch) != start:
            raise CatalogUnavailable("What Spark wrote is not there.", where=self.branch_place, hint="Apply again.")
        return []

    def write(self, frame: DataFrame, place: str, options: Mapping[str, str]) -> None:
        """Append rows to a branch, in one snapshot."""
        writer = frame.writeTo(place)
        for key, value in options.items():
            writer = writer.option(key, value)
        writer.append()

    # ------------------------------------------------------------ the rest

    def without_filters(self, tasks: Sequence[Task], columns: Collection[int]) -> set[str]:
        """Return the paths of the files in which one of these columns has no bloom filter, nor needs one."""
        catalog, table = self.table.catalog, self.table.ident
        return without_filters(lambda path: catalog.open_file(table, path), tasks, columns)

    def partition_of(self, task: Task) -> str:
        """Return what tells a file's partition from all others of its spec."""
        partition: str = task.java.file().partition()
        return partition

    def sources(self) -> ConnectSources:
        """Open the tables that a view reads."""
        return ConnectSources(self.session, self.catalog, self.table.catalog)

    def told(self, error: Exception, *, committing: bool = False) -> LakeError:
        """Return what to raise for what Spark threw."""
        return translate(error, self.operation, str(self.ref.table), committing=committing)

    @property
    def _name(self) -> str:
        return table_name(self.catalog, self.ref.table)

    def _fresh(self) -> Any:
        """Return a reader of the table as it is: the server may know what it was, and others commit to it."""
        self.session.sql(f"REFRESH TABLE {self._name}")
        return self.session.read
