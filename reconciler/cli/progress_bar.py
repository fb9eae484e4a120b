"""A data job's progress: one line that is drawn over on a terminal, a line each in a log."""

from __future__ import annotations

import sys

import click

from reconciler.cli.console import note, say, wants_color, width
from reconciler.plan.events import Event, Failed, Progress, Refused
from reconciler.render.events import render_event
from reconciler.render.safe import clean
from reconciler.render.units import size

_CELLS = 20


class EventLines:
    """Shows events: results to stdout, what went wrong to stderr, progress as a bar where somebody watches."""

    def __init__(self) -> None:
        self._has_bar = False

    def show(self, event: Event) -> None:
        """Show one event."""
        if isinstance(event, Progress) and event.all_files and sys.stderr.isatty():
            self._draw(event)
            return
        self.clear()
        line = render_event(event, color=wants_color())
        (note if isinstance(event, Failed | Refused) else say)(line)

    def clear(self) -> None:
        """Take the bar away."""
        if self._has_bar:
            click.echo("\r\033[K", err=True, nl=False)
            self._has_bar = False

    def _draw(self, event: Progress) -> None:
        line = bar(event)[: width() - 1]
        click.echo(f"\r\033[K{line}", err=True, nl=False)
        self._has_bar = True


def bar(event: Progress) -> str:
    """Render progress as a bar with its figures."""
    full = _CELLS * event.percent // 100
    chunks = f"chunk {event.chunks}/{event.all_chunks}, " if event.all_chunks else ""
    amounts = f"{event.files:,}/{event.all_files:,} files, {size(event.bytes)}/{size(event.all_bytes)}"
    left = "" if event.eta_seconds is None else f", {_duration(event.eta_seconds)} left"
    cells = "█" * full + "░" * (_CELLS - full)
    return f"  {clean(str(event.table))} {clean(event.step)} {cells} {event.percent:3} %  {chunks}{amounts}{left}"


def _duration(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
