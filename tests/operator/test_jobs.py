"""Data jobs in the cluster: a Job backfills a computed column, with progress in the status; what dies is resumed."""

from __future__ import annotations

import signal
from typing import Any

import pyarrow as pa
import pytest

from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.engines.data_state import OPERATION_STAMP
from reconciler.model.quantities import parse_size
from reconciler.model.table import TableIdent
from reconciler.operator.objects import read_time
from tests.kube.campaign import JOB_SECONDS
from tests.kube.cluster import Cluster
from tests.kube.kubelet import Kubelet
from tests.kube.operator import Operator, catalog, condition, eventually, table, wait_for

pytestmark = pytest.mark.spark  # in the pods

JOB = {"type": "job", "image": "laketable:test", "memory": "1Gi", "cores": 1}


def fill(lake: IcebergCatalog, ident: TableIdent, rows: int, ingest: str = "seed") -> None:
    batch = pa.record_batch({"id": pa.array(range(rows), pa.int64()), "amount": pa.array(range(rows), pa.int64())})
    lake.commit(ident, [lake.write_batch(ident, batch, ingest)])


def values(lake: IcebergCatalog, ident: TableIdent) -> list[dict[str, Any]]:
    return [row for batch in lake.open_reader(ident).scan() for row in batch.to_pylist()]


@pytest.fixture
def orders(cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog) -> dict[str, Any]:
    return seeded_orders(cluster, namespace, lake)


@pytest.fixture
def rest_orders(cluster: Cluster, operator: Operator, namespace: str, rest_lake: IcebergCatalog) -> dict[str, Any]:
    return seeded_orders(cluster, namespace, rest_lake)


def seeded_orders(cluster: Cluster, namespace: str, lake: IcebergCatalog) -> dict[str, Any]:
    """Make a table with rows, whose catalog runs its jobs as Kubernetes Jobs."""
    spec = table("orders", namespace, "id long", "amount long")
    cluster.apply(spec)
    wait_for(cluster, namespace, "orders", "InSync")
    fill(lake, TableIdent((namespace,), "orders"), 10)
    properties = {key: str(value) for key, value in lake.settings.properties.items()}
    cluster.apply(catalog("lake", namespace, properties, runtime=JOB))
    return spec


def with_computed(spec: dict[str, Any], expression: str = "amount * 2") -> dict[str, Any]:
    added = {"name": "double", "type": "long", "computed": {"expression": expression}}
    return {**spec, "spec": {**spec["spec"], "columns": [*spec["spec"]["columns"], added]}}


def test_a_computed_column_is_backfilled_by_a_job(
    cluster: Cluster,
    operator: Operator,
    kubelet: Kubelet,
    namespace: str,
    lake: IcebergCatalog,
    orders: dict[str, Any],
) -> None:
    eventually(lambda: operator.metrics["laketable_jobs_running"] == 0)  # those of other tests
    operator.wait_idle()
    before = operator.metrics
    with kubelet.holding():
        cluster.apply(with_computed(orders))
        running = wait_for(cluster, namespace, "orders", "Applying")
        assert condition(running, "Ready")["reason"] == "JobRunning"
        assert condition(running, "BackfillComplete")["status"] == "False"
        (job,) = cluster.list("jobs", namespace)
        operation = running["status"]["operation"]
        assert operation["jobRef"] == f"{namespace}/{job['metadata']['name']}"
        assert job["metadata"]["name"] == f"lt-orders-{operation['id']}"
        # Now: a look that finds the Job ended takes both away.
        (config_map,) = [m for m in cluster.list("configmaps", namespace) if m["metadata"]["name"].startswith("lt-")]
        assert config_map["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]

    done = wait_for(cluster, namespace, "orders", "InSync", JOB_SECONDS)
    assert condition(done, "BackfillComplete")["status"] == "True"
    assert all(row["double"] == row["amount"] * 2 for row in values(lake, TableIdent((namespace,), "orders")))
    assert "operation" not in done["status"]
    plans = cluster.list("laketableplans", namespace)
    assert {plan["status"]["phase"] for plan in plans} == {"Applied"}
    eventually(lambda: is_counted(before, operator.metrics))
    events = eventually(lambda: published(cluster, namespace))
    assert [event["regarding"]["name"] for event in events] == ["orders"]


def is_counted(before: dict[str, float], after: dict[str, float]) -> bool:
    rise = {name: value - before.get(name, 0.0) for name, value in after.items()}
    states = {state: rise[f'laketable_jobs_total{{state="{state}"}}'] for state in ("started", "succeeded", "failed")}
    assert states == {"started": 1, "succeeded": 1, "failed": 0}
    assert after["laketable_jobs_running"] == before["laketable_jobs_running"]
    return rise["laketable_rewritten_bytes_total"] > 0


def published(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    return [event for event in cluster.list("events.events.k8s.io", namespace) if event["reason"] == "Published"]


def test_progress_flows_into_the_status_while_the_job_runs(
    cluster: Cluster, kubelet: Kubelet, namespace: str, rest_lake: IcebergCatalog, rest_orders: dict[str, Any]
) -> None:
    """Over REST: stopped within a transaction of SQLite, the pod would keep the whole catalog's file locked."""
    ident = TableIdent((namespace,), "orders")
    for buckets in range(2, 8):  # files of each partition spec are a chunk of their own
        rest_orders["spec"]["partitioning"] = [{"column": "id", "transform": f"bucket[{buckets}]"}]
        cluster.apply(rest_orders)
        wait_for(cluster, namespace, "orders", "InSync")
        fill(rest_lake, ident, 10, f"seed-{buckets}")
    cluster.apply(with_computed(rest_orders))
    running = eventually(lambda: cluster.get("lt", "orders", namespace)["status"].get("operation"))
    job = running["jobRef"].partition("/")[2]
    pod = eventually(lambda: [name for name in kubelet.names if name.startswith(job)])[0]
    eventually(lambda: rest_lake.get_stamped(ident, OPERATION_STAMP, running["id"]), JOB_SECONDS, 0.0)
    kubelet.send(pod, signal.SIGSTOP)
    try:
        half = eventually(lambda: _half_done(cluster, namespace))
        printed = cluster.kubectl("get", "laketables", "-n", namespace).stdout.splitlines()
    finally:
        kubelet.send(pod, signal.SIGCONT)
    assert half["id"] == running["id"]
    assert half["progress"] == f"{half['percent']}%"
    done, _, whole = half["bytes"].partition("/")
    assert parse_size(done) < parse_size(whole)
    assert read_time(half["eta"]) > 0
    assert half["progress"] in printed[1]
    wait_for(cluster, namespace, "orders", "InSync", JOB_SECONDS)
    assert all(row["double"] == row["amount"] * 2 for row in values(rest_lake, ident))


def _half_done(cluster: Cluster, namespace: str) -> dict[str, Any] | None:
    found: dict[str, Any] = cluster.get("lt", "orders", namespace)["status"]["operation"]
    return found if 0 < found.get("percent", 0) < 100 else None


def test_a_job_that_dies_is_started_again(
    cluster: Cluster, kubelet: Kubelet, namespace: str, lake: IcebergCatalog, orders: dict[str, Any]
) -> None:
    cluster.apply(with_computed(orders, "amount + 1"))
    job = eventually(lambda: cluster.list("jobs", namespace))[0]
    pod = eventually(lambda: [name for name in kubelet.names if name.startswith(job["metadata"]["name"])])[0]
    kubelet.kill(pod)
    cluster.kubectl("delete", "job", job["metadata"]["name"], "-n", namespace)
    wait_for(cluster, namespace, "orders", "InSync", JOB_SECONDS)
    assert all(row["double"] == row["amount"] + 1 for row in values(lake, TableIdent((namespace,), "orders")))


def test_a_view_is_filled_and_refreshed_when_its_source_changes(
    cluster: Cluster, kubelet: Kubelet, namespace: str, lake: IcebergCatalog, orders: dict[str, Any]
) -> None:
    view = {
        "query": f"SELECT count(*) AS n, sum(amount) AS total FROM `{namespace}`.orders",
        "refresh": {"onSourceChange": True},
    }
    spec = table("totals", namespace, materializedView=view, reconcile={"interval": "5s"})
    del spec["spec"]["columns"]
    cluster.apply(spec)
    totals = TableIdent((namespace,), "totals")
    fresh = wait_for(cluster, namespace, "totals", "InSync", JOB_SECONDS)
    assert condition(fresh, "Fresh")["status"] == "True"
    assert values(lake, totals) == [{"n": 10, "total": 45}]
    fill(lake, TableIdent((namespace,), "orders"), 5, "more")
    eventually(lambda: values(lake, totals) == [{"n": 15, "total": 55}], JOB_SECONDS, 1.0)


def test_a_view_waits_until_a_column_that_it_reads_is_filled(
    cluster: Cluster, kubelet: Kubelet, namespace: str, lake: IcebergCatalog, orders: dict[str, Any]
) -> None:
    spec = table("doubles", namespace, materializedView={"query": f"SELECT sum(double) AS n FROM `{namespace}`.orders"})
    del spec["spec"]["columns"]
    with kubelet.holding():
        cluster.apply(with_computed(orders))
        eventually(lambda: cluster.list("jobs", namespace))  # the column is there by now, and empty
        cluster.apply(spec)
        waiting = condition(wait_for(cluster, namespace, "doubles", "Waiting"), "Ready")
        assert waiting["reason"] == "SourceNotReady"
        assert f"{namespace}/orders, which is not settled yet" in waiting["message"]
    wait_for(cluster, namespace, "doubles", "InSync", JOB_SECONDS)
    assert values(lake, TableIdent((namespace,), "doubles")) == [{"n": 90}]


def test_beside_a_cluster_a_subprocess_does_the_work(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    spec = table("orders", namespace, "id long", "amount long")
    cluster.apply(spec)
    wait_for(cluster, namespace, "orders", "InSync")
    ident = TableIdent((namespace,), "orders")
    fill(lake, ident, 10)
    cluster.apply(with_computed(spec, "amount - 1"))
    wait_for(cluster, namespace, "orders", "InSync", JOB_SECONDS)
    assert all(row["double"] == row["amount"] - 1 for row in values(lake, ident))
    assert cluster.list("jobs", namespace) == []
