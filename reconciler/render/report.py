"""What every output says about one planned manifest: who it is, its verdict, its totals, what to do next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from reconciler.errors import LakeError
from reconciler.model.table import Statistics
from reconciler.plan.operations import Cost, Finding, How, Operation, OperationClass, Plan, Severity, Way
from reconciler.plan.policy import Decision, Outcome
from reconciler.render.safe import clean
from reconciler.render.units import count, plural, short_count, size

# Findings about consumers and readers tell the impact on others; the rest is about the table itself.
_IMPACT = ("LK3", "LK4")
_LINE = re.compile(r":\d+(:\d+)?$")
_ORDER = (OperationClass.METADATA_ONLY, OperationClass.REWRITE, OperationClass.AUDIT, OperationClass.DESTRUCTIVE)


class Verdict(StrEnum):
    """Where a manifest stands, as every output words it."""

    FAILED = "failed"
    BLOCKED = "blocked"
    DENIED = "denied"
    WAITING = "needs approval"
    ALLOWED = "allowed"
    UNCHANGED = "no changes"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest's outcome, ready to show: a plan with its decision, or the error that kept it from one.

    `name` is the table as the manifest names it, `source` its file:line, `command` what carries the plan out when it is
    not `laketable apply` on that file.
    """

    name: str
    source: str = ""
    plan: Plan | None = None
    outcome: str = ""
    reasons: tuple[str, ...] = ()
    flag_suffices: bool = False
    command: str = ""
    error_reason: str = ""
    error: str = ""

    @classmethod
    def of(cls, plan: Plan, decision: Decision | None = None, *, source: str = "", command: str = "") -> Report:
        """Report a plan and its decision."""
        return cls(
            name=str(plan.table),
            source=_encodable(source),
            plan=plan,
            outcome=decision.outcome.value if decision else "",
            reasons=decision.reasons if decision else (),
            flag_suffices=decision.flag_suffices if decision else False,
            command=command,
        )

    @classmethod
    def failed(cls, name: str, error: LakeError, *, source: str = "") -> Report:
        """Report that there is no plan, and why."""
        return cls(name=name, source=_encodable(source), error_reason=error.reason, error=str(error))

    @property
    def verdict(self) -> Verdict:
        """Where it stands; a plan without a decision needs approval unless it is empty or blocked."""
        if self.plan is None:
            return Verdict.FAILED
        if self.plan.is_blocked:
            return Verdict.BLOCKED
        if self.outcome == Outcome.DENY:
            return Verdict.DENIED
        if self.plan.is_empty:
            return Verdict.UNCHANGED
        return Verdict.ALLOWED if self.outcome == Outcome.ALLOW else Verdict.WAITING


def _encodable(path: str) -> str:
    """Spell out the bytes of a file name that is not UTF-8, which no document could hold."""
    return path.encode("utf-8", "backslashreplace").decode()


def headline(plan: Plan) -> str:
    """Name a plan's manifest, catalog and table, with the table's size."""
    owner = "/".join(plan.owner.split("/")[-2:]) if plan.owner else ""
    left = f"LakeTable {clean(owner)} → " if owner else "LakeTable "
    catalog = f"{clean(plan.catalog)}: " if plan.catalog else ""
    return f"{left}{catalog}{clean(str(plan.table))}  ({_shape(plan)})"


def _shape(plan: Plan) -> str:
    format_ = f"iceberg v{plan.format_version}"
    return ", ".join([format_, *(_totals(plan.statistics) if plan.base else ["not there yet"])])


def _totals(statistics: Statistics) -> list[str]:
    known = (
        statistics.files is not None and plural(statistics.files, "file"),
        statistics.bytes is not None and size(statistics.bytes),
        statistics.rows is not None and f"{short_count(statistics.rows)} row{'' if statistics.rows == 1 else 's'}",
        bool(statistics.delete_files) and plural(statistics.delete_files or 0, "delete file"),
    )
    return [text for text in known if text]


def short_hash(plan_hash: str) -> str:
    """Abbreviate a plan hash, its algorithm kept: `sha256:9f3c1ab2…`."""
    algorithm, colon, digest = clean(plan_hash).rpartition(":")
    return f"{algorithm}{colon}{digest[:8]}{'…' if len(digest) > 8 else ''}"


def totals(plans: Iterable[Plan]) -> str:
    """Count tables and operations by class: `1 table, 4 operations: 2 metadata-only, …, 0 destructive`."""
    counted = tuple(plans)
    operations = [operation for plan in counted for operation in plan.operations]
    classes = [_class_total(c, [o for o in operations if o.operation_class is c]) for c in _ORDER]
    breaking = sum(plan.is_breaking for plan in counted)
    notice = f"; {plural(breaking, 'table')} breaking for readers" if breaking and len(counted) > 1 else ""
    if breaking and len(counted) == 1:
        notice = "; breaking for readers"
    tables = plural(len(counted), "table")
    return f"{tables}, {plural(len(operations), 'operation')}: {', '.join(c for c in classes if c)}{notice}"


def _class_total(class_: OperationClass, operations: Sequence[Operation]) -> str:
    if not operations and class_ is not OperationClass.DESTRUCTIVE:
        return ""
    cost = Cost()
    for operation in operations:
        cost += operation.cost
    amount = f" ({size(cost.bytes_rewritten)}, {plural(cost.files_rewritten, 'file')})" if cost.files_rewritten else ""
    return f"{len(operations):,} {class_.value}{amount}"


def cost_texts(cost: Cost) -> tuple[str, str]:
    """Say what is read and what is rewritten; a dash for nothing."""
    reads = size(cost.bytes_read) if cost.files_read or cost.bytes_read else "-"
    rewrites = f"{plural(cost.files_rewritten, 'file')}, {size(cost.bytes_rewritten)}" if cost.files_rewritten else "-"
    return reads, rewrites


def ways_text(ways: Sequence[Way]) -> str:
    """Say which files go which way: `6 files spliced (240 MiB), 2 rewritten (row deletes; 40 MiB)`."""
    texts = []
    for way in ways:
        done = "spliced" if way.how is How.SPLICE else "rewritten"
        why = f"{clean(way.why)}; " if way.why else ""
        texts.append(f"{plural(way.cost.files_rewritten, 'file')} {done} ({why}{size(way.cost.bytes_rewritten)})")
    return ", ".join(texts)


def class_text(class_: OperationClass, breaking: bool) -> str:
    """Word a class, with the flag beside it."""
    return f"{class_.value}, breaking" if breaking else class_.value


def sort_findings(plan: Plan) -> tuple[list[Finding], list[Finding], list[Finding]]:
    """Split a plan's findings: about the table (worst first), impact on others, suppressed."""
    rank = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
    ordered = sorted(plan.findings, key=lambda f: rank[f.severity])
    suppressed = [f for f in ordered if f.suppressed is not None]
    live = [f for f in ordered if f.suppressed is None]
    impact = [f for f in live if f.code.startswith(_IMPACT) and not f.is_blocking]
    return [f for f in live if f not in impact], impact, suppressed


def file_of(source: str) -> str:
    """Return the file of a file:line(:column), quoted for a shell; `FILE` when it is not known."""
    return clean(shlex.quote(_LINE.sub("", source))) if source else "FILE"


class Step(NamedTuple):
    """One line of what to do next; a command is never wrapped, so that it can be copied."""

    text: str
    indent: str = ""
    is_command: bool = False


def next_steps(report: Report) -> list[Step]:
    """Say what the verdict means, why, and what to do about it."""
    plan, command = report.plan, report.command or f"laketable apply -f {file_of(report.source)}"
    if plan is None:
        return [Step(f"Failed: {clean(report.error)}")]
    why = [Step(clean(reason), "  ") for reason in report.reasons]
    match report.verdict:
        case Verdict.BLOCKED:
            errors = [f for f in plan.findings if f.is_blocking]
            codes = list(dict.fromkeys(clean(f.code) for f in errors))
            return [
                Step(f"Blocked: {plural(len(errors), 'error')} ({', '.join(codes)}); nothing will be applied."),
                Step(f"Next: fix the manifest as the finding says; 'laketable explain {codes[0]}' tells more."),
            ]
        case Verdict.DENIED:
            return [
                Step("Denied; an approval does not help."),
                *why,
                Step("Next: change the manifest, or the policy that denies it."),
            ]
        case Verdict.WAITING if not plan.hash:
            return [
                Step("Compared offline. 'laketable plan' without --against shows what it means for the live table.")
            ]
        case Verdict.WAITING:
            return [Step("Needs approval."), *why, *_ways_to_approve(report, command, plan.hash)]
        case Verdict.ALLOWED:
            return [Step(f"Next: {command}", is_command=True)]
        case _:
            return [Step("No changes. The table is what the manifest says.")]


def _ways_to_approve(report: Report, command: str, plan_hash: str) -> list[Step]:
    """Name the commands that release a plan, the simplest first."""
    ways = []
    if report.flag_suffices:
        ways.append(f"{command}   # asks first; --auto-approve where nobody can be asked")
    if not report.command:
        ways.append(f"laketable approve -f {file_of(report.source)}   # then commit the file")
    ways.append(f"{command} --approve {clean(plan_hash)}")
    return [Step(f"{'  or' if i else 'Next'}: {way}", is_command=True) for i, way in enumerate(ways)]


def summary_line(reports: Sequence[Report]) -> str:
    """Sum up several tables: totals, then how many stand where."""
    if not reports:
        return "No manifest to plan."
    if all(r.verdict is Verdict.UNCHANGED for r in reports):
        return f"No changes. {plural(len(reports), 'table')}, as the manifests say."
    plans = [r.plan for r in reports if r.plan is not None]
    changed = [plan for plan in plans if plan.operations]
    counts = {v: sum(r.verdict is v for r in reports) for v in Verdict}
    stands = ", ".join(f"{count(number)} {_stand(verdict, number)}" for verdict, number in counts.items() if number)
    return f"{totals(changed)}. Of {plural(len(reports), 'manifest')}: {stands}."


def _stand(verdict: Verdict, number: int) -> str:
    return "need approval" if verdict is Verdict.WAITING and number > 1 else verdict.value
