"""Backfills over a real Spark Connect server: the classic engine's behaviour, with the catalog doing the commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.engines.connect import connect_session
from reconciler.engines.connect_job import ConnectEngine, ConnectWork
from reconciler.engines.connect_rows import ConnectRows
from reconciler.engines.connect_sql import filled
from reconciler.engines.staged import staging_ref
from reconciler.errors import CommitConflict, CommitStateUnknown, InvalidInput, InvalidTable, Unsupported
from reconciler.model.table import Computed
from reconciler.plan.data import fill_operation
from reconciler.plan.operations import Operation
from tests.data.kit import Killed, Lake, Shop
from tests.data.test_backfill import DOUBLED, model
from tests.data.test_crashes import CANARY, FILES, ROWS, expected


class Interrupted(IcebergCatalog):
    """Counts its commits, and lets a test act around each."""

    def __init__(self, catalog: IcebergCatalog, around: Callable[[Callable[[], None]], None]) -> None:
        super().__init__(catalog.settings, backend=catalog._backend)
        self._around = around

    def commit_updates(self, *args: Any) -> None:
        """Make one write."""
        self._around(lambda: super(Interrupted, self).commit_updates(*args))


class Bench:
    """Runs operations of one table over Connect, and ends a run before or after one of its writes."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._url = url
        self.count = 0
        self.kill_at: tuple[int, str] | None = None
        self.lose_at: tuple[int, bool] | None = None
        append = ConnectRows.append
        monkeypatch.setattr(
            ConnectRows, "append", lambda rows, *args: self._around(lambda: append(rows, *args), is_spark=True)
        )

    def _around(self, write: Callable[[], None], *, is_spark: bool = False) -> None:
        self.count += 1
        if self.kill_at == (self.count, "before"):
            raise Killed
        if self.lose_at is not None and self.lose_at[0] == self.count:
            if self.lose_at[1]:
                write()
            raise CommitStateUnknown("Nobody can tell whether the commit happened.")
        write()
        if self.kill_at == (self.count, "after"):
            raise Killed

    def engine(self, table: Lake, *, chunk_bytes: int = 1) -> ConnectEngine:
        """Make the engine; a chunk holds one file unless told otherwise."""
        catalog = Interrupted(table.catalog, self._around)
        return ConnectEngine(lambda: connect_session(self._url), table.catalog_name, catalog, chunk_bytes=chunk_bytes)

    def start(self, table: Lake, operation: Operation, **options: int) -> ConnectWork:
        """Stage an operation."""
        self.count = 0
        ref = staging_ref(table.ident, table.observe().version.uuid, operation)
        return self.engine(table, **options).execute(operation, ref, lambda event: None)

    def run(self, table: Lake, operation: Operation, **options: int) -> ConnectWork:
        """Stage and publish."""
        staged = self.start(table, operation, **options)
        staged.commit()
        return staged


@pytest.fixture
def bench(connect_url: str, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(connect_url, monkeypatch)


def clean(table: Lake) -> None:
    """What must hold after every run: nothing is left of its branch nor of its snapshots."""
    assert table.branches() == []
    on_main = set(table.ancestry())
    ours = [s for s in table.snapshots() if "laketable.operation" in s["summary"]]
    assert {s["snapshot-id"] for s in ours} <= on_main


def converged(table: Lake) -> None:
    assert table.rows("id", "x", "note") == expected(range(ROWS))
    clean(table)


@pytest.mark.parametrize(("lake", "version"), [("embedded", 1), ("rest", 2)])
def test_fills_every_row_in_one_commit_on_main(shop: Shop, bench: Bench, lake: str, version: int) -> None:
    table = shop.fresh(lake, version=version)
    before = table.rows("id", "x", "note")
    operation = table.evolve(table.wants(total=DOUBLED))
    heads = table.ancestry()
    staged = bench.start(table, operation)
    assert table.rows("id", "total") == sorted(((i, None) for i in range(12)), key=repr)
    outcome = staged.commit()
    assert not outcome.replayed
    assert (staged.files, staged.rows) == (3, 12)
    assert table.rows("id", "total") == model(range(12))
    assert table.rows("id", "x", "note") == before
    assert table.ancestry()[1:] == heads
    clean(table)
    assert table.plan(table.wants(total=DOUBLED)).operations == ()
    assert bench.start(table, operation).commit().replayed


WRITES = 2 + 2 * FILES  # branch, a selection and a chunk per file, publish


def test_a_run_makes_no_other_writes(shop: Shop, bench: Bench) -> None:
    table = shop.fresh("rest", files=FILES)
    before = table.versions()
    bench.run(table, CANARY)
    converged(table)
    assert bench.count == WRITES == table.versions() - before


# before a write the catalog holds what it held after the one before
@pytest.mark.parametrize(
    ("lake", "number", "when"),
    [*(("embedded", n, "after") for n in range(1, WRITES + 1)), ("embedded", 1, "before"), ("rest", WRITES, "before")],
)
def test_killed_at_a_write_it_converges(shop: Shop, bench: Bench, lake: str, number: int, when: str) -> None:
    table = shop.fresh(lake, files=FILES)
    bench.kill_at = number, when
    with pytest.raises(Killed):
        bench.run(table, CANARY)
    bench.kill_at = None
    bench.run(table, CANARY)
    converged(table)


@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_a_lost_answer_is_looked_up_and_never_repeated(shop: Shop, bench: Bench, number: int) -> None:
    lands = number not in (1, 4)  # an append (3, 5) that did not land is what a kill before it leaves
    table = shop.fresh(files=FILES)
    bench.lose_at = number, lands
    bench.run(table, CANARY)
    converged(table)


def test_a_chunk_that_came_twice_counts_once(shop: Shop, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    append = ConnectRows.append

    def twice(rows: ConnectRows, *args: Any) -> None:
        append(rows, *args)
        append(rows, *args)

    monkeypatch.setattr(ConnectRows, "append", twice)
    table = shop.fresh(files=FILES)
    bench.run(table, CANARY)
    converged(table)


def test_other_chunk_sizes_on_resume_redo_nothing(shop: Shop, bench: Bench) -> None:
    table = shop.fresh(files=3)
    bench.kill_at = (3, "after")
    with pytest.raises(Killed):
        bench.run(table, CANARY)
    bench.kill_at = None
    bench.run(table, CANARY, chunk_bytes=1 << 30)
    assert bench.count == 3  # a selection and a chunk of what is left, publish
    assert table.rows("id", "x", "note") == expected(range(12))


def test_rows_appended_meanwhile_stay_and_a_fill_gives_them_their_values(shop: Shop, bench: Bench) -> None:
    table = shop.fresh()
    desired = table.wants(total=DOUBLED)
    staged = bench.start(table, table.evolve(desired))
    theirs = [table.append(range(12, 14)), table.append(range(14, 16))]
    staged.commit()
    assert staged.main_moved
    assert set(theirs) <= set(table.ancestry())
    filled = dict(table.rows("id", "total"))
    assert [filled[i] for i in range(12, 16)] == [None] * 4
    assert sorted(((i, filled[i]) for i in range(12)), key=repr) == model(range(12))
    fill = fill_operation(desired, table.observe())
    assert fill is not None
    assert bench.run(table, fill).files == 2
    assert table.rows("id", "total") == model(range(16))
    assert set(theirs) <= set(table.ancestry())
    clean(table)


def test_going_from_a_to_b_and_back_computes_three_times(shop: Shop, bench: Bench) -> None:
    table = shop.fresh(files=1)
    for expression in ("id", "id + 1", "id"):
        bench.run(table, table.evolve(table.wants(total=Computed(expression=expression))))
        assert table.rows("id", "total") == [(i, i + (expression == "id + 1")) for i in range(4)]


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_a_delete_meanwhile_is_never_undone(shop: Shop, bench: Bench, mode: str) -> None:
    table = shop.fresh()
    table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.delete.mode'='{mode}')")
    staged = bench.start(table, table.evolve(table.wants(total=DOUBLED)))
    table.spark.sql(f"DELETE FROM {table.name} WHERE id = 5")
    theirs = table.ancestry()[0]
    staged.commit()
    assert table.rows("id", "total") == sorted((r for r in model(range(12)) if r[0] != 5), key=repr)
    assert theirs in table.ancestry()
    clean(table)


def test_deletes_and_old_specs_are_respected(shop: Shop, bench: Bench) -> None:
    table = shop.fresh(extra="PARTITIONED BY (bucket(4, id))", files=2)
    table.spark.sql(f"DELETE FROM {table.name} WHERE id = 1")
    table.spark.sql(f"ALTER TABLE {table.name} REPLACE PARTITION FIELD bucket(4, id) WITH truncate(2, note)")
    table.append(range(8, 12))
    bench.run(table, table.evolve(table.wants(total=DOUBLED)), chunk_bytes=1 << 30)
    assert table.rows("id", "total") == sorted((r for r in model(range(12)) if r[0] != 1), key=repr)
    clean(table)


def test_files_stay_when_snapshots_expire(shop: Shop, bench: Bench) -> None:
    table = shop.fresh()
    bench.run(table, table.evolve(table.wants(total=DOUBLED)))
    jvm = table.spark._jvm
    java = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(table.spark._jsparkSession, table.name)
    java.expireSnapshots().expireOlderThan(jvm.java.lang.System.currentTimeMillis()).commit()
    assert len(table.snapshots()) == 1
    assert table.rows("id", "total") == model(range(12))


def test_a_row_the_expression_fails_on_is_told_and_main_has_nothing_of_it(shop: Shop, bench: Bench) -> None:
    table = shop.fresh(files=2)
    operation = table.evolve(table.wants(total=Computed(expression="12 div x")))
    head = table.ancestry()[0]
    with pytest.raises(InvalidInput, match="fails on a row"):
        bench.start(table, operation)
    assert table.ancestry()[0] == head


def test_neither_engine_goes_on_with_what_the_other_began(shop: Shop, bench: Bench) -> None:
    table = shop.fresh(files=FILES)
    bench.kill_at = (3, "after")
    with pytest.raises(Killed):
        bench.run(table, CANARY)
    table.run(CANARY)
    assert table.rows("id", "x", "note") == expected(range(ROWS))
    assert table.branches() == []


def test_a_schema_change_meanwhile_stops_it_and_the_next_run_goes_on(shop: Shop, bench: Bench) -> None:
    table = shop.fresh()
    desired = table.wants(total=DOUBLED)
    staged = bench.start(table, table.evolve(desired))
    table.spark.sql(f"ALTER TABLE {table.name} ADD COLUMN other string")
    with pytest.raises(CommitConflict, match="schema changed"):
        staged.commit()
    bench.run(table, table.evolve(desired))
    assert bench.count == 1
    assert table.rows("id", "total") == model(range(12))


def test_control_a_lost_row_stops_the_audit(shop: Shop, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    doubled = "reconciler.engines.connect_rows.filled"
    monkeypatch.setattr(doubled, lambda *args: [*filled(*args)[:-1], "explode(array(1, 2)) AS total"])
    table = shop.fresh(files=1)
    with pytest.raises(InvalidTable, match="8 rows in place of 4"):
        bench.start(table, table.evolve(table.wants(total=Computed(expression="id"))))


def test_what_connect_cannot_do_is_refused(shop: Shop, bench: Bench) -> None:
    table = shop.fresh("rest", version=3, files=1)
    operation = table.evolve(table.wants(total=DOUBLED))
    with pytest.raises(Unsupported, match="runtime local"):
        bench.start(table, operation)
