"""Whether a judged plan is carried out now: mode, drift and decision in, the reason not to out; pure."""

from __future__ import annotations

import msgspec

from reconciler.model.manifest.table import Reconcile
from reconciler.operator.reasons import Reason
from reconciler.plan.operations import Plan
from reconciler.plan.policy import Decision, Outcome

_WAITING = frozenset({"LK304"})
"""Findings that go away by themselves: the source of a view is not there yet."""


class Gate(msgspec.Struct, frozen=True):
    """`reason` None: carry it out."""

    reason: Reason | None
    message: str = ""


def gate(settings: Reconcile, plan: Plan, decision: Decision, *, has_drifted: bool, is_approved: bool) -> Gate:
    """Decide; `is_approved` says that somebody approved exactly this plan, which outweighs onDrift."""
    if plan.is_empty:
        return Gate(Reason.IN_SYNC)
    why = " ".join(decision.reasons)
    if settings.mode == "Observe":
        return Gate(Reason.OBSERVE_ONLY, differs(plan))
    if plan.is_blocked and all(found.code in _WAITING for found in plan.findings if found.is_blocking):
        return Gate(Reason.SOURCE_NOT_READY, why)
    if decision.outcome is Outcome.DENY:
        waits = all("no open window" in reason for reason in decision.reasons)
        return Gate(Reason.OUTSIDE_WINDOW if waits else Reason.DENIED, why)
    if settings.mode == "Plan":
        return Gate(Reason.PLAN_ONLY, f"{differs(plan)} Plan {plan.hash} is made and waits for mode Apply.")
    if has_drifted and settings.on_drift != "Revert" and not is_approved:
        return Gate(
            Reason.DRIFTED, f"{differs(plan)} Somebody else did that; approve plan {plan.hash} to bring it back."
        )
    if decision.outcome is Outcome.NEEDS_APPROVAL:
        return Gate(Reason.APPROVAL_REQUIRED, f"{why} The plan is {plan.hash}.")
    return Gate(None)


def differs(plan: Plan) -> str:
    """Say how far the table is from the spec."""
    number = len(plan.changes)
    if number == 0:
        return "Rows wait to be written." if plan.operations else "A finding forbids the plan."
    return f"{number} change{'' if number == 1 else 's'} between the table and the spec."
