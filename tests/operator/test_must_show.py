"""What the operator must show: kubectl apply to Ready, an edit to an altered table, approval by hash, deletion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.errors import TableNotFound
from reconciler.model.table import TableIdent
from tests.kube.cluster import Cluster
from tests.kube.operator import Operator, condition, documents, eventually, table, wait_for

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "specs_examples" / "quickstart"


def columns(lake: IcebergCatalog, name: TableIdent) -> dict[str, str]:
    return {field.name: str(field.type) for field in lake.get_table_spec(name).spec.schema.fields}


def test_quickstart_from_apply_to_ready_and_an_edit_alters_the_table(
    cluster: Cluster, operator: Operator, namespace: str, rest_lake: IcebergCatalog
) -> None:
    for path in sorted(QUICKSTART.glob("*.yaml")):
        for document in documents(path):
            document["metadata"]["namespace"] = namespace
            cluster.apply(document)
    cluster.kubectl("wait", "--for=condition=Ready", "laketables", "--all", "-n", namespace, "--timeout=120s")
    orders = TableIdent((namespace,), "orders")
    assert columns(rest_lake, orders)["order_id"] == "int"

    edited = next(d for d in documents(QUICKSTART / "orders.yaml") if d["metadata"]["name"] == "orders")
    edited["metadata"]["namespace"] = namespace
    edited["spec"]["columns"][0]["type"] = "long"
    edited["spec"]["columns"].append({"name": "note", "type": "string"})
    cluster.apply(edited)
    wait_for(cluster, namespace, "orders", "InSync")
    assert columns(rest_lake, orders)["order_id"] == "long"
    assert columns(rest_lake, orders)["note"] == "string"

    printed = cluster.kubectl("get", "laketables", "-n", namespace).stdout.splitlines()
    assert printed[0].split() == ["NAME", "READY", "PHASE", "CLASS", "REWRITE", "PROGRESS", "DRIFT", "PLAN", "AGE"]
    assert printed[1].split()[:3] == ["customers", "True", "InSync"]


def test_a_destructive_edit_waits_and_exactly_its_hash_releases_it(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    spec = table("orders", namespace, "id long", "note string", "extra string")
    cluster.apply(spec)
    wait_for(cluster, namespace, "orders", "InSync")
    ident = TableIdent((namespace,), "orders")

    del spec["spec"]["columns"][2]
    cluster.apply(spec)
    waiting = wait_for(cluster, namespace, "orders", "AwaitingApproval")
    ready = condition(waiting, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ApprovalRequired")
    assert condition(waiting, "Reconciling")["status"] == condition(waiting, "Stalled")["status"] == "False"
    plan = waiting["status"]["plan"]
    assert plan["class"] == "destructive"
    assert cluster.get("laketableplan", plan["name"], namespace)["spec"]["hash"] == plan["hash"]
    assert "extra" in columns(lake, ident)

    spec["spec"]["approval"] = {"plan": "sha256:" + "0" * 64}
    cluster.apply(spec)
    waiting = wait_for(cluster, namespace, "orders", "AwaitingApproval")
    assert "extra" in columns(lake, ident)

    spec["spec"]["approval"] = {"plan": plan["hash"]}
    cluster.apply(spec)
    wait_for(cluster, namespace, "orders", "InSync")
    assert list(columns(lake, ident)) == ["id", "note"]
    eventually(lambda: cluster.get("laketableplan", plan["name"], namespace)["status"]["phase"] == "Applied")


def test_a_plan_object_approves_too_and_changes_no_more(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    spec = table("orders", namespace, "id long", "extra string")
    cluster.apply(spec)
    wait_for(cluster, namespace, "orders", "InSync")
    del spec["spec"]["columns"][1]
    cluster.apply(spec)
    name = wait_for(cluster, namespace, "orders", "AwaitingApproval")["status"]["plan"]["name"]

    refused = cluster.kubectl(
        *("patch", "laketableplan", name, "-n", namespace, "--type=merge"),
        *("-p", '{"spec": {"approved": true, "hash": "sha256:other"}}'),
        check=False,
    )
    assert "hash never changes" in refused.stderr
    cluster.kubectl(
        "patch", "laketableplan", name, "-n", namespace, "--type=merge", "-p", '{"spec": {"approved": true}}'
    )
    wait_for(cluster, namespace, "orders", "InSync")
    assert list(columns(lake, TableIdent((namespace,), "orders"))) == ["id"]


def test_deleting_the_resource_retains_the_table_and_drop_takes_its_uuid(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    for name, policy in (("kept", "Retain"), ("unapproved", "Drop"), ("dropped", "Drop")):
        spec = table(name, namespace, "id long", reconcile={"deletionPolicy": policy})
        cluster.apply(spec)
        uuid = wait_for(cluster, namespace, name, "InSync")["status"]["table"]["uuid"]
        if name == "dropped":
            cluster.apply({**spec, "spec": {**spec["spec"], "approval": {"drop": uuid}}})
        cluster.kubectl("delete", "laketable", name, "-n", namespace, "--timeout=120s")
    assert columns(lake, TableIdent((namespace,), "kept"))
    assert columns(lake, TableIdent((namespace,), "unapproved"))
    with pytest.raises(TableNotFound):
        lake.get_table_spec(TableIdent((namespace,), "dropped"))
    notes = yaml.safe_load(cluster.kubectl("get", "events.events.k8s.io", "-n", namespace, "-o", "yaml").stdout)
    told = {(e["regarding"]["name"], e["reason"]) for e in notes["items"]}
    assert {("unapproved", "TableRetained"), ("dropped", "TableDropped")} <= told


def drop_approved(cluster: Cluster, spec: dict[str, Any], before: str) -> None:
    """Approve the drop of a table in a phase, take away what its columns are read from, and delete the resource."""
    name, namespace = spec["metadata"]["name"], spec["metadata"]["namespace"]
    uuid = wait_for(cluster, namespace, name, before)["status"]["table"]["uuid"]
    asked = {"reconcile": {"deletionPolicy": "Drop", "mode": "Plan"}, "approval": {"drop": uuid}}
    cluster.apply({**spec, "spec": {**spec["spec"], **asked}})
    eventually(lambda: cluster.get("lt", name, namespace)["metadata"]["finalizers"])
    cluster.kubectl("delete", "configmap", "columns", "-n", namespace, "--ignore-not-found")
    cluster.kubectl("delete", "laketable", name, "-n", namespace, "--timeout=60s")


def test_drop_needs_no_columns_that_can_be_read(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    columns = {"columns.yaml": "- {name: id, type: long}"}
    named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "columns", "namespace": namespace}}
    spec = table("orders", namespace)
    spec["spec"] = {"schemaFrom": {"configMap": {"name": "columns"}}}
    cluster.apply({**named, "data": columns}, spec)
    drop_approved(cluster, spec, "InSync")
    with pytest.raises(TableNotFound):
        lake.get_table_spec(TableIdent((namespace,), "orders"))


def test_drop_finds_a_table_that_is_still_to_be_renamed(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    spec = table("orders", namespace, "id long")
    cluster.apply(spec)
    wait_for(cluster, namespace, "orders", "InSync")
    spec["spec"] |= {
        "identifier": f"{namespace}.sales",
        "renamedFrom": f"{namespace}.orders",
        "reconcile": {"mode": "Plan"},
    }
    cluster.apply(spec)
    drop_approved(cluster, spec, "Planned")
    with pytest.raises(TableNotFound):
        lake.get_table_spec(TableIdent((namespace,), "orders"))
