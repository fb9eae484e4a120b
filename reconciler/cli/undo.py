"""`laketable undo`: the way back to what a table was before LakeTable's last commit."""

from __future__ import annotations

import click

from reconciler.cli import options
from reconciler.cli.apply import TextShow, carry_out, refuse_unmatched
from reconciler.cli.console import note
from reconciler.cli.live import open_table
from reconciler.cli.workspace import now_ms
from reconciler.model import bookkeeping
from reconciler.pipeline import Approval, Request, propose_undo


@click.command("undo")
@click.argument("table")
@options.catalog
@click.option("-f", "--filename", "names", multiple=True, metavar="PATH", help="Where LakeCatalog and LakePolicy are.")
@options.auto_approve
@options.approve
@options.engine
def command(
    table: str,
    catalog_name: str | None,
    names: tuple[str, ...],
    auto_approve: bool,
    hashes: tuple[str, ...],
    engine: str,
) -> int:
    """Plan the way back to TABLE's spec before the last commit, and apply it when approved.

    A dropped column comes back under its former field id, with its data as long as the files remain. Undoing an
    addition drops it again, so it needs the plan's hash. Run it twice to redo.
    """
    live = open_table(table, catalog_name, names)
    approval = Approval(hashes=frozenset(hashes), auto=auto_approve)
    owner = bookkeeping.read(live.observed.bookkeeping).owner or ""
    request = Request.undo(live.ident, owner, live.catalog, live.catalog.settings.name, live.workspace.project.policies)
    proposal = propose_undo(request, live.observed, approval, now_ms=now_ms())
    refuse_unmatched(hashes, [proposal])
    execution = live.workspace.execution(engine=engine, include_upkeep=False)
    code = carry_out([proposal], approval, execution, TextShow())
    if code == 0:
        history = bookkeeping.read(live.observed.bookkeeping).history
        if history[-1].schema_id is not None and history[-1].properties is None:
            note("The properties that the commit replaced were too large to remember: they stay as they are.")
        _remind(live.catalog.settings.name, table)
    return code


def _remind(catalog: str, table: str) -> None:
    note(f"Git still says otherwise: 'laketable import {table} --catalog {catalog}' prints the YAML to commit,")
    note("or the next apply of the unchanged manifest plans the same change again.")
