"""The pod of a data job: pure.

It runs `laketable execute` on a plan document; it sees the catalog's Secret as files, has no API token, a read-only
root and passes Pod Security "restricted". What a LakeCatalog asks of it (`runtime.pod`) says where it runs and what it
may take; nothing of that reaches what is said here. The pod of a job with executors is Spark's driver: it alone has a
token, of an account that may make pods, and the executors' template lies beside its plan.
"""

from __future__ import annotations

import msgspec

from reconciler.engines.executors import (
    BLOCK_PORT,
    DRIVER_PORT,
    EXECUTOR_IMAGE,
    EXECUTOR_TEMPLATE,
    LOCAL_DIR_VOLUME,
    POD_IP,
    POD_NAME,
    POD_NAMESPACE,
    TEMPLATE_CONTAINER,
)
from reconciler.engines.job_command import execute_command
from reconciler.model.manifest import LakeCatalog
from reconciler.model.manifest.catalog import Runtime
from reconciler.model.manifest.pod import PodSettings
from reconciler.model.property_keys import CONNECT_TOKEN
from reconciler.model.quantities import parse_size
from reconciler.model.yaml import Data
from reconciler.operator.objects import Json
from reconciler.plan.runtimes import CONNECT

CONTAINER = "laketable"
PLAN_FILE, CATALOG_FILE, EXECUTOR_FILE = "plan.json.gz", "catalog.yaml", "executor.yaml"
LAST_WORDS = "/dev/termination-log"
WORK = "/etc/laketable/work"
SECRETS = "/etc/laketable/secrets"
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105  (PySpark's name for it)
TEMPORARY = "/tmp"  # noqa: S108  (an emptyDir of the pod; all that Spark and Python write lies below)
_MEMORY = "2Gi"


class JobSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator's own options say about jobs; `driver_account` is of jobs with executors, "": none may."""

    cluster: str
    image: str
    service_account: str
    driver_account: str
    ttl_seconds: int
    deadline_seconds: int


def actor(cluster: str) -> str:
    """Name who acts, as a table's history records it."""
    return f"operator/{cluster}"


def job_pod(name: str, catalog: LakeCatalog, settings: JobSettings, labels: Json, *, commits: bool) -> Json:
    """Return the pod template of the Job of this name; `labels` are ours, which no LakeCatalog replaces."""
    asked = _asked(catalog)
    spec = _pod(name, catalog, settings, drives=has_executors(catalog) and not commits, commits=commits)
    return {"metadata": _metadata(asked, labels), "spec": {**_placement(asked), **spec}}


def has_executors(catalog: LakeCatalog) -> bool:
    """Say whether work on rows is done by executors in pods of their own."""
    return catalog.spec.runtime is not None and catalog.spec.runtime.executors is not None


def executor_pod(catalog: LakeCatalog, settings: JobSettings, labels: Json) -> Json:
    """Return the template from which Spark makes executors: it adds the image, their size and what they are told."""
    asked = _asked(catalog)
    container: Json = {
        "name": TEMPLATE_CONTAINER,
        "command": ["laketable"],  # and Spark says: executor
        "env": _writable(),
        "workingDir": TEMPORARY,
        "volumeMounts": [{"name": LOCAL_DIR_VOLUME, "mountPath": TEMPORARY}],
        "securityContext": _confined(),
    }
    runtime = catalog.spec.runtime
    if asked.cpu_limit is not None and runtime is not None and runtime.executors is not None:
        container["resources"] = {"limits": {"cpu": str(runtime.executors.cores)}}
    spec = {**_placement(asked), **_bare(settings.service_account, [container], [_temporary(asked, LOCAL_DIR_VOLUME)])}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(asked, labels), "spec": spec}


def _asked(catalog: LakeCatalog) -> PodSettings:
    runtime = catalog.spec.runtime
    return runtime.pod if runtime is not None and runtime.pod is not None else PodSettings()


def _metadata(asked: PodSettings, labels: Json) -> Json:
    metadata: Json = {"labels": {**(asked.labels or {}), **labels}}
    return metadata | {"annotations": {**asked.annotations}} if asked.annotations else metadata


def _placement(asked: PodSettings) -> Json:
    """Say where a pod runs, as the LakeCatalog asks."""
    stated: Json = {}
    if asked.node_selector:
        stated["nodeSelector"] = {**asked.node_selector}
    if asked.tolerations:
        stated["tolerations"] = [toleration.model_dump(exclude_none=True) for toleration in asked.tolerations]
    if asked.priority_class_name:
        stated["priorityClassName"] = asked.priority_class_name
    if asked.scheduler_name:
        stated["schedulerName"] = asked.scheduler_name
    if asked.image_pull_secrets:
        stated["imagePullSecrets"] = [{"name": name} for name in asked.image_pull_secrets]
    return stated


def _pod(name: str, catalog: LakeCatalog, settings: JobSettings, *, drives: bool, commits: bool) -> Json:
    runtime, secret = catalog.spec.runtime or Runtime(), catalog.spec.secret_ref
    image, temporary = runtime.image or settings.image, _temporary(_asked(catalog), "temporary")
    volumes: list[Data] = [{"name": "work", "configMap": {"name": name}}, temporary]
    mounts: list[Data] = [
        {"name": "work", "mountPath": WORK, "readOnly": True},
        {"name": "temporary", "mountPath": TEMPORARY},
    ]
    if secret is not None:
        volumes.append({"name": "secret", "secret": {"secretName": secret.name, "defaultMode": 0o440}})
        mounts.append({"name": "secret", "mountPath": f"{SECRETS}/{secret.name}", "readOnly": True})
    environment: list[Data] = [
        {"name": "LAKETABLE_PROJECT", "value": settings.cluster},
        {"name": "LAKETABLE_ACTOR", "value": actor(settings.cluster)},
        {"name": "LAKETABLE_SECRETS", "value": SECRETS},
        *_writable(),
        *_local_dirs(),
        *(_of_driver(image) if drives else ()),
    ]
    if secret is not None and runtime.type == CONNECT:
        token: Json = {"name": secret.name, "key": CONNECT_TOKEN, "optional": True}
        environment.append({"name": TOKEN_VARIABLE, "valueFrom": {"secretKeyRef": token}})
    files = [f"{WORK}/{CATALOG_FILE}"]
    command: list[Data] = [*execute_command(f"{WORK}/{PLAN_FILE}", catalogs=files, result=LAST_WORDS, commits=commits)]
    container: Json = {
        "name": CONTAINER,
        "image": image,
        "command": command,
        "env": environment,
        "workingDir": TEMPORARY,
        "resources": _resources(runtime),
        "volumeMounts": mounts,
        "terminationMessagePolicy": "File",
        "securityContext": _confined(),
    }
    if not drives:
        return _bare(settings.service_account, [container], volumes)
    container["ports"] = [
        {"name": "driver", "containerPort": DRIVER_PORT},
        {"name": "blocks", "containerPort": BLOCK_PORT},
    ]
    return _bare(settings.driver_account, [container], volumes) | {"automountServiceAccountToken": True}


def _bare(account: str, containers: list[Data], volumes: list[Data]) -> Json:
    """Return a pod with no right but to run."""
    return {
        "restartPolicy": "Never",
        "serviceAccountName": account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _as_nobody(),
        "containers": containers,
        "volumes": volumes,
    }


def _of_driver(image: str) -> list[Data]:
    """Tell a driver who it is: executors find it by its pod's address, which lives exactly as long as it does."""
    known = {POD_NAME: "metadata.name", POD_NAMESPACE: "metadata.namespace", POD_IP: "status.podIP"}
    fields: list[Data] = [
        {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
        for name, path in known.items()
    ]
    template: Json = {"name": EXECUTOR_TEMPLATE, "value": f"{WORK}/{EXECUTOR_FILE}"}
    return [*fields, {"name": EXECUTOR_IMAGE, "value": image}, template]


def _as_nobody() -> Json:
    return {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "runAsGroup": 10001,
        "fsGroup": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _confined() -> Json:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _writable() -> list[Data]:
    """Lead all that writes to the one place that can be written to."""
    kept: list[Data] = [{"name": name, "value": TEMPORARY} for name in ("HOME", "TMPDIR")]
    return [{"name": "LAKETABLE_CACHE", "value": "off"}, *kept]


def _local_dirs() -> list[Data]:
    """Say where Spark spills; in an executor's pod it says so itself."""
    return [{"name": "SPARK_LOCAL_DIRS", "value": TEMPORARY}]


def _temporary(asked: PodSettings, name: str) -> Json:
    size = asked.temporary_storage
    return {"name": name, "emptyDir": {"sizeLimit": size} if size else {}}


def _resources(runtime: Runtime) -> Json:
    """Ask for the driver's memory and a quarter more: Spark's own overhead lies outside the heap."""
    asked = runtime.pod or PodSettings()
    memory = parse_size((runtime.memory or _MEMORY).replace("g", "Gi").replace("m", "Mi"))
    wanted: Json = {"cpu": asked.cpu_request or str(runtime.cores or 1), "memory": f"{memory * 5 // 4 // 2**20}Mi"}
    limits: Json = {"memory": wanted["memory"]}
    if asked.cpu_limit is not None:
        limits["cpu"] = asked.cpu_limit
    return {"requests": wanted, "limits": limits}
