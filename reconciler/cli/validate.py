"""`laketable validate`: check manifests offline."""

from __future__ import annotations

from collections.abc import Sequence

import click

from reconciler.cli import options
from reconciler.cli.console import say
from reconciler.cli.project import TableDocument, load_project
from reconciler.errors import InvalidInput, ManifestErrors
from reconciler.plan.data import expression_findings


@click.command("validate")
@click.option("-f", "--filename", "names", multiple=True, metavar="PATH", help="File, folder, glob or - (stdin).")
@click.argument("paths", nargs=-1, type=click.Path())
@options.recursive
def command(names: tuple[str, ...], paths: tuple[str, ...], recursive: bool) -> None:
    """Check manifests without a catalog: syntax, types, names, references. Every error is shown with its place."""
    if not names and not paths:
        raise click.UsageError("name manifests with -f")
    project = load_project([*names, *paths], recursive=recursive, pass_over_foreign=bool(paths))
    _check_expressions(project.tables)
    counts = {
        "LakeTable": len(project.tables),
        "LakeCatalog": len(project.catalogs),
        "LakePolicy": len(project.policies),
    }
    found = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count) or "no manifest of ours"
    say(f"Valid: {found}.")


def _check_expressions(tables: Sequence[TableDocument]) -> None:
    """Refuse what no expression may hold; it may read the columns that its manifest names."""
    errors: list[InvalidInput] = []
    for table in tables:
        for found in expression_findings(table.desired):
            place = f"{table.source}:{table.line_of(found.path)}"
            errors.append(InvalidInput(found.message, where=place, hint=found.hint))
    if errors:
        raise ManifestErrors(tuple(errors))
