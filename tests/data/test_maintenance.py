"""Maintenance on a real Iceberg: what it does, that it does it once, and what it never touches."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

import msgspec
import pytest

from reconciler.errors import CommitConflict, InvalidTable
from reconciler.model import bookkeeping
from reconciler.model.bookkeeping import VIEW
from reconciler.model.maintenance import (
    DAY_MS,
    CompactFiles,
    ExpireSnapshots,
    Maintenance,
    RemoveOrphans,
    RewriteManifests,
)
from reconciler.model.table import TableIdent
from reconciler.pipeline import Request
from reconciler.pipeline.table_jobs import table_operation
from reconciler.plan.data import branch_of, done_key
from reconciler.plan.maintenance import declared_operation
from reconciler.plan.operations import Operation
from reconciler.plan.table_work import Maintain, MaintenanceStep
from tests.data.kit import Killed, Lake, Shop, Writes

KEPT = Maintenance(
    compact=CompactFiles(target_bytes=1 << 20, min_files=2),
    expire=ExpireSnapshots(older_than_ms=1, keep=1),
    manifests=RewriteManifests(),
    orphans=RemoveOrphans(older_than_ms=3 * DAY_MS),
)


def operation(table: Lake, step: MaintenanceStep, tick: int = 1_000) -> Operation:
    """Prepare a step as a job does: from the manifest, with a look at the rest of the catalog."""
    desired = msgspec.structs.replace(table.wants(), maintenance=KEPT)
    current = table.observe()
    wanted = declared_operation(desired, current, step, tick)
    assert wanted is not None
    prepared = table_operation(Request(desired, table.catalog, table.catalog_name), current, wanted)
    assert prepared is not None
    return prepared


def run(table: Lake, step: MaintenanceStep, tick: int = 1_000) -> Operation:
    time.sleep(0.01)  # a snapshot of this very millisecond is not older than one
    wanted = operation(table, step, tick)
    table.run(wanted, table.engine(chunk_bytes=1 << 30))
    assert table.observe().bookkeeping[done_key(wanted)] == wanted.id
    return wanted


def files(table: Lake) -> set[Path]:
    """List every file below the table's location, on disk."""
    return {path for path in folder(table).rglob("*") if path.is_file() and not path.name.endswith(".crc")}


def folder(table: Lake) -> Path:
    location = table.observe().spec.location
    assert location is not None
    return Path(urlparse(location).path)


def data_files(table: Lake) -> int:
    head = table.observe().version.snapshot_id
    assert head is not None
    return len(table.catalog.get_data_files(table.ident, head))


def records(table: Lake) -> list[bookkeeping.HistoryRecord]:
    return list(bookkeeping.read(table.observe().bookkeeping).history)


# ---------------------------------------------------------------- compaction


@pytest.mark.parametrize(("lake", "version"), [("embedded", 2), ("rest", 3)])
def test_small_files_are_written_together_once(shop: Shop, lake: str, version: int) -> None:
    table = shop.fresh(lake, version=version, files=4)
    shop.spark.sql(f"DELETE FROM {table.name} WHERE id = 5")
    columns = ("id", "x", "note", "_row_id") if version == 3 else ("id", "x", "note")
    before, heads = table.rows(*columns), table.ancestry()
    run(table, MaintenanceStep.COMPACT)
    assert data_files(table) == 1
    assert table.rows(*columns) == before
    assert table.ancestry()[1:] == heads
    assert table.snapshots()[-1]["summary"]["operation"] == "replace"
    assert table.branches() == []
    (record,) = records(table)
    assert (record.kind, record.plan, record.rows) == ("compact", "", 15)
    assert record.bytes > 0
    versions = table.versions()
    run(table, MaintenanceStep.COMPACT)
    assert table.versions() == versions


def test_a_sorted_table_is_compacted_in_its_order(shop: Shop) -> None:
    table = shop.fresh(files=0)
    shop.spark.sql(f"ALTER TABLE {table.name} WRITE ORDERED BY note DESC")
    for ids in ([1, 5], [2, 4], [3, 0]):
        table.append(ids)
    run(table, MaintenanceStep.COMPACT)
    assert data_files(table) == 1
    (file,) = table.catalog.get_data_files(table.ident, table.ancestry()[0])
    assert file.sort_order_id == table.observe().version.sort_order_id
    import pyarrow.parquet as pq

    notes = pq.read_table(urlparse(file.path).path)["note"].to_pylist()
    assert notes == sorted(notes, reverse=True)


def test_partitions_are_not_mixed_and_few_files_are_left_alone(shop: Shop) -> None:
    table = shop.fresh(files=0, extra="PARTITIONED BY (x)")
    for ids in ([0, 1], [5, 10], [15, 2]):
        table.append(ids)
    assert data_files(table) == 5
    run(table, MaintenanceStep.COMPACT)
    assert data_files(table) == 3
    assert sorted(row[0] for row in table.rows("id")) == [0, 1, 2, 5, 10, 15]


def test_partitions_that_print_alike_are_left_alone(shop: Shop) -> None:
    table = shop.fresh(files=0)
    shop.spark.sql(f"ALTER TABLE {table.name} ADD COLUMNS (text string, raw binary)")
    shop.spark.sql(f"ALTER TABLE {table.name} ADD PARTITION FIELD text")
    shop.spark.sql(f"ALTER TABLE {table.name} ADD PARTITION FIELD raw")
    for place in ("NULL, NULL", "'null', NULL", "'null', X'01'", "'null', X'02'"):
        shop.spark.sql(f"INSERT INTO {table.name} VALUES (1, 1, 'n', {place})")
    head = table.ancestry()[0]
    run(table, MaintenanceStep.COMPACT)
    assert table.ancestry()[0] == head


def test_files_of_a_spec_whose_column_was_dropped_are_compacted_too(shop: Shop) -> None:
    table = shop.fresh(files=0, extra="PARTITIONED BY (x)")
    for ids in ([0, 5, 10], [15, 20, 1], [6, 11, 16]):
        table.append(ids)
    shop.spark.sql(f"ALTER TABLE {table.name} REPLACE PARTITION FIELD x WITH bucket(2, id)")
    shop.spark.sql(f"ALTER TABLE {table.name} DROP COLUMN x")
    before, count = table.rows("id", "note"), data_files(table)
    run(table, MaintenanceStep.COMPACT)
    assert table.rows("id", "note") == before
    assert data_files(table) < count


@pytest.mark.parametrize("point", [(1, "after"), (2, "before"), (2, "after"), (3, "before"), (3, "after")], ids=str)
def test_a_crash_at_any_write_of_a_compaction_ends_the_same(shop: Shop, point: tuple[int, str]) -> None:
    table = shop.fresh(files=3)
    before = table.rows("id", "x", "note")
    wanted = operation(table, MaintenanceStep.COMPACT)
    with pytest.raises(Killed):
        table.run(wanted, table.engine(Writes(point), chunk_bytes=1 << 30))
    run(table, MaintenanceStep.COMPACT)
    assert table.rows("id", "x", "note") == before
    assert data_files(table) == 1
    assert table.branches() == []
    assert sum(s["summary"].get("laketable.operation") == wanted.id for s in table.snapshots()) == 1


# ---------------------------------------------------------------- snapshots


@pytest.mark.parametrize("lake", ["embedded", "rest"])
def test_expiry_keeps_what_somebody_needs_and_deletes_the_rest(shop: Shop, lake: str) -> None:
    table = shop.fresh(lake, files=3)
    tagged, watermark = table.ancestry()[2], table.ancestry()[1]
    shop.spark.sql(f"ALTER TABLE {table.name} CREATE TAG close AS OF VERSION {tagged}")
    view = shop.fresh(lake, files=1)
    memory = (
        '{"query":"q","text":"t","sources":[{"table":{"namespace":["a"],"name":"b"},"uuid":"'
        + table.observe().version.uuid
        + f'","snapshot_id":{watermark},"schema_id":0}}]}}'
    )
    shop.spark.sql(f"ALTER TABLE {view.name} SET TBLPROPERTIES ('{VIEW}' = '{memory}')")
    shop.spark.sql(f"INSERT OVERWRITE {table.name} SELECT id, x, 'anew' FROM {table.name}")
    needless = table.observe().version.snapshot_id
    table.append(range(20, 24))
    before = files(table)
    run(table, MaintenanceStep.EXPIRE_SNAPSHOTS)
    left = table.observe().snapshot_ids
    assert left == {tagged, watermark, table.observe().version.snapshot_id}
    assert needless not in left
    assert len(before - files(table)) >= 1
    at = shop.spark.read.option("versionAsOf", str(watermark)).table(table.name)
    assert at.count() == 8
    assert shop.spark.read.option("versionAsOf", "close").table(table.name).count() == 4
    assert len(table.rows("id")) == 16
    versions, there = table.versions(), files(table)
    run(table, MaintenanceStep.EXPIRE_SNAPSHOTS)
    assert (table.versions(), files(table)) == (versions, there)


def test_unfinished_work_keeps_what_it_started_from(shop: Shop) -> None:
    table = shop.fresh(files=2)
    base = table.observe().version.snapshot_id
    shop.spark.sql(f"ALTER TABLE {table.name} CREATE BRANCH {branch_of('f' * 16)}")
    table.append(range(20, 24))
    run(table, MaintenanceStep.EXPIRE_SNAPSHOTS)
    assert base in table.observe().snapshot_ids


def test_a_table_that_cannot_be_read_stops_the_expiry(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    table = shop.fresh(files=2)
    other = shop.fresh(files=1)
    read = table.catalog.get_table_specs

    def broken(tables: list[object]) -> Iterator[object]:
        for ident, seen in read(tables):  # type: ignore[arg-type]
            yield ident, CommitConflict("unreadable") if ident == other.ident else seen

    monkeypatch.setattr(table.catalog, "get_table_specs", broken)
    with pytest.raises(CommitConflict, match="might be a view"):
        operation(table, MaintenanceStep.EXPIRE_SNAPSHOTS)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_the_commit_of_an_expiry_loses_no_file_that_is_needed(shop: Shop, when: str) -> None:
    table = shop.fresh(files=3)
    shop.spark.sql(f"DELETE FROM {table.name} WHERE id < 4")
    rows, there = table.rows("id"), files(table)
    wanted = operation(table, MaintenanceStep.EXPIRE_SNAPSHOTS)
    time.sleep(0.01)
    with pytest.raises(Killed):
        table.run(wanted, table.engine(Writes((1, when))))
    assert there <= files(table), "no file may go before the commit is known"
    run(table, MaintenanceStep.EXPIRE_SNAPSHOTS)
    assert table.rows("id") == rows
    assert len(table.observe().snapshot_ids) == 1


# ---------------------------------------------------------------- manifests


@pytest.mark.parametrize("when", ["before", "after"])
def test_manifests_are_written_together_in_one_commit(shop: Shop, when: str) -> None:
    table = shop.fresh(files=4)
    rows, heads = table.rows("id", "x"), table.ancestry()
    wanted = operation(table, MaintenanceStep.REWRITE_MANIFESTS)
    with pytest.raises(Killed):
        table.run(wanted, table.engine(Writes((1, when))))
    run(table, MaintenanceStep.REWRITE_MANIFESTS)
    assert manifests(table) == 1
    assert table.ancestry()[1:] == heads
    assert table.rows("id", "x") == rows
    (record,) = records(table)
    assert (record.kind, record.files) == ("rewrite-manifests", 4)
    run(table, MaintenanceStep.REWRITE_MANIFESTS, tick=2_000)
    assert table.ancestry()[1:] == heads, "one manifest is not written again"


def manifests(table: Lake) -> int:
    return int(table.spark.sql(f"SELECT count(*) FROM {table.name}.manifests").collect()[0][0])


# ---------------------------------------------------------------- orphan files


def test_only_old_files_that_no_metadata_names_are_deleted(shop: Shop) -> None:
    table = shop.fresh(files=2)
    old, young = folder(table) / "data/old.parquet", folder(table) / "data/young.parquet"
    for path in (old, young):
        path.write_bytes(b"left by a job that died")
    for path in files(table) - {young}:
        os.utime(path, (0, 0))
    there = files(table)
    run(table, MaintenanceStep.REMOVE_ORPHAN_FILES)
    assert there - files(table) == {old}
    assert len(table.rows("id")) == 8
    assert (records(table)[-1].kind, records(table)[-1].files) == ("remove-orphan-files", 1)


def test_a_file_in_a_folder_that_another_table_writes_to_is_not_deleted(shop: Shop) -> None:
    table, other = shop.fresh(files=1), shop.fresh(files=0)
    within = folder(table) / "data/of-another-table"
    shop.spark.sql(f"ALTER TABLE {other.name} SET TBLPROPERTIES ('write.data.path' = 'file://{within}')")
    other.append(range(4))
    make_old(table)
    assert any(within in path.parents for path in files(table))
    run(table, MaintenanceStep.REMOVE_ORPHAN_FILES)
    assert len(other.rows("id")) == 4


def test_the_files_of_a_table_that_moved_away_are_not_deleted(shop: Shop) -> None:
    moved = shop.fresh(files=1)
    location = folder(moved)
    shop.spark.sql(f"ALTER TABLE {moved.name} SET LOCATION '{location}-elsewhere'")
    moved.append(range(10, 14))
    run(moved, MaintenanceStep.EXPIRE_SNAPSHOTS)
    later = shop.make("embedded", TableIdent(moved.ident.namespace, f"{moved.ident.name}_later"))
    shop.spark.sql(f"CREATE TABLE {later.name} (id bigint, x int, note string) USING iceberg LOCATION '{location}'")
    later.append(range(4))
    make_old(later)
    with pytest.raises(InvalidTable, match="Another table of the catalog was here before"):
        run(later, MaintenanceStep.REMOVE_ORPHAN_FILES)
    assert len(moved.rows("id")) == 8


def test_what_a_dropped_table_left_is_deleted(shop: Shop) -> None:
    dropped = shop.fresh(files=1)
    location, left = folder(dropped), data_paths(dropped)
    shop.spark.sql(f"DROP TABLE {dropped.name}")
    table = shop.make("embedded", dropped.ident)
    shop.spark.sql(f"CREATE TABLE {table.name} (id bigint, x int, note string) USING iceberg LOCATION '{location}'")
    table.append(range(4))
    make_old(table)
    run(table, MaintenanceStep.REMOVE_ORPHAN_FILES)
    assert not any(path.exists() for path in left)
    assert len(table.rows("id")) == 4


@pytest.mark.parametrize("step", [MaintenanceStep.EXPIRE_SNAPSHOTS, MaintenanceStep.REMOVE_ORPHAN_FILES])
def test_nothing_is_deleted_of_a_table_whose_files_others_share(shop: Shop, step: MaintenanceStep) -> None:
    table = shop.fresh(files=2)
    shop.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('gc.enabled' = 'false')")
    make_old(table)
    snapshots, there = table.observe().snapshot_ids, files(table)
    with pytest.raises(InvalidTable, match=r"gc\.enabled is false"):
        run(table, step)
    assert table.observe().snapshot_ids == snapshots
    assert there <= files(table)


def make_old(table: Lake) -> None:
    for path in files(table):
        os.utime(path, (0, 0))


def data_paths(table: Lake) -> list[Path]:
    files = table.catalog.get_data_files(table.ident, table.ancestry()[0])
    return [Path(urlparse(file.path).path) for file in files]


def test_a_step_that_the_manifest_does_not_declare_is_refused(shop: Shop) -> None:
    table = shop.fresh(files=1)
    wanted = operation(table, MaintenanceStep.EXPIRE_SNAPSHOTS)
    forged = msgspec.structs.replace(wanted, work=Maintain(step=MaintenanceStep.EXPIRE_SNAPSHOTS, tick_ms=9, keep=1))
    request = Request(msgspec.structs.replace(table.wants(), maintenance=KEPT), table.catalog, table.catalog_name)
    with pytest.raises(Exception, match="no longer asks"):
        table_operation(request, table.observe(), forged)
