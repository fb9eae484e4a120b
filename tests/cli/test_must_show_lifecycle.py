"""Must show: the quickstart from nothing, and several changes as one commit that touches no data file."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.cli.lab import EXAMPLES, Lab

BEFORE = (
    "name: id, type: int, required: true",
    "name: cust, type: string",
    "name: amount, type: float",
    'name: address, type: "struct<street: string, zip: string>"',
    "name: at, type: timestamptz",
)
AFTER = (
    "name: id, type: long, required: true",
    "name: customer, type: string, renamedFrom: cust",
    "name: amount, type: double",
    'name: address, type: "struct<street: string, postcode: string, country: string>"',
    "name: at, type: timestamptz",
)
EVOLVED = (
    "nestedFields: [{path: address.postcode, renamedFrom: zip}]",
    "partitioning: [{column: at, transform: day}]",
    "properties: {write.parquet.compression-codec: zstd}",
)
ROWS: list[dict[str, Any]] = [
    {"id": i, "cust": f"c{i}", "amount": i / 2, "address": {"street": f"s{i}", "zip": f"{i:05}"}, "at": None}
    for i in range(5)
]
ROWS_AFTER: list[dict[str, Any]] = [
    {
        "id": i,
        "customer": f"c{i}",
        "amount": i / 2,
        "address": {"street": f"s{i}", "postcode": f"{i:05}", "country": None},
        "at": None,
    }
    for i in range(5)
]


def test_the_quickstart_is_planned_applied_and_then_there_is_nothing_to_do(lab: Lab) -> None:
    shutil.copytree(EXAMPLES / "quickstart", lab.folder / "tables")
    assert lab.run("plan", "-f", "tables", "--detailed-exitcode").code == 2
    assert lab.run("plan", "-f", "tables").code == 0
    assert not (lab.folder / ".laketable").exists(), "a plan leaves no catalog behind"
    assert lab.run("apply", "-f", "tables", "--auto-approve").code == 0
    assert lab.run("plan", "-f", "tables", "--detailed-exitcode").code == 0
    again = lab.ok("apply", "-f", "tables", "--auto-approve")
    assert again.out.strip() == "No changes. 2 tables, as the manifests say."
    assert [ident[-1] for ident in sorted(lab.catalog().list_tables("sales"))] == ["customers", "orders"]


@pytest.mark.spark
def test_the_quickstart_through_spark(lab: Lab) -> None:
    shutil.copytree(EXAMPLES / "quickstart", lab.folder / "tables")
    assert lab.run("plan", "-f", "tables", "--detailed-exitcode").code == 2
    applied = lab.process("apply", "-f", "tables", "--auto-approve", "--engine", "spark")
    assert applied.code == 0, applied.err
    assert applied.out.count("committed through spark") == 2
    assert lab.run("plan", "-f", "tables", "--detailed-exitcode").code == 0


def evolve(lab: Lab) -> dict[str, Any]:
    """Create, load, and write the evolved manifest; return what must not change."""
    lab.apply(BEFORE)
    lab.append(ROWS)
    lab.manifest(AFTER, *EVOLVED)
    return {"files": lab.data_files(), "versions": len(lab.table().metadata.metadata_log), "at": lab.location()}


def check_evolved(lab: Lab, before: dict[str, Any]) -> None:
    table = lab.table()
    assert len(table.metadata.metadata_log) == before["versions"] + 1, "exactly one new metadata version"
    assert table.metadata.metadata_log[-1].metadata_file == before["at"], "which follows the one before"
    assert lab.data_files() == before["files"], "no data file was touched"
    assert table.properties["write.parquet.compression-codec"] == "zstd"
    assert [str(field.transform) for field in table.spec().fields] == ["day"]
    assert lab.rows() == ROWS_AFTER


def test_many_changes_are_one_commit_and_the_rows_are_read_under_their_new_names(lab: Lab) -> None:
    before = evolve(lab)
    lab.ok("apply", "-f", "orders.yaml", "--auto-approve")
    check_evolved(lab, before)


def test_many_changes_through_spark_are_one_commit_too(lab: Lab, spark: SparkSession) -> None:
    before = evolve(lab)
    applied = lab.run("apply", "-f", "orders.yaml", "--auto-approve", "--engine", "spark")
    assert applied.code == 0, applied.err
    assert "committed through spark" in applied.out
    check_evolved(lab, before)
    assert read_by_spark(lab) == [(r["id"], r["customer"], r["amount"], r["address"]["postcode"]) for r in ROWS_AFTER]


def read_by_spark(lab: Lab) -> list[tuple[object, ...]]:
    """Read the table in a session of its own, as any Spark user would."""
    from reconciler.engines.session import spark_session

    session = spark_session([("lake", lab.properties)], short=True)
    query = "SELECT id, customer, amount, address.postcode FROM lake.sales.orders ORDER BY id"
    return [tuple(row) for row in session.sql(query).collect()]


@pytest.mark.spark
def test_the_same_on_a_rest_catalog(lab: Lab, rest_catalog: dict[str, str]) -> None:
    there = on_rest(lab, rest_catalog)
    before = evolve(there)
    there.ok("apply", "-f", "orders.yaml", "--auto-approve")
    check_evolved(there, before)
    assert there.run("plan", "-f", "orders.yaml", "--detailed-exitcode").code == 0


def on_rest(lab: Lab, rest_catalog: dict[str, str]) -> Lab:
    """Give the project the REST catalog, by a manifest of its own, in a namespace nobody used."""
    there = Lab(lab.folder, rest_catalog)
    if there.catalog().namespace_exists("sales"):
        for ident in there.catalog().list_tables("sales"):
            there.catalog().drop_table(ident)
    there.write(
        "lake.yaml",
        "apiVersion: laketable.dev/v1alpha1\nkind: LakeCatalog\nmetadata: {name: lake, namespace: sales}\n"
        f"spec:\n  properties: {{type: rest, uri: '{rest_catalog['uri']}'}}\n",
    )
    return there


@pytest.mark.spark
def test_a_rest_catalog_takes_the_whole_way_too(lab: Lab, rest_catalog: dict[str, str]) -> None:
    there = on_rest(lab, rest_catalog)
    path = there.apply(["name: id, type: int", "name: gone, type: string"])
    there.append([{"id": 1, "gone": "x"}])
    there.manifest(["name: id, type: int"])
    with there.untouched():
        assert there.run("apply", "-f", path, "--auto-approve").code == 3
    there.ok("apply", "-f", path, "--approve", there.plan_hash("-f", path))
    assert list(there.columns()) == ["id"]
    there.ok("undo", "sales.orders", "-f", "lake.yaml", "--auto-approve")
    assert there.rows() == [{"id": 1, "gone": "x"}]
    assert there.ok("import", "sales.orders", "-f", "lake.yaml").out.startswith("apiVersion")
    assert len(there.ok("history", "sales.orders", "-f", "lake.yaml", "-o", "json").json()) == 3


DAY_OF_AT = "partitioning: [{column: at, transform: day}]"
BUCKETS = 'partitioning: [{column: id, transform: "bucket[4]"}]'
VOID_AND_BUCKETS = 'partitioning: [{column: at, transform: void}, {column: id, transform: "bucket[4]"}]'


@pytest.mark.parametrize(
    ("steps", "stored"),
    [
        pytest.param(
            [(1, DAY_OF_AT), (1, BUCKETS), (1, DAY_OF_AT)],
            [("void", 1000), ("void", 1001), ("day", 1002)],
            id="there and back",
        ),
        pytest.param(
            [(1, DAY_OF_AT), (1, BUCKETS), (2, BUCKETS)], [("void", 1000), ("bucket[4]", 1001)], id="upgraded"
        ),
        pytest.param([(1, DAY_OF_AT), (2, BUCKETS)], [("bucket[4]", 1001)], id="upgraded meanwhile"),
        pytest.param(
            [(1, DAY_OF_AT), (1, VOID_AND_BUCKETS), (2, VOID_AND_BUCKETS)],
            [("void", 1000), ("bucket[4]", 1001)],
            id="void stated",
        ),
    ],
)
def test_a_table_of_version_1_settles_after_every_change_of_its_partitioning(
    lab: Lab, steps: list[tuple[int, str]], stored: list[tuple[str, int]]
) -> None:
    for version, partitioning in steps:
        path = lab.apply(
            ["name: id, type: long", "name: at, type: timestamp"], f"formatVersion: {version}", partitioning
        )
        again = lab.run("plan", "-f", path, "--detailed-exitcode")
        assert again.code == 0, again.out
    fields = lab.table().spec().fields
    assert [(str(field.transform), field.field_id) for field in fields] == stored
