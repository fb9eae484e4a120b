"""`laketable show`: a plan file as its reviewer reads it, or a live table."""

from __future__ import annotations

import os

import click

from reconciler.cli import options
from reconciler.cli.console import say, wants_color, width
from reconciler.cli.files import read_sources
from reconciler.cli.live import open_table
from reconciler.model.observed_manifest import dns_label, from_observed
from reconciler.model.yaml_text import dump_yaml
from reconciler.plan.document import decode
from reconciler.render.report import Report
from reconciler.render.text import render_report
from reconciler.render.units import count, size


@click.command("show")
@click.argument("what", metavar="PLAN_FILE|TABLE")
@options.catalog
@click.option("-f", "--filename", "names", multiple=True, metavar="PATH", help="Where the LakeCatalog manifest is.")
def command(what: str, catalog_name: str | None, names: tuple[str, ...]) -> None:
    """Show a plan file, or a live table as a manifest with its version and size."""
    if os.path.isfile(what):
        (file,) = read_sources([what])
        for item in decode(file.data, where=what):
            report = Report.of(item.plan, source=item.source)
            say(render_report(report, width=width(), color=wants_color(), info=True))
        return
    live = open_table(what, catalog_name, names)
    version, totals = live.observed.version, live.observed.statistics
    say(f"# {live.ident} in {live.catalog.settings.place}, format v{live.observed.spec.format_version}")
    say(f"# uuid {version.uuid}, schema {version.schema_id}, spec {version.spec_id}, snapshot {version.snapshot_id}")
    if totals.rows is not None and totals.bytes is not None:
        say(f"# {count(totals.rows)} rows, {size(totals.bytes)}")
    name, namespace = dns_label(live.ident.name), dns_label("-".join(live.ident.namespace))
    manifest = from_observed(live.observed, name=name, namespace=namespace, catalog_ref=catalog_name)
    say(dump_yaml(manifest).rstrip("\n"))
