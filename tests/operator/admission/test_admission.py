"""What an API server hears before it stores anything: refusals, warnings, and the plan of a dry run."""

from __future__ import annotations

import base64
import copy
import json
import re
import signal
import ssl
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.cli.project import load_project
from reconciler.errors import ManifestErrors
from reconciler.operator.certificates import Identity, is_fresh, make_identity, read_identity, secret_data
from tests.kube.cluster import Cluster
from tests.kube.operator import (
    NAMESPACE,
    Operator,
    catalog,
    condition,
    eventually,
    table,
    wait_for,
)
from tests.operator.admission_kit import (
    CANARY,
    WEBHOOK,
    changed,
    dry_run_of,
    refusal,
    silence,
    state,
    until_served,
    warnings,
    writes,
    wrong,
)
from tests.proxy import Fault, FaultProxy

# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("case", wrong("any"))
def test_a_wrong_manifest_is_refused_with_what_validate_says(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog, case: str, tmp_path: Path
) -> None:
    document = wrong(namespace)[case]
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(ManifestErrors) as found:
        load_project([str(tmp_path)])
    said = refusal(cluster, document)
    assert 'admission webhook "resources.laketable.dev" denied the request: ' in said
    for error in found.value.errors:
        assert f"{error.message} {error.hint}".rstrip() in said
    assert document["metadata"]["name"] not in [
        one["metadata"]["name"] for one in cluster.list(document["kind"], namespace)
    ]


def test_an_edit_is_refused_as_a_new_table_is_and_a_correction_admitted(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    orders = table("orders", namespace, "id long")
    assert not warnings(cluster, orders)
    wait_for(cluster, namespace, "orders", "InSync")
    assert "spec.sortOrder[0]" in refusal(cluster, changed(orders, sortOrder=[{"column": "none"}]))
    renamed = refusal(cluster, changed(orders, identifier=f"{namespace}.other"))
    assert f"write renamedFrom: {namespace}.orders" in renamed
    assert cluster.get("laketable", "orders", namespace)["metadata"]["generation"] == 1
    cluster.apply(changed(orders, sortOrder=[{"column": "id"}]))
    wait_for(cluster, namespace, "orders", "InSync")


@pytest.mark.parametrize(
    ("name", "properties", "said"),
    [
        pytest.param("lake", {"type": "rest", "uri": "https://c.example", "token": CANARY}, "'token'", id="a secret"),
        pytest.param("lake", {"type": "rest", "uri": "https://c.example", "py-io-impl": "x"}, "py-io-impl", id="code"),
        pytest.param("lake", {"type": "rest"}, "'uri' is missing", id="nowhere"),
        pytest.param("ours", {"type": "rest", "uri": "https://c.example"}, "the operator's own environment", id="ours"),
    ],
)
def test_a_catalog_that_tenants_may_not_have_is_refused(
    cluster: Cluster, operator: Operator, namespace: str, name: str, properties: dict[str, str], said: str
) -> None:
    assert said in refusal(cluster, catalog(name, namespace, properties))
    # the control: an honest one
    cluster.apply(catalog("theirs", namespace, {"type": "rest", "uri": "https://catalog.example"}))


def test_what_others_still_lack_is_a_warning(
    cluster: Cluster, operator: Operator, namespace: str, sqlite_catalog: dict[str, str]
) -> None:
    early = table("early", namespace, "id long", catalogRef={"name": "later"})
    assert warnings(cluster, early) == [f"The table waits: There is no LakeCatalog {namespace}/later yet."]
    cluster.apply(catalog("later", namespace, sqlite_catalog))
    wait_for(cluster, namespace, "early", "InSync")
    (rival,) = warnings(
        cluster, table("rival", namespace, "id long", identifier=f"{namespace}.early", catalogRef={"name": "later"})
    )
    assert rival == f"LakeTable {namespace}/early is older and claims {namespace}.early too; it wins."


def test_the_approval_of_a_plan_that_is_over_is_refused(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    orders = table("orders", namespace, "id long", "a long")
    cluster.apply(orders)
    wait_for(cluster, namespace, "orders", "InSync")
    cluster.apply(table("orders", namespace, "id long"))
    over = wait_for(cluster, namespace, "orders", "AwaitingApproval")["status"]["plan"]["name"]
    cluster.apply(orders)
    wait_for(cluster, namespace, "orders", "InSync")
    eventually(lambda: cluster.get("ltp", over, namespace)["status"]["phase"] == "Superseded")
    approve = ("patch", "ltp", "-n", namespace, "--type=merge", "-p", '{"spec": {"approved": true}}')
    refused = cluster.kubectl(*approve, over, check=False)
    assert "is Superseded: an approval does nothing" in refused.stderr
    cluster.apply(table("orders", namespace, "id long"))
    waiting = wait_for(cluster, namespace, "orders", "AwaitingApproval")["status"]["plan"]["name"]
    cluster.kubectl(*approve, waiting)
    wait_for(cluster, namespace, "orders", "InSync")


# ---------------------------------------------------------------- tenancy


def test_a_tenant_without_the_right_is_refused_and_hears_nothing_of_the_table(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog, sqlite_catalog: dict[str, str]
) -> None:
    cluster.apply(table("salaries", namespace, "person string", "monthly_pay long"))
    wait_for(cluster, namespace, "salaries", "InSync")
    tenant = cluster.create_namespace(f"{namespace}-tenant")
    mine = {"namespaces": [namespace], "catalogNamespaces": ["*"], "verbs": ["drop"]}
    theirs = {"namespaces": [tenant], "catalogNamespaces": [tenant], "verbs": ["apply"]}
    reference = {"name": "lake", "namespace": namespace}
    spy = table("spy", tenant, "id long", catalogRef=reference, identifier=f"{namespace}.salaries")
    view = copy.deepcopy(spy)
    del view["spec"]["columns"]
    view["spec"] |= {"identifier": f"{tenant}.spy"}
    view["spec"] |= {"materializedView": {"query": f"SELECT monthly_pay FROM `{namespace}`.salaries"}}
    own = changed(spy, identifier=f"{tenant}.spy")
    nobody, granted = (
        catalog("lake", namespace, sqlite_catalog),
        catalog("lake", namespace, sqlite_catalog, access=[mine, theirs]),
    )
    for grants, refused in ((nobody, (spy, view, own)), (granted, (spy, view))):
        cluster.apply(grants)
        for document in refused:
            for dry_run in (True, False):
                said = refusal(cluster, document, dry_run=dry_run)
                assert f"LakeCatalog {namespace}/lake does not let namespace {tenant}" in said
                assert "person" not in said
                assert not re.search(r"monthly_pay (int|long)|iceberg v|sha256", said)
    assert not cluster.list("laketable", tenant)
    # the controls: what it was granted, and a view once it may read
    assert any("would be carried out" in line for line in dry_run_of(cluster, own))
    read = {"namespaces": [tenant], "catalogNamespaces": [namespace], "verbs": ["read"]}
    cluster.apply(catalog("lake", namespace, sqlite_catalog, access=[mine, theirs, read]))
    assert any("monthly_pay" in line for line in dry_run_of(cluster, view))


def test_only_who_knows_the_path_is_answered(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    (hook,) = cluster.get("validatingwebhookconfiguration", WEBHOOK)["webhooks"]
    client = hook["clientConfig"]
    trusted = ssl.create_default_context(cadata=base64.b64decode(client["caBundle"]).decode())
    review = {"request": {"uid": "1", "kind": {"kind": "LakeTable"}, "operation": "CREATE", "dryRun": True}}
    review["request"]["object"] = table("orders", namespace, "id long")

    def ask(url: str) -> dict[str, Any]:
        body = json.dumps(review).encode()
        with urllib.request.urlopen(urllib.request.Request(url, body), context=trusted, timeout=10) as answer:
            found: dict[str, Any] = json.loads(answer.read())["response"]
            return found

    assert any("sha256:" in line for line in ask(client["url"])["warnings"])
    for path in ("/", "/validate", "/" + "a" * 32):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            ask(client["url"].rpartition("/")[0] + path)


# ---------------------------------------------------------------- dry runs


def test_a_dry_run_prints_the_plan_and_changes_nothing(
    cluster: Cluster,
    operator: Operator,
    kubernetes: FaultProxy,
    namespace: str,
    lake: IcebergCatalog,
    sqlite_catalog: dict[str, str],
) -> None:
    orders = table("orders", namespace, "id long", "note string", "extra string")
    assert any("would be carried out" in line for line in dry_run_of(cluster, orders))
    assert not cluster.list("laketable", namespace)
    cluster.apply(orders)
    wait_for(cluster, namespace, "orders", "InSync")
    eventually(lambda: "Applied" in {event["reason"] for event in cluster.list("events.events.k8s.io", namespace)})
    operator.wait_idle()

    kubernetes.forget()
    before = state(cluster, namespace, sqlite_catalog)
    edited = table("orders", namespace, "id long", "note string", "added date")
    told = dry_run_of(cluster, edited)
    assert state(cluster, namespace, sqlite_catalog) == before
    assert writes(kubernetes.requests) == []

    plan = re.search(r"plan (sha256:[0-9a-f]{64}) would not be carried out now \(ApprovalRequired\)", told[0])
    assert plan is not None, "\n".join(told)
    assert f"commit spec.approval.plan: {plan[1]}" in "\n".join(told)
    text = "\n".join(told)
    for part in ("- extra", "+ added", "destructive", "operations", "reads", "rewrites", "LK1"):
        assert part in text
    assert all(len(line) <= 256 for line in told)
    # committing that hash is what releases it, and a dry run says so beforehand
    approved = changed(edited, approval={"plan": plan[1]})
    assert f"plan {plan[1]} would be carried out" in dry_run_of(cluster, approved)[0]
    cluster.apply(approved)
    status = wait_for(cluster, namespace, "orders", "InSync")["status"]
    assert status["lastApplied"]["hash"] == plan[1]
    # the control: what was heard while nothing was written does hear of a write
    assert any("/laketableplans" in text for text in writes(kubernetes.requests))


def test_a_real_apply_computes_no_plan(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    assert warnings(cluster, table("orders", namespace, "id long", reconcile={"suspend": True})) == []
    assert (
        "suspend is true" in dry_run_of(cluster, table("orders", namespace, "id int", reconcile={"suspend": True}))[0]
    )


def test_a_dry_run_asks_the_catalog_for_reads_only(
    cluster: Cluster, operator: Operator, namespace: str, rest_catalog: dict[str, str]
) -> None:
    with FaultProxy(rest_catalog["uri"]) as heard:
        cluster.apply(catalog("lake", namespace, {"type": "rest", "uri": heard.uri}))
        orders = table("orders", namespace, "id int")
        cluster.apply(orders)
        wait_for(cluster, namespace, "orders", "InSync")
        heard.forget()
        told = dry_run_of(cluster, table("orders", namespace, "id long"))
        assert "would be carried out" in told[0]
        assert heard.requests
        assert {one.method for one in heard.requests} <= {"GET", "HEAD"}
        location = cluster.get("laketable", "orders", namespace)["status"]["table"]
        cluster.apply(table("orders", namespace, "id long"))
        after = wait_for(cluster, namespace, "orders", "InSync")["status"]["table"]
        assert after["schemaId"] > location["schemaId"]
        assert "POST" in {one.method for one in heard.requests}  # the control


def test_many_changes_fit_what_an_api_server_passes_on(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    names = [f"a_rather_long_name_for_a_column_{number}" for number in range(400)]
    told = dry_run_of(cluster, table("wide", namespace, *(f"{name} string" for name in names)))
    assert "would be carried out" in told[0]
    assert sum(map(len, told)) <= 4096
    assert any("more" in line for line in told)


@pytest.mark.parametrize("status", [400, 401, 403, 500])
def test_no_answer_repeats_a_secret(cluster: Cluster, operator: Operator, namespace: str, status: int) -> None:
    credentials = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "credentials", "namespace": namespace}}
    body = json.dumps({"error": {"message": f"wrong token {CANARY}", "type": CANARY, "code": status}}).encode()
    with FaultProxy("http://127.0.0.1:9") as heard:
        heard.plan(Fault(status=status, body=body, headers={"Content-Type": "application/json"}), times=1000)
        cluster.apply({**credentials, "stringData": {"token": CANARY}})
        cluster.apply(catalog("lake", namespace, {"type": "rest", "uri": heard.uri}, secretRef={"name": "credentials"}))
        told = dry_run_of(cluster, table("orders", namespace, "id long"))
        assert told[0].startswith("No plan: ")
        # the control: it was sent, and sent back
        assert any(CANARY in one.headers.get("Authorization", "") for one in heard.requests)
    assert CANARY not in operator.log


def test_a_catalog_that_hangs_holds_up_nobody(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog
) -> None:
    with silence() as uri:
        cluster.apply(catalog("stuck", namespace, {"type": "rest", "uri": uri}))
        stuck = table("stuck", namespace, "id long", catalogRef={"name": "stuck"})
        with ThreadPoolExecutor(3) as at_once:
            told = [
                line
                for found in at_once.map(lambda _: dry_run_of(cluster, stuck, is_patient=False), range(3))
                for line in found
            ]
        assert sorted(line.partition(".")[0] for line in told) == [
            "No plan: it was not ready in time",
            "No plan: it was not ready in time",
            "No plan: the catalog has not answered earlier dry runs yet",
        ]
        # others get their plans meanwhile, and a real apply does not ask the catalog
        other = table("other", namespace, "id long", catalogRef={"name": "lake"})
        assert "would be carried out" in dry_run_of(cluster, other)[0]
        assert warnings(cluster, stuck) == []
    cluster.kubectl("delete", "laketable", "stuck", "-n", namespace)


# ---------------------------------------------------------------- without it, and its certificate


def test_while_the_webhook_is_away_nothing_unsafe_gets_through(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog, sqlite_catalog: dict[str, str]
) -> None:
    cluster.apply(
        catalog(
            "closed",
            namespace,
            sqlite_catalog,
            access=[{"namespaces": ["nobody"], "catalogNamespaces": ["*"], "verbs": ["read"]}],
        )
    )
    assert operator.stop() == 0
    wrong = table("wrong", namespace, "id long", "id string", catalogRef={"name": "lake"})
    denied = table("denied", namespace, "id long", catalogRef={"name": "closed"})
    named = catalog("ours", namespace, {"type": "rest", "uri": "http://127.0.0.1:1"})
    cluster.apply(wrong, denied, named, table("named", namespace, "id long", catalogRef={"name": "ours"}))
    operator.restart()
    for name, reason in (("wrong", "InvalidInput"), ("denied", "AccessDenied"), ("named", "InvalidInput")):
        eventually(partial(_is_refused, cluster, name, namespace, reason))
    assert (
        CANARY
        not in cluster.kubectl(
            "get", "laketables,lakecatalogs,events.events.k8s.io", "-n", namespace, "-o", "yaml"
        ).stdout
    )
    assert lake.list_namespaces() == () or (namespace,) not in lake.list_namespaces()
    # what is wrong already stays wrong, but can be annotated, and corrected once admission is back
    until_served(cluster)
    cluster.kubectl("annotate", "laketable", "wrong", "-n", namespace, "laketable.dev/reconcile-now=1")
    assert "spec.columns[1].name" in refusal(cluster, changed(wrong, columns=wrong["spec"]["columns"], partitioning=[]))
    cluster.apply(table("wrong", namespace, "id long", catalogRef={"name": "lake"}))
    wait_for(cluster, namespace, "wrong", "InSync")
    assert CANARY not in operator.log


def _is_refused(cluster: Cluster, name: str, namespace: str, reason: str) -> bool:
    found = condition(cluster.get("laketable", name, namespace), "Ready")
    assert (found["status"], found["reason"]) == ("False", reason)
    return True


def _certificate(cluster: Cluster) -> Identity:
    found = read_identity(cluster.get("secret", WEBHOOK, NAMESPACE))
    assert found is not None
    return found


def test_a_certificate_is_kept_as_long_as_it_lasts_and_renewed_before_it_ends(
    cluster: Cluster, operator: Operator, kubernetes: FaultProxy, namespace: str
) -> None:
    first = _certificate(cluster)
    kubernetes.forget()
    operator.restart()
    until_served(cluster)
    assert _certificate(cluster) == first
    assert not [text for text in writes(kubernetes.requests) if "/secrets/" in text or "webhookconf" in text]

    now = datetime.now(UTC)
    ending = make_identity(["127.0.0.1"], now - timedelta(days=70))
    path = base64.b64decode(cluster.get("secret", WEBHOOK, NAMESPACE)["data"]["path"]).decode()
    patch = json.dumps({"data": secret_data(path, ending)})
    cluster.kubectl("patch", "secret", WEBHOOK, "-n", NAMESPACE, "--type=merge", "-p", patch)
    operator.restart(signal.SIGTERM)
    until_served(cluster)
    renewed = _certificate(cluster)
    assert is_fresh(renewed, ["127.0.0.1"], now)
    assert renewed.certificate != ending.certificate
    # who still shows the former is trusted as long as it lasts
    assert renewed.trust == renewed.certificate + ending.certificate
    (hook,) = cluster.get("validatingwebhookconfiguration", WEBHOOK)["webhooks"]
    assert base64.b64decode(hook["clientConfig"]["caBundle"]).decode() == renewed.trust
