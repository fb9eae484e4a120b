"""The `LakeCatalog` manifest: how to reach a catalog, who may use what of it, where its data jobs run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from reconciler.model.manifest.common import (
    CONNECT_PATTERN,
    MEMORY_PATTERN,
    NAMESPACE_PATTERN,
    FormatName,
    Label,
    Metadata,
    Model,
    Name,
)
from reconciler.model.manifest.pod import PodSettings

Verb = Literal["read", "plan", "apply", "drop"]
KubernetesNamespace = Annotated[str, Field(pattern=NAMESPACE_PATTERN)]


class SecretReference(Model):
    """A Secret in the LakeCatalog's own namespace whose keys are catalog properties."""

    name: Annotated[Label, Field(description="The Secret's name.")]


class AccessGrant(Model):
    """Which Kubernetes namespaces may do what in which catalog namespaces."""

    namespaces: Annotated[
        list[KubernetesNamespace],
        Field(description="Kubernetes namespaces; '*' means every one.", min_length=1, max_length=1000),
    ]
    catalog_namespaces: Annotated[
        list[Name],
        Field(
            description="Catalog namespaces such as sales or sales.*; '*' means every one.",
            min_length=1,
            max_length=1000,
        ),
    ]
    verbs: Annotated[
        list[Verb], Field(description="read, plan, apply, drop; each implies the former.", min_length=1, max_length=4)
    ]


class Executors(Model):
    """Spark's executors in pods of their own, beside the job's."""

    instances: Annotated[int, Field(description="How many pods.", ge=1, le=1000)]
    memory: Annotated[Annotated[str, Field(pattern=MEMORY_PATTERN)], Field(description="Memory of each: 4Gi.")] = "2Gi"
    cores: Annotated[Annotated[int, Field(ge=1, le=128)], Field(description="Tasks that each runs at once.")] = 1


class Runtime(Model):
    """Where Spark runs for this catalog's data jobs."""

    type: Annotated[
        Literal["local", "connect", "job"],
        Field(description="A subprocess, a Spark Connect server, or a Kubernetes Job."),
    ] = "local"
    url: Annotated[
        Annotated[str, Field(pattern=CONNECT_PATTERN, max_length=1024)] | None,
        Field(description="The Spark Connect URL of type connect: sc://host."),
    ] = None
    image: Annotated[
        Annotated[str, Field(max_length=512)] | None, Field(description="The container image of type job.")
    ] = None
    memory: Annotated[
        Annotated[str, Field(pattern=MEMORY_PATTERN)] | None, Field(description="Memory of the driver: 2Gi.")
    ] = None
    cores: Annotated[Annotated[int, Field(ge=1, le=1024)] | None, Field(description="Cores the session may use.")] = (
        None
    )
    spark_conf: Annotated[
        Annotated[dict[str, str], Field(max_length=200)] | None,
        Field(description="Spark settings; only harmless keys are accepted."),
    ] = None
    pod: Annotated[PodSettings | None, Field(description="Where the pods of type job run, and what they may take.")] = (
        None
    )
    executors: Annotated[
        Executors | None,
        Field(description="Executors of type job in pods of their own; without them Spark runs in the job's pod."),
    ] = None


class LakeCatalogSpec(Model):
    """How to reach the catalog."""

    format: Annotated[FormatName, Field(description="The format of the catalog's tables.")] = "iceberg"
    properties: Annotated[
        Annotated[dict[str, str], Field(max_length=200)] | None,
        Field(
            description="Connection properties, by PyIceberg's own keys (type, uri, warehouse). Secrets: see secretRef."
        ),
    ] = None
    secret_ref: Annotated[SecretReference | None, Field(description="More properties from a Secret.")] = None
    access: Annotated[
        Annotated[list[AccessGrant], Field(max_length=1000)] | None,
        Field(description="Who may use which catalog namespace; by default only this resource's own namespace."),
    ] = None
    runtime: Annotated[Runtime | None, Field(description="Where Spark runs; by default a local subprocess.")] = None


class LakeCatalog(Model):
    """A lakehouse catalog that LakeTables refer to."""

    api_version: Annotated[Literal["laketable.dev/v1alpha1"], Field(description="laketable.dev/v1alpha1")]
    kind: Annotated[Literal["LakeCatalog"], Field(description="LakeCatalog")]
    metadata: Annotated[Metadata, Field(description="Name, namespace, labels.")]
    spec: Annotated[LakeCatalogSpec, Field(description="How to reach the catalog.")]
