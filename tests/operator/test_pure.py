"""The operator's pure parts: conditions, patches, the gate, policies, the store, the status."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.errors import InvalidInput
from reconciler.model.manifest.table import Reconcile
from reconciler.model.table import TableIdent
from reconciler.operator.conditions import merge_patch, print_conditions, standing_conditions
from reconciler.operator.gate import gate
from reconciler.operator.objects import Json, Key
from reconciler.operator.plan_objects import plan_name
from reconciler.operator.policies import policies_for
from reconciler.operator.reasons import Reason
from reconciler.operator.status import Found, Running, short_size, table_status
from reconciler.operator.store import Store, plan_entry
from reconciler.plan.events import Progress
from reconciler.plan.operations import Finding, Operation, OperationClass, OperationKind, Plan, Severity
from reconciler.plan.policy import Decision, Outcome

ORDERS = TableIdent(("sales",), "orders")


# ---------------------------------------------------------------- conditions and patches


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    first = print_conditions(standing_conditions(Reason.IN_SYNC, ""), None, 1, "t1")
    again = print_conditions(standing_conditions(Reason.IN_SYNC, ""), first, 1, "t2")
    assert again == first
    waits = print_conditions(standing_conditions(Reason.APPROVAL_REQUIRED, "why"), first, 2, "t3")
    times = {c["type"]: c["lastTransitionTime"] for c in waits if isinstance(c, dict)}
    assert times == {"Ready": "t3", "Reconciling": "t1", "Stalled": "t1"}


def test_a_message_is_bounded_and_on_one_line() -> None:
    (ready, *_) = print_conditions(standing_conditions(Reason.DENIED, "a\n\x1b[31m" + "é" * 5000), None, 1, "t")
    assert isinstance(ready, dict)
    message = str(ready["message"])
    assert len(message) <= 1024
    assert message.isprintable()


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1, "b": 2}, {"a": 1}, {"b": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}),
        ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
    ],
)
def test_the_patch_is_the_smallest(before: Any, after: Any, patch: Any) -> None:
    assert merge_patch(before, after) == patch


def test_sizes_are_printed_as_kubernetes_does() -> None:
    assert [short_size(n) for n in (0, 12, 2048, 412 * 2**30, 1536 * 2**40)] == ["-", "12", "2Ki", "412Gi", "1.5Pi"]


# ---------------------------------------------------------------- the gate


def plan_of(operation_class: OperationClass = OperationClass.METADATA_ONLY, *, blocked: bool = False) -> Plan:
    operation = Operation(id="1", kind=OperationKind.COMMIT, summary="s", operation_class=operation_class)
    findings = (Finding(code="LK101", severity=Severity.ERROR, message="no"),) if blocked else ()
    return Plan(
        table=ORDERS,
        owner="o",
        catalog="c",
        base=None,
        operations=(operation,),
        findings=findings,
        hash="sha256:" + "a" * 64,
    )


ALLOW, WAIT, DENY = (
    Decision(outcome=o, reasons=("why",)) for o in (Outcome.ALLOW, Outcome.NEEDS_APPROVAL, Outcome.DENY)
)
WINDOW = Decision(outcome=Outcome.DENY, reasons=("LakePolicy p has no open window now; the next one opens at 22:00.",))


@pytest.mark.parametrize(
    ("settings", "decision", "drifted", "approved", "reason"),
    [
        pytest.param({}, ALLOW, False, False, None, id="allowed"),
        pytest.param({}, WAIT, False, False, Reason.APPROVAL_REQUIRED, id="waits"),
        pytest.param({}, DENY, False, True, Reason.DENIED, id="a denial beats an approval"),
        pytest.param({}, WINDOW, False, False, Reason.OUTSIDE_WINDOW, id="only the window is closed"),
        pytest.param({"mode": "Plan"}, ALLOW, False, False, Reason.PLAN_ONLY, id="plan only"),
        pytest.param({"mode": "Plan"}, DENY, False, False, Reason.DENIED, id="plan only says what is denied"),
        pytest.param({"mode": "Observe"}, DENY, False, False, Reason.OBSERVE_ONLY, id="observe only"),
        pytest.param({}, ALLOW, True, False, Reason.DRIFTED, id="drift is reported"),
        pytest.param({}, ALLOW, True, True, None, id="approved drift is brought back"),
        pytest.param({"onDrift": "Revert"}, ALLOW, True, False, None, id="drift is reverted"),
        pytest.param({"onDrift": "Revert"}, WAIT, True, False, Reason.APPROVAL_REQUIRED, id="if it may be"),
    ],
)
def test_the_gate(
    settings: dict[str, str], decision: Decision, drifted: bool, approved: bool, reason: Reason | None
) -> None:
    found = gate(Reconcile.model_validate(settings), plan_of(), decision, has_drifted=drifted, is_approved=approved)
    assert found.reason is reason


# ---------------------------------------------------------------- policies and plan names


def policy(name: str, namespace: str, **spec: Any) -> Any:
    return {
        "apiVersion": "laketable.dev/v1alpha1",
        "kind": "LakePolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def test_which_policies_hold() -> None:
    raws = [
        policy("everywhere", "system", autoApprove=["metadata-only"]),
        policy("gold", "system", namespaceSelector={"matchLabels": {"tier": "gold"}}),
        policy("own", "sales"),
        policy("others", "hr"),
    ]

    def names(namespace: str, **labels: str) -> list[str]:
        return [p.name for p in policies_for(raws, namespace, labels, "system")]

    assert names("sales") == ["everywhere", "own"]
    assert names("sales", tier="gold") == ["everywhere", "gold", "own"]
    assert names("else") == ["everywhere"]
    assert [p.name for p in policies_for([], "sales", {}, "system")] == ["default"]


def test_a_policy_that_cannot_be_read_allows_nothing() -> None:
    with pytest.raises(InvalidInput, match="broken"):
        policies_for([policy("broken", "system", deny={})], "sales", {}, "system")


def test_a_tenants_broken_policy_stops_nobody_else() -> None:
    raws = [policy("broken", "hr", deny={}), policy("own", "sales")]
    assert [p.name for p in policies_for(raws, "sales", {}, "system")] == ["own"]
    with pytest.raises(InvalidInput, match="broken"):
        policies_for(raws, "hr", {}, "system")


def test_plan_names_are_stable_and_short() -> None:
    name = plan_name("t" * 63, "sha256:" + "ab" * 32, 3)
    assert name == f"{'t' * 40}-ababababab-3"
    assert plan_name("orders", "sha256:" + "ab" * 32) == "orders-ababababab"


# ---------------------------------------------------------------- the store


def lake_table(name: str, created: str, **spec: Any) -> Any:
    metadata = {"name": name, "namespace": "sales", "uid": name, "generation": 1, "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"identifier": "sales.orders", "catalogRef": {"name": "lake"}, **spec}}


def test_the_oldest_claim_wins_and_the_next_follows() -> None:
    store = Store()
    old, young = Key("LakeTable", "sales", "old"), Key("LakeTable", "sales", "young")
    store.put_table(lake_table("young", "2026-01-02T00:00:00Z"))
    assert store.rival(young) is None
    store.put_table(lake_table("old", "2026-01-01T00:00:00Z"))
    rival = store.rival(young)
    assert rival is not None
    assert rival.key == old
    assert store.rival(old) is None
    assert store.drop_table(old) == [young]
    assert store.rival(young) is None


def test_a_claim_moves_with_the_spec_and_our_own_status_is_no_news() -> None:
    store = Store()
    first = lake_table("a", "2026-01-01T00:00:00Z")
    assert store.put_table(first)
    assert not store.put_table({**first, "status": {"phase": "InSync"}})
    store.put_table(lake_table("b", "2026-01-02T00:00:00Z"))
    moved = lake_table("a", "2026-01-01T00:00:00Z", identifier="sales.other")
    moved["metadata"]["generation"] = 2
    assert store.put_table(moved)
    assert store.rival(Key("LakeTable", "sales", "b")) is None


def test_of_plans_made_in_one_second_the_one_for_the_newer_spec_is_the_newer() -> None:
    store = Store()
    for name, generation in (("orders-b", 1), ("orders-a", 2)):
        metadata: Json = {"name": name, "namespace": "sales", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        store.put_plan(
            plan_entry({"metadata": metadata, "spec": {"tableRef": {"name": "orders", "generation": generation}}})
        )
    assert [plan.key.name for plan in store.plans_of(Key("LakeTable", "sales", "orders"))] == ["orders-b", "orders-a"]


@pytest.mark.parametrize("reference", [{"name": "lake"}, {}], ids=["named", "the only one"])
def test_views_are_found_by_the_tables_they_read_whichever_way_those_name_their_catalog(reference: Json) -> None:
    store, view = Store(), Key("LakeTable", "sales", "totals")
    store.put_catalog({"metadata": {"name": "lake", "namespace": "sales", "uid": "c", "generation": 1}})
    store.put_table(lake_table("orders", "2026-01-01T00:00:00Z", catalogRef=reference))
    store.put_reads(view, frozenset({("sales", "lake", "sales.orders")}))
    assert store.readers_of(Key("LakeTable", "sales", "orders")) == [view]
    assert [source.key.name for source in store.sources_of(view)] == ["orders"]
    store.put_catalog({"metadata": {"name": "other", "namespace": "sales", "uid": "d", "generation": 1}})
    assert store.readers_of(Key("LakeTable", "sales", "orders")) == ([view] if reference else [])
    assert bool(store.sources_of(view)) == bool(reference)


@pytest.mark.parametrize(
    ("status", "is_settled"),
    [
        ({}, False),
        ({"observedGeneration": -1}, False),
        ({"observedGeneration": 0, "phase": "InSync"}, False),
        ({"observedGeneration": 1, "phase": "InSync"}, True),
        ({"observedGeneration": 1, "phase": "Applying"}, False),
        ({"observedGeneration": 1, "phase": "Retrying"}, False),
        ({"observedGeneration": 1, "phase": "AwaitingApproval"}, True),
        ({"observedGeneration": 1, "phase": "Stalled"}, True),
    ],
)
def test_a_table_is_settled_once_its_newest_spec_was_looked_at_and_nothing_is_under_way(
    status: Json, is_settled: bool
) -> None:
    store = Store()
    store.put_table({**lake_table("orders", "2026-01-01T00:00:00Z"), "status": status})
    assert store.tables[Key("LakeTable", "sales", "orders")].is_settled == is_settled


def test_a_late_event_does_not_undo_what_is_known() -> None:
    store = Store()
    old, new = lake_table("a", "2026-01-01T00:00:00Z"), lake_table("a", "2026-01-01T00:00:00Z", identifier="sales.new")
    old["metadata"]["resourceVersion"], new["metadata"]["resourceVersion"] = "9", "10"
    new["metadata"]["generation"] = 2
    assert store.put_table(new)
    assert not store.put_table(old)
    assert store.tables[Key("LakeTable", "sales", "a")].identifier == "sales.new"
    # A resource made anew is another one, whatever its version.
    again = lake_table("a", "2026-01-02T00:00:00Z")
    again["metadata"] |= {"uid": "b", "resourceVersion": "3"}
    assert store.put_table(again)


# ---------------------------------------------------------------- the status


@pytest.mark.parametrize(("age", "seconds"), [(0, 2.0), (20, 2.0), (60, 6.0), (7200, 30.0)])
def test_the_longer_a_job_runs_the_less_often_it_is_looked_at(age: int, seconds: float) -> None:
    assert Running(operation="op", job="j", age_seconds=age).look_again_seconds == seconds


def test_a_running_operation_says_how_far_it_is() -> None:
    progress = Progress(
        table=ORDERS,
        operation="op",
        step="write",
        chunks=3,
        all_chunks=12,
        bytes=3 << 30,
        all_bytes=12 << 30,
        percent=25,
        eta_seconds=100,
    )
    found = Found(
        reason=Reason.JOB_RUNNING, running=Running(operation="op", job="sales/lt-orders-op", progress=progress)
    )
    raw: Any = {"metadata": {"name": "orders", "generation": 4}, "status": {"table": {"uuid": "u"}, "drift": 0}}
    status = table_status(found, raw, 1_800_000_030_000)
    assert status["operation"] == {
        "id": "op",
        "jobRef": "sales/lt-orders-op",
        "step": "write",
        "percent": 25,
        "progress": "25%",
        "chunks": "3/12",
        "bytes": "3Gi/12Gi",
        "eta": "2027-01-15T08:02:00Z",
    }
    assert status["observedGeneration"] == 4
    assert status["phase"] == "Applying"
    # What this reconcile did not look at stays as it was.
    assert status["table"] == {"uuid": "u"}
    again = table_status(found, {**raw, "status": status}, 1_800_000_031_000)
    assert merge_patch(status, again) == {}
