"""What a runtime cannot run is refused at plan time, with the one that can."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.model.table import TableIdent
from reconciler.plan.operations import Backfill, Operation, OperationClass, OperationKind, Plan, Severity, Work
from reconciler.plan.runtimes import within_runtime
from reconciler.plan.table_work import Maintain, MaintenanceStep

BACKFILL = Backfill(columns=())
MAINTAIN = Maintain(step=MaintenanceStep.EXPIRE_SNAPSHOTS, tick_ms=0)


def operation(work: Work | None, kind: OperationKind) -> Operation:
    return Operation(id="0" * 16, kind=kind, summary="", operation_class=OperationClass.REWRITE, work=work)


def made(*operations: Operation, upkeep: tuple[Operation, ...] = (), version: int = 2) -> Plan:
    plan = Plan(table=TableIdent(("db",), "t"), owner="me", catalog="lake", base=None, operations=operations)
    return msgspec.structs.replace(plan, upkeep=upkeep, format_version=version)


FILL = operation(BACKFILL, OperationKind.BACKFILL)
KEEP = operation(MAINTAIN, OperationKind.MAINTAIN)
COMMIT = operation(None, OperationKind.COMMIT)


@pytest.mark.parametrize(
    ("plan", "runtime"),
    [
        (made(FILL, KEEP, version=3), "local"),
        (made(COMMIT), "job"),
        (made(COMMIT, FILL), "connect"),
        (made(COMMIT, version=3), "connect"),
    ],
)
def test_what_runs_is_left_alone(plan: Plan, runtime: str) -> None:
    assert within_runtime(plan, runtime) is plan or within_runtime(plan, runtime) == plan


@pytest.mark.parametrize(
    ("plan", "runtime", "why"),
    [
        (made(FILL), "job", "starts Kubernetes Jobs"),
        (made(FILL, version=3), "connect", "row ids of a format v3 table"),
        (made(KEEP), "connect", "which a maintain needs"),
    ],
)
def test_what_does_not_run_blocks_the_plan(plan: Plan, runtime: str, why: str) -> None:
    found = within_runtime(plan, runtime)
    assert found.is_blocked
    (finding,) = found.findings
    assert finding.code == "LK208"
    assert why in finding.message
    assert "untime to local" in finding.hint


def test_upkeep_that_does_not_run_is_left_out_and_said() -> None:
    found = within_runtime(made(COMMIT, upkeep=(COMMIT, KEEP)), "connect")
    assert not found.is_blocked
    assert found.upkeep == (COMMIT,)
    assert [f.severity for f in found.findings] == [Severity.WARNING]
