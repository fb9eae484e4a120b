"""`laketable doctor`: is everything here that a plan, an apply, a Spark commit needs?"""

from __future__ import annotations

import click

from reconciler.catalogs.connection import DEFAULT_CATALOG
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.cli import options
from reconciler.cli.console import say, wants_color, width
from reconciler.cli.live import open_workspace
from reconciler.cli.project import Project, catalog_names, find_catalog
from reconciler.errors import ExitCode, LakeError
from reconciler.render.status import Check, CheckState, doctor_table
from reconciler.render.units import plural


@click.command("doctor")
@options.shared_files
@click.option("--start-spark", is_flag=True, help="Also start a Spark session (about ten seconds).")
def command(names: tuple[str, ...], start_spark: bool) -> int:
    """Check Python, Java, Spark, jars and catalogs, and say how to mend what is missing."""
    from reconciler.engines.doctor import check_all

    found = [
        Check(c.name, CheckState.OK if c.ok else CheckState.FAILED, c.detail, c.hint)
        for c in check_all(start_session=start_spark)
    ]
    project = open_workspace(names).project
    found += [_catalog(name, project) for name in catalog_names(project)]
    say(doctor_table(found, width(), color=wants_color()))
    return ExitCode.ERROR if any(c.state is CheckState.FAILED for c in found) else ExitCode.OK


def _catalog(name: str | None, project: Project) -> Check:
    try:
        settings = find_catalog(name, project)
        namespaces = IcebergCatalog(settings).list_namespaces()
        return Check(settings.place, CheckState.OK, f"answers, {plural(len(namespaces), 'namespace')}")
    except LakeError as error:
        return Check(f"catalog {name or DEFAULT_CATALOG}", CheckState.FAILED, error.message, error.hint)
