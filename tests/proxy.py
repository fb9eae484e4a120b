"""An HTTP proxy for tests that makes a network's faults on demand; standard library only.

Put it before a server, give its `uri` to the client, and plan faults:

    with FaultProxy(upstream_uri) as proxy:
        proxy.latency_seconds = 0.02
        proxy.plan(Fault(drop_after=True), method="POST", path="/tables/")  # the upstream acts, the client never hears
        proxy.plan(Fault(status=503), times=2)  # answered here, never forwarded
        ...
        assert proxy.requests[-1].path.endswith("/orders")

Each planned fault is used up by the requests it matches, in the order planned. Watches of a Kubernetes API are passed
on as they come.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host"})


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request; several parts may be combined with `forward`.

    `drop_before`: close without forwarding. `drop_after`: forward, wait for the answer, close without passing it on.
    `status`: answer this instead; with `forward`, only after the upstream has acted. `truncate`: pass on half a body.
    `delay_seconds`: wait before anything else. `body` and `headers` belong to `status`. `call`: what is done when the
    upstream has acted (or will not), before the client hears of it.
    """

    drop_before: bool = False
    drop_after: bool = False
    status: int | None = None
    forward: bool = False
    truncate: bool = False
    delay_seconds: float = 0.0
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    call: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Recorded:
    """One request that came through, and the status the client was given (None: the connection was dropped)."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    upstream_status: int | None
    status: int | None


@dataclass
class _Planned:
    fault: Fault
    times: int
    method: str | None
    path: str


class FaultProxy:
    """A threading reverse proxy on the loopback; usable as a context manager. `context` is for an upstream by HTTPS."""

    def __init__(self, upstream: str, context: ssl.SSLContext | None = None) -> None:
        self.upstream = urlsplit(upstream)
        self._context = context
        self.latency_seconds = 0.0
        self._planned: list[_Planned] = []
        self._requests: list[Recorded] = []
        self._lock = threading.Lock()
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def uri(self) -> str:
        """Where clients connect; the upstream's path is kept."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.upstream.path}"

    @property
    def requests(self) -> list[Recorded]:
        """A copy of everything seen so far."""
        with self._lock:
            return list(self._requests)

    def plan(self, fault: Fault, *, times: int = 1, method: str | None = None, path: str = "") -> None:
        """Let the next `times` requests with this method, whose path contains `path`, meet the fault."""
        with self._lock:
            self._planned.append(_Planned(fault, times, method, path))

    def forget(self) -> None:
        """Drop planned faults and recorded requests."""
        with self._lock:
            self._planned.clear()
            self._requests.clear()

    def take(self, method: str, path: str, body: bytes = b"") -> Fault | None:
        """Use up the first planned fault that matches."""
        with self._lock:
            for planned in self._planned:
                if planned.times > 0 and planned.method in (None, method) and planned.path in path:
                    planned.times -= 1
                    return planned.fault
        return None

    def connect(self) -> http.client.HTTPConnection:
        """Make a connection to the upstream; it is opened by its first request."""
        host, port = self.upstream.hostname or "", self.upstream.port
        if self.upstream.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=60, context=self._context)
        return http.client.HTTPConnection(host, port, timeout=60)

    def record(self, request: Recorded) -> None:
        """Remember one request."""
        with self._lock:
            self._requests.append(request)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay silent: clients that go away are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    owner: FaultProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # write whole answers, not a packet a header
    upstream: http.client.HTTPConnection | None = None

    def handle_request(self) -> None:
        """Read one request, meet its fault, forward it, answer."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.owner.take(self.command, self.path, body) or Fault()
        time.sleep(self.owner.latency_seconds + fault.delay_seconds)
        if fault.drop_before:
            self._drop(body, None, fault.call)
            return
        if fault.status is not None and not fault.forward:
            fault.call()
            self._record(body, None, fault.status)
            self._answer(fault.status, fault.headers, fault.body)
            return
        if self.command == "GET" and "watch=true" in self.path:
            self._pass_on()
            return
        status, headers, answer = self._forward(body)
        if fault.drop_after:
            self._drop(body, status, fault.call)
            return
        fault.call()
        if fault.status is not None:
            self._record(body, status, fault.status)
            self._answer(fault.status, fault.headers, fault.body)
        else:
            self._record(body, status, status)
            self._answer(status, headers, answer, truncate=fault.truncate)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = handle_request

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
        if self.upstream is not None and _has_ended(self.upstream):
            self.upstream.close()
            self.upstream = None
        for attempt in (1, 2):
            if self.upstream is None:
                self.upstream = self.owner.connect()
            try:
                self.upstream.request(self.command, self.path, body or None, headers)
                response = self.upstream.getresponse()
                data = response.read()
            except (http.client.RemoteDisconnected, ConnectionError, BrokenPipeError):
                self.upstream.close()
                self.upstream = None
                # The upstream closed it just now; only what is safe to repeat is repeated.
                if attempt == 2 or self.command not in ("GET", "HEAD"):
                    return 502, {}, b""
                continue
            kept = {k: v for k, v in response.getheaders() if k.lower() not in (*_HOP_BY_HOP, "content-length")}
            return response.status, kept, data
        return 502, {}, b""

    def _pass_on(self) -> None:
        """Pass on an answer that has no end, until one of both sides goes away."""
        upstream = self.owner.connect()
        self.close_connection = True
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException), contextlib.closing(upstream):
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
            upstream.request("GET", self.path, headers=headers)
            there = upstream.sock
            there.settimeout(None)
            threading.Thread(target=_end_with, args=(self.connection, there), daemon=True).start()
            response = upstream.getresponse()
            self._record(b"", response.status, response.status)
            self.send_response_only(response.status)
            self.send_header("Content-Type", response.getheader("Content-Type", ""))
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            while data := response.read1(65536):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes, *, truncate: bool = False) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != 304:
            self.wfile.write(body[: len(body) // 2] if truncate else body)
        self.wfile.flush()
        if truncate:
            self._close()

    def _drop(self, body: bytes, upstream_status: int | None, call: Callable[[], object]) -> None:
        self._record(body, upstream_status, None)
        call()  # it may end the client, whose end somebody waits for who then asks what was recorded
        self._close()

    def _close(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _record(self, body: bytes, upstream_status: int | None, status: int | None) -> None:
        self.owner.record(Recorded(self.command, self.path, dict(self.headers), body, upstream_status, status))

    def finish(self) -> None:
        """Close both sides."""
        if self.upstream is not None:
            self.upstream.close()
        with contextlib.suppress(OSError, ValueError):
            super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""


def _has_ended(connection: http.client.HTTPConnection) -> bool:
    """Say whether the other side closed an idle connection: it has nothing else to say between two requests."""
    return connection.sock is not None and bool(select.select([connection.sock], [], [], 0)[0])


def _end_with(client: socket.socket, upstream: socket.socket) -> None:
    """Shut the upstream's side when the client closes: nobody reads from it any more."""
    with contextlib.suppress(OSError, ValueError):
        select.select([client], [], [])  # it says nothing while it watches
        upstream.shutdown(socket.SHUT_RDWR)
