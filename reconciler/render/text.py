"""Plans as text for a terminal. The caller says how wide it is and whether it shows colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reconciler.model.type_strings import print_path
from reconciler.plan.operations import Fidelity, Finding, Note, Operation, OperationClass, Plan, Severity
from reconciler.render.describe import Aspect, Description, Mark, describe, parts
from reconciler.render.grid import GAP, MINIMUM_WIDTH, Cell, Style, fit, grid, lay, natural_widths, paint, wrap
from reconciler.render.report import (
    Report,
    Verdict,
    class_text,
    cost_texts,
    headline,
    next_steps,
    short_hash,
    sort_findings,
    summary_line,
    totals,
    ways_text,
)
from reconciler.render.safe import clean
from reconciler.render.units import count

ROWS = 20
_ROWS_INDENT = "    "
_ALL = "--output json shows all"
_MARKS = {Mark.ADD: Style.ADD, Mark.DROP: Style.DROP, Mark.ALTER: Style.ALTER, Mark.RENAME: Style.RENAME}
_CLASSES = {
    OperationClass.METADATA_ONLY: Style.DIM,
    OperationClass.AUDIT: Style.ALTER,
    OperationClass.REWRITE: Style.COSTLY,
    OperationClass.DESTRUCTIVE: Style.DANGER,
}
_SEVERITIES = {Severity.ERROR: Style.DANGER, Severity.WARNING: Style.ALTER, Severity.INFO: Style.DIM}
_VERDICTS = {
    Verdict.FAILED: Style.DANGER,
    Verdict.BLOCKED: Style.DANGER,
    Verdict.DENIED: Style.DANGER,
    Verdict.WAITING: Style.ALTER,
    Verdict.ALLOWED: Style.ADD,
    Verdict.UNCHANGED: Style.DIM,
}


def render_report(
    report: Report, *, width: int, color: bool, limit: int = ROWS, info: bool = False, next_step: bool = True
) -> str:
    """Render one manifest's outcome for a reviewer: its plan, or why there is none; and what to do next, if wanted.

    At most `limit` rows of each kind are shown, the riskiest first to stay; info findings only with `info`.
    """
    page = _Page(width, color, limit)
    plan = report.plan
    if plan is None:
        page.line(f"LakeTable {clean(report.name)}", Style.BOLD)
    else:
        page.line(headline(plan), Style.BOLD)
        page.body(plan)
        page.findings(plan, info=info)
        page.upkeep(plan)
        if plan.operations:
            page.line(f"Plan{' ' * bool(plan.hash)}{short_hash(plan.hash)}: {totals([plan])}", Style.BOLD)
    if next_step:
        first, *others = next_steps(report)
        page.line(first.text, _VERDICTS[report.verdict])
        for step in others:
            page.line(step.text, indent=step.indent, breakable=not step.is_command)
    return page.text()


def render_body(plan: Plan, *, width: int, limit: int = ROWS) -> str:
    """Render a plan's changes, operations and upkeep only, without colours: for a fenced block."""
    page = _Page(width, False, limit)
    page.body(plan)
    page.upkeep(plan)
    return page.text()


def render_summary(reports: Sequence[Report], *, width: int, color: bool) -> str:
    """Render several manifests as a table, a line each, and their totals; unchanged ones are only counted."""
    shown = [r for r in reports if r.verdict is not Verdict.UNCHANGED]
    page = _Page(width, color, ROWS)
    if shown:
        head = tuple(Cell(h, Style.BOLD) for h in ("table", "class", "changes", "rewrites", "plan", "verdict"))
        page.lines += grid([head, *(_summary_row(r) for r in shown)], width=width, color=color)
    page.line(summary_line(reports), Style.BOLD)
    return page.text()


def _summary_row(report: Report) -> tuple[Cell, ...]:
    verdict = Cell(report.verdict.value, _VERDICTS[report.verdict])
    plan = report.plan
    if plan is None:
        failed = Cell(f"failed: {clean(report.error)}", Style.DANGER)
        return (Cell(clean(report.name)), Cell("-"), Cell("-", right=True), Cell("-"), Cell("-"), failed)
    return (
        Cell(clean(report.name)),
        Cell(class_text(plan.operation_class, plan.is_breaking), _CLASSES[plan.operation_class]),
        Cell(count(len(plan.changes)), right=True),
        Cell(cost_texts(plan.cost)[1]),
        Cell(clean(plan.hash.removeprefix("sha256:")[:8]) or "-"),
        verdict,
    )


class _Page:
    """Lines being collected under one width, colour setting and row limit."""

    def __init__(self, width: int, color: bool, limit: int) -> None:
        self.width, self.color, self.limit = max(width, MINIMUM_WIDTH), color, max(limit, 1)
        self.lines: list[str] = []

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def line(self, text: str, style: Style = Style.PLAIN, *, indent: str = "", breakable: bool = True) -> None:
        """Add a sentence, wrapped with a hanging indent; a command is left whole so that it can be copied."""
        hanging = indent + "  "
        first, *others = wrap(text, self.width - len(hanging)) if breakable else [text]
        self.lines.append(indent + paint(first, style, self.color))
        self.lines += [hanging + paint(other, style, self.color) for other in others]

    def body(self, plan: Plan) -> None:
        self._changes(plan.notes)
        self._operations("operations", plan.operations)

    def upkeep(self, plan: Plan) -> None:
        self._operations("upkeep (not part of the plan; --include-upkeep applies it)", plan.upkeep)

    def findings(self, plan: Plan, *, info: bool) -> None:
        about, impact, suppressed = sort_findings(plan)
        self._findings([f for f in about if info or f.severity is not Severity.INFO])
        for finding in impact[: self.limit]:
            self.line(f"impact: {_sentence(finding)}", _SEVERITIES[finding.severity], indent="  ")
        self._more(len(impact) - self.limit, "")
        for finding in suppressed[: self.limit]:
            reason = clean(finding.suppressed or "")
            self.line(f"suppressed: {clean(finding.code)} {_place(finding)}({reason})", Style.DIM, indent="  ")
        self._more(len(suppressed) - self.limit, "")

    def _changes(self, notes: Sequence[Note]) -> None:
        groups: dict[Aspect, list[_Entry]] = {aspect: [] for aspect in Aspect}
        for entry in (entry for note in notes for entry in _entries(note)):
            groups[entry.what.aspect].append(entry)
        shown = {a: _riskiest(entries, self.limit) for a, entries in groups.items() if entries}
        if not shown:
            return
        rows = {a: [_change_row(entry) for entry in entries] for a, entries in shown.items()}
        room = self.width - len(_ROWS_INDENT)
        class_width = min(max(natural_widths(r)[2] for r in rows.values()), max(13, room // 3))
        # The classes of all groups align; the names only within their group.
        left = min(max(sum(natural_widths(r)[:2]) + len(GAP) for r in rows.values()), room - class_width - len(GAP))
        for aspect, group in rows.items():
            entries = groups[aspect]
            mark = _heading_mark([entry.what.mark for entry in entries])
            self.line(f"{mark} {aspect}{_sum_of(entries, self.limit)}", _MARKS[mark], indent="  ")
            subject = fit(natural_widths(group)[:2], left - len(GAP))[0]
            widths = (subject, left - len(GAP) - subject, class_width)
            for row, entry in zip(group, shown[aspect], strict=True):
                lines = lay(row, widths, color=self.color, aside=_evidence(entry), room=room)
                self.lines += [_ROWS_INDENT + line for line in lines]
            self._more(len(entries) - self.limit, "")

    def _operations(self, title: str, operations: Sequence[Operation]) -> None:
        if not operations:
            return
        rows = [
            tuple(Cell(text, Style.BOLD) for text in (title, "class", "reads", "rewrites")),
            *(_operation_row(number, o) for number, o in enumerate(operations[: self.limit], 1)),
        ]
        room = self.width - 2
        widths = fit(natural_widths(rows), room - 3 * len(GAP))
        for row, operation in zip(rows, (None, *operations), strict=False):
            aside = _aside(operation) if operation else ""
            self.lines += ["  " + line for line in lay(row, widths, color=self.color, aside=aside, room=room)]
        self._more(len(operations) - self.limit, "operations")

    def _findings(self, findings: Sequence[Finding]) -> None:
        # Errors come first, so what is collapsed is the least severe.
        if findings:
            self.line("findings", Style.BOLD, indent="  ")
        for finding in findings[: self.limit]:
            text = f"{clean(finding.code)} {finding.severity.value}: {_place(finding)}{clean(finding.message)}"
            self.line(text, _SEVERITIES[finding.severity], indent="    ")
            if finding.hint:
                self.line(f"hint: {clean(finding.hint)}", Style.DIM, indent="      ")
        self._more(len(findings) - self.limit, "findings")

    def _more(self, hidden: int, noun: str) -> None:
        if hidden > 0:
            self.line(f"… and {count(hidden)} more{' ' + noun if noun else ''} ({_ALL})", Style.DIM, indent="    ")


class _Entry(NamedTuple):
    """One line of changes: what is said, and the note it belongs to; a part of a new table repeats no class."""

    what: Description
    note: Note
    is_part: bool


def _entries(note: Note) -> Iterator[_Entry]:
    yield _Entry(describe(note.change), note, False)
    for part in parts(note.change):
        yield _Entry(part, note, True)


def _heading_mark(marks: Sequence[Mark]) -> Mark:
    return marks[0] if len(set(marks)) == 1 and marks[0] in (Mark.ADD, Mark.DROP) else Mark.ALTER


def _riskiest(entries: Sequence[_Entry], limit: int) -> Sequence[_Entry]:
    """Keep the entries that matter most, in their order: a collapse must not hide a drop behind harmless additions."""
    if len(entries) <= limit:
        return entries
    by_risk = sorted(entries, key=lambda e: (-e.note.operation_class.rank, not e.note.breaking))
    kept = {id(entry) for entry in by_risk[:limit]}
    return [entry for entry in entries if id(entry) in kept]


def _sum_of(entries: Sequence[_Entry], limit: int) -> str:
    """Count by class what a collapsed group holds."""
    if len(entries) <= limit:
        return ""
    classes = Counter(class_text(e.note.operation_class, e.note.breaking) for e in entries)
    return f": {', '.join(f'{count(number)} {name}' for name, number in classes.most_common())}"


def _change_row(entry: _Entry) -> tuple[Cell, ...]:
    what, note = entry.what, entry.note
    classed = "" if entry.is_part else class_text(note.operation_class, note.breaking)
    subject = Cell(f"{what.mark} {what.subject}", _MARKS[what.mark])
    return subject, Cell(what.detail), Cell(classed, _CLASSES[note.operation_class])


def _evidence(entry: _Entry) -> str:
    if entry.is_part:
        return ""
    inexact = "" if entry.note.fidelity is Fidelity.EXACT else entry.note.fidelity.value
    return "; ".join(filter(None, (inexact, clean(entry.note.evidence))))


def _operation_row(number: int, operation: Operation) -> tuple[Cell, ...]:
    reads, rewrites = cost_texts(operation.cost)
    return (
        Cell(f"{number} {clean(operation.summary)}"),
        Cell(class_text(operation.operation_class, operation.breaking), _CLASSES[operation.operation_class]),
        Cell(reads),
        Cell(rewrites),
    )


def _aside(operation: Operation) -> str:
    asserts = clean(", ".join(operation.asserts))
    return "; ".join(filter(None, (f"asserts {asserts}" if asserts else "", ways_text(operation.ways))))


def _place(finding: Finding) -> str:
    return f"{clean(print_path(finding.path))}: " if finding.path else ""


def _sentence(finding: Finding) -> str:
    hint = f" {clean(finding.hint)}" if finding.hint else ""
    return f"{_place(finding)}{clean(finding.message)}{hint} ({clean(finding.code)})"
