"""`laketable lineage`: which materialized views read which tables and columns."""

from __future__ import annotations

from collections.abc import Iterator

import click

from reconciler.cli import options
from reconciler.cli.console import say
from reconciler.cli.project import load_beside, load_tables
from reconciler.cli.workspace import Workspace, complain
from reconciler.errors import InvalidInput, LakeError
from reconciler.pipeline import Proposal
from reconciler.plan.lineage import Lineage, query_lineage, remembered_lineage, upstream
from reconciler.plan.view_memory import remembered_view
from reconciler.render.lineage import render_lineage, render_mermaid


@click.command("lineage")
@options.files_or_paths
@options.recursive
@click.option("--live", is_flag=True, help="Also the views that live in the catalog, from what their tables remember.")
@options.catalog
@options.output("text", "mermaid")
def command(names: tuple[str, ...], recursive: bool, live: bool, catalog_name: str | None, output: str) -> int:
    """Print views (of the manifests; with --live of the catalog), and what each of their columns is made of."""
    if not names and not live:
        raise click.UsageError("name manifests with -f, or ask the catalog with --live")
    project = load_tables(names, recursive=recursive) if names else load_beside([])
    workspace = Workspace(project)
    views = {lineage.view: lineage for lineage in (_live(workspace, catalog_name) if live else ())}
    proposals = workspace.propose([table for table in project.tables if table.desired.view is not None])
    views |= {lineage.view: lineage for lineage in map(_declared, proposals) if lineage is not None}
    complain(proposals)
    found = upstream(views.values())
    say((render_mermaid if output == "mermaid" else render_lineage)(found) if found else "There are no views.")
    return 0


def _declared(proposal: Proposal) -> Lineage | None:
    """Return what a manifest's query reads; of one that cannot be read, what the live view remembers."""
    inputs = proposal.request.view if proposal.request else None
    if inputs is not None and inputs.query is not None:
        return query_lineage(proposal.table, inputs.query)
    for found in inputs.findings if inputs is not None else ():
        raise InvalidInput(found.message, where=proposal.source, hint=found.hint)
    memory = remembered_view(proposal.current.bookkeeping) if proposal.current else None
    return remembered_lineage(proposal.table, memory) if memory else None


def _live(workspace: Workspace, catalog_name: str | None) -> Iterator[Lineage]:
    catalog = workspace.catalog(catalog_name)
    for table, found in catalog.get_table_specs(catalog.list_tables()):
        memory = None if isinstance(found, LakeError) else remembered_view(found.bookkeeping)
        if memory is not None:
            yield remembered_lineage(table, memory)
