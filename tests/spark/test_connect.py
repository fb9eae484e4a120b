"""The Connect executor against a real Spark Connect server, on a catalog that the server and PyIceberg share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from reconciler.catalogs.connection import CatalogSettings
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.diff.apply import apply
from reconciler.diff.changes import Change, CreateTable, SetProperty, UnsetProperty, UpgradeFormat
from reconciler.engines.connect import ConnectExecutor, connect_session
from reconciler.errors import CatalogUnavailable, CommitConflict, InvalidInput, Unsupported
from reconciler.model.table import Direction, Nulls, Observed, SortField, TableIdent
from reconciler.model.types import StructType
from tests.suites.cell_parts import (
    DAY_OF_AT,
    Cell,
    add,
    base_spec,
    doc,
    drop,
    field,
    identify,
    move,
    part,
    partition_by,
    rename,
    required,
    sort_by,
    widen,
)

pytestmark = pytest.mark.spark
PLAIN = Cell(name="plain", changes=())
STRUCT = StructType((field(-2, "x", "int", required=True), field(-3, "y", StructType((field(-4, "z", "string"),)))))
ONE_STATEMENT: dict[str, tuple[Change, ...]] = {
    "add": (add(("address",), field(-1, "city`s", "string", doc='It\'s \\ "x"'), "zip"),),
    "add-struct": (add((), field(-1, "extra", STRUCT), "tags"),),
    "drop": (drop(("name",), 2, "string"),),
    "rename": (rename(("address", "zip"), 13, "postcode"),),
    "move": (move(("items", "element", "qty"), 16, None),),
    "widen": (widen(("tags", "element"), 21, "int", "long"),),
    "identifier": (identify((), (1,)),),
    "partition-added": (partition_by(DAY_OF_AT, part(13, "truncate[5]", "zip`5")),),
    "partition-removed": (partition_by(),),
    "sort-order": (sort_by(SortField(source_id=1, transform="bucket[8]", direction=Direction.DESC, nulls=Nulls.LAST)),),
    "unset": (UnsetProperty(key="team", before="blue"),),
    "upgrade": (UpgradeFormat(before=2, after=3),),
    "doc": (doc(("small",), 3, None, "It's"),),
    "optional": (required(("id",), 1, False),),
    "properties": (
        SetProperty(key="a", before=None, after="it's \\ x"),
        SetProperty(key="laketable.owner", before=None, after="me"),
    ),
}


@pytest.fixture(scope="module")
def lake(lakes: dict[str, dict[str, str]]) -> IcebergCatalog:
    return IcebergCatalog(CatalogSettings(name="embedded", properties=lakes["embedded"], origin="test"))


@pytest.fixture(scope="module")
def connected(lake: IcebergCatalog, connect_url: str) -> Iterator[ConnectExecutor]:
    session = connect_session(connect_url)
    yield ConnectExecutor(session, "embedded", observe=lake.get_table_spec)
    session.stop()


def made(lake: IcebergCatalog, name: str) -> Observed:
    ident = TableIdent(("connected",), name)
    lake.apply(ident, None, (CreateTable(spec=base_spec(ident, PLAIN)),))
    return lake.get_table_spec(ident)


@pytest.mark.parametrize("name", list(ONE_STATEMENT))
def test_one_statement_ends_where_the_model_does(connected: ConnectExecutor, lake: IcebergCatalog, name: str) -> None:
    changes = ONE_STATEMENT[name]
    before = made(lake, f"one-{name}")
    assert [connected.refusal(change, before) for change in changes] == [None] * len(changes)
    outcome = connected.apply(before.spec.ident, before.version, changes)
    after = lake.get_table_spec(before.spec.ident)
    assert after.version == outcome.version
    assert after.spec == apply(before.spec, changes, last_field_id=before.version.last_field_id)
    assert after.bookkeeping == ({"laketable.owner": "me"} if name == "properties" else {})


def test_more_than_one_commit_a_guard_or_a_creation_is_refused(
    connected: ConnectExecutor, lake: IcebergCatalog
) -> None:
    before = made(lake, "refused")
    ident, version = before.spec.ident, before.version
    two = (*ONE_STATEMENT["drop"], *ONE_STATEMENT["properties"])
    with pytest.raises(Unsupported, match="2 commits"):
        connected.apply(ident, version, two)
    with pytest.raises(Unsupported, match="rests on a proof"):
        connected.apply(ident, version, ONE_STATEMENT["drop"], guard_snapshot=True)
    with pytest.raises(Unsupported, match="cannot create"):
        connected.apply(ident, None, (CreateTable(spec=before.spec),))
    assert connected.refusal(required(("name",), 2, True), before) is not None
    assert connected.refusal(CreateTable(spec=before.spec), None) is not None
    assert lake.get_table_spec(ident) == before


def test_a_base_that_moved_is_a_conflict(connected: ConnectExecutor, lake: IcebergCatalog) -> None:
    before = made(lake, "moved")
    lake.apply(before.spec.ident, before.version, ONE_STATEMENT["drop"])
    after = lake.get_table_spec(before.spec.ident)
    with pytest.raises(CommitConflict):
        connected.apply(before.spec.ident, before.version, ONE_STATEMENT["rename"])
    assert lake.get_table_spec(before.spec.ident) == after


def test_a_statement_that_spark_refuses_changes_nothing(connected: ConnectExecutor, lake: IcebergCatalog) -> None:
    before = made(lake, "nonsense")
    narrow = widen(("small",), 3, "int", "date")
    with pytest.raises((InvalidInput, CatalogUnavailable), match="nothing was changed"):
        connected.apply(before.spec.ident, before.version, (narrow,))
    assert lake.get_table_spec(before.spec.ident) == before


COLLECTED = """
import gc, sys, threading
from concurrent.futures import thread
from reconciler.engines.connect import connect_session

class Collects(threading.Thread):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        gc.collect()

def forgotten():
    session = connect_session(sys.argv[1])
    session.itself = session
    session.stop()

gc.disable()
forgotten()
session = connect_session(sys.argv[1])
thread.threading = type("", (), {**vars(threading), "Thread": Collects})
print(session.range(3).count())
"""


def test_a_session_that_is_forgotten_stops_no_other(connect_url: str) -> None:
    """Garbage is collected at any time: here while a request has PySpark's threads locked."""
    command = [sys.executable, "-c", COLLECTED, connect_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "3\n", done.stderr
