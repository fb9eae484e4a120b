"""Runtime `connect`: a Job that is a client of a Spark Connect server does the work, and outlives the operator."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.catalogs.connection import explicit
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.model.table import TableIdent
from tests.kube.cluster import Cluster
from tests.kube.kubelet import Kubelet
from tests.kube.operator import Operator, catalog, condition, eventually, table, wait_for
from tests.operator.test_jobs import fill, values, with_computed

NAME = "rest"
"""The server of the tests knows the catalog by this name."""


@pytest.fixture
def served(rest_catalog: dict[str, str]) -> IcebergCatalog:
    return IcebergCatalog(explicit(NAME, rest_catalog))


def orders(cluster: Cluster, namespace: str, served: IcebergCatalog, runtime: dict[str, Any]) -> dict[str, Any]:
    """Make a table with rows, whose catalog has a runtime."""
    properties = {key: str(value) for key, value in served.settings.properties.items()}
    cluster.apply(catalog(NAME, namespace, properties, runtime=runtime))
    spec = table("orders", namespace, "id long", "amount long", catalogRef={"name": NAME})
    cluster.apply(spec)
    wait_for(cluster, namespace, "orders", "InSync")
    fill(served, TableIdent((namespace,), "orders"), 10)
    return spec


def test_a_backfill_over_spark_connect_outlives_the_operator(
    cluster: Cluster, operator: Operator, kubelet: Kubelet, namespace: str, served: IcebergCatalog, connect_url: str
) -> None:
    spec = orders(cluster, namespace, served, {"type": "connect", "url": connect_url})
    cluster.apply(with_computed(spec))
    (job,) = eventually(lambda: cluster.list("jobs", namespace), 60)
    operator.restart()
    done = wait_for(cluster, namespace, "orders", "InSync", 180)
    assert condition(done, "BackfillComplete")["status"] == "True"
    ident = TableIdent((namespace,), "orders")
    assert sorted(row["double"] for row in values(served, ident)) == [number * 2 for number in range(10)]
    assert [name for name in served.get_table_spec(ident).spec.refs if not name.startswith("lt_undo_")] == []
    uids = {found["metadata"]["uid"] for found in cluster.list("jobs", namespace)}
    assert uids <= {job["metadata"]["uid"]}


def test_an_address_with_a_token_is_refused_before_anything_is_done(
    cluster: Cluster, operator: Operator, namespace: str, served: IcebergCatalog
) -> None:
    spec = orders(cluster, namespace, served, {"type": "connect", "url": "sc://spark.example/;token=canary-77"})
    cluster.apply(with_computed(spec))
    refused = wait_for(cluster, namespace, "orders", "Invalid")
    message = condition(refused, "Ready")["message"]
    assert "'token' is not among the parameters" in message
    assert "canary-77" not in message
    assert len(served.get_table_spec(TableIdent((namespace,), "orders")).spec.schema.fields) == 2
    stalled = eventually(lambda: condition(cluster.get("lakecatalog", NAME, namespace), "Stalled"))
    assert (stalled["status"], stalled["reason"]) == ("True", "InvalidInput")
    assert cluster.list("jobs", namespace) == []
