"""Bringing back rows on a real Iceberg: a new snapshot, everybody's history kept, the same after any crash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from reconciler.engines.restore_kind import RestoreKind
from reconciler.engines.staged import staging_ref
from reconciler.errors import ApprovalRequired, CommitConflict, InvalidTable, RefNotFound
from reconciler.model import bookkeeping
from reconciler.model.table import Computed, TableIdent
from reconciler.model.types import Field, StructType
from reconciler.pipeline import Approval, Execution, Request, execute, propose_restore, propose_undo
from reconciler.pipeline.table_jobs import table_operation
from reconciler.plan.approvals import undo_tag
from reconciler.plan.computed import remembered
from reconciler.plan.events import Event
from reconciler.plan.operations import Operation, OperationClass, OperationKind, Plan
from reconciler.plan.policy import Outcome
from tests.cli.lab import Lab
from tests.data.applying import Applier
from tests.data.kit import NAMESPACE, NOW_MS, Killed, Lake, Shop, Writes

ROWS = ("id", "x", "note")


def request(table: Lake) -> Request:
    return Request.undo(table.ident, "test", table.catalog, table.catalog_name, ())


def planned(table: Lake, to: str) -> Plan:
    proposal = propose_restore(request(table), table.observe(), to, Approval(), now_ms=NOW_MS)
    assert proposal.plan is not None
    assert proposal.decision is not None
    if proposal.plan.operations:
        assert proposal.decision.outcome in (Outcome.NEEDS_APPROVAL, Outcome.DENY)
    return proposal.plan


def restore(table: Lake, to: str) -> Operation:
    made = planned(table, to)
    assert not made.is_blocked, made.findings
    return next(o for o in made.operations if o.kind is OperationKind.RESTORE)


def changed(shop: Shop, lake: str = "embedded", version: int = 2) -> tuple[Lake, list[tuple[Any, ...]], int]:
    """Make a table, note its rows and snapshot, and let others delete, update and append."""
    table = shop.fresh(lake, version=version, files=2)
    rows, target = table.rows(*ROWS), table.ancestry()[0]
    shop.spark.sql(f"DELETE FROM {table.name} WHERE id = 5")
    shop.spark.sql(f"UPDATE {table.name} SET x = 99 WHERE id < 2")
    table.append(range(20, 24))
    return table, rows, target


@pytest.mark.parametrize(("lake", "version"), [("embedded", 2), ("rest", 3)])
def test_rows_come_back_in_a_new_commit_on_top_of_everybodys(shop: Shop, lake: str, version: int) -> None:
    table, rows, target = changed(shop, lake, version)
    heads = table.ancestry()
    made = planned(table, str(target))
    assert made.operation_class is OperationClass.DESTRUCTIVE
    wanted = restore(table, str(target))
    assert wanted.cost.bytes_rewritten > 0
    table.run(wanted)
    assert table.rows(*ROWS) == rows
    assert table.ancestry()[1:] == heads
    assert table.branches() == []
    assert planned(table, str(target)).is_empty
    changelog = table.snapshots()[-1]["summary"]
    assert changelog["operation"] == "overwrite"
    assert int(changelog["deleted-data-files"]) > 0


@pytest.mark.parametrize(("lake", "version"), [("embedded", 2), ("rest", 3)])
def test_the_rows_there_are_need_no_restore_though_some_are_deleted_in_their_files(
    shop: Shop, lake: str, version: int
) -> None:
    table = shop.fresh(lake, version=version, files=2)
    shop.spark.sql(f"DELETE FROM {table.name} WHERE id = 5")
    target, rows = table.ancestry()[0], table.rows(*ROWS)
    assert planned(table, str(target)).is_empty
    table.append(range(20, 22))
    wanted = restore(table, str(target))
    assert (wanted.cost.files_rewritten, wanted.cost.bytes_rewritten) == (0, 0)
    table.run(wanted)
    assert table.rows(*ROWS) == rows


def test_by_tag_by_time_and_what_is_not_there(shop: Shop) -> None:
    table, rows, target = changed(shop)
    shop.spark.sql(f"ALTER TABLE {table.name} CREATE TAG good AS OF VERSION {target}")
    with pytest.raises(RefNotFound, match="tags: good"):
        planned(table, "bad")
    with pytest.raises(RefNotFound):
        planned(table, "1999-01-01T00:00:00Z")
    now = planned(table, "good")
    assert now.hash != planned(table, str(table.ancestry()[1])).hash
    table.append(range(30, 32))
    assert planned(table, "good").hash != now.hash, "the hash covers main's head"
    table.run(restore(table, "good"))
    assert table.rows(*ROWS) == rows


def test_whole_deletions_come_back_and_an_emptied_table_too(shop: Shop) -> None:
    table = shop.fresh(files=2)
    rows, target = table.rows(*ROWS), table.ancestry()[0]
    shop.spark.sql(f"DELETE FROM {table.name}")
    assert table.rows(*ROWS) == []
    table.run(restore(table, str(target)))
    assert table.rows(*ROWS) == rows


def test_what_others_append_after_the_approval_stays(shop: Shop) -> None:
    table, rows, target = changed(shop)
    wanted = restore(table, str(target))
    table.append(range(40, 42))
    staged = table.start(wanted)
    table.append(range(50, 52))
    staged.commit()
    ids = [row[0] for row in table.rows(*ROWS)]
    assert sorted(ids) == sorted([*(row[0] for row in rows), 40, 41, 50, 51])


POINTS = [(1, "before"), (1, "after"), (2, "before"), (2, "after"), (3, "before"), (3, "after")]


@pytest.mark.parametrize("point", POINTS, ids=[f"{n}-{when}" for n, when in POINTS])
def test_a_crash_at_any_write_ends_in_the_same_rows(shop: Shop, point: tuple[int, str]) -> None:
    table, rows, target = changed(shop)
    wanted = restore(table, str(target))
    writes = Writes(point)
    with pytest.raises(Killed):
        table.run(wanted, table.engine(writes))
    table.run(wanted)
    assert table.rows(*ROWS) == rows
    assert table.branches() == []
    quiet = Writes()
    table.run(wanted, table.engine(quiet))
    assert quiet.count == 0


def test_a_dropped_column_and_a_required_one_are_refused(shop: Shop) -> None:
    table, _, target = changed(shop)
    shop.spark.sql(f"ALTER TABLE {table.name} DROP COLUMN note")
    assert [f.code for f in planned(table, str(target)).findings] == ["LK219"]


def test_a_dropped_column_beyond_those_that_iceberg_measures_is_refused(shop: Shop) -> None:
    ident = TableIdent(NAMESPACE, "wide")
    table = shop.make("embedded", ident)
    shop.fresh(files=0)
    numbers = [f"c{number}" for number in range(105)]
    shop.spark.sql(f"CREATE TABLE {table.name} (id bigint, {' int, '.join(numbers)} int, note string) USING iceberg")
    shop.spark.sql(f"INSERT INTO {table.name} SELECT 40, {', '.join('1' for _ in numbers)}, 'precious'")
    target = table.ancestry()[0]
    shop.spark.sql(f"DELETE FROM {table.name} WHERE id = 40")
    assert planned(table, str(target)).findings == ()
    shop.spark.sql(f"ALTER TABLE {table.name} DROP COLUMN note")
    (finding,) = planned(table, str(target)).findings
    assert finding.code == "LK219"
    assert "1 column of that snapshot (field ids 107, without metrics)" in finding.message


# ---------------------------------------------------------------- undo


def published(table: Lake, computed: Computed, plan: str) -> None:
    """Apply a computed column as the pipeline does, its history included."""
    operation = table.evolve(table.wants(total=computed))
    ref = staging_ref(table.ident, table.observe().version.uuid, operation)
    ref = msgspec.structs.replace(ref, plan=plan, actor="ci")
    table.engine().execute(operation, ref, lambda event: None).commit()


FIRST, SECOND = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def undo(table: Lake, wanted: str | None = None) -> Plan:
    made = propose_undo(request(table), table.observe(), Approval(), now_ms=NOW_MS, wanted=wanted).plan
    assert made is not None
    return made


def test_undoing_a_changed_expression_brings_its_values_back_and_it_can_be_applied_again(shop: Shop) -> None:
    table = shop.fresh(files=2)
    doubled, tripled = Computed(expression="x * 2"), Computed(expression="x * 3")
    published(table, doubled, FIRST)
    rows = table.rows("id", "total")
    field_id = table.observe().spec.schema.fields[-1].id
    published(table, tripled, SECOND)
    assert table.rows("id", "total") != rows
    record = bookkeeping.read(table.observe().bookkeeping).history[-1]
    assert (record.plan, record.actor, record.kind, record.rows) == (SECOND, "ci", "backfill", 8)
    assert record.bytes_estimated > 0
    (wanted, *_) = [o for o in undo(table).operations if o.kind is OperationKind.RESTORE]
    table.run(wanted)
    assert table.rows("id", "total") == rows
    memory = remembered(table.observe().bookkeeping, field_id)
    assert memory is not None
    assert memory.revision == 3
    assert table.plan(table.wants(total=doubled)).operations == ()
    again = table.evolve(table.wants(total=tripled))
    table.run(again)
    assert {total for id_, total in table.rows("id", "total") if id_ == 1} == {3}


class Crashing:
    """A runtime whose machine goes away before the job starts."""

    def run(self, plan: Plan) -> Iterator[Event]:
        raise Killed


def test_an_undo_that_did_not_start_its_job_goes_on_and_is_not_undone(shop: Shop) -> None:
    table = shop.fresh(files=2)
    published(table, Computed(expression="x * 2"), FIRST)
    rows = table.rows("id", "total")
    published(table, Computed(expression="x * 3"), SECOND)
    made = undo(table)
    approved = propose_undo(request(table), table.observe(), Approval(hashes=frozenset({made.hash})), now_ms=NOW_MS)
    execution = Execution(lambda name, asked: table.catalog, "ci", NOW_MS, data=lambda asked: Crashing())
    with pytest.raises(Killed):
        list(execute(approved, execution))
    assert undo_tag(made.hash) in table.observe().spec.refs
    again = propose_undo(request(table), table.observe(), Approval(), now_ms=NOW_MS)
    assert again.plan is not None
    assert again.decision is not None
    assert again.decision.outcome is Outcome.ALLOW, "it was approved when it started"
    (wanted,) = [o for o in again.plan.operations if o.kind is OperationKind.RESTORE]
    assert wanted.id in {operation.id for operation in made.operations}
    released = table_operation(request(table), table.observe(), wanted)
    assert released is not None
    table.run(released)
    assert table.rows("id", "total") == rows


def test_a_restore_that_nobody_released_is_refused_by_the_job(shop: Shop) -> None:
    table, _, target = changed(shop)
    with pytest.raises(ApprovalRequired):
        table_operation(request(table), table.observe(), restore(table, str(target)))


def test_control_a_lost_file_is_noticed_by_the_audit(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    table, _, target = changed(shop)
    wanted, make = restore(table, str(target)), RestoreKind.make
    heads = table.ancestry()
    monkeypatch.setattr(RestoreKind, "make", lambda self, *about: make(self, *about)[1:])
    with pytest.raises(InvalidTable, match="nothing is published"):
        table.run(wanted)
    assert table.ancestry() == heads


def test_the_tag_of_a_plan_that_runs_again_after_an_undo_keeps_what_others_committed_meanwhile(shop: Shop) -> None:
    table = shop.fresh(files=2)
    applier, less = Applier(table), table.wants()
    columns = StructType((*less.columns.fields, Field(name="z", required=False, type="int")))
    applier.ok(msgspec.structs.replace(less, columns=columns))
    applier.ok(less)
    tag = undo_tag(bookkeeping.read(table.observe().bookkeeping).history[-1].plan)
    first = table.ancestry()[0]
    assert table.observe().spec.refs[tag].snapshot_id == first
    made = undo(table)
    approved = propose_undo(request(table), table.observe(), Approval(hashes=frozenset({made.hash})), now_ms=NOW_MS)
    list(execute(approved, applier.execution(less)))
    second = table.append(range(20, 24))
    rows = table.rows(*ROWS)
    applier.ok(less)
    assert table.observe().spec.refs[tag].snapshot_id == second
    table.append(range(30, 34))
    table.run(restore(table, tag))
    assert table.rows(*ROWS) == rows


def test_undo_refuses_to_take_back_what_others_committed(shop: Shop) -> None:
    table = shop.fresh(files=2)
    published(table, Computed(expression="x * 2"), FIRST)
    published(table, Computed(expression="x * 3"), SECOND)
    table.append(range(20, 22))
    with pytest.raises(CommitConflict, match="Others have committed"):
        undo(table)


def test_an_unknown_plan_is_not_undone(shop: Shop) -> None:
    table = shop.fresh(files=1)
    published(table, Computed(expression="x * 2"), FIRST)
    with pytest.raises(RefNotFound, match="remembers no plan"):
        undo(table, "c" * 64)


PLAIN = ("name: id, type: long", "name: x, type: int")


def computing(expression: str) -> tuple[str, ...]:
    return (*PLAIN, f"name: total, type: long, computed: {{expression: '{expression}'}}")


def test_the_program_undoes_a_plan_by_its_hash(lab: Lab, jobs_inside: None) -> None:
    lab.apply(PLAIN)
    lab.append([{"id": 1, "x": 1}, {"id": 2, "x": 2}])
    path = lab.apply(computing("x * 2"))
    doubled = sorted(row["total"] for row in lab.rows())
    lab.apply(computing("x * 3"))
    assert sorted(row["total"] for row in lab.rows()) == [3, 6] != doubled
    plan = lab.ok("history", "sales.orders", "-o", "json").json()[-1]["plan"]
    refused = lab.run("undo", plan, "--auto-approve")
    assert refused.code == 3
    assert f"laketable undo {plan} --approve sha256:" in refused.out
    approved = refused.out.rsplit("--approve ", 1)[1].split()[0]
    result = lab.ok("undo", plan, "--approve", approved)
    assert "restored the rows of snapshot" in result.out
    assert sorted(row["total"] for row in lab.rows()) == doubled == [2, 4]
    lab.manifest(computing("x * 2"))
    assert lab.run("plan", "-f", path, "--detailed-exitcode").code == 0
    shown = lab.ok("history", "sales.orders").out
    assert "restore" in shown
    assert "kept" in shown
