"""Constraints in a plan: what is scanned, what is remembered, what is refused; pure."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.diff.changes import SetProperty
from reconciler.errors import InvalidTable
from reconciler.model.table import Constraint, Desired, Observed
from reconciler.plan.constraints import PREFIX, audited, recheck, remembered
from reconciler.plan.operations import Fidelity, OperationKind, Plan
from reconciler.plan.row_work import Validate
from reconciler.plan.validation import Proven
from tests.diff.tables import desired, field, managed, observed, spec, wanted
from tests.plan.planning import blocking, codes, file, live, planned
from tests.sql.samples import HOSTILE

LIVE = spec(field(1, "id", "long"), field(2, "amount", "int"))


def wish(*columns: str, **checks: str) -> Desired:
    named = {"id": "long", "amount": "int", **dict.fromkeys(columns, "int")}
    stated = tuple(Constraint(name=name, check=check) for name, check in checks.items())
    return desired(*(wanted(name, type_) for name, type_ in named.items()), constraints=stated)


def scans(made: Plan) -> list[str]:
    return [check.sql for o in made.operations if isinstance(o.work, Validate) for check in o.work.checks]


def holding(**memory: str) -> Observed:
    found = observed(LIVE, managed(LIVE), snapshots={500: 7})
    return msgspec.structs.replace(
        found, bookkeeping={**found.bookkeeping, **{PREFIX + k: v for k, v in memory.items()}}
    )


def test_a_new_constraint_is_scanned_before_it_is_remembered_and_is_inexact() -> None:
    made = planned(wish(positive="amount >= 0"), live(LIVE), (file(1),))
    assert [o.kind for o in made.operations] == [OperationKind.VALIDATE, OperationKind.COMMIT]
    assert scans(made) == ["`amount` >= 0"]
    assert [note.fidelity for note in made.notes] == [Fidelity.INEXACT]
    assert not made.guards_snapshot


def test_an_empty_table_needs_no_scan() -> None:
    made = planned(wish(positive="amount >= 0"), live(LIVE, rows=False))
    assert [o.kind for o in made.operations] == [OperationKind.COMMIT]


def test_what_is_remembered_is_not_scanned_again_and_what_is_not_stated_stays() -> None:
    first = planned(wish(positive="amount >= 0"), live(LIVE), (file(1),))
    (change,) = first.changes
    assert isinstance(change, SetProperty)
    there = holding(positive=change.after)
    assert planned(wish(positive="amount >= 0"), there).is_empty
    assert planned(desired(wanted("id", "long"), wanted("amount", "int")), there).is_empty
    changed = planned(wish(positive="amount > 0"), there, (file(1),))
    assert scans(changed) == ["`amount` > 0"]
    gone = planned(wish(), there)
    assert [o.kind for o in gone.operations] == [OperationKind.COMMIT]
    assert scans(gone) == []


def test_a_constraint_over_what_the_plan_brings_waits() -> None:
    made = planned(wish("fresh", positive="fresh >= 0"), live(LIVE), (file(1),))
    assert "LK218" in codes(made)
    assert scans(made) == []
    assert all(PREFIX not in str(change) for change in made.changes)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_check_blocks_the_plan_and_is_in_no_operation(text: str) -> None:
    made = planned(wish(evil=text), live(LIVE), (file(1),))
    assert "LK217" in blocking(made)
    assert not [o for o in made.operations if o.work is not None]


@pytest.mark.parametrize(
    "memory", ["{", "7", '{"check":"reflect(\'java.lang.System\',\'exit\',1)","columns":["amount"]}']
)
def test_a_property_that_somebody_else_wrote_runs_nowhere(memory: str) -> None:
    for run in (lambda: audited(holding(evil=memory).bookkeeping, None), lambda: recheck(holding(evil=memory))):
        with pytest.raises(InvalidTable, match="evil is not what LakeTable wrote"):
            run()


def test_only_what_was_written_is_audited() -> None:
    there = holding(positive='{"check":"`amount` >= 0","columns":["amount"]}').bookkeeping
    assert [check.sql for check in audited(there, None)] == ["`amount` >= 0"]
    assert audited(there, frozenset({"id"})) == ()
    assert list(remembered(there)) == ["positive"]


def test_a_scan_settles_only_the_files_that_it_read() -> None:
    files = (file(1, nulls=None), msgspec.structs.replace(file(1, nulls=None), path="later.parquet"))
    found = Proven(columns=frozenset({1}), files=frozenset({files[0].path})).told(files)
    assert [f.null_counts.get(1) for f in found] == [0, None]
