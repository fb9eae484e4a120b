"""The operator is killed, API server and etcd restart, namespaces go, tables are very wide: it converges each time."""

from __future__ import annotations

import base64
import json
import signal
import time
from typing import Any

import yaml

from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.model.bookkeeping import read
from reconciler.model.table import TableIdent
from tests.crash.operator.secrets import holds
from tests.kube.cluster import Cluster
from tests.kube.operator import ACCOUNT, NAMESPACE, Operator, catalog, condition, eventually, table, wait_for

CANARY = "canary-4f9a1c"


def history(lake: IcebergCatalog, ident: TableIdent) -> list[str]:
    return [record.plan for record in read(lake.get_table_spec(ident).bookkeeping).history]


def test_killed_again_and_again_it_applies_each_plan_once(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    ident = TableIdent((namespace,), "orders")
    columns = ["id long"]
    for number in range(6):
        columns.append(f"c{number} string")
        cluster.apply(table("orders", namespace, *columns))
        time.sleep(0.12 * number)
        operator.restart()
    wait_for(cluster, namespace, "orders", "InSync")
    seen = lake.get_table_spec(ident)
    assert [field.name for field in seen.spec.schema.fields] == [column.split()[0] for column in columns]
    plans = history(lake, ident)
    assert len(plans) == len(set(plans))
    eventually(lambda: all(_phase(plan) in ("Applied", "Superseded") for plan in cluster.list("ltp", namespace)))
    applied = {plan["spec"]["hash"] for plan in cluster.list("ltp", namespace) if _phase(plan) == "Applied"}
    assert applied == set(plans)


def _phase(plan: dict[str, Any]) -> str:
    return str(plan.get("status", {}).get("phase", ""))


def test_it_survives_its_api_server_and_etcd(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    cluster.apply(table("before", namespace, "id long"))
    wait_for(cluster, namespace, "before", "InSync")
    cluster.stop("kube-apiserver", signal.SIGKILL)
    cluster.stop("etcd", signal.SIGKILL)
    cluster.start_etcd()
    cluster.start_api_server()
    cluster.wait_ready()
    cluster.apply(table("after", namespace, "id long"))
    wait_for(cluster, namespace, "after", "InSync")
    assert operator.process.poll() is None


def test_sigterm_ends_it_within_the_time_a_pod_is_given_and_without_an_error(
    cluster: Cluster, operator: Operator
) -> None:
    operator.wait_idle()
    told = operator.log.count("released Lease")
    assert operator.restart(signal.SIGTERM) == 0
    assert operator.log.count("released Lease") == told + 1, "nothing was under way that it had to wait for"


def test_5000_columns_from_a_config_map(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    columns = [{"name": f"column_{number}", "type": "long"} for number in range(5_000)]
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "wide-columns", "namespace": namespace},
        "data": {"columns.yaml": yaml.safe_dump(columns, default_flow_style=None, width=1000)},
    }
    cluster.apply(config_map, server_side=True)
    wide = table("wide", namespace, schemaFrom={"configMap": {"name": "wide-columns"}})
    del wide["spec"]["columns"]
    cluster.apply(wide)
    wait_for(cluster, namespace, "wide", "InSync")
    assert len(lake.get_table_spec(TableIdent((namespace,), "wide")).spec.schema.fields) == 5_000


def test_5000_columns_by_server_side_apply_and_one_more(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    ident = TableIdent((namespace,), "broad")
    for count in (5_000, 5_001):
        broad = table("broad", namespace, *(f"column_{number} long" for number in range(count)))
        text = json.dumps(broad)
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=text)
        wait_for(cluster, namespace, "broad", "InSync")
        assert len(lake.get_table_spec(ident).spec.schema.fields) == count


def test_a_namespace_full_of_tables_is_not_stuck_and_keeps_the_tables(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    for number in range(5):
        spec = table(f"t{number}", namespace, "id long", reconcile={"deletionPolicy": "Drop"})
        cluster.apply(spec)
        uuid = wait_for(cluster, namespace, f"t{number}", "InSync")["status"]["table"]["uuid"]
        cluster.apply({**spec, "spec": {**spec["spec"], "approval": {"drop": uuid}}})
    cluster.kubectl("delete", "namespace", namespace, "--timeout=300s")
    assert len(lake.list_tables((namespace,))) == 5


def test_a_catalogs_secret_is_used_and_shows_up_nowhere(
    cluster: Cluster, operator: Operator, namespace: str, sqlite_catalog: dict[str, str]
) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "lake-credentials", "namespace": namespace},
        "stringData": {"s3.secret-access-key": CANARY, "uri": sqlite_catalog["uri"]},
    }
    properties = {key: value for key, value in sqlite_catalog.items() if key != "uri"}
    cluster.apply(catalog("lake", namespace, properties, secretRef={"name": "lake-credentials"}))
    cluster.apply(table("orders", namespace, "id long"))
    waiting = wait_for(cluster, namespace, "orders", "Stalled")
    assert condition(waiting, "Ready")["reason"] == "CatalogNotReady"
    # The positive control: with its Secret the catalog can be reached at all.
    cluster.apply(secret)
    cluster.kubectl("annotate", "lt", "orders", "-n", namespace, "laketable.dev/reconcile-now=1")
    wait_for(cluster, namespace, "orders", "InSync")
    kinds = "laketables,lakecatalogs,laketableplans,configmaps,jobs,events.events.k8s.io"

    def tells() -> bool:
        written = cluster.kubectl("get", kinds, "-A", "-o", "json").stdout
        assert "lake-credentials" in written
        return holds(CANARY, written.encode())

    assert not tells()
    assert CANARY not in operator.log
    leak = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "leak", "namespace": namespace}}
    packed = base64.b64encode(f"a plan with {CANARY} somewhere in it".encode()).decode()
    cluster.apply({**leak, "data": {"plan": packed}})
    assert tells(), "the control: it is found where it is"


def test_an_operator_that_lacks_a_right_says_so(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    role = json.loads(cluster.kubectl("get", "clusterrole", "laketable-operator", "-o", "json").stdout)
    rules = role["rules"]
    role["rules"] = [
        rule for rule in rules if "create" not in rule["verbs"] or "laketableplans" not in rule["resources"]
    ]
    assert len(role["rules"]) < len(rules)
    role["metadata"] = {"name": "laketable-operator"}
    try:
        cluster.apply(role)
        asked = ("auth", "can-i", "create", "laketableplans", f"--as=system:serviceaccount:{NAMESPACE}:{ACCOUNT}")
        eventually(lambda: cluster.kubectl(*asked, check=False).stdout.strip() == "no")  # once it has read its roles
        cluster.apply(table("orders", namespace, "id long"))
        found = wait_for(cluster, namespace, "orders", "Stalled")
        assert condition(found, "Ready")["reason"] == "KubernetesForbidden"
    finally:
        cluster.apply({**role, "rules": rules})
    cluster.kubectl("annotate", "lt", "orders", "-n", namespace, "laketable.dev/reconcile-now=1")
    wait_for(cluster, namespace, "orders", "InSync")
