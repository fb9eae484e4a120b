"""Indexes in a plan: what builds them, what they lag behind, what was counted."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.model.table import (
    Computed,
    DesiredIndex,
    Observed,
)
from reconciler.model.types import Field, StructType
from reconciler.plan.built import MAX_RANGES, ranges_of
from reconciler.plan.data import data_operations
from reconciler.plan.operations import Fidelity, OperationKind
from tests.plan.test_rewrites import (
    BLOOM,
    BUCKETS,
    CURVE,
    HEAD,
    LIVE_BUCKETS,
    OLD,
    file,
    observed,
    planned,
    published,
    rewrite_of,
    wanted,
    work_of,
)


def test_a_bloom_index_is_a_property_and_inexact() -> None:
    index = msgspec.structs.replace(BLOOM, rewrite_existing=False, properties={"fpp": "0.05"})
    made = planned(wanted(indexes=(index,)), observed())
    notes = {n.change.key: n for n in made.notes}  # type: ignore[union-attr]
    assert set(notes) == {
        "write.parquet.bloom-filter-enabled.column.note",
        "write.parquet.bloom-filter-fpp.column.note",
    }
    note = notes["write.parquet.bloom-filter-enabled.column.note"]
    assert note.fidelity is Fidelity.INEXACT
    assert data_operations(made) == ()


def test_files_that_came_after_an_index_was_built_are_counted() -> None:
    desired = wanted(indexes=(BLOOM,))
    operation = rewrite_of(planned(desired, observed()))
    memory = published(operation, (4, 5), (8, 8))
    current = observed(memory=memory, properties=desired.properties, log=(HEAD, 8, 9))
    files = (file("a", sequence=5), file("own", sequence=8), file("theirs", sequence=7), file("later", sequence=9))
    made = planned(desired, current, files)
    assert made.is_empty
    (lag,) = (o for o in made.upkeep if o.work is not None)
    assert lag.summary == "index by_note: indexed 2 of 4 files, later ones are looked into"


def test_after_main_went_back_older_files_count_as_without() -> None:
    desired = wanted(indexes=(CURVE,))
    memory = published(rewrite_of(planned(desired, observed())), (5, 6))
    back = observed(memory=memory, log=(6, HEAD, 6))
    (lag,) = (o for o in planned(desired, back, (file("a", sequence=3),)).upkeep if o.work is not None)
    assert lag.summary == "index both: indexed 0 of 1 file"


@pytest.mark.parametrize(
    ("numbers", "ranges"),
    [
        pytest.param({3, 1, 2, 7}, ((1, 3), (7, 7)), id="runs"),
        pytest.param({0}, (), id="format-1"),
        pytest.param(set(range(2, 2 * MAX_RANGES + 4, 2)), MAX_RANGES, id="too-many"),
    ],
)
def test_sequence_numbers_are_kept_as_ranges(numbers: set[int], ranges: object) -> None:
    found = ranges_of(numbers)
    assert (len(found) if isinstance(ranges, int) else found) == ranges
    assert not numbers or not found or found[-1][1] == max(numbers)


def test_a_backfill_hands_indexes_on_that_no_manifest_tells() -> None:
    memory = published(rewrite_of(planned(wanted(indexes=(CURVE,)), observed())))
    base = wanted(indexes=(CURVE,))
    desired = msgspec.structs.replace(
        base,
        columns=StructType((*base.columns.fields, Field(id=0, name="total", required=False, type="long"))),
        computed={("total",): Computed(expression="x * 2")},
    )
    operation = rewrite_of(planned(desired, observed(memory=memory), OLD))
    assert work_of(operation).aspects[0].round == 1
    assert sum(way.cost.files_spliced for way in operation.ways) == 2  # nothing is laid out anew for it


@pytest.mark.parametrize(
    ("index", "code"),
    [
        pytest.param(DesiredIndex(name="t", type="inverted", columns=(("note",),)), "LK225", id="no-such-index"),
        pytest.param(msgspec.structs.replace(CURVE, rewrite_existing=False), "LK226", id="never-built"),
    ],
)
def test_indexes_that_come_to_nothing_are_found(index: DesiredIndex, code: str) -> None:
    made = planned(wanted(indexes=(index,)), observed())
    assert code in [f.code for f in made.findings]
    assert made.is_blocked is (code == "LK225")


COUNTED = DesiredIndex(name="values", type="ndv", columns=(("x",),))


def counted(**more: object) -> Observed:
    return msgspec.structs.replace(observed(), **more)


def test_columns_never_counted_are_work_of_the_plan() -> None:
    made = planned(wanted(indexes=(COUNTED,)), observed())
    (operation,) = data_operations(made)
    assert operation.kind is OperationKind.COUNT
    assert operation.summary == "count distinct values of x"
    assert made.hash == planned(wanted(indexes=(COUNTED,)), observed(log=(HEAD, 8))).hash


@pytest.mark.parametrize(
    ("current", "upkeep"),
    [
        pytest.param(counted(counted={HEAD: frozenset({2, 3})}), 0, id="counted"),
        pytest.param(counted(counted={6: frozenset({2})}), 1, id="of-a-former-snapshot"),
    ],
)
def test_what_the_metadata_says_was_counted_counts(current: Observed, upkeep: int) -> None:
    made = planned(wanted(indexes=(COUNTED,)), current)
    assert made.is_empty
    assert len([o for o in made.upkeep if o.work is not None]) == upkeep


def test_a_partitioned_table_counts_partitions_too() -> None:
    current = msgspec.structs.replace(observed(partitioning=LIVE_BUCKETS), counted={HEAD: frozenset({2})})
    desired = wanted(partitioning=BUCKETS, indexes=(COUNTED,))
    assert [o.kind for o in data_operations(planned(desired, current))] == [OperationKind.COUNT]
    current = msgspec.structs.replace(current, counted_partitions=frozenset({HEAD}))
    assert planned(desired, current).is_empty
