"""`laketable doctor`: is everything here that a plan, an apply, a Spark commit needs?"""

from __future__ import annotations

import os

import click

from reconciler.catalogs.connection import pyiceberg_catalogs
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.cli.console import say, wants_color, width
from reconciler.cli.live import open_workspace
from reconciler.cli.project import find_catalog
from reconciler.errors import ExitCode, LakeError
from reconciler.render.status import Check, CheckState, doctor_table
from reconciler.render.units import plural


@click.command("doctor")
@click.option("-f", "--filename", "names", multiple=True, metavar="PATH", help="Where LakeCatalog manifests are.")
@click.option("--start-spark", is_flag=True, help="Also start a Spark session (about ten seconds).")
def command(names: tuple[str, ...], start_spark: bool) -> int:
    """Check Python, Java, Spark, jars and catalogs, and say how to mend what is missing."""
    from reconciler.engines.doctor import check_all

    found = [
        Check(c.name, CheckState.OK if c.ok else CheckState.FAILED, c.detail, c.hint)
        for c in check_all(start_session=start_spark)
    ]
    project = open_workspace(names).project
    wanted: list[str | None] = [
        *project.catalogs,
        *(n for n in pyiceberg_catalogs(os.environ) if n not in project.catalogs),
    ]
    for name in wanted or [None]:
        found.append(_catalog(name, names))
    say(doctor_table(found, width(), color=wants_color()))
    return ExitCode.ERROR if any(c.state is CheckState.FAILED for c in found) else ExitCode.OK


def _catalog(name: str | None, names: tuple[str, ...]) -> Check:
    try:
        settings = find_catalog(name, open_workspace(names).project)
        namespaces = IcebergCatalog(settings).list_namespaces()
        return Check(settings.place, CheckState.OK, f"answers, {plural(len(namespaces), 'namespace')}")
    except LakeError as error:
        return Check(f"catalog {name}", CheckState.FAILED, error.message, error.hint)
