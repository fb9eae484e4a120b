"""How a LakeTable is reconciled: drift, modes, suspension, rivals, tenants, bad input, and when nothing is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from reconciler.catalogs.connection import explicit
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.diff.changes import AddColumn, SetProperty
from reconciler.model.table import TableIdent
from reconciler.model.types import Field
from tests.kube.cluster import Cluster
from tests.kube.operator import Operator, catalog, condition, eventually, policy, table, wait_for
from tests.operator.test_jobs import JOB, fill, with_computed


def columns(lake: IcebergCatalog, ident: TableIdent) -> list[str]:
    return [field.name for field in lake.get_table_spec(ident).spec.schema.fields]


def patch(cluster: Cluster, namespace: str, name: str, spec: dict[str, Any]) -> None:
    cluster.kubectl("patch", "laketable", name, "-n", namespace, "--type=merge", "-p", json.dumps({"spec": spec}))


def reconcile_now(cluster: Cluster, namespace: str, name: str, value: str) -> None:
    cluster.kubectl("annotate", "--overwrite", "lt", name, "-n", namespace, f"laketable.dev/reconcile-now={value}")


@pytest.fixture
def orders(cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog) -> TableIdent:
    cluster.apply(table("orders", namespace, "id long", properties={"write.metadata.compression-codec": "gzip"}))
    wait_for(cluster, namespace, "orders", "InSync")
    return TableIdent((namespace,), "orders")


def vandalise(lake: IcebergCatalog, ident: TableIdent) -> None:
    """Change a managed property behind the operator's back."""
    base = lake.get_table_spec(ident)
    change = SetProperty(key="write.metadata.compression-codec", before="gzip", after="none")
    lake.apply(ident, base.version, [change])


def codec(lake: IcebergCatalog, ident: TableIdent) -> str | None:
    return lake.get_table_spec(ident).spec.properties.get("write.metadata.compression-codec")


def test_events_are_told_of_a_long_name_too(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    name = f"{'o' * 39}-rders"  # what an event keeps of it ends in a dash
    cluster.apply(table(name, namespace, "id long"))
    told = eventually(lambda: _reasons(cluster, namespace))
    assert {"PlanMade", "Applied"} <= told


def _reasons(cluster: Cluster, namespace: str) -> set[str]:
    told = {event["reason"] for event in cluster.list("events.events.k8s.io", namespace)}
    assert "Applied" in told
    return told


def test_drift_is_reported_and_left_alone_until_the_plan_is_approved(
    cluster: Cluster, namespace: str, lake: IcebergCatalog, orders: TableIdent
) -> None:
    vandalise(lake, orders)
    reconcile_now(cluster, namespace, "orders", "1")
    drifted = eventually(lambda: _with_phase(cluster, namespace, "Drifted"))
    assert condition(drifted, "Drifted")["status"] == "True"
    assert drifted["status"]["drift"] == 1
    assert codec(lake, orders) == "none"
    name = drifted["status"]["plan"]["name"]
    cluster.kubectl("patch", "ltp", name, "-n", namespace, "--type=merge", "-p", '{"spec": {"approved": true}}')
    healed = eventually(lambda: _with_phase(cluster, namespace, "InSync"))
    assert condition(healed, "Drifted")["status"] == "False"
    assert codec(lake, orders) == "gzip"


def test_drift_is_proposed_for_adoption_and_the_proposal_settles_it(
    cluster: Cluster, namespace: str, lake: IcebergCatalog, orders: TableIdent
) -> None:
    patch(cluster, namespace, "orders", {"reconcile": {"onDrift": "ProposeAdopt"}})
    wait_for(cluster, namespace, "orders", "InSync")
    vandalise(lake, orders)
    reconcile_now(cluster, namespace, "orders", "1")
    drifted = eventually(lambda: _with_phase(cluster, namespace, "Drifted"))
    plan = cluster.get("ltp", drifted["status"]["plan"]["name"], namespace)
    proposal = yaml.safe_load(plan["spec"]["adoption"])
    assert proposal == {"spec": {"properties": {"write.metadata.compression-codec": "none"}}}
    patch(cluster, namespace, "orders", proposal["spec"])
    healed = wait_for(cluster, namespace, "orders", "InSync")
    assert condition(healed, "Drifted")["status"] == "False"
    assert codec(lake, orders) == "none"


def test_drift_is_reverted_where_the_spec_says_so(
    cluster: Cluster, namespace: str, lake: IcebergCatalog, orders: TableIdent
) -> None:
    patch(cluster, namespace, "orders", {"reconcile": {"onDrift": "Revert"}})
    wait_for(cluster, namespace, "orders", "InSync")
    vandalise(lake, orders)
    reconcile_now(cluster, namespace, "orders", "1")
    eventually(lambda: codec(lake, orders) == "gzip")


def test_the_interval_finds_drift_without_an_event(
    cluster: Cluster, namespace: str, lake: IcebergCatalog, orders: TableIdent
) -> None:
    patch(cluster, namespace, "orders", {"reconcile": {"onDrift": "Revert", "interval": "5s"}})
    wait_for(cluster, namespace, "orders", "InSync")
    vandalise(lake, orders)
    eventually(lambda: codec(lake, orders) == "gzip")


@pytest.mark.parametrize(("mode", "phase"), [("Observe", "Observed"), ("Plan", "Planned")])
def test_other_modes_change_nothing(
    cluster: Cluster, namespace: str, lake: IcebergCatalog, orders: TableIdent, mode: str, phase: str
) -> None:
    spec = table("orders", namespace, "id long", "note string", reconcile={"mode": mode})
    cluster.apply(spec)
    found = wait_for(cluster, namespace, "orders", phase)
    assert condition(found, "Ready")["status"] == "False"
    assert columns(lake, orders) == ["id"]
    open_plans = [p for p in cluster.list("ltp", namespace) if p.get("status", {}).get("phase") != "Applied"]
    assert len(open_plans) == (1 if mode == "Plan" else 0)
    patch(cluster, namespace, "orders", {"reconcile": {"mode": "Apply"}})
    wait_for(cluster, namespace, "orders", "InSync")
    assert columns(lake, orders) == ["id", "note"]


def test_a_suspended_table_is_left_alone(
    cluster: Cluster, namespace: str, lake: IcebergCatalog, orders: TableIdent
) -> None:
    cluster.apply(table("orders", namespace, "id long", "note string", reconcile={"suspend": True}))
    wait_for(cluster, namespace, "orders", "Suspended")
    assert columns(lake, orders) == ["id"]
    patch(cluster, namespace, "orders", {"reconcile": {"suspend": False}})
    wait_for(cluster, namespace, "orders", "InSync")
    assert columns(lake, orders) == ["id", "note"]


def test_a_plan_that_is_overtaken_says_so(cluster: Cluster, namespace: str, orders: TableIdent) -> None:
    cluster.apply(table("orders", namespace, "id long", "a long", reconcile={"mode": "Plan"}))
    first = wait_for(cluster, namespace, "orders", "Planned")["status"]["plan"]
    cluster.apply(table("orders", namespace, "id long", "b long", reconcile={"mode": "Plan"}))
    second = wait_for(cluster, namespace, "orders", "Planned")["status"]["plan"]
    assert second["hash"] != first["hash"]
    assert cluster.get("ltp", first["name"], namespace)["status"]["phase"] == "Superseded"


def test_of_two_resources_for_one_table_the_oldest_wins(
    cluster: Cluster, namespace: str, lake: IcebergCatalog, orders: TableIdent
) -> None:
    cluster.apply(table("second", namespace, "id long", "mine string", identifier=str(orders)))
    refused = wait_for(cluster, namespace, "second", "Stalled")
    assert condition(refused, "Ready")["reason"] == "OwnershipConflict"
    assert f"{namespace}/orders" in condition(refused, "Ready")["message"]
    assert columns(lake, orders) == ["id"]
    cluster.kubectl("delete", "laketable", "orders", "-n", namespace)
    # The table remembers its owner: the second has to say that it takes it over.
    found = eventually(lambda: _says(cluster, namespace, "second", "owner"))
    assert condition(found, "Ready")["reason"] in ("OwnershipConflict", "Denied")
    uuid = lake.get_table_spec(orders).version.uuid
    cluster.kubectl("annotate", "lt", "second", "-n", namespace, f"laketable.dev/take-ownership={uuid}")
    wait_for(cluster, namespace, "second", "InSync")
    assert columns(lake, orders) == ["id", "mine"]


def test_what_the_schema_cannot_refuse_is_refused_in_the_status(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    cluster.apply(table("wrong", namespace, "id long", "id string"))
    found = wait_for(cluster, namespace, "wrong", "Invalid")
    stalled = condition(found, "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "InvalidInput")
    assert "spec.columns[1].name" in stalled["message"]
    cluster.apply(table("wrong", namespace, "id long", "name string"))
    wait_for(cluster, namespace, "wrong", "InSync")


def test_another_identifier_without_renamed_from_makes_no_second_table(
    cluster: Cluster, namespace: str, lake: IcebergCatalog, orders: TableIdent
) -> None:
    patch(cluster, namespace, "orders", {"identifier": f"{namespace}.other"})
    found = wait_for(cluster, namespace, "orders", "Invalid")
    assert "renamedFrom" in condition(found, "Ready")["message"]
    assert lake.list_tables((namespace,)) == (orders,)


def test_another_catalog_without_the_table_makes_no_second_table(
    cluster: Cluster, namespace: str, lake: IcebergCatalog, orders: TableIdent, sqlite_catalog: dict[str, str]
) -> None:
    patch(cluster, namespace, "orders", {"catalogRef": {"name": "lake"}})
    wait_for(cluster, namespace, "orders", "InSync")
    cluster.apply(catalog("second", namespace, sqlite_catalog))
    patch(cluster, namespace, "orders", {"catalogRef": {"name": "second"}})
    found = wait_for(cluster, namespace, "orders", "Invalid")
    assert f"LakeCatalog {namespace}/second does not hold" in condition(found, "Ready")["message"]
    assert IcebergCatalog(explicit("second", sqlite_catalog)).list_tables() == ()
    patch(cluster, namespace, "orders", {"catalogRef": {"name": "lake"}})
    wait_for(cluster, namespace, "orders", "InSync")


def test_without_its_catalog_a_table_waits_and_goes_on_by_itself(
    cluster: Cluster, operator: Operator, namespace: str, sqlite_catalog: dict[str, str]
) -> None:
    cluster.apply(table("early", namespace, "id long", catalogRef={"name": "later"}))
    found = wait_for(cluster, namespace, "early", "Stalled")
    assert condition(found, "Ready")["reason"] == "CatalogNotFound"
    cluster.apply(catalog("later", namespace, sqlite_catalog))
    wait_for(cluster, namespace, "early", "InSync")


def test_another_namespace_may_use_a_catalog_only_as_it_was_granted(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog, sqlite_catalog: dict[str, str]
) -> None:
    tenant = cluster.create_namespace(f"{namespace}-tenant")
    reference = {"name": "lake", "namespace": namespace}
    spec = table("orders", tenant, "id long", catalogRef=reference, identifier=f"{tenant}.orders")
    cluster.apply(spec)
    refused = wait_for(cluster, tenant, "orders", "Stalled")
    assert condition(refused, "Ready")["reason"] == "AccessDenied"
    assert lake.list_tables() is not None
    assert (tenant,) not in lake.list_namespaces()

    grant = {"namespaces": [tenant], "catalogNamespaces": [tenant], "verbs": ["plan"]}
    cluster.apply(catalog("lake", namespace, sqlite_catalog, access=[grant]))
    still = eventually(lambda: _says(cluster, tenant, "orders", "apply"))
    assert condition(still, "Ready")["reason"] == "AccessDenied"
    cluster.apply(catalog("lake", namespace, sqlite_catalog, access=[{**grant, "verbs": ["apply"]}]))
    wait_for(cluster, tenant, "orders", "InSync")


def test_a_policy_denies_whatever_is_approved(
    cluster: Cluster, namespace: str, lake: IcebergCatalog, orders: TableIdent
) -> None:
    cluster.apply(policy("no-new-columns", namespace, deny={"changes": ["add-column"], "reason": "Frozen."}))
    cluster.apply(table("orders", namespace, "id long", "note string"))
    denied = wait_for(cluster, namespace, "orders", "Denied")
    assert "Frozen." in condition(denied, "Ready")["message"]
    cluster.kubectl("delete", "lakepolicy", "no-new-columns", "-n", namespace)
    # Without a policy that speaks of approval, the operator's default lets the new column pass.
    wait_for(cluster, namespace, "orders", "InSync")


def test_a_table_that_somebody_else_extends_is_not_drift(
    cluster: Cluster, namespace: str, lake: IcebergCatalog, orders: TableIdent
) -> None:
    base = lake.get_table_spec(orders)
    lake.apply(
        orders,
        base.version,
        [AddColumn(parent=(), field=Field(name="foreign", type="int", required=False), after=None)],
    )
    reconcile_now(cluster, namespace, "orders", "1")
    found = wait_for(cluster, namespace, "orders", "InSync")
    assert condition(found, "Drifted")["status"] == "False"


def _with_phase(cluster: Cluster, namespace: str, phase: str) -> dict[str, Any] | None:
    found = cluster.get("laketable", "orders", namespace)
    return found if found["status"].get("phase") == phase else None


def _says(cluster: Cluster, namespace: str, name: str, word: str) -> dict[str, Any] | None:
    found = cluster.get("laketable", name, namespace)
    return found if word in condition(found, "Ready").get("message", "") else None


def test_finished_plans_are_kept_up_to_the_limit(
    cluster: Cluster, namespace: str, lake: IcebergCatalog, orders: TableIdent
) -> None:
    limit = 10
    names = [f"c{number} long" for number in range(limit + 2)]
    for number in range(1, len(names) + 1):
        cluster.apply(table("orders", namespace, "id long", *names[:number]))
        wait_for(cluster, namespace, "orders", "InSync")
    eventually(lambda: len(cluster.list("ltp", namespace)) == limit)
    kept = {plan["spec"]["hash"] for plan in cluster.list("ltp", namespace)}
    assert cluster.get("lt", "orders", namespace)["status"]["lastApplied"]["hash"] in kept


def test_a_view_waits_for_its_source_and_goes_on_by_itself(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    view = {"query": f"SELECT count(*) AS n FROM `{namespace}`.later"}
    spec = table("totals", namespace, materializedView=view, reconcile={"mode": "Plan"})
    del spec["spec"]["columns"]
    cluster.apply(spec)
    waiting = wait_for(cluster, namespace, "totals", "Waiting")
    assert condition(waiting, "Ready")["reason"] == "SourceNotReady"
    assert condition(waiting, "Reconciling")["status"] == "True"
    cluster.apply(table("later", namespace, "id long"))
    wait_for(cluster, namespace, "totals", "Planned")


def test_a_view_over_another_tenants_table_is_refused_before_it_is_read(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog, sqlite_catalog: dict[str, str]
) -> None:
    cluster.apply(table("orders", namespace, "id long"))
    wait_for(cluster, namespace, "orders", "InSync")
    tenant = cluster.create_namespace(f"{namespace}-tenant")
    own = {"namespaces": [tenant], "catalogNamespaces": [tenant], "verbs": ["apply"]}
    everything = {"namespaces": [namespace], "catalogNamespaces": ["*"], "verbs": ["drop"]}
    cluster.apply(catalog("lake", namespace, sqlite_catalog, access=[everything, own]))
    reference = {"name": "lake", "namespace": namespace}
    view = {"query": f"SELECT count(*) AS n FROM `{namespace}`.orders"}
    spec = table("spy", tenant, materializedView=view, catalogRef=reference, identifier=f"{tenant}.spy")
    del spec["spec"]["columns"]
    cluster.apply(spec)
    refused = wait_for(cluster, tenant, "spy", "Stalled")
    assert condition(refused, "Ready")["reason"] == "AccessDenied"
    assert "read" in condition(refused, "Ready")["message"]
    assert not cluster.list("ltp", tenant)
    # The control: with the right to read, the same view is made, and its rows are asked for.
    read = {"namespaces": [tenant], "catalogNamespaces": [namespace], "verbs": ["read"]}
    cluster.apply(catalog("lake", namespace, sqlite_catalog, access=[everything, own, read]))
    wait_for(cluster, tenant, "spy", "Applying")


def test_an_approved_plan_that_became_dearer_is_stale_and_waits_again(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog, sqlite_catalog: dict[str, str]
) -> None:
    cluster.apply(catalog("lake", namespace, sqlite_catalog, runtime={**JOB, "image": "laketable:no-node-has-it"}))
    cluster.apply(policy("dear", namespace, autoApprove=["metadata-only"], budgets={"maxCostDriftPercent": 50}))
    spec = table("orders", namespace, "id long", "amount long")
    cluster.apply(spec)
    wait_for(cluster, namespace, "orders", "InSync")
    ident = TableIdent((namespace,), "orders")
    fill(lake, ident, 10)
    cluster.apply(with_computed(spec))
    first = wait_for(cluster, namespace, "orders", "AwaitingApproval")["status"]["plan"]
    fill(lake, ident, 10_000, "much-more")
    approved = '{"spec": {"approved": true}}'
    cluster.kubectl("patch", "ltp", first["name"], "-n", namespace, "--type=merge", "-p", approved)
    eventually(lambda: cluster.get("ltp", first["name"], namespace)["status"]["phase"] == "Stale")
    second = eventually(lambda: _newer_plan(cluster, namespace, first["name"]))
    assert second["hash"] == first["hash"]
    assert second["bytesToRewrite"] > first["bytesToRewrite"]
    assert columns(lake, ident) == ["id", "amount"]
    cluster.kubectl("patch", "ltp", second["name"], "-n", namespace, "--type=merge", "-p", approved)
    eventually(lambda: columns(lake, ident) == ["id", "amount", "double"])


def _newer_plan(cluster: Cluster, namespace: str, name: str) -> dict[str, Any] | None:
    status = cluster.get("laketable", "orders", namespace)["status"]
    plan: dict[str, Any] = status["plan"]
    return plan if status["phase"] == "AwaitingApproval" and plan["name"] != name else None
