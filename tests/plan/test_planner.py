"""How changes become operations: order, classes, ownership, upkeep, undo, offline."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.dialects import dialect_for
from reconciler.diff.apply import apply
from reconciler.diff.changes import AddColumn, AdoptTable, CreateTable, DropTable, RenameTable
from reconciler.errors import OwnershipConflict
from reconciler.model.bookkeeping import Bookkeeping
from reconciler.model.maintenance import Maintenance, RewriteManifests
from reconciler.model.table import DesiredRef, RefKind, Suppression, TableFormat, TableIdent
from reconciler.plan.operations import OperationClass, OperationKind, Plan
from reconciler.plan.planner import plan_drop, plan_offline, plan_undo
from tests.diff.tables import NOW_MS, ORDERS, OWNER, desired, field, managed, observed, spec, struct, wanted
from tests.plan.planning import blocking, codes, file, live, planned

ICEBERG = dialect_for(TableFormat.ICEBERG)
LIVE = spec(field(1, "id", "int"), field(2, "cust_id"))


def kinds(made: Plan) -> list[OperationKind]:
    return [operation.kind for operation in made.operations]


def test_a_table_in_sync_has_an_empty_plan() -> None:
    made = planned(desired(wanted("id", "int"), wanted("cust_id")), live(LIVE))
    assert made.is_empty
    assert (made.operations, made.notes, made.findings, made.upkeep) == ((), (), (), ())


def test_a_missing_table_is_created_in_one_commit() -> None:
    made = planned(desired(wanted("id", "int", required=True), properties={"comment": "x"}), None)
    (operation,) = made.operations
    assert operation.kind is OperationKind.COMMIT
    assert operation.operation_class is OperationClass.METADATA_ONLY
    assert operation.asserts == ("no such table",)
    assert isinstance(operation.changes[0], CreateTable)
    assert made.base is None
    assert not made.guards_snapshot


def test_all_metadata_changes_share_one_commit() -> None:
    made = planned(
        desired(
            wanted("id", "long"),
            wanted("customer_ref"),
            wanted("extra"),
            column_renames={("customer_ref",): "cust_id"},
            properties={"comment": "x"},
        ),
        live(LIVE),
    )
    (operation,) = made.operations
    assert operation.summary == "commit schema, properties (1 commit)"
    assert operation.asserts == ("schema 0", "spec 0", "sort order 0", "last field 2")
    assert (operation.operation_class, operation.breaking) == (OperationClass.METADATA_ONLY, True)
    assert tuple(note.change for note in made.notes) == operation.changes


def test_a_table_rename_runs_first_and_alone() -> None:
    manifest = msgspec.structs.replace(
        desired(wanted("id", "long"), wanted("cust_id")), ident=TableIdent(("sales",), "orders_v2"), renamed_from=ORDERS
    )
    made = planned(manifest, live(LIVE))
    assert kinds(made) == [OperationKind.RENAME_TABLE, OperationKind.COMMIT]
    assert made.operations[0].changes == (RenameTable(before=ORDERS, after=manifest.ident),)
    assert made.operations[0].summary == "rename table sales.orders to sales.orders_v2"
    assert made.operation_class is OperationClass.DESTRUCTIVE
    assert made.table == manifest.ident
    assert "LK103" in codes(made)


def test_a_table_to_rename_that_is_not_there_is_told() -> None:
    manifest = msgspec.structs.replace(desired(wanted("id", "long")), renamed_from=TableIdent(("sales",), "order"))
    made = planned(manifest, None)
    assert [found.message for found in made.findings if found.code == "LK114"] == [
        "There is no table sales.order to rename: sales.orders is created, without rows."
    ]
    assert not made.is_blocked
    assert "LK114" not in codes(planned(manifest, live(LIVE)))
    assert "LK114" not in codes(plan_offline(None, manifest, dialect=ICEBERG, now_ms=NOW_MS))


# ---------------------------------------------------------------- ownership


def test_adopting_a_table_is_visible_beside_other_changes() -> None:
    made = planned(desired(wanted("id", "long"), wanted("cust_id")), observed(LIVE))
    assert made.changes[0] == AdoptTable(ident=ORDERS, owner=OWNER)
    assert made.operations[0].summary == "adopt table, commit schema (1 commit)"


def test_claiming_a_table_that_differs_in_nothing_is_upkeep() -> None:
    made = planned(desired(wanted("id", "int"), wanted("cust_id")), observed(LIVE))
    assert made.is_empty
    assert made.hash == ""
    assert [operation.summary for operation in made.upkeep] == [f"claim the table for {OWNER}"]


def test_memory_out_of_date_is_upkeep() -> None:
    stale = Bookkeeping(owner=OWNER, columns=frozenset({1}))
    made = planned(desired(wanted("id", "int"), wanted("cust_id")), observed(LIVE, stale))
    assert made.is_empty
    assert [operation.summary for operation in made.upkeep] == ["remember what this manifest manages"]


def test_somebody_else_s_table_is_refused() -> None:
    with pytest.raises(OwnershipConflict, match=r"belongs to them, not to cli/demo") as caught:
        planned(desired(wanted("id", "int")), observed(LIVE, Bookkeeping(owner="them")))
    assert "--take-ownership" in caught.value.hint


def test_taking_a_table_is_a_change_that_names_whom_it_was_taken_from() -> None:
    theirs = observed(LIVE, Bookkeeping(owner="them", columns=frozenset({1, 2})))
    made = planned(desired(wanted("id", "int"), wanted("cust_id")), theirs, take_ownership=True)
    assert made.changes == (AdoptTable(ident=ORDERS, owner=OWNER, taken_from="them"),)
    assert codes(made) == ["LK112"]
    assert not made.is_empty


# ---------------------------------------------------------------- upkeep


# ---------------------------------------------------------------- guards and findings


def test_a_proof_binds_the_commit_to_the_snapshot_it_was_made_on() -> None:
    manifest = desired(wanted("id", "int"), wanted("cust_id", required=True))
    made = planned(manifest, live(LIVE), (file(2),))
    assert made.guards_snapshot
    assert "main = 7" in made.operations[0].asserts
    empty = planned(manifest, live(LIVE, rows=False))
    assert empty.guards_snapshot
    assert "main without a snapshot" in empty.operations[0].asserts


def test_plans_without_a_proof_let_rows_come_in() -> None:
    made = planned(desired(wanted("id", "long"), wanted("cust_id")), live(LIVE))
    assert not made.guards_snapshot


def test_declared_maintenance_blocks_nothing_and_is_not_in_the_hash() -> None:
    plain = desired(wanted("id", "int"), wanted("cust_id"), wanted("new"))
    manifest = msgspec.structs.replace(plain, maintenance=Maintenance(manifests=RewriteManifests()))
    made = planned(manifest, live(LIVE))
    assert codes(made) == []
    assert made.hash == planned(plain, live(LIVE)).hash


def test_a_suspected_rename_blocks_until_it_is_suppressed_and_stays_destructive() -> None:
    manifest = desired(wanted("id", "int"), wanted("customer_ref"))
    refused = planned(manifest, live(LIVE))
    assert blocking(refused) == ["LK104"]
    meant = msgspec.structs.replace(
        manifest, suppressions=(Suppression(code="LK104", reason="a new column", path=("customer_ref",)),)
    )
    allowed = planned(meant, live(LIVE))
    assert blocking(allowed) == []
    assert allowed.operation_class is OperationClass.DESTRUCTIVE


# ---------------------------------------------------------------- drop, undo, offline


def test_drop_is_one_destructive_operation() -> None:
    made = plan_drop(live(LIVE), owner=OWNER, catalog="lake", dialect=ICEBERG)
    assert made.changes == (DropTable(ident=ORDERS, uuid="9c5b"),)
    assert kinds(made) == [OperationKind.DROP_TABLE]
    assert made.operation_class is OperationClass.DESTRUCTIVE
    assert codes(made) == ["LK102"]
    assert made.hash


def test_drop_refuses_somebody_else_s_table() -> None:
    with pytest.raises(OwnershipConflict):
        plan_drop(live(LIVE), owner="them", catalog="lake", dialect=ICEBERG)


def test_undo_brings_a_column_back_under_its_field_id() -> None:
    now = spec(field(1, "id", "int"))
    made = plan_undo(live(now), LIVE, owner=OWNER, catalog="lake", dialect=ICEBERG)
    (change,) = made.changes
    assert isinstance(change, AddColumn)
    assert change.field.id == 2
    assert made.notes[0].evidence == "field 2 comes back with the values still in the files"
    assert not made.is_blocked


def test_undo_of_a_required_column_s_drop_needs_the_proof() -> None:
    now, past = spec(field(1, "id", "int")), spec(field(1, "id", "int"), field(2, "cust_id", required=True))

    def undo(*files: object) -> Plan:
        return plan_undo(live(now), past, owner=OWNER, catalog="lake", dialect=ICEBERG, files=files)  # type: ignore[arg-type]

    assert blocking(undo(file(2))) == []
    assert undo(file(2)).guards_snapshot
    assert blocking(undo(file(2), file(1))) == ["LK206"]  # written while the column was gone


def test_undo_hash_names_target_and_head() -> None:
    now = spec(field(1, "id", "int"))
    moved = observed(now, managed(now), snapshots={500: 8})
    first = plan_undo(live(now), LIVE, owner=OWNER, catalog="lake", dialect=ICEBERG)
    later = plan_undo(moved, LIVE, owner=OWNER, catalog="lake", dialect=ICEBERG)
    assert first.hash != later.hash


def test_offline_plan_compares_two_manifests() -> None:
    before = desired(wanted("id", "int"), wanted("cust_id"), wanted("gone"))
    after = desired(wanted("id", "long"), wanted("customer_ref"), column_renames={("customer_ref",): "cust_id"})
    made = plan_offline(before, after, dialect=ICEBERG, now_ms=NOW_MS)
    assert [type(change).__name__ for change in made.changes] == ["RenameColumn", "AlterColumnType", "DropColumn"]
    assert made.operation_class is OperationClass.DESTRUCTIVE
    assert plan_offline(after, after, dialect=ICEBERG, now_ms=NOW_MS).is_empty


def test_offline_plan_leaves_to_the_rows_what_only_they_decide() -> None:
    before = desired(wanted("id", "int"), refs=(DesiredRef(name="q3", kind=RefKind.TAG, snapshot_id=5),))
    after = desired(wanted("id", "int", required=True), wanted("region", required=True), refs=())
    made = plan_offline(before, after, dialect=ICEBERG, now_ms=NOW_MS)
    assert codes(made) == ["LK204", "LK206"]
    assert not made.is_blocked
    assert made.operations
    assert made.hash == ""


def test_offline_plan_of_a_new_manifest_creates_the_table() -> None:
    after = desired(wanted("id", "int"))
    other = msgspec.structs.replace(after, ident=TableIdent(("sales",), "other"))
    renamed = msgspec.structs.replace(other, renamed_from=ORDERS)
    for before, new in ((None, after), (other, after)):
        made = plan_offline(before, new, dialect=ICEBERG, now_ms=NOW_MS)
        assert [type(change) for change in made.changes] == [CreateTable]
        assert made.hash == ""
    moved = plan_offline(after, renamed, dialect=ICEBERG, now_ms=NOW_MS)
    assert [type(change) for change in moved.changes] == [RenameTable]


def test_offline_plan_still_refuses_what_no_row_could_allow() -> None:
    made = plan_offline(desired(wanted("id", "long")), desired(wanted("id", "int")), dialect=ICEBERG, now_ms=NOW_MS)
    assert blocking(made) == ["LK201"]


# ---------------------------------------------------------------- laws and size


def test_applying_the_plan_s_changes_arrives_at_an_empty_plan() -> None:
    manifest = desired(wanted("id", "long"), wanted("address", struct(wanted("zip"))), properties={"comment": "x"})
    seen = live(spec(field(1, "id", "int")))
    made = planned(manifest, seen)
    after = apply(seen.spec, made.changes, last_field_id=seen.version.last_field_id)
    assert planned(manifest, live(after)).is_empty


def test_ten_thousand_new_leaves_are_planned() -> None:
    def wide(count: int) -> tuple[object, ...]:
        return tuple(wanted(f"s{i}", struct(*(wanted(f"c{j}", "int") for j in range(count)))) for i in range(100))

    before = planned(desired(*wide(100)), None)  # type: ignore[arg-type]
    (create,) = before.changes
    assert isinstance(create, CreateTable)
    seen = live(apply(None, (create,)))
    made = planned(desired(*wide(200)), seen)  # type: ignore[arg-type]
    assert len(made.changes) == 10_000
