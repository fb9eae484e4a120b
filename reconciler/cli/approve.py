"""`laketable approve`: commit a plan's hash into its manifest, so that apply releases exactly that plan."""

from __future__ import annotations

import click

from reconciler.cli import options
from reconciler.cli.console import note, say, wants_color, width
from reconciler.cli.files import STDIN
from reconciler.cli.fmt import replace_file
from reconciler.cli.project import TableDocument, load_tables
from reconciler.cli.workspace import Workspace, complain, report, worst
from reconciler.errors import ExitCode, InvalidInput
from reconciler.model.format import set_approval
from reconciler.pipeline import Proposal
from reconciler.render.report import short_hash
from reconciler.render.text import render_report


@click.command("approve")
@options.manifests
def command(names: tuple[str, ...], recursive: bool) -> int:
    """Plan, and write each plan's hash into its file as spec.approval.plan; comments and layout stay."""
    project = load_tables(names, recursive=recursive)
    if any(table.source == STDIN for table in project.tables):
        raise InvalidInput("An approval cannot be written to standard input.", hint="Name the file with -f.")
    proposals = Workspace(project).propose(project.tables)
    return worst([_approve(t, p) for t, p in zip(project.tables, proposals, strict=True)])


def _approve(table: TableDocument, proposal: Proposal) -> ExitCode:
    plan = proposal.plan
    if plan is None:
        complain([proposal])
        return proposal.error.exit_code if proposal.error else ExitCode.ERROR
    if plan.is_blocked:
        note(render_report(report(proposal), width=width(), color=wants_color()))
        return ExitCode.DENIED
    if not plan.operations:
        say(f"{table.place}: {plan.table} has nothing to approve.")
        return ExitCode.OK
    if table.desired.approval == plan.hash:
        say(f"{table.place}: {short_hash(plan.hash)} is approved already.")
        return ExitCode.OK
    with open(table.source, encoding="utf-8", newline="") as file:
        before = file.read()
    replace_file(table.source, set_approval(before, table.index, plan.hash))
    say(f"{table.place}: approved {short_hash(plan.hash)} for {plan.table}. Commit the file to release it.")
    return ExitCode.OK
