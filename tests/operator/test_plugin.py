"""`kubectl laketable`, started by kubectl itself: plans are shown, and approved by hash with one's own rights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.model.table import TableIdent
from tests.kube.cluster import Cluster
from tests.kube.operator import ROOT, Operator, catalog, eventually, table, wait_for

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def laketable(cluster: Cluster, namespace: str, tmp_path: Path) -> Run:
    """Put the plugin on the PATH; the runner of `kubectl laketable`."""
    program = tmp_path / "kubectl-laketable"
    program.write_text(f"#!{sys.executable}\nfrom reconciler.cli.main import kubectl_main\nkubectl_main()\n")
    program.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{cluster.programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "KUBECONFIG": str(cluster.kubeconfig),
    }

    def run(*arguments: str, code: int = 0, user: Path | None = None) -> subprocess.CompletedProcess[str]:
        flags = ["-n", namespace, *(["--kubeconfig", str(user)] if user else [])]
        command = [str(cluster.programs / "kubectl"), "laketable", *arguments, *flags]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


def waiting(cluster: Cluster, namespace: str) -> str:
    """Let a destructive edit wait; return its plan's hash."""
    spec = table("orders", namespace, "id long", "extra string")
    cluster.apply(spec)
    wait_for(cluster, namespace, "orders", "InSync")
    del spec["spec"]["columns"][1]
    cluster.apply(spec)
    found: str = wait_for(cluster, namespace, "orders", "AwaitingApproval")["status"]["plan"]["hash"]
    return found


def test_a_plan_is_seen_and_released_by_its_hash_only(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog, laketable: Run
) -> None:
    digits = waiting(cluster, namespace).removeprefix("sha256:")
    listed = laketable("status").stdout.splitlines()
    assert listed[0].split()[:3] == ["NAME", "READY", "PHASE"]
    assert listed[1].split()[:3] == ["orders", "False", "AwaitingApproval"]
    said = laketable("status", "orders").stdout
    assert "orders: AwaitingApproval (ApprovalRequired)" in said
    assert f"plan {digits[:8]}:" in said
    shown = laketable("plan", "orders").stdout
    assert f"sha256:{digits}" in shown
    assert "extra" in shown
    assert "destructive" in shown
    assert shown.splitlines()[-1] == f"approve it: kubectl laketable approve orders {digits[:8]}"

    assert "is too short" in laketable("approve", "orders", digits[:7], code=1).stderr
    assert "no plan with hash" in laketable("approve", "orders", "0" * 64, code=1).stderr
    viewer = cluster.service_account(namespace, "viewer")
    cluster.kubectl(
        *("create", "role", "viewer", "-n", namespace, "--verb=get,list"),
        "--resource=laketables.laketable.dev,laketableplans.laketable.dev",
    )
    account = f"--serviceaccount={namespace}:viewer"
    cluster.kubectl("create", "rolebinding", "viewer", "-n", namespace, "--role=viewer", account)
    eventually(lambda: laketable("plan", "orders", user=viewer).stdout == shown)
    assert "cannot patch resource" in laketable("approve", "orders", digits, code=1, user=viewer).stderr
    orders = TableIdent((namespace,), "orders")
    assert len(lake.get_table_spec(orders).spec.schema.fields) == 2

    laketable("approve", "orders", digits[:8])
    wait_for(cluster, namespace, "orders", "InSync")
    assert len(lake.get_table_spec(orders).spec.schema.fields) == 1
    assert eventually(lambda: "  Applied  " in (laketable("history", "orders").stdout.splitlines()[1]))
    newest = laketable("history", "orders").stdout.splitlines()[1].split()
    assert newest[1:4] == [digits[:8], "Applied", "destructive"]
    assert "approve it" not in laketable("plan", "orders").stdout
    assert "NotFound" in laketable("plan", "nothing", code=1).stderr


def test_a_document_that_is_another_plan_is_not_shown_and_not_approved(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog, laketable: Run
) -> None:
    """Whoever may create plan objects could put another plan's text beside a hash; the reviewer would read a lie."""
    plan_hash = waiting(cluster, namespace)
    honest, other = sorted(
        cluster.list("laketableplans", namespace), key=lambda found: bool(found["spec"]["hash"] != plan_hash)
    )
    metadata = {"name": "zzz", "namespace": namespace, "labels": honest["metadata"]["labels"]}
    forged = honest | {"metadata": metadata, "spec": honest["spec"] | {"document": other["spec"]["document"]}}
    del forged["status"]
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(forged))
    assert "not the plan that its hash names" in laketable("plan", "orders", code=1).stderr
    assert "several plans" in laketable("approve", "orders", plan_hash, code=1).stderr

    cluster.kubectl("delete", "laketableplan", honest["metadata"]["name"], "-n", namespace)
    refused = laketable("approve", "orders", plan_hash, code=1).stderr
    assert "not the plan that its hash names" in refused or "several plans" in refused
    assert not any(found["spec"]["approved"] for found in cluster.list("laketableplans", namespace))


def test_lineage_is_of_what_the_caller_may_read(
    cluster: Cluster, operator: Operator, namespace: str, laketable: Run
) -> None:
    other = cluster.create_namespace(f"{namespace}-other")
    reference = {"catalogRef": {"name": "nowhere", "namespace": namespace}}  # no catalog is asked
    daily = f"SELECT day, sum(amount) AS revenue, count(*) AS n FROM `{namespace}`.orders GROUP BY day"
    views = {"daily": daily, "monthly": f"SELECT sum(revenue) AS revenue FROM `{namespace}`.daily"}
    cluster.apply(table("orders", namespace, "day date", "amount long", **reference))
    for name, query in views.items():
        cluster.apply(_view(name, namespace, query, **reference))
    cluster.apply(_view("spy", other, f"SELECT max(amount) AS most FROM `{namespace}`.orders", **reference))

    shown = laketable("lineage").stdout.splitlines()
    assert shown == [
        f"{namespace}.daily reads {namespace}.orders (amount, day)",
        f"  day ← {namespace}.orders.day",
        f"  revenue ← {namespace}.orders.amount",
        "  n ← no column",
        f"{namespace}.monthly reads {namespace}.daily (revenue)",
        f"  revenue ← {namespace}.daily.revenue",
    ]
    assert laketable("lineage", "monthly").stdout.splitlines() == shown
    assert laketable("lineage", "daily").stdout.splitlines() == shown[:4]
    assert "reads no other table" in laketable("lineage", "orders").stdout
    assert "There is no LakeTable nothing" in laketable("lineage", "nothing", code=1).stderr
    drawn = laketable("lineage", "monthly", "-o", "mermaid").stdout.splitlines()
    assert drawn[0] == "flowchart LR"
    assert f'  t1["{namespace}.orders"]' in drawn or any(f'["{namespace}.orders"]' in line for line in drawn)
    assert sum("-->" in line for line in drawn) == 2

    assert f"{other}.spy reads" in laketable("lineage", "-A").stdout
    viewer = cluster.service_account(namespace, "lineage-viewer")
    account = f"--serviceaccount={namespace}:lineage-viewer"
    resource = "--resource=laketables.laketable.dev"
    cluster.kubectl("create", "role", "lineage-viewer", "-n", namespace, "--verb=get,list", resource)
    cluster.kubectl("create", "rolebinding", "lineage-viewer", "-n", namespace, "--role=lineage-viewer", account)
    eventually(lambda: laketable("lineage", user=viewer).stdout.splitlines() == shown)
    refused = laketable("lineage", "-A", code=1, user=viewer)
    assert "cannot list resource" in refused.stderr
    assert "spy" not in refused.stdout


def _view(name: str, namespace: str, query: str, **spec: Any) -> dict[str, Any]:
    made = table(name, namespace, materializedView={"query": query}, **spec)
    del made["spec"]["columns"]
    return made


def test_a_plan_reads_as_on_the_command_line(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog, laketable: Run, tmp_path: Path
) -> None:
    waiting(cluster, namespace)
    shown = laketable("plan", "orders").stdout.splitlines()
    properties = {key: str(value) for key, value in lake.settings.properties.items()}
    spec = table("orders", namespace, "id long", catalogRef={"name": "lake"})
    documents = [catalog("lake", namespace, properties), spec]
    (tmp_path / "orders.yaml").write_text("---\n".join(json.dumps(document) + "\n" for document in documents))
    owner = lake.get_table_spec(TableIdent((namespace,), "orders")).bookkeeping["laketable.owner"]
    environment = {**os.environ, "LAKETABLE_PROJECT": owner.partition("/")[0], "COLUMNS": "120"}
    command = [sys.executable, "-c", "import sys; from reconciler.cli.main import run; sys.exit(run(sys.argv[1:]))"]
    done = subprocess.run(
        [*command, "plan", "-f", "orders.yaml"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stdout.splitlines() if line]
    # The command line goes on with what to do next there; the plan itself is the same, word by word.
    assert [line for line in shown[1:-1] if line] == told[: len([line for line in shown[1:-1] if line])]
    assert len(told) >= 4
