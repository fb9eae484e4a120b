"""`laketable backfill`: give rows that other writers appended the values of their computed columns."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from reconciler.cli import options
from reconciler.cli.apply import JsonShow, TextShow, exit_code_of
from reconciler.cli.project import load_tables
from reconciler.cli.workspace import Workspace, now_ms, worst
from reconciler.errors import InvalidInput, LakeError
from reconciler.pipeline import Approval, Execution, Proposal, execute, failure, judged
from reconciler.plan.data import fill_plan, unfilled_rows
from reconciler.plan.events import Event, Skipped


@click.command("backfill")
@options.manifests
@click.argument("tables", nargs=-1)
@options.output("text", "json")
def command(names: tuple[str, ...], recursive: bool, tables: tuple[str, ...], output: str) -> int:
    """Fill rows written since the last backfill without their computed values; of all tables, or of TABLES only.

    Only files that hold such rows are rewritten. A column whose expression changed is the work of 'laketable apply'.
    """
    project = load_tables(names, recursive=recursive)
    known = {str(document.desired.ident) for document in project.tables}
    for table in tables:
        if table not in known:
            raise InvalidInput(f"No manifest declares table {table}.", hint="Name the file that does with -f.")
    chosen = [d for d in project.tables if not tables or str(d.desired.ident) in tables]
    workspace = Workspace(project)
    execution = workspace.execution(engine="auto", include_upkeep=False)
    show = TextShow() if output == "text" else JsonShow()
    codes = []
    for proposal in workspace.propose(chosen):
        last: Event | None = None
        for last in _events(proposal, execution):
            show.event(last)
        codes.append(exit_code_of(last))
    return worst(codes)


def _events(proposal: Proposal, execution: Execution) -> Iterator[Event]:
    try:
        filling = _filling(proposal)
    except LakeError as error:
        yield failure(proposal.table, error, proposal.source)
        return
    if filling is None:
        yield Skipped(table=proposal.table, message="no row lacks a computed value")
        return
    yield from execute(filling, execution)


def _filling(proposal: Proposal) -> Proposal | None:
    """Make the plan that fills; None when the manifests prove that no value is missing."""
    request, current = proposal.request, proposal.current
    if proposal.error is not None:
        raise proposal.error
    if request is None or current is None or proposal.plan is None:
        raise InvalidInput("There is no such table yet.", where=str(proposal.table), hint="Apply it first.")
    if proposal.plan.operations or proposal.plan.is_blocked:
        raise InvalidInput(
            "The table is not what its manifest says.", where=str(proposal.table), hint="Apply it first."
        )
    if current.version.snapshot_id is None:
        return None
    files = request.catalog.get_data_files(current.spec.ident, current.version.snapshot_id)
    made = fill_plan(request.desired, current, proposal.plan, files)
    if made is None or not unfilled_rows(request.desired, current, files):
        return None
    return judged(msgspec.structs.replace(proposal, plan=made), Approval(auto=True), now_ms=now_ms())
