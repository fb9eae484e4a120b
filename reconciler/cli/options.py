"""Options that several commands share, spelled once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from reconciler.plan.policy import MINIMUM_PREFIX

Command = TypeVar("Command", bound=Callable[..., Any])

_HASH = re.compile(f"(sha256:)?[0-9a-f]{{{MINIMUM_PREFIX},64}}")

files = click.option(
    "-f",
    "--filename",
    "names",
    multiple=True,
    required=True,
    metavar="PATH",
    help="File, folder, glob or - (stdin); may be repeated.",
)
files_or_paths = click.option(
    "-f", "--filename", "names", multiple=True, metavar="PATH", help="File, folder, glob or - (stdin)."
)
shared_files = click.option(
    "-f", "--filename", "names", multiple=True, metavar="PATH", help="Where LakeCatalog and LakePolicy manifests are."
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


def is_hash(text: str) -> bool:
    """Say whether a text can be a plan's hash, or the start of one."""
    return _HASH.fullmatch(text.strip().lower()) is not None


def _hashes(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse what cannot be a plan's hash: with 12 digits or more it names one plan."""
    for value in values:
        if not is_hash(value):
            raise click.BadParameter(f"'{value}' is not a plan's hash; copy it as plan prints it, sha256:…")
    return values


approve = click.option(
    "--approve",
    "hashes",
    multiple=True,
    metavar="HASH",
    callback=_hashes,
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
