"""Commits over a network that breaks: nothing is lost, nothing is done twice, nothing is guessed.

A real REST server behind a proxy that makes the faults; the embedded catalog with a database that fails after it
committed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from reconciler.catalogs import sqlite_commit
from reconciler.catalogs.connection import embedded, explicit
from reconciler.catalogs.iceberg import ATTEMPTS, IcebergCatalog
from reconciler.diff.changes import Change, CreateTable, SetProperty, UpgradeFormat
from reconciler.errors import (
    CatalogUnavailable,
    CommitConflict,
    CommitStateUnknown,
    LakeError,
    TableAlreadyExists,
    TableNotFound,
)
from reconciler.model.metadata import decode_metadata
from reconciler.model.table import TableIdent
from reconciler.model.types import Field, StructType
from tests.proxy import Fault, FaultProxy
from tests.suites.catalog_changes import CHANGES, add, orders, rows

BOOKKEEPING = SetProperty(key="laketable.history", before=None, after="record")
UNKNOWN = [
    pytest.param(Fault(drop_after=True), id="dropped after the commit"),
    pytest.param(Fault(status=500, forward=True), id="500 after the commit"),
    pytest.param(Fault(status=503, forward=True), id="503 after the commit"),
    pytest.param(Fault(truncate=True), id="answer cut off"),
    pytest.param(Fault(drop_before=True), id="dropped before the commit"),
    pytest.param(Fault(status=504), id="504 before the commit"),
]


@pytest.fixture
def proxy(rest_catalog: dict[str, str]) -> Iterator[FaultProxy]:
    with FaultProxy(rest_catalog["uri"]) as proxy:
        yield proxy


@pytest.fixture
def lake(proxy: FaultProxy) -> IcebergCatalog:
    """The catalog through the faulty network."""
    return IcebergCatalog(explicit("rest", {"type": "rest", "uri": proxy.uri}), sleep=lambda _: None)


@pytest.fixture
def direct(rest_catalog: dict[str, str]) -> IcebergCatalog:
    """The same catalog, as other writers reach it."""
    return IcebergCatalog(explicit("rest", rest_catalog))


@pytest.fixture
def ident() -> TableIdent:
    return TableIdent((f"net_{uuid4().hex[:12]}",), "orders")


def version_number(location: str) -> int:
    """How many metadata files came before this one."""
    return int(location.rsplit("/", 1)[1].split("-", 1)[0])


@pytest.mark.parametrize("fault", UNKNOWN)
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([*CHANGES["everything at once"][:-1], BOOKKEEPING], id="everything"),
        pytest.param([BOOKKEEPING], id="property only"),
    ],
)
def test_an_unknown_commit_is_done_exactly_once(
    lake: IcebergCatalog, proxy: FaultProxy, ident: TableIdent, fault: Fault, changes: list[Change]
) -> None:
    made = lake.apply(ident, None, [CreateTable(spec=orders(ident))])
    proxy.plan(fault, method="POST", path="/tables/")
    outcome = lake.apply(ident, made.version, changes)
    acted_before_breaking = fault.forward or fault.drop_after or fault.truncate
    assert outcome.replayed == bool(acted_before_breaking)
    assert outcome.version == lake.get_table_spec(ident).version
    assert version_number(outcome.metadata_location) == version_number(made.metadata_location) + 1


@pytest.mark.parametrize("fault", UNKNOWN)
def test_an_unknown_creation_is_recognised_by_its_uuid(
    lake: IcebergCatalog, proxy: FaultProxy, ident: TableIdent, fault: Fault
) -> None:
    lake.create_namespace(ident.namespace)
    proxy.plan(fault, method="POST", path="/tables/")
    outcome = lake.apply(ident, None, [CreateTable(spec=orders(ident)), BOOKKEEPING])
    assert outcome.version == lake.get_table_spec(ident).version
    assert version_number(outcome.metadata_location) == 0


@pytest.mark.parametrize("fault", [p for p in UNKNOWN if p.id != "500 after the commit"])
def test_asking_where_a_table_will_lie_is_repeated(
    lake: IcebergCatalog, proxy: FaultProxy, ident: TableIdent, fault: Fault
) -> None:
    lake.create_namespace(ident.namespace)
    proxy.forget()
    proxy.plan(fault, method="POST", path="/tables")
    lake.apply(ident, None, [CreateTable(spec=orders(ident))])
    paths = [request.path.rpartition("/")[2] for request in proxy.requests if request.method == "POST"]
    assert paths == ["tables", "tables", "orders"]


def test_a_creation_lost_to_somebody_else(
    lake: IcebergCatalog, direct: IcebergCatalog, proxy: FaultProxy, ident: TableIdent
) -> None:
    direct.apply(ident, None, [CreateTable(spec=orders(ident))])
    proxy.plan(Fault(status=500), method="POST", path="/tables/")
    with pytest.raises(TableAlreadyExists):
        lake.apply(ident, None, [CreateTable(spec=orders(ident))])


@pytest.mark.parametrize("fault", UNKNOWN)
def test_rows_are_published_exactly_once(
    lake: IcebergCatalog, proxy: FaultProxy, ident: TableIdent, fault: Fault
) -> None:
    lake.apply(ident, None, [CreateTable(spec=orders(ident))])
    receipts = [lake.write_batch(ident, rows(1, 2), "one"), lake.write_batch(ident, rows(3), "two")]
    proxy.plan(fault, method="POST", path="/tables/")
    outcome = lake.commit(ident, receipts)
    seen = lake.get_table_spec(ident)
    assert (seen.statistics.rows, len(seen.snapshot_ids)) == (3, 1)
    assert outcome.version == seen.version
    assert sorted(v for b in lake.open_reader(ident).scan(["id"]) for v in b["id"].to_pylist()) == [1, 2, 3]


def test_a_lasting_failure_says_that_nobody_knows(
    lake: IcebergCatalog, direct: IcebergCatalog, proxy: FaultProxy, ident: TableIdent
) -> None:
    made = lake.apply(ident, None, [CreateTable(spec=orders(ident))])
    proxy.plan(Fault(status=502), times=ATTEMPTS, method="POST", path="/tables/")
    with pytest.raises(CommitStateUnknown):
        lake.apply(ident, made.version, [add("note")])
    assert direct.get_table_spec(ident).version == made.version


def test_unknown_and_then_changed_by_others_stays_unknown(
    lake: IcebergCatalog, direct: IcebergCatalog, proxy: FaultProxy, ident: TableIdent
) -> None:
    """Ours may be among what happened since: a plain conflict would claim that nothing was changed."""
    made = lake.apply(ident, None, [CreateTable(spec=orders(ident))])
    proxy.plan(Fault(status=500), method="POST", path="/tables/")
    reads = iter([False, True])
    load = lake._backend.load

    def load_and_interfere(table: TableIdent):  # type: ignore[no-untyped-def]
        if next(reads, False):
            direct.apply(ident, made.version, [add("theirs")])
        return load(table)

    lake._backend.load = load_and_interfere  # type: ignore[method-assign]
    with pytest.raises(CommitStateUnknown):
        lake.apply(ident, made.version, [add("ours")])


def test_a_clear_no_is_not_repeated(lake: IcebergCatalog, proxy: FaultProxy, ident: TableIdent) -> None:
    made = lake.apply(ident, None, [CreateTable(spec=orders(ident))])
    proxy.forget()
    proxy.plan(Fault(status=403), method="POST", path="/tables/")
    with pytest.raises(LakeError) as caught:
        lake.apply(ident, made.version, [add("note")])
    assert caught.value.reason == "PermissionDenied"
    assert [r.method for r in proxy.requests].count("POST") == 1


def test_a_refused_connection_is_not_unknown(ident: TableIdent) -> None:
    lake = IcebergCatalog(explicit("lake", {"type": "rest", "uri": "http://127.0.0.1:1"}), sleep=lambda _: None)
    with pytest.raises(CatalogUnavailable):
        lake.apply(ident, None, [CreateTable(spec=orders(ident))])


def test_other_writers_rows_are_no_conflict(
    lake: IcebergCatalog, direct: IcebergCatalog, proxy: FaultProxy, ident: TableIdent
) -> None:
    """A 409 because rows came in between is tried again; because the schema moved, it is refused."""
    made = lake.apply(ident, None, [CreateTable(spec=orders(ident))])
    proxy.plan(Fault(status=409), times=2, method="POST", path="/tables/")
    direct.commit(ident, [direct.write_batch(ident, rows(1), "theirs")])
    after = lake.apply(ident, made.version, [add("note")])
    assert after.version.snapshot_id is not None
    with pytest.raises(CommitConflict):
        lake.apply(ident, made.version, [add("more")])


# ---------------------------------------------------------------- what only a REST server can


def test_format_v3_with_its_types_and_defaults(direct: IcebergCatalog, ident: TableIdent) -> None:
    fields = (
        Field(id=1, name="id", required=False, type="long"),
        Field(id=2, name="v", required=False, type="variant"),
        Field(id=3, name="ts", required=False, type="timestamptz_ns"),
        Field(id=4, name="place", required=False, type="geography(srid:4326,spherical)"),
        Field(id=5, name="price", required=True, type="decimal(9,2)", initial_default="1.50", write_default="2.50"),
    )
    spec = orders(ident)
    plain = {"format_version": 3, "schema": StructType(fields), "identifier_field_ids": frozenset[int]()}
    wanted = type(spec)(ident=ident, **plain)  # type: ignore[arg-type]
    made = direct.apply(ident, None, [CreateTable(spec=wanted)])
    seen = direct.get_table_spec(ident)
    assert seen.spec.schema == wanted.schema
    assert seen.spec.format_version == 3
    direct.apply(ident, made.version, [add("note", after="price")])
    with pytest.raises(LakeError) as caught:
        direct.write_batch(ident, rows(1), "one")
    assert caught.value.reason in ("Unsupported", "InvalidTable")


def test_upgrade_to_v3(direct: IcebergCatalog, ident: TableIdent) -> None:
    made = direct.apply(ident, None, [CreateTable(spec=orders(ident))])
    assert direct.refusal(UpgradeFormat(before=2, after=3), direct.get_table_spec(ident)) is None
    outcome = direct.apply(ident, made.version, [UpgradeFormat(before=2, after=3), add("note")])
    seen = direct.get_table_spec(ident)
    assert (seen.spec.format_version, outcome.version) == (3, seen.version)


# ---------------------------------------------------------------- the embedded catalog


@pytest.fixture
def local(tmp_path: Path) -> IcebergCatalog:
    return IcebergCatalog(embedded(tmp_path), sleep=lambda _: None)


@pytest.fixture
def by_pyiceberg(tmp_path: Path) -> IcebergCatalog:
    """A SQLite catalog whose uri says more than a path, so that SQLAlchemy commits to it."""
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db?timeout=7", "warehouse": f"file://{tmp_path}/warehouse"}
    return IcebergCatalog(explicit("lake", properties), sleep=lambda _: None)


@pytest.mark.parametrize("acts_first", [True, False], ids=["fails after the commit", "fails before it"])
@pytest.mark.parametrize(
    ("which", "commits"),
    [("local", sqlite_commit), ("by_pyiceberg", SqlCatalog)],
    ids=["the embedded catalog", "through SQLAlchemy"],
)
def test_a_database_that_fails(
    which: str,
    commits: object,
    ident: TableIdent,
    acts_first: bool,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake: IcebergCatalog = request.getfixturevalue(which)
    made = lake.apply(ident, None, [CreateTable(spec=orders(ident))])
    name = "swap" if commits is sqlite_commit else "commit_table"
    commit, failures = getattr(commits, name), iter([True])

    def fail_once(*arguments):  # type: ignore[no-untyped-def]
        is_failing = next(failures, False)
        done = commit(*arguments) if acts_first or not is_failing else None
        if is_failing:
            raise OSError("disk")
        return done

    monkeypatch.setattr(commits, name, fail_once)
    outcome = lake.apply(ident, made.version, [*CHANGES["everything at once"]])
    assert next(failures, None) is None, "it was to fail"
    assert outcome.replayed == acts_first
    assert outcome.version == lake.get_table_spec(ident).version
    assert version_number(outcome.metadata_location) == 1


def test_both_ways_to_commit_write_the_same(
    local: IcebergCatalog, by_pyiceberg: IcebergCatalog, ident: TableIdent
) -> None:
    def written(lake: IcebergCatalog) -> tuple[dict[str, object], tuple[str, str]]:
        made = lake.apply(ident, None, [CreateTable(spec=orders(ident))])
        lake.apply(ident, made.version, [*CHANGES["everything at once"]])
        path = str(lake.settings.sqlite_path)
        with closing(sqlite3.connect(path)) as connection:
            row = connection.execute("SELECT metadata_location, previous_metadata_location FROM iceberg_tables")
            after, before = row.fetchone()
        assert (
            json.loads(Path(after.removeprefix("file://")).read_text())["metadata-log"][-1]["metadata-file"] == before
        )
        document = json.loads(lake._backend.load(ident).json())
        volatile = ("table-uuid", "location", "last-updated-ms", "metadata-log")
        return {k: v for k, v in document.items() if k not in volatile}, (number(before), number(after))

    def number(location: str) -> str:
        return location.rsplit("/", 1)[1].partition("-")[0]

    ours, theirs = written(local), written(by_pyiceberg)
    assert ours == theirs
    assert ours[1] == ("00000", "00001")


def test_a_table_that_moves_between_reading_and_swapping(
    local: IcebergCatalog, ident: TableIdent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer commits after ours wrote its metadata file: ours is not published, and is tried anew."""
    made = local.apply(ident, None, [CreateTable(spec=orders(ident))])
    other, swap, slips = IcebergCatalog(local.settings), sqlite_commit.swap, iter([True])

    def swap_late(*arguments):  # type: ignore[no-untyped-def]
        if next(slips, False):
            other.commit(ident, [other.write_batch(ident, rows(1), "theirs")])
        swap(*arguments)

    monkeypatch.setattr(sqlite_commit, "swap", swap_late)
    outcome = local.apply(ident, made.version, [SetProperty(key="comment", before=None, after="ours")])
    seen = local.get_table_spec(ident)
    assert (seen.statistics.rows, seen.spec.properties["comment"]) == (1, "ours")
    assert version_number(outcome.metadata_location) == 2


def test_a_table_dropped_meanwhile_is_no_unknown_outcome(
    local: IcebergCatalog, ident: TableIdent, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = local.apply(ident, None, [CreateTable(spec=orders(ident))])
    commit = local._backend.commit

    def commit_late(table, requirements, updates):  # type: ignore[no-untyped-def]
        local._backend.drop_table(table)
        return commit(table, requirements, updates)

    monkeypatch.setattr(local._backend, "commit", commit_late)
    with pytest.raises(TableNotFound) as caught:
        local.apply(ident, made.version, [SetProperty(key="comment", before=None, after="ours")])
    assert caught.value.__cause__ is not caught.value


def test_a_locked_database_is_told_and_nothing_changes(
    local: IcebergCatalog, ident: TableIdent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_commit, "BUSY_SECONDS", 0.1)
    made = local.apply(ident, None, [CreateTable(spec=orders(ident))])
    with closing(sqlite3.connect(str(local.settings.sqlite_path))) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CatalogUnavailable) as caught:
            local.apply(ident, made.version, [SetProperty(key="comment", before=None, after="ours")])
    assert "locked" in str(caught.value)
    assert str(local.settings.sqlite_path) in caught.value.where
    assert local.get_table_spec(ident).version == made.version


def test_the_catalog_checks_what_we_asserted(local: IcebergCatalog, ident: TableIdent) -> None:
    """A schema change that slips in between our read and the commit is refused by the catalog itself."""
    made = local.apply(ident, None, [CreateTable(spec=orders(ident))])
    other = IcebergCatalog(local.settings)
    commit, slips = local._backend.commit, iter([True])

    def commit_late(table, requirements, updates):  # type: ignore[no-untyped-def]
        if next(slips, False):
            other.apply(ident, made.version, [add("theirs")])
        return commit(table, requirements, updates)

    local._backend.commit = commit_late  # type: ignore[method-assign]
    with pytest.raises(CommitConflict):
        local.apply(ident, made.version, [SetProperty(key="comment", before=None, after="ours")])
    seen = local.get_table_spec(ident)
    assert "comment" not in seen.spec.properties
    assert any(f.name == "theirs" for f in seen.spec.schema.fields)


def test_many_writers_all_get_in_or_are_told(local: IcebergCatalog, ident: TableIdent) -> None:
    """Eight threads append at once: what commit() reports is what the table holds."""
    from concurrent.futures import ThreadPoolExecutor

    patient = IcebergCatalog(local.settings)
    patient.apply(ident, None, [CreateTable(spec=orders(ident))])

    def append(number: int) -> int:
        receipt = patient.write_batch(ident, rows(number), f"batch-{number}")
        try:
            patient.commit(ident, [receipt])
        except CommitConflict:
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        accepted = sum(pool.map(append, range(8)))
    assert accepted >= 4
    assert patient.get_table_spec(ident).statistics.rows == accepted


def test_v3_is_refused_and_names_the_executor_that_can(local: IcebergCatalog, ident: TableIdent) -> None:
    made = local.apply(ident, None, [CreateTable(spec=orders(ident))])
    upgrade = UpgradeFormat(before=2, after=3)
    assert "spark" in (local.refusal(upgrade, local.get_table_spec(ident)) or "")
    with pytest.raises(LakeError) as caught:
        local.apply(ident, made.version, [upgrade])
    assert caught.value.reason == "Unsupported"
    assert local.get_table_spec(ident).version == made.version


def test_pyiceberg_still_cannot_write_v3(local: IcebergCatalog, ident: TableIdent) -> None:
    """The refusal rests on this; when it fails, PyIceberg has learned it and the refusal can go."""
    made = local.apply(ident, None, [CreateTable(spec=orders(ident))])
    with pytest.raises(LakeError) as caught:
        local._backend.commit(ident, [], [{"action": "upgrade-format-version", "format-version": 3}])
    assert caught.value.reason in ("Unsupported", "InvalidInput")
    assert local.get_table_spec(ident).version == made.version


def test_format_v1_voids_what_it_drops_and_upgrades(local: IcebergCatalog, ident: TableIdent) -> None:
    import msgspec

    spec = msgspec.structs.replace(orders(ident), format_version=1)
    made = local.apply(ident, None, [CreateTable(spec=spec)])
    after = local.apply(ident, made.version, CHANGES["drop a partition field"])
    assert local.get_table_spec(ident).spec.partitioning == spec.partitioning[:1]
    stored = decode_metadata(Path(after.metadata_location.removeprefix("file://")).read_bytes())
    default = stored.spec(stored.default_spec_id)
    assert default is not None
    assert [f.transform for f in default.fields] == ["day", "void"]
    local.apply(ident, after.version, [UpgradeFormat(before=1, after=2)])
    assert local.get_table_spec(ident).spec.format_version == 2
