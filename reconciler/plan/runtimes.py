"""Which runtime can carry out which data operations; what cannot run is refused before anything is done."""

from __future__ import annotations

import msgspec

from reconciler.plan.data import data_operations
from reconciler.plan.findings import finding
from reconciler.plan.index_work import CountDistinct
from reconciler.plan.operations import Cost, Finding, How, Operation, Plan, Severity, Way, Work
from reconciler.plan.row_work import Swap, Validate
from reconciler.plan.table_work import Maintain, MaintenanceStep

LOCAL, CONNECT, JOB = "local", "connect", "job"
_HINT = "Set its runtime to local."
_NEWEST_OF_CONNECT = 2
_WITHOUT_MANIFESTS = (MaintenanceStep.EXPIRE_SNAPSHOTS, MaintenanceStep.REMOVE_ORPHAN_FILES)


def within_runtime(made: Plan, runtime: str) -> Plan:
    """Add to a plan the refusals of what the catalog's runtime cannot run; upkeep it cannot run is left out.

    Over Spark Connect nothing is spliced, and the costs say so. A shell that can start Kubernetes Jobs, or is one, says
    `local`: Spark runs inside the Job.
    """
    if runtime == LOCAL:
        return made
    refusals = [_refused(made, runtime, why) for why in _reasons(made, runtime)]
    upkeep = tuple(operation for operation in made.upkeep if not _reason(operation, made, runtime))
    if len(upkeep) < len(made.upkeep):
        left_out = _refused(made, runtime, "leaves upkeep undone that it cannot run")
        refusals.append(msgspec.structs.replace(left_out, severity=Severity.WARNING))
    operations = made.operations
    if runtime == CONNECT:
        operations, upkeep = tuple(map(_without_splicing, operations)), tuple(map(_without_splicing, upkeep))
    findings = (*made.findings, *refusals)
    return msgspec.structs.replace(made, operations=operations, findings=findings, upkeep=upkeep)


def connect_refusal(work: Work | None, format_version: int) -> str:
    """Say why Spark Connect cannot do some work; empty: it can.

    There the catalog puts the files that Spark wrote into snapshots, and it writes no manifests of format v3.
    """
    step = work.step if isinstance(work, Maintain) else None
    if format_version <= _NEWEST_OF_CONNECT or isinstance(work, CountDistinct | None) or step in _WITHOUT_MANIFESTS:
        return ""
    if isinstance(work, Validate | Swap) or step is MaintenanceStep.REWRITE_MANIFESTS:
        return f"cannot write manifests of a format v{format_version} table, which this needs"
    return f"would lose the row ids of a format v{format_version} table"


def _reasons(made: Plan, runtime: str) -> list[str]:
    """Say what the runtime cannot do of a plan, each once."""
    reasons = (_reason(operation, made, runtime) for operation in data_operations(made))
    return list(dict.fromkeys(reason for reason in reasons if reason))


def _reason(operation: Operation, made: Plan, runtime: str) -> str:
    if operation.work is None:
        return ""
    if runtime == JOB:
        return "starts Kubernetes Jobs, which the operator does and this command does not"
    return connect_refusal(operation.work, made.format_version)


def _refused(made: Plan, runtime: str, why: str) -> Finding:
    hint = f"Let the operator apply it, or: {_HINT[0].lower()}{_HINT[1:]}" if runtime == JOB else _HINT
    return finding("LK208", f"The runtime {runtime} of catalog {made.catalog} {why}.", hint=hint)


def _without_splicing(operation: Operation) -> Operation:
    """Price what would be spliced as rewritten: the server has no Python of ours to splice with."""
    if not operation.cost.files_spliced:
        return operation
    ways = tuple(_rewritten(way) if way.how is How.SPLICE else way for way in operation.ways)
    return msgspec.structs.replace(operation, ways=ways, cost=sum((way.cost for way in ways), Cost()))


def _rewritten(way: Way) -> Way:
    """Read whole files instead of the inputs: about what is written."""
    cost = way.cost
    whole = max(cost.bytes_read, cost.bytes_rewritten)
    cost = msgspec.structs.replace(cost, bytes_read=whole, files_spliced=0, bytes_spliced=0)
    return msgspec.structs.replace(way, how=How.REWRITE, why="Spark Connect", cost=cost)
