"""What reconcilers are given: one value, made by `run`, passed down; nothing here is global."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reconciler.operator.api import KubeApi
from reconciler.operator.events import EventWriter
from reconciler.operator.health import Health
from reconciler.operator.lease import Fence
from reconciler.operator.metrics import Metrics
from reconciler.operator.objects import NAMESPACES, Json, Key, Resource, mapping_at, meta_of
from reconciler.operator.pool import CatalogPool
from reconciler.operator.reasons import EventReason
from reconciler.operator.settings import Settings
from reconciler.operator.store import Store

NAMESPACE_SECONDS = 60.0


def epoch_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class Context:
    """The operator's parts, as reconcilers see them."""

    settings: Settings
    api: KubeApi
    store: Store
    pool: CatalogPool
    events: EventWriter
    enqueue: Callable[[Key], None]
    fence: Fence
    health: Health = field(default_factory=Health)
    metrics: Metrics = field(default_factory=Metrics)
    now_ms: Callable[[], int] = epoch_ms
    _labels: dict[str, tuple[float, Mapping[str, str]]] = field(default_factory=dict)

    def tell(self, resource: Resource, raw: Json, reason: EventReason, note: str, *, warning: bool = False) -> None:
        """Write a Kubernetes event."""
        self.events.write(resource, raw, reason, note, now_ms=self.now_ms(), warning=warning)

    async def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return a namespace's labels, a minute old at most."""
        known = self._labels.get(namespace)
        if known is not None and time.monotonic() - known[0] < NAMESPACE_SECONDS:
            return known[1]
        labels = meta_of(await self.api.get(NAMESPACES, None, namespace)).labels
        self._labels[namespace] = (time.monotonic(), labels)
        return labels

    async def is_terminating(self, namespace: str) -> bool:
        """Say whether a namespace is being deleted."""
        raw = await self.api.get(NAMESPACES, None, namespace)
        return mapping_at(raw, "status").get("phase") == "Terminating" or meta_of(raw).deletion_timestamp is not None
