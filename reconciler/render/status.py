"""Tables of facts for `status`, `history`, `catalogs`, `drift` and `doctor`: plain aligned columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from reconciler.model.bookkeeping import HistoryRecord
from reconciler.plan.approvals import undo_tag
from reconciler.plan.operations import Plan
from reconciler.render.describe import describe, moment
from reconciler.render.grid import Cell, Style, grid
from reconciler.render.report import Report, short_hash
from reconciler.render.safe import clean
from reconciler.render.units import plural, short_count, size


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[object]],
    width: int,
    *,
    color: bool = False,
    styles: Sequence[Style] = (),
) -> str:
    """Render rows under headers, ending in a newline; None shows as a dash, columns of numbers align right.

    `styles` colours whole rows, one style per row.
    """
    right = [bool(rows) and all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(headers))]
    body = [
        [Cell(_shown(value), styles[n] if styles else Style.PLAIN, right[i]) for i, value in enumerate(row)]
        for n, row in enumerate(rows)
    ]
    head = [Cell(header.upper(), Style.BOLD, right[i]) for i, header in enumerate(headers)]
    return "\n".join(grid([head, *body], width=width, color=color)) + "\n"


def _shown(value: object) -> str:
    if value is None or value == "":
        return "-"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else clean(str(value))


def status_table(reports: Sequence[Report], width: int, *, color: bool = False) -> str:
    """Render `status`: each table's verdict, size and pending plan."""
    rows = [_status_row(report) for report in reports]
    return table(("table", "verdict", "class", "rows", "size", "pending", "plan"), rows, width, color=color)


def upkeep_lines(reports: Sequence[Report]) -> Iterator[str]:
    """Say which data of which table lag behind: indexes, layouts, views; `apply --include-upkeep` brings them up."""
    for report in reports:
        for operation in report.plan.upkeep if report.plan else ():
            if operation.work is not None:
                yield f"{clean(report.name)}: {clean(operation.summary)}"


def _status_row(report: Report) -> tuple[object, ...]:
    plan = report.plan
    if plan is None:
        return (report.name, f"failed: {report.error}", None, None, None, None, None)
    rows, volume = plan.statistics.rows, plan.statistics.bytes
    return (
        report.name,
        report.verdict.value,
        plan.operation_class.value if plan.operations else None,
        short_count(rows) if rows is not None else None,
        size(volume) if volume is not None else None,
        plural(len(plan.changes), "change") if plan.changes else None,
        short_hash(plan.hash) if plan.operations else None,
    )


def history_table(
    records: Sequence[HistoryRecord], width: int, *, tags: Collection[str] = (), color: bool = False
) -> str:
    """Render `history`, newest first: when, who, what, by which plan, and the snapshots before and after.

    `tags` are the undo tags that are there: the rows before such a plan are kept.
    """
    rows = [
        (
            moment(r.time_ms),
            r.actor,
            r.kind,
            short_hash(r.plan) if r.plan else "upkeep",
            _id(r.snapshot_id),
            _id(r.published_id),
            _rewritten(r),
            "kept" if r.plan and undo_tag(r.plan) in tags else None,
        )
        for r in sorted(records, key=lambda r: -r.time_ms)
    ]
    headers = ("time", "actor", "what", "plan", "snapshot before", "snapshot made", "rewritten", "undo")
    return table(headers, rows, width, color=color)


def _rewritten(record: HistoryRecord) -> str | None:
    if not record.bytes and not record.bytes_estimated:
        return None
    estimated = f" (est. {size(record.bytes_estimated)})" if record.bytes_estimated else ""
    return f"{size(record.bytes)}{estimated}"


def _id(number: int | None) -> str | None:
    """Ids are names, not amounts: no thousands separators."""
    return None if number is None else str(number)


def drift_table(plans: Sequence[Plan], width: int, *, color: bool = False) -> str:
    """Render `drift`: a line per change that would bring a live table back to its manifest."""
    rows = []
    for plan in plans:
        for note in plan.notes:
            entry = describe(note.change)
            what = f"{entry.mark} {entry.subject}"
            rows.append((str(plan.table), entry.aspect.value, what, entry.detail, note.operation_class.value))
    return table(("table", "part", "to bring back", "how", "class"), rows, width, color=color)


class CatalogRow(NamedTuple):
    """One catalog as `catalogs` lists it; `properties` must not hold secrets."""

    name: str
    type: str
    location: str
    source: str


def catalogs_table(rows: Sequence[CatalogRow], width: int, *, color: bool = False) -> str:
    """Render `catalogs`: name, type, where it is, where it was configured."""
    return table(("name", "type", "location", "configured in"), rows, width, color=color)


class CheckState(StrEnum):
    """How a `doctor` check ended."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Check(NamedTuple):
    """One `doctor` check: what was looked at, how it is, what was found, and what to do."""

    name: str
    state: CheckState
    found: str
    hint: str = ""


_STATES = {CheckState.OK: Style.PLAIN, CheckState.WARNING: Style.ALTER, CheckState.FAILED: Style.DANGER}


def doctor_table(checks: Sequence[Check], width: int, *, color: bool = False) -> str:
    """Render `doctor`: a line per check, its hint beside it."""
    rows = [(c.name, c.state.value, c.found, c.hint) for c in checks]
    styles = [_STATES[c.state] for c in checks]
    return table(("check", "state", "found", "what to do"), rows, width, color=color, styles=styles)
