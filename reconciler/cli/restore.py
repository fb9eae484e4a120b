"""`laketable restore`: bring back the rows of a tag, a snapshot or a time, in a new commit."""

from __future__ import annotations

import click

from reconciler.cli import options
from reconciler.cli.apply import TextShow, carry_out, refuse_unmatched
from reconciler.cli.console import say
from reconciler.cli.live import open_table
from reconciler.cli.workspace import now_ms
from reconciler.errors import ExitCode
from reconciler.model import bookkeeping
from reconciler.pipeline import Approval, propose_restore


@click.command("restore")
@click.argument("table")
@click.option("--to", required=True, metavar="TAG|SNAPSHOT|TIME", help="What to go back to: 2026-10-01T00:00:00Z.")
@options.catalog
@options.shared_files
@options.approve
def command(table: str, to: str, catalog_name: str | None, names: tuple[str, ...], hashes: tuple[str, ...]) -> int:
    """Plan to make TABLE's rows those of an earlier snapshot, and do it once the plan's hash is approved.

    The rows come in a new commit after main's head: everybody's history stays, and so does what others commit while it
    runs. What main has now is kept under the tag lt_undo_…; 'laketable undo' goes back to it.
    """
    live = open_table(table, catalog_name, names)
    owner = bookkeeping.read(live.observed.bookkeeping).owner or ""
    request = live.workspace.undo_request(live.ident, owner, live.catalog, f"laketable restore {table} --to {to}")
    approval = Approval(hashes=frozenset(hashes))
    proposal = propose_restore(request, live.observed, to, approval, now_ms=now_ms())
    if proposal.plan is not None and proposal.plan.is_empty:
        say(f"The rows of {live.ident} are those of '{to}' already.")
        return ExitCode.OK
    refuse_unmatched(hashes, [proposal])
    execution = live.workspace.execution(engine="auto", include_upkeep=False)
    return carry_out([proposal], approval, execution, TextShow())
