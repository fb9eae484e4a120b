"""What a runtime cannot run is refused at plan time, with the one that can; what it does otherwise is priced."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.model.table import TableIdent
from reconciler.plan.operations import (
    Backfill,
    Cost,
    How,
    Operation,
    OperationClass,
    OperationKind,
    Plan,
    Severity,
    Way,
    Work,
)
from reconciler.plan.row_work import Validate
from reconciler.plan.runtimes import within_runtime
from reconciler.plan.table_work import Maintain, MaintenanceStep

BACKFILL = Backfill(columns=())
EXPIRE = Maintain(step=MaintenanceStep.EXPIRE_SNAPSHOTS, tick_ms=0)
COMPACT = Maintain(step=MaintenanceStep.COMPACT, tick_ms=0)
DELETES = Way(
    how=How.REWRITE,
    why="row deletes",
    cost=Cost(files_read=1, bytes_read=50, files_rewritten=1, bytes_rewritten=60),
)
SPLICED = Way(
    how=How.SPLICE,
    cost=Cost(files_read=2, bytes_read=10, files_rewritten=2, bytes_rewritten=100, files_spliced=2, bytes_spliced=100),
)


def operation(work: Work | None, kind: OperationKind) -> Operation:
    return Operation(id="0" * 16, kind=kind, summary="", operation_class=OperationClass.REWRITE, work=work)


def made(*operations: Operation, upkeep: tuple[Operation, ...] = (), version: int = 2) -> Plan:
    plan = Plan(table=TableIdent(("db",), "t"), owner="me", catalog="lake", base=None, operations=operations)
    return msgspec.structs.replace(plan, upkeep=upkeep, format_version=version)


FILL = operation(BACKFILL, OperationKind.BACKFILL)
KEEP = operation(EXPIRE, OperationKind.MAINTAIN)
TIDY = operation(COMPACT, OperationKind.MAINTAIN)
SCAN = operation(Validate(), OperationKind.VALIDATE)
COMMIT = operation(None, OperationKind.COMMIT)


@pytest.mark.parametrize(
    ("plan", "runtime"),
    [
        (made(FILL, KEEP, version=3), "local"),
        (made(COMMIT), "job"),
        (made(COMMIT, FILL, TIDY, upkeep=(KEEP, TIDY)), "connect"),
        (made(COMMIT, KEEP, version=3), "connect"),
    ],
)
def test_what_runs_is_left_alone(plan: Plan, runtime: str) -> None:
    assert within_runtime(plan, runtime) == plan


@pytest.mark.parametrize(
    ("plan", "runtime", "why"),
    [
        (made(FILL), "job", "starts Kubernetes Jobs"),
        (made(FILL, version=3), "connect", "row ids of a format v3 table"),
        (made(TIDY, version=3), "connect", "row ids of a format v3 table"),
        (made(SCAN, version=3), "connect", "manifests of a format v3 table"),
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
    found = within_runtime(made(COMMIT, upkeep=(COMMIT, KEEP, TIDY), version=3), "connect")
    assert not found.is_blocked
    assert found.upkeep == (COMMIT, KEEP)
    assert [f.severity for f in found.findings] == [Severity.WARNING]


def test_over_connect_nothing_is_spliced_and_the_plan_says_what_that_costs() -> None:
    ways = (SPLICED, DELETES)
    spliced = msgspec.structs.replace(FILL, ways=ways, cost=SPLICED.cost + DELETES.cost)
    assert within_runtime(made(spliced), "local").operations == (spliced,)
    found = within_runtime(made(spliced, upkeep=(spliced,)), "connect")
    (priced,) = found.operations
    assert found.upkeep == (priced,)
    assert [(way.how, way.why) for way in priced.ways] == [(How.REWRITE, "Spark Connect"), (How.REWRITE, "row deletes")]
    assert priced.cost == Cost(files_read=3, bytes_read=150, files_rewritten=3, bytes_rewritten=160)
