"""Kubernetes objects as plain data, with what every one of them carries read once into `Meta`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from reconciler.model.manifest import GROUP, VERSION
from reconciler.model.yaml import Data

Json = dict[str, Data]


class Resource(msgspec.Struct, frozen=True):
    """One kind of object, as the API's paths name it; the core group is ""."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        """The group and version as objects write them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, part: str | None = None) -> str:
        """Return the URL's path of one object, of a namespace's objects or of all of them."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        pieces = [root, *(("namespaces", namespace) if namespace else ()), self.plural]
        return "/".join((*pieces, *((name,) if name else ()), *((part,) if part else ())))


TABLES = Resource(GROUP, VERSION, "laketables", "LakeTable")
CATALOGS = Resource(GROUP, VERSION, "lakecatalogs", "LakeCatalog")
POLICIES = Resource(GROUP, VERSION, "lakepolicies", "LakePolicy")
PLANS = Resource(GROUP, VERSION, "laketableplans", "LakeTablePlan")
OWN_KINDS = (CATALOGS, POLICIES, PLANS, TABLES)
"""Our kinds, in the order in which a starting operator reads them: what others refer to comes first."""

JOBS = Resource("batch", "v1", "jobs", "Job")
PODS = Resource("", "v1", "pods", "Pod")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")


class Key(msgspec.Struct, frozen=True, order=True):
    """One object to look at."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Print as Kind namespace/name."""
        return f"{self.kind} {self.namespace}/{self.name}"


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """An object's metadata, as far as the operator looks at it."""

    name: str
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


def meta_of(raw: Json) -> Meta:
    """Read an object's metadata."""
    return msgspec.convert(raw.get("metadata"), Meta)


def key_of(resource: Resource, raw: Json) -> Key:
    """Name an object."""
    meta = meta_of(raw)
    return Key(resource.kind, meta.namespace, meta.name)


def at(data: Data, *path: str) -> Data:
    """Walk into nested mappings; None where there is nothing."""
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    return data


def mapping_at(data: Data, *path: str) -> Json:
    """Return the mapping at a path; an empty one where there is none."""
    found = at(data, *path)
    return found if isinstance(found, dict) else {}


def text_at(data: Data, *path: str) -> str:
    """Return the text at a path; empty where there is none."""
    found = at(data, *path)
    return found if isinstance(found, str) else ""


def int_at(data: Data, *path: str) -> int | None:
    """Return the number at a path."""
    found = at(data, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def items_at(data: Data, *path: str) -> list[Json]:
    """Return the mappings of the list at a path."""
    found = at(data, *path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def print_time(milliseconds: int) -> str:
    """Print a time as Kubernetes writes it."""
    return datetime.fromtimestamp(milliseconds // 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_time(text: str) -> int:
    """Read a time as Kubernetes writes it, in milliseconds since the epoch."""
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
