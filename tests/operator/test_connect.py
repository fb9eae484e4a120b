"""Runtime `connect`: a Job that is a client of a Spark Connect server does the work, and outlives the operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from reconciler.catalogs.connection import explicit
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.model.table import TableIdent
from tests.connect_server import TOKEN
from tests.crash.operator.secrets import holds
from tests.kube.campaign import JOB_SECONDS, Entry
from tests.kube.cluster import Cluster
from tests.kube.kubelet import Kubelet
from tests.kube.operator import Operator, catalog, condition, eventually, policy, table, wait_for
from tests.operator.campaign_rows import ONE_BY_ONE, TOGETHER, WRONG
from tests.operator.campaign_tables import SOURCE
from tests.operator.test_campaign import Campaign, march, set_wrong
from tests.operator.test_jobs import fill, values, with_computed

NAME = "rest"
"""The server of the tests knows the catalog by this name."""


@pytest.fixture
def served(rest_catalog: dict[str, str]) -> IcebergCatalog:
    return IcebergCatalog(explicit(NAME, rest_catalog))


def connected(namespace: str, served: IcebergCatalog, url: str, token: str = TOKEN) -> list[dict[str, Any]]:
    """Return the LakeCatalog of a Spark Connect server, and the Secret with its token."""
    properties = {key: str(value) for key, value in served.settings.properties.items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "spark", "namespace": namespace}}
    runtime = {"type": "connect", "url": url}
    return [
        {**secret, "stringData": {"spark-connect-token": token}},
        catalog(NAME, namespace, properties, secretRef={"name": "spark"}, runtime=runtime),
    ]


def orders(cluster: Cluster, namespace: str, served: IcebergCatalog, url: str, token: str = TOKEN) -> dict[str, Any]:
    """Make a table with rows, whose catalog's jobs go to a Spark Connect server."""
    cluster.apply(*connected(namespace, served, url, token))
    spec = table("orders", namespace, "id long", "amount long", catalogRef={"name": NAME})
    cluster.apply(spec)
    wait_for(cluster, namespace, "orders", "InSync")
    fill(served, TableIdent((namespace,), "orders"), 10)
    return spec


def test_a_backfill_over_spark_connect_outlives_the_operator(
    cluster: Cluster, operator: Operator, kubelet: Kubelet, namespace: str, served: IcebergCatalog, connect_url: str
) -> None:
    spec = orders(cluster, namespace, served, connect_url)
    cluster.apply(with_computed(spec))
    (job,) = eventually(lambda: cluster.list("jobs", namespace))
    operator.restart()
    done = wait_for(cluster, namespace, "orders", "InSync", JOB_SECONDS)
    assert condition(done, "BackfillComplete")["status"] == "True"
    ident = TableIdent((namespace,), "orders")
    assert sorted(row["double"] for row in values(served, ident)) == [number * 2 for number in range(10)]
    assert [name for name in served.get_table_spec(ident).spec.refs if not name.startswith("lt_undo_")] == []
    uids = {found["metadata"]["uid"] for found in cluster.list("jobs", namespace)}
    assert uids <= {job["metadata"]["uid"]}
    kinds = "laketables,lakecatalogs,laketableplans,configmaps,jobs,pods,events.events.k8s.io"
    written = cluster.kubectl("get", kinds, "-n", namespace, "-o", "json").stdout
    assert "secretKeyRef" in written, "the control: its name is there"
    assert not holds(TOKEN, written.encode())
    assert TOKEN not in operator.log + "".join(map(kubelet.log, kubelet.started))
    # The control: who shows another token is refused.
    cluster.apply(*connected(namespace, served, connect_url, token="another"))
    more = with_computed(spec)
    more["spec"]["columns"].append({"name": "triple", "type": "long", "computed": {"expression": "amount * 3"}})
    cluster.apply(more)
    refused = wait_for(cluster, namespace, "orders", "Retrying", JOB_SECONDS)
    assert condition(refused, "Ready")["reason"] == "Unauthenticated"
    assert "it wants another token" in condition(refused, "Ready")["message"]
    cluster.kubectl("delete", "laketable", "orders", "-n", namespace)


def test_an_address_with_a_token_is_refused_before_anything_is_done(
    cluster: Cluster, operator: Operator, namespace: str, served: IcebergCatalog
) -> None:
    spec = orders(cluster, namespace, served, "sc://spark.example/;token=canary-77")
    cluster.apply(with_computed(spec))
    refused = wait_for(cluster, namespace, "orders", "Invalid")
    message = condition(refused, "Ready")["message"]
    assert "'token' is not among the parameters" in message
    assert "canary-77" not in message
    assert len(served.get_table_spec(TableIdent((namespace,), "orders")).spec.schema.fields) == 2
    stalled = eventually(lambda: condition(cluster.get("lakecatalog", NAME, namespace), "Stalled"))
    assert (stalled["status"], stalled["reason"]) == ("True", "InvalidInput")
    assert cluster.list("jobs", namespace) == []


# ---------------------------------------------------------------- every field whose values change rows


def new_rows(served: IcebergCatalog, namespace: str, ingest: str) -> None:
    source = TableIdent((namespace,), SOURCE)
    batch = pa.record_batch({"id": pa.array([1, 2], pa.int64()), "note": ["a", "b"]})
    served.commit(source, [served.write_batch(source, batch, ingest)])


def campaign(
    cluster: Cluster, namespace: str, served: IcebergCatalog, url: str, entries: Mapping[str, Entry]
) -> Campaign:
    """Make what the tables of a campaign refer to."""
    cluster.apply(
        *connected(namespace, served, url),
        policy("all", namespace, autoApprove=["metadata-only", "audit", "rewrite"]),
        table(SOURCE, namespace, "id long", "note string", catalogRef={"name": NAME}),
    )
    wait_for(cluster, namespace, SOURCE, "InSync")
    new_rows(served, namespace, "first")
    return Campaign(cluster, served, namespace, entries, has_rows=True)


def test_views_and_type_changes_lead_to_the_same_whichever_way_they_came(
    cluster: Cluster, operator: Operator, kubelet: Kubelet, namespace: str, served: IcebergCatalog, connect_url: str
) -> None:
    """All fields of a view on one table, all of a type change on another."""
    walking = campaign(cluster, namespace, served, connect_url, TOGETHER)
    (view,) = (name for name, path in walking.paths.items() if path == "materializedView")

    def counts() -> list[int]:
        return [len(values(served, TableIdent((namespace,), name))) for name in (view, f"{view}-fresh")]

    def is_working() -> bool:
        return any("operation" in found["status"] for found in cluster.list("laketables", namespace))

    def follow_and_be_told_wrong() -> None:
        assert counts() == [2, 2]
        new_rows(served, namespace, "second")  # the same rows once more: what a query gives of them stays the same
        cluster.kubectl("annotate", "lt", SOURCE, "-n", namespace, "laketable.dev/reconcile-now=1")
        eventually(lambda: counts() == [4, 4] and not is_working(), JOB_SECONDS, 0.5)
        kept = walking.entries
        for number in range(max(map(len, WRONG.values()))):
            of_path = {path: entries[min(number, len(entries) - 1)] for path, entries in WRONG.items()}
            wrong = {name: of_path[path] for name, path in walking.paths.items()}
            walking.entries = {
                name: replace(kept[name], wrong=w.wrong, said=w.said, wrong_phase=w.wrong_phase)
                for name, w in wrong.items()
            }
            set_wrong(walking)
        walking.entries = kept

    march(walking, follow_and_be_told_wrong)


@pytest.mark.crash
def test_each_field_of_views_and_type_changes_leads_to_the_same_by_itself(
    cluster: Cluster, operator: Operator, kubelet: Kubelet, namespace: str, served: IcebergCatalog, connect_url: str
) -> None:
    march(campaign(cluster, namespace, served, connect_url, ONE_BY_ONE))
