"""Materialized views on a real Iceberg: planned by the pipeline, refreshed by the engine, compared with their query."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reconciler.catalogs.connection import CatalogSettings
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.engines.data_job import SparkEngine
from reconciler.engines.staged import MakeTable
from reconciler.engines.staging import StagingTable
from reconciler.jobs import run_job
from reconciler.model.table import Desired, Observed, TableIdent, View
from reconciler.model.types import StructType
from reconciler.pipeline import Approval, Execution, Proposal, Request, propose_all
from reconciler.plan.data import data_operations
from reconciler.plan.events import Event, Failed, Published, Refused
from reconciler.plan.operations import Operation, OperationKind, Plan, Refresh
from reconciler.plan.views import refresh_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW_MS = 1_800_000_000_000
_numbers = itertools.count()


class ViewLake:
    """A namespace of its own, with sources made by SQL and views made by LakeTable."""

    def __init__(self, spark: SparkSession, lake: str, properties: Mapping[str, str]) -> None:
        self.spark, self.lake = spark, lake
        self.namespace = f"views{next(_numbers)}"
        self.catalog = IcebergCatalog(CatalogSettings(name=lake, properties=dict(properties), origin="test"))
        spark.sql(f"CREATE NAMESPACE {lake}.{self.namespace}")

    # ------------------------------------------------------------ sources

    def sql(self, text: str) -> list[Any]:
        """Run SQL in which `@name` is a table of this namespace."""
        return list(self.spark.sql(text.replace("@", f"{self.lake}.{self.namespace}.")).collect())

    def source(self, name: str, columns: str, *, mode: str = "copy-on-write", more: str = "") -> None:
        """Make a source."""
        modes = ", ".join(f"'write.{verb}.mode'='{mode}'" for verb in ("delete", "update", "merge"))
        self.sql(
            f"CREATE TABLE @{name} ({columns}) USING iceberg {more} "
            f"TBLPROPERTIES ('format-version'='2', 'write.distribution-mode'='none', {modes})"
        )

    def ident(self, name: str) -> TableIdent:
        """Return a table's full name."""
        return TableIdent((self.namespace,), name)

    def observe(self, name: str) -> Observed:
        """Observe a table through the catalog port."""
        return self.catalog.get_table_spec(self.ident(name))

    # ------------------------------------------------------------ views

    def view(self, name: str, query: str, mode: str = "Auto", **more: Any) -> Desired:
        """Declare a view; `@name` in its query is a table of this namespace."""
        text = query.replace("@", f"{self.namespace}.")
        return Desired(
            ident=self.ident(name),
            owner="test",
            columns=StructType(()),
            view=View(query=text, mode=mode),
            **more,
        )

    def propose(self, *views: Desired) -> list[Proposal]:
        """Plan them together."""
        requests = [Request(view, self.catalog, self.lake) for view in views]
        return list(propose_all(requests, Approval(auto=True), now_ms=NOW_MS))

    def plan(self, view: Desired) -> Plan:
        """Plan one view."""
        (proposal,) = self.propose(view)
        assert proposal.plan is not None, proposal.error
        return proposal.plan

    def engine(self, table: MakeTable = StagingTable) -> SparkEngine:
        """Make the engine."""
        return SparkEngine(self.spark, self.lake, table=table)

    def apply(self, view: Desired, engine: SparkEngine | None = None) -> list[Event]:
        """Commit the metadata and make the rows."""
        made = self.plan(view)
        assert not made.is_blocked, made.findings
        changes = tuple(c for o in made.operations if o.kind is OperationKind.COMMIT for c in o.changes)
        if changes:
            self.catalog.apply(view.ident, made.base, changes)
        return self.run(view, data_operations(made), engine)

    def refresh(self, view: Desired, engine: SparkEngine | None = None) -> Refresh | None:
        """Refresh a view; returns the work, None when its sources have not moved."""
        made = self.plan(view)
        refreshing = refresh_plan(view, self.catalog.get_table_spec(view.ident), made)
        operations = data_operations(refreshing) if refreshing is not None else data_operations(made)
        if not operations:
            return None
        self.run(view, operations, engine)
        work = operations[0].work
        assert isinstance(work, Refresh)
        return work

    def run(self, view: Desired, operations: Sequence[Operation], engine: SparkEngine | None = None) -> list[Event]:
        """Run a job for some operations; it must not fail."""
        (proposal,) = self.propose(view)
        told: list[Event] = []
        execution = Execution(executor=lambda name, request: request.catalog, actor="tester", now_ms=NOW_MS)
        run_job(proposal, operations, lambda: engine or self.engine(), told.append, execution)
        failed = [event for event in told if isinstance(event, Failed | Refused)]
        assert not failed, failed
        assert any(isinstance(event, Published) for event in told) or not operations
        return told

    # ------------------------------------------------------------ rows

    def rows(self, name: str) -> Counter[tuple[Any, ...]]:
        """Read a table's rows, as a multiset."""
        return Counter(tuple(row) for row in self.sql(f"SELECT * FROM @{name}"))

    def result(self, query: str) -> Counter[tuple[Any, ...]]:
        """Run a query over the sources as they are."""
        return Counter(tuple(row) for row in self.sql(query))

    def versions(self, name: str) -> int:
        """Count a table's snapshots."""
        return len(self.observe(name).snapshot_ids)
