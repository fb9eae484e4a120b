"""Others write while a backfill runs: nothing of theirs is lost, moved or undone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from reconciler.engines.staging import JavaDraft, StagingTable
from reconciler.errors import CommitConflict, CommitStateUnknown
from reconciler.model.table import Computed
from reconciler.plan.data import fill_operation
from reconciler.ports import Staged
from tests.data.kit import Shop, Writes
from tests.data.test_backfill import DOUBLED, model
from tests.data.test_crashes import CANARY, FILES, converged


@pytest.mark.parametrize("lake", ["embedded", "rest"])
def test_rows_appended_meanwhile_stay_and_a_fill_gives_them_their_values(shop: Shop, lake: str) -> None:
    table = shop.fresh(lake)
    desired = table.wants(total=DOUBLED)
    operation = table.evolve(desired)
    staged = table.start(operation)
    theirs = [table.append(range(12, 14)), table.append(range(14, 16))]
    staged.commit()
    assert staged.main_moved
    assert set(theirs) <= set(table.ancestry())
    filled = dict(table.rows("id", "total"))
    assert [filled[i] for i in range(12, 16)] == [None] * 4
    assert sorted(((i, filled[i]) for i in range(12)), key=repr) == model(range(12))
    fill = fill_operation(desired, table.observe())
    assert fill is not None
    assert table.run(fill).files == 2
    assert table.rows("id", "total") == model(range(16))
    assert set(theirs) <= set(table.ancestry())
    assert table.branches() == []


def test_row_ids_stay_when_published_by_reference(shop: Shop) -> None:
    table = shop.fresh("rest", version=3)
    operation = table.evolve(table.wants(total=DOUBLED))
    staged = table.start(operation)
    table.append(range(12, 14))
    before = table.rows("id", "_row_id")
    staged.commit()
    assert table.rows("id", "_row_id") == before


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_a_delete_meanwhile_is_never_undone(shop: Shop, mode: str) -> None:
    table = shop.fresh()
    table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.delete.mode'='{mode}')")
    staged = table.start(table.evolve(table.wants(total=DOUBLED)))
    table.spark.sql(f"DELETE FROM {table.name} WHERE id = 5")
    theirs = table.ancestry()[0]
    staged.commit()
    assert table.rows("id", "total") == sorted((r for r in model(range(12)) if r[0] != 5), key=repr)
    assert theirs in table.ancestry()
    assert table.branches() == []


def test_a_compaction_meanwhile_stays(shop: Shop) -> None:
    table = shop.fresh()
    staged = table.start(table.evolve(table.wants(total=DOUBLED)))
    table.spark.sql(
        f"CALL {table.catalog_name}.system.rewrite_data_files("
        f"table => '{table.ident}', options => map('rewrite-all','true'))"
    )
    theirs = table.ancestry()[0]
    staged.commit()
    assert table.rows("id", "total") == model(range(12))
    assert theirs in table.ancestry()


def test_an_update_of_an_input_meanwhile_is_computed_from(shop: Shop) -> None:
    table = shop.fresh()
    staged = table.start(table.evolve(table.wants(total=DOUBLED)))
    table.spark.sql(f"UPDATE {table.name} SET x = 100 WHERE id = 5")
    staged.commit()
    assert dict(table.rows("id", "total"))[5] == 205


def test_ingest_during_the_whole_job_loses_nothing(shop: Shop) -> None:
    table = shop.fresh()
    desired = table.wants(total=DOUBLED)
    operation = table.evolve(desired)
    stop, theirs, failures = threading.Event(), [], []

    def ingest() -> None:
        number = 12
        while not stop.wait(0.2):
            try:
                theirs.append(table.append(range(number, number + 1)))
            except Exception as error:  # noqa: BLE001
                failures.append(error)
            number += 1

    writer = threading.Thread(target=ingest)
    writer.start()
    try:
        table.run(operation)
    finally:
        stop.set()
        writer.join()
    assert not failures
    assert theirs
    assert set(theirs) <= set(table.ancestry())
    rows = dict(table.rows("id", "total"))
    assert len(rows) == 12 + len(theirs)
    assert sorted(((i, rows[i]) for i in range(12)), key=repr) == model(range(12))
    fill = fill_operation(desired, table.observe())
    assert fill is not None
    table.run(fill)
    assert table.rows("id", "total") == model(range(12 + len(theirs)))


@pytest.mark.parametrize("lake", ["embedded", "rest"])
def test_a_commit_while_ours_is_being_prepared_stays(shop: Shop, lake: str) -> None:
    """Iceberg reads the table anew when it writes manifests: what we build the metadata on must not be older."""
    table = shop.fresh(lake)
    theirs: list[int] = []

    class Overtaken(StagingTable):
        def snapshot(self, update: Any) -> Any:
            number = 12 + len(theirs)
            theirs.append(table.append(range(number, number + 1)))
            return super().snapshot(update)

    table.run(table.evolve(table.wants(total=DOUBLED)), table.engine(Overtaken))
    assert len(theirs) > 1
    assert set(theirs) <= set(table.ancestry())
    assert len(table.rows("id")) == 12 + len(theirs)


@pytest.mark.parametrize("lake", ["embedded", "rest"])
def test_who_lost_a_race_goes_on_with_what_it_prepared(shop: Shop, lake: str) -> None:
    table = shop.fresh(lake)
    table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('commit.manifest.min-count-to-merge'='2')")
    theirs: list[int] = []
    updates: list[Any] = []
    staged: list[Staged] = []

    class Beaten(StagingTable):
        def snapshot(self, update: Any) -> Any:
            updates.append(update)
            return super().snapshot(update)

        def _send(self, draft: JavaDraft, refs: Sequence[str]) -> bool:
            if staged and len(theirs) < 4:
                number = 12 + len(theirs)
                theirs.append(table.append(range(number, number + 1)))
            return super()._send(draft, refs)

    staged.append(table.start(table.evolve(table.wants(total=DOUBLED)), table.engine(Beaten)))
    staged[0].commit()
    published = [update for update in updates if update is updates[-1]]
    assert len(published) == 4  # the first try pointed main to the branch, and lost
    assert set(theirs) <= set(table.ancestry())
    assert sorted((row for row in table.rows("id", "total") if row[0] < 12), key=repr) == model(range(12))
    manifests = table.spark.table(f"{table.name}.manifests").where("content = 0").count()
    assert manifests > 1  # they were left as they are
    assert table.branches() == []


def test_a_schema_change_meanwhile_stops_it_and_the_next_run_goes_on(shop: Shop) -> None:
    table = shop.fresh()
    desired = table.wants(total=DOUBLED)
    operation = table.evolve(desired)
    staged = table.start(operation)
    table.spark.sql(f"ALTER TABLE {table.name} ADD COLUMN other string")
    with pytest.raises(CommitConflict, match="schema changed"):
        staged.commit()
    again = table.evolve(desired)
    assert again.id == operation.id
    assert again.resumes
    writes = Writes()
    table.run(again, table.engine(writes))
    assert writes.count == 1
    assert table.rows("id", "total") == model(range(12))


class Forgetful(Writes):
    """A catalog whose answer to one write gets lost: the commit happened, or it did not."""

    def __init__(self, number: int, *, lands: bool) -> None:
        super().__init__()
        self._number, self._lands = number, lands

    def around(self, commit):  # type: ignore[no-untyped-def]
        self.count += 1
        if self.count != self._number:
            return commit()
        if self._lands:
            assert commit()
        raise CommitStateUnknown("Nobody can tell whether the commit happened.")


@pytest.mark.parametrize("lands", [True, False])
def test_a_lost_answer_is_looked_up_and_never_repeated(shop: Shop, lands: bool) -> None:
    for number in range(1, 3 + FILES):
        table = shop.fresh(files=FILES)
        before = table.versions()
        table.run(CANARY, table.engine(Forgetful(number, lands=lands)))
        converged(table)
        assert table.versions() - before == 2 + FILES


def test_a_replaced_plan_gives_way(shop: Shop) -> None:
    table = shop.fresh()
    first = table.evolve(table.wants(total=DOUBLED))
    staged = table.start(first)
    second = table.evolve(table.wants(total=Computed(expression="id")))
    table.run(second)
    with pytest.raises(CommitConflict):
        staged.commit()
    assert table.rows("id", "total") == sorted(((i, i) for i in range(12)), key=repr)


def test_an_operation_published_long_ago_does_not_come_back(shop: Shop) -> None:
    table = shop.fresh(files=1)
    first = table.evolve(table.wants(total=Computed(expression="id")))
    table.run(first)
    table.run(table.evolve(table.wants(total=Computed(expression="id + 1"))))
    versions = table.versions()
    assert table.start(first).commit().replayed
    assert table.versions() == versions
    assert table.rows("id", "total") == [(i, i + 1) for i in range(4)]
