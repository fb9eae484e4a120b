"""`laketable catalogs`: which catalogs a manifest may name, and whether they answer."""

from __future__ import annotations

import click

from reconciler.catalogs.connection import CatalogSettings
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.cli import options
from reconciler.cli.console import say, wants_color, width
from reconciler.cli.live import open_workspace
from reconciler.cli.project import catalog_names, find_catalog
from reconciler.errors import ExitCode, LakeError
from reconciler.render.status import CatalogRow, catalogs_table
from reconciler.render.units import plural


@click.command("catalogs")
@options.shared_files
@click.option("--check", is_flag=True, help="Connect to each; exit 1 when one does not answer.")
def command(names: tuple[str, ...], check: bool) -> int:
    """List the catalogs a manifest may name, and where each is configured."""
    project = open_workspace(names).project
    found = [find_catalog(name, project) for name in catalog_names(project)]
    rows = [CatalogRow(s.name, s.kind, s.place, s.origin) for s in found]
    say(catalogs_table(rows, width(), color=wants_color()))
    return _check(found) if check else ExitCode.OK


def _check(found: list[CatalogSettings]) -> ExitCode:
    code = ExitCode.OK
    for settings in found:
        try:
            namespaces = IcebergCatalog(settings).list_namespaces()
            say(f"{settings.name}: answers, {plural(len(namespaces), 'namespace')}")
        except LakeError as error:
            say(f"{settings.name}: {error}")
            code = ExitCode.ERROR
    return code
