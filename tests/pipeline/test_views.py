"""Materialized views, planned against a catalog in memory: types, sources, order, and why a refresh is a full one."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from reconciler.dialects import dialect_for
from reconciler.diff.changes import AlterColumnType, RenameColumn, SetProperty
from reconciler.model.bookkeeping import VIEW
from reconciler.model.desired import to_desired
from reconciler.model.observed_manifest import from_observed
from reconciler.model.table import Desired, View
from reconciler.model.types import Field, StructType
from reconciler.pipeline import Approval, Execution, Request, execute, propose_all
from reconciler.pipeline.views import in_order
from reconciler.plan.events import Event, Failed
from reconciler.plan.operations import OperationClass, OperationKind, Plan, Refresh
from reconciler.plan.planner import plan_offline
from reconciler.plan.view_memory import RememberedView, freshness, hash_fields, remembered_view, stale_since
from reconciler.plan.view_query import read_offline
from tests.pipeline.kit import BEST, DAILY, ORDERS, SUMS, Lake, codes, table, view, works

# ---------------------------------------------------------------- columns


def test_a_view_takes_its_columns_from_sources_of_the_same_run() -> None:
    made = Lake().plan(table(), view(), view("SELECT max(revenue) AS most FROM sales.daily", BEST))
    (column,) = made.operations[0].changes[0].spec.schema.fields  # type: ignore[union-attr]
    assert (column.name, column.type) == ("most", "decimal(20,2)")
    kinds = [OperationKind.COMMIT, OperationKind.REFRESH, OperationKind.VALIDATE, OperationKind.PUBLISH]
    assert [operation.kind for operation in made.operations] == kinds
    assert made.operation_class is OperationClass.REWRITE


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("SELECT a FROM sales.nothing", "LK304", "sales.nothing"),
        ("SELECT nothing FROM sales.orders", "LK306", "there is no column 'nothing'"),
        ("SELECT reflect('a', 'b') AS x FROM sales.orders", "LK306", "reflect() is not allowed"),
        ("SELECT make_timestamp(year(day), 1, 1, 0, 0, 0) AS parts FROM sales.orders", "LK307", "sales.daily.parts"),
    ],
)
def test_a_query_that_cannot_be_read_is_a_finding(query: str, code: str, words: str) -> None:
    lake = Lake()
    lake.create(table())
    made = lake.plan(view(query))
    assert codes(made) == [code]
    assert words in made.findings[0].message
    assert made.is_blocked
    assert made.operations == ()


def test_stated_columns_pin_types_but_must_be_those_of_the_query() -> None:
    lake = Lake()
    lake.create(table())
    query = "SELECT date_trunc('MONTH', day) AS month FROM sales.orders"
    pinned = StructType((Field(name="month", required=False, type="timestamptz"),))
    made = lake.plan(Desired(ident=DAILY, owner="test", columns=pinned, view=View(query=query)))
    assert codes(made) == []
    other = StructType((Field(name="year", required=False, type="timestamptz"),))
    made = lake.plan(Desired(ident=DAILY, owner="test", columns=other, view=View(query=query)))
    assert codes(made) == ["LK307"]
    assert "month, year" in made.findings[0].message


def test_views_that_read_each_other_are_refused() -> None:
    one = view("SELECT x FROM sales.best", DAILY)
    two = view("SELECT x FROM sales.daily", BEST)
    proposals = Lake().propose(one, two)
    assert [codes(p.plan) for p in proposals.values() if p.plan] == [["LK305"], ["LK305"]]


def test_order_is_by_what_is_read() -> None:
    best = view("SELECT max(revenue) AS most FROM sales.daily", BEST)
    proposals = list(Lake().propose(best, view(), table()).values())
    assert [p.table for p in in_order(proposals)] == [ORDERS, DAILY, BEST]


# ---------------------------------------------------------------- freshness


def test_a_view_whose_sources_stand_still_is_fresh_and_its_query_is_not_even_read(lake: Lake) -> None:
    proposal = lake.propose(view())[DAILY]
    assert proposal.plan is not None
    assert proposal.plan.is_empty
    assert works(proposal.plan) == []
    assert proposal.request is not None
    assert proposal.request.view is not None
    assert proposal.request.view.query is None


def test_moved_sources_are_upkeep_and_neither_drift_nor_in_the_hash(lake: Lake) -> None:
    lake.append()
    made = lake.plan(view())
    assert made.is_empty
    (operation,) = [o for o in made.upkeep if isinstance(o.work, Refresh)]
    assert operation.summary.startswith("refresh incrementally: merge 1 new file of sales.orders")
    assert operation.cost.files_read == 2  # the new file, and the view's own
    current = lake.catalog.get_table_spec(DAILY)
    sources = {ORDERS: lake.catalog.get_table_spec(ORDERS)}
    moved_at = stale_since(current, sources)
    assert moved_at == sources[ORDERS].snapshot_log[-1][0]
    limited = View(query=SUMS, max_staleness_ms=60_000)
    assert freshness(limited, current, sources, now_ms=moved_at + 60_000).startswith("stale since 1970-01-01")
    assert freshness(limited, current, sources, now_ms=moved_at + 60_001).endswith("longer than maxStaleness allows")
    assert operation.summary.endswith("Z)")


def test_a_changed_query_is_a_rebuild_that_waits_for_approval(lake: Lake) -> None:
    made = lake.plan(view(SUMS.replace("count(*)", "count(note)")))
    assert made.operations[0].kind is OperationKind.REFRESH
    assert "its query changed" in made.operations[0].summary
    spelled = lake.plan(view(SUMS.replace("sum(amount)", "SUM( amount )")))
    assert spelled.is_empty


def test_the_hash_stands_while_sources_move() -> None:
    lake = Lake()
    lake.create(table(), view())
    lake.append()
    before = lake.plan(view())
    lake.append()
    after = lake.plan(view())
    assert before.hash == after.hash
    assert before.operations[0].id != after.operations[0].id


class Later:
    """A runtime whose jobs have not begun when the program ends."""

    def run(self, _: Plan) -> Iterator[Event]:
        return iter(())


def test_a_first_fill_was_released_with_its_table_wherever_its_sources_are_by_then() -> None:
    lake = Lake()
    lake.create(table())
    lake.append()
    (proposal,) = propose_all([Request(view(), lake.catalog, "lake")], Approval(auto=True), now_ms=1)
    doing = Execution(executor=lambda _, request: request.catalog, actor="ci", now_ms=1, data=lambda _: Later())
    assert not [event for event in execute(proposal, doing) if isinstance(event, Failed)]
    lake.append()
    assert proposal.plan is not None
    left = lake.plan(view())
    assert left.operations[0].id != proposal.plan.operations[1].id
    assert all(operation.resumes for operation in left.operations)
    # Another query was not released, nor was the first one after it: that is a refresh of another round.
    other = SUMS.replace("count(*)", "count(note)")
    assert not any(operation.resumes for operation in lake.plan(view(other)).operations)
    lake.refreshed(view())
    lake.refreshed(view(other))
    back = lake.plan(view()).operations
    assert back
    assert not any(operation.resumes for operation in back)


@pytest.mark.parametrize(
    ("query", "mode", "reason"),
    [
        (SUMS, "Auto", ""),
        (SUMS, "Full", "its manifest says so"),
        ("SELECT day, avg(amount) AS a FROM sales.orders GROUP BY day", "Incremental", "an average does not merge"),
        ("SELECT DISTINCT day FROM sales.orders", "Auto", "it has DISTINCT"),
        ("SELECT a.day FROM sales.orders AS a JOIN sales.orders AS b ON a.day = b.day", "Auto", "with itself"),
    ],
)
def test_the_plan_says_why_a_refresh_is_full(query: str, mode: str, reason: str) -> None:
    lake = Lake()
    columns = StructType(
        (Field(name="day", required=False, type="date"), Field(name="a", required=False, type="decimal(14,6)"))
    )
    wanted = view(query, mode=mode)
    if "avg" in query:
        wanted = Desired(ident=DAILY, owner="test", columns=columns, view=View(query=query, mode=mode))
    lake.create(table(), wanted)
    for _ in range(4):
        lake.append()
    lake.refreshed(wanted)
    lake.append()
    (refresh,) = works(lake.plan(wanted))
    assert reason in refresh.reason
    assert (refresh.delta is None) == bool(reason)


def test_most_of_a_source_is_not_worth_merging(lake: Lake) -> None:
    lake.append(rows=50)
    (refresh,) = works(lake.plan(view()))
    assert refresh.reason == "most of sales.orders changed"
    (refresh,) = works(lake.plan(view(mode="Incremental")))
    assert refresh.delta == ORDERS


def test_a_source_made_anew_is_read_whole(lake: Lake) -> None:
    live = lake.catalog.get_table_spec(ORDERS)
    lake.catalog.drop_table(ORDERS, live.version.uuid)
    assert codes(lake.plan(view())) == ["LK304"]
    lake.create(table())
    lake.append()
    (refresh,) = works(lake.plan(view()))
    assert "made anew" in refresh.reason


def with_net() -> Lake:
    lake = Lake()
    lake.create(table(ORDERS, day="date", amount="decimal(10,2)", net="decimal(10,2)", note="string"), view())
    for _ in range(4):
        lake.append()
    lake.refreshed(view())
    return lake


def rename(lake: Lake, column: str, to: str) -> None:
    live = lake.catalog.get_table_spec(ORDERS)
    (field,) = [one for one in live.spec.schema.fields if one.name == column]
    lake.catalog.apply(ORDERS, live.version, [RenameColumn(path=(column,), field_id=field.id, to=to)])


def remember(lake: Lake, memory: RememberedView) -> None:
    live = lake.catalog.get_table_spec(DAILY)
    after = msgspec.json.encode(memory).decode()
    change = SetProperty(key=VIEW, before=live.bookkeeping[VIEW], after=after)
    lake.catalog.apply(DAILY, live.version, [change])


def remembered(lake: Lake) -> RememberedView:
    memory = remembered_view(lake.catalog.get_table_spec(DAILY).bookkeeping)
    assert memory is not None
    return memory


@pytest.mark.parametrize("is_appended", [False, True])
def test_another_column_under_a_name_that_is_read_is_read_whole(is_appended: bool) -> None:
    lake = with_net()
    rename(lake, "amount", "gross")
    rename(lake, "net", "amount")
    if is_appended:
        lake.append()
    (refresh,) = works(lake.plan(view()))
    assert (refresh.delta, refresh.reason) == (
        None,
        "what it reads of sales.orders is another column or of another type by now",
    )
    sources = {ORDERS: lake.catalog.get_table_spec(ORDERS)}
    told = freshness(View(query=SUMS), lake.catalog.get_table_spec(DAILY), sources, now_ms=1)
    assert told.startswith("stale since") if is_appended else told == "stale"


def test_a_refresh_of_other_columns_is_other_work() -> None:
    lake = with_net()
    lake.append()
    (before,) = [o.id for o in lake.plan(view()).upkeep if isinstance(o.work, Refresh)]
    rename(lake, "amount", "gross")
    rename(lake, "net", "amount")
    (after,) = [o.id for o in lake.plan(view()).upkeep if isinstance(o.work, Refresh)]
    assert before != after


def test_another_type_of_a_column_that_is_read_is_read_whole() -> None:
    lake, wanted = Lake(), view("SELECT day, sum(n) AS n FROM sales.orders GROUP BY day")
    lake.create(table(ORDERS, day="date", n="int", note="string"), wanted)
    for _ in range(4):
        lake.append()
    lake.refreshed(wanted)
    live = lake.catalog.get_table_spec(ORDERS)
    (field,) = [one for one in live.spec.schema.fields if one.name == "n"]
    change = AlterColumnType(path=("n",), field_id=field.id, before="int", after="long")
    lake.catalog.apply(ORDERS, live.version, [change])
    lake.append()
    (refresh,) = works(lake.plan(wanted))
    assert "of another type by now" in refresh.reason


def test_a_column_that_is_not_read_may_become_another(lake: Lake) -> None:
    rename(lake, "note", "remark")
    assert works(lake.plan(view())) == []
    lake.append()
    (refresh,) = works(lake.plan(view()))
    assert refresh.delta == ORDERS


def test_a_memory_without_fields_goes_by_the_schema_id(lake: Lake) -> None:
    memory = remembered(lake)
    (source,) = memory.sources
    assert source.fields
    remember(lake, msgspec.structs.replace(memory, sources=(msgspec.structs.replace(source, fields=""),)))
    assert works(lake.plan(view())) == []
    rename(lake, "note", "remark")
    (refresh,) = works(lake.plan(view()))
    assert "does not remember what it read of it" in refresh.reason
    lake.refreshed(view())
    assert works(lake.plan(view())) == []


def test_a_nested_column_counts_and_its_neighbours_do_not() -> None:
    def schema(a: int, b: int) -> StructType:
        inner = (Field(id=a, name="a", required=False, type="int"), Field(id=b, name="b", required=False, type="int"))
        return StructType((Field(id=1, name="s", required=False, type=StructType(inner)),))

    assert hash_fields(schema(2, 3), [("s", "a")]) == hash_fields(schema(2, 4), [("s", "a")])
    assert hash_fields(schema(2, 3), [("s", "a")]) != hash_fields(schema(3, 2), [("s", "a")])
    assert hash_fields(schema(2, 3), [("s",)]) != hash_fields(schema(2, 4), [("s",)])


def test_a_damaged_memory_computes_all_again(lake: Lake) -> None:
    live = lake.catalog.get_table_spec(DAILY)
    change = SetProperty(key=VIEW, before=live.bookkeeping[VIEW], after="{")
    lake.catalog.apply(DAILY, live.version, [change])
    assert remembered_view(lake.catalog.get_table_spec(DAILY).bookkeeping) is None
    (refresh,) = works(lake.plan(view()))
    assert refresh.delta is None


def test_an_imported_view_plans_nothing(lake: Lake) -> None:
    manifest = from_observed(lake.catalog.get_table_spec(DAILY), "daily", "sales", None)
    assert manifest.spec.materialized_view is not None
    made = lake.plan(to_desired(manifest))
    assert made.operations == ()
    assert works(made) == []


# ---------------------------------------------------------------- offline


def test_offline_a_view_has_the_columns_of_the_manifests_beside_it() -> None:
    best = view("SELECT max(revenue) AS most FROM sales.daily", BEST)
    read = read_offline([best, view(), table()])
    assert [(f.name, f.type) for f in read[BEST].columns.fields] == [("most", "decimal(20,2)")]
    alone = read_offline([best])[BEST]
    assert alone.columns.fields == ()
    circle = read_offline([view("SELECT x FROM sales.best"), view("SELECT x FROM sales.daily", BEST)])
    assert circle[BEST].columns.fields == ()


def test_offline_a_changed_query_is_a_refresh_and_an_unchanged_one_is_none() -> None:
    before, after = view(), view(SUMS.replace("count(*)", "count(note)"))
    (one,), (other,) = ([read_offline([table(), v])[DAILY]] for v in (before, after))
    dialect = dialect_for(one.format)
    assert works(plan_offline(one, one, dialect=dialect, now_ms=1)) == []
    assert len(works(plan_offline(one, other, dialect=dialect, now_ms=1))) == 1
    (first,) = works(plan_offline(None, one, dialect=dialect, now_ms=1))
    assert first.reason == "these are its first rows"
