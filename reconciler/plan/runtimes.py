"""Which runtime can carry out which data operations; what cannot run is refused before anything is done."""

from __future__ import annotations

import msgspec

from reconciler.plan.data import data_operations
from reconciler.plan.findings import finding
from reconciler.plan.operations import Backfill, Finding, Operation, Plan, Severity

LOCAL, CONNECT, JOB = "local", "connect", "job"
_HINT = "Set its runtime to local."
_NEWEST_OF_CONNECT = 2


def within_runtime(made: Plan, runtime: str) -> Plan:
    """Add to a plan the refusals of what the catalog's runtime cannot run; upkeep it cannot run is left out.

    A shell that can start Kubernetes Jobs, or is one, says `local`: Spark runs inside the Job.
    """
    if runtime == LOCAL:
        return made
    refusals = [_refused(made, runtime, why) for why in _reasons(made, runtime)]
    upkeep = tuple(operation for operation in made.upkeep if not _reason(operation, made, runtime))
    if len(upkeep) < len(made.upkeep):
        left_out = _refused(made, runtime, "leaves upkeep that needs Spark's own API undone")
        refusals.append(msgspec.structs.replace(left_out, severity=Severity.WARNING))
    return msgspec.structs.replace(made, findings=(*made.findings, *refusals), upkeep=upkeep)


def _reasons(made: Plan, runtime: str) -> list[str]:
    """Say what the runtime cannot do of a plan, each once."""
    reasons = (_reason(operation, made, runtime) for operation in data_operations(made))
    return list(dict.fromkeys(reason for reason in reasons if reason))


def _reason(operation: Operation, made: Plan, runtime: str) -> str:
    if operation.work is None:
        return ""
    if runtime == JOB:
        return "starts Kubernetes Jobs, which the operator does and this command does not"
    if not isinstance(operation.work, Backfill):
        return f"has no access to Iceberg's own API, which a {operation.kind.value} needs"
    if made.format_version > _NEWEST_OF_CONNECT:
        return f"would lose the row ids of a format v{made.format_version} table"
    return ""


def _refused(made: Plan, runtime: str, why: str) -> Finding:
    hint = f"Let the operator apply it, or: {_HINT[0].lower()}{_HINT[1:]}" if runtime == JOB else _HINT
    return finding("LK208", f"The runtime {runtime} of catalog {made.catalog} {why}.", hint=hint)
