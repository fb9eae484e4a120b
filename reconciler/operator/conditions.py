"""Conditions and the smallest patch: pure functions over status documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from reconciler.model.yaml import Data
from reconciler.operator.objects import Json, items_at
from reconciler.operator.reasons import STANDINGS, Reason
from reconciler.render.safe import clean

MESSAGE_LENGTH = 1024


class Condition(msgspec.Struct, frozen=True):
    """One aspect of a resource's state, before it is known when it changed last."""

    type: str
    status: str
    reason: str
    message: str = ""


def standing_conditions(reason: Reason, message: str) -> list[Condition]:
    """Return Ready, Reconciling and Stalled, as kstatus reads them."""
    standing, said = STANDINGS[reason], message or STANDINGS[reason].doc
    return [
        Condition("Ready", _word(standing.is_ready), reason, said),
        Condition("Reconciling", _word(standing.is_reconciling), reason, said if standing.is_reconciling else ""),
        Condition("Stalled", _word(standing.is_stalled), reason, said if standing.is_stalled else ""),
    ]


def print_conditions(wanted: Sequence[Condition], before: Data, generation: int, now: str) -> list[Data]:
    """Print conditions; one whose status did not change keeps its time."""
    known = {str(old.get("type")): old for old in items_at({"conditions": before}, "conditions")}
    printed: list[Data] = []
    for condition in wanted:
        old = known.get(condition.type, {})
        since = old.get("lastTransitionTime") if old.get("status") == condition.status else None
        printed.append(
            {
                "type": condition.type,
                "status": condition.status,
                "reason": str(condition.reason),
                "message": clean(condition.message)[:MESSAGE_LENGTH],
                "lastTransitionTime": since or now,
                "observedGeneration": generation,
            }
        )
    return printed


def merge_patch(before: Mapping[str, Data], after: Mapping[str, Data]) -> Json:
    """Return the merge patch that makes `before` into `after`; empty when they are equal."""
    patch: Json = {key: None for key in before if key not in after and before[key] is not None}
    for key, value in after.items():
        old = before.get(key)
        if value == old:
            continue
        if isinstance(value, dict) and isinstance(old, dict):
            patch[key] = merge_patch(old, value)
        else:
            patch[key] = value
    return patch


def _word(value: bool) -> str:
    return "True" if value else "False"
