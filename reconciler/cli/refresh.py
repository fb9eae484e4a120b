"""`laketable refresh`: give materialized views the rows that their sources have by now."""

from __future__ import annotations

import click
import msgspec

from reconciler.cli import options
from reconciler.cli.apply import JsonShow, TextShow, exit_code_of
from reconciler.cli.project import load_tables
from reconciler.cli.workspace import Workspace, now_ms, worst
from reconciler.errors import ExitCode, InvalidInput, LakeError
from reconciler.pipeline import Approval, Execution, Proposal, execute, failure, judged
from reconciler.pipeline.views import Key, in_order
from reconciler.plan.events import Event, Skipped
from reconciler.plan.views import refresh_plan

_APPROVAL = Approval(auto=True)


@click.command("refresh")
@options.manifests
@click.argument("views", nargs=-1)
@options.output("text", "json")
def command(names: tuple[str, ...], recursive: bool, views: tuple[str, ...], output: str) -> int:
    """Refresh views whose sources moved: all that the manifests declare, or VIEWS only; those they read come first.

    A view whose sources stand where they stood starts no job. A view whose query changed is the work of 'laketable
    apply'.
    """
    project = load_tables(names, recursive=recursive)
    declared = {str(d.desired.ident): d for d in project.tables if d.desired.view is not None}
    for view in views:
        if view not in declared:
            raise InvalidInput(f"No manifest declares view {view}.", hint="Name the file that does with -f.")
    workspace = Workspace(project)
    execution = workspace.execution(engine="auto", include_upkeep=False)
    show = TextShow() if output == "text" else JsonShow()
    codes: list[ExitCode] = []
    touched: set[Key] = set()
    for proposal in in_order(workspace.propose([d for name, d in declared.items() if not views or name in views])):
        now = workspace.propose_again(proposal, _APPROVAL) if touched.intersection(proposal.reads) else proposal
        last = _refresh(now, execution, show)
        if not isinstance(last, Skipped):
            touched.add(proposal.key)
        codes.append(exit_code_of(last))
    return worst(codes)


def _refresh(proposal: Proposal, execution: Execution, show: TextShow | JsonShow) -> Event | None:
    last: Event | None = None
    try:
        refreshing = _refreshing(proposal)
    except LakeError as error:
        last = failure(proposal.table, error, proposal.source)
        show.event(last)
        return last
    if refreshing is None:
        last = Skipped(table=proposal.table, message="fresh: its sources have not moved")
        show.event(last)
        return last
    for last in execute(refreshing, execution):
        show.event(last)
    return last


def _refreshing(proposal: Proposal) -> Proposal | None:
    """Make the plan that refreshes; None when the view is fresh."""
    request, current, made = proposal.request, proposal.current, proposal.plan
    if proposal.error is not None:
        raise proposal.error
    if request is None or current is None or made is None:
        raise InvalidInput("There is no such view yet.", where=str(proposal.table), hint="Apply it first.")
    if made.operations or made.is_blocked:
        raise InvalidInput("The view is not what its manifest says.", where=str(proposal.table), hint="Apply it first.")
    refresh = refresh_plan(request.desired, current, made)
    if refresh is None:
        return None
    return judged(msgspec.structs.replace(proposal, plan=refresh), _APPROVAL, now_ms=now_ms())
