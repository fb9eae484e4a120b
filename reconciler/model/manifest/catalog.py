"""The `LakeCatalog` manifest: how to reach a catalog, who may use what of it, where its data jobs run."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

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

Verb = Literal["read", "plan", "apply", "drop"]
KubernetesNamespace = Annotated[str, Meta(pattern=NAMESPACE_PATTERN)]


class SecretReference(Model, frozen=True, kw_only=True):
    """A Secret in the LakeCatalog's own namespace whose keys are catalog properties."""

    name: Annotated[Label, Meta(description="The Secret's name.")]


class AccessGrant(Model, frozen=True, kw_only=True):
    """Which Kubernetes namespaces may do what in which catalog namespaces."""

    namespaces: Annotated[
        list[KubernetesNamespace],
        Meta(description="Kubernetes namespaces; '*' means every one.", min_length=1, max_length=1000),
    ]
    catalog_namespaces: Annotated[
        list[Name],
        Meta(
            description="Catalog namespaces such as sales or sales.*; '*' means every one.",
            min_length=1,
            max_length=1000,
        ),
    ]
    verbs: Annotated[
        list[Verb], Meta(description="read, plan, apply, drop; each implies the former.", min_length=1, max_length=4)
    ]


class Runtime(Model, frozen=True, kw_only=True):
    """Where Spark runs for this catalog's data jobs."""

    type: Annotated[
        Literal["local", "connect", "job"],
        Meta(description="A subprocess, a Spark Connect server, or a Kubernetes Job."),
    ] = "local"
    url: Annotated[
        Annotated[str, Meta(pattern=CONNECT_PATTERN, max_length=1024)] | None,
        Meta(description="The Spark Connect URL of type connect: sc://host."),
    ] = None
    image: Annotated[
        Annotated[str, Meta(max_length=512)] | None, Meta(description="The container image of type job.")
    ] = None
    memory: Annotated[
        Annotated[str, Meta(pattern=MEMORY_PATTERN)] | None, Meta(description="Memory of the driver: 2Gi.")
    ] = None
    cores: Annotated[Annotated[int, Meta(ge=1, le=1024)] | None, Meta(description="Cores the session may use.")] = None
    spark_conf: Annotated[
        Annotated[dict[str, str], Meta(max_length=200)] | None,
        Meta(description="Spark settings; only harmless keys are accepted."),
    ] = None


class LakeCatalogSpec(Model, frozen=True, kw_only=True):
    """How to reach the catalog."""

    format: Annotated[FormatName, Meta(description="The format of the catalog's tables.")] = "iceberg"
    properties: Annotated[
        Annotated[dict[str, str], Meta(max_length=200)] | None,
        Meta(
            description="Connection properties, by PyIceberg's own keys (type, uri, warehouse). Secrets: see secretRef."
        ),
    ] = None
    secret_ref: Annotated[SecretReference | None, Meta(description="More properties from a Secret.")] = None
    access: Annotated[
        Annotated[list[AccessGrant], Meta(max_length=1000)] | None,
        Meta(description="Who may use which catalog namespace; by default only this resource's own namespace."),
    ] = None
    runtime: Annotated[Runtime | None, Meta(description="Where Spark runs; by default a local subprocess.")] = None


class LakeCatalog(Model, frozen=True, kw_only=True):
    """A lakehouse catalog that LakeTables refer to."""

    api_version: Annotated[Literal["laketable.dev/v1alpha1"], Meta(description="laketable.dev/v1alpha1")]
    kind: Annotated[Literal["LakeCatalog"], Meta(description="LakeCatalog")]
    metadata: Annotated[Metadata, Meta(description="Name, namespace, labels.")]
    spec: Annotated[LakeCatalogSpec, Meta(description="How to reach the catalog.")]
