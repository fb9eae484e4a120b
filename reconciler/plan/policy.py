"""Judge a plan: allow it, let it wait for approval, or deny it. Of several policies the strictest wins.

A denial beats every approval. An approval names a plan's hash: in full, or by a prefix of at least 12 hex digits, with
or without `sha256:`. `--auto-approve` covers everything but destructive operations, and no more than the policies let
pass without approval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import msgspec

from reconciler.diff.changes import AddColumn, CreateTable
from reconciler.plan.amounts import plural, size
from reconciler.plan.findings import REGISTRY
from reconciler.plan.hashing import PREFIX
from reconciler.plan.operations import Backfill, Finding, OperationClass, Plan, Refresh, Severity
from reconciler.plan.windows import Window, is_open, next_opening

if TYPE_CHECKING:
    from reconciler.model.manifest import policy as manifest

MINIMUM_PREFIX = 12
SHOWN_DIGITS = 12

_STRICTNESS = {Severity.INFO: 0, Severity.WARNING: 1, Severity.ERROR: 2}


class Outcome(StrEnum):
    """What a plan comes to."""

    ALLOW = "allow"
    NEEDS_APPROVAL = "needs-approval"
    DENY = "deny"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict, why, and the hash it is about; `flag_suffices`: `--auto-approve` would release what waits."""

    outcome: Outcome
    reasons: tuple[str, ...] = ()
    hash: str = ""
    flag_suffices: bool = False


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What a denial or a demand for approval is about; anything named in it counts. Changes by kind (`drop-column`)."""

    classes: frozenset[OperationClass] = frozenset()
    findings: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()
    breaking: bool = False
    reason: str = ""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Guardrails in normal form; `auto_approve` None has no say in what passes without approval.

    `auto_backfill_bytes`: a rewrite that only fills what the plan adds (columns, a new view) passes like metadata up to
    so many bytes. `spent_elsewhere` are bytes that plans of its other tables rewrote in the last 24 hours.
    """

    name: str
    auto_approve: frozenset[OperationClass] | None = None
    auto_backfill_bytes: int = 0
    deny: Rule = Rule()
    require_approval: Rule = Rule()
    max_rewrite_bytes: int | None = None
    max_rewrite_bytes_per_day: int | None = None
    spent_elsewhere: int = 0
    max_rewrite_files: int | None = None
    max_cost_drift_percent: int | None = None
    windows: tuple[Window, ...] = ()
    severities: Mapping[str, Severity] = {}
    protected_names: tuple[str, ...] = ()


OPERATOR_DEFAULT = Policy(
    name="default", auto_approve=frozenset({OperationClass.METADATA_ONLY}), auto_backfill_bytes=10 << 30
)
"""What holds in a cluster without a LakePolicy: metadata-only plans that break no reader go through by themselves, and
so do first backfills of newly added columns, and the first rows of a new view, up to 10 GiB."""


def judge(
    plan: Plan,
    policies: Sequence[Policy],
    *,
    approvals: frozenset[str],
    auto_approve: bool,
    now_ms: int,
    spent_bytes: int = 0,
) -> Decision:
    """Judge a plan by its findings, the policies and what was approved.

    `spent_bytes` are what plans rewrote in this table in the last 24 hours.
    """
    denials = tuple(dict.fromkeys(_denials(plan, policies, now_ms)))
    if denials:
        return Decision(outcome=Outcome.DENY, reasons=denials, hash=plan.hash)
    # What resumes was approved when it started: its id names all it does, and its branch says that it did start.
    if all(operation.resumes for operation in plan.operations):
        return Decision(outcome=Outcome.ALLOW, hash=plan.hash)
    if any(approves(approval, plan.hash) for approval in approvals):
        return Decision(outcome=Outcome.ALLOW, hash=plan.hash)
    for_the_hash = tuple(dict.fromkeys(_open_questions(plan, policies, spent_bytes)))
    reasons = for_the_hash or (() if auto_approve or _passes_by_itself(plan, policies) else (_waits(plan),))
    if not reasons:
        return Decision(outcome=Outcome.ALLOW, hash=plan.hash)
    others = tuple(
        f"The approved hash {_short(approval)} is not this plan's {_short(plan.hash)}."
        for approval in sorted(approvals)
    )
    return Decision(
        outcome=Outcome.NEEDS_APPROVAL,
        reasons=(*others, *reasons),
        hash=plan.hash,
        flag_suffices=not for_the_hash,
    )


def approves(approval: str, plan_hash: str) -> bool:
    """Say whether an approval names this hash: in full, or by a prefix of at least 12 hex digits."""
    digits = approval.strip().lower().removeprefix(PREFIX)
    return len(digits) >= MINIMUM_PREFIX and bool(plan_hash) and plan_hash.removeprefix(PREFIX).startswith(digits)


# ---------------------------------------------------------------- denials


def _denials(plan: Plan, policies: Sequence[Policy], now_ms: int) -> Iterator[str]:
    for found in plan.findings:
        if _is_blocking(found, policies):
            yield f"{found.code}: {found.message} {found.hint}".rstrip()
    if not plan.operations:
        return
    for policy in policies:
        why = _matches(policy.deny, plan)
        if why:
            yield f"LakePolicy {policy.name} denies {why}.{_said(policy.deny)}"
        if plan.operation_class is OperationClass.DESTRUCTIVE:
            pattern = next((p for p in policy.protected_names if fnmatchcase(str(plan.table), p)), None)
            if pattern is not None:
                yield f"LakePolicy {policy.name} protects {pattern} from destructive changes."
        if plan.operation_class > OperationClass.METADATA_ONLY and not is_open(policy.windows, now_ms):
            opens = next_opening(policy.windows, now_ms)
            yield f"LakePolicy {policy.name} has no open window now; the next one opens at {opens}."


def _is_blocking(found: Finding, policies: Sequence[Policy]) -> bool:
    """A policy's severity beats the registry's and the author's suppression; it never lets through what would break."""
    stated = [policy.severities[found.code] for policy in policies if found.code in policy.severities]
    if not stated:
        return found.is_blocking
    if max(stated, key=_STRICTNESS.__getitem__) is Severity.ERROR:
        return True
    kind = REGISTRY.get(found.code)
    return found.is_blocking and (kind is None or not kind.suppressible)


def _matches(rule: Rule, plan: Plan) -> str:
    """Name what in the plan a rule is about; empty when nothing is."""
    for operation in plan.operations:
        if operation.operation_class in rule.classes:
            return f"{operation.operation_class.value} operations"
    if rule.breaking and plan.is_breaking:
        return "changes that break readers"
    if rule.changes:
        kinds = {str(type(change).__struct_config__.tag) for change in plan.changes}
        named = sorted(kinds & rule.changes)
        if named:
            return named[0]
    codes = sorted({found.code for found in plan.findings} & rule.findings)
    return codes[0] if codes else ""


def _said(rule: Rule) -> str:
    return f" {rule.reason}" if rule.reason else ""


# ---------------------------------------------------------------- approval


def _open_questions(plan: Plan, policies: Sequence[Policy], spent_bytes: int) -> Iterator[str]:
    """Yield why somebody must approve the plan by its hash: a flag is not enough."""
    top = plan.operation_class
    if top is OperationClass.DESTRUCTIVE:
        yield "Destructive operations need the approval of exactly this plan, by its hash."
    for policy in policies:
        why = _matches(policy.require_approval, plan)
        if why:
            yield f"LakePolicy {policy.name} wants approval for {why}.{_said(policy.require_approval)}"
        yield from _over_budget(plan, policy, spent_bytes)
        if top is not OperationClass.DESTRUCTIVE and not _lets_pass(plan, policy):
            yield f"LakePolicy {policy.name} lets no {top.value} plan pass without approval of its hash."


def _waits(plan: Plan) -> str:
    breaks = " that breaks readers" if plan.is_breaking else ""
    return f"A {plan.operation_class.value} plan{breaks} waits for approval, by its hash or with --auto-approve."


def _passes_by_itself(plan: Plan, policies: Sequence[Policy]) -> bool:
    stated = [policy for policy in policies if policy.auto_approve is not None]
    return bool(stated) and not plan.is_breaking and all(_lets_pass(plan, policy) for policy in stated)


def _lets_pass(plan: Plan, policy: Policy) -> bool:
    """Say whether a policy, if it has a say in it, lets a plan of this class pass without approval."""
    if policy.auto_approve is None or plan.operation_class in policy.auto_approve:
        return True
    # A new view rewrites nothing: what it reads says how large it is.
    largest = sum(o.cost.bytes_read if isinstance(o.work, Refresh) else o.cost.bytes_rewritten for o in plan.operations)
    is_small = largest <= policy.auto_backfill_bytes
    return is_small and is_first_backfill(plan) and OperationClass.METADATA_ONLY in policy.auto_approve


def is_first_backfill(plan: Plan) -> bool:
    """Say whether all that a plan does to rows is to fill columns that it, or a plan just before it, has added.

    Such a backfill replaces no value: the columns were never computed, and there is nothing in them. Nor do the first
    rows of a view that has none yet; every later refresh goes without approval anyhow.
    """
    works = [o for o in plan.operations if o.operation_class is OperationClass.REWRITE]
    is_created = any(isinstance(change, CreateTable) for change in plan.changes)
    is_new = is_created or (plan.base is not None and plan.base.snapshot_id is None)
    added = {c.field.name for c in plan.changes if isinstance(c, AddColumn) and not c.parent}
    return bool(works) and all(
        (is_new and isinstance(o.work, Refresh)) or (isinstance(o.work, Backfill) and _is_first(o.work, added))
        for o in works
    )


def _is_first(work: Backfill, added: set[str]) -> bool:
    return not work.is_fill and all(
        column.revision == 1 and not column.recompute and column.name in added for column in work.columns
    )


def grew_too_much(now: Plan, approved: Plan, policies: Sequence[Policy]) -> str:
    """Say how far a plan's cost grew since it was approved, when a policy finds that too far; else empty."""
    limits = [p.max_cost_drift_percent for p in policies if p.max_cost_drift_percent is not None]
    before, after = approved.cost.bytes_rewritten, now.cost.bytes_rewritten
    if not limits or after * 100 <= before * (100 + min(limits)):
        return ""
    return f"it rewrites {size(after)} by now, {size(before)} when it was approved, and may grow by {min(limits)}%"


def _over_budget(plan: Plan, policy: Policy, spent_bytes: int) -> Iterator[str]:
    cost = plan.cost
    today, a_day = spent_bytes + policy.spent_elsewhere + cost.bytes_rewritten, policy.max_rewrite_bytes_per_day
    if a_day is not None and cost.bytes_rewritten and today > a_day:
        whose = "of all its tables" if policy.spent_elsewhere else "of this table"
        yield (
            f"The plan rewrites {size(cost.bytes_rewritten)}, which makes {size(today)} {whose} in 24 hours; "
            f"LakePolicy {policy.name} allows {size(a_day)} without approval."
        )
    if policy.max_rewrite_bytes is not None and cost.bytes_rewritten > policy.max_rewrite_bytes:
        yield (
            f"The plan rewrites {size(cost.bytes_rewritten)}, LakePolicy {policy.name} allows "
            f"{size(policy.max_rewrite_bytes)} without approval."
        )
    if policy.max_rewrite_files is not None and cost.files_rewritten > policy.max_rewrite_files:
        yield (
            f"The plan rewrites {plural(cost.files_rewritten, 'file')}, LakePolicy {policy.name} allows "
            f"{policy.max_rewrite_files:,} without approval."
        )


def _short(approval: str) -> str:
    digits = approval.strip().lower().removeprefix(PREFIX)
    return f"{digits[:SHOWN_DIGITS]}…" if len(digits) > SHOWN_DIGITS else digits


# ---------------------------------------------------------------- from the manifest


def policy_from_manifest(manifest: manifest.LakePolicy) -> Policy:
    """Bring a LakePolicy manifest into normal form."""
    from reconciler.model.quantities import parse_size

    spec = manifest.spec
    budgets = spec.budgets
    most_bytes = budgets.max_rewrite_bytes if budgets else None
    a_day = budgets.max_rewrite_bytes_per_day if budgets else None
    return Policy(
        name=manifest.metadata.name,
        auto_approve=None if spec.auto_approve is None else frozenset(map(_class, spec.auto_approve)),
        deny=_rule(spec.deny),
        require_approval=_rule(spec.require_approval),
        max_rewrite_bytes=None if most_bytes is None else parse_size(str(most_bytes)),
        max_rewrite_bytes_per_day=None if a_day is None else parse_size(str(a_day)),
        max_rewrite_files=budgets.max_rewrite_files if budgets else None,
        max_cost_drift_percent=budgets.max_cost_drift_percent if budgets else None,
        windows=tuple(
            Window.parse(days=window.days, start=window.start, end=window.end, time_zone=window.time_zone)
            for window in spec.windows or ()
        ),
        severities={code: Severity(severity) for code, severity in (spec.severities or {}).items()},
        protected_names=tuple(spec.protected_names or ()),
    )


def _rule(rule: manifest.Rule | None) -> Rule:
    if rule is None:
        return Rule()
    return Rule(
        classes=frozenset(map(_class, rule.classes or ())),
        findings=frozenset(rule.findings or ()),
        changes=frozenset(rule.changes or ()),
        breaking=rule.breaking,
        reason=rule.reason or "",
    )


def _class(label: str) -> OperationClass:
    return next(known for known in OperationClass if known.value == label)
