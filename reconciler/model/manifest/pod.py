"""What a LakeCatalog may ask of its jobs' pods: where they run and what they may take, never what they may do.

A LakeCatalog is tenant input, so these are the fields that give a pod no right: no volume, no Secret's content, no
service account, no security context. Keys that other controllers take as orders (identities, sidecars, networks) are
closed lists, for nobody can know what an unknown one hands out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from reconciler.model.faults import DocumentPath, Fault
from reconciler.model.manifest.common import Model, Size

LABEL_KEY_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?){0,8}/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
LABEL_VALUE_PATTERN = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
OBJECT_NAME_PATTERN = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
CPU_PATTERN = r"^([1-9][0-9]{0,5}m|[1-9][0-9]{0,3}(\.[0-9]{1,3})?|0\.[0-9]{1,3})$"

LabelKey = Annotated[str, Field(pattern=LABEL_KEY_PATTERN, max_length=317)]
LabelValue = Annotated[str, Field(pattern=LABEL_VALUE_PATTERN, max_length=63)]
ObjectName = Annotated[str, Field(pattern=OBJECT_NAME_PATTERN, max_length=253)]
Cpu = Annotated[str, Field(pattern=CPU_PATTERN, max_length=16)]

ANY = ""
LABELS_WITH_PREFIX = {
    **{f"app.kubernetes.io/{name}": ANY for name in ("component", "instance", "name", "part-of", "version")},
    "sidecar.istio.io/inject": "false",
}
"""The labels with a prefix that a LakeCatalog may set, each with the only value it may have."""

ANNOTATIONS = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": ANY,
    "karpenter.sh/do-not-disrupt": ANY,
    "linkerd.io/inject": "disabled",
    "sidecar.istio.io/inject": "false",
}
"""The annotations that a LakeCatalog may set: a sidecar never ends, and so would the Job never."""

_LABELS_OF_OTHERS = frozenset({"aadpodidbinding", "controller-uid", "job-name"})  # an identity; the Job controller's
_SPARKS = "spark-"
_OF_THE_CLUSTER = "system-"


class Toleration(Model):
    """A taint of nodes that the pods may run beside."""

    key: Annotated[LabelKey | None, Field(description="The taint's key; without one every taint.")] = None
    operator: Annotated[
        Literal["Equal", "Exists"], Field(description="Equal: the value too; Exists: whatever it is.")
    ] = "Equal"
    value: Annotated[LabelValue | None, Field(description="The taint's value, with operator Equal.")] = None
    effect: Annotated[
        Literal["NoExecute", "NoSchedule", "PreferNoSchedule"] | None,
        Field(description="The taint's effect; without one every effect."),
    ] = None
    toleration_seconds: Annotated[
        Annotated[int, Field(ge=0, le=31_536_000)] | None,
        Field(description="How long a running pod stays beside a NoExecute taint; by default for good."),
    ] = None


class PodSettings(Model):
    """Where the pods of type job run, and what they may take."""

    labels: Annotated[
        Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] | None,
        Field(description="Labels for people and bills: keys without a prefix, and app.kubernetes.io's own."),
    ] = None
    annotations: Annotated[
        Annotated[dict[LabelKey, Annotated[str, Field(max_length=63)]], Field(max_length=8)] | None,
        Field(description="What autoscalers and meshes are told: whether to evict a pod, and no sidecar."),
    ] = None
    node_selector: Annotated[
        Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] | None,
        Field(description="Labels that the pods' nodes must have."),
    ] = None
    tolerations: Annotated[
        Annotated[list[Toleration], Field(max_length=32)] | None,
        Field(description="Taints of nodes that the pods may run beside."),
    ] = None
    priority_class_name: Annotated[
        ObjectName | None, Field(description="The pods' PriorityClass; none of the cluster's own.")
    ] = None
    scheduler_name: Annotated[ObjectName | None, Field(description="The scheduler that places the pods.")] = None
    image_pull_secrets: Annotated[
        Annotated[list[ObjectName], Field(max_length=8)] | None,
        Field(description="Secrets of the same namespace that the nodes pull the image with; no pod sees them."),
    ] = None
    cpu_request: Annotated[
        Cpu | None, Field(description="CPU that the job's pod is promised: 500m; by default cores.")
    ] = None
    cpu_limit: Annotated[Cpu | None, Field(description="CPU that it may use at most; by default no limit.")] = None
    temporary_storage: Annotated[
        Size | None, Field(description="Disk that each pod may fill below /tmp: 20Gi; by default no limit.")
    ] = None


def pod_faults(pod: PodSettings, place: DocumentPath) -> Iterator[Fault]:
    """Return what no pattern can say of a pod's settings."""
    for key, value in (pod.labels or {}).items():
        if "/" not in key and key not in _LABELS_OF_OTHERS and not key.startswith(_SPARKS):
            continue
        hint = f"Use a key without a prefix, or one of {', '.join(LABELS_WITH_PREFIX)}."
        yield from _closed((*place, "labels", key), "a label", key, value, LABELS_WITH_PREFIX, hint)
    for key, value in (pod.annotations or {}).items():
        hint = f"Allowed: {', '.join(ANNOTATIONS)}."
        yield from _closed((*place, "annotations", key), "an annotation", key, value, ANNOTATIONS, hint)
    for index, toleration in enumerate(pod.tolerations or ()):
        yield from _toleration_faults(toleration, (*place, "tolerations", index))
    if (pod.priority_class_name or "").startswith(_OF_THE_CLUSTER):
        message = f"'{pod.priority_class_name}' is a PriorityClass of the cluster's own"
        yield Fault((*place, "priorityClassName"), message, "Name one of your own.")
    if pod.cpu_request is not None and pod.cpu_limit is not None and _milli(pod.cpu_request) > _milli(pod.cpu_limit):
        message = f"the limit {pod.cpu_limit} is below the request {pod.cpu_request}"
        yield Fault((*place, "cpuLimit"), message, "Raise the limit, or remove it.")


def _closed(path: DocumentPath, what: str, key: str, value: str, allowed: dict[str, str], hint: str) -> Iterator[Fault]:
    if key not in allowed:
        yield Fault(path, f"'{key}' is not {what} that a LakeCatalog may set", hint, at_key=True)
    elif allowed[key] not in (ANY, value):
        message = f"'{key}' may only be {allowed[key]}"
        yield Fault(path, message, f'Write "{allowed[key]}" in quotes.')


def _toleration_faults(toleration: Toleration, place: DocumentPath) -> Iterator[Fault]:
    if toleration.operator == "Exists" and toleration.value is not None:
        yield Fault((*place, "value"), "operator Exists takes no value", "Remove it, or write operator: Equal.")
    if toleration.operator == "Equal" and toleration.key is None:
        yield Fault(place, "a toleration without a key is for every taint", "Give it a key, or operator: Exists.")
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        path = (*place, "tolerationSeconds")
        yield Fault(path, "tolerationSeconds is for the effect NoExecute", "Write effect: NoExecute, or remove it.")


def _milli(cpu: str) -> int:
    return int(cpu[:-1]) if cpu.endswith("m") else round(float(cpu) * 1000)
