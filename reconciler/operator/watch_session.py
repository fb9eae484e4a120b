"""The HTTP session that Kopf watches with: ours, so that `health` hears what became of each watch.

Kopf keeps to itself whether a watch was accepted, refused or is being tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import aiohttp
import kopf
from yarl import URL

from reconciler.operator.connection import connect
from reconciler.operator.health import Health


def open_session(health: Health, plurals: frozenset[str], relisted: Callable[[], None]) -> kopf.AiohttpSession:
    """Return a new session with credentials as they are now; `relisted` hears when a watch began anew by a listing."""
    connection = connect()
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=connection.ssl),
        headers=connection.headers(),
        trace_configs=[_tracing(health, plurals, relisted)],
    )
    return kopf.AiohttpSession(
        server=connection.server, default_namespace=connection.default_namespace, aiohttp_session=session
    )


def place_of(url: URL, plurals: frozenset[str]) -> tuple[str, str] | None:
    """Name the plural and the namespace that a request lists or watches; None when it is another one."""
    parts = url.path.strip("/").split("/")
    if parts[-1] not in plurals:
        return None
    return parts[-1], parts[-2] if parts[-3:-2] == ["namespaces"] else ""


def _tracing(health: Health, plurals: frozenset[str], relisted: Callable[[], None]) -> aiohttp.TraceConfig:
    listed: set[tuple[str, str]] = set()
    trace = aiohttp.TraceConfig()

    async def started(_: aiohttp.ClientSession, __: SimpleNamespace, params: aiohttp.TraceRequestStartParams) -> None:
        place = place_of(params.url, plurals)
        if place is not None:
            health.asked(*place)

    async def ended(_: aiohttp.ClientSession, __: SimpleNamespace, params: aiohttp.TraceRequestEndParams) -> None:
        place = place_of(params.url, plurals)
        if place is None or params.response.status != 200:
            return
        if params.url.query.get("watch") == "true":
            answer = params.response
            health.accepted(*place, has_ended=lambda: answer.closed)
        elif place in listed:
            relisted()
        else:
            listed.add(place)

    trace.on_request_start.append(started)
    trace.on_request_end.append(ended)
    return trace
