"""A thin client of the Kubernetes API over aiohttp: plain JSON in and out, every failure an `ApiError`.

Kopf keeps the watches; what we read and write goes through here. The official client costs 0.3 s and 60 MiB to import
and several times the CPU per request, and Kopf's own request functions are private.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from urllib.parse import urlencode

import aiohttp
import msgspec
from aiohttp.abc import AbstractStreamWriter

from reconciler.errors import LakeError
from reconciler.operator.connection import Connection
from reconciler.operator.objects import Json, Resource, mapping_at, text_at

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PAGE = 200
CONNECTIONS = 64
_TIMEOUT = aiohttp.ClientTimeout(total=30, connect=5)


class ApiError(LakeError):
    """The Kubernetes API said no, or nothing; `api_reason` is its own word for it, never its free text."""

    reason = "KubernetesError"

    def __init__(self, message: str, *, status: int = 0, api_reason: str = "", hint: str = "") -> None:
        super().__init__(message, where="Kubernetes API", hint=hint)
        self.status = status
        self.api_reason = api_reason


class ApiNotFound(ApiError):
    """There is no such object, or no such kind."""


class ApiConflict(ApiError):
    """The object is not the one that was read."""


class ApiExists(ApiConflict):
    """There is such an object already."""


class ApiForbidden(ApiError):
    """The operator's service account lacks a permission."""

    reason = "KubernetesForbidden"


class ApiInvalid(ApiError):
    """The API server refuses the object's content."""


class ApiUnavailable(ApiError):
    """The API server did not answer, or not sensibly; a write may have been done."""

    reason = "KubernetesUnavailable"


def _allow() -> None:
    pass


class _GuardedBody(aiohttp.BytesPayload):
    """Asks `guard` when its request goes on the wire: until then it may have waited long for a connection."""

    def __init__(self, data: bytes, guard: Callable[[], None]) -> None:
        super().__init__(data)
        self._guard = guard

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write everything, headers included, which are sent with the first part of a body."""
        self._guard()
        await super().write_with_length(writer, content_length)


class KubeApi:
    """Requests to one API server; an async context manager, used from one event loop.

    `guard` is asked before each write and again when it goes on the wire, and raises when there must be none.
    """

    def __init__(self, connection: Connection, guard: Callable[[], None] = _allow) -> None:
        self._connection = connection
        self._guard = guard
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> KubeApi:
        """Open the connection pool."""
        connector = aiohttp.TCPConnector(ssl=self._connection.ssl, limit=CONNECTIONS)
        self._session = aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection pool."""
        if self._session is not None:
            await self._session.close()

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Json:
        """Read one object; raises ApiNotFound."""
        return await self._request("GET", resource.path(namespace, name))

    async def ask(self, resource: Resource, namespace: str | None = None) -> None:
        """Find out whether the API server answers, its storage included."""
        await self._request("GET", resource.path(namespace), query={"limit": "1"})

    async def list_all(
        self, resource: Resource, namespace: str | None = None, *, labels: str = ""
    ) -> AsyncIterator[Json]:
        """Yield every object of a kind, page by page; `labels` is a label selector."""
        query = {"limit": str(PAGE)} | ({"labelSelector": labels} if labels else {})
        while True:
            page = await self._request("GET", resource.path(namespace), query=query)
            items = page.get("items")
            for item in items if isinstance(items, list) else ():
                if isinstance(item, dict):
                    yield item
            proceed = text_at(page, "metadata", "continue")
            if not proceed:
                return
            query = {**query, "continue": proceed}

    async def create(self, resource: Resource, namespace: str | None, body: Json, *, fenced: bool = True) -> Json:
        """Create one object; raises ApiExists. The Lease itself is not `fenced` by the Lease."""
        whole: Json = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return await self._request("POST", resource.path(namespace), body=whole, fenced=fenced)

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Json,
        *,
        part: str | None = None,
        fenced: bool = True,
    ) -> Json:
        """Merge a patch into one object, or into a part of it such as `status`.

        With a resourceVersion in the patch a changed object is an ApiConflict.
        """
        path = resource.path(namespace, name, part)
        return await self._request("PATCH", path, body=body, content=MERGE_PATCH, fenced=fenced)

    async def delete(self, resource: Resource, namespace: str | None, name: str, *, uid: str) -> None:
        """Delete exactly the object with this uid, and what it owns; one that is gone is no error."""
        body: Json = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            await self._request("DELETE", resource.path(namespace, name), body=body)
        except ApiNotFound:
            return

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
        content: str = "application/json",
        fenced: bool = True,
    ) -> Json:
        if self._session is None:
            raise RuntimeError("the client is not open")
        url = f"{self._connection.server}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "Content-Type": content, **self._connection.headers()}
        guard = self._guard if fenced and method != "GET" else _allow
        data = None if body is None else _GuardedBody(msgspec.json.encode(body), guard)
        guard()
        try:
            async with self._session.request(method, url, headers=headers, data=data) as response:
                content_read = await response.read()
                status = response.status
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            guard()  # which may have been what kept it from being sent
            raise ApiUnavailable(f"{method} {path} got no answer ({type(error).__name__}).") from error
        return _answer(method, path, status, content_read)


def _answer(method: str, path: str, status: int, content: bytes) -> Json:
    try:
        answer = msgspec.json.decode(content) if content else {}
    except msgspec.DecodeError:
        answer = {}
    if 200 <= status < 300 and isinstance(answer, dict):
        return answer
    raise _error(method, path, status, answer if isinstance(answer, dict) else {})


def _error(method: str, path: str, status: int, answer: Json) -> ApiError:
    """Name a failure by status and reason; the API's message may repeat what was sent, so it is left out."""
    word = text_at(answer, "reason")
    text = f"{method} {path} answered {status}{f' {word}' if word else ''}."
    fields = [text_at(cause, "field") for cause in _causes(answer)]
    if status == 422 and any(fields):
        text = f"{text[:-1]} ({', '.join(filter(None, fields))})."
    kinds: dict[int, type[ApiError]] = {
        404: ApiNotFound,
        409: ApiExists if word == "AlreadyExists" else ApiConflict,
        401: ApiForbidden,
        403: ApiForbidden,
        422: ApiInvalid,
        400: ApiInvalid,
    }
    kind = kinds.get(status, ApiUnavailable if status >= 500 or status == 429 else ApiError)
    return kind(text, status=status, api_reason=word)


def _causes(answer: Json) -> list[Json]:
    causes = mapping_at(answer, "details").get("causes")
    return [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []
