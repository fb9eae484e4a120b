"""The Job of a data operation: its names, and that a real API server accepts it where Pod Security is restricted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reconciler.model.documents import check_resource
from reconciler.model.manifest import LakeCatalog
from reconciler.operator.job_manifest import (
    config_map,
    for_job,
    job,
    job_name,
    work_ids,
    work_keys,
)
from reconciler.operator.job_pod import TOKEN_VARIABLE, JobSettings
from reconciler.operator.manifests import read_table
from reconciler.operator.objects import Meta
from reconciler.operator.store import OPERATION_LABEL
from reconciler.plan.operations import Backfill, BackfillColumn, Operation, OperationClass, OperationKind, Plan, Refresh
from tests.kube.cluster import Cluster, KubectlError

SETTINGS = JobSettings(
    cluster="test",
    image="laketable:1",
    service_account="default",
    driver_account="laketable-driver",
    ttl_seconds=600,
    deadline_seconds=3600,
)
OPERATION = "0123456789abcdef"
TABLE = Meta(name="orders", uid="11111111-2222-3333-4444-555555555555", namespace="sales", generation=3)


def lake(namespace: str, **runtime: Any) -> LakeCatalog:
    data: Any = {
        "apiVersion": "laketable.dev/v1alpha1",
        "kind": "LakeCatalog",
        "metadata": {"name": "lake", "namespace": namespace},
        "spec": {
            "properties": {"type": "rest", "uri": "https://catalog.example"},
            "secretRef": {"name": "lake-credentials"},
            "runtime": {"type": "job", **runtime},
        },
    }
    manifest, faults = check_resource(data)
    assert isinstance(manifest, LakeCatalog), faults
    return manifest


def plan() -> Plan:
    work = Backfill(columns=(BackfillColumn(name="double", field_id=2, sql="amount * 2"),))
    operation = Operation(
        id=OPERATION, kind=OperationKind.BACKFILL, summary="s", operation_class=OperationClass.REWRITE, work=work
    )
    wanted = read_table(_table(), "test")
    return Plan(table=wanted.desired.ident, owner="o", catalog="lake", base=None, operations=(operation,))


def _table() -> Any:
    return {
        "apiVersion": "laketable.dev/v1alpha1",
        "kind": "LakeTable",
        "metadata": {"name": "orders", "namespace": "sales", "uid": TABLE.uid, "managedFields": []},
        "spec": {"columns": [{"name": "id", "type": "long"}]},
    }


def work(catalog: LakeCatalog) -> Any:
    """Return what a Job is handed."""
    its_job = Meta(
        name="lt-orders-1", uid="uid-1", namespace="sales", generation=1, labels={OPERATION_LABEL: OPERATION}
    )
    return config_map(its_job, TABLE, read_table(_table(), "test"), catalog, plan(), SETTINGS)


@pytest.mark.parametrize("name", ["orders", "o" * 63, "a.b_c", "x"])
def test_job_names_fit_and_name_the_operation(name: str) -> None:
    made = job_name(name, OPERATION)
    assert len(made) <= 63
    assert made.startswith("lt-")
    assert made.endswith(f"-{OPERATION}")
    assert not set(made) - set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_a_restricted_namespace_accepts_the_pod_and_the_document_holds_no_secret(
    cluster: Cluster, operator_kubeconfig: object
) -> None:
    namespace = cluster.create_namespace("restricted", **{"pod-security.kubernetes.io/enforce": "restricted"})
    catalog = lake(namespace, memory="2Gi", cores=2)
    made: Any = job("lt-orders-1", TABLE, catalog, plan(), SETTINGS)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "try", "namespace": namespace, "labels": made["spec"]["template"]["metadata"]["labels"]},
        "spec": made["spec"]["template"]["spec"],
    }
    import json

    cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=json.dumps(pod))
    whole = {"apiVersion": "batch/v1", "kind": "Job", **made}
    cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=json.dumps(whole))
    handed: Any = {"apiVersion": "v1", "kind": "ConfigMap", **work(catalog)}
    cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=json.dumps(handed))
    assert "secret" not in handed["data"]["catalog.yaml"].lower().replace("secretref", "")

    # The control: the same namespace refuses a pod that asks for more.
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(KubectlError) as refused:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    assert "restricted" in refused.value.stderr


def test_the_pod_has_no_token_a_read_only_root_and_only_its_catalogs_secret() -> None:
    made: Any = job("lt-orders-1", TABLE, lake("platform"), plan(), SETTINGS)
    pod = made["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    places = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    writable = [volume["name"] for volume in pod["volumes"] if "emptyDir" in volume]
    assert [places[name] for name in writable] == ["/tmp"]
    stated = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"]}
    written = {stated[name] for name in ("HOME", "TMPDIR", "SPARK_LOCAL_DIRS")} | {pod["containers"][0]["workingDir"]}
    assert written == {"/tmp"}
    assert [v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v] == ["lake-credentials"]
    assert made["spec"]["activeDeadlineSeconds"] == 3600
    assert made["spec"]["ttlSecondsAfterFinished"] == 600
    environment = {entry["name"] for entry in pod["containers"][0]["env"]}
    assert not any("TOKEN" in name or "KEY" in name for name in environment)


def test_the_token_of_a_spark_connect_server_comes_by_reference() -> None:
    def variables(catalog: LakeCatalog) -> dict[str, Any]:
        made: Any = job("lt-orders-1", TABLE, catalog, plan(), SETTINGS)
        return {entry["name"]: entry for entry in made["spec"]["template"]["spec"]["containers"][0]["env"]}

    served = lake("platform", type="connect", url="sc://spark.example:15002")
    reference = {"name": "lake-credentials", "key": "spark-connect-token", "optional": True}
    assert variables(served)[TOKEN_VARIABLE] == {"name": TOKEN_VARIABLE, "valueFrom": {"secretKeyRef": reference}}
    assert TOKEN_VARIABLE not in variables(lake("platform"))
    without = served.model_copy(update={"spec": served.spec.model_copy(update={"secret_ref": None})})
    assert TOKEN_VARIABLE not in variables(without)


def test_a_commit_by_a_job_is_named_by_its_plan() -> None:
    made = msgspec.structs.replace(plan(), hash=f"sha256:{'ab' * 32}")
    assert work_ids(made, commits=False) == (OPERATION,)
    assert work_ids(made, commits=True) == ("ab" * 8,)
    upkeep = msgspec.structs.replace(made, hash="", operations=(), upkeep=made.operations)
    assert work_ids(upkeep, commits=True) == (OPERATION,)
    whole: Any = job(job_name("orders", "ab" * 8), TABLE, lake("platform"), made, SETTINGS, commits=True)
    assert whole["spec"]["template"]["spec"]["containers"][0]["command"][-1] == "--commit"


def test_a_refresh_is_the_same_work_wherever_its_sources_are() -> None:
    def refreshing(operation: str, **work: Any) -> tuple[str, ...]:
        refresh = Refresh(query="q", text="t", pieces=(), columns=(), sources=(), **work)
        made = plan()
        (before,) = made.operations
        moved = msgspec.structs.replace(before, id=operation, kind=OperationKind.REFRESH, work=refresh)
        return work_keys(msgspec.structs.replace(made, operations=(moved,)), commits=False)

    assert refreshing("one") == refreshing("other")
    assert refreshing("one") != refreshing("one", round=2)
    assert work_keys(plan(), commits=False) == (OPERATION,)


@pytest.mark.parametrize(
    ("runtime", "kind", "url"),
    [
        ({"type": "job", "image": "x:1"}, "local", None),
        ({"type": "connect", "url": "sc://spark:15002"}, "connect", "sc://spark:15002"),
    ],
)
def test_a_job_is_told_where_its_spark_is(runtime: dict[str, Any], kind: str, url: str | None) -> None:
    stated = for_job(lake("platform", **runtime)).spec.runtime
    assert stated is not None
    assert (stated.type, stated.url, stated.image) == (kind, url, None)
