"""Constraints: validated before they are remembered, audited in what data operations write, and taken back."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.model.table import Computed, Constraint, Desired
from reconciler.plan.constraints import PREFIX
from reconciler.plan.events import Failed, Refused, Validated
from tests.data.applying import Applier
from tests.data.kit import Lake, Shop


@pytest.fixture
def table(shop: Shop) -> Lake:
    return shop.fresh(files=2)


def holding(desired: Desired, **checks: str) -> Desired:
    return msgspec.structs.replace(
        desired, constraints=tuple(Constraint(name=name, check=check) for name, check in checks.items())
    )


def remembered(table: Lake) -> list[str]:
    return sorted(k.removeprefix(PREFIX) for k in table.observe().bookkeeping if k.startswith(PREFIX))


def test_a_constraint_is_validated_once_kept_and_taken_back(table: Lake) -> None:
    applier = Applier(table)
    desired = holding(table.wants(), small="x < 5", known="note like 'n%'")
    events = applier.ok(desired)
    (validated,) = [e for e in events if isinstance(e, Validated)]
    assert (validated.files, validated.rows) == (2, 8)  # x is NULL in a row: that passes
    assert remembered(table) == ["known", "small"]
    applier.ok(holding(table.wants(), small="x < 5", known="note like 'n%'"))
    assert len(applier.jobs) == 1
    applier.ok(table.wants())  # not stated: left as they are
    assert remembered(table) == ["known", "small"]
    applier.ok(holding(table.wants(), small="x < 5"))
    assert remembered(table) == ["small"]
    assert len(applier.jobs) == 1


def test_a_violated_constraint_is_refused_with_its_count_and_the_table_is_untouched(table: Lake) -> None:
    before = table.versions()
    last = Applier(table).refused(holding(table.wants(), small="x < 3"))
    assert isinstance(last, Refused)
    assert "2 rows in 2 of 2 scanned files break constraint small." in last.message
    assert "n3" not in str(last)  # no row is quoted
    assert table.versions() == before


def test_rows_of_others_are_held_to_it_on_request(table: Lake) -> None:
    from reconciler.plan.constraints import recheck

    applier = Applier(table)
    desired = holding(table.wants(), small="x < 5")
    applier.ok(desired)
    for ids, expected in (((1,), Validated), ((2,), Refused)):
        value = 4 if expected is Validated else 7
        table.spark.sql(f"INSERT INTO {table.name} VALUES ({ids[0] + 100}, {value}, 'theirs')")
        scan, made = recheck(table.observe()), applier.propose(desired).plan
        assert scan is not None
        assert made is not None
        assert made.is_empty
        run = applier.execution(desired).data
        assert run is not None
        request = applier.propose(desired).request
        assert request is not None
        last = list(run(request).run(msgspec.structs.replace(made, operations=(scan,))))[-1]
        assert isinstance(last, expected)


def test_a_changed_constraint_is_validated_again(table: Lake) -> None:
    applier = Applier(table)
    applier.ok(holding(table.wants(), small="x < 5"))
    applier.ok(holding(table.wants(), small="x < 6"))
    assert len(applier.jobs) == 2
    applier.refused(holding(table.wants(), small="x < 1"))
    assert '"`x` < 6"' in table.observe().bookkeeping[f"{PREFIX}small"]


def test_the_audit_of_a_backfill_holds_what_it_writes_to_the_constraints(table: Lake) -> None:
    applier = Applier(table)
    doubled = Computed(expression="id * 2")
    applier.ok(table.wants(total=doubled))
    applier.ok(holding(table.wants(total=doubled), even="total % 2 = 0"))
    odd = Computed(expression="id * 2 + 1")
    last = applier.refused(holding(table.wants(total=odd), even="total % 2 = 0"))
    assert isinstance(last, Failed)
    assert "The audit found 8 rows that break constraint even; nothing is published." in last.message
    assert [total for _, total in table.rows("id", "total")] == [2 * i for i in range(8)]
    # a constraint over columns that are not written has no say
    table.spark.sql(f"INSERT INTO {table.name} VALUES (100, 1, 'theirs', 7)")
    applier.ok(holding(table.wants(total=odd)))
    assert (3, 7) in table.rows("id", "total")


def test_a_constraint_over_a_column_that_comes_waits_for_it(table: Lake) -> None:
    applier = Applier(table)
    desired = holding(table.wants(total=Computed(expression="id * 2")), even="total % 2 = 0")
    made = applier.propose(desired).plan
    assert made is not None
    assert [f.code for f in made.findings] == ["LK218"]
    applier.apply(desired)
    assert remembered(table) == []
    applier.ok(desired)
    assert remembered(table) == ["even"]
