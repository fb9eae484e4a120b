"""The Kubernetes Job of a data operation, and the ConfigMap with what it has to do: pure.

The pod runs `laketable execute` on a plan document; it sees the catalog's Secret as files, has no API token, a
read-only root and passes Pod Security "restricted".
"""

from __future__ import annotations

import base64
import gzip
import re

import msgspec

from reconciler.engines.job_command import execute_command, pod_failure_policy
from reconciler.model.manifest import LakeCatalog
from reconciler.model.manifest.catalog import Runtime
from reconciler.model.property_keys import CONNECT_TOKEN
from reconciler.model.quantities import parse_size
from reconciler.model.yaml import Data
from reconciler.model.yaml_text import dump_yaml
from reconciler.operator.manifests import Wanted
from reconciler.operator.objects import Json, Meta
from reconciler.operator.plan_objects import planned
from reconciler.operator.store import OPERATION_LABEL, TABLE_LABEL
from reconciler.plan.data import data_operations
from reconciler.plan.document import encode
from reconciler.plan.operations import Plan, Refresh
from reconciler.plan.runtimes import CONNECT, LOCAL

TABLE_UID_LABEL = "laketable.dev/table-uid"
OPERATIONS_ANNOTATION = "laketable.dev/operations"
TABLE_OF_ANNOTATION = "laketable.dev/table-of"
MANAGED_BY = ("app.kubernetes.io/managed-by", "laketable")
CONTAINER = "laketable"
PLAN_FILE, CATALOG_FILE = "plan.json.gz", "catalog.yaml"
LAST_WORDS = "/dev/termination-log"
WORK = "/etc/laketable/work"
SECRETS = "/etc/laketable/secrets"
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105  (PySpark's name for it)
TEMPORARY = "/tmp"  # noqa: S108  (an emptyDir of the pod; all that Spark and Python write lies below)
_TABLE_LENGTH = 30
_COMMIT_DIGITS = 16
_MEMORY = "2Gi"
_ODD = re.compile(r"[^a-z0-9-]+")


class JobSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator's own options say about jobs."""

    cluster: str
    image: str
    service_account: str
    ttl_seconds: int
    deadline_seconds: int


def actor(cluster: str) -> str:
    """Name who acts, as a table's history records it."""
    return f"operator/{cluster}"


def packed(wanted: Wanted, plan: Plan) -> bytes:
    """Print the plan document of a job, compressed."""
    return gzip.compress(encode([planned(wanted, plan)]), mtime=0)


def work_ids(plan: Plan, *, commits: bool) -> tuple[str, ...]:
    """Name what a job does: operations on rows, or the metadata commit of a plan."""
    if commits:  # upkeep alone has no hash
        digits = plan.hash.rpartition(":")[2][:_COMMIT_DIGITS]
        return (digits or next(iter(o.id for o in plan.upkeep if o.id), "upkeep"),)
    return tuple(operation.id for operation in data_operations(plan))


def work_keys(plan: Plan, *, commits: bool) -> tuple[str, ...]:
    """Name what a job does by what stays while it does it: a refresh reads its sources where they are by then.

    By their ids alone a source that never stands still would have each job replaced before it is done.
    """
    if commits:
        return work_ids(plan, commits=True)
    works = [(operation, operation.work) for operation in data_operations(plan)]
    return tuple(w.key if isinstance(w, Refresh) else o.id for o, w in works)


def job_name(table: str, operation: str) -> str:
    """Name the Job of an operation, in at most 63 characters."""
    return f"lt-{_ODD.sub('-', table[:_TABLE_LENGTH]).strip('-')}-{operation}"


def job(
    name: str, table: Meta, catalog: LakeCatalog, plan: Plan, settings: JobSettings, *, commits: bool = False
) -> Json:
    """Return the Job of a plan's work on rows, or of its metadata commit."""
    operations = work_ids(plan, commits=commits)
    labels: Json = {
        MANAGED_BY[0]: MANAGED_BY[1],
        TABLE_LABEL: table.name,
        TABLE_UID_LABEL: table.uid,
        OPERATION_LABEL: operations[0],
    }
    return {
        "metadata": {
            "name": name,
            "namespace": catalog.metadata.namespace,
            "labels": labels,
            "annotations": {
                OPERATIONS_ANNOTATION: ",".join(work_keys(plan, commits=commits)),
                TABLE_OF_ANNOTATION: f"{table.namespace}/{table.name}",
            },
        },
        "spec": {
            "backoffLimit": 3,
            "podFailurePolicy": msgspec.to_builtins(pod_failure_policy(CONTAINER)),
            "activeDeadlineSeconds": settings.deadline_seconds,
            "ttlSecondsAfterFinished": settings.ttl_seconds,
            "template": {"metadata": {"labels": labels}, "spec": _pod(name, catalog, settings, commits)},
        },
    }


def config_map(name: str, job_uid: str, wanted: Wanted, catalog: LakeCatalog, plan: Plan) -> Json:
    """Return the ConfigMap that the pod waits for, owned by its Job."""
    document = base64.b64encode(packed(wanted, plan)).decode()
    return {
        "metadata": {
            "name": name,
            "namespace": catalog.metadata.namespace,
            "labels": {"app.kubernetes.io/managed-by": "laketable"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job_uid}],
        },
        "immutable": True,
        "data": {CATALOG_FILE: dump_yaml(for_job(catalog))},
        "binaryData": {PLAN_FILE: document},
    }


def for_job(catalog: LakeCatalog) -> LakeCatalog:
    """Return the LakeCatalog as a job needs it: Spark runs right there, or behind the address of Spark Connect."""
    stated = catalog.spec.runtime or Runtime()
    kind = CONNECT if stated.type == CONNECT else LOCAL
    runtime = stated.model_copy(update={"type": kind, "image": None})
    checked = Runtime.model_validate(runtime.model_dump(exclude_none=True, exclude={"image"}))
    spec = catalog.spec.model_copy(update={"runtime": checked, "access": None})
    metadata = catalog.metadata.model_copy(update={"annotations": None, "labels": None})
    return catalog.model_copy(update={"spec": spec, "metadata": metadata})


def _pod(name: str, catalog: LakeCatalog, settings: JobSettings, commits: bool) -> Json:
    runtime, secret = catalog.spec.runtime or Runtime(), catalog.spec.secret_ref
    volumes: list[Data] = [
        {"name": "work", "configMap": {"name": name}},
        {"name": "temporary", "emptyDir": {}},
    ]
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
        {"name": "LAKETABLE_CACHE", "value": "off"},
        {"name": "HOME", "value": TEMPORARY},
        {"name": "TMPDIR", "value": TEMPORARY},
        {"name": "SPARK_LOCAL_DIRS", "value": TEMPORARY},
    ]
    if secret is not None and runtime.type == CONNECT:
        token: Json = {"name": secret.name, "key": CONNECT_TOKEN, "optional": True}
        environment.append({"name": TOKEN_VARIABLE, "valueFrom": {"secretKeyRef": token}})
    files = [f"{WORK}/{CATALOG_FILE}"]
    command: list[Data] = [*execute_command(f"{WORK}/{PLAN_FILE}", catalogs=files, result=LAST_WORDS, commits=commits)]
    container: Json = {
        "name": CONTAINER,
        "image": runtime.image or settings.image,
        "command": command,
        "env": environment,
        "workingDir": TEMPORARY,
        "resources": _resources(runtime),
        "volumeMounts": mounts,
        "terminationMessagePolicy": "File",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "restartPolicy": "Never",
        "serviceAccountName": settings.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "fsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
    }


def _resources(runtime: Runtime) -> Json:
    """Ask for the driver's memory and a quarter more: Spark's own overhead lies outside the heap."""
    memory = parse_size((runtime.memory or _MEMORY).replace("g", "Gi").replace("m", "Mi"))
    wanted: Json = {"cpu": str(runtime.cores or 1), "memory": f"{memory * 5 // 4 // 2**20}Mi"}
    return {"requests": wanted, "limits": {"memory": wanted["memory"]}}
