"""Materialized views on a real Iceberg: what readers see, what is pinned, and what a kill leaves."""

from __future__ import annotations

import time
from collections import Counter

import msgspec
import pytest
from pyspark.sql import SparkSession

from reconciler.errors import CommitConflict
from reconciler.model.table import Computed, Desired
from reconciler.model.types import Field, FieldPath, StructType
from reconciler.plan.data import data_operations
from reconciler.plan.events import Published
from reconciler.plan.operations import Operation, Refresh
from reconciler.plan.view_memory import remembered_view
from reconciler.plan.views import refresh_plan
from tests.data.kit import Killed, Writes
from tests.data.views import ViewLake

SUMS = "SELECT k, sum(v) AS total, count(*) AS rows FROM @f GROUP BY k"


@pytest.fixture(params=["embedded", "rest"])
def lake(request: pytest.FixtureRequest, spark: SparkSession, lakes: dict[str, dict[str, str]]) -> ViewLake:
    """Facts with rows."""
    return with_facts(ViewLake(spark, request.param, lakes[request.param]))


@pytest.fixture
def embedded(spark: SparkSession, lakes: dict[str, dict[str, str]]) -> ViewLake:
    """Facts with rows, in the embedded catalog."""
    return with_facts(ViewLake(spark, "embedded", lakes["embedded"]))


def with_facts(made: ViewLake) -> ViewLake:
    """Make a source with rows."""
    made.source("f", "id bigint, k int, v decimal(10,2)")
    made.sql("INSERT INTO @f SELECT id, id % 3, id / 2 FROM range(12)")
    return made


def fresh(lake: ViewLake, name: str = "sums", query: str = SUMS) -> bool:
    return lake.rows(name) == lake.result(query)


def pending(lake: ViewLake, view: Desired) -> tuple[Operation, ...]:
    """Return the operations that a refresh needs."""
    made = lake.plan(view)
    refreshing = refresh_plan(view, lake.catalog.get_table_spec(view.ident), made)
    return data_operations(refreshing or made)


def test_rows_watermark_and_query_come_in_one_commit(lake: ViewLake) -> None:
    view = lake.view("sums", SUMS)
    lake.apply(view)
    assert fresh(lake)
    live = lake.observe("sums")
    assert list(live.spec.refs) == []
    memory = remembered_view(live.bookkeeping)
    assert memory is not None
    (source,) = memory.sources
    facts = lake.observe("f").version
    assert (source.uuid, source.snapshot_id) == (facts.uuid, facts.snapshot_id)
    assert source.columns == (("k",), ("v",))
    assert [str(edge.table.name) for edge in memory.edges["total"]] == ["f"]
    plan = lake.plan(view)
    assert plan.operations == ()
    assert plan.upkeep == ()


def test_readers_never_see_an_empty_view(embedded: ViewLake) -> None:
    """Between any two writes of a full refresh the view holds the rows of before, whole."""
    lake, view = embedded, embedded.view("sums", SUMS, "Full")
    lake.apply(view)
    before = lake.rows("sums")
    lake.sql("INSERT INTO @f VALUES (99, 1, 1.5)")
    operations = pending(lake, view)
    # each run goes on where the one before was killed: at the branch, at the rows, at the publish
    for point in ((1, "before"), (1, "after"), (1, "after"), (1, "before")):
        with pytest.raises(Killed):
            lake.run(view, operations, lake.engine(Writes(point)))
        assert lake.rows("sums") == before
    lake.run(view, operations)
    assert fresh(lake)


def test_a_killed_first_refresh_goes_on_and_leaves_no_branch(lake: ViewLake) -> None:
    for number, when in ((1, "after"), (2, "after"), (3, "before"), (3, "after")):
        view = lake.view(f"sums{number}{when}", SUMS)
        made = lake.plan(view)
        (create,) = [o for o in made.operations if o.changes]
        lake.catalog.apply(view.ident, None, create.changes)
        operations = data_operations(lake.plan(view))
        with pytest.raises(Killed):
            lake.run(view, operations, lake.engine(Writes((number, when))))
        lake.run(view, operations)
        assert fresh(lake, view.ident.name)
        assert list(lake.observe(view.ident.name).spec.refs) == []
        on_main = [s for s in lake.sql(f"SELECT summary['laketable.chunk'] FROM @{view.ident.name}.snapshots") if s[0]]
        assert len(on_main) == 1


def test_a_killed_incremental_refresh_counts_nothing_twice(embedded: ViewLake) -> None:
    lake, view = embedded, embedded.view("all", "SELECT id, v FROM @f", "Incremental")
    lake.apply(view)
    lake.sql("INSERT INTO @f VALUES (99, 1, 1.5)")
    operations = pending(lake, view)
    for number, when in ((1, "after"), (2, "after")):
        with pytest.raises(Killed):
            lake.run(view, operations, lake.engine(Writes((number, when))))
    lake.run(view, operations)
    assert fresh(lake, "all", "SELECT id, v FROM @f")


def test_a_source_that_moved_after_a_crash_leaves_no_branch(embedded: ViewLake) -> None:
    lake, view = embedded, embedded.view("sums", SUMS)
    lake.apply(view)
    lake.sql("INSERT INTO @f VALUES (99, 1, 1.5)")
    with pytest.raises(Killed):
        lake.run(view, pending(lake, view), lake.engine(Writes((2, "after"))))
    lake.sql("INSERT INTO @f VALUES (100, 2, 2.5)")
    lake.refresh(view)
    assert fresh(lake)
    assert list(lake.observe("sums").spec.refs) == []


def test_a_source_is_read_where_the_plan_saw_it(embedded: ViewLake) -> None:
    lake, view = embedded, embedded.view("sums", SUMS)
    lake.apply(view)
    lake.sql("INSERT INTO @f VALUES (99, 1, 1.5)")
    wanted = lake.result(SUMS)
    (operation,) = [o for o in pending(lake, view) if isinstance(o.work, Refresh)]
    lake.sql("INSERT INTO @f VALUES (100, 2, 2.5)")
    staged = lake.stage(view, operation)
    staged.commit()
    assert lake.rows("sums") == wanted
    assert lake.refresh(view) is not None
    assert fresh(lake)


def test_rows_that_somebody_wrote_into_the_view_go(embedded: ViewLake) -> None:
    lake, view = embedded, embedded.view("sums", SUMS)
    lake.apply(view)
    lake.sql("INSERT INTO @sums VALUES (7, 7.00, 7)")
    work = lake.refresh(view)
    assert work is not None
    assert work.reason == "somebody else wrote into it"
    assert fresh(lake)


def test_rows_that_somebody_wrote_into_the_view_go_after_a_compaction_too(embedded: ViewLake) -> None:
    lake, view = embedded, embedded.view("sums", SUMS)
    lake.apply(view)
    lake.sql("INSERT INTO @sums VALUES (7, 7.00, 7)")
    compact(lake, "sums")
    compact(lake, "sums")
    work = lake.refresh(view)
    assert work is not None
    assert work.reason == "somebody else wrote into it"
    assert fresh(lake)
    assert lake.refresh(view) is None


def compact(lake: ViewLake, name: str) -> None:
    table = f"{lake.namespace}.{name}"
    lake.spark.sql(
        f"CALL {lake.lake}.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))"
    )


def test_a_compacted_view_is_still_merged_into(embedded: ViewLake) -> None:
    lake, view = embedded, embedded.view("sums", SUMS, "Incremental")
    lake.apply(view)
    compact(lake, "sums")
    assert lake.refresh(view) is None
    lake.sql("INSERT INTO @f VALUES (99, 1, 1.5)")
    work = lake.refresh(view)
    assert work is not None
    assert work.delta is not None
    assert fresh(lake)


@pytest.mark.parametrize(
    ("change", "has_reason"),
    [
        pytest.param(["RENAME COLUMN v TO old", "RENAME COLUMN w TO v"], True, id="swapped"),
        pytest.param(["DROP COLUMN v", "ADD COLUMN v decimal(10,2)"], True, id="made anew"),
        pytest.param(["RENAME COLUMN w TO x"], False, id="not read"),
    ],
)
@pytest.mark.parametrize("is_appended", [False, True])
def test_a_column_that_is_another_by_now_is_read_whole(
    embedded: ViewLake, change: list[str], has_reason: bool, is_appended: bool
) -> None:
    lake = embedded
    lake.sql("ALTER TABLE @f ADD COLUMN w decimal(10,2)")
    lake.sql("INSERT INTO @f VALUES (50, 1, 1.5, 1000)")
    view = lake.view("sums", SUMS, "Incremental")
    lake.apply(view)
    for text in change:
        lake.sql(f"ALTER TABLE @f {text}")
    if is_appended:
        lake.sql("INSERT INTO @f VALUES (99, 1, 1.5, 2.5)")
    work = lake.refresh(view)
    assert fresh(lake)
    assert (work is not None) == (has_reason or is_appended)
    assert work is None or ("another column" in work.reason) == has_reason
    assert lake.refresh(view) is None


def test_a_replaced_source_with_another_type_is_read_whole(embedded: ViewLake) -> None:
    lake, query = embedded, "SELECT id, CAST(v AS bigint) AS v FROM @r"
    lake.source("r", "id bigint, v string")
    lake.sql("INSERT INTO @r SELECT id, string(id) FROM range(10)")
    view = lake.view("cast", query, "Incremental")
    lake.apply(view)
    lake.sql("CREATE OR REPLACE TABLE @r USING iceberg AS SELECT id, id * 2 AS v FROM range(10)")
    work = lake.refresh(view)
    assert work is not None
    assert "of another type" in work.reason
    assert fresh(lake, "cast", query)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_that_cannot_be_compared_are_read_whole_after_a_delete(embedded: ViewLake, mode: str) -> None:
    lake, query = embedded, "SELECT id, m['a'] AS a FROM @m"
    lake.source("m", "id bigint, m map<string, int>", mode=mode)
    lake.sql("INSERT INTO @m SELECT /*+ COALESCE(1) */ id, map('a', int(id)) FROM range(10)")
    view = lake.view("taken", query, "Incremental")
    lake.apply(view)
    lake.sql("INSERT INTO @m VALUES (20, map('a', 1))")
    lake.sql("DELETE FROM @m WHERE id = 3")
    work = lake.refresh(view)
    assert work is not None
    assert work.reason.endswith(".m.m cannot be compared exactly")
    assert fresh(lake, "taken", query)
    lake.sql("DELETE FROM @m WHERE id = 4")  # merge-on-read: a second one of the same file
    assert lake.refresh(view) is not None
    assert fresh(lake, "taken", query)


def test_another_delete_of_the_same_file_is_planned_as_what_it_is(embedded: ViewLake) -> None:
    lake = embedded
    lake.source("m", "k int, v bigint", mode="merge-on-read")
    lake.sql("INSERT INTO @m SELECT /*+ COALESCE(1) */ int(id % 3), id FROM range(10)")
    lake.sql("DELETE FROM @m WHERE v = 3")
    groups = lake.view("groups", "SELECT k, sum(v) AS total FROM @m GROUP BY k", "Incremental")
    grand = lake.view("grand", "SELECT sum(v) AS total FROM @m", "Incremental")
    lake.apply(groups, grand)
    lake.sql("DELETE FROM @m WHERE v = 4")
    (recomputed,), (full,) = lake.plan(groups).upkeep, lake.plan(grand).upkeep
    assert "recompute the groups that 2 changed files" in recomputed.summary
    assert "refresh in full, because rows of" in full.summary
    assert full.cost.bytes_read > 0


ZEROS = {
    "rows": "SELECT id, d, cast(d AS string) AS s FROM @z",
    "groups": "SELECT id, max(cast(d AS string)) AS most, count(*) AS n FROM @z GROUP BY id",
}


def test_a_negative_zero_that_came_or_went_is_seen(embedded: ViewLake) -> None:
    lake = embedded
    lake.source("z", "id bigint, d double")
    lake.sql("INSERT INTO @z SELECT /*+ COALESCE(1) */ id, if(id = 5, double('-0.0'), id) FROM range(10)")
    views = {name: lake.view(name, query, "Incremental") for name, query in ZEROS.items()}
    lake.apply(*views.values())
    ways = []
    for change in (
        "INSERT INTO @z VALUES (20, double('-0.0'))",
        "UPDATE @z SET d = 0.0 WHERE id = 20",
        "DELETE FROM @z WHERE id = 20",
    ):
        lake.sql(change)
        for name, view in views.items():
            work = lake.refresh(view)
            assert work is not None
            ways.append(work.reason.rpartition(" and ")[2])
            assert printed(lake.rows(name)) == printed(lake.result(ZEROS[name]))
    full = f"{lake.namespace}.z.d cannot be compared exactly"
    assert ways == ["", "", full, "", full, ""]


def printed(rows: Counter[tuple[object, ...]]) -> Counter[str]:
    """Tell -0.0 and 0.0 apart."""
    return Counter(map(repr, rows.elements()))


def test_an_expired_watermark_is_a_full_refresh_with_its_reason(embedded: ViewLake) -> None:
    lake, view = embedded, embedded.view("sums", SUMS)
    lake.apply(view)
    lake.sql("INSERT INTO @f VALUES (99, 1, 1.5)")
    name = f"{lake.namespace}.f"
    now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() + 60))
    lake.spark.sql(
        f"CALL {lake.lake}.system.expire_snapshots("
        f"table => '{name}', older_than => TIMESTAMP '{now}', retain_last => 1)"
    )
    work = lake.refresh(view)
    assert work is not None
    assert "has expired" in work.reason
    assert fresh(lake)


def test_a_changed_query_rebuilds_and_an_empty_result_is_a_result(embedded: ViewLake) -> None:
    lake = embedded
    lake.apply(lake.view("sums", SUMS))
    none = SUMS.replace("FROM @f", "FROM @f WHERE id < 0")
    lake.apply(lake.view("sums", none))
    assert lake.rows("sums") == lake.result(none)
    assert not lake.rows("sums")
    more = "SELECT k, sum(v) AS total, count(*) AS rows, max(id) AS last FROM @f GROUP BY k"
    lake.apply(lake.view("sums", more))
    assert fresh(lake, query=more)


def test_a_partitioned_view_and_a_source_with_a_new_column(embedded: ViewLake) -> None:
    from reconciler.model.table import DesiredPartitionField

    lake = embedded
    partitioned = (DesiredPartitionField(path=("k",), transform="identity"),)
    lake.apply(lake.view("sums", SUMS, partitioning=partitioned))
    assert fresh(lake)
    # no row was written since: the snapshot knows nothing of the column
    lake.sql("ALTER TABLE @f ADD COLUMN w int")
    more = "SELECT k, sum(v) AS total, count(*) AS rows, max(w) AS widest FROM @f GROUP BY k"
    lake.apply(lake.view("sums", more, partitioning=partitioned))
    assert fresh(lake, query=more)


def test_a_view_over_a_computed_column_follows_its_backfill(embedded: ViewLake) -> None:
    lake = embedded
    query = "SELECT k, sum(twice) AS total FROM @f GROUP BY k"
    columns = {"id": "long", "k": "int", "v": "decimal(10,2)", "twice": "decimal(12,2)"}
    fields = tuple(Field(name=name, required=False, type=type_) for name, type_ in columns.items())

    def facts(expression: str) -> Desired:
        computed: dict[FieldPath, Computed] = {("twice",): Computed(expression=expression)}
        return Desired(ident=lake.ident("f"), owner="test", columns=StructType(fields), computed=computed)

    view = lake.view("sums", query)
    for expression in ("v * 2", "v * 3", "v * 2"):
        events = lake.apply(facts(expression), view, upkeep=True)
        assert len([e for e in events if isinstance(e, Published)]) == 2
        assert fresh(lake, query=query)
    assert lake.plan(view).upkeep == ()


def test_a_view_on_a_view_follows_it(embedded: ViewLake) -> None:
    lake = embedded
    sums, most = lake.view("sums", SUMS), lake.view("most", "SELECT max(total) AS most FROM @sums")
    lake.apply(most, sums)
    lake.sql("INSERT INTO @f VALUES (99, 1, 1000)")
    lake.apply(most, sums, upkeep=True)
    assert lake.rows("most") == lake.result("SELECT max(total) AS most FROM @sums")


def test_a_refresh_that_a_newer_one_has_overtaken_gives_way(embedded: ViewLake) -> None:
    lake, view = embedded, embedded.view("sums", SUMS)
    lake.apply(view)
    lake.sql("INSERT INTO @f VALUES (99, 1, 1.5)")
    (slow,) = pending(lake, view)
    staged = lake.stage(view, slow)
    lake.sql("INSERT INTO @f VALUES (100, 2, 2.5)")
    lake.refresh(view)
    with pytest.raises(CommitConflict):
        staged.commit()
    assert fresh(lake)


def test_a_row_that_the_query_fails_on_leaves_the_view_as_it_was(embedded: ViewLake) -> None:
    lake, query = embedded, "SELECT id, CAST(100 / (id - 99) AS double) AS x FROM @f"
    view = lake.view("odd", query)
    lake.apply(view)
    before = lake.rows("odd")
    lake.sql("INSERT INTO @f VALUES (99, 1, 1.5)")
    told = lake.run_anyway(view, pending(lake, view))
    assert "fails on a row" in told[-1].message  # type: ignore[union-attr]
    assert lake.rows("odd") == before


def test_control_two_runs_of_one_chunk_are_noticed(embedded: ViewLake) -> None:
    lake, view = embedded, embedded.view("all", "SELECT id, v FROM @f", "Incremental")
    lake.apply(view)
    lake.sql("INSERT INTO @f VALUES (99, 1, 1.5)")
    lake.refresh(view)
    lake.sql("INSERT INTO @all SELECT * FROM @all WHERE id = 99")
    assert not fresh(lake, "all", "SELECT id, v FROM @f")


def test_the_hash_of_what_was_approved_is_that_of_what_runs(embedded: ViewLake) -> None:
    lake, view = embedded, embedded.view("sums", SUMS)
    before = lake.plan(view)
    lake.sql("INSERT INTO @f VALUES (99, 1, 1.5)")
    after = lake.plan(view)
    assert before.hash == after.hash
    assert msgspec.structs.asdict(before)["operations"][1].id != after.operations[1].id
