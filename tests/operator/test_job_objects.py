"""Jobs as objects, on a node that starts none of their pods: adopted, replaced, cancelled, gone with their table."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.model.table import TableIdent
from tests.kube.cluster import Cluster
from tests.kube.operator import Operator, catalog, condition, eventually, policy, table, wait_for
from tests.operator.test_jobs import JOB, fill, with_computed

WAITING = {**JOB, "image": "laketable:no-node-has-it"}


@pytest.fixture
def running(cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog) -> dict[str, Any]:
    """A table whose backfill has a Job that waits for a node."""
    cluster.apply(catalog("lake", namespace, _properties(lake), runtime=WAITING))
    spec = table("orders", namespace, "id long", "amount long")
    cluster.apply(spec)
    wait_for(cluster, namespace, "orders", "InSync")
    fill(lake, TableIdent((namespace,), "orders"), 10)
    wanted = with_computed(spec)
    cluster.apply(wanted)
    wait_for(cluster, namespace, "orders", "Applying")
    return wanted


def _properties(lake: IcebergCatalog) -> dict[str, str]:
    return {key: str(value) for key, value in lake.settings.properties.items()}


def job_of(cluster: Cluster, namespace: str) -> dict[str, Any]:
    (job,) = [j for j in cluster.list("jobs", namespace) if "deletionTimestamp" not in j["metadata"]]
    return job


def test_a_job_that_vanishes_is_made_again_with_its_plan(
    cluster: Cluster, namespace: str, running: dict[str, Any]
) -> None:
    first = job_of(cluster, namespace)
    cluster.kubectl("delete", "job", first["metadata"]["name"], "-n", namespace)
    second = eventually(lambda: _another(cluster, namespace, first))
    assert second["metadata"]["name"] == first["metadata"]["name"]
    eventually(lambda: _plan_of(cluster, namespace, second))


def test_a_job_without_its_plan_gets_it(cluster: Cluster, namespace: str, running: dict[str, Any]) -> None:
    job = job_of(cluster, namespace)
    cluster.kubectl("delete", "configmap", job["metadata"]["name"], "-n", namespace)
    eventually(lambda: _plan_of(cluster, namespace, job))


def test_a_restarted_operator_goes_on_with_the_job_there_is(
    cluster: Cluster, operator: Operator, namespace: str, running: dict[str, Any]
) -> None:
    job = job_of(cluster, namespace)
    operator.restart()
    operator.wait_idle()
    wait_for(cluster, namespace, "orders", "Applying")
    assert job_of(cluster, namespace)["metadata"]["uid"] == job["metadata"]["uid"]


def test_a_job_goes_on_when_its_catalog_asks_for_another_pod(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog, running: dict[str, Any]
) -> None:
    job = job_of(cluster, namespace)
    asked = {**WAITING, "memory": "2Gi", "pod": {"nodeSelector": {"disk": "ssd"}}}
    cluster.apply(catalog("lake", namespace, _properties(lake), runtime=asked))
    eventually(lambda: _is_heard(cluster.get("lc", "lake", namespace)))
    cluster.kubectl("delete", "configmap", job["metadata"]["name"], "-n", namespace)
    eventually(lambda: _plan_of(cluster, namespace, job))  # so it was looked at, and is still the one
    assert job_of(cluster, namespace)["metadata"]["uid"] == job["metadata"]["uid"]

    cluster.kubectl("delete", "job", job["metadata"]["name"], "-n", namespace)
    second = eventually(lambda: _another(cluster, namespace, job))
    assert second["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}


def test_a_job_whose_pod_is_refused_says_where_to_look(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog, running: dict[str, Any]
) -> None:
    refused = {**WAITING, "pod": {"priorityClassName": "nobody-made-it"}}
    cluster.apply(catalog("lake", namespace, _properties(lake), runtime=refused))
    eventually(lambda: _is_heard(cluster.get("lc", "lake", namespace)))
    job = job_of(cluster, namespace)
    said = condition(cluster.get("lt", "orders", namespace), "Ready")["message"]
    assert "no pod" not in said
    cluster.kubectl("delete", "job", job["metadata"]["name"], "-n", namespace)
    eventually(lambda: _another(cluster, namespace, job))
    told = eventually(lambda: _told_of_pod(cluster, namespace))
    assert condition(told, "Ready")["reason"] == "JobRunning"


def _told_of_pod(cluster: Cluster, namespace: str) -> dict[str, Any]:
    found = cluster.get("lt", "orders", namespace)
    assert "has no pod; 'kubectl describe job' says why" in condition(found, "Ready")["message"]
    return found


def _is_heard(resource: dict[str, Any]) -> bool:
    return bool(resource["status"]["observedGeneration"] == resource["metadata"]["generation"])


def test_another_expression_replaces_the_job(cluster: Cluster, namespace: str, running: dict[str, Any]) -> None:
    first = job_of(cluster, namespace)
    changed = {**running, "spec": {**running["spec"], "columns": [*running["spec"]["columns"]]}}
    changed["spec"]["columns"][2] = {**changed["spec"]["columns"][2], "computed": {"expression": "amount * 3"}}
    cluster.apply(changed)
    waiting = wait_for(cluster, namespace, "orders", "AwaitingApproval")
    # The column is there by now, so this is no first backfill of a new column any more: it waits for its hash.
    assert condition(waiting, "Ready")["reason"] == "ApprovalRequired"
    changed["spec"]["approval"] = {"plan": waiting["status"]["plan"]["hash"]}
    cluster.apply(changed)
    second = eventually(lambda: _another(cluster, namespace, first))
    assert second["metadata"]["name"] != first["metadata"]["name"]
    assert eventually(lambda: job_of(cluster, namespace))["metadata"]["name"] == second["metadata"]["name"]


@pytest.mark.parametrize("value", ["true", ""])
def test_cancelling_stops_the_job_until_the_annotation_goes(
    cluster: Cluster, namespace: str, running: dict[str, Any], value: str
) -> None:
    cluster.kubectl("annotate", "lt", "orders", "-n", namespace, f"laketable.dev/cancel={value}")
    wait_for(cluster, namespace, "orders", "Cancelled")
    eventually(lambda: not cluster.list("jobs", namespace))
    cluster.kubectl("annotate", "lt", "orders", "-n", namespace, "laketable.dev/cancel-")
    eventually(lambda: job_of(cluster, namespace))


def test_cancel_false_cancels_nothing(cluster: Cluster, namespace: str, running: dict[str, Any]) -> None:
    cluster.kubectl("annotate", "lt", "orders", "-n", namespace, "laketable.dev/cancel=true")
    wait_for(cluster, namespace, "orders", "Cancelled")
    cluster.kubectl("annotate", "--overwrite", "lt", "orders", "-n", namespace, "laketable.dev/cancel=false")
    wait_for(cluster, namespace, "orders", "Applying")
    eventually(lambda: job_of(cluster, namespace))


@pytest.mark.parametrize(
    ("settings", "phase"),
    [
        pytest.param({"suspend": True}, "Suspended", id="suspended"),
        pytest.param({"mode": "Observe"}, "Observed", id="observed"),
    ],
)
def test_a_job_that_runs_is_told_and_holds_its_table_while_nothing_is_begun(
    cluster: Cluster, namespace: str, running: dict[str, Any], settings: dict[str, Any], phase: str
) -> None:
    job = job_of(cluster, namespace)
    cluster.apply({**running, "spec": {**running["spec"], "reconcile": settings}})
    wait_for(cluster, namespace, "orders", phase)
    cluster.apply({**running, "spec": {**running["spec"], "reconcile": settings, "comment": "looked at once more"}})
    seen = wait_for(cluster, namespace, "orders", phase)
    assert seen["status"]["operation"]["jobRef"] == f"{namespace}/{job['metadata']['name']}"
    assert seen["metadata"]["finalizers"]
    assert job_of(cluster, namespace)["metadata"]["uid"] == job["metadata"]["uid"]


def test_a_job_that_the_spec_no_longer_asks_for_is_stopped_while_the_plan_waits(
    cluster: Cluster, namespace: str, running: dict[str, Any]
) -> None:
    cluster.apply({**running, "spec": {**running["spec"], "columns": running["spec"]["columns"][:2]}})
    eventually(lambda: not cluster.list("jobs", namespace))
    waiting = eventually(lambda: _without_operation(cluster, namespace))
    assert "finalizers" not in waiting["metadata"]
    assert waiting["status"]["phase"] == "AwaitingApproval"
    assert condition(waiting, "Drifted")["status"] == "False", "it was us who added the column"


def _without_operation(cluster: Cluster, namespace: str) -> dict[str, Any] | None:
    found = cluster.get("lt", "orders", namespace)
    return None if "operation" in found["status"] else found


def test_cancelling_stops_upkeep_too(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    cluster.apply(catalog("lake", namespace, _properties(lake), runtime=WAITING))
    spec = table("orders", namespace, "id long", "amount long")
    cluster.apply(spec)
    wait_for(cluster, namespace, "orders", "InSync")
    for number in range(2):
        fill(lake, TableIdent((namespace,), "orders"), 10, f"seed-{number}")
    spec["spec"]["maintenance"] = {"compact": {"minInputFiles": 2, "schedule": "* * * * *"}}
    cluster.apply(spec)
    eventually(lambda: cluster.get("lt", "orders", namespace)["status"].get("operation"))
    cluster.kubectl("annotate", "lt", "orders", "-n", namespace, "laketable.dev/cancel=true")
    eventually(lambda: not cluster.list("jobs", namespace))
    assert eventually(lambda: _without_operation(cluster, namespace))["status"]["phase"] == "InSync"


def test_the_job_goes_with_its_table(
    cluster: Cluster, namespace: str, lake: IcebergCatalog, running: dict[str, Any]
) -> None:
    cluster.kubectl("delete", "laketable", "orders", "-n", namespace, "--timeout=120s")
    eventually(lambda: not cluster.list("jobs", namespace))
    eventually(
        lambda: not [m for m in cluster.list("configmaps", namespace) if m["metadata"]["name"].startswith("lt-")]
    )
    assert lake.get_table_spec(TableIdent((namespace,), "orders"))


def test_what_no_restart_mends_fails_the_job_and_all_else_is_tried_again_in_it(
    cluster: Cluster, namespace: str, running: dict[str, Any]
) -> None:
    """What becomes of a pod is said here in the node's place; what follows is done by job controller and operator."""
    job = job_of(cluster, namespace)
    (evicted,) = eventually(lambda: pods_of(cluster, namespace, job))
    end(cluster, evicted, 143, "Error", {"type": "DisruptionTarget", "status": "True", "reason": "Evicted"})
    (killed,) = eventually(lambda: pods_of(cluster, namespace, job, evicted))
    end(cluster, killed, 137, "OOMKilled")
    (again,) = eventually(lambda: pods_of(cluster, namespace, job, evicted, killed))
    eventually(lambda: is_counted(cluster, namespace, job, again))
    counted = job_of(cluster, namespace)
    assert counted["metadata"]["uid"] == job["metadata"]["uid"]
    assert counted["status"]["failed"] == 1, "an eviction is not the job's fault"

    end(cluster, again, 1, "Error")
    replaced = eventually(lambda: _another(cluster, namespace, job))
    assert replaced["metadata"]["name"] == job["metadata"]["name"]


def pods_of(cluster: Cluster, namespace: str, job: dict[str, Any], *known: dict[str, Any]) -> list[dict[str, Any]]:
    """List the pods of a Job that are not known yet."""
    uids = {pod["metadata"]["uid"] for pod in known}
    of_job = ("batch.kubernetes.io/controller-uid", job["metadata"]["uid"])
    found = [pod for pod in cluster.list("pods", namespace) if of_job in pod["metadata"]["labels"].items()]
    return [pod for pod in found if pod["metadata"]["uid"] not in uids]


def is_counted(cluster: Cluster, namespace: str, job: dict[str, Any], *running: dict[str, Any]) -> bool:
    """Say whether the job controller is done with a Job's ended pods: it lets go of them, and then counts them."""
    held = [pod for pod in pods_of(cluster, namespace, job, *running) if pod["metadata"].get("finalizers")]
    return not held and not job_of(cluster, namespace)["status"].get("uncountedTerminatedPods")


def end(cluster: Cluster, pod: dict[str, Any], code: int, reason: str, *conditions: dict[str, str]) -> None:
    """Say that a pod's container ended."""
    container = pod["spec"]["containers"][0]
    terminated = {"exitCode": code, "reason": reason, "finishedAt": "2026-01-01T00:00:00Z"}
    state = {"name": container["name"], "image": "", "imageID": "", "ready": False, "restartCount": 0}
    status = {
        "phase": "Failed",
        "containerStatuses": [{**state, "state": {"terminated": terminated}}],
        "conditions": list(conditions),
    }
    meta = pod["metadata"]
    cluster.kubectl(
        *("patch", "pod", meta["name"], "-n", meta["namespace"], "--subresource=status", "--type=merge"),
        *("-p", json.dumps({"status": status})),
    )


def test_a_budget_of_the_day_is_for_all_tables_of_its_policy(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    cluster.apply(catalog("lake", namespace, _properties(lake), runtime=WAITING))
    wanted = {}
    for name in ("first", "second"):
        spec = table(name, namespace, "id long", "amount long", reconcile={"mode": "Plan"})
        cluster.apply({**spec, "spec": {**spec["spec"], "reconcile": {}}})
        wait_for(cluster, namespace, name, "InSync")
        fill(lake, TableIdent((namespace,), name), 10)
        wanted[name] = with_computed(spec)
        cluster.apply(wanted[name])
    planned = [wait_for(cluster, namespace, name, "Planned")["status"]["plan"] for name in wanted]
    one = max(plan["bytesToRewrite"] for plan in planned)
    budgets = {"maxRewriteBytesPerDay": str(one + one // 2)}
    cluster.apply(policy("daily", namespace, autoApprove=["metadata-only", "rewrite", "audit"], budgets=budgets))

    for name, phase in (("first", "Applying"), ("second", "AwaitingApproval")):
        cluster.apply({**wanted[name], "spec": {**wanted[name]["spec"], "reconcile": {"mode": "Apply"}}})
        found = wait_for(cluster, namespace, name, phase)
    assert "of all its tables in 24 hours" in condition(found, "Ready")["message"]
    # What was begun is remembered by the plan objects: another operator counts it too.
    operator.restart(signal.SIGTERM)  # it gives its Lease back, so the next one need not wait for it
    operator.wait_idle()
    wait_for(cluster, namespace, "second", "AwaitingApproval")
    cluster.kubectl("delete", "lakepolicy", "daily", "-n", namespace)
    wait_for(cluster, namespace, "second", "Applying")


def _another(cluster: Cluster, namespace: str, first: dict[str, Any]) -> dict[str, Any] | None:
    jobs = [j for j in cluster.list("jobs", namespace) if j["metadata"]["uid"] != first["metadata"]["uid"]]
    return jobs[0] if jobs else None


def _plan_of(cluster: Cluster, namespace: str, job: dict[str, Any]) -> bool:
    found = cluster.list("configmaps", namespace)
    owners = [m["metadata"].get("ownerReferences", [{}])[0].get("uid") for m in found]
    return job["metadata"]["uid"] in owners
