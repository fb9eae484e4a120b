"""`laketable undo`: the way back to what a table was before a plan of LakeTable."""

from __future__ import annotations

import click

from reconciler.cli import options
from reconciler.cli.apply import TextShow, carry_out, refuse_unmatched
from reconciler.cli.console import note
from reconciler.cli.live import LiveTable, open_table, open_workspace
from reconciler.cli.workspace import now_ms
from reconciler.errors import LakeError, RefNotFound
from reconciler.model import bookkeeping
from reconciler.pipeline import Approval, propose_undo
from reconciler.plan.policy import approves


@click.command("undo")
@click.argument("what", metavar="TABLE|PLAN")
@options.catalog
@options.shared_files
@options.auto_approve
@options.approve
@options.engine
def command(
    what: str,
    catalog_name: str | None,
    names: tuple[str, ...],
    auto_approve: bool,
    hashes: tuple[str, ...],
    engine: str,
) -> int:
    """Plan the way back to what a table was before LakeTable's last plan, or before PLAN (its hash), and apply it.

    A dropped column comes back under its former field id, with its data as long as the files remain; rows that a plan
    computed anew are restored, unless somebody else has committed since. Undoing an addition drops it again, so it
    needs the plan's hash. Run it twice to redo.
    """
    live, plan = _find(what, catalog_name, names)
    table = str(live.ident)
    approval = Approval(hashes=frozenset(hashes), auto=auto_approve)
    owner = bookkeeping.read(live.observed.bookkeeping).owner or ""
    request = live.workspace.undo_request(live.ident, owner, live.catalog, f"laketable undo {what}")
    proposal = propose_undo(request, live.observed, approval, now_ms=now_ms(), wanted=plan)
    refuse_unmatched(hashes, [proposal])
    execution = live.workspace.execution(engine=engine, include_upkeep=False)
    code = carry_out([proposal], approval, execution, TextShow())
    if code == 0:
        history = bookkeeping.read(live.observed.bookkeeping).history
        if history[-1].schema_id is not None and history[-1].properties is None:
            note("The properties that the commit replaced were too large to remember: they stay as they are.")
        _remind(live.catalog.settings.name, table)
    return code


def _find(what: str, catalog_name: str | None, names: tuple[str, ...]) -> tuple[LiveTable, str | None]:
    """Open the table of this name, or the one whose history has this plan."""
    if not options.is_hash(what):
        return open_table(what, catalog_name, names), None
    workspace = open_workspace(names)
    catalog = workspace.catalog(catalog_name)
    for ident, seen in catalog.get_table_specs(catalog.list_tables()):
        if isinstance(seen, LakeError):
            continue
        if any(approves(what, record.plan) for record in bookkeeping.read(seen.bookkeeping).history):
            return LiveTable(ident, catalog, seen, workspace), what
    raise RefNotFound(
        f"No table of catalog {catalog.settings.name} remembers plan {what}.",
        hint="'laketable history TABLE' lists the plans that a table remembers.",
    )


def _remind(catalog: str, table: str) -> None:
    note(f"Git still says otherwise: 'laketable import {table} --catalog {catalog}' prints the YAML to commit,")
    note("or the next apply of the unchanged manifest plans the same change again.")
