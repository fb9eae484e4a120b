"""Data operations over a real Spark Connect server behave as they do over the gateway: the same tests, another shop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from reconciler.engines.connect_site import ConnectSite
from reconciler.errors import InvalidTable, Unsupported
from tests.data import (
    test_backfill,
    test_concurrency,
    test_constraints,
    test_crashes,
    test_maintenance,
    test_required,
    test_restore,
    test_rewrites,
    test_type_changes,
    test_views,
    test_views_law,
)
from tests.data.connecting import ConnectShop, ConnectViewLake
from tests.data.kit import Killed, Shop, Writes

FILES, CANARY, converged = test_crashes.FILES, test_crashes.CANARY, test_crashes.converged
Behaviour = Callable[[ConnectShop], None]

SAME: dict[str, Behaviour] = {
    "fill v1": lambda shop: test_backfill.test_fills_every_row_in_one_commit_on_main(shop, "embedded", 1),
    "fill v2 over REST": lambda shop: test_backfill.test_fills_every_row_in_one_commit_on_main(shop, "rest", 2),
    "old specs and deletes": test_backfill.test_partitions_deletes_and_old_specs_are_kept,
    "a row that fails": test_backfill.test_a_row_the_expression_fails_on_is_told_and_main_has_nothing_of_it,
    "appends": lambda shop: test_concurrency.test_rows_appended_meanwhile_stay_and_a_fill_gives_them_their_values(
        shop, "rest"
    ),
    "a delete": lambda shop: test_concurrency.test_a_delete_meanwhile_is_never_undone(shop, "merge-on-read"),
    "ingest": test_concurrency.test_ingest_during_the_whole_job_loses_nothing,
    "a schema change": test_concurrency.test_a_schema_change_meanwhile_stops_it_and_the_next_run_goes_on,
    "layout": lambda shop: test_rewrites.test_existing_files_get_a_changed_layout(shop, "rest", 2),
    "one pass": test_rewrites.test_one_pass_lays_out_and_fills_and_the_next_plan_is_empty,
    "bloom filters": test_rewrites.test_bloom_filters_come_to_old_files_and_the_footers_say_so,
    "curve": test_rewrites.test_a_curve_goes_through_every_partition_by_itself,
    "distinct values": test_rewrites.test_distinct_values_are_counted_once_per_snapshot,
    "restore": lambda shop: test_restore.test_rows_come_back_in_a_new_commit_on_top_of_everybodys(shop, "embedded", 2),
    "compact": lambda shop: test_maintenance.test_small_files_are_written_together_once(shop, "rest", 2),
    "expire over REST": lambda shop: test_maintenance.test_expiry_keeps_what_somebody_needs_and_deletes_the_rest(
        shop, "rest"
    ),
    "manifests": lambda shop: test_maintenance.test_manifests_are_written_together_in_one_commit(shop, "after"),
    "orphans": test_maintenance.test_only_old_files_that_no_metadata_names_are_deleted,
    "type change": lambda shop: test_type_changes.test_a_text_becomes_a_number_and_the_text_stays_for_a_week(
        test_type_changes.texts(shop)
    ),
    "required": lambda shop: test_required.test_the_scan_reads_only_what_the_manifests_leave_open(
        test_required.in_doubt(shop)
    ),
    "audit of constraints": lambda shop: (
        test_constraints.test_the_audit_of_a_backfill_holds_what_it_writes_to_the_constraints(shop.fresh(files=2))
    ),
}

VIEWS: dict[str, Callable[[ConnectViewLake], None]] = {
    "one commit": test_views.test_rows_watermark_and_query_come_in_one_commit,
    "pinned": test_views.test_a_source_is_read_where_the_plan_saw_it,
    "rows of others": test_views.test_rows_that_somebody_wrote_into_the_view_go,
    "new column": test_views.test_a_partitioned_view_and_a_source_with_a_new_column,
    "computed": test_views.test_a_view_over_a_computed_column_follows_its_backfill,
    "view on view": test_views.test_a_view_on_a_view_follows_it,
    "a row that fails": test_views.test_a_row_that_the_query_fails_on_leaves_the_view_as_it_was,
}


@pytest.fixture
def connect_views(spark: SparkSession, lakes: dict[str, dict[str, str]], connect_url: str) -> ConnectViewLake:
    return ConnectViewLake(spark, "embedded", lakes["embedded"], connect_url)


@pytest.mark.parametrize("name", list(SAME))
def test_as_over_the_gateway(connect_shop: ConnectShop, name: str) -> None:
    SAME[name](connect_shop)


@pytest.mark.parametrize("name", list(VIEWS))
def test_views_as_over_the_gateway(connect_views: ConnectViewLake, name: str) -> None:
    test_views.with_facts(connect_views)
    VIEWS[name](connect_views)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_incremental_is_full(connect_views: ConnectViewLake, mode: str) -> None:
    test_views_law.with_sources(connect_views, mode)
    ways = test_views_law.ways_of(connect_views, ("groups", "projected"), ("insert", "update", "compact", "delete"))
    assert all("f" not in way for way in ways.values())


def test_a_killed_backfill_converges(connect_shop: ConnectShop) -> None:
    table, writes = connect_shop.fresh("rest", files=FILES), Writes()
    before = table.versions()
    table.run(CANARY, table.engine(writes))
    converged(table)
    assert table.versions() - before == writes.count, "a write went past the hook"
    assert writes.count == 2 + 3 * FILES  # branch, publish; a chunk's scratch branch, append and commit
    for number in (2, 3, 4, writes.count):
        table = connect_shop.fresh(files=FILES)
        with pytest.raises(Killed):
            table.run(CANARY, table.engine(Writes((number, "after"))))
        table.run(CANARY)
        converged(table)


def test_killed_at_every_write_a_refresh_converges(connect_views: ConnectViewLake) -> None:
    lake = connect_views
    test_views.with_facts(lake)
    writes = Writes()
    view = lake.view("sums", test_views.SUMS)
    lake.apply(view)
    table = lake.table("sums")
    for number in range(99):
        lake.sql(f"INSERT INTO @f VALUES ({100 + number}, 1, 1.5)")
        operations = test_views.pending(lake, view)
        if not number:
            before = table.versions()
            lake.run(view, operations, lake.engine(writes))
            assert table.versions() - before == writes.count == 5, "a write went past the hook"
        else:
            with pytest.raises(Killed):
                lake.run(view, operations, lake.engine(Writes((number, "after"))))
            lake.run(view, operations)
        assert test_views.fresh(lake)
        assert table.branches() == []
        on_main = set(table.ancestry())
        assert all(s["snapshot-id"] in on_main for s in table.snapshots() if "laketable.operation" in s["summary"])
        if number == writes.count:
            return


def test_neither_runtime_does_again_what_the_other_did(connect_shop: ConnectShop, shop: Shop) -> None:
    for first, second in ((connect_shop, shop), (shop, connect_shop)):
        table = first.fresh(files=FILES)
        with pytest.raises(Killed):
            table.run(CANARY, table.engine(Writes((4 if first is connect_shop else 2, "after"))))
        writes = Writes()
        other = second.make("embedded", table.ident)
        other.run(CANARY, other.engine(writes))
        assert writes.count == (2 if second is shop else 4)  # the other chunk, publish
        converged(table)


# of an append (3) that did not land, a kill before it leaves the same
@pytest.mark.parametrize(("number", "lands"), [(2, False), (3, True), (4, True), (2 + 3 * FILES, True)])
def test_a_lost_answer_is_looked_up_and_never_repeated(connect_shop: ConnectShop, number: int, lands: bool) -> None:
    table = connect_shop.fresh(files=FILES)
    table.run(CANARY, table.engine(test_concurrency.Forgetful(number, lands=lands)))
    converged(table)


def test_an_append_that_came_twice_counts_once(connect_shop: ConnectShop, monkeypatch: pytest.MonkeyPatch) -> None:
    write = ConnectSite.write

    def twice(site: ConnectSite, *args: Any) -> None:
        write(site, *args)
        write(site, *args)

    monkeypatch.setattr(ConnectSite, "write", twice)
    table = connect_shop.fresh(files=FILES)
    table.run(CANARY)
    converged(table)


def test_control_a_doubled_row_stops_the_audit(connect_shop: ConnectShop, monkeypatch: pytest.MonkeyPatch) -> None:
    write = ConnectSite.write
    monkeypatch.setattr(ConnectSite, "write", lambda site, frame, *args: write(site, frame.unionAll(frame), *args))
    table = connect_shop.fresh(files=1)
    head = table.ancestry()[0]
    with pytest.raises(InvalidTable, match="came out with 8"):
        table.run(CANARY)
    assert table.ancestry()[0] == head


def test_what_connect_cannot_do_is_refused_before_anything_is_written(connect_shop: ConnectShop) -> None:
    table = connect_shop.fresh("rest", version=3, files=1)
    operation = table.evolve(table.wants(total=test_backfill.DOUBLED))
    before = table.versions()
    with pytest.raises(Unsupported, match="row ids of a format v3 table"):
        table.start(operation)
    assert table.versions() == before
