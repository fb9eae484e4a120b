"""`laketable diff`: the live tables against their manifests, as a unified diff; exit codes as kubectl's."""

from __future__ import annotations

import difflib

import click

from reconciler.cli import options
from reconciler.cli.console import note, say
from reconciler.cli.main import DIFF_FAILED
from reconciler.cli.project import TableDocument, load_tables
from reconciler.cli.workspace import Workspace, complain, now_ms
from reconciler.diff.bind import bind
from reconciler.model.observed_manifest import from_observed
from reconciler.model.table import Observed, TableSpec, TableVersion
from reconciler.model.yaml_text import dump_yaml
from reconciler.pipeline import Proposal
from reconciler.render.safe import clean

SAME, DIFFERS = 0, 1


@click.command("diff")
@options.manifests
def command(names: tuple[str, ...], recursive: bool) -> int:
    """Show live tables against their manifests; exits 0 when they are the same, 1 when not, 3 on an error."""
    project = load_tables(names, recursive=recursive)
    proposals = Workspace(project).propose(project.tables)
    return max((_show(t, p) for t, p in zip(project.tables, proposals, strict=True)), default=SAME)


def _show(table: TableDocument, proposal: Proposal) -> int:
    if proposal.plan is None:
        complain([proposal])
        return DIFF_FAILED
    for finding in proposal.plan.findings:
        if finding.is_blocking:
            note(clean(f"{table.place}: {finding.code} {finding.message} {finding.hint}"))
    if proposal.plan.is_empty:
        return SAME
    live = _yaml(proposal.current.spec, table) if proposal.current else ""
    wanted = _yaml(bind(table.desired, proposal.current, now_ms=now_ms()).spec, table)
    lines = difflib.unified_diff(
        live.splitlines(), wanted.splitlines(), f"live/{proposal.plan.table}", table.place, lineterm=""
    )
    say("\n".join(lines))
    return DIFFERS


def _yaml(spec: TableSpec, table: TableDocument) -> str:
    version = TableVersion(uuid="", schema_id=0, spec_id=0, sort_order_id=0, last_field_id=0)
    observed = Observed(spec=spec, version=version)
    return dump_yaml(from_observed(observed, name=table.name, namespace=table.namespace, catalog_ref=table.catalog_ref))
