"""What a plan means for the views that read its table: told, refused, and asked for only when it may."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.diff.changes import SetProperty
from reconciler.model.bookkeeping import APPROVED
from reconciler.model.table import Computed, Desired, Suppression, TableIdent, TypeChange, UnmanagedColumns
from reconciler.pipeline import Approval, Request, propose_all
from reconciler.plan.approvals import approval_of
from reconciler.plan.operations import OperationKind
from tests.pipeline.kit import BEST, DAILY, ORDERS, Lake, codes, parts_of, table, view


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
    wanted = Desired(**{**parts_of(wanted), "unmanaged_columns": UnmanagedColumns.DROP})  # type: ignore[arg-type]
    made = lake.plan(wanted)
    (found,) = [f for f in made.findings if f.code == "LK301"]
    assert found.message.startswith("Materialized view sales.daily reads amount: ")
    assert what in found.message
    assert made.is_blocked
    accepted = Suppression(code="LK301", reason="the view goes next week")
    made = lake.plan(Desired(**{**parts_of(wanted), "suppressions": (accepted,)}))  # type: ignore[arg-type]
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
    computed = {**parts_of(table(ORDERS, day="date", amount="decimal(10,2)", note="string", shout="string"))}
    wanted = Desired(**{**computed, "computed": {("shout",): Computed(expression="upper(note)")}})  # type: ignore[arg-type]
    asked: list[object] = []
    every = lake.catalog.list_tables

    def list_tables() -> tuple[TableIdent, ...]:
        asked.append(None)
        return every()

    monkeypatch.setattr(lake.catalog, "list_tables", list_tables)
    made = lake.plan(wanted)
    assert OperationKind.BACKFILL in [o.kind for o in made.operations]
    assert len(asked) == 1
    lake.create(wanted)
    asked.clear()
    release = approval_of(made, None, actor="somebody")
    goes_on = SetProperty(key=APPROVED, before=None, after=msgspec.json.encode(release).decode())
    current = lake.catalog.get_table_spec(ORDERS)
    assert not any(operation.resumes for operation in lake.plan(wanted).operations)
    assert len(asked) == 1  # nobody released it
    lake.catalog.apply(ORDERS, current.version, [goes_on])
    asked.clear()
    assert [o.resumes for o in lake.plan(wanted).operations if o.kind is OperationKind.BACKFILL] == [True]
    assert asked == []
    idle = Desired(**{**parts_of(wanted), "ident": BEST})  # type: ignore[arg-type]
    lake.create(idle)
    asked.clear()
    assert lake.plan(idle).is_empty
    assert asked == []


@pytest.mark.parametrize("may_read", [True, False])
def test_a_view_is_named_only_to_who_may_read_it(lake: Lake, may_read: bool) -> None:
    wider = table(ORDERS, day="date", amount="decimal(12,2)", note="string")
    parts = {**parts_of(table(ORDERS, day="date", note="string")), "unmanaged_columns": UnmanagedColumns.DROP}
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
    wanted = Desired(**{**parts_of(changed), "type_changes": {"amount": TypeChange()}})  # type: ignore[arg-type]
    (found,) = [f for f in lake.plan(wanted).findings if f.code == "LK301"]
    assert found.message == (
        "Materialized view sales.daily reads amount: converting it to another type breaks its next refresh."
    )
