"""Executors in pods of their own: the driver asks this API server for them, they compute, and they go with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.model.table import TableIdent
from tests.kube.campaign import JOB_SECONDS
from tests.kube.cluster import Cluster
from tests.kube.kubelet import Kubelet
from tests.kube.operator import Operator, catalog, condition, eventually, let_drive, table, wait_for
from tests.operator.test_jobs import JOB, fill, values, with_computed

pytestmark = pytest.mark.spark  # in the pods

EXECUTORS = {**JOB, "executors": {"instances": 2, "memory": "512Mi"}, "pod": {"labels": {"team": "sales"}}}
BACKEND, DAEMON = b"KubernetesExecutorBackend", b"reconciler.engines.splice.daemon"


@pytest.fixture
def orders(cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog) -> dict[str, Any]:
    """A table with two files, whose catalog's jobs have executors."""
    let_drive(cluster, namespace)
    spec = table("orders", namespace, "id long", "amount long")
    cluster.apply(spec)
    wait_for(cluster, namespace, "orders", "InSync")
    for ingest in ("one", "two"):
        fill(lake, TableIdent((namespace,), "orders"), 10, ingest)
    properties = {key: str(value) for key, value in lake.settings.properties.items()}
    cluster.apply(catalog("lake", namespace, properties, runtime=EXECUTORS))
    return spec


def executors(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """List the pods that a driver asked for."""
    found = cluster.list("pods", namespace)
    return [pod for pod in found if pod["metadata"].get("labels", {}).get("spark-role") == "executor"]


def pair(cluster: Cluster, namespace: str, owner: str) -> list[dict[str, Any]]:
    """Return the two executors of a driver."""
    found = executors(cluster, namespace)
    owned = [pod for pod in found if pod["metadata"]["ownerReferences"][0]["name"] == owner]
    assert len(owned) == 2
    return owned


def driver_of(cluster: Cluster, kubelet: Kubelet, namespace: str, *known: str) -> str:
    """Name the pod that drives the job of a namespace, once it runs."""
    (job,) = cluster.list("jobs", namespace)
    (driver,) = [
        name
        for name in kubelet.names
        if name.startswith(job["metadata"]["name"]) and "-exec-" not in name and name not in known
    ]
    return driver


def workers_of_executors() -> bool:
    """Say whether Python that splices runs below an executor's JVM."""
    return any(BACKEND in _command(_parent(process)) for process in _processes() if DAEMON in _command(process))


def _processes() -> list[str]:
    return [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]


def _command(process: str) -> bytes:
    try:
        return Path("/proc", process, "cmdline").read_bytes()
    except OSError:  # it ended
        return b""


def _parent(process: str) -> str:
    try:
        return Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return ""


def test_a_column_is_computed_by_executors_that_the_driver_asked_for(
    cluster: Cluster, kubelet: Kubelet, namespace: str, lake: IcebergCatalog, orders: dict[str, Any]
) -> None:
    cluster.apply(with_computed(orders))
    driver = eventually(lambda: driver_of(cluster, kubelet, namespace))
    asked = eventually(lambda: pair(cluster, namespace, driver))
    (job,) = cluster.list("jobs", namespace)
    for pod in asked:
        labels = pod["metadata"]["labels"]
        assert labels.items() >= {"team": "sales", "laketable.dev/table": "orders"}.items()
        assert labels["laketable.dev/table-uid"] == job["metadata"]["labels"]["laketable.dev/table-uid"]
        assert not any("projected" in volume or "secret" in volume for volume in pod["spec"]["volumes"])
    eventually(workers_of_executors, JOB_SECONDS)
    done = wait_for(cluster, namespace, "orders", "InSync", JOB_SECONDS)
    assert condition(done, "BackfillComplete")["status"] == "True"
    rows = values(lake, TableIdent((namespace,), "orders"))
    assert len(rows) == 20
    assert all(row["double"] == row["amount"] * 2 for row in rows)
    assert "could not be spliced" not in kubelet.log(driver)
    assert "ERROR" not in kubelet.log(driver), "all that it asked of the API server was granted"
    eventually(lambda: not executors(cluster, namespace))


@pytest.mark.crash
def test_executors_go_with_a_driver_that_is_killed_and_the_next_one_goes_on(
    cluster: Cluster, kubelet: Kubelet, namespace: str, lake: IcebergCatalog, orders: dict[str, Any]
) -> None:
    cluster.apply(with_computed(orders))
    first = eventually(lambda: driver_of(cluster, kubelet, namespace))
    lost = {pod["metadata"]["name"] for pod in eventually(lambda: pair(cluster, namespace, first))}
    eventually(lambda: lost <= set(kubelet.names))
    kubelet.kill(first)
    eventually(lambda: not lost & set(kubelet.names))  # they see that nobody drives them
    second = eventually(lambda: driver_of(cluster, kubelet, namespace, first))
    eventually(lambda: pair(cluster, namespace, second))
    wait_for(cluster, namespace, "orders", "InSync", JOB_SECONDS)
    rows = values(lake, TableIdent((namespace,), "orders"))
    assert len(rows) == 20
    assert all(row["double"] == row["amount"] * 2 for row in rows)
    for job in cluster.list("jobs", namespace):
        cluster.kubectl("delete", "job", job["metadata"]["name"], "-n", namespace)
    eventually(lambda: not executors(cluster, namespace))


@pytest.mark.crash
def test_a_deleted_job_takes_driver_and_executors_with_it(
    cluster: Cluster, kubelet: Kubelet, namespace: str, orders: dict[str, Any]
) -> None:
    cluster.apply(with_computed(orders))
    driver = eventually(lambda: driver_of(cluster, kubelet, namespace))
    eventually(lambda: pair(cluster, namespace, driver))
    cluster.kubectl("delete", "lt", "orders", "-n", namespace, "--timeout=120s")
    eventually(lambda: not cluster.list("pods", namespace))
    eventually(lambda: not [name for name in kubelet.names if name.startswith(driver)])


@pytest.mark.crash
def test_an_executor_that_is_killed_is_replaced(
    cluster: Cluster, kubelet: Kubelet, namespace: str, lake: IcebergCatalog, orders: dict[str, Any]
) -> None:
    cluster.apply(with_computed(orders))
    driver = eventually(lambda: driver_of(cluster, kubelet, namespace))
    victim = eventually(lambda: pair(cluster, namespace, driver))[0]["metadata"]["name"]
    eventually(workers_of_executors, JOB_SECONDS)
    kubelet.kill(victim)
    wait_for(cluster, namespace, "orders", "InSync", JOB_SECONDS)
    rows = values(lake, TableIdent((namespace,), "orders"))
    assert sorted(row["double"] for row in rows) == sorted(2 * value for value in [*range(10)] * 2)
    of_job = [name for name in kubelet.started if name.startswith(driver.rpartition("-")[0])]
    assert all(name.startswith(driver) for name in of_job), "one driver saw it through"
    eventually(lambda: not executors(cluster, namespace))


@pytest.mark.crash
def test_a_driver_without_the_right_says_what_is_missing(
    cluster: Cluster, kubelet: Kubelet, namespace: str, orders: dict[str, Any]
) -> None:
    cluster.kubectl("delete", "rolebinding", "laketable-driver", "-n", namespace)
    cluster.apply(with_computed(orders))
    told = eventually(lambda: stalled(cluster, namespace))
    assert "Spark did not start" in told
    assert "let make pods" in told
    assert not executors(cluster, namespace)


def stalled(cluster: Cluster, namespace: str) -> str:
    """Return what keeps the table, once it says that something does."""
    found = condition(cluster.get("lt", "orders", namespace), "Ready")
    assert found["reason"] == "EnvironmentProblem", found
    message: str = found["message"]
    return message
