"""What the terminal is: colour, width, questions, progress. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

import click

PLAIN_WIDTH = 120

Item = TypeVar("Item")


def wants_color() -> bool:
    """Whether stdout takes colour: a terminal, unless NO_COLOR says no or FORCE_COLOR says yes."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Columns of the terminal; a fixed width when there is none, so that logs and goldens do not vary."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return PLAIN_WIDTH
    from shutil import get_terminal_size

    return max(60, get_terminal_size((PLAIN_WIDTH, 24)).columns)


def is_interactive() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def say(text: str) -> None:
    """Write a result, ending in one newline."""
    click.echo(text.removesuffix("\n"), color=wants_color())


def note(text: str) -> None:
    """Write a remark beside the result, to stderr."""
    click.echo(text, err=True)


def progress(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """Count through many items on a terminal's stderr; silent for a few, or in a log."""
    if total < 20 or not sys.stderr.isatty():
        yield from items
        return
    for done, item in enumerate(items, 1):
        click.echo(f"\r{label}: {done}/{total}", err=True, nl=False)
        yield item
    click.echo("\r\033[K", err=True, nl=False)
