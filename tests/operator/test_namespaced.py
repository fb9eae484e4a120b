"""An operator of one namespace: a Role instead of a ClusterRole, and nothing outside of it is touched."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.kube.cluster import running_cluster
from tests.kube.operator import ACCOUNT, NAMESPACE, ROOT, catalog, install_crds, running_operator, table, wait_for


def test_a_role_per_namespace_suffices(tmp_path: Path, sqlite_catalog: dict[str, str]) -> None:
    cluster_role, *lease = yaml.safe_load_all((ROOT / "charts" / "raw" / "rbac.yaml").read_text())
    rules = cluster_role["rules"]
    with running_cluster(tmp_path / "cluster") as cluster:
        install_crds(cluster)
        kubeconfig = cluster.service_account(cluster.create_namespace(NAMESPACE), ACCOUNT)
        for namespace in ("ours", NAMESPACE):
            cluster.create_namespace(namespace)
            role = {"kind": "Role", "metadata": {"name": "laketable", "namespace": namespace}, "rules": rules}
            binding = {
                "kind": "RoleBinding",
                "metadata": {"name": "laketable", "namespace": namespace},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "laketable"},
                "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
            }
            version = {"apiVersion": "rbac.authorization.k8s.io/v1"}
            cluster.apply({**version, **role}, {**version, **binding})
        cluster.apply(*lease)
        cluster.create_namespace("theirs")
        options = ["--watch", "ours", "--cluster", "test"]
        with running_operator(kubeconfig, tmp_path / "operator.log", options) as operator:
            for namespace in ("theirs", "ours"):
                cluster.apply(catalog("lake", namespace, sqlite_catalog))
                cluster.apply(table("orders", namespace, "id long", identifier=f"{namespace}.namespaced"))
            wait_for(cluster, "ours", "orders", "InSync")
            assert "phase" not in cluster.get("laketable", "orders", "theirs")["status"]
            assert "Forbidden" not in operator.log
