"""What a LakeCatalog asks of its jobs' pods: it reaches them, and gives them no right; on a real API server too."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from reconciler.model.manifest import LakeCatalog
from reconciler.operator.job_manifest import TABLE_UID_LABEL, for_job, job
from tests.kube.cluster import Cluster, KubectlError
from tests.kube.operator import catalog, eventually, let_drive
from tests.operator.test_job_manifest import SETTINGS, TABLE, lake, plan, work

ASKED: dict[str, Any] = {
    "labels": {"team": "sales", "app.kubernetes.io/part-of": "lake"},
    "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
    "nodeSelector": {"node.kubernetes.io/instance-type": "large"},
    "tolerations": [
        {"key": "spark", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        {"key": "team", "operator": "Equal", "value": "sales"},
    ],
    "schedulerName": "volcano",
    "imagePullSecrets": ["registry"],
    "cpuRequest": "500m",
    "cpuLimit": "2",
    "temporaryStorage": "20Gi",
}


def template_of(lake_: LakeCatalog) -> dict[str, Any]:
    made: Any = job("lt-orders-1", TABLE, lake_, plan(), SETTINGS)
    template: dict[str, Any] = made["spec"]["template"]
    return template


def test_what_is_asked_reaches_the_pod_and_everything_else_stays() -> None:
    plain, asked = template_of(lake("sales")), template_of(lake("sales", pod=ASKED, cores=4))
    labels, spec, bare = asked["metadata"]["labels"], asked["spec"], plain["spec"]
    assert labels == {**plain["metadata"]["labels"], **ASKED["labels"]}
    assert asked["metadata"]["annotations"] == ASKED["annotations"]
    assert {key: spec[key] for key in ("nodeSelector", "tolerations", "schedulerName")} == {
        key: ASKED[key] for key in ("nodeSelector", "tolerations", "schedulerName")
    }
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    (container,), (other,) = spec["containers"], bare["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "500m", "memory": "2560Mi"},
        "limits": {"cpu": "2", "memory": "2560Mi"},
    }
    assert [v["emptyDir"] for v in spec["volumes"] if "emptyDir" in v] == [{"sizeLimit": "20Gi"}]
    changed = {"resources"}
    assert {k: v for k, v in container.items() if k not in changed} == {
        k: v for k, v in other.items() if k not in changed
    }
    new = {"nodeSelector", "tolerations", "schedulerName", "imagePullSecrets", "volumes", "containers"}
    assert {k: v for k, v in spec.items() if k not in new} == {k: v for k, v in bare.items() if k not in new}


def test_our_labels_win_even_past_the_checks() -> None:
    """A LakeCatalog that got by every check could still not make its pods those of another table."""
    lake_ = lake("sales", pod={"labels": {"team": "sales"}})
    assert lake_.spec.runtime is not None
    assert lake_.spec.runtime.pod is not None
    forged = {"team": "sales", TABLE_UID_LABEL: "another", "app.kubernetes.io/managed-by": "somebody"}
    pod = lake_.spec.runtime.pod.model_copy(update={"labels": forged})
    runtime = lake_.spec.runtime.model_copy(update={"pod": pod})
    past = lake_.model_copy(update={"spec": lake_.spec.model_copy(update={"runtime": runtime})})
    labels = template_of(past)["metadata"]["labels"]
    assert labels == {**template_of(lake("sales"))["metadata"]["labels"], "team": "sales"}


def test_the_job_itself_is_told_nothing_of_its_pod() -> None:
    handed = for_job(lake("sales", pod=ASKED)).spec.runtime
    assert handed is not None
    assert handed.pod is None


def test_a_restricted_namespace_accepts_the_pod_with_all_that_can_be_asked(
    cluster: Cluster, operator_kubeconfig: object
) -> None:
    namespace = cluster.create_namespace("asked", **{"pod-security.kubernetes.io/enforce": "restricted"})
    cluster.apply(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "laketable-test"},
            "value": 1,
        }
    )
    template = template_of(lake(namespace, pod={**ASKED, "priorityClassName": "laketable-test"}))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asked", "namespace": namespace, **template["metadata"]},
        "spec": template["spec"],
    }
    made = json.loads(_try(cluster, pod, "-o", "json"))
    assert made["spec"]["priorityClassName"] == "laketable-test"
    pod["spec"] = {**template["spec"], "hostNetwork": True}
    with pytest.raises(KubectlError, match="restricted"):
        _try(cluster, pod)


EXECUTORS = {"instances": 2, "memory": "4Gi", "cores": 2}


def executor_template(lake_: LakeCatalog) -> Any:
    """Return what the driver reads executors' pods from."""
    import yaml

    return yaml.safe_load(work(lake_)["data"]["executor.yaml"])


def test_only_the_driver_of_a_job_with_executors_may_make_pods() -> None:
    plain, driving = lake("sales"), lake("sales", executors=EXECUTORS)
    committing: Any = job("lt-orders-1", TABLE, driving, plan(), SETTINGS, commits=True)
    for pod in (template_of(plain)["spec"], committing["spec"]["template"]["spec"], executor_template(driving)["spec"]):
        assert pod["automountServiceAccountToken"] is False
        assert pod["serviceAccountName"] == "default"
    pod = template_of(driving)["spec"]
    assert pod["automountServiceAccountToken"] is True
    assert pod["serviceAccountName"] == "laketable-driver"
    assert "executor.yaml" not in work(plain)["data"]


def test_an_executors_pod_is_confined_as_its_driver_and_sees_no_secret() -> None:
    lake_ = lake("sales", executors=EXECUTORS, pod=ASKED)
    template, driver = executor_template(lake_), template_of(lake_)
    assert template["metadata"] == driver["metadata"], "found, waited for and stopped as the driver is"
    spec, (container,) = template["spec"], template["spec"]["containers"]
    (of_driver,) = driver["spec"]["containers"]
    assert spec["securityContext"] == driver["spec"]["securityContext"]
    assert container["securityContext"] == of_driver["securityContext"]
    for key in ("nodeSelector", "tolerations", "schedulerName", "imagePullSecrets"):
        assert spec[key] == driver["spec"][key]
    assert spec["volumes"] == [{"name": "spark-local-dir-1", "emptyDir": {"sizeLimit": "20Gi"}}]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]
    assert container["command"] == ["laketable"]
    assert container["resources"] == {"limits": {"cpu": "2"}}, "where CPU is limited, as many as tasks"


def test_a_job_with_executors_is_told_of_them() -> None:
    handed = for_job(lake("sales", executors=EXECUTORS, pod=ASKED, image="x:1")).spec.runtime
    assert handed is not None
    assert handed.executors is not None
    assert (handed.type, handed.pod, handed.image, handed.executors.instances) == ("job", None, None, 2)


@pytest.mark.parametrize("kind", ["driver", "executor"])
def test_a_restricted_namespace_accepts_driver_and_executors(
    cluster: Cluster, operator_kubeconfig: object, kind: str
) -> None:
    namespace = cluster.create_namespace(f"driven-{kind}", **{"pod-security.kubernetes.io/enforce": "restricted"})
    let_drive(cluster, namespace)
    lake_ = lake(namespace, executors=EXECUTORS, pod=ASKED)
    template = template_of(lake_) if kind == "driver" else executor_template(lake_)
    template["spec"]["containers"][0].setdefault("image", "laketable:1")  # Spark adds it
    metadata = {"name": "asked", "namespace": namespace, **template["metadata"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    made = json.loads(_try(cluster, pod, "-o", "json"))
    has_token = any("projected" in volume for volume in made["spec"]["volumes"])
    assert has_token == (kind == "driver")
    pod["spec"]["containers"][0]["securityContext"] = {}
    with pytest.raises(KubectlError, match="restricted"):
        _try(cluster, pod)


def test_a_driver_may_do_what_its_role_says_and_nothing_else(cluster: Cluster, operator_kubeconfig: object) -> None:
    namespace, other = cluster.create_namespace("driving"), cluster.create_namespace("driven-by-nobody")
    let_drive(cluster, namespace)
    user = f"--as=system:serviceaccount:{namespace}:laketable-driver"

    def may(question: str, place: str = namespace) -> bool:
        return cluster.kubectl("auth", "can-i", *question.split(), "-n", place, user, check=False).stdout == "yes\n"

    for verb in ("get", "list", "watch", "create", "delete", "deletecollection"):
        eventually(partial(_yes, partial(may, f"{verb} pods")))
    asked = [
        *(f"{verb} pods" for verb in ("update", "patch")),
        *(f"create pods --subresource={part}" for part in ("exec", "attach", "portforward", "binding", "eviction")),
        *("get pods --subresource=log", "patch pods --subresource=ephemeralcontainers", "get secrets", "list secrets"),
        *("get configmaps", "create configmaps", "get services", "create services"),
        "create serviceaccounts --subresource=token",
        *("get persistentvolumeclaims", "create jobs.batch", "get lakecatalogs.laketable.dev"),
        *("patch laketables.laketable.dev", "create rolebindings.rbac.authorization.k8s.io"),
    ]
    assert [question for question in asked if may(question)] == []
    assert not may("get pods", other)


def _yes(ask: Callable[[], bool]) -> bool:
    return ask()


@pytest.mark.parametrize(
    ("runtime", "said"),
    [
        ({"type": "local", "pod": {}}, "pod is for type job only"),
        ({"type": "connect", "url": "sc://spark:15002", "pod": {}}, "pod is for type job only"),
        ({"type": "local", "executors": {"instances": 1}}, "executors are for type job only"),
        ({"type": "job", "executors": {}}, "spec.runtime.executors.instances: Required value"),
        ({"type": "job", "pod": {"labels": {"laketable.dev/table": "x"}}}, "label has no prefix"),
        ({"type": "job", "pod": {"annotations": {"iam.amazonaws.com/role": "x"}}}, "may not set"),
        ({"type": "job", "pod": {"hostNetwork": True}}, 'unknown field "spec.runtime.pod.hostNetwork"'),
        ({"type": "job", "pod": {"serviceAccountName": "x"}}, 'unknown field "spec.runtime.pod.serviceAccountName"'),
        ({"type": "job", "pod": {"tolerations": [{"operator": "Exists"}] * 33}}, "must have at most 32 items"),
    ],
)
def test_the_api_server_refuses_by_itself_what_no_pod_may_be(
    cluster: Cluster, operator_kubeconfig: object, runtime: dict[str, Any], said: str
) -> None:
    with pytest.raises(KubectlError) as refused:
        _try(cluster, catalog("lake", "default", {"type": "rest", "uri": "https://catalog.example"}, runtime=runtime))
    assert said in refused.value.stderr


def _try(cluster: Cluster, document: dict[str, Any], *flags: str) -> str:
    command = ("create", "--dry-run=server", "--validate=strict", "-f", "-", *flags)
    return cluster.kubectl(*command, stdin=json.dumps(document)).stdout
