"""A column becomes required although its manifests do not prove it: only the files in doubt are read before."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from reconciler.model.table import Desired
from reconciler.model.types import Field, StructType
from reconciler.pipeline import Execution, Request
from reconciler.plan.events import Committed, Event, Refused, Validated
from reconciler.plan.operations import OperationKind, Plan
from tests.data.applying import Applier
from tests.data.kit import Lake, Shop


@pytest.fixture
def table(shop: Shop) -> Lake:
    return in_doubt(shop)


def in_doubt(shop: Shop) -> Lake:
    """Make a table of two files without counts, and one with."""
    made = shop.fresh(files=0)
    count(made, "none")
    made.append([0, 1])
    made.append([2, 3])
    count(made, "full")
    made.append([4, 5])
    return made


def count(table: Lake, mode: str) -> None:
    table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.metadata.metrics.default'='{mode}')")


def requires(table: Lake, *names: str) -> Desired:
    desired = table.wants()
    fields = tuple(msgspec.structs.replace(f, required=f.name in names) for f in desired.columns.fields)
    return msgspec.structs.replace(desired, columns=StructType(fields))


def is_required(table: Lake, name: str) -> bool:
    return next(f.required for f in table.observe().spec.schema.fields if f.name == name)


def test_the_scan_reads_only_what_the_manifests_leave_open(table: Lake) -> None:
    applier = Applier(table)
    made = applier.propose(requires(table, "id", "x")).plan
    assert made is not None
    assert [o.kind for o in made.operations] == [OperationKind.VALIDATE, OperationKind.COMMIT]
    assert made.operations[0].cost.files_read == 2
    assert not made.is_blocked
    events = applier.ok(requires(table, "id", "x"))
    (validated,) = [e for e in events if isinstance(e, Validated)]
    assert (validated.files, validated.rows) == (2, 4)
    assert isinstance(events[-1], Committed)
    assert is_required(table, "id")
    assert is_required(table, "x")


def test_a_null_is_refused_with_its_count_and_nothing_is_committed(table: Lake) -> None:
    count(table, "none")
    table.append([6, 7])  # x is NULL for 6
    before = table.versions()
    last = Applier(table).refused(requires(table, "x"))
    assert isinstance(last, Refused)
    assert last.reason == "RowsRefused"
    assert "1 row in 1 of 3 scanned files has no value in x" in last.message
    assert table.versions() == before
    assert not is_required(table, "x")


def test_rows_that_come_during_the_scan_are_proven_by_their_counts_or_scanned_again(table: Lake) -> None:
    arriving = [[7, 8], [10, 11]]

    def write() -> None:
        if arriving:
            count(table, "none" if len(arriving) == 2 else "full")
            table.append(arriving.pop(0))

    applier = Applier(table)
    proposal = applier.propose(requires(table, "x"))
    applier.between = write
    from reconciler.pipeline import execute

    events = list(execute(proposal, applier.execution(requires(table, "x"))))
    assert isinstance(events[-1], Committed), events
    assert applier.jobs == [["validate"]]
    assert is_required(table, "x")


def test_files_without_counts_that_come_after_the_scan_are_scanned_alone(table: Lake) -> None:
    class Late(Applier):
        def execution(self, desired: Desired, engine: str = "auto") -> Execution:
            made = super().execution(desired, engine)
            assert made.data is not None
            inner, arriving = made.data, [[7, 8]]

            class Runtime:
                def __init__(self, request: Request) -> None:
                    self.inner = inner(request)

                def run(self, plan: Plan) -> Iterator[Event]:
                    yield from self.inner.run(plan)
                    if arriving:
                        count(table, "none")
                        table.append(arriving.pop())

            return msgspec.structs.replace(made, data=Runtime)

    events = Late(table).ok(requires(table, "x"))
    assert [(e.files, e.rows) for e in events if isinstance(e, Validated)] == [(2, 4), (1, 2)]
    assert is_required(table, "x")


def test_a_field_of_a_struct_is_scanned_and_no_struct_is_no_missing_field(shop: Shop) -> None:
    table = shop.fresh(files=0)
    count(table, "none")
    table.spark.sql(f"ALTER TABLE {table.name} ADD COLUMN place struct<zip: string>")
    table.spark.sql(f"INSERT INTO {table.name} VALUES (1, 1, 'a', named_struct('zip', 'z')), (2, 1, 'b', NULL)")
    desired = table.wants()
    zip_ = StructType((Field(name="zip", required=True, type="string"),))
    fields = (*desired.columns.fields, Field(name="place", required=False, type=zip_))
    desired = msgspec.structs.replace(desired, columns=StructType(fields))
    Applier(table).ok(desired)
    place = next(f.type for f in table.observe().spec.schema.fields if f.name == "place")
    assert isinstance(place, StructType)
    assert place.fields[0].required


def test_a_null_that_comes_after_the_scan_is_not_committed_over(table: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    applier = Applier(table)
    seen = type(table.catalog).apply

    def late(self: object, *args: object, **more: object) -> object:
        monkeypatch.undo()
        table.append([13])  # x is NULL, and its file says so
        return seen(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(type(table.catalog), "apply", late)
    last = applier.refused(requires(table, "x"))
    assert isinstance(last, Refused)
    assert not is_required(table, "x")


def test_the_hash_is_the_same_whether_a_scan_is_needed_or_not(table: Lake) -> None:
    applier = Applier(table)
    with_scan = applier.propose(requires(table, "x")).plan
    table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.delete.mode'='copy-on-write')")
    table.spark.sql(f"DELETE FROM {table.name} WHERE id < 4")
    without = applier.propose(requires(table, "x")).plan
    assert with_scan is not None
    assert without is not None
    assert len(with_scan.operations) == len(without.operations) + 1
    assert with_scan.hash == without.hash


def test_the_catalog_engine_refuses_before_anything_happens(table: Lake) -> None:
    before = table.versions()
    (_, last) = Applier(table).apply(requires(table, "x"), engine="catalog")
    assert getattr(last, "reason", "") == "Unsupported"
    assert table.versions() == before
