"""Kill the job before and after each of its catalog writes: the next run converges, and every chunk counts once.

The canary adds one to a column: a chunk done twice shows, a lost one too. The writes are counted by the catalog (its
metadata log), so a write that bypasses the hook fails the test.
"""

from __future__ import annotations

import msgspec
import pytest

from reconciler.plan.operations import Backfill, BackfillColumn, Operation, OperationClass, OperationKind
from tests.data.kit import Killed, Lake, Shop, Writes

FILES = 2
ROWS = 4 * FILES
CANARY = Operation(
    id="c0ffee00c0ffee00",
    kind=OperationKind.BACKFILL,
    summary="add one",
    operation_class=OperationClass.REWRITE,
    work=Backfill(columns=(BackfillColumn(name="x", field_id=2, sql="`x` + 1", recompute=True),)),
)


def expected(ids: range) -> list[tuple[int, int | None, str]]:
    return sorted(((i, None if i % 7 == 6 else i % 5 + 1, f"n{i}") for i in ids), key=repr)


def converged(table: Lake) -> None:
    """What must hold after every run, however often it was killed."""
    assert table.rows("id", "x", "note") == expected(range(ROWS))
    assert table.branches() == []
    on_main = set(table.ancestry())
    stamped = [s for s in table.snapshots() if s["summary"].get("laketable.chunk") and s["snapshot-id"] in on_main]
    assert len({s["summary"]["laketable.chunk"] for s in stamped}) == len(stamped) == FILES


def writes_of_a_run(shop: Shop, lake: str) -> int:
    """Let the catalog count what a whole run commits."""
    table, writes = shop.fresh(lake, files=FILES), Writes()
    before = table.versions()
    table.run(CANARY, table.engine(writes))
    converged(table)
    assert table.versions() - before == writes.count, "a write went past the hook"
    return writes.count


@pytest.mark.parametrize("lake", ["embedded", "rest"])
def test_killed_at_every_write_it_converges(shop: Shop, lake: str) -> None:
    count = writes_of_a_run(shop, lake)
    assert count == 2 + FILES  # branch, a chunk per file, publish with the branch's end and the properties
    # on REST only after: before the next write the catalog holds the same
    whens = ("before", "after") if lake == "embedded" else ("after",)
    points = [(number, when) for number in range(1, count + 1) for when in whens]
    for point in points:
        table = shop.fresh(lake, files=FILES)
        with pytest.raises(Killed):
            table.run(CANARY, table.engine(Writes(point)))
        if point[0] < count or point[1] == "before":
            assert table.rows("id", "x") == [row[:2] for row in sorted(_untouched(), key=repr)]
        table.run(CANARY)
        converged(table)


def _untouched() -> list[tuple[int, int | None]]:
    return [(i, None if i % 7 == 6 else i % 5) for i in range(ROWS)]


def test_killed_at_two_writes_in_turn_it_converges(shop: Shop) -> None:
    for first, second in ((1, 1), (2, 1), (3, 1)):
        table = shop.fresh(files=FILES)
        for number in (first, second):
            with pytest.raises(Killed):
                table.run(CANARY, table.engine(Writes((number, "after"))))
        table.run(CANARY)
        converged(table)


def test_a_resumed_run_only_writes_what_is_left(shop: Shop) -> None:
    table = shop.fresh(files=FILES)
    with pytest.raises(Killed):
        table.run(CANARY, table.engine(Writes((2, "after"))))
    writes = Writes()
    table.run(CANARY, table.engine(writes))
    assert writes.count == 2  # the last chunk, publish


def test_other_chunk_sizes_on_resume_redo_nothing(shop: Shop) -> None:
    table = shop.fresh(files=FILES)
    with pytest.raises(Killed):
        table.run(CANARY, table.engine(Writes((2, "after"))))
    table.run(CANARY, table.engine(chunk_bytes=1 << 30))
    assert table.rows("id", "x", "note") == expected(range(ROWS))
    assert table.branches() == []


def test_two_runners_of_one_operation_apply_it_once(shop: Shop) -> None:
    table = shop.fresh(files=FILES)
    slow = table.start(CANARY)
    table.run(CANARY)
    assert slow.commit().version.snapshot_id == table.ancestry()[0]
    converged(table)


def test_control_a_second_application_is_noticed(shop: Shop) -> None:
    table = shop.fresh(files=FILES)
    table.run(CANARY)
    assert isinstance(CANARY.work, Backfill)
    column = msgspec.structs.replace(CANARY.work.columns[0], revision=2)
    again = msgspec.structs.replace(CANARY, id="decafbad00000000", work=Backfill(columns=(column,)))
    table.run(again)
    with pytest.raises(AssertionError):
        converged(table)


def test_control_a_leftover_branch_is_noticed(shop: Shop) -> None:
    table = shop.fresh(files=FILES)
    table.run(CANARY)
    table.spark.sql(f"ALTER TABLE {table.name} CREATE BRANCH lt_c0ffee00c0ffee00")
    with pytest.raises(AssertionError):
        converged(table)


def test_control_a_lost_row_is_noticed(shop: Shop) -> None:
    table = shop.fresh(files=FILES)
    table.run(CANARY)
    table.spark.sql(f"DELETE FROM {table.name} WHERE id = 3")
    with pytest.raises(AssertionError):
        converged(table)
