"""`laketable validate`: check manifests offline."""

from __future__ import annotations

import click

from reconciler.cli import options
from reconciler.cli.console import say
from reconciler.cli.project import load_project


@click.command("validate")
@click.option("-f", "--filename", "names", multiple=True, metavar="PATH", help="File, folder, glob or - (stdin).")
@click.argument("paths", nargs=-1, type=click.Path())
@options.recursive
def command(names: tuple[str, ...], paths: tuple[str, ...], recursive: bool) -> None:
    """Check manifests without a catalog: syntax, types, names, references. Every error is shown with its place."""
    if not names and not paths:
        raise click.UsageError("name manifests with -f")
    project = load_project([*names, *paths], recursive=recursive, pass_over_foreign=bool(paths))
    counts = {
        "LakeTable": len(project.tables),
        "LakeCatalog": len(project.catalogs),
        "LakePolicy": len(project.policies),
    }
    found = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count) or "no manifest of ours"
    say(f"Valid: {found}.")
