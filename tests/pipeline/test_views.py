"""Materialized views, planned against a catalog in memory: types, sources, order, and why a refresh is a full one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa
import pytest

from reconciler.catalogs.memory import MemoryCatalog
from reconciler.dialects import dialect_for
from reconciler.diff.changes import SetProperty
from reconciler.model.bookkeeping import VIEW
from reconciler.model.desired import to_desired
from reconciler.model.observed_manifest import from_observed
from reconciler.model.table import Computed, Desired, Suppression, TableIdent, TypeChange, UnmanagedColumns, View
from reconciler.model.types import Field, StructType
from reconciler.pipeline import Approval, Execution, Proposal, Request, execute, propose_all
from reconciler.pipeline.views import in_order
from reconciler.plan.events import Event, Failed
from reconciler.plan.operations import Operation, OperationClass, OperationKind, Plan, Refresh
from reconciler.plan.planner import plan_offline
from reconciler.plan.view_memory import freshness, remembered_view, stale_since, view_properties
from reconciler.plan.view_query import read_offline

ORDERS, DAILY, BEST = (TableIdent(("sales",), name) for name in ("orders", "daily", "best"))
SUMS = "SELECT day, sum(amount) AS revenue, count(*) AS orders FROM sales.orders GROUP BY day"
_batches = itertools.count()


def table(ident: TableIdent = ORDERS, **columns: str) -> Desired:
    given = columns or {"day": "date", "amount": "decimal(10,2)", "note": "string"}
    fields = tuple(Field(name=name, required=False, type=type_) for name, type_ in given.items())
    return Desired(ident=ident, owner="test", columns=StructType(fields))


def view(query: str = SUMS, ident: TableIdent = DAILY, mode: str = "Auto", **more: object) -> Desired:
    columns = StructType(())
    return Desired(ident=ident, owner="test", columns=columns, view=View(query=query, mode=mode), **more)  # type: ignore[arg-type]


class Lake:
    """A catalog whose tables are made and filled without an engine."""

    def __init__(self) -> None:
        self.catalog = MemoryCatalog()

    def propose(self, *wanted: Desired) -> dict[TableIdent, Proposal]:
        requests = [Request(one, self.catalog, "lake") for one in wanted]
        return {p.table: p for p in propose_all(requests, Approval(auto=True), now_ms=1)}

    def plan(self, *wanted: Desired) -> Plan:
        """Plan them together; returns the last one's plan."""
        made = self.propose(*wanted)[wanted[-1].ident].plan
        assert made is not None
        return made

    def create(self, *wanted: Desired) -> None:
        for one in wanted:
            made = self.plan(*wanted[: wanted.index(one) + 1])
            assert not made.is_blocked, made.findings
            changes = tuple(c for o in made.operations if o.kind is OperationKind.COMMIT for c in o.changes)
            self.catalog.apply(one.ident, made.base, changes)

    def append(self, ident: TableIdent = ORDERS, rows: int = 1) -> None:
        schema = self.catalog.get_table_spec(ident).spec.schema
        name = schema.fields[-1].name
        batch = pa.RecordBatch.from_pydict({name: [None] * rows}, schema=pa.schema([(name, pa.string())]))
        receipt = self.catalog.write_batch(ident, batch, f"batch-{next(_batches)}")
        self.catalog.commit(ident, [receipt])

    def refreshed(self, wanted: Desired) -> None:
        """Publish a refresh as the engine would: rows, and the memory with them."""
        (refresh,) = works(self.plan(wanted))
        self.append(wanted.ident)
        live = self.catalog.get_table_spec(wanted.ident)
        for key, value in view_properties(refresh).items():
            change = SetProperty(key=key, before=live.bookkeeping.get(key), after=value)
            self.catalog.apply(wanted.ident, live.version, [change])


@pytest.fixture
def lake() -> Lake:
    """Orders with rows, and a view whose rows are theirs."""
    made = Lake()
    made.create(table(), view())
    for _ in range(4):
        made.append()
    made.refreshed(view())
    return made


def works(made: Plan) -> list[Refresh]:
    operations: tuple[Operation, ...] = (*made.operations, *made.upkeep)
    return [o.work for o in operations if isinstance(o.work, Refresh)]


def codes(made: Plan) -> list[str]:
    return [found.code for found in made.findings]


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


# ---------------------------------------------------------------- impact


@pytest.mark.parametrize(
    ("columns", "renames", "what"),
    [
        ({"day": "date", "note": "string"}, {}, "dropping it"),
        ({"day": "date", "paid": "decimal(10,2)", "note": "string"}, {("paid",): "amount"}, "renaming it to paid"),
    ],
)
def test_a_column_that_a_live_view_reads_is_not_dropped_by_the_way(
    lake: Lake, columns: dict[str, str], renames: dict[tuple[str, ...], str], what: str
) -> None:
    wanted = Desired(ident=ORDERS, owner="test", columns=table(ORDERS, **columns).columns, column_renames=renames)
    wanted = Desired(**{**_parts(wanted), "unmanaged_columns": UnmanagedColumns.DROP})  # type: ignore[arg-type]
    made = lake.plan(wanted)
    (found,) = [f for f in made.findings if f.code == "LK301"]
    assert found.message.startswith("Materialized view sales.daily reads amount: ")
    assert what in found.message
    assert made.is_blocked
    accepted = Suppression(code="LK301", reason="the view goes next week")
    made = lake.plan(Desired(**{**_parts(wanted), "suppressions": (accepted,)}))  # type: ignore[arg-type]
    assert not made.is_blocked
    # the same run changes the view
    made = lake.propose(wanted, view("SELECT day, count(*) AS n FROM sales.orders GROUP BY day"))[ORDERS].plan  # type: ignore[assignment]
    assert "LK301" not in codes(made)


def test_a_column_that_no_view_reads_may_go(lake: Lake) -> None:
    assert "LK301" not in codes(lake.plan(table(ORDERS, day="date", amount="decimal(10,2)")))


def test_a_wider_type_is_told_and_not_refused(lake: Lake) -> None:
    made = lake.plan(table(ORDERS, day="date", amount="decimal(12,2)", note="string"))
    assert [f.message for f in made.findings if f.code == "LK303"] == [
        "Materialized view sales.daily reads amount, which becomes decimal(12,2)."
    ]
    assert not made.is_blocked


def test_the_catalog_is_looked_through_only_for_a_plan_that_may_concern_a_view(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = {**_parts(table(ORDERS, day="date", amount="decimal(10,2)", note="string", shout="string"))}
    wanted = Desired(**{**computed, "computed": {("shout",): Computed(expression="upper(note)")}})  # type: ignore[arg-type]
    asked: list[object] = []
    every = lake.catalog.list_tables

    def list_tables() -> tuple[TableIdent, ...]:
        asked.append(None)
        return every()

    monkeypatch.setattr(lake.catalog, "list_tables", list_tables)
    assert OperationKind.BACKFILL in [o.kind for o in lake.plan(wanted).operations]
    assert len(asked) == 1
    idle = Desired(**{**_parts(wanted), "ident": BEST})  # type: ignore[arg-type]
    lake.create(idle)
    asked.clear()
    assert lake.plan(idle).is_empty
    assert asked == []


@pytest.mark.parametrize("may_read", [True, False])
def test_a_view_is_named_only_to_who_may_read_it(lake: Lake, may_read: bool) -> None:
    wider = table(ORDERS, day="date", amount="decimal(12,2)", note="string")
    parts = {**_parts(table(ORDERS, day="date", note="string")), "unmanaged_columns": UnmanagedColumns.DROP}
    dropped = Desired(**parts)  # type: ignore[arg-type]
    for wanted, code in ((wider, "LK303"), (dropped, "LK301")):
        request = Request(wanted, lake.catalog, "lake", may_read=lambda one: may_read and one == DAILY)
        (proposal,) = propose_all([request], Approval(), now_ms=1)
        assert proposal.plan is not None
        (found,) = [f for f in proposal.plan.findings if f.code == code]
        assert ("sales.daily" in f"{found.message} {found.hint}") is may_read
        assert " reads amount" in found.message


def test_a_type_change_that_a_view_reads_is_one_that_breaks_it(lake: Lake) -> None:
    changed = table(ORDERS, day="date", amount="string", note="string")
    wanted = Desired(**{**_parts(changed), "type_changes": {"amount": TypeChange()}})  # type: ignore[arg-type]
    (found,) = [f for f in lake.plan(wanted).findings if f.code == "LK301"]
    assert found.message == (
        "Materialized view sales.daily reads amount: converting it to another type breaks its next refresh."
    )


def _parts(desired: Desired) -> dict[str, object]:
    return {name: getattr(desired, name) for name in desired.__struct_fields__}


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
