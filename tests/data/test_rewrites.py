"""Existing files get a changed layout, indexes and values in one pass: nothing is lost, done twice or undone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from reconciler.engines.bloom_filters import Opened, has_filters
from reconciler.engines.data_files import iterate
from reconciler.engines.staged import staging_ref
from reconciler.engines.staging import StagingTable
from reconciler.engines.zorder import z_value
from reconciler.errors import CommitConflict
from reconciler.model.indexes import index_properties
from reconciler.model.table import Computed, Desired, DesiredIndex, DesiredPartitionField, DesiredSortField
from reconciler.model.types import Field, StructType
from reconciler.plan.operations import (
    Aspect,
    AspectKind,
    Backfill,
    BackfillColumn,
    Operation,
    OperationClass,
    OperationKind,
    Rewrite,
)
from tests.data.kit import Killed, Lake, Shop, Writes
from tests.data.test_crashes import FILES, ROWS, converged

BUCKETS = (DesiredPartitionField(path=("id",), transform="bucket[2]"),)
BY_X = (DesiredSortField(path=("x",)),)
BLOOM = DesiredIndex(name="by_note", type="bloom", columns=(("note",),), rewrite_existing=True, properties={"ndv": "9"})
CURVE = DesiredIndex(name="both", type="zorder", columns=(("id",), ("x",)), rewrite_existing=True)


def wants(table: Lake, **more: Any) -> Desired:
    desired = table.wants(**more.pop("computed", {}))
    indexes = more.get("indexes", ())
    return msgspec.structs.replace(desired, properties=index_properties(indexes), **more)


def evolve(table: Lake, desired: Desired) -> Operation:
    """Commit the metadata part of a plan and return its rewrite."""
    made = table.plan(desired)
    assert not made.is_blocked, made.findings
    changes = tuple(c for o in made.operations if o.kind is OperationKind.COMMIT for c in o.changes)
    if changes:
        table.catalog.apply(table.ident, made.base, changes)
    (operation,) = (o for o in made.operations if o.kind is OperationKind.REWRITE)
    return operation


def lag(table: Lake, desired: Desired) -> list[Operation]:
    made = table.plan(desired)
    assert made.is_empty, made.operations
    return [operation for operation in made.upkeep if operation.work is not None]


def files(table: Lake) -> list[Mapping[str, Any]]:
    return [row.asDict(recursive=True) for row in table.spark.table(f"{table.name}.data_files").collect()]


def layouts(table: Lake) -> set[tuple[int, int]]:
    return {(file["spec_id"], file["sort_order_id"]) for file in files(table)}


def expected(table: Lake) -> tuple[int, int]:
    version = table.observe().version
    return version.spec_id, version.sort_order_id


# ---------------------------------------------------------------- layout


@pytest.mark.parametrize(("lake", "version"), [("embedded", 2), ("rest", 3)])
def test_existing_files_get_a_changed_layout(shop: Shop, lake: str, version: int) -> None:
    table = shop.fresh(lake, version=version)
    table.spark.sql(f"DELETE FROM {table.name} WHERE id = 5")
    columns = ("id", "x", "note", *(("_row_id",) if version == 3 else ()))
    before = table.rows(*columns)
    desired = wants(table, partitioning=BUCKETS, sort_order=BY_X, rewrite_existing=True)
    operation = evolve(table, desired)
    assert layouts(table) == {(0, 0)}
    table.run(operation, table.engine(chunk_bytes=1 << 30))
    assert table.rows(*columns) == before
    assert layouts(table) == {expected(table)}
    assert {file["partition"]["id_bucket_2"] for file in files(table)} == {0, 1}
    assert len(files(table)) == 2  # one chunk, two partitions
    assert [s["summary"]["operation"] for s in table.snapshots()][-1] == "replace"
    assert table.branches() == []
    assert lag(table, desired) == []
    assert not [f for f in table.catalog.get_data_files(table.ident, table.ancestry()[0]) if f.has_deletes]


def test_rows_lie_in_the_sort_order(shop: Shop) -> None:
    table = shop.fresh()
    table.run(evolve(table, wants(table, sort_order=BY_X, rewrite_existing=True)), table.engine(chunk_bytes=1 << 30))
    frame = table.spark.table(table.name)
    rows = frame.select("x", frame.metadataColumn("_file"), frame.metadataColumn("_pos")).collect()
    by_file: dict[str, list[tuple[int, int]]] = {}
    for x, path, position in rows:
        by_file.setdefault(path, []).append((position, -1 if x is None else x))
    for found in by_file.values():
        values = [x for _, x in sorted(found)]
        assert values == sorted(values)


@pytest.mark.parametrize("indexes", [(), (CURVE,)], ids=["by partition", "along a curve"])
def test_rows_are_parted_by_uuids_that_spark_takes_for_text(shop: Shop, indexes: tuple[DesiredIndex, ...]) -> None:
    table = shop.fresh(files=0)
    key = Field(name="key", required=False, type="uuid")
    plain = wants(table)
    plain = msgspec.structs.replace(plain, columns=StructType((*plain.columns.fields, key)))
    table.catalog.apply(table.ident, table.observe().version, table.plan(plain).operations[0].changes)
    keys = [f"{7 * number % 16:x}{number:07x}-0000-4000-8000-000000000000" for number in range(20)]
    values = ", ".join(f"({number}, 1, 'n', '{key}')" for number, key in enumerate(keys))
    shop.spark.sql(f"INSERT INTO {table.name} VALUES {values}")
    before = table.rows("id", "key")
    parted = (DesiredPartitionField(path=("key",), transform="bucket[3]"),)
    desired = msgspec.structs.replace(plain, partitioning=parted, rewrite_existing=True, indexes=indexes)
    table.run(evolve(table, desired))
    assert table.rows("id", "key") == before
    found = table.catalog.get_data_files(table.ident, table.ancestry()[0])  # Spark's own list stumbles over uuids
    assert len({file.partition for file in found}) == 3
    assert {file.spec_id for file in found} == {table.observe().version.spec_id}


def test_files_of_other_writers_are_upkeep_and_only_they_are_rewritten(shop: Shop) -> None:
    table = shop.fresh()
    desired = wants(table, sort_order=BY_X, rewrite_existing=True)
    table.run(evolve(table, desired))
    kept = {file["file_path"] for file in files(table)}
    table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('laketable.test'='1')")
    unsorted = table.spark.createDataFrame([(20, 9, "n"), (21, 1, "m")], "id bigint, x int, note string").coalesce(1)
    unsorted.writeTo(table.name).option("use-table-distribution-and-ordering", "false").append()
    (behind,) = lag(table, desired)
    assert behind.summary == "3 of 4 files in the table's layout"
    assert table.run(behind).files == 1
    assert kept < {file["file_path"] for file in files(table)}
    assert layouts(table) == {expected(table)}
    assert lag(table, desired) == []


# ---------------------------------------------------------------- beside others


def test_rows_appended_meanwhile_stay_and_become_lag(shop: Shop) -> None:
    table = shop.fresh("rest", version=3)
    desired = wants(table, partitioning=BUCKETS, rewrite_existing=True, indexes=(CURVE,))
    operation = evolve(table, desired)
    staged = table.start(operation)
    theirs = table.append(range(12, 14))
    before = table.rows("id", "x", "_row_id")
    staged.commit()
    assert staged.main_moved
    assert theirs in table.ancestry()
    assert table.rows("id", "x", "_row_id") == before
    assert table.branches() == []
    (behind,) = lag(table, desired)
    total = len(files(table))
    assert behind.summary == f"index both: indexed {total - len(_of(table, theirs))} of {total} files"
    table.run(behind)
    assert lag(table, desired) == []
    assert table.rows("id", "x", "_row_id") == before


def _of(table: Lake, snapshot: int) -> list[Any]:
    rows = table.spark.sql(f"SELECT * FROM {table.name}.entries WHERE snapshot_id = {snapshot} AND status < 2")
    return list(rows.collect())


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_a_delete_meanwhile_is_never_undone(shop: Shop, mode: str) -> None:
    table = shop.fresh()
    table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.delete.mode'='{mode}')")
    staged = table.start(evolve(table, wants(table, partitioning=BUCKETS, rewrite_existing=True)))
    before = table.rows("id", "x")
    table.spark.sql(f"DELETE FROM {table.name} WHERE id = 5")
    theirs = table.ancestry()[0]
    staged.commit()
    assert table.rows("id", "x") == [row for row in before if row[0] != 5]
    assert theirs in table.ancestry()
    assert layouts(table) == {expected(table)}
    assert table.branches() == []


def test_a_layout_changed_meanwhile_stops_it_and_nothing_is_published(shop: Shop) -> None:
    table = shop.fresh(files=1)
    desired = wants(table, partitioning=BUCKETS, rewrite_existing=True)
    staged = table.start(evolve(table, desired))
    table.spark.sql(f"ALTER TABLE {table.name} ADD PARTITION FIELD x")
    head = table.ancestry()[0]
    with pytest.raises(CommitConflict, match="sort order changed meanwhile"):
        staged.commit()
    assert table.ancestry()[0] == head
    again = evolve(table, desired)
    table.run(again)
    assert layouts(table) == {expected(table)}


# ---------------------------------------------------------------- crashes

ADD_ONE = BackfillColumn(name="x", field_id=2, sql="`x` + 1", recompute=True)
CANARY = Operation(
    id="cafe0000cafe0000",
    kind=OperationKind.REWRITE,
    summary="lay out and add one",
    operation_class=OperationClass.REWRITE,
    work=Rewrite(
        aspects=(Aspect(name="index.both", kind=AspectKind.ZORDER, columns=(1, 2), definition="d"),),
        backfill=Backfill(columns=(ADD_ONE,)),
    ),
)


def test_killed_at_every_write_it_converges(shop: Shop) -> None:
    table, writes = shop.fresh(files=FILES), Writes()
    before = table.versions()
    table.run(CANARY, table.engine(writes))
    converged(table)
    assert table.versions() - before == writes.count == 2 + FILES
    for number in range(1, writes.count + 1):
        table = shop.fresh(files=FILES)
        untouched = table.rows("id", "x")
        with pytest.raises(Killed):
            table.run(CANARY, table.engine(Writes((number, "after"))))
        assert number == writes.count or table.rows("id", "x") == untouched
        table.run(CANARY, table.engine(chunk_bytes=1))
        converged(table)


def test_control_a_second_application_is_noticed(shop: Shop) -> None:
    table = shop.fresh(files=FILES)
    table.run(CANARY)
    assert isinstance(CANARY.work, Rewrite)
    aspect = msgspec.structs.replace(CANARY.work.aspects[0], revision=2)
    backfill = Backfill(columns=(msgspec.structs.replace(ADD_ONE, revision=2),))
    again = Rewrite(aspects=(aspect,), backfill=backfill)
    table.run(msgspec.structs.replace(CANARY, id="cafe0000cafe0001", work=again))
    assert len(table.rows("id")) == ROWS
    with pytest.raises(AssertionError):
        converged(table)


def test_a_finished_one_does_not_run_again(shop: Shop) -> None:
    table = shop.fresh()
    desired = wants(table, partitioning=BUCKETS, rewrite_existing=True)
    operation = evolve(table, desired)
    table.run(operation)
    versions = table.versions()
    assert table.start(operation).commit().replayed
    assert table.versions() == versions


# ---------------------------------------------------------------- one pass


def test_one_pass_lays_out_and_fills_and_the_next_plan_is_empty(shop: Shop) -> None:
    table = shop.fresh()
    desired = wants(
        table,
        computed={"total": Computed(expression="x * 2 + id")},
        partitioning=BUCKETS,
        rewrite_existing=True,
        indexes=(BLOOM,),
    )
    operation = evolve(table, desired)
    table.run(operation)
    assert table.rows("id", "total") == sorted(
        ((i, None if i % 7 == 6 else i % 5 * 2 + i) for i in range(12)), key=repr
    )
    written = [s for s in table.snapshots() if s["summary"].get("laketable.operation") == operation.id]
    assert {s["summary"]["operation"] for s in written} == {"overwrite"}
    assert sum(int(s["summary"]["deleted-data-files"]) for s in written) == 3  # each file once
    assert table.plan(desired).is_empty
    assert lag(table, desired) == []


def test_a_file_that_is_laid_out_already_only_gets_its_value(shop: Shop) -> None:
    table = shop.fresh(extra="PARTITIONED BY (bucket(2, id))", files=1)
    laid_out = {file["file_path"] for file in files(table)}
    base = wants(table, partitioning=BUCKETS, sort_order=BY_X, rewrite_existing=True)
    evolve(table, base)
    table.append(range(4, 8))  # Spark sorts these
    desired = msgspec.structs.replace(base, computed={("total",): Computed(expression="id")})
    desired = msgspec.structs.replace(desired, columns=table.wants(total=Computed(expression="id")).columns)
    operation = evolve(table, desired)
    assert operation.cost.files_spliced == len(files(table)) - len(laid_out)
    table.run(operation)
    assert table.rows("id", "total") == sorted(((i, i) for i in range(8)), key=repr)
    assert layouts(table) == {expected(table)}


# ---------------------------------------------------------------- indexes


def filtered(table: Lake) -> list[bool]:
    loaded = StagingTable(table.spark, table.catalog_name, table.ident).load()
    planned = loaded.newScan().planFiles()
    return [has_filters(Opened(loaded.io(), str(task.file().location())), {3}) for task in iterate(planned)]


def test_bloom_filters_come_to_old_files_and_the_footers_say_so(shop: Shop) -> None:
    table = shop.fresh(files=2)
    desired = wants(table, indexes=(BLOOM,))
    operation = evolve(table, desired)
    assert filtered(table) == [False, False]
    table.run(operation)
    assert filtered(table) == [True, True]
    assert lag(table, desired) == []
    kept = {file["file_path"] for file in files(table)}
    # A writer that follows the table's properties, and one that does not.
    table.append(range(20, 24))
    plain = table.spark.createDataFrame([(30, 1, "p")], "id bigint, x int, note string")
    table.spark.sql(f"ALTER TABLE {table.name} UNSET TBLPROPERTIES ('{_key()}')")
    plain.writeTo(table.name).append()
    table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('{_key()}'='true')")
    (behind,) = lag(table, desired)
    assert "indexed 2 of 4 files, later ones are looked into" in behind.summary
    assert table.run(behind).files == 1
    assert filtered(table) == [True] * 4
    assert kept < {file["file_path"] for file in files(table)}
    assert lag(table, desired) == []


def _key() -> str:
    return "write.parquet.bloom-filter-enabled.column.note"


def test_files_along_a_curve_are_narrow_in_every_column(shop: Shop) -> None:
    table = shop.fresh(files=0)
    frame = table.spark.range(4096).selectExpr(
        "id div 64 as id", "cast(id % 64 as int) as x", "cast(id as string) note"
    )
    frame.coalesce(1).writeTo(table.name).append()
    table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.target-file-size-bytes'='4096')")
    table.run(evolve(table, wants(table, indexes=(CURVE,))))
    found = table.spark.table(f"{table.name}.data_files").selectExpr("readable_metrics.*").collect()
    assert len(found) >= 4
    for column in ("id", "x"):
        widths = [row[column]["upper_bound"] - row[column]["lower_bound"] for row in found]
        assert sum(widths) / len(widths) < 48, column  # one after the other, the second would span all 64
    assert len(table.rows("id")) == 4096


def test_a_curve_goes_through_every_partition_by_itself(shop: Shop) -> None:
    table = shop.fresh(extra="PARTITIONED BY (truncate(2, note), bucket(2, id))")
    before = table.rows("id", "x", "note")
    partitioning = (
        DesiredPartitionField(path=("note",), transform="truncate[2]"),
        DesiredPartitionField(path=("id",), transform="bucket[2]"),
    )
    table.run(
        evolve(table, wants(table, indexes=(CURVE,), partitioning=partitioning)), table.engine(chunk_bytes=1 << 30)
    )
    assert table.rows("id", "x", "note") == before
    partitions = [tuple(file["partition"].values()) for file in files(table)]
    assert len(set(partitions)) == len(partitions) > 2


def test_the_curve_interleaves_bits_and_nulls_come_first(shop: Shop) -> None:
    grid = [(a, b) for a in (None, 0, 1, 2, 3) for b in (None, "a", "b")]
    frame = shop.spark.createDataFrame(grid, "a int, b string")
    rows = frame.select("a", "b", z_value(frame, [("a",), ("b",)]).alias("z")).collect()
    steps = 2**16 - 2
    numbers = {"a": int.from_bytes(b"a".ljust(6, b"\0"), "big"), "b": int.from_bytes(b"b".ljust(6, b"\0"), "big")}
    for a, b, z in rows:
        first = 0 if a is None else a * steps // 3 + 1
        second = 0 if b is None else (numbers[b] - numbers["a"]) // (numbers["b"] - numbers["a"]) * steps + 1
        model = sum((first >> i & 1) << (2 * i + 1) | (second >> i & 1) << (2 * i) for i in range(16))
        assert z == model, (a, b)


def count(table: Lake, operation: Operation) -> None:
    """Count, which stages nothing on a branch."""
    ref = staging_ref(table.ident, table.observe().version.uuid, operation)
    table.engine().execute(operation, ref, lambda event: None).commit()


def test_distinct_values_are_counted_once_per_snapshot(shop: Shop) -> None:
    table = shop.fresh(extra="PARTITIONED BY (bucket(2, id))")
    desired = wants(table, indexes=(DesiredIndex(name="values", type="ndv", columns=(("x",), ("note",))),))
    desired = msgspec.structs.replace(desired, partitioning=BUCKETS)
    (operation,) = table.plan(desired).operations
    count(table, operation)
    assert lag(table, desired) == []
    head = table.ancestry()[0]
    (file,) = (f for f in table._json()["statistics"] if f["snapshot-id"] == head)
    counts = {blob["fields"][0]: int(blob["properties"]["ndv"]) for blob in file["blob-metadata"]}
    assert counts == {2: 5, 3: 12}
    assert [f["snapshot-id"] for f in table._json()["partition-statistics"]] == [head]
    versions = table.versions()
    count(table, operation)  # a second runner, or the next one after a lost answer
    assert table.versions() == versions
    table.append(range(12, 14))
    (behind,) = lag(table, desired)
    count(table, behind)
    assert lag(table, desired) == []


def test_cut_off_between_its_two_files_a_count_goes_on(shop: Shop) -> None:
    table = shop.fresh(extra="PARTITIONED BY (bucket(2, id))")
    desired = wants(table, indexes=(DesiredIndex(name="values", type="ndv", columns=(("x",),)),))
    actions = table.spark._jvm.org.apache.iceberg.spark.actions.SparkActions.get(table.spark._jsparkSession)
    actions.computeTableStats(StagingTable(table.spark, table.catalog_name, table.ident).load()).execute()
    desired = msgspec.structs.replace(desired, partitioning=BUCKETS)
    (operation,) = table.plan(desired).operations
    versions = table.versions()
    count(table, operation)
    assert table.versions() == versions + 1
    assert table.plan(desired).is_empty
