"""`laketable history`: the commits LakeTable made to a table, as the table itself remembers them."""

from __future__ import annotations

import click
import msgspec

from reconciler.cli import options
from reconciler.cli.console import say, wants_color, width
from reconciler.cli.live import open_table
from reconciler.model import bookkeeping
from reconciler.render.status import history_table


@click.command("history")
@click.argument("table")
@options.catalog
@options.shared_files
@options.output("text", "json")
def command(table: str, catalog_name: str | None, names: tuple[str, ...], output: str) -> None:
    """List what LakeTable did to TABLE: when, who, which plan, the ids before it, bytes estimated and rewritten.

    Data operations (backfill, refresh, rewrite, restore) and maintenance are in it; of upkeep the last of each kind.
    """
    live = open_table(table, catalog_name, names)
    records = bookkeeping.read(live.observed.bookkeeping).history
    if output == "json":
        say(msgspec.json.format(msgspec.json.encode(records), indent=2).decode())
    elif records:
        say(history_table(records, width(), tags=live.observed.spec.refs, color=wants_color()))
    else:
        say(f"LakeTable has not changed {live.ident}.")
