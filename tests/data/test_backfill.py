"""A backfill on a real Iceberg: right values, nothing else changed, published in one commit."""

from __future__ import annotations

import pytest

from reconciler.errors import InvalidInput
from reconciler.model.maintenance import STALE_BRANCH_MS
from reconciler.model.table import Computed
from reconciler.plan.data import fill_operation
from reconciler.plan.operations import Backfill, OperationKind
from reconciler.plan.table_upkeep import with_table_upkeep
from tests.data.kit import Shop

DOUBLED = Computed(expression="x * 2 + id")


def model(ids: range) -> list[tuple[int, int | None]]:
    """Compute in plain Python what Spark must."""
    return sorted(((i, None if i % 7 == 6 else (i % 5) * 2 + i) for i in ids), key=repr)


@pytest.mark.parametrize(("lake", "version"), [("embedded", 1), ("embedded", 2), ("rest", 2), ("rest", 3)])
def test_fills_every_row_in_one_commit_on_main(shop: Shop, lake: str, version: int) -> None:
    table = shop.fresh(lake, version=version)
    before = table.rows("id", "x", "note")
    operation = table.evolve(table.wants(total=DOUBLED))
    heads = table.ancestry()
    staged = table.start(operation)
    assert table.rows("id", "total") == sorted(((i, None) for i in range(12)), key=repr)
    outcome = staged.commit()
    assert not outcome.replayed
    assert table.rows("id", "total") == model(range(12))
    assert table.rows("id", "x", "note") == before
    assert table.ancestry()[-len(heads) :] == heads
    assert table.branches() == []
    assert table.plan(table.wants(total=DOUBLED)).operations == ()


def test_a_null_that_is_right_converges(shop: Shop) -> None:
    table = shop.fresh()
    desired = table.wants(total=DOUBLED)
    table.run(table.evolve(desired))
    assert (6, None) in table.rows("id", "total")
    assert table.plan(desired).operations == ()
    fill = fill_operation(desired, table.observe())
    assert fill is not None
    staged = table.run(fill)
    assert staged.files == 0
    assert table.plan(desired).operations == ()


def test_values_that_others_wrote_stay_and_are_recomputed_only_for_a_changed_expression(shop: Shop) -> None:
    table = shop.fresh(files=1)
    table.run(table.evolve(table.wants(total=DOUBLED)))
    table.spark.sql(f"INSERT INTO {table.name} VALUES (100, 1, 'theirs', 7), (101, 1, 'none', NULL)")
    fill = fill_operation(table.wants(total=DOUBLED), table.observe())
    assert fill is not None
    assert table.run(fill).files == 1
    assert {(100, 7), (101, 103)} <= set(table.rows("id", "total"))
    table.run(table.evolve(table.wants(total=Computed(expression="id"))))
    assert table.rows("id", "total") == sorted(((i, i) for i in (0, 1, 2, 3, 100, 101)), key=repr)


def test_going_from_a_to_b_and_back_computes_three_times(shop: Shop) -> None:
    table = shop.fresh(files=1)
    ids = []
    for expression in ("id", "id + 1", "id"):
        operation = table.evolve(table.wants(total=Computed(expression=expression)))
        table.run(operation)
        ids.append(operation.id)
        assert table.rows("id", "total") == [(i, i + (expression == "id + 1")) for i in range(4)]
    assert len(set(ids)) == 3
    stamps = [s["summary"].get("laketable.operation") for s in table.snapshots()]
    assert [id_ for id_ in stamps if id_] == ids


def test_raising_the_version_computes_again(shop: Shop) -> None:
    table = shop.fresh(files=1)
    table.run(table.evolve(table.wants(total=Computed(expression="id"))))
    assert table.plan(table.wants(total=Computed(expression="id"))).operations == ()
    again = table.evolve(table.wants(total=Computed(expression="id", version=1)))
    assert isinstance(again.work, Backfill)
    assert again.work.columns[0].recompute


def test_where_limits_the_rows(shop: Shop) -> None:
    table = shop.fresh(files=2)
    table.run(table.evolve(table.wants(total=Computed(expression="id", where="id >= 3"))))
    assert table.rows("id", "total") == sorted(((i, i if i >= 3 else None) for i in range(8)), key=repr)


def test_two_columns_are_one_pass(shop: Shop) -> None:
    table = shop.fresh()
    versions = table.versions()
    operation = table.evolve(table.wants(total=DOUBLED, twice=Computed(expression="id * 2")))
    staged = table.run(operation)
    assert staged.files == 3
    assert table.rows("id", "twice") == sorted(((i, i * 2) for i in range(12)), key=repr)
    assert table.rows("id", "total") == model(range(12))
    # schema, branch, a chunk per file, publish
    assert table.versions() - versions == 1 + 1 + staged.files + 1


def test_the_files_written_are_what_the_plan_said(shop: Shop) -> None:
    table = shop.fresh()
    operation = table.evolve(table.wants(total=DOUBLED))
    staged = table.run(operation)
    assert operation.cost.files_rewritten == staged.files == 3
    assert operation.cost.bytes_rewritten > 0


def test_row_ids_of_a_v3_table_stay(shop: Shop) -> None:
    table = shop.fresh("rest", version=3)
    before = table.rows("id", "_row_id")
    assert len({row_id for _, row_id in before}) == 12
    table.run(table.evolve(table.wants(total=DOUBLED)))
    assert table.rows("id", "_row_id") == before
    table.append(range(12, 14))
    assert len({row_id for _, row_id in table.rows("id", "_row_id")}) == 14


def test_partitions_deletes_and_old_specs_are_kept(shop: Shop) -> None:
    table = shop.fresh(extra="PARTITIONED BY (bucket(4, id))", files=2)
    table.spark.sql(f"DELETE FROM {table.name} WHERE id = 1")
    table.spark.sql(f"ALTER TABLE {table.name} REPLACE PARTITION FIELD bucket(4, id) WITH truncate(2, note)")
    table.append(range(8, 12))
    layout = table.rows("id", "_spec_id", "_partition")
    operation = table.evolve(table.wants(total=DOUBLED))
    staged = table.run(operation, table.engine(chunk_bytes=1 << 30))
    assert staged.files == operation.cost.files_rewritten > 3
    assert table.rows("id", "total") == sorted((r for r in model(range(12)) if r[0] != 1), key=repr)
    assert table.rows("id", "_spec_id", "_partition") == layout


@pytest.mark.parametrize("deletes", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize(("lake", "version"), [("embedded", 2), ("rest", 3)])
def test_a_former_partition_column_may_be_dropped(shop: Shop, lake: str, version: int, deletes: str) -> None:
    table = shop.fresh(lake, version=version, extra="PARTITIONED BY (note)", files=2)
    table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.delete.mode' = '{deletes}')")
    table.spark.sql(f"ALTER TABLE {table.name} DROP PARTITION FIELD note")
    table.spark.sql(f"ALTER TABLE {table.name} ADD PARTITION FIELD bucket(2, id)")
    table.spark.sql(f"ALTER TABLE {table.name} DROP COLUMN note")
    table.spark.sql(f"INSERT INTO {table.name} VALUES (8, 3)")
    table.spark.sql(f"DELETE FROM {table.name} WHERE id = 3")
    table.run(table.evolve(table.wants(total=DOUBLED)))
    assert table.rows("id", "total") == sorted((row for row in model(range(9)) if row[0] != 3), key=repr)
    assert table.plan(table.wants(total=DOUBLED)).operations == ()


def test_a_row_the_expression_fails_on_is_told_and_main_has_nothing_of_it(shop: Shop) -> None:
    table = shop.fresh(files=2)
    operation = table.evolve(table.wants(total=Computed(expression="12 div x")))
    head = table.ancestry()[0]
    with pytest.raises(InvalidInput, match="fails on a row"):
        table.start(operation)
    assert table.ancestry()[0] == head
    # mended: the branch of the first try is given up, and swept as upkeep once it is stale
    desired = table.wants(total=Computed(expression="try_divide(12, x)"))
    table.run(table.evolve(desired))
    assert table.branches() == [f"lt_{operation.id}"]
    seen, made = table.observe(), table.plan(desired)
    written_ms = max(seen.snapshot_times.values())
    young, stale = (
        [o for o in with_table_upkeep(made, desired, seen, now_ms=now_ms).upkeep if o.changes]
        for now_ms in (written_ms + STALE_BRANCH_MS // 2, written_ms + 2 * STALE_BRANCH_MS)
    )
    assert young == []
    (sweep,) = stale
    table.catalog.apply(table.ident, seen.version, sweep.changes)
    assert table.branches() == []


def test_aborting_leaves_nothing(shop: Shop) -> None:
    table = shop.fresh()
    operation = table.evolve(table.wants(total=DOUBLED))
    head = table.ancestry()[0]
    staged = table.start(operation)
    staged.abort()
    staged.abort()
    assert table.branches() == []
    assert table.ancestry()[0] == head
    staged = table.run(operation)
    staged.abort()
    assert table.rows("id", "total") == model(range(12))


def test_an_empty_table_needs_no_job(shop: Shop) -> None:
    table = shop.fresh(files=0)
    made = table.plan(table.wants(total=DOUBLED))
    assert [o.kind for o in made.operations] == [OperationKind.COMMIT]


def test_committing_twice_says_replayed(shop: Shop) -> None:
    table = shop.fresh(files=1)
    operation = table.evolve(table.wants(total=DOUBLED))
    assert not table.start(operation).commit().replayed
    versions = table.versions()
    assert table.start(operation).commit().replayed
    assert table.versions() == versions
