"""`laketable status`: one line per table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from reconciler.cli import options
from reconciler.cli.console import say, wants_color, width
from reconciler.cli.plan import exit_code
from reconciler.cli.project import load_tables
from reconciler.cli.workspace import Workspace, complain, now_ms, report, worst
from reconciler.pipeline import Proposal
from reconciler.plan.view_memory import freshness
from reconciler.render.report import summary_line
from reconciler.render.status import status_table, upkeep_lines


@click.command("status")
@options.manifests
def command(names: tuple[str, ...], recursive: bool) -> int:
    """List every table with its state, size and pending plan."""
    project = load_tables(names, recursive=recursive)
    proposals = Workspace(project).propose(project.tables)
    reports = [report(p) for p in proposals]
    say(status_table(reports, width(), color=wants_color()))
    for line in upkeep_lines(reports):
        say(line)
    for line in _freshness(proposals):
        say(line)
    say("")
    say(summary_line(reports))
    complain(proposals)
    return worst(exit_code(p, detailed=False) for p in proposals if p.plan is None)


def _freshness(proposals: Sequence[Proposal]) -> Iterator[str]:
    """Say of each materialized view how old its rows are."""
    for p in proposals:
        if p.request is None or p.request.view is None or p.request.desired.view is None or p.current is None:
            continue
        sources = {source.table: source.observed for source in p.request.view.sources}
        yield f"{p.table}: {freshness(p.request.desired.view, p.current, sources, now_ms=now_ms())}"
