"""Constraints in a plan: what is scanned, what is remembered, what is refused; pure."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.dialects import dialect_for
from reconciler.diff.changes import SetProperty, UnsetProperty
from reconciler.errors import InvalidTable
from reconciler.model.table import Constraint, Desired, Observed
from reconciler.plan.constraints import PREFIX, audited, recheck, remembered
from reconciler.plan.operations import Fidelity, OperationKind, Plan
from reconciler.plan.planner import plan_undo
from reconciler.plan.row_work import Validate
from reconciler.plan.validation import Proven
from tests.diff.tables import OWNER, desired, field, managed, observed, spec, struct, wanted
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
    there = holding(evil=memory)
    for run in (lambda: audited(there.bookkeeping, LIVE.schema, None), lambda: recheck(there)):
        with pytest.raises(InvalidTable, match="evil is not what LakeTable wrote"):
            run()


def test_only_what_was_written_is_audited() -> None:
    there = holding(positive='{"check":"`amount` >= 0","columns":["amount"]}').bookkeeping
    assert [check.sql for check in audited(there, LIVE.schema, None)] == ["`amount` >= 0"]
    assert audited(there, LIVE.schema, frozenset({"id"})) == ()
    assert list(remembered(there)) == ["positive"]


def test_what_no_column_fits_is_told_as_such_where_it_would_be_audited() -> None:
    there = holding(old='{"check":"`gone` > 0","columns":["gone"]}').bookkeeping
    assert audited(there, LIVE.schema, frozenset({"id"})) == ()
    with pytest.raises(InvalidTable, match=r"Constraint old \(`gone` > 0\) does not fit the table's columns"):
        audited(there, LIVE.schema, None)


def test_a_stated_constraint_whose_column_somebody_dropped_is_refused() -> None:
    (change,) = planned(wish(positive="amount >= 0"), live(LIVE), (file(1),)).changes
    assert isinstance(change, SetProperty)
    there = live(spec(field(1, "id", "long")))
    there = msgspec.structs.replace(there, bookkeeping={**there.bookkeeping, PREFIX + "positive": change.after})
    stated = (Constraint(name="positive", check="amount >= 0"),)
    assert blocking(planned(desired(wanted("id", "long"), constraints=stated), there, (file(1),))) == ["LK217"]


def test_a_scan_settles_only_the_files_that_it_read() -> None:
    files = (file(1, nulls=None), msgspec.structs.replace(file(1, nulls=None), path="later.parquet"))
    found = Proven(columns=frozenset({1}), files=frozenset({files[0].path})).told(files)
    assert [f.null_counts.get(1) for f in found] == [0, None]


# ---------------------------------------------------------------- renamed and dropped columns

POSITIVE = '{"check":"`amount` >= 0","columns":["amount"],"text":"ab"}'
MOVED = '{"check":"`total` >= 0","columns":["total"],"text":""}'
RENAMED = spec(field(1, "id", "long"), field(2, "total", "int"))


def renaming(**stated: object) -> Desired:
    return desired(wanted("id", "long"), wanted("total", "int"), column_renames={("total",): "amount"}, **stated)


def constraint_changes(made: Plan) -> list[tuple[str, str, str | None]]:
    return [
        (type(c).__name__, c.key.removeprefix(PREFIX), c.after if isinstance(c, SetProperty) else None)
        for c in made.changes
        if isinstance(c, SetProperty | UnsetProperty) and c.key.startswith(PREFIX)
    ]


def test_an_unstated_constraint_follows_a_renamed_column_without_a_scan() -> None:
    made = planned(renaming(), holding(positive=POSITIVE, other='{"check":"`id` > 0","columns":["id"]}'), (file(1),))
    assert constraint_changes(made) == [("SetProperty", "positive", MOVED)]
    assert scans(made) == []
    assert not blocking(made)


def test_an_unstated_constraint_blocks_the_drop_of_its_column_until_it_is_taken_back() -> None:
    there = holding(positive=POSITIVE)
    assert blocking(planned(desired(wanted("id", "long")), there)) == ["LK227"]
    assert "LK227" not in codes(planned(desired(wanted("id", "long"), constraints=()), there))


def test_a_field_that_a_constraint_reads_is_not_renamed_under_it() -> None:
    now = spec(field(1, "s", struct(field(2, "a", "int"), field(3, "b", "int"))))
    there = msgspec.structs.replace(
        live(now), bookkeeping={**live(now).bookkeeping, PREFIX + "c": '{"check":"`s`.`a` >= 0","columns":["s"]}'}
    )

    def rename(field_: str, to: str) -> Plan:
        names = [to if name == field_ else name for name in ("a", "b")]
        columns = wanted("s", struct(*(wanted(name, "int") for name in names)))
        return planned(desired(columns, column_renames={("s", to): field_}), there)

    assert blocking(rename("a", "z")) == ["LK227"]
    assert blocking(rename("b", "z")) == []


def test_a_stated_constraint_over_a_renamed_column_is_forgotten_until_it_is_scanned() -> None:
    there = holding(positive=POSITIVE)
    stated = (Constraint(name="positive", check="total >= 0"),)
    made = planned(renaming(constraints=stated), there, (file(1),))
    assert codes(made).count("LK218") == 1
    assert constraint_changes(made) == [("UnsetProperty", "positive", None)]


def test_a_stated_constraint_that_still_names_the_former_column_is_refused() -> None:
    (change,) = planned(wish(positive="amount >= 0"), live(LIVE), (file(1),)).changes
    assert isinstance(change, SetProperty)
    stated = (Constraint(name="positive", check="amount >= 0"),)
    assert blocking(planned(renaming(constraints=stated), holding(positive=change.after))) == ["LK217"]


def test_a_rescan_says_which_constraint_fits_no_column() -> None:
    with pytest.raises(InvalidTable, match=r"Constraint old \(`gone` > 0\) does not fit the table's columns"):
        recheck(holding(old='{"check":"`gone` > 0","columns":["gone"]}'))


@pytest.mark.parametrize(
    ("now", "before", "same_rows", "after"),
    [
        pytest.param({"c": MOVED}, {"c": POSITIVE}, False, ("SetProperty", POSITIVE), id="the same under other names"),
        pytest.param({}, {"c": POSITIVE}, True, ("SetProperty", POSITIVE), id="no rows since"),
        pytest.param({}, {"c": POSITIVE}, False, None, id="rows since"),
        pytest.param({"c": MOVED}, {"c": None}, False, ("UnsetProperty", None), id="it was added"),
        pytest.param({"c": MOVED}, {}, False, ("SetProperty", POSITIVE.replace("ab", "")), id="an old record"),
        pytest.param({"c": POSITIVE}, {}, False, None, id="it never followed the rename"),
    ],
)
def test_undo_brings_a_constraint_back_only_over_rows_that_fulfil_it(
    now: dict[str, str], before: dict[str, str | None], same_rows: bool, after: tuple[str, str | None] | None
) -> None:
    there = live(RENAMED)
    there = msgspec.structs.replace(
        there, bookkeeping={**there.bookkeeping, **{PREFIX + name: text for name, text in now.items()}}
    )
    made = plan_undo(
        there,
        LIVE,
        owner=OWNER,
        catalog="lake",
        dialect=dialect_for(LIVE.format),
        constraints={PREFIX + name: text for name, text in before.items()},
        has_same_rows=same_rows,
    )
    assert [(kind, text) for kind, _, text in constraint_changes(made)] == ([after] if after else [])
    assert ("LK218" in codes(made)) == (before.get("c") is not None and after is None)
    assert made.guards_snapshot is same_rows
