"""What an operator is told when it starts."""

from __future__ import annotations

import msgspec


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where admission is served, and how the API server finds it.

    `configuration` is the ValidatingWebhookConfiguration that is kept right, `secret` holds the certificate and the
    path. `url` is for an operator outside the cluster, else `service` leads to it. `certificates` is a folder with a
    certificate of somebody else, who then also tells the configuration whom to trust.
    """

    host: str
    port: int
    configuration: str
    secret: str
    service: str
    url: str = ""
    certificates: str = ""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `laketable operator run`.

    `namespaces` empty: every one. `cluster` is the first part of an owner's name: two clusters must not share it.
    `lease` "": act without one. No two operators may share an `identity`; "" makes one up.
    `reserved_catalogs` are names of catalogs in the operator's own environment, which no LakeCatalog may have.
    """

    namespace: str
    cluster: str
    namespaces: tuple[str, ...] = ()
    concurrency: int = 16
    per_catalog: int = 8
    threads: int = 16
    history_limit: int = 10
    allow_local_catalogs: bool = False
    own_cloud_identity: bool = False
    job_image: str = ""
    job_service_account: str = "default"
    job_driver_service_account: str = ""
    job_ttl_seconds: int = 600
    job_deadline_seconds: int = 24 * 3600
    grace_seconds: float = 20.0
    lease: str = "laketable-operator"
    lease_seconds: int = 15
    identity: str = ""
    listen: str = ""
    webhook: WebhookSettings | None = None
    reserved_catalogs: tuple[str, ...] = ()

    @property
    def watched(self) -> tuple[str, ...]:
        """The namespaces to watch, the operator's own included: its policies hold for the others."""
        return tuple(dict.fromkeys((*self.namespaces, self.namespace))) if self.namespaces else ()
