"""The fault proxy does what tests rely on: each fault, once, in order, and a true record."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.proxy import Fault, FaultProxy


class _Upstream(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 0.2  # for a client that says nothing more
    acted: list[str]
    left: threading.Event

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.acted.append(body.decode())
        self.send_response(200)
        self.send_header("ETag", "e1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def finish(self) -> None:
        super().finish()
        self.connection.close()
        self.left.set()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def acted() -> list[str]:
    return []


@pytest.fixture
def left() -> threading.Event:
    return threading.Event()


@pytest.fixture
def proxy(acted: list[str], left: threading.Event) -> Iterator[FaultProxy]:
    handler = type("Handler", (_Upstream,), {"acted": acted, "left": left})
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    upstream.daemon_threads = True
    thread = threading.Thread(target=upstream.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    with FaultProxy(f"http://127.0.0.1:{upstream.server_address[1]}") as proxy:
        yield proxy
    upstream.shutdown()
    upstream.server_close()


def post(proxy: FaultProxy, body: str, path: str = "/x") -> tuple[int, bytes, str | None]:
    connection = http.client.HTTPConnection(proxy.uri.removeprefix("http://"), timeout=5)
    try:
        connection.request("POST", path, body.encode())
        response = connection.getresponse()
        return response.status, response.read(), response.headers.get("ETag")
    finally:
        connection.close()


def test_without_a_fault_it_is_not_there(proxy: FaultProxy, acted: list[str]) -> None:
    assert post(proxy, "hello") == (200, b"hello", "e1")
    assert acted == ["hello"]
    (seen,) = proxy.requests
    assert (seen.method, seen.path, seen.body, seen.upstream_status, seen.status) == ("POST", "/x", b"hello", 200, 200)


def test_an_idle_connection_that_the_upstream_closed_costs_no_request(
    proxy: FaultProxy, acted: list[str], left: threading.Event
) -> None:
    connection = http.client.HTTPConnection(proxy.uri.removeprefix("http://"), timeout=5)
    for body in ("one", "two"):
        connection.request("POST", "/x", body.encode())
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, body.encode())
        assert left.wait(60)
    connection.close()
    assert acted == ["one", "two"]


def test_dropped_after_the_upstream_acted(proxy: FaultProxy, acted: list[str]) -> None:
    proxy.plan(Fault(drop_after=True))
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        post(proxy, "one")
    assert acted == ["one"]
    assert (proxy.requests[0].upstream_status, proxy.requests[0].status) == (200, None)
    assert post(proxy, "two")[0] == 200


def test_dropped_before_it(proxy: FaultProxy, acted: list[str]) -> None:
    proxy.plan(Fault(drop_before=True))
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        post(proxy, "one")
    assert acted == []
    assert proxy.requests[0].upstream_status is None


def test_a_status_with_and_without_forwarding(proxy: FaultProxy, acted: list[str]) -> None:
    proxy.plan(Fault(status=503, body=b"busy"), times=2)
    proxy.plan(Fault(status=500, forward=True))
    assert [post(proxy, str(n))[0] for n in range(4)] == [503, 503, 500, 200]
    assert acted == ["2", "3"]


def test_a_fault_meets_only_what_it_is_meant_for(proxy: FaultProxy) -> None:
    proxy.plan(Fault(status=418), path="/tables/", method="POST")
    assert post(proxy, "", path="/namespaces")[0] == 200
    assert post(proxy, "", path="/v1/tables/a")[0] == 418


def test_an_answer_cut_off(proxy: FaultProxy) -> None:
    proxy.plan(Fault(truncate=True))
    with pytest.raises(http.client.IncompleteRead):
        post(proxy, "0123456789")


def test_what_is_called_happens_between_the_upstream_and_the_client(proxy: FaultProxy, acted: list[str]) -> None:
    seen: list[list[str]] = []
    proxy.plan(Fault(drop_before=True, call=lambda: seen.append(list(acted))))
    proxy.plan(Fault(call=lambda: seen.append(list(acted))))
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        post(proxy, "one")
    post(proxy, "two")
    assert seen == [[], ["two"]]


def test_latency(proxy: FaultProxy) -> None:
    proxy.latency_seconds = 0.1
    started = time.monotonic()
    post(proxy, "slow")
    assert time.monotonic() - started >= 0.1


def test_an_upstream_that_is_gone_is_a_502() -> None:
    with FaultProxy("http://127.0.0.1:1") as proxy:
        assert post(proxy, "x")[0] == 502


def test_a_watch_is_passed_on_as_it_comes_and_ends_with_its_reader() -> None:
    ended = threading.Event()
    proceed = threading.Event()

    class Watched(_Upstream):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"5\r\nevent\r\n")
                    self.wfile.flush()
                    proceed.wait(5)
            except OSError:
                ended.set()

    upstream = ThreadingHTTPServer(("127.0.0.1", 0), Watched)
    upstream.daemon_threads = True
    threading.Thread(target=upstream.serve_forever, args=(0.02,), daemon=True).start()
    with FaultProxy(f"http://127.0.0.1:{upstream.server_address[1]}") as proxy:
        connection = http.client.HTTPConnection(proxy.uri.removeprefix("http://"), timeout=5)
        connection.request("GET", "/x?watch=true")
        response = connection.getresponse()
        assert response.read(5) == b"event"  # though the answer has no end
        response.close()
        connection.close()
        proceed.set()
        assert ended.wait(5)
        assert [request.upstream_status for request in proxy.requests] == [200]
    upstream.shutdown()
    upstream.server_close()
