"""Restores as plans: what comes back, at what cost, what stands against it, what the table then remembers."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.errors import RefNotFound, Unsupported
from reconciler.model import bookkeeping
from reconciler.model.bookkeeping import Bookkeeping, HistoryRecord
from reconciler.model.table import DataFile, Observed, TableSpec, TypeChange
from reconciler.model.types import StructType
from reconciler.plan.computed import UNKNOWN, computed_key, computed_memory, remembered
from reconciler.plan.computed import Remembered as Memory
from reconciler.plan.operations import Finding, Operation, OperationClass
from reconciler.plan.restore import memory_at, restore_id, restore_operation, snapshot_named
from reconciler.plan.table_work import Restore
from reconciler.plan.type_changes import Remembered as TwinMemory
from reconciler.plan.type_changes import encode
from reconciler.plan.type_changes import key as twin_key
from tests.diff.tables import field, managed, observed, spec, tag

LIVE = spec(field(1, "id", "long"), field(2, "x", "int"))
OLD = DataFile(path="old", size_bytes=100, rows=4, column_bytes={1: 50, 2: 50}, null_counts={1: 0, 2: 1})
SAME = DataFile(path="same", size_bytes=70, rows=2, column_bytes={1: 35, 2: 35}, null_counts={1: 0, 2: 0})
NEW = DataFile(path="new", size_bytes=30, rows=1)


def live(**memory: object) -> Observed:
    table = msgspec.structs.replace(LIVE, refs={"good": tag("good", 5)})
    return observed(table, managed(table, **memory), snapshots={1_000: 5, 2_000: 6, 3_000: 7})


def restored(
    current: Observed, before: tuple[DataFile, ...] = (SAME, NEW), after: tuple[DataFile, ...] = (SAME, OLD)
) -> tuple[Operation, tuple[Finding, ...]]:
    found = restore_operation(current, 5, before, after)
    assert found is not None
    return found


def test_only_what_differs_is_written_and_it_is_destructive() -> None:
    operation, findings = restored(live())
    assert findings == ()
    assert operation.operation_class is OperationClass.DESTRUCTIVE
    assert (operation.cost.files_rewritten, operation.cost.bytes_rewritten) == (1, 100)
    assert operation.summary.startswith("bring back the rows of snapshot 5")
    assert "undoes 2 commits after it" in operation.summary


def test_the_id_names_target_and_head() -> None:
    ids = {restore_id("u", Restore(target=t, head=h)) for t in (1, 2) for h in (3, 4)}
    assert len(ids | {restore_id("v", Restore(target=1, head=3))}) == 5


def test_row_deletes_on_either_side_count_as_a_difference() -> None:
    deleted = msgspec.structs.replace(SAME, has_deletes=True, deletes=("first",))
    more = msgspec.structs.replace(SAME, has_deletes=True, deletes=("first", "second"))
    assert restored(live(), (deleted,), (SAME,))[0].cost.files_rewritten == 1
    assert restored(live(), (SAME,), (deleted,))[0].cost.files_rewritten == 1
    assert restored(live(), (more,), (deleted,))[0].cost.files_rewritten == 1
    assert restore_operation(live(), 5, (SAME,), (SAME,)) is None
    assert restore_operation(live(), 5, (deleted,), (deleted,)) is None


def test_a_dropped_column_is_not_lost_silently() -> None:
    old = msgspec.structs.replace(OLD, column_bytes={1: 50, 2: 50, 9: 20})
    _, findings = restored(live(), (SAME,), (SAME, old))
    assert [found.code for found in findings] == ["LK219"]
    assert "field ids 9, 20 B" in findings[0].message


WITH_NOTE = spec(field(1, "id", "long"), field(2, "x", "int"), field(9, "note", "string")).schema


def unmeasured(schemas: dict[int, StructType], **about: object) -> list[str]:
    """Bring a file back that has no metrics of a column which was dropped since, and say why not."""
    current = observed(LIVE, managed(LIVE), snapshots={1_000: 5, 2_000: 7}, last_field_id=9)
    old = msgspec.structs.replace(OLD, **about)
    found = restore_operation(current, 5, (SAME,), (SAME, old), schemas=schemas)
    assert found is not None
    return [f"{finding.code} {finding.message}" for finding in found[1]]


def test_a_dropped_column_without_metrics_is_judged_by_the_schemas() -> None:
    (refused,) = unmeasured({5: WITH_NOTE})
    assert refused.startswith("LK219 1 column of that snapshot (field ids 9, without metrics)")
    assert unmeasured({5: LIVE.schema}) == []


def test_a_dropped_column_is_not_lost_when_the_file_cannot_have_it() -> None:
    assert unmeasured({5: WITH_NOTE}, null_counts={1: 0, 2: 1, 9: 4}) == []
    assert unmeasured({5: WITH_NOTE}, rows=0) == []
    assert unmeasured({5: WITH_NOTE, 4: LIVE.schema}, added_by=4) == []
    assert unmeasured({5: WITH_NOTE, 4: WITH_NOTE}, added_by=4) != []


def test_when_nothing_tells_the_snapshots_schema_every_former_column_counts() -> None:
    (refused,) = unmeasured({})
    assert "7 columns of that snapshot (field ids 3, 4, 5, 6, 7, 8, 9, without metrics)" in refused


# ---------------------------------------------------------------- type changes

BEFORE = spec(field(1, "id", "long"), field(2, "x", "string"))
AFTER = spec(field(1, "id", "long"), field(3, "x", "int"), field(2, "x__lt_old", "string"))
FILLED = msgspec.structs.replace(OLD, column_bytes={1: 50, 2: 50, 3: 20})
SWAPPED = encode(TwinMemory(new=3, to="int", rule=TypeChange(), swapped_ms=1_500))


def over_a_type_change(
    file: DataFile, past: StructType, *, table: TableSpec = AFTER, memory: str | None = SWAPPED
) -> list[Finding]:
    current = observed(AFTER, managed(AFTER), snapshots={1_000: 5, 2_000: 7})
    known = {**current.bookkeeping, **({twin_key(2): memory} if memory else {})}
    current = msgspec.structs.replace(current, bookkeeping=known)
    found = restore_operation(current, 5, (SAME,), (SAME, file), schema=table, schemas={5: past})
    assert found is not None
    return list(found[1])


def test_rows_from_before_a_type_change_would_be_null_and_are_refused() -> None:
    (refused,) = over_a_type_change(OLD, BEFORE.schema)
    assert (refused.code, refused.path) == ("LK219", ("x",))
    assert "1 file of that snapshot would bring values of x from before its type changed" in refused.message
    assert "in x__lt_old alone, and x would be NULL" in refused.message
    assert "Undo the type change first" in (refused.hint or "")
    twin = spec(field(1, "id", "long"), field(2, "x", "string"), field(3, "x__lt_new", "int"))
    assert over_a_type_change(OLD, twin.schema), "the twin was there, and not filled"


def test_rows_that_have_the_converted_value_come_back() -> None:
    assert over_a_type_change(FILLED, BEFORE.schema) == []
    assert over_a_type_change(OLD, AFTER.schema) == [], "a late writer's rows come back as they were"
    assert over_a_type_change(OLD, BEFORE.schema, table=BEFORE) == [], "the type change is undone with it"


def test_a_former_column_that_an_undo_brought_back_counts_without_memory() -> None:
    assert [f.code for f in over_a_type_change(OLD, BEFORE.schema, memory=None)] == ["LK219"]
    stranger = spec(field(1, "id", "long"), field(2, "x__lt_old", "string"))
    assert over_a_type_change(OLD, stranger.schema, memory=None) == []


def test_a_required_column_must_be_proven() -> None:
    required = msgspec.structs.replace(
        LIVE, schema=spec(field(1, "id", "long"), field(2, "x", "int", required=True)).schema
    )
    current = observed(required, managed(required), snapshots={1_000: 5, 2_000: 7})
    assert [found.code for found in restored(current)[1]] == ["LK220"]
    proven = msgspec.structs.replace(OLD, null_counts={1: 0, 2: 0})
    assert restored(current, after=(SAME, proven))[1] == ()


def test_a_view_is_refreshed_instead() -> None:
    current = live()
    view = msgspec.structs.replace(current, bookkeeping={**current.bookkeeping, "laketable.view": "{}"})
    with pytest.raises(Unsupported, match="refreshed, not restored"):
        restore_operation(view, 5, (SAME,), (OLD,))


@pytest.mark.parametrize(
    ("text", "snapshot"), [("good", 5), ("6", 6), ("1970-01-01T00:00:02Z", 6), ("1970-01-01T00:00:02.5Z", 6)]
)
def test_what_a_name_means(text: str, snapshot: int) -> None:
    assert snapshot_named(live(), text) == snapshot


@pytest.mark.parametrize("text", ["bad", "99", "1970-01-01T00:00:00Z", "yesterday"])
def test_what_it_does_not_mean(text: str) -> None:
    with pytest.raises(RefNotFound, match="tags: good"):
        snapshot_named(live(), text)


# ---------------------------------------------------------------- memory of computed columns

NOW = Memory(expression="b", text="tb", revision=4)


def record(published: int, before: Memory | None) -> HistoryRecord:
    said = computed_memory(before) if before else None
    return HistoryRecord(
        plan="p", time_ms=1, actor="x", kind="backfill", published_id=published, properties={computed_key(2): said}
    )


def computed(*history: HistoryRecord) -> Observed:
    current = live()
    memory = bookkeeping.write(Bookkeeping(history=history))
    properties = {**current.bookkeeping, **memory, computed_key(2): computed_memory(NOW)}
    return msgspec.structs.replace(current, bookkeeping=properties)


def after(current: Observed, target: int) -> Memory | None:
    return remembered(memory_at(current, target), 2)


def test_values_computed_since_are_forgotten_and_the_revision_goes_on() -> None:
    first = Memory(expression="a", text="ta", revision=3)
    assert after(computed(record(6, first)), 5) == Memory(expression="a", text="ta", revision=5)
    assert after(computed(record(6, first), record(7, NOW)), 5) == Memory(expression="a", text="ta", revision=5)


def test_a_first_backfill_taken_back_leaves_the_column_as_never_computed() -> None:
    assert after(computed(record(6, None)), 5) == Memory(expression="", revision=5)


def test_values_that_the_target_has_stay() -> None:
    assert after(computed(record(6, None)), 6) is None
    assert after(computed(), 5) is None


def test_when_history_has_forgotten_all_is_computed_again() -> None:
    full = tuple(HistoryRecord(plan=str(n), time_ms=n, actor="x", published_id=7) for n in range(20))
    found = after(computed(*full), 5)
    assert found is not None
    assert (found.expression, found.revision) == (UNKNOWN, 5)
