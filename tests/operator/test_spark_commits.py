"""What a catalog cannot commit, a job commits through Spark: the plan that was released, and no other."""

from __future__ import annotations

import pytest

from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.model.bookkeeping import read
from reconciler.model.table import TableIdent
from tests.kube.campaign import JOB_SECONDS
from tests.kube.cluster import Cluster
from tests.kube.kubelet import Kubelet
from tests.kube.operator import Operator, catalog, condition, table, wait_for
from tests.operator.test_jobs import JOB, fill

pytestmark = pytest.mark.spark  # in the pods


def test_format_version_3_in_a_sql_catalog_is_committed_by_a_job(
    cluster: Cluster, operator: Operator, kubelet: Kubelet, namespace: str, lake: IcebergCatalog
) -> None:
    properties = {key: str(value) for key, value in lake.settings.properties.items()}
    cluster.apply(catalog("lake", namespace, properties, runtime=JOB))
    spec = table("orders", namespace, "id long", "amount long")
    cluster.apply(spec)
    wait_for(cluster, namespace, "orders", "InSync")
    assert cluster.list("jobs", namespace) == []
    ident = TableIdent((namespace,), "orders")
    fill(lake, ident, 3)

    spec["spec"] |= {"formatVersion": 3, "reconcile": {"mode": "Plan"}}
    cluster.apply(spec)
    planned = wait_for(cluster, namespace, "orders", "Planned")["status"]["plan"]
    spec["spec"] |= {"reconcile": {"mode": "Apply"}, "approval": {"plan": planned["hash"]}}  # it breaks old readers
    cluster.apply(spec)
    done = wait_for(cluster, namespace, "orders", "InSync", JOB_SECONDS)
    seen = lake.get_table_spec(ident)
    assert seen.spec.format_version == 3
    assert seen.statistics.rows == 3
    assert done["status"]["lastApplied"]["hash"] == planned["hash"]
    assert condition(done, "Ready")["status"] == "True"
    last = read(seen.bookkeeping).history[-1]
    assert (last.plan, last.actor.partition("/")[0]) == (planned["hash"], "operator")
    (job,) = cluster.list("jobs", namespace)
    assert "--commit" in job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert cluster.get("laketableplan", planned["name"], namespace)["status"]["phase"] == "Applied"
