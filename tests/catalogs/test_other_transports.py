"""REST through PyIceberg's session, for authentication that only it knows; and catalogs that cannot be loaded."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from reconciler.catalogs.connection import PropertyValue, explicit
from reconciler.catalogs.http import PooledTransport, PyIcebergTransport, can_authenticate, connect
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.diff.changes import CreateTable
from reconciler.errors import (
    CatalogUnavailable,
    CommitConflict,
    EnvironmentProblem,
    InvalidInput,
    LakeError,
    TableNotFound,
)
from reconciler.model.table import TableIdent
from tests.proxy import Fault, FaultProxy
from tests.suites.catalog_changes import CHANGES, orders, rows

BASIC: dict[str, PropertyValue] = {"type": "basic", "basic": {"username": "me", "password": "hunter2"}}


@pytest.fixture
def proxy(rest_catalog: dict[str, str]) -> Iterator[FaultProxy]:
    with FaultProxy(rest_catalog["uri"]) as proxy:
        yield proxy


@pytest.fixture
def lake(proxy: FaultProxy) -> IcebergCatalog:
    settings = explicit("rest", {"type": "rest", "uri": proxy.uri, "auth": BASIC})
    return IcebergCatalog(settings, sleep=lambda _: None)


def test_who_authenticates() -> None:
    known = [{}, {"token": "t"}, {"credential": "a:b"}]
    unknown: list[dict[str, PropertyValue]] = [{"auth": BASIC}, {"rest.sigv4-enabled": "true"}]
    for properties in known:
        settings = explicit("lake", {"uri": "http://h", **properties})
        assert can_authenticate(settings)
        assert isinstance(connect(settings), PooledTransport)
    for other in unknown:
        assert not can_authenticate(explicit("lake", {"uri": "http://h", **other}))


def test_a_table_lives_through_pyicebergs_session(lake: IcebergCatalog, proxy: FaultProxy) -> None:
    ident = TableIdent((f"basic_{uuid4().hex[:12]}",), "orders")
    made = lake.apply(ident, None, [CreateTable(spec=orders(ident))])
    proxy.plan(Fault(drop_after=True), method="POST", path="/tables/")
    outcome = lake.apply(ident, made.version, CHANGES["everything at once"])
    assert outcome.replayed
    with pytest.raises(CommitConflict):
        lake.apply(ident, made.version, CHANGES["add column"])
    with pytest.raises(TableNotFound):
        lake.get_table_spec(TableIdent(ident.namespace, "nope"))
    other = TableIdent((f"basic_{uuid4().hex[:12]}",), "orders")
    lake.apply(other, None, [CreateTable(spec=orders(other))])
    lake.commit(other, [lake.write_batch(other, rows(1), "one")])
    assert dict(lake.get_table_specs([ident, other]))[other].statistics.rows == 1  # type: ignore[union-attr]
    assert isinstance(lake._backend._transport, PyIcebergTransport)  # type: ignore[attr-defined]
    assert {r.headers["Authorization"].split()[0] for r in proxy.requests} == {"Basic"}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"type": "nonsense"}, InvalidInput),
        ({}, InvalidInput),
        ({"type": "sql"}, InvalidInput),
        ({"type": "sql", "uri": "sqlite:////nowhere/at/all/c.db"}, CatalogUnavailable),
        ({"uri": "postgresql+nodriver://me:hunter2@127.0.0.1:1/db"}, EnvironmentProblem),
        ({"uri": "thrift://127.0.0.1:1"}, LakeError),
        ({"type": "glue", "glue.region": "eu-west-1"}, EnvironmentProblem),
        ({"py-catalog-impl": "no.such.Catalog"}, LakeError),
        ({"type": "rest", "uri": "http://127.0.0.1:1", "auth": BASIC}, CatalogUnavailable),
    ],
    ids=str,
)
def test_catalogs_that_cannot_be_loaded(properties: dict[str, str], expected: type[LakeError]) -> None:
    ident = TableIdent(("sales",), "orders")
    lake = IcebergCatalog(explicit("lake", properties), sleep=lambda _: None)
    with pytest.raises(expected) as caught:
        lake.apply(ident, None, [CreateTable(spec=orders(ident))])
    assert "hunter2" not in str(caught.value)
    assert "catalog lake" in str(caught.value)
