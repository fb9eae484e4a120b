"""The Helm chart: linted, rendered, accepted by a real API server, and its operator run as it would be in a pod."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.engines.executors import BLOCK_PORT, DRIVER_PORT
from reconciler.errors import EnvironmentProblem
from tests.goldens import Golden
from tests.kube.assets import chart_programs
from tests.kube.cluster import Cluster, KubectlError, free_port, running_cluster
from tests.kube.operator import ROOT, eventually, install_crds, policy, running_operator

CHART = ROOT / "charts" / "laketable"
SYSTEM = "laketable-system"
IMAGE = "image.repository=registry.example/laketable-operator"
NAMESPACED = ("watchNamespaces={ours}", "clusterName=test", "jobs.serviceAccount=laketable-job")
RAW = {
    "rbac.yaml": ("role", "lease"),
    "operator.yaml": ("service-accounts", "binding", "deployment", "networkpolicy", "poddisruptionbudget"),
    "webhook.yaml": ("webhook",),
    "user-roles.yaml": ("user-roles",),
    "monitoring/service-monitor.yaml": ("metrics",),
    "executors/driver.yaml": ("executors",),
}
EXECUTORS = ("jobs.executors.enabled=true", "jobs.namespaces={sales}")
MONITORED = ("metrics.serviceMonitor.enabled=true", "metrics.dashboard.enabled=true")
HEADER = "# Rendered from charts/laketable by its tests; do not edit.\n"
_HELM_LABELS = re.compile(r"^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n", re.MULTILINE)


@pytest.fixture(scope="module")
def helm() -> Path:
    try:
        return chart_programs() / "helm"
    except EnvironmentProblem as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a cluster without anything of ours in it, where the release's namespace enforces Pod Security."""
    with running_cluster(tmp_path_factory.mktemp("chart")) as made:
        made.create_namespace(SYSTEM, **{"pod-security.kubernetes.io/enforce": "restricted"})
        made.create_namespace("ours")
        yield made


def run_helm(helm: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm, *arguments], capture_output=True, text=True, check=False, timeout=300)


def render(helm: Path, *values: str, only: tuple[str, ...] = ()) -> str:
    flags = [flag for value in (IMAGE, *values) for flag in ("--set", value)]
    shown = [flag for name in only for flag in ("--show-only", f"templates/{name}.yaml")]
    done = run_helm(helm, "template", "laketable", str(CHART), "--namespace", SYSTEM, *flags, *shown)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(text: str, kind: str = "") -> list[dict[str, Any]]:
    return [found for found in yaml.safe_load_all(text) if found and kind in ("", found["kind"])]


# ---------------------------------------------------------------- without a cluster


@pytest.mark.parametrize("path", sorted((ROOT / "crds").glob("*.yaml")), ids=lambda path: path.name)
def test_the_charts_crds_are_the_crds(path: Path, golden: Golden) -> None:
    golden.check_file(CHART / "files" / "crds" / path.name, path.read_text())


def test_the_chart_has_no_other_crds() -> None:
    names = {path.name for path in (ROOT / "crds").iterdir()}
    assert {path.name for path in (CHART / "files" / "crds").iterdir()} == names


@pytest.mark.parametrize("name", RAW)
def test_the_raw_manifests_are_the_charts(helm: Path, golden: Golden, name: str) -> None:
    values = {"monitoring": MONITORED, "executors": EXECUTORS}.get(name.partition("/")[0], ())
    rendered = "".join(render(helm, *values, only=(template,)) for template in RAW[name])
    text = re.sub(r"\n{2,}", "\n", _HELM_LABELS.sub("", rendered))
    golden.check_file(ROOT / "charts" / "raw" / name, HEADER + text)


def test_every_template_is_in_the_raw_manifests() -> None:
    rendered = {template for templates in RAW.values() for template in templates}
    assert {path.stem for path in (CHART / "templates").glob("*.yaml")} == rendered | {"crds", "dashboard"}


@pytest.mark.parametrize("values", [(), NAMESPACED, MONITORED], ids=["cluster", "namespaced", "monitored"])
def test_the_chart_lints(helm: Path, values: tuple[str, ...]) -> None:
    flags = [flag for value in (IMAGE, *values) for flag in ("--set", value)]
    done = run_helm(helm, "lint", "--strict", str(CHART), *flags)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param(["image.tag=v1"], "Set image.repository", id="no image"),
        pytest.param([IMAGE, "watchNamespaces={ours}"], "Set clusterName", id="namespaced without a name"),
        pytest.param([IMAGE, "operator.logLevel=loud"], "logLevel", id="value"),
        pytest.param([IMAGE, "operater.logLevel=info"], "operater", id="misspelt"),
        pytest.param([IMAGE, "image.digest=latest"], "digest", id="digest"),
        pytest.param([IMAGE, "replicas=two"], "replicas", id="replicas"),
        pytest.param([IMAGE, "metrics.serviceMonitor.interval=often"], "interval", id="interval"),
        pytest.param([IMAGE, "serviceAccount.create=false"], "Set serviceAccount.name", id="nobody"),
    ],
)
def test_wrong_values_are_refused_with_what_to_do(helm: Path, values: list[str], said: str) -> None:
    flags = [flag for value in values for flag in ("--set", value)]
    done = run_helm(helm, "template", "laketable", str(CHART), *flags)
    assert done.returncode != 0
    assert said in done.stderr


def test_crds_are_kept_when_the_release_goes(helm: Path) -> None:
    kept = objects(render(helm), "CustomResourceDefinition")
    assert len(kept) == 4
    for crd in kept:
        assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        source = yaml.safe_load((ROOT / "crds" / f"{crd['spec']['names']['plural']}.yaml").read_text())
        assert crd["spec"] == source["spec"]
    assert not objects(render(helm, "crds.install=false"), "CustomResourceDefinition")


def test_one_namespace_needs_no_cluster_role_and_the_same_rules(helm: Path) -> None:
    (whole,) = objects(render(helm, only=("role",)), "ClusterRole")
    roles = objects(render(helm, *NAMESPACED, only=("role",)))
    assert [(role["kind"], role["metadata"]["namespace"]) for role in roles] == [("Role", "ours"), ("Role", SYSTEM)]
    assert all(role["rules"] == whole["rules"] for role in roles)
    bindings = objects(render(helm, *NAMESPACED, only=("binding",)))
    assert [binding["kind"] for binding in bindings] == ["RoleBinding", "RoleBinding"]


def test_secrets_can_be_named_one_by_one(helm: Path) -> None:
    grant = ("rbac.allSecrets=false", "rbac.secrets[0].namespace=ours", "rbac.secrets[0].names={lake-credentials}")
    rendered = objects(render(helm, *grant))
    rules = [
        (found["kind"], found["metadata"].get("namespace"), rule.get("resourceNames"), rule["verbs"])
        for found in rendered
        for rule in found.get("rules", ())
        if "secrets" in rule["resources"]
    ]
    assert sorted(rules) == [
        ("Role", SYSTEM, ["laketable-webhook"], ["get", "patch"]),
        ("Role", "ours", ["lake-credentials"], ["get"]),
    ]


def test_cert_manager_makes_the_certificate_where_it_is_asked_to(helm: Path) -> None:
    ours = render(helm, "webhook.certManager.enabled=true", only=("webhook",))
    (certificate,), (issuer,) = objects(ours, "Certificate"), objects(ours, "Issuer")
    (configuration,) = objects(ours, "ValidatingWebhookConfiguration")
    (service,) = objects(ours, "Service")
    place = f"{SYSTEM}/{certificate['metadata']['name']}"
    assert configuration["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": place}
    assert certificate["spec"]["issuerRef"] == {"kind": "Issuer", "name": issuer["metadata"]["name"]}
    assert f"{service['metadata']['name']}.{SYSTEM}.svc" in certificate["spec"]["dnsNames"]
    (deployment,) = objects(render(helm, "webhook.certManager.enabled=true", only=("deployment",)))
    pod = deployment["spec"]["template"]["spec"]
    (mount,) = [m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "certificates"]
    (volume,) = [v for v in pod["volumes"] if v["name"] == "certificates"]
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    assert f"--webhook-certificates={mount['mountPath']}" in pod["containers"][0]["args"]
    issuer_of_theirs = ("webhook.certManager.issuerRef.kind=ClusterIssuer", "webhook.certManager.issuerRef.name=theirs")
    theirs = render(helm, "webhook.certManager.enabled=true", *issuer_of_theirs, only=("webhook",))
    assert not objects(theirs, "Issuer")
    assert objects(theirs, "Certificate")[0]["spec"]["issuerRef"] == {"kind": "ClusterIssuer", "name": "theirs"}


def test_only_where_executors_are_let_may_a_job_make_pods_or_be_connected_to(helm: Path) -> None:
    def of_jobs(rendered: str) -> Any:
        (policy_,) = [f for f in objects(rendered, "NetworkPolicy") if f["metadata"]["name"].endswith("-jobs")]
        return policy_["spec"]["ingress"]

    without = render(helm, *NAMESPACED)
    assert "laketable-driver" not in without
    assert "--job-driver-service-account" not in without
    assert of_jobs(without) == []

    let = render(helm, *NAMESPACED, "jobs.executors.enabled=true", "jobs.executors.serviceAccount=spark")
    (role,) = [found for found in objects(let, "Role") if found["metadata"]["name"] == "spark"]
    assert role["metadata"]["namespace"] == "ours"
    assert [rule["resources"] for rule in role["rules"]] == [["pods"]]
    (rule,) = of_jobs(let)
    assert [port["port"] for port in rule["ports"]] == [DRIVER_PORT, BLOCK_PORT]
    (peer,) = rule["from"]
    assert peer == {"podSelector": {"matchLabels": {"app.kubernetes.io/managed-by": "laketable"}}}
    (deployment,) = objects(let, "Deployment")
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--job-driver-service-account=spark" in arguments


def test_without_the_webhook_nothing_of_it_is_left(helm: Path) -> None:
    rendered = render(helm, "webhook.enabled=false")
    assert "webhook" not in rendered
    assert "9443" not in rendered
    (configuration,) = objects(render(helm, *NAMESPACED, only=("webhook",)), "ValidatingWebhookConfiguration")
    (hook,) = configuration["webhooks"]
    (wanted,) = hook["namespaceSelector"]["matchExpressions"]
    assert wanted == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["ours", SYSTEM]}
    assert hook["failurePolicy"] == "Ignore"
    assert hook["timeoutSeconds"] <= 10


# ---------------------------------------------------------------- on an API server


@pytest.mark.parametrize(
    "values", [(), (*NAMESPACED, "jobs.executors.enabled=true")], ids=["cluster", "namespaced with executors"]
)
def test_an_api_server_accepts_everything(helm: Path, server: Cluster, values: tuple[str, ...]) -> None:
    rendered = render(helm, *values)
    done = server.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=rendered)
    assert len(done.stdout.splitlines()) == len(objects(rendered))
    assert "would violate PodSecurity" not in done.stderr


def is_scraped(rendered: str) -> bool:
    (policy_,) = [found for found in objects(rendered, "NetworkPolicy") if found["metadata"]["namespace"] == SYSTEM]
    return {"port": "http", "protocol": "TCP"} in [p for rule in policy_["spec"]["ingress"] for p in rule["ports"]]


def test_metrics_are_scraped_and_shown_where_that_is_asked_for(helm: Path, server: Cluster) -> None:
    assert not objects(render(helm), "ServiceMonitor")
    rendered = render(helm, *MONITORED, "metrics.serviceMonitor.labels.release=prometheus")
    (monitor,) = objects(rendered, "ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (service,) = [found for found in objects(rendered, "Service") if found["metadata"]["name"].endswith("-metrics")]
    selected = monitor["spec"]["selector"]["matchLabels"]
    assert selected.items() <= service["metadata"]["labels"].items()
    assert [port["name"] for port in service["spec"]["ports"]] == [end["port"] for end in monitor["spec"]["endpoints"]]
    (deployment,) = objects(rendered, "Deployment")
    pod = deployment["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["spec"]["ports"][0]["targetPort"] in [p["name"] for p in pod["spec"]["containers"][0]["ports"]]
    annotated = render(helm, "podAnnotations.prometheus\\.io/scrape=yes")
    assert [is_scraped(text) for text in (rendered, annotated, render(helm))] == [True, True, False]
    (shown,) = objects(rendered, "ConfigMap")
    assert json.loads(shown["data"]["laketable.json"]) == json.loads((CHART / "files" / "dashboard.json").read_text())

    server.kubectl("apply", "-f", str(ROOT / "tests" / "kube" / "servicemonitor.yaml"))
    server.kubectl("wait", "--for=condition=Established", "crd/servicemonitors.monitoring.coreos.com", "--timeout=120s")
    check = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
    eventually(lambda: server.kubectl(*check, stdin=rendered))
    with pytest.raises(KubectlError, match="intervall"):
        server.kubectl(*check, stdin=rendered.replace("interval:", "intervall:"))


def test_several_operators_share_one_lease_that_only_they_may_hold(helm: Path) -> None:
    rendered = render(helm, "replicas=3")
    (deployment,) = objects(rendered, "Deployment")
    assert deployment["spec"]["replicas"] == 3
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (name,) = [text.partition("=")[2] for text in container["args"] if text.startswith("--lease=")]
    (role,) = [found for found in objects(rendered, "Role") if found["metadata"]["name"].endswith("-lease")]
    assert role["metadata"]["namespace"] == SYSTEM
    assert [(rule.get("resourceNames"), rule["verbs"]) for rule in role["rules"]] == [
        (None, ["create"]),
        ([name], ["get", "patch"]),
    ]


def test_the_check_would_notice(helm: Path, server: Cluster) -> None:
    server.kubectl("apply", "-f", "-", stdin=render(helm, only=("service-accounts",)))
    text = render(helm, only=("deployment",))
    with pytest.raises(KubectlError, match="replicaz"):
        server.kubectl(
            *("apply", "--dry-run=server", "--validate=strict", "-f", "-"), stdin=text.replace("replicas:", "replicaz:")
        )
    (deployment,) = objects(text)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": SYSTEM}}
    privileged = deployment["spec"]["template"]["spec"] | {"securityContext": {}, "hostNetwork": True}
    with pytest.raises(KubectlError, match="violates PodSecurity"):
        server.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump({**pod, "spec": privileged}))


def test_the_operators_pod_passes_pod_security_restricted(helm: Path, server: Cluster) -> None:
    server.kubectl("apply", "-f", "-", stdin=render(helm, only=("service-accounts",)))
    (deployment,) = objects(render(helm, only=("deployment",)))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": SYSTEM}}
    spec = deployment["spec"]["template"]["spec"]
    server.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump({**pod, "spec": spec}))


def test_who_may_approve_is_not_who_may_edit(helm: Path, server: Cluster) -> None:
    install_crds(server)
    server.kubectl("apply", "-f", "-", stdin=render(helm, only=("user-roles",)))
    may = {
        "view": {"get laketableplans"},
        "edit": {"patch laketables"},
        "platform": {"patch lakepolicies"},
        "approver": {"get laketableplans", "patch laketableplans"},
    }
    asked = sorted({question for questions in may.values() for question in questions})
    for role, wanted in may.items():
        server.kubectl("create", "rolebinding", role, "-n", "ours", f"--clusterrole=laketable-{role}", f"--user={role}")
        eventually(partial(_is_granted, server, role, asked, wanted))


def _is_granted(server: Cluster, user: str, questions: list[str], wanted: set[str]) -> bool:
    flags = ("-n", "ours", f"--as={user}")
    asked = {words: server.kubectl("auth", "can-i", *words.split(), *flags, check=False) for words in questions}
    found = {words for words, done in asked.items() if done.stdout.startswith("yes")}
    assert found == wanted, user
    return True


def test_the_installed_operator_answers_its_probes_and_works(helm: Path, server: Cluster, tmp_path: Path) -> None:
    """With the chart's own account, roles and arguments; only ports differ, and the Service leads to this machine."""
    install_crds(server)
    port, webhook = free_port(), free_port()
    installed = render(helm, *NAMESPACED, "crds.install=false")
    released = [_leading_here(found, webhook) for found in objects(installed)]
    server.apply(*released)
    (deployment,) = objects(installed, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    probe = container["livenessProbe"]["httpGet"]
    assert container["command"] == ["laketable"]
    assert container["startupProbe"]["httpGet"] == probe
    assert {"name": probe["port"], "containerPort": 8080} in container["ports"]
    ports = {"0.0.0.0:8080": f"127.0.0.1:{port}", "0.0.0.0:9443": f"127.0.0.1:{webhook}"}
    arguments = container["args"]
    for declared, free in ports.items():
        arguments = [text.replace(declared, free) for text in arguments]
    assert arguments[:2] == ["operator", "run"]
    kubeconfig = server.service_account(SYSTEM, pod["serviceAccountName"])
    with running_operator(kubeconfig, tmp_path / "operator.log", arguments[2:]) as operator:
        url = f"http://127.0.0.1:{port}{probe['path']}"
        assert eventually(lambda: _status(url)) == 200
        server.create_namespace("theirs")
        for namespace in ("theirs", "ours"):
            server.apply(policy("strict", namespace, autoApprove=["metadata-only"]))

        def is_valid() -> bool:
            conditions = server.get("lakepolicy", "strict", "ours").get("status", {}).get("conditions", [])
            return any(found["type"] == "Ready" and found["status"] == "True" for found in conditions)

        assert eventually(is_valid)
        nothing = policy("nothing", "ours", deny={"reason": "Because."})
        eventually(lambda: "'deny' names nothing" in _refusal(server, nothing))
        server.apply(policy("nothing", "theirs", deny={"reason": "Because."}))  # not ours to judge
        written = _written_by_the_operator(server)
        shared = [found for found in released if found["kind"] in ("Secret", "ValidatingWebhookConfiguration")]
        for server_side in (False, True):  # an upgrade, or a sync
            server.apply(*shared, server_side=server_side)
            assert _written_by_the_operator(server) == written
        assert "conditions" not in server.get("lakepolicy", "strict", "theirs")["status"]
        assert "Forbidden" not in operator.log
        assert operator.stop() == 0


def _leading_here(found: dict[str, Any], port: int) -> dict[str, Any]:
    """Do what a cluster's network would: lead API servers to the webhook, by the name that it has in the cluster."""
    if found["kind"] == "Service" and found["metadata"]["name"] == "laketable-webhook":
        found["spec"] = {"type": "ExternalName", "externalName": "localhost"}
    for hook in found.get("webhooks", ()):
        hook["clientConfig"]["service"]["port"] = port
    return found


def _written_by_the_operator(server: Cluster) -> tuple[object, ...]:
    (hook,) = server.get("validatingwebhookconfiguration", "laketable-webhook")["webhooks"]
    secret = server.get("secret", "laketable-webhook", SYSTEM)["data"]
    assert {"path", "tls.crt", "tls.key", "ca.crt"} == set(secret)
    assert len(hook["clientConfig"]["service"]["path"]) > 32
    return hook["clientConfig"], secret


def _refusal(server: Cluster, document: dict[str, Any]) -> str:
    text = yaml.safe_dump(document)
    return server.kubectl("apply", "--dry-run=server", "-f", "-", stdin=text, check=False).stderr


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except OSError:
        return 0
