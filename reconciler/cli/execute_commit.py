"""`laketable execute --commit`: the metadata commit of a plan document, through Spark where the catalog cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from reconciler.cli.workspace import Workspace
from reconciler.errors import LakeError
from reconciler.jobs import Tell, run_job
from reconciler.pipeline import Execution, Proposal, Request, execute, failure, require_same
from reconciler.plan.events import Event
from reconciler.plan.operations import OperationKind, Plan
from reconciler.plan.validation import scans
from reconciler.ports import Engine

_COMMITTED = (OperationKind.COMMIT, OperationKind.RENAME_TABLE, OperationKind.DROP_TABLE)


@dataclass(frozen=True)
class ScansOnly:
    """A `DataRuntime` within the job: it looks at the rows that a commit rests on; other work has its own jobs."""

    proposal: Proposal
    engine: Callable[[], Engine]
    execution: Execution

    def run(self, plan: Plan) -> Iterator[Event]:
        """Run the scans of a plan."""
        told: list[Event] = []
        run_job(self.proposal, scans(plan.operations), self.engine, told.append, self.execution)
        return iter(told)


def commit(workspace: Workspace, proposal: Proposal, reviewed: Plan, engine: Callable[[], Engine], tell: Tell) -> None:
    """Carry out a released plan's metadata; an error becomes the last event.

    What was released is the document's plan: another one that is made by now is refused.
    """
    execution = workspace.execution(engine="auto", include_upkeep=True)

    def data(_: Request) -> ScansOnly:
        return ScansOnly(proposal, engine, execution)

    try:
        made = proposal.plan
        if made is None:
            raise proposal.error or LakeError("There is no plan to carry out.")
        require_same(made, reviewed)
        upkeep = tuple(operation for operation in made.upkeep if operation.kind in _COMMITTED)
        proposal = msgspec.structs.replace(proposal, plan=msgspec.structs.replace(made, upkeep=upkeep))
    except LakeError as error:
        tell(failure(proposal.table, error, proposal.source))
        return
    for event in execute(proposal, msgspec.structs.replace(execution, data=data)):
        tell(event)
