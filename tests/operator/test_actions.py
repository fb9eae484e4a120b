"""Work on rows leaves the reconcile: a job is only noted, and a scan that a commit rests on is waited for."""

from __future__ import annotations

import pytest

from reconciler.model.table import Desired, Observed, TableIdent, TableSpec, TableVersion, View
from reconciler.model.types import StructType
from reconciler.operator.actions import Deferred, JobNeeded
from reconciler.operator.upkeep import due, is_stale, within_windows
from reconciler.plan.events import Validated
from reconciler.plan.operations import Backfill, Operation, OperationClass, OperationKind, Plan, Refresh
from reconciler.plan.policy import Policy
from reconciler.plan.row_work import Validate
from reconciler.plan.windows import Window

ORDERS = TableIdent(("sales",), "orders")
SCAN = Operation(
    id="scan", kind=OperationKind.VALIDATE, summary="s", operation_class=OperationClass.AUDIT, work=Validate()
)
FILL = Operation(
    id="fill",
    kind=OperationKind.BACKFILL,
    summary="s",
    operation_class=OperationClass.REWRITE,
    work=Backfill(columns=()),
)
REFRESH = Operation(
    id="refresh",
    kind=OperationKind.REFRESH,
    summary="s",
    operation_class=OperationClass.REWRITE,
    work=Refresh(query="q", text="t", pieces=(), columns=(), sources=()),
)


def plan(*operations: Operation, upkeep: tuple[Operation, ...] = ()) -> Plan:
    return Plan(table=ORDERS, owner="o", catalog="c", base=None, operations=operations, upkeep=upkeep)


def test_work_on_rows_is_noted_and_not_done() -> None:
    deferred = Deferred()
    assert list(deferred.run(plan(FILL))) == []
    assert deferred.plan == plan(FILL)


def test_a_scan_is_asked_for_once_and_its_finding_counts_once() -> None:
    deferred = Deferred()
    with pytest.raises(JobNeeded) as needed:
        deferred.run(plan(SCAN))
    assert needed.value.plan == plan(SCAN)
    deferred.told = Validated(table=ORDERS, operation="scan", summary="no NULLs")
    assert [event.operation for event in deferred.run(plan(SCAN)) if isinstance(event, Validated)] == ["scan"]
    with pytest.raises(JobNeeded):
        deferred.run(plan(SCAN))


def test_another_scans_finding_does_not_count() -> None:
    deferred = Deferred(told=Validated(table=ORDERS, operation="another", summary="no NULLs"))
    with pytest.raises(JobNeeded):
        deferred.run(plan(SCAN))


# ---------------------------------------------------------------- upkeep

HOUR = 3_600_000
NOON = 12 * HOUR


def view(**when: object) -> Desired:
    made = View(query="SELECT 1", **when)  # type: ignore[arg-type]
    return Desired(ident=ORDERS, owner="o", columns=StructType(()), view=made)


def seen(refreshed_ms: int) -> Observed:
    version = TableVersion(uuid="u", schema_id=0, spec_id=0, sort_order_id=0, last_field_id=1, snapshot_id=7)
    spec = TableSpec(ident=ORDERS, schema=StructType(()))
    return Observed(spec=spec, version=version, snapshot_times={7: refreshed_ms})


@pytest.mark.parametrize(
    ("desired", "refreshed_ms", "is_due"),
    [
        pytest.param(view(), 0, False, id="nothing said: on request"),
        pytest.param(view(on_source_change=True), NOON, True, id="on source change"),
        pytest.param(view(max_staleness_ms=HOUR), NOON - HOUR // 2, False, id="fresh enough"),
        pytest.param(view(max_staleness_ms=HOUR), NOON - 2 * HOUR, True, id="too old"),
        pytest.param(view(schedule="0 11 * * *"), NOON - 2 * HOUR, True, id="ticked since"),
        pytest.param(view(schedule="0 11 * * *"), NOON - HOUR // 2, False, id="not since"),
    ],
)
def test_a_view_is_refreshed_when_its_spec_says_so(desired: Desired, refreshed_ms: int, is_due: bool) -> None:
    made = plan(upkeep=(REFRESH,))
    assert bool(due(made, desired, seen(refreshed_ms), now_ms=NOON)) is is_due
    assert is_stale(made)


def test_upkeep_waits_for_the_plan_and_costly_upkeep_for_a_request() -> None:
    both = plan(FILL, upkeep=(REFRESH,))
    assert due(both, view(on_source_change=True), seen(0), now_ms=NOON) == ()
    assert due(plan(upkeep=(FILL,)), view(on_source_change=True), seen(0), now_ms=NOON) == ()
    assert not is_stale(plan())


NIGHT = Policy(name="night", windows=(Window.parse(days=None, start="22:00", end="23:00", time_zone="UTC"),))
NOON, TEN_AT_NIGHT = 12 * 3_600_000, 22 * 3_600_000
TAG = Operation(
    id="tag", kind=OperationKind.COMMIT, summary="s", operation_class=OperationClass.METADATA_ONLY, work=None
)


def test_upkeep_of_rows_keeps_to_the_windows_of_the_policies() -> None:
    assert within_windows((REFRESH, TAG), (NIGHT,), TEN_AT_NIGHT) == ((REFRESH, TAG), "")
    assert within_windows((REFRESH, TAG), (Policy(name="none"),), NOON) == ((REFRESH, TAG), "")
    allowed, why = within_windows((REFRESH, TAG), (Policy(name="none"), NIGHT), NOON)
    assert allowed == (TAG,)
    assert "LakePolicy night" in why
    assert "22:00" in why
