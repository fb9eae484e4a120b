"""Options that several commands share, spelled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

files = click.option(
    "-f",
    "--filename",
    "names",
    multiple=True,
    required=True,
    metavar="PATH",
    help="File, folder, glob or - (stdin); may be repeated.",
)
recursive = click.option("-R", "--recursive", is_flag=True, help="Look into subfolders too.")
include_upkeep = click.option("--include-upkeep", is_flag=True, help="Show (apply: also do) upkeep.")
take_ownership = click.option("--take-ownership", is_flag=True, help="Take tables that another owner claims.")
catalog = click.option("--catalog", "catalog_name", metavar="NAME", help="The catalog, when there are several.")
engine = click.option(
    "--engine",
    type=click.Choice(["auto", "catalog", "spark"]),
    default="auto",
    show_default=True,
    help="Who commits: auto asks the catalog first, Spark where only Spark can.",
)
auto_approve = click.option(
    "--auto-approve", is_flag=True, help="Apply without asking; never covers destructive operations."
)
approve = click.option(
    "--approve",
    "hashes",
    multiple=True,
    metavar="HASH",
    help="Release exactly the plan with this hash (sha256:…); may be repeated.",
)


def manifests(command: Command) -> Command:
    """Add -f and -R."""
    return files(recursive(command))


def output(*choices: str) -> Callable[[Command], Command]:
    """Add --output with these choices; the first is the default."""
    return click.option(
        "-o", "--output", type=click.Choice(choices), default=choices[0], show_default=True, help="Output format."
    )
