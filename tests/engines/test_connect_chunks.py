"""Which chunks on a branch count: every file once, whatever came twice or from elsewhere."""

from __future__ import annotations

import random

import pytest

from reconciler.engines.connect_chunks import accepted, chunks, is_whole, own_snapshots, stamps_of
from reconciler.engines.connect_sql import filled, unfilled
from reconciler.engines.data_files import Task
from reconciler.engines.data_state import Position, SnapshotFacts, Step, TableFacts, position
from reconciler.model.metadata import RefJson
from reconciler.model.table import RefKind
from reconciler.plan.data import branch_of
from reconciler.plan.operations import Backfill, BackfillColumn, Operation, OperationClass, OperationKind

OPERATION = "c0ffee00c0ffee00"
BASE = 1


def task(number: int, size: int = 10) -> Task:
    return Task(
        path=f"f{number}",
        size=size,
        rows=1,
        spec_id=0,
        sort_order_id=0,
        has_deletes=False,
        is_parquet=True,
        java=None,
    )


TASKS = [task(number) for number in range(6)]


def facts(*summaries: dict[str, str]) -> TableFacts:
    """A branch of these snapshots on the base, which is main's head."""
    snapshots = [SnapshotFacts(snapshot_id=BASE)]
    for summary in summaries:
        last = snapshots[-1].snapshot_id
        snapshots.append(SnapshotFacts(snapshot_id=last + 1, parent_snapshot_id=last, summary=summary))
    refs = {"main": BASE, branch_of(OPERATION): snapshots[-1].snapshot_id}
    return TableFacts(
        table_uuid="u",
        format_version=2,
        current_schema_id=0,
        default_spec_id=0,
        refs={name: RefJson(snapshot_id=at, type=RefKind.BRANCH) for name, at in refs.items()},
        snapshots=tuple(snapshots),
    )


def found(table: TableFacts) -> Position:
    wanted = Operation(id=OPERATION, kind=OperationKind.BACKFILL, summary="", operation_class=OperationClass.REWRITE)
    return position(table, wanted, appends=True)


def stamps(start: int, end: int, base: int = BASE) -> dict[str, str]:
    return stamps_of(OPERATION, base, TASKS, start, end)


@pytest.mark.parametrize(
    ("made", "spans"),
    [
        ([stamps(0, 2), stamps(2, 6)], [(0, 2), (2, 6)]),
        ([stamps(0, 2), stamps(0, 2)], [(0, 2)]),
        ([stamps(0, 2), stamps(1, 3), stamps(2, 3)], [(0, 2), (2, 3)]),
        ([stamps(0, 2, base=7)], []),
        ([stamps(0, 2) | {"laketable.chunk": "another"}], []),
        ([stamps(0, 2) | {"laketable.files": "1:x-y"}], []),
        ([stamps(0, 2) | {"laketable.files": "1:0-99"}], []),
    ],
    ids=["two", "twice", "overlapping", "other-base", "other-files", "damaged", "too-long"],
)
def test_no_file_is_stood_for_twice(made: list[dict[str, str]], spans: list[tuple[int, int]]) -> None:
    table = facts(*made)
    assert list(accepted(table, found(table), TASKS).values()) == spans


def test_a_branch_of_the_other_engine_starts_over() -> None:
    assert found(facts({"laketable.operation": OPERATION})).step is Step.START_OVER


def test_whatever_is_covered_the_rest_is_grouped_and_together_they_are_whole() -> None:
    dice = random.Random(1)
    for _ in range(200):
        tasks = [task(number, dice.randint(1, 30)) for number in range(dice.randint(0, 12))]
        covered = {t.path for t in tasks if dice.random() < 0.4}
        spans = list(chunks(tasks, covered, 40))
        left = [t.path for start, end in spans for t in tasks[start:end]]
        assert left == [t.path for t in tasks if t.path not in covered]
        assert is_whole(spans, len(left))
        assert all(end - start == 1 or sum(t.size for t in tasks[start:end]) <= 40 for start, end in spans)


def test_only_our_own_snapshots_are_forgotten_and_none_that_a_ref_holds() -> None:
    table = facts(stamps(0, 2), stamps(2, 6))
    assert own_snapshots(table, OPERATION, branch_of(OPERATION)) == [2, 3]
    assert own_snapshots(table, "another", branch_of(OPERATION)) == []
    assert own_snapshots(table, OPERATION, "elsewhere") == [2]


FILL = BackfillColumn(name="to`tal", field_id=3, sql="`x` + 1")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (FILL, "coalesce(`to``tal`, CAST((`x` + 1) AS bigint)) AS `to``tal`"),
        (
            BackfillColumn(name="to`tal", field_id=3, sql="1", recompute=True, where="`x` > 0"),
            "CASE WHEN (`x` > 0) THEN CAST((1) AS bigint) ELSE `to``tal` END AS `to``tal`",
        ),
    ],
)
def test_values_as_sql(column: BackfillColumn, value: str) -> None:
    assert filled(["x", "to`tal"], {"to`tal": "bigint"}, Backfill(columns=(column,))) == ["`x` AS `x`", value]


def test_missing_values_as_sql() -> None:
    wanted = Backfill(columns=(FILL, BackfillColumn(name="y", field_id=4, sql="2", where="`x` > 0")))
    assert unfilled({"to`tal": "bigint", "y": "int"}, wanted) == (
        "(`to``tal` IS NULL AND CAST((`x` + 1) AS bigint) IS NOT NULL) OR "
        "((`x` > 0) AND `y` IS NULL AND CAST((2) AS int) IS NOT NULL)"
    )
