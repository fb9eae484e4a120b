"""Proposals in the format that was asked for."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.cli.console import wants_color, width
from reconciler.cli.project import TableDocument
from reconciler.cli.workspace import report
from reconciler.pipeline import Proposal
from reconciler.render.report import Report, Verdict
from reconciler.render.text import render_report, render_summary


def show_proposals(
    proposals: Sequence[Proposal], tables: Sequence[TableDocument], output: str, *, include_upkeep: bool
) -> str:
    """Render proposals as text, json, markdown or sarif; `tables` are their manifests, in the same order."""
    reports = [report(p) for p in proposals]
    match output:
        case "json":
            from reconciler.render.json import render_json

            return render_json(reports).rstrip("\n")
        case "markdown":
            from reconciler.render.markdown import render_comment

            return render_comment(reports).rstrip("\n")
        case "sarif":
            return _sarif(proposals, tables)
        case _:
            return _text(reports, include_upkeep=include_upkeep)


def _text(reports: Sequence[Report], *, include_upkeep: bool) -> str:
    """Show what needs reading in full; of many tables the unchanged ones are only counted, the failed ones named."""
    if len(reports) == 1:
        if reports[0].plan is None:
            return ""
        return render_report(reports[0], width=width(), color=wants_color()).rstrip("\n")
    hidden = Verdict.UNCHANGED, Verdict.FAILED
    shown = [r for r in reports if r.verdict not in hidden or (include_upkeep and r.plan and r.plan.upkeep)]
    pages = [render_report(r, width=width(), color=wants_color()) for r in shown]
    return "\n".join([*pages, render_summary(reports, width=width(), color=wants_color()).rstrip("\n")])


def _sarif(proposals: Sequence[Proposal], tables: Sequence[TableDocument]) -> str:
    from importlib.metadata import version

    from reconciler.render.sarif import LocatedFinding, render_sarif

    located = [
        LocatedFinding(
            finding=finding, table=str(proposal.plan.table), file=table.source, line=table.line_of(finding.path)
        )
        for proposal, table in zip(proposals, tables, strict=True)
        if proposal.plan is not None
        for finding in proposal.plan.findings
    ]
    return render_sarif(located, version=version("laketable")).rstrip("\n")
