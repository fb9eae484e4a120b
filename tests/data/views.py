"""Materialized views on a real Iceberg: planned by the pipeline, refreshed by the engine, compared with their query."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from reconciler.catalogs.connection import CatalogSettings
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.engines.data_job import MakeTable, SparkEngine
from reconciler.engines.staged import staging_ref
from reconciler.engines.staging import StagingTable
from reconciler.jobs import run_job
from reconciler.model.table import Desired, Observed, TableIdent, View
from reconciler.model.types import StructType
from reconciler.pipeline import Approval, Execution, Proposal, Request, execute, propose_all
from reconciler.pipeline.views import in_order
from reconciler.plan.data import data_operations
from reconciler.plan.events import Event, Failed, Published, Refused
from reconciler.plan.operations import Operation, Plan, Refresh
from reconciler.plan.views import refresh_plan
from reconciler.ports import Engine, Staged

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

    def engine(self, table: MakeTable = StagingTable) -> Engine:
        """Make the engine."""
        return SparkEngine(self.spark, self.lake, table=table)

    def apply(self, *wanted: Desired, upkeep: bool = False) -> list[Event]:
        """Plan together and carry out in order, as the program does; nothing may fail."""
        told: list[Event] = []
        for proposal in in_order(self.propose(*wanted)):
            assert proposal.request is not None
            desired = next(one for one in wanted if one.ident == proposal.table)
            (now,) = self.propose(desired)  # its sources are there by now
            told += execute(now, self.execution(upkeep=upkeep))
        failed = [event for event in told if isinstance(event, Failed | Refused)]
        assert not failed, failed
        return told

    def execution(self, *, upkeep: bool = False) -> Execution:
        """Say how plans are carried out here."""
        return Execution(
            executor=lambda name, request: request.catalog,
            actor="tester",
            now_ms=NOW_MS,
            data=lambda request: _InProcess(self, request.desired),
            include_upkeep=upkeep,
        )

    def refresh(self, view: Desired, engine: Engine | None = None) -> Refresh | None:
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

    def stage(self, view: Desired, operation: Operation) -> Staged:
        """Stage an operation as it was planned, and no other."""
        ref = staging_ref(view.ident, self.catalog.get_table_spec(view.ident).version.uuid, operation)
        return self.engine().execute(operation, ref, lambda event: None)

    def run_anyway(self, view: Desired, operations: Sequence[Operation]) -> list[Event]:
        """Run a job that may fail."""
        (proposal,) = self.propose(view)
        told: list[Event] = []
        run_job(proposal, operations, self.engine, told.append, self.execution())
        return told

    def run(self, view: Desired, operations: Sequence[Operation], engine: Engine | None = None) -> list[Event]:
        """Run a job for some operations; it must not fail."""
        (proposal,) = self.propose(view)
        told: list[Event] = []
        run_job(proposal, operations, lambda: engine or self.engine(), told.append, self.execution())
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


@dataclass
class _InProcess:
    """`DataRuntime` without a process of its own: it plans again and runs the job, as `laketable execute` does."""

    lake: ViewLake
    desired: Desired

    def run(self, plan: Plan) -> Iterator[Event]:
        """Run the plan's data operations."""
        desired = self.desired
        if desired.view is not None:
            desired = msgspec.structs.replace(desired, columns=StructType(()))  # read the query again
        yield from self.lake.run(desired, data_operations(plan))
