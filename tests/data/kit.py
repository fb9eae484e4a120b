"""Tables to backfill on a real Iceberg, the engine under test with its catalog writes in reach, and what must hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import msgspec

from reconciler.catalogs.connection import CatalogSettings
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.dialects import dialect_for
from reconciler.diff.bind import bind
from reconciler.diff.diff import diff
from reconciler.engines.data_job import SparkEngine
from reconciler.engines.staged import staging_ref
from reconciler.engines.staging import StagingTable
from reconciler.model.table import Computed, Desired, Observed, TableIdent
from reconciler.model.types import Field, StructType
from reconciler.plan.events import Event
from reconciler.plan.operations import Operation, OperationKind, Plan
from reconciler.plan.planner import plan
from reconciler.ports import Engine, Staged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMESPACE = ("backfills",)
NOW_MS = 1_800_000_000_000
COLUMNS = (("id", "long"), ("x", "int"), ("note", "string"))


class Killed(BaseException):
    """The process ended here; no handler may catch it."""


class Shop:
    """Makes tables on both catalogs and runs backfills of them."""

    def __init__(self, spark: SparkSession, lakes: Mapping[str, Mapping[str, str]]) -> None:
        self.spark, self.lakes = spark, lakes
        self._names = itertools.count()

    def fresh(self, lake: str = "embedded", *, version: int = 2, files: int = 3, extra: str = "") -> Lake:
        """Make a table of `files` files of four rows: id counts from 0, x = id % 5 and NULL for every seventh."""
        ident = TableIdent(NAMESPACE, f"t{next(self._names)}")
        made = self.make(lake, ident)
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {lake}.{NAMESPACE[0]}")
        self.spark.sql(
            f"CREATE TABLE {made.name} (id bigint, x int, note string) USING iceberg {extra} "
            f"TBLPROPERTIES ('format-version'='{version}', 'write.distribution-mode'='none', "
            "'write.delete.mode'='merge-on-read')"
        )
        for number in range(files):
            made.append(range(4 * number, 4 * number + 4))
        return made

    def make(self, lake: str, ident: TableIdent) -> Lake:
        """Describe a table that is to be made."""
        return Lake(self.spark, lake, ident, self.lakes[lake])


class Lake:
    """One table."""

    def __init__(self, spark: SparkSession, catalog: str, ident: TableIdent, properties: Mapping[str, str]) -> None:
        self.spark, self.catalog_name, self.ident = spark, catalog, ident
        self.name = f"{catalog}.{ident}"
        self.catalog = IcebergCatalog(CatalogSettings(name=catalog, properties=dict(properties), origin="test"))

    # ------------------------------------------------------------ rows

    def append(self, ids: Sequence[int] | range) -> int:
        """Ingest rows in one file, as a writer that knows no computed column; returns the snapshot."""
        rows = [(i, None if i % 7 == 6 else i % 5, f"n{i}") for i in ids]
        frame = self.spark.createDataFrame(rows, "id bigint, x int, note string").coalesce(1)
        for field in self.observe().spec.schema.fields[3:]:
            from pyspark.sql import functions as F

            frame = frame.withColumn(field.name, F.lit(None).cast(str(field.type).replace("long", "bigint")))
        frame.writeTo(self.name).append()
        head = self.observe().version.snapshot_id
        assert head is not None
        return head

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """Read every row, ordered."""
        return sorted((tuple(row) for row in self.spark.table(self.name).select(*columns).collect()), key=repr)

    # ------------------------------------------------------------ metadata

    def observe(self) -> Observed:
        """Observe the table through the catalog port."""
        return self.catalog.get_table_spec(self.ident)

    def versions(self) -> int:
        """Count the commits the catalog has made of this table, by its own metadata log."""
        return len(self._json()["metadata-log"]) + 1

    def snapshots(self) -> list[dict[str, Any]]:
        """List every snapshot of the metadata file."""
        found: list[dict[str, Any]] = self._json()["snapshots"]
        return found

    def _json(self) -> dict[str, Any]:
        location = self.catalog._backend.load(self.ident).metadata_location
        found: dict[str, Any] = msgspec.json.decode(Path(urlparse(location).path).read_bytes())
        return found

    def ancestry(self) -> list[int]:
        """Walk main from its head to its first snapshot."""
        parents = {s["snapshot-id"]: s.get("parent-snapshot-id") for s in self.snapshots()}
        at, found = self.observe().version.snapshot_id, []
        while at is not None:
            found.append(at)
            at = parents[at]
        return found

    def branches(self) -> list[str]:
        """List branches besides main."""
        return sorted(self.observe().spec.refs)

    # ------------------------------------------------------------ plan and run

    def wants(self, **computed: Computed) -> Desired:
        """State the three columns and computed ones of type long."""
        fields = [Field(name=n, required=False, type=t) for n, t in COLUMNS]
        fields += [Field(name=n, required=False, type="long") for n in computed if n not in dict(COLUMNS)]
        return Desired(
            ident=self.ident,
            owner="test",
            columns=StructType(tuple(fields)),
            computed={(n,): c for n, c in computed.items()},
        )

    def plan(self, desired: Desired) -> Plan:
        """Plan as the pipeline does."""
        current = self.observe()
        binding = bind(desired, current, now_ms=NOW_MS)
        changes = diff(current.spec, binding.spec)
        head = current.version.snapshot_id
        files = self.catalog.get_data_files(self.ident, head) if head is not None else ()
        return plan(
            desired,
            current,
            binding,
            changes,
            dialect=dialect_for(desired.format),
            catalog=self.catalog_name,
            files=files,
        )

    def evolve(self, desired: Desired) -> Operation:
        """Commit the metadata part of a plan and return its backfill."""
        made = self.plan(desired)
        assert not made.is_blocked, made.findings
        changes = tuple(c for o in made.operations if o.kind is OperationKind.COMMIT for c in o.changes)
        if changes:
            self.catalog.apply(self.ident, made.base, changes)
        return next(o for o in made.operations if o.kind is OperationKind.BACKFILL)

    def engine(self, table: Callable[..., StagingTable] = StagingTable, *, chunk_bytes: int = 1) -> Engine:
        """Make the engine; a chunk holds one file unless told otherwise."""
        return SparkEngine(self.spark, self.catalog_name, chunk_bytes=chunk_bytes, table=table)

    def start(self, operation: Operation, engine: Engine | None = None, events: list[Event] | None = None) -> Staged:
        """Stage an operation."""
        ref = staging_ref(self.ident, self.observe().version.uuid, operation)
        told = [] if events is None else events
        return (engine or self.engine()).execute(operation, ref, told.append)

    def run(self, operation: Operation, engine: Engine | None = None) -> Staged:
        """Stage and publish."""
        staged = self.start(operation, engine)
        staged.commit()
        return staged


class Writes:
    """Makes the engine's table count its catalog writes, and end the run before or after one of them."""

    def __init__(self, kill_at: tuple[int, str] | None = None) -> None:
        self.count = 0
        self._kill_at = kill_at

    def __call__(self, *args: Any) -> StagingTable:
        """Make a table."""
        return _Interrupted(self, *args)

    def around(self, commit: Callable[[], bool]) -> bool:
        """Make one write."""
        self.count += 1
        if self._kill_at == (self.count, "before"):
            raise Killed
        done = commit()
        if self._kill_at == (self.count, "after"):
            raise Killed
        return done


class _Interrupted(StagingTable):
    def __init__(self, writes: Writes, *args: Any) -> None:
        super().__init__(*args)
        self._writes = writes

    def _commit(self, *args: Any) -> bool:
        return self._writes.around(lambda: super(_Interrupted, self)._commit(*args))
