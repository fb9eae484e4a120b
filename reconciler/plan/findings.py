"""Make findings from the registry, apply a manifest's suppressions to them, and render the registry's pages."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reconciler.model.table import Suppression
from reconciler.model.types import FieldPath, dotted
from reconciler.plan.finding_codes import KINDS, REGISTRY, FindingKind
from reconciler.plan.operations import Finding, Severity

__all__ = ["KINDS", "REGISTRY", "FindingKind", "finding", "finding_page", "index_page", "suppress"]

_GROUPS = {
    "LK1": "Destructive",
    "LK2": "Data-dependent",
    "LK3": "Consumers",
    "LK4": "Readers",
    "LK5": "Cost",
    "LK6": "Hygiene",
}


def finding(code: str, message: str, *, path: FieldPath = (), hint: str = "") -> Finding:
    """Make a finding with the severity the registry gives its code; without a hint the registry's fix is the hint."""
    kind = REGISTRY[code]
    return Finding(code=code, severity=kind.severity, path=path, message=message, hint=hint or kind.fix)


def suppress(findings: Sequence[Finding], suppressions: Sequence[Suppression]) -> tuple[Finding, ...]:
    """Mark the findings that the manifest accepts; a suppression that cannot take effect is a finding of its own.

    A path accepts the finding at that column and at the fields below it.
    """
    if not suppressions:
        return tuple(findings)
    marked = list(findings)
    complaints: list[Finding] = []
    for suppression in suppressions:
        complaint = _refusal(suppression)
        if complaint is None:
            complaint = _mark(marked, suppression)
        if complaint is not None:
            complaints.append(complaint)
    return (*marked, *complaints)


def _refusal(suppression: Suppression) -> Finding | None:
    """Say why a suppression is not honoured, whatever the findings are."""
    code, path = suppression.code, suppression.path or ()
    kind = REGISTRY.get(code)
    if kind is None:
        message = f"The manifest suppresses {code}, which is no finding code."
        return finding("LK602", message, path=path, hint="'laketable explain' lists the codes.")
    if not suppression.reason.strip():
        message = f"The suppression of {code} gives no reason, so it has no effect."
        return finding("LK602", message, path=path, hint="Add a reason to it.")
    if not kind.suppressible:
        message = f"{code} cannot be suppressed: {kind.title[0].lower()}{kind.title[1:]}."
        return finding("LK602", message, path=path, hint="Remove the suppression and follow the finding's own hint.")
    return None


def _mark(findings: list[Finding], suppression: Suppression) -> Finding | None:
    """Mark what matches, in place; nothing matching is worth a line on request."""
    matched = False
    prefix = suppression.path
    for position, found in enumerate(findings):
        if found.code == suppression.code and (prefix is None or found.path[: len(prefix)] == prefix):
            findings[position] = msgspec.structs.replace(found, suppressed=suppression.reason)
            matched = True
    if matched:
        return None
    place = f" at {dotted(prefix)}" if prefix else ""
    return finding("LK603", f"The suppression of {suppression.code}{place} matches nothing.", path=prefix or ())


# ---------------------------------------------------------------- pages


def finding_page(code: str) -> str:
    """Render one code's documentation page as Markdown."""
    kind = REGISTRY[code]
    fence = "```"
    return (
        f"# {kind.code}: {kind.title}\n\n"
        f"{_severity_line(kind)}\n\n"
        f"{kind.why}\n\n"
        f"## Raises it\n\n{fence}yaml\n{kind.before.rstrip()}\n{fence}\n\n"
        f"## Does not\n\n{fence}yaml\n{kind.after.rstrip()}\n{fence}\n\n"
        f"## What to do\n\n{kind.fix}\n"
    )


def index_page() -> str:
    """Render the list of all codes as Markdown."""
    parts = [
        "# Findings\n",
        "A finding is what a check has to say about a plan. An error blocks the plan, a warning is shown, info is "
        "shown on request.\nA manifest accepts a finding, where that is possible, by naming its code with a reason. "
        "`laketable explain LK104` prints these pages.\n",
    ]
    for prefix, group in _GROUPS.items():
        rows = [
            f"| [{kind.code}]({kind.code}.md) | {kind.title} | {kind.severity.value} "
            f"| {'yes' if kind.suppressible else 'no'} |"
            for kind in KINDS
            if kind.code.startswith(prefix)
        ]
        table = ["| Code | Finding | Severity | Can be suppressed |", "|---|---|---|---|", *rows]
        parts.append(f"## {prefix}xx {group}\n\n" + "\n".join(table) + "\n")
    return "\n".join(parts)


def _severity_line(kind: FindingKind) -> str:
    effect = {
        Severity.ERROR: "Error: the plan cannot be applied",
        Severity.WARNING: "Warning: the plan can be applied",
        Severity.INFO: "Info: shown on request",
    }[kind.severity]
    return f"{effect}. It {'can' if kind.suppressible else 'cannot'} be suppressed in the manifest."
