"""What the parts of a LakePolicy mean together."""

from __future__ import annotations

from reconciler.model.faults import Fault
from reconciler.model.manifest.policy import LakePolicy, Rule


def policy_faults(policy: LakePolicy) -> list[Fault]:
    """Return every fault of a LakePolicy."""
    spec = policy.spec
    faults: list[Fault] = []
    for index, name in enumerate(spec.auto_approve or ()):
        if name == "destructive":
            hint = "Approve such a plan by its hash."
            faults.append(Fault(("spec", "autoApprove", index), "destructive plans are never approved blindly", hint))
    for key, rule in (("deny", spec.deny), ("requireApproval", spec.require_approval)):
        if rule is not None and not _names_something(rule):
            hint = "Give it classes, findings, changes or breaking: true."
            faults.append(Fault(("spec", key), f"'{key}' names nothing", hint))
    for index, window in enumerate(spec.windows or ()):
        if window.start == window.end:
            message = f"the window opens and closes at {window.start}"
            hint = "For a whole day write start: 00:00, end: 23:59."
            faults.append(Fault(("spec", "windows", index), message, hint))
        if not _is_zone(window.time_zone):
            message = f"'{window.time_zone}' is not a known time zone"
            hint = "Write an IANA name such as Europe/Prague."
            faults.append(Fault(("spec", "windows", index, "timeZone"), message, hint))
    return faults


def _names_something(rule: Rule) -> bool:
    return bool(rule.classes or rule.findings or rule.changes or rule.breaking)


def _is_zone(name: str) -> bool:
    if name == "UTC":
        return True
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        return False
    return True
