"""The CRDs on a real API server: installed, explained, wide tables accepted, what cannot be refused."""

from __future__ import annotations

import asyncio
import copy
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.model.crds import KINDS
from reconciler.operator.api import ApiConflict, KubeApi
from reconciler.operator.connection import connect
from reconciler.operator.objects import PLANS
from reconciler.operator.plans import set_phase
from reconciler.operator.store import Store, plan_entry
from tests.kube.cluster import Cluster, KubectlError
from tests.kube.operator import catalog, eventually, table

PLAN_HASH = "sha256:" + "a" * 64


@pytest.fixture
def namespace(cluster: Cluster, operator_kubeconfig: object) -> str:
    """Use one namespace that no operator acts in: these tests are about the API server."""
    return cluster.create_namespace("crds")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("laketable.spec.columns.renamedFrom", "former name"),
        ("laketable.spec.reconcile.deletionPolicy", "What deleting this resource does to the table"),
        ("laketable.status.conditions.reason", "documented reasons"),
        ("lakecatalog.spec.access.verbs", "each implies the former"),
        ("lakepolicy.spec.requireApproval", "always waits for approval"),
        ("laketableplan.spec.approved", "approve exactly this plan"),
    ],
)
def test_kubectl_explain_teaches(cluster: Cluster, namespace: str, path: str, said: str) -> None:
    # A CRD is served before it is documented: the API server publishes its OpenAPI a little later.
    eventually(lambda: said in " ".join(cluster.kubectl("explain", path, check=False).stdout.split()))


def test_short_names_and_the_category_list_every_kind(cluster: Cluster, namespace: str) -> None:
    cluster.apply(catalog("lake", namespace, {"type": "rest", "uri": "https://catalog.example"}))
    cluster.apply(table("orders", namespace, "id long"))
    listed = cluster.kubectl("get", "lake", "-n", namespace, "-o", "name").stdout
    assert "lakecatalog.laketable.dev/lake" in listed
    assert "laketable.laketable.dev/orders" in listed
    for kind in KINDS.values():
        cluster.kubectl("get", kind.short, "-n", namespace)
    wide = cluster.kubectl("get", "lt", "-n", namespace, "-o", "wide").stdout.splitlines()[0].split()
    assert wide[-4:] == ["TABLE", "CATALOG", "ROWS", "REASON"]


def test_a_new_resource_is_not_taken_for_a_ready_one(cluster: Cluster, namespace: str) -> None:
    cluster.apply(table("fresh", namespace, "id long"))
    assert cluster.get("laketable", "fresh", namespace)["status"]["observedGeneration"] == -1


def test_5000_columns_by_server_side_apply_and_again_by_another_manager(cluster: Cluster, namespace: str) -> None:
    wide = table("wide", namespace, *(f"column_{number} long" for number in range(5_000)))
    cluster.apply(wide, server_side=True)
    wide["spec"]["columns"].reverse()
    cluster.apply(wide, server_side=True)
    found = cluster.get("laketable", "wide", namespace)["spec"]["columns"]
    assert [column["name"] for column in found] == [column["name"] for column in wide["spec"]["columns"]]


def with_(document: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    place = changed["spec"]
    *parents, last = path.split(".")
    for step in parents:
        place = place.setdefault(step, {}) if not step.isdigit() else place[int(step)]
    place[last] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("columns", [], "should have at least 1 items"),
        ("columns.0.required", "yes", "must be of type boolean"),
        ("columns.0.nullable", True, 'unknown field "spec.columns[0].nullable"'),
        ("format", "parquet", "Unsupported value"),
        ("reconcile.interval", "often", "should match"),
        ("reconcile.mode", "Force", "Unsupported value"),
        ("approval.plan", "sha256:short", "should match"),
        ("approval.drop", "all", "should match"),
        ("catalogRef.name", "Not_A_Name", "should match"),
        ("suppress", [{"code": "X1", "reason": "no"}], "should match"),
        ("schemaFrom", {"configMap": {"name": "columns"}}, "only one of columns and schemaFrom"),
    ],
)
def test_what_cannot_be_is_refused(cluster: Cluster, namespace: str, path: str, value: object, said: str) -> None:
    with pytest.raises(KubectlError) as refused:
        cluster.kubectl(
            *("create", "--dry-run=server", "--validate=strict", "-f", "-"),
            stdin=_yaml(with_(table("wrong", namespace, "id long"), path, value)),
        )
    assert said in refused.value.stderr


def test_control_the_same_table_without_a_fault_is_accepted(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl(
        *("create", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=_yaml(table("right", namespace, "id long")),
    )


def test_what_never_changes(cluster: Cluster, namespace: str) -> None:
    cluster.apply(table("fixed", namespace, "id long", identifier="sales.fixed"))
    with pytest.raises(KubectlError) as refused:
        cluster.apply(table("fixed", namespace, "id long", identifier="sales.fixed", format="delta"))
    assert "format never changes" in refused.value.stderr
    with pytest.raises(KubectlError) as refused:
        cluster.apply(table("fixed", namespace, "id long", identifier="sales.other"))
    assert "only together with renamedFrom" in refused.value.stderr
    cluster.apply(table("fixed", namespace, "id long", identifier="sales.other", renamedFrom="sales.fixed"))


def a_plan(name: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "laketable.dev/v1alpha1",
        "kind": "LakeTablePlan",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "tableRef": {"name": "orders", "uid": "1", "generation": 1},
            "identifier": "sales.orders",
            "hash": PLAN_HASH,
            "class": "destructive",
            "breaking": True,
            "summary": "1 table, 1 operation",
            "changes": [{"what": "- note", "how": "", "class": "destructive", "breaking": True}],
            "operations": [],
            "findings": [],
        },
    }


def test_of_a_plan_only_the_approval_changes(cluster: Cluster, namespace: str) -> None:
    plan = a_plan("orders-1", namespace)
    cluster.apply(plan)
    for path, value in (
        ("hash", "sha256:" + "b" * 64),
        ("changes", []),
        ("tableRef.uid", "2"),
        ("class", "metadata-only"),
        ("document", "x"),
        ("breaking", False),
    ):
        with pytest.raises(KubectlError) as refused:
            cluster.apply(with_(plan, path, value))
        assert "never changes" in refused.value.stderr
    cluster.apply(with_(plan, "approved", True))
    assert cluster.get("laketableplan", "orders-1", namespace)["spec"]["approved"] is True


def test_a_phase_is_not_written_over_what_somebody_else_wrote_meanwhile(
    cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an operator does that was stopped between reading a plan and settling it."""
    plan = with_(a_plan("orders-2", namespace), "tableRef.name", "nobody")  # whom no operator looks after
    cluster.apply(plan)
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))

    async def story() -> tuple[str, str]:
        async with KubeApi(connect()) as api:
            settled: Any = SimpleNamespace(api=api, store=Store(), now_ms=lambda: 0)  # all that is asked of a context
            read = plan_entry(await api.get(PLANS, namespace, "orders-2"))
            await asyncio.to_thread(cluster.apply, with_(plan, "approved", True))
            with pytest.raises(ApiConflict):
                await set_phase(settled, read, "Superseded")
            meanwhile = plan_entry(await api.get(PLANS, namespace, "orders-2")).phase
            await set_phase(settled, read, "Superseded")  # it was read again
            return meanwhile, plan_entry(await api.get(PLANS, namespace, "orders-2")).phase

    assert asyncio.run(story()) == ("", "Superseded")


def _yaml(document: dict[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(document))
