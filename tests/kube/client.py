"""The administrator's requests without a process each: for tests that make many."""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from reconciler.operator.objects import (
    CATALOGS,
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    PLANS,
    PODS,
    POLICIES,
    SECRETS,
    TABLES,
    WEBHOOKS,
    Resource,
)

if TYPE_CHECKING:
    from tests.kube.cluster import Cluster

_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
KINDS = {r.kind: r for r in (CATALOGS, CONFIG_MAPS, EVENTS, JOBS, NAMESPACES, PLANS, POLICIES, SECRETS, TABLES)}
_SHORT = {"lt": TABLES, "lc": CATALOGS, "lpol": POLICIES, "ltp": PLANS, f"{EVENTS.plural}.{EVENTS.group}": EVENTS}
_BY_NAME = {n: r for r in (*KINDS.values(), LEASES, PODS, WEBHOOKS) for n in (r.kind.lower(), r.plural)} | _SHORT
Object = dict[str, Any]


def named(kind: str) -> Resource:
    """Return the kind of resource that kubectl knows by this name."""
    return _BY_NAME[kind.lower()]


class Refused(AssertionError):
    """The API server answered with an error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Client:
    """Requests on one kept connection; not for several threads at once."""

    def __init__(self, cluster: Cluster) -> None:
        self._context = cluster.trust(admin=True)
        self._host = urlsplit(cluster.server).netloc
        self._connection: http.client.HTTPSConnection | None = None

    def apply(self, *documents: Object) -> list[Object]:
        """Apply resources server-side, as one field manager who insists."""
        return [self._apply(document) for document in documents]

    def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """Read one resource; raises Refused with 404 when there is none."""
        return self.request("GET", resource.path(namespace, name))

    def list(self, resource: Resource, namespace: str | None = None) -> list[Object]:
        """Read all resources of one kind."""
        items: Sequence[Object] = self.request("GET", resource.path(namespace))["items"]
        return list(items)

    def merge(self, resource: Resource, namespace: str | None, name: str, patch: Object) -> Object:
        """Merge a patch into one resource."""
        return self.request("PATCH", resource.path(namespace, name), patch, _MERGE)

    def delete(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """Ask for one resource to be deleted."""
        return self.request("DELETE", resource.path(namespace, name), {"propagationPolicy": "Background"})

    def request(self, method: str, path: str, body: Object | None = None, content: str = "application/json") -> Object:
        """Make one request; raises Refused unless it succeeds."""
        data = None if body is None else json.dumps(body).encode()
        for attempt in (1, 2):
            if self._connection is None:
                self._connection = http.client.HTTPSConnection(self._host, timeout=60, context=self._context)
            try:
                self._connection.request(method, path, data, {"Content-Type": content, "Accept": "application/json"})
                response = self._connection.getresponse()
                text = response.read()
            except (http.client.HTTPException, OSError) as error:
                self._connection = None
                if attempt == 2 or not isinstance(error, ConnectionError):
                    raise
                continue
            if response.status >= 300:
                raise Refused(response.status, text.decode())
            found: Object = json.loads(text)
            return found
        raise AssertionError("not reached")

    def _apply(self, document: Object) -> Object:
        resource = KINDS[document["kind"]]
        meta = document["metadata"]
        path = resource.path(meta.get("namespace"), meta["name"])
        query = urlencode({"fieldManager": "tests", "force": "true"})
        return self.request("PATCH", f"{path}?{query}", document, _APPLY)
