"""One pull-request comment for all planned manifests, in GitHub's Markdown.

The comment starts with a hidden marker, so that CI finds it and updates it in place. It stays below GitHub's limit
whatever the plans hold: the longest sections give up detail first; a table never loses its verdict or its hash before
that. Nothing that a manifest or a table brings along is read as markup.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from enum import IntEnum

from reconciler.model.type_strings import print_path
from reconciler.plan.operations import Finding, Plan, Severity
from reconciler.render.report import (
    Report,
    Verdict,
    class_text,
    cost_texts,
    headline,
    short_hash,
    sort_findings,
    summary_line,
    totals,
)
from reconciler.render.safe import clean, code, fence, markdown
from reconciler.render.text import render_body
from reconciler.render.units import count, plural

MARKER = "<!-- laketable:plan -->"
LIMIT = 60_000
_OPEN_LINES = 25
_WIDTH = 110
_NAMES = 50
_NAME_LENGTH = 100
_REASONS = 5
_SIGNS = {Severity.ERROR: "❌", Severity.WARNING: "⚠️", Severity.INFO: "ℹ️"}
_VERDICTS = {
    Verdict.FAILED: "❌ failed",
    Verdict.BLOCKED: "❌ blocked",
    Verdict.DENIED: "❌ denied",
    Verdict.WAITING: "✋ needs approval",
    Verdict.ALLOWED: "✅ allowed",
    Verdict.UNCHANGED: "no changes",
}


class Detail(IntEnum):
    """How much of a table is shown: how many rows of each kind; BRIEF has none, LINE is the bare hash."""

    LINE = -1
    BRIEF = 0
    SHORT = 3
    MEDIUM = 10
    FULL = 50


_LESS = dict(itertools.pairwise(sorted(Detail, reverse=True)))


def render_comment(reports: Sequence[Report], *, limit: int = LIMIT) -> str:
    """Render the comment for all manifests of a pull request, ending in a newline, at most `limit` characters long."""
    shown = [report for report in reports if report.verdict is not Verdict.UNCHANGED]
    head = [MARKER, _title(reports)]
    tail = _unchanged([report for report in reports if report.verdict is Verdict.UNCHANGED])
    budget = limit - sum(len(part) + 2 for part in (*head, *tail)) - 200
    overview = _overview(shown)
    while shown and len(overview) > budget // 2:
        shown = shown[: len(shown) * 9 // 10]
        overview = _overview(shown)
    left_out = sum(report.verdict is not Verdict.UNCHANGED for report in reports) - len(shown)
    if left_out:
        tail.insert(0, f"… and {plural(left_out, 'more table')}: `laketable plan --output json` shows all.")
    sections, missing = _fit(shown, budget - len(overview))
    if missing:
        hashes = plural(missing, "approval hash") if missing == 1 else f"{count(missing)} approval hashes"
        tail.insert(0, f"{hashes} did not fit here: `laketable plan` shows each.")
    return "\n\n".join([*head, *([overview] if shown else []), *sections, *tail]) + "\n"


def _fit(reports: Sequence[Report], budget: int) -> tuple[list[str], int]:
    """Render every table, giving up detail of the longest until all fit; also say how many hashes had to go."""
    sections = [_section(report, Detail.FULL) for report in reports]
    total = sum(len(section) + 2 for section in sections)
    queue = [(-len(section), i, Detail.FULL) for i, section in enumerate(sections)]
    heapq.heapify(queue)
    missing = 0
    while total > budget and queue:
        _, i, detail = heapq.heappop(queue)
        less = _LESS.get(detail)
        shorter = "" if less is None else _section(reports[i], less)
        missing += less is None and bool(sections[i])
        total += len(shorter) - len(sections[i])
        sections[i] = shorter
        if less is not None:
            heapq.heappush(queue, (-len(shorter), i, less))
    return [section for section in sections if section], missing


def _title(reports: Sequence[Report]) -> str:
    return f"## LakeTable plan\n\n{markdown(summary_line(reports))}"


def _overview(reports: Sequence[Report]) -> str:
    head = ["| table | verdict | class | changes | rewrites | plan |", "|---|---|---|---:|---|---|"]
    return "\n".join([*head, *(_row(report) for report in reports)])


def _row(report: Report) -> str:
    cells = [code(_short(report.name)), _VERDICTS[report.verdict]]
    plan = report.plan
    if plan is None:
        cells += ["", "", "", ""]
    else:
        kind = class_text(plan.operation_class, plan.is_breaking) if plan.operations else ""
        plan_hash = code(short_hash(plan.hash)) if plan.operations else ""
        cells += [kind, count(len(plan.changes)), cost_texts(plan.cost)[1].replace("-", ""), plan_hash]
    return f"| {' | '.join(cells)} |"


def _short(name: str) -> str:
    return name if len(name) <= _NAME_LENGTH else f"{name[:_NAME_LENGTH]}…"


def _section(report: Report, detail: Detail) -> str:
    source = f" · {code(_short(report.source))}" if report.source else ""
    plan = report.plan
    if detail is Detail.LINE:
        return _hash_line(report, plan) if plan and report.verdict is Verdict.WAITING else ""
    heading = f"### {code(_short(report.name))}{source}"
    if plan is None:
        error = clean(report.error, 4_000 if detail is Detail.FULL else 200)
        return f"{heading}\n\n{_SIGNS[Severity.ERROR]} {markdown(error)}"
    parts = [heading, _verdict(report, plan)]
    if detail is not Detail.BRIEF:
        parts += [_body(plan, detail), *_findings(plan, detail)]
    if report.verdict is Verdict.WAITING:
        parts.append(_approval(plan))
    return "\n\n".join(parts)


def _verdict(report: Report, plan: Plan) -> str:
    # A blocked plan's reasons are its findings, which follow.
    reasons = () if report.verdict is Verdict.BLOCKED else report.reasons[:_REASONS]
    why = "".join(f" {markdown(clean(reason, 300))}" for reason in reasons)
    sums = f" {totals([plan])}." if plan.operations else ""
    return f"**{_VERDICTS[report.verdict]}**.{why}{sums}"


def _body(plan: Plan, detail: Detail) -> str:
    text = f"{headline(plan)}\n{render_body(plan, width=_WIDTH, limit=int(detail))}".rstrip()
    block = fence(text, "text")
    lines = text.count("\n") + 1
    if lines <= _OPEN_LINES:
        return block
    summary = f"{plural(len(plan.changes), 'change')}, {plural(len(plan.operations), 'operation')}"
    return f"<details><summary>{summary}</summary>\n\n{block}\n\n</details>"


def _findings(plan: Plan, detail: Detail) -> list[str]:
    about, impact, suppressed = sort_findings(plan)
    shown = [f for f in (*about, *impact, *suppressed) if f.severity is not Severity.INFO]
    if not shown:
        return []
    lines = [_finding(f) for f in shown[: int(detail)]]
    if len(shown) > len(lines):
        lines.append(f"- … and {plural(len(shown) - len(lines), 'more finding')}: `laketable plan --output json`")
    return ["\n".join(lines)]


def _finding(finding: Finding) -> str:
    place = f" {code(clean(print_path(finding.path), 200))}:" if finding.path else ""
    if finding.suppressed is not None:
        reason = markdown(clean(finding.suppressed, 500))
        return f"- 🔕 **{markdown(finding.code)}**{place} suppressed: {reason}"
    hint = f" *{markdown(clean(finding.hint, 500))}*" if finding.hint else ""
    message = markdown(clean(finding.message, 1_000))
    return f"- {_SIGNS[finding.severity]} **{markdown(finding.code)}**{place} {message}{hint}"


def _hash_line(report: Report, plan: Plan) -> str:
    return f'- {code(_short(report.name))}: `approval: {{plan: "{clean(plan.hash)}"}}`'


def _approval(plan: Plan) -> str:
    lines = fence(f'  approval: {{plan: "{clean(plan.hash)}"}}', "yaml")
    return f"To approve exactly this plan, commit these lines under `spec:` (or run `laketable approve -f`):\n\n{lines}"


def _unchanged(reports: Sequence[Report]) -> list[str]:
    if not reports:
        return []
    names = ", ".join(code(_short(report.name)) for report in reports[:_NAMES])
    more = f" and {count(len(reports) - _NAMES)} more" if len(reports) > _NAMES else ""
    return [f"<details><summary>No changes: {plural(len(reports), 'table')}</summary>\n\n{names}{more}\n\n</details>"]
