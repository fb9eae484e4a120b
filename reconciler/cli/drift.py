"""`laketable drift`: live tables that are not what their manifests say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click
import msgspec

from reconciler.cli import options
from reconciler.cli.console import say, wants_color, width
from reconciler.cli.plan import exit_code
from reconciler.cli.project import load_tables
from reconciler.cli.workspace import Workspace, complain, worst
from reconciler.errors import ExitCode, LakeError, RowsRefused
from reconciler.pipeline import Proposal, failure
from reconciler.plan.constraints import recheck
from reconciler.plan.data import unfilled_rows
from reconciler.plan.events import Failed, Refused, Validated
from reconciler.render.events import render_event
from reconciler.render.status import drift_table, table
from reconciler.render.units import plural


@click.command("drift")
@options.manifests
@click.option("--constraints", is_flag=True, help="Also scan the rows of tables in sync for broken constraints.")
@click.option("--unmanaged", is_flag=True, help="Also list tables of the same catalog namespaces without a manifest.")
def command(names: tuple[str, ...], recursive: bool, constraints: bool, unmanaged: bool) -> int:
    """Report what it would take to bring live tables back to their manifests; exits 2 when any differs."""
    project = load_tables(names, recursive=recursive)
    workspace = Workspace(project)
    proposals = workspace.propose(project.tables)
    complain(proposals)
    drifted = [p.plan for p in proposals if p.plan is not None and not p.plan.is_empty]
    if drifted:
        say(drift_table(drifted, width(), color=wants_color()))
    for line in _unfilled(proposals):
        say(line)
    broken = _broken(proposals, workspace) if constraints else []
    say(f"{len(drifted)} of {plural(len(proposals), 'table')} drifted.")
    strangers = _strangers(workspace) if unmanaged else []
    if strangers:
        say(table(("table", "catalog"), strangers, width(), color=wants_color()))
        say(f"Without a manifest: {plural(len(strangers), 'table')}; 'laketable import' writes one.")
    codes = [exit_code(p, detailed=True) for p in proposals if p.plan is None]
    return worst([*codes, *broken, *([ExitCode.CHANGES] if drifted or strangers else [])])


def _unfilled(proposals: Sequence[Proposal]) -> Iterator[str]:
    """Count rows without computed values by the manifests' null counts: no drift of the table, but of its rows."""
    for p in proposals:
        if p.request is None or p.current is None or not p.request.desired.computed:
            continue
        head = p.current.version.snapshot_id
        if p.plan is None or not p.plan.is_empty or head is None:
            continue
        files = p.request.catalog.get_data_files(p.current.spec.ident, head)
        for column, rows in unfilled_rows(p.request.desired, p.current, files).items():
            found = f"{p.table}.{column}: {plural(rows, 'row')} without a value"
            yield f"{found}; 'laketable backfill' fills those that can have one."


def _broken(proposals: Sequence[Proposal], workspace: Workspace) -> list[ExitCode]:
    """Scan what others may have written since the constraints were validated; say what is found."""
    codes = []
    for p in proposals:
        if p.current is None or p.request is None or p.plan is None or not p.plan.is_empty:
            continue
        try:
            operation = recheck(p.current)
        except LakeError as error:
            say(render_event(failure(p.table, error, p.source), color=wants_color()))
            codes.append(ExitCode.ERROR)
            continue
        if operation is None:
            continue
        for event in workspace.data_runtime(p.request).run(msgspec.structs.replace(p.plan, operations=(operation,))):
            if isinstance(event, Validated | Failed | Refused):
                say(render_event(event, color=wants_color()))
            if isinstance(event, Failed | Refused):
                is_broken = event.reason == RowsRefused.reason
                codes.append(ExitCode.CHANGES if is_broken else ExitCode.ERROR)
    return codes


def _strangers(workspace: Workspace) -> list[tuple[str, str]]:
    """List live tables next to the manifests' own that no manifest names."""
    known: dict[str, set[str]] = {}
    namespaces: dict[str, set[tuple[str, ...]]] = {}
    for document in workspace.project.tables:
        name = workspace.settings(document.catalog_ref, where=document.place).name
        known.setdefault(name, set()).add(str(document.desired.ident))
        namespaces.setdefault(name, set()).add(document.desired.ident.namespace)
    found = []
    for name, inside in namespaces.items():
        for namespace in sorted(inside):
            live = workspace.catalog(name).list_tables(namespace)
            found += [(str(ident), name) for ident in live if str(ident) not in known[name]]
    return found
