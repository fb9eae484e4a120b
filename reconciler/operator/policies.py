"""Which LakePolicies hold for a Kubernetes namespace: its own, and those of the operator's namespace that select it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from reconciler.errors import InvalidInput
from reconciler.model.documents import check_resource
from reconciler.model.manifest import LakePolicy
from reconciler.model.manifest.policy import LabelExpression, LabelSelector
from reconciler.operator.objects import Json, mapping_at, text_at
from reconciler.plan.policy import OPERATOR_DEFAULT, Policy, policy_from_manifest


def policies_for(
    raws: list[Json],
    namespace: str,
    labels: Mapping[str, str],
    operator_namespace: str,
    spent: Mapping[str, int] | None = None,
) -> tuple[Policy, ...]:
    """Return the policies that judge plans of a namespace; without any the operator's default.

    `spent` is, by the policy's uid, what other tables took of its budget of the day. A policy that cannot be read must
    not be taken for one that allows: raises InvalidInput naming it.
    """
    taken = spent or {}
    found = tuple(
        msgspec.structs.replace(policy_from_manifest(read_policy(raw)), spent_elsewhere=taken.get(uid_of(raw), 0))
        for raw in raws
        if holds_for(raw, namespace, labels, operator_namespace)
    )
    return found or (OPERATOR_DEFAULT,)


def uid_of(raw: Json) -> str:
    """Return a LakePolicy's uid."""
    return text_at(raw, "metadata", "uid")


def has_daily_budget(raw: Json) -> bool:
    """Say whether a LakePolicy has a budget per day, for all tables that it holds for together."""
    return "maxRewriteBytesPerDay" in mapping_at(raw, "spec", "budgets")


def has_selector(raw: Json) -> bool:
    """Say whether a LakePolicy selects namespaces by their labels."""
    return bool(mapping_at(raw, "spec", "namespaceSelector"))


def read_policy(raw: Json) -> LakePolicy:
    """Check a LakePolicy."""
    manifest, faults = check_resource(raw)
    if faults or not isinstance(manifest, LakePolicy):
        metadata = raw.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        said = "; ".join(fault.message for fault in faults[:3])
        raise InvalidInput(f"LakePolicy {name} is wrong: {said}.", hint="Correct it: no plan is judged without it.")
    return manifest


def holds_for(raw: Json, namespace: str, labels: Mapping[str, str], operator_namespace: str) -> bool:
    """Say whether a LakePolicy holds for a namespace with these labels.

    One that is wrong stops those it could hold for, and nobody else: raises InvalidInput.
    """
    own = text_at(raw, "metadata", "namespace")
    if own not in (namespace, operator_namespace):
        return False
    policy = read_policy(raw)
    return own == namespace or selects(policy.spec.namespace_selector, labels)


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Say whether a label selector matches; None matches everything."""
    if selector is None:
        return True
    equal = all(labels.get(key) == value for key, value in (selector.match_labels or {}).items())
    return equal and all(_holds(expression, labels) for expression in selector.match_expressions or ())


def _holds(expression: LabelExpression, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression.key), expression.values or []
    match expression.operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return expression.key in labels
        case "DoesNotExist":
            return expression.key not in labels
