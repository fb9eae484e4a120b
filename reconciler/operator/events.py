"""Kubernetes events about our resources: closed reasons, cleaned messages, one request each and never awaited."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket

from reconciler.operator.api import ApiError, ApiExists, KubeApi
from reconciler.operator.lease import NotLeading
from reconciler.operator.objects import EVENTS, Json, Resource, meta_of, print_time
from reconciler.operator.reasons import EventReason
from reconciler.render.safe import clean

logger = logging.getLogger("laketable.operator")
CONTROLLER = "laketable.dev/operator"
_NOTE_LENGTH = 1000


class EventWriter:
    """Writes events in the background; what cannot be written is logged, for no reconcile depends on it."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._tasks: set[asyncio.Task[None]] = set()
        self._instance = f"{socket.gethostname()}-{os.getpid()}"[:128]

    def write(
        self, resource: Resource, raw: Json, reason: EventReason, note: str, *, now_ms: int, warning: bool = False
    ) -> None:
        """Tell people what happened to an object; the same about the same generation is said once."""
        meta = meta_of(raw)
        note = clean(note, _NOTE_LENGTH)
        content = "\0".join((meta.uid, str(meta.generation), reason, note))
        name = f"{meta.name[:40].rstrip('-')}.{hashlib.sha256(content.encode()).hexdigest()[:16]}"
        body: Json = {
            "metadata": {"name": name, "namespace": meta.namespace},
            "eventTime": print_time(now_ms).replace("Z", ".000000Z"),
            "type": "Warning" if warning else "Normal",
            "reason": str(reason),
            "action": "Reconcile",
            "note": note,
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "regarding": {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            },
        }
        task = asyncio.get_running_loop().create_task(self._send(meta.namespace, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def flush(self) -> None:
        """Wait for what is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _send(self, namespace: str, body: Json) -> None:
        try:
            await self._api.create(EVENTS, namespace, body)
        except ApiExists:
            return
        except (ApiError, NotLeading) as error:
            logger.warning("an event was not written: %s", error)
