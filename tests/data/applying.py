"""Apply manifests to the kit's tables as the pipeline does, the data job inside this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from reconciler.engines.staging import StagingTable
from reconciler.jobs import run_job
from reconciler.model.table import Desired
from reconciler.pipeline import Approval, Execution, Proposal, Request, execute, propose_all
from reconciler.plan.data import data_operations
from reconciler.plan.events import Event, Failed, Refused
from reconciler.plan.operations import Plan
from tests.data.kit import NOW_MS, Lake


@dataclass
class Applier:
    """One table's manifest on its way; `table` makes what the job writes through, `between` runs before each job."""

    lake: Lake
    table: Callable[..., StagingTable] = StagingTable
    between: Callable[[], None] = lambda: None
    now_ms: int = NOW_MS
    jobs: list[list[str]] = field(default_factory=list)

    def propose(self, desired: Desired, *, approve: bool = True) -> Proposal:
        """Plan, and approve what was planned."""
        request = Request(desired, self.lake.catalog, self.lake.catalog_name)
        (proposal,) = propose_all([request], Approval(auto=approve), now_ms=self.now_ms)
        if approve and proposal.plan is not None:
            hashes = frozenset({proposal.plan.hash})
            (proposal,) = propose_all([request], Approval(hashes=hashes, auto=True), now_ms=self.now_ms)
        return proposal

    def apply(self, desired: Desired, *, approve: bool = True, engine: str = "auto") -> list[Event]:
        """Plan and carry out."""
        return list(execute(self.propose(desired, approve=approve), self.execution(desired, engine)))

    def ok(self, desired: Desired) -> list[Event]:
        """Apply; it must succeed, and leave nothing to do."""
        events = self.apply(desired)
        assert not [e for e in events if isinstance(e, Failed | Refused)], events
        left = self.propose(desired).plan
        assert left is not None
        assert left.is_empty, left.operations
        return events

    def refused(self, desired: Desired) -> Failed | Refused:
        """Apply; it must end in a refusal."""
        last = self.apply(desired)[-1]
        assert isinstance(last, Failed | Refused), last
        return last

    def execution(self, desired: Desired, engine: str = "auto") -> Execution:
        """Say how plans are carried out here."""
        return Execution(
            executor=lambda name, request: request.catalog,
            actor="tester",
            now_ms=self.now_ms,
            data=lambda request: _InProcess(self, desired),
            engine=engine,
        )


@dataclass
class _InProcess:
    """`DataRuntime` without a process of its own: it plans again and runs the job, as `laketable execute` does."""

    applier: Applier
    desired: Desired

    def run(self, plan: Plan) -> Iterator[Event]:
        """Run the plan's data operations."""
        self.applier.between()
        told: list[Event] = []
        wanted = data_operations(plan)
        self.applier.jobs.append([operation.kind.value for operation in wanted])
        engine = self.applier.lake.engine(self.applier.table)
        execution = self.applier.execution(self.desired)
        run_job(self.applier.propose(self.desired), wanted, lambda: engine, told.append, execution)
        yield from told
