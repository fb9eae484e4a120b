"""Talking REST directly: authentication, caching, failures; the server is canned, byte by byte."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from reconciler.catalogs.connection import explicit
from reconciler.catalogs.etags import Cached, EtagCache
from reconciler.catalogs.fast_rest import RestBackend
from reconciler.catalogs.http import PooledTransport
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.errors import (
    CatalogUnavailable,
    InvalidInput,
    InvalidTable,
    LakeError,
    NamespaceNotFound,
    PermissionDenied,
    TableNotFound,
    Throttled,
    Unauthenticated,
    Unsupported,
)
from reconciler.model.table import Observed, TableIdent
from tests.proxy import Fault, FaultProxy

ORDERS = TableIdent(("sales", "eu"), "orders")
METADATA = {
    "format-version": 2,
    "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "location": "s3://lake/orders",
    "last-sequence-number": 0,
    "last-updated-ms": 0,
    "last-column-id": 1,
    "current-schema-id": 0,
    "schemas": [
        {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": False, "type": "int"}]}
    ],
    "default-spec-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "last-partition-id": 999,
    "default-sort-order-id": 0,
    "sort-orders": [{"order-id": 0, "fields": []}],
}
SECRET = "hunter2"


def answer(body: object, status: int = 200, **headers: str) -> Fault:
    """A canned answer."""
    return Fault(
        status=status, body=json.dumps(body).encode(), headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


def error(status: int, type_: str = "", **headers: str) -> Fault:
    """A canned error, whose message nobody may repeat."""
    return answer({"error": {"message": SECRET, "type": type_, "code": status}}, status, **headers)


def table(config: Mapping[str, str] | None = None, **extra: object) -> dict[str, object]:
    """A load-table answer."""
    return {"metadata-location": "s3://lake/m.json", "metadata": METADATA, "config": dict(config or {}), **extra}


@pytest.fixture
def server() -> Iterator[FaultProxy]:
    """A server that answers only what is planned, and 502 to everything else."""
    with FaultProxy("http://127.0.0.1:1") as proxy:
        yield proxy


@pytest.fixture
def configured(server: FaultProxy) -> FaultProxy:
    """It has answered its configuration."""
    server.plan(answer({"defaults": {}, "overrides": {}}), path="/v1/config")
    return server


def catalog(
    server: FaultProxy,
    *,
    cache: Path | None = None,
    now: int = 0,
    properties: Mapping[str, str] | None = None,
    **plain: str,
) -> IcebergCatalog:
    settings = explicit("lake", {"type": "rest", "uri": server.uri, **plain, **(properties or {})})
    pauses: list[float] = []
    backend = RestBackend(settings, lambda: PooledTransport(settings, sleep=pauses.append), EtagCache(cache))
    return IcebergCatalog(settings, backend=backend, now_ms=lambda: now, sleep=pauses.append)


# ---------------------------------------------------------------- routes and authentication


def test_prefix_separator_and_overrides_come_from_the_server(server: FaultProxy) -> None:
    overrides = {"prefix": "ws/1", "namespace-separator": "%2E", "header.X-Tenant": "blue"}
    server.plan(answer({"defaults": {}, "overrides": overrides}), path="/v1/config")
    server.plan(answer(table()))
    seen = catalog(server, warehouse="my lake").get_table_spec(ORDERS)
    assert seen.spec.location == "s3://lake/orders"
    config, load = server.requests
    assert config.path == "/v1/config?warehouse=my+lake"
    assert load.path == "/v1/ws/1/namespaces/sales%2Eeu/tables/orders?snapshots=all"
    assert load.headers["X-Tenant"] == "blue"


def test_names_of_dots_are_no_steps_up(configured: FaultProxy) -> None:
    configured.plan(answer(table()))
    catalog(configured).get_table_spec(TableIdent(("sales",), ".."))
    assert configured.requests[-1].path == "/v1/namespaces/sales/tables/..?snapshots=all"


def test_a_proxy_is_asked_for_the_whole_address(server: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.uri)
    server.plan(answer({"defaults": {}, "overrides": {}}), path="/v1/config")
    server.plan(answer(table()))
    settings = explicit("lake", {"type": "rest", "uri": "http://catalog.example/api"})
    assert IcebergCatalog(settings).get_table_spec(ORDERS).spec.location == "s3://lake/orders"
    assert all(request.path.startswith("http://catalog.example/api/v1/") for request in server.requests)


def test_observation_asks_for_no_credentials(configured: FaultProxy) -> None:
    configured.plan(answer(table()))
    catalog(configured, token="abc").get_table_spec(ORDERS)
    for request in configured.requests:
        assert request.headers["Authorization"] == "Bearer abc"
        assert not any(name.lower() == "x-iceberg-access-delegation" for name in request.headers)


def test_only_the_snapshots_of_refs_when_asked_for(configured: FaultProxy) -> None:
    configured.plan(answer(table()))
    catalog(configured, properties={"snapshot-loading-mode": "refs"}).get_table_spec(ORDERS)
    assert configured.requests[-1].path.endswith("?snapshots=refs")


def test_client_credentials_are_exchanged_once_and_renewed_when_refused(server: FaultProxy) -> None:
    server.plan(answer({"access_token": "first", "token_type": "bearer", "expires_in": 3600}), path="/oauth")
    server.plan(answer({"defaults": {}, "overrides": {}}), path="/v1/config")
    server.plan(answer(table()), path="/tables/")
    server.plan(error(401), path="/tables/")
    server.plan(answer({"access_token": "second", "token_type": "bearer"}), path="/oauth")
    server.plan(answer(table()), path="/tables/")
    lake = catalog(
        server, credential=f"id:{SECRET}", scope="all", properties={"oauth2-server-uri": f"{server.uri}/oauth"}
    )
    lake.get_table_spec(ORDERS)
    lake.get_table_spec(ORDERS)
    tokens = [r for r in server.requests if r.path == "/oauth"]
    assert parse_qs(tokens[0].body.decode()) == {
        "grant_type": ["client_credentials"],
        "client_id": ["id"],
        "client_secret": [SECRET],
        "scope": ["all"],
    }
    sent = [r.headers["Authorization"] for r in server.requests if "/tables/" in r.path]
    assert sent == ["Bearer first", "Bearer first", "Bearer second"]


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(answer({"error": "invalid_client", "error_description": SECRET}, 401), id="401"),
        pytest.param(answer({"error": "invalid_scope"}, 400), id="400"),
        pytest.param(Fault(status=200, body=b"<html>"), id="not json"),
    ],
)
def test_a_refused_credential(server: FaultProxy, refusal: Fault) -> None:
    server.plan(refusal, times=9)
    with pytest.raises(Unauthenticated) as caught:
        catalog(server, credential=f"id:{SECRET}").get_table_spec(ORDERS)
    assert SECRET not in str(caught.value)


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        pytest.param(error(404, "NoSuchTableException"), TableNotFound, id="no table"),
        pytest.param(error(404, "NoSuchNamespaceException"), NamespaceNotFound, id="no namespace"),
        pytest.param(Fault(status=404, body=b"<html>"), TableNotFound, id="404 without a body"),
        pytest.param(error(401), Unauthenticated, id="401"),
        pytest.param(error(403), PermissionDenied, id="403"),
        pytest.param(error(419), Unauthenticated, id="419"),
        pytest.param(error(400), InvalidInput, id="400"),
        pytest.param(error(429), Throttled, id="429"),
        pytest.param(error(500), CatalogUnavailable, id="500"),
        pytest.param(error(501), Unsupported, id="501"),
        pytest.param(error(503), CatalogUnavailable, id="503"),
        pytest.param(Fault(status=302, headers={"Location": "http://elsewhere"}), CatalogUnavailable, id="redirect"),
        pytest.param(Fault(status=200, body=b"<html>"), InvalidTable, id="html"),
        pytest.param(answer({"metadata": {}}), InvalidTable, id="empty metadata"),
        pytest.param(Fault(drop_before=True), CatalogUnavailable, id="dropped"),
    ],
)
def test_failures_have_a_reason_and_no_foreign_text(
    configured: FaultProxy, fault: Fault, expected: type[LakeError]
) -> None:
    configured.plan(fault, times=9)
    with pytest.raises(LakeError) as caught:
        catalog(configured, token=SECRET).get_table_spec(ORDERS)
    assert type(caught.value) is expected
    assert SECRET not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


def test_a_busy_server_is_asked_again(configured: FaultProxy) -> None:
    configured.plan(error(503))
    configured.plan(error(429, Retry_After="1"))
    configured.plan(answer(table()))
    assert isinstance(catalog(configured).get_table_spec(ORDERS), Observed)


@pytest.mark.parametrize(("credential", "path"), [("", "/tables/"), (f"id:{SECRET}", "/oauth")])
def test_a_silent_server_is_not_asked_again(configured: FaultProxy, credential: str, path: str) -> None:
    """It would be silent for as long again, and who waits hears nothing: an operator's status, for one."""
    configured.plan(Fault(delay_seconds=1.0, status=503), path=path, times=3)
    settings = explicit("lake", {"type": "rest", "uri": configured.uri, "credential": credential})
    pauses: list[float] = []
    transport = PooledTransport(settings, read_seconds=0.2, sleep=pauses.append)
    lake = IcebergCatalog(settings, backend=RestBackend(settings, lambda: transport))
    with pytest.raises(CatalogUnavailable, match="broke" if credential else r"did not answer within 0\.2 s"):
        lake.get_table_spec(ORDERS)
    assert pauses == []  # there is one before each repetition


def test_one_tables_failure_is_its_value(configured: FaultProxy) -> None:
    configured.plan(error(403), path="/tables/secret")
    configured.plan(answer(table()), path="/tables/orders")
    secret = TableIdent(("sales",), "secret")
    seen = dict(catalog(configured).get_table_specs([secret, ORDERS]))
    assert isinstance(seen[secret], PermissionDenied)
    assert isinstance(seen[ORDERS], Observed)


def test_an_unreachable_host() -> None:
    lake = IcebergCatalog(explicit("lake", {"uri": "http://me:hunter2@127.0.0.1:1/api"}), sleep=lambda _: None)
    with pytest.raises(CatalogUnavailable) as caught:
        lake.get_table_spec(ORDERS)
    assert "127.0.0.1:1" in str(caught.value)
    assert SECRET not in str(caught.value)
    ((_, value),) = lake.get_table_specs([ORDERS])
    assert isinstance(value, CatalogUnavailable)


@pytest.mark.parametrize("uri", ["http://", "http://[", "ftp://h", "https://h:notaport"])
def test_an_address_that_is_none(uri: str) -> None:
    with pytest.raises(LakeError):
        IcebergCatalog(explicit("lake", {"type": "rest", "uri": uri})).get_table_spec(ORDERS)


@pytest.mark.parametrize("token", [f"{SECRET}\n2", f"{SECRET}-€"], ids=["two lines", "other than Latin"])
def test_a_token_that_cannot_be_sent_is_told_without_repeating_it(configured: FaultProxy, token: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be sent over HTTP") as refused:
        catalog(configured, token=token).get_table_spec(ORDERS)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None


def test_something_else_at_the_address(server: FaultProxy) -> None:
    server.plan(Fault(status=404, body=b"nginx"), times=9)
    with pytest.raises(CatalogUnavailable):
        catalog(server).get_table_spec(ORDERS)


# ---------------------------------------------------------------- cache


def test_an_unchanged_table_costs_a_304(configured: FaultProxy, tmp_path: Path) -> None:
    configured.plan(answer({"defaults": {}, "overrides": {}}), path="/v1/config")
    configured.plan(answer(table({"s3.session-token": SECRET}), ETag='"v1"'))
    configured.plan(Fault(status=304), times=2)
    lake = catalog(configured, cache=tmp_path)
    first = lake.get_table_spec(ORDERS)
    assert lake.get_table_spec(ORDERS) == first
    assert catalog(configured, cache=tmp_path).get_table_spec(ORDERS) == first
    loads = [r for r in configured.requests if "/tables/" in r.path]
    assert [(r.status, r.headers.get("If-None-Match")) for r in loads] == [(200, None), (304, '"v1"'), (304, '"v1"')]
    stored = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert stored
    assert all(SECRET.encode() not in path.read_bytes() for path in stored)


def test_a_changed_table_is_read_anew(configured: FaultProxy) -> None:
    configured.plan(answer(table(), ETag='"v1"'))
    changed = {**METADATA, "location": "s3://lake/moved"}
    configured.plan(answer({**table(), "metadata": changed}, ETag='"v2"'))
    configured.plan(Fault(status=304))
    lake = catalog(configured)
    locations = [lake.get_table_spec(ORDERS).spec.location for _ in range(3)]
    assert locations == ["s3://lake/orders", "s3://lake/moved", "s3://lake/moved"]
    assert configured.requests[-1].headers["If-None-Match"] == '"v2"'


def test_a_broken_or_unwritable_cache_only_costs_speed(configured: FaultProxy, tmp_path: Path) -> None:
    configured.plan(answer({"defaults": {}, "overrides": {}}), path="/v1/config", times=2)
    configured.plan(answer(table(), ETag='"v1"'), times=3)
    catalog(configured, cache=tmp_path).get_table_spec(ORDERS)
    for path in tmp_path.rglob("*"):
        path.write_bytes(b"broken")
    assert isinstance(catalog(configured, cache=tmp_path).get_table_spec(ORDERS), Observed)
    (tmp_path / "file").write_text("")
    assert isinstance(catalog(configured, cache=tmp_path / "file" / "x").get_table_spec(ORDERS), Observed)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.catalogs.etags.MEMORY_BYTES", 250)
    cache = EtagCache()
    for number in range(5):
        cache.put(str(number), Cached(etag="e", metadata_location="", metadata=b"x" * 100))
    assert [cache.get(str(number)) is not None for number in range(5)] == [False, False, False, True, True]


# ---------------------------------------------------------------- credentials


def test_vended_credentials_the_longest_prefix_and_the_first_expiry(configured: FaultProxy) -> None:
    credentials = [
        {"prefix": "s3://lake/", "config": {"s3.access-key-id": "short", "s3.session-token-expires-at-ms": "9"}},
        {"prefix": "s3://lake/ord", "config": {"s3.access-key-id": "long", "s3.session-token-expires-at-ms": "3000"}},
    ]
    config = {"adls.sas-token-expires-at-ms.acct": "2000", "token": "not storage", "s3.region": "eu"}
    configured.plan(answer(table(config, **{"storage-credentials": credentials})), times=2)
    lake = catalog(configured, token=SECRET, now=1000)
    context = lake.get_security_context(ORDERS)
    assert context.expires_at_ms == 2000
    assert context.properties["s3.access-key-id"] == "long"
    assert "token" not in context.properties
    assert SECRET not in repr(context)
    assert configured.requests[-1].headers["X-Iceberg-Access-Delegation"] == "vended-credentials"
    before = len(configured.requests)
    lake.get_security_context(ORDERS)
    assert len(configured.requests) == before + 1


@pytest.mark.parametrize(
    "key", ["s3.session-token-expires-at-ms", "adls.sas-token-expires-at-ms.acct", "gcs.oauth2.token-expires-at"]
)
def test_expired_credentials_are_refused(configured: FaultProxy, key: str) -> None:
    configured.plan(answer({"defaults": {}, "overrides": {}}), path="/v1/config")
    configured.plan(answer(table({key: "1000"})), times=2)
    assert catalog(configured, now=999).get_security_context(ORDERS).expires_at_ms == 1000
    with pytest.raises(Unauthenticated):
        catalog(configured, now=1000).get_security_context(ORDERS)


# ---------------------------------------------------------------- names


def test_lists_follow_pages(configured: FaultProxy) -> None:
    page: Callable[[str, str | None], Fault] = lambda name, token: answer(  # noqa: E731
        {"identifiers": [{"namespace": ["s"], "name": name}], "next-page-token": token}
    )
    configured.plan(page("a", "t&1"))
    configured.plan(page("b", None))
    assert [t.name for t in catalog(configured).list_tables(("s",))] == ["a", "b"]
    assert configured.requests[-1].path.endswith("/tables?pageToken=t%261")
