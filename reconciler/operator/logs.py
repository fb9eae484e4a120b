"""The operator's log: each line with the table and the plan that it is about, as text or as one JSON object.

What a line is about belongs to the task that writes it, and to the threads that work for it. The text of a foreign
exception is never printed: it may hold a secret.
"""

from __future__ import annotations

import contextvars
import logging
import sys
from datetime import UTC, datetime

import msgspec

TEXT, JSON = "text", "json"
_TABLE: contextvars.ContextVar[str] = contextvars.ContextVar("table", default="")
_PLAN: contextvars.ContextVar[str] = contextvars.ContextVar("plan", default="")


def about_resource(name: str) -> None:
    """Let what the current task logs be about a resource, and about no plan yet."""
    _TABLE.set(name)
    _PLAN.set("")


def about_plan(plan: str) -> None:
    """Let it be about this plan of it."""
    _PLAN.set(plan)


def configure(level: str, form: str) -> None:
    """Log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == JSON else Lines())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)  # that signals are ours is no news
    logging.getLogger("kopf._cogs.clients").setLevel(logging.CRITICAL)  # each failed attempt: readiness tells once


class Lines(logging.Formatter):
    """One line of text: time, level, logger, what it is about, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Print a record."""
        parts = (_time(record), record.levelname, record.name, *_about().values(), _message(record))
        return " ".join(part for part in parts if part)


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Print a record."""
        line = {"time": _time(record), "level": record.levelname.lower(), "logger": record.name}
        return msgspec.json.encode({**line, **_about(), "message": _message(record)}).decode()


def _about() -> dict[str, str]:
    parts = {"resource": _TABLE.get(), "plan": _PLAN.get()}
    return {name: value for name, value in parts.items() if value}


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    text = record.getMessage().replace("\n", " ")
    if record.exc_info and record.exc_info[0] is not None:
        text = f"{text} ({record.exc_info[0].__name__})"
    return text
