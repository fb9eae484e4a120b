"""The Connect executor against a real Spark Connect server, on a catalog that the server and PyIceberg share."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.catalogs.connection import CatalogSettings
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.diff.apply import apply
from reconciler.diff.changes import Change, CreateTable, SetProperty, UnsetProperty, UpgradeFormat
from reconciler.engines.catalog_conf import spark_catalog_properties
from reconciler.engines.connect import ConnectExecutor, connect_session
from reconciler.engines.java import find_java
from reconciler.engines.session import EXTENSIONS, PACKAGES, cached_jars
from reconciler.errors import CatalogUnavailable, CommitConflict, InvalidInput, Unsupported
from reconciler.model.table import Direction, Nulls, Observed, SortField, TableIdent
from reconciler.model.types import StructType
from tests.suites.cells import (
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
def lake(tmp_path_factory: pytest.TempPathFactory) -> IcebergCatalog:
    folder = tmp_path_factory.mktemp("connect")
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    return IcebergCatalog(CatalogSettings(name="lake", properties=properties, origin="test"))


@pytest.fixture(scope="module")
def connected(lake: IcebergCatalog, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectExecutor]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("log") / "connect.log"
    with log.open("wb") as sink:
        server = subprocess.Popen(_command(lake, port), env=_environ(), stdout=sink, stderr=sink, cwd=log.parent)
    try:
        session = connect_session(_url(server, port, log))
        yield ConnectExecutor(session, "lake", observe=lake.get_table_spec)
        session.stop()
    finally:
        server.terminate()
        server.wait(timeout=20)


def _command(lake: IcebergCatalog, port: int) -> list[str]:
    import pyspark

    properties = {key: str(value) for key, value in lake.settings.properties.items()}
    conf = spark_catalog_properties("lake", properties) | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.extensions": EXTENSIONS,
        "spark.ui.enabled": "false",
    }
    jars = cached_jars()
    if jars is None:
        conf["spark.jars.packages"] = ",".join(PACKAGES)
    else:
        conf["spark.driver.extraClassPath"] = os.pathsep.join(map(str, jars))
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    server = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    return [submit, "--master", "local[2]", *settings, *server]


def _environ() -> dict[str, str]:
    return {**os.environ, "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}


def _url(server: subprocess.Popen[bytes], port: int, log: Path) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()[-2000:]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return f"sc://127.0.0.1:{port}"
        time.sleep(0.1)
    raise AssertionError(log.read_text()[-2000:])


def made(lake: IcebergCatalog, name: str) -> Observed:
    ident = TableIdent(("db",), name)
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
