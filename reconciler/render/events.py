"""Events as text for a terminal and as JSON lines for machines."""

from __future__ import annotations

from typing import assert_never

from reconciler.plan.events import (
    Committed,
    Dropped,
    Event,
    Failed,
    Progress,
    Published,
    Refused,
    Renamed,
    Replayed,
    Skipped,
    Started,
    Validated,
    encode_event,
)
from reconciler.render.grid import Style, paint
from reconciler.render.report import short_hash
from reconciler.render.safe import clean
from reconciler.render.units import plural, size


def render_event(event: Event, *, color: bool = False) -> str:
    """Render one event as one line without a newline; `!` marks what went wrong."""
    table = clean(str(event.table))
    match event:
        case Started(plan=plan_hash, operations=operations):
            return f"  {table}: applying {short_hash(plan_hash)}, {plural(operations, 'operation')}"
        case Committed(version=version, changes=changes, executor=executor):
            through = f" through {clean(executor)}" if executor else ""
            what = plural(changes, "change") if changes else "bookkeeping"
            text = f"{what} committed{through}: schema {version.schema_id}, spec {version.spec_id}"
            return f"{paint('✓', Style.ADD, color)} {table}: {text}, sort order {version.sort_order_id}"
        case Replayed(plan=plan_hash):
            return f"{paint('✓', Style.ADD, color)} {table}: {short_hash(plan_hash)} was committed before, nothing done"
        case Renamed(before=before):
            return f"{paint('✓', Style.ADD, color)} {table}: renamed from {clean(str(before))}"
        case Dropped(uuid=uuid):
            return f"{paint('✓', Style.ADD, color)} {table}: dropped (uuid {clean(uuid)})"
        case Progress():
            return paint(f"  {table}: {_progress(event)}", Style.DIM, color)
        case Published(summary=summary, replayed=replayed):
            found = " (an earlier run had published it)" if replayed else _amount(event)
            return f"{paint('✓', Style.ADD, color)} {table}: {clean(summary)}{found}"
        case Validated(summary=summary, files=files, rows=rows):
            read = f"{plural(files, 'file')}, {plural(rows, 'row')} scanned"
            return f"{paint('✓', Style.ADD, color)} {table}: {clean(summary)}: {read}"
        case Skipped(message=message):
            return paint(f"= {table}: {clean(message)}", Style.DIM, color)
        case Refused(reason=reason, message=message, hint=hint):
            text = f"refused ({clean(reason)}), nothing changed: {clean(message)}{_tail(hint)}"
            return f"{paint('!', Style.DANGER, color)} {table}: {text}"
        case Failed(reason=reason, message=message, hint=hint, is_unknown=is_unknown):
            outcome = "outcome unknown" if is_unknown else "failed"
            text = f"{outcome} ({clean(reason)}): {clean(message)}{_tail(hint)}"
            return f"{paint('!', Style.DANGER, color)} {table}: {text}"
        case _:
            assert_never(event)


def _progress(event: Progress) -> str:
    if not event.all_files:
        return clean(event.step)
    done = f"{event.files:,} of {plural(event.all_files, 'file')}, {size(event.bytes)} of {size(event.all_bytes)}"
    left = "" if event.eta_seconds is None else f", {event.eta_seconds} s left"
    return f"{clean(event.step)} {event.percent} % ({done}{left})"


def _amount(event: Published) -> str:
    if not event.files and not event.bytes:
        return ""
    return f": {plural(event.files, 'file')}, {plural(event.rows, 'row')}, {size(event.bytes)} rewritten"


def _tail(hint: str) -> str:
    return f" {clean(hint)}" if hint else ""


def render_event_json(event: Event) -> str:
    """Render one event as one line of JSON, without a newline; `event` says which it is, `table` is dotted."""
    return encode_event(event)
