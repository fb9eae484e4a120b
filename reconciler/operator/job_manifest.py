"""The Kubernetes Job of a data operation, and the ConfigMap with what it has to do: pure; `job_pod` makes its pod."""

from __future__ import annotations

import base64
import gzip
import re

import msgspec

from reconciler.engines.job_command import pod_failure_policy
from reconciler.model.manifest import LakeCatalog
from reconciler.model.manifest.catalog import Runtime
from reconciler.model.yaml_text import dump_data, dump_yaml
from reconciler.operator.job_pod import (
    CATALOG_FILE,
    CONTAINER,
    EXECUTOR_FILE,
    PLAN_FILE,
    JobSettings,
    executor_pod,
    has_executors,
    job_pod,
)
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
_TABLE_LENGTH = 30
_COMMIT_DIGITS = 16
_ODD = re.compile(r"[^a-z0-9-]+")


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
    labels = _labels(table, work_ids(plan, commits=commits)[0])
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
            "template": job_pod(name, catalog, settings, labels, commits=commits),
        },
    }


def _labels(table: Meta, operation: str) -> Json:
    """Say whose a Job is, its pods and their executors: they are found, and waited for, by these."""
    return {
        MANAGED_BY[0]: MANAGED_BY[1],
        TABLE_LABEL: table.name,
        TABLE_UID_LABEL: table.uid,
        OPERATION_LABEL: operation,
    }


def config_map(job: Meta, table: Meta, wanted: Wanted, catalog: LakeCatalog, plan: Plan, settings: JobSettings) -> Json:
    """Return the ConfigMap that the pod of a Job waits for, owned by the Job."""
    document = base64.b64encode(packed(wanted, plan)).decode()
    texts: Json = {CATALOG_FILE: dump_yaml(for_job(catalog))}
    if has_executors(catalog):
        labels = _labels(table, job.labels.get(OPERATION_LABEL, ""))
        texts[EXECUTOR_FILE] = dump_data(executor_pod(catalog, settings, labels))
    return {
        "metadata": {
            "name": job.name,
            "namespace": catalog.metadata.namespace,
            "labels": {"app.kubernetes.io/managed-by": "laketable"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": job.name, "uid": job.uid}],
        },
        "immutable": True,
        "data": texts,
        "binaryData": {PLAN_FILE: document},
    }


def for_job(catalog: LakeCatalog) -> LakeCatalog:
    """Return the LakeCatalog as a job needs it: Spark runs right there, in executors, or behind an address."""
    stated = catalog.spec.runtime or Runtime()
    kind = stated.type if stated.type == CONNECT or stated.executors is not None else LOCAL
    runtime = stated.model_copy(update={"type": kind, "image": None, "pod": None})
    checked = Runtime.model_validate(runtime.model_dump(exclude_none=True, exclude={"image", "pod"}))
    spec = catalog.spec.model_copy(update={"runtime": checked, "access": None})
    metadata = catalog.metadata.model_copy(update={"annotations": None, "labels": None})
    return catalog.model_copy(update={"spec": spec, "metadata": metadata})
