"""What LakeTable remembers in a table's properties."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.model.bookkeeping import (
    COLUMNS,
    HISTORY,
    KEYS,
    PINS,
    PROPERTIES,
    REFS,
    Approved,
    Bookkeeping,
    HistoryRecord,
    OwnershipChange,
    Tracked,
    append_history,
    managed_after,
    managed_columns,
    ownership_change,
    read,
    restored,
    write,
)
from reconciler.model.table import DesiredRef, RefKind
from tests.diff.tables import NOW_MS, OWNER, desired, field, list_of, map_of, spec, struct, tag, wanted

RECORD = HistoryRecord(plan="sha256:" + "0" * 64, time_ms=1_790_000_000_000, actor="ci", schema_id=3, spec_id=0)
FULL = Bookkeeping(
    owner="sales/orders",
    columns=frozenset({1, 2, 3, 4, 5, 6, 9}),
    properties=frozenset({"write.format.default", "b"}),
    refs=frozenset({"q3-close"}),
    pins={"q3-close": 5},
    tracked={"nightly": Tracked(snapshot_id=7, time_ms=8)},
    approved=Approved(plan=RECORD.plan, actor="ci", operations=("0123456789abcdef",), needs=(7,)),
    history=(RECORD,),
)


def test_memory_is_written_so_that_people_can_read_it() -> None:
    written = write(FULL)
    assert written[COLUMNS] == "1-6,9"
    assert written[PROPERTIES] == '["b","write.format.default"]'
    assert set(written) == set(KEYS)
    assert read(written) == FULL


def test_nothing_to_remember_is_not_written() -> None:
    assert write(Bookkeeping()) == {}
    assert read({}) == Bookkeeping()
    assert read({"laketable.computed.4": "{}"}) == Bookkeeping()


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (COLUMNS, "1-"),
        (COLUMNS, "x"),
        (COLUMNS, "6-1"),
        (COLUMNS, "0"),
        (COLUMNS, "-3"),
        (COLUMNS, "1-2000000000"),
        (PROPERTIES, "a,b"),
        (PROPERTIES, '{"a":1}'),
        (REFS, "[1]"),
        (PINS, '{"t":"x"}'),
        (HISTORY, "[{}]"),
        (HISTORY, "["),
    ],
)
def test_damaged_values_count_as_absent(key: str, text: str) -> None:
    values = {**write(FULL), key: text}
    whole = {k: v for k, v in write(FULL).items() if k != key}
    assert read(values) == read(whole)


def test_history_keeps_the_last_twenty() -> None:
    kept = FULL
    for time_ms in range(50):
        kept = append_history(kept, msgspec.structs.replace(RECORD, time_ms=time_ms))
    assert [record.time_ms for record in kept.history] == list(range(30, 50))
    assert kept.columns == FULL.columns


def test_history_stays_within_eight_kib() -> None:
    large = msgspec.structs.replace(RECORD, properties={"k": "v" * 900})
    kept = FULL
    for _ in range(20):
        kept = append_history(kept, large)
    assert 1 < len(kept.history) < 20
    assert len(write(kept)[HISTORY]) <= 8 * 1024


def test_large_before_values_are_not_kept() -> None:
    small, large = {"a": None, "b": "1"}, {"a": "x" * 2000}
    assert append_history(FULL, msgspec.structs.replace(RECORD, properties=small)).history[-1].properties == small
    assert append_history(FULL, msgspec.structs.replace(RECORD, properties=large)).history[-1].properties is None


LIVE = spec(
    field(1, "s", struct(field(2, "x"), field(3, "theirs"))),
    field(4, "l", list_of("int", 5)),
    field(6, "m", map_of("int", struct(field(9, "v")), 7, 8)),
    field(10, "also theirs"),
    properties={"ours": "1", "theirs": "1", "once ours": "1"},
    refs={"t": tag("t", 1), "theirs": tag("theirs", 1), "once ours": tag("once ours", 1)},
)
MANIFEST = desired(
    wanted("s", struct(wanted("x"))),
    wanted("l", list_of("int")),
    wanted("m", map_of("int", struct(wanted("v")))),
    properties={"ours": "1", "not there": "1"},
    refs=(
        DesiredRef(name="t", kind=RefKind.TAG, as_of_ms=5),
        DesiredRef(name="waits", kind=RefKind.TAG, as_of_ms=NOW_MS + 1),
    ),
)


def test_memory_after_a_plan_holds_what_the_manifest_names() -> None:
    after = managed_after(MANIFEST, LIVE, Bookkeeping(history=(RECORD,)), now_ms=NOW_MS)
    assert after == Bookkeeping(
        owner=OWNER,
        columns=frozenset({1, 2, 4, 5, 6, 7, 8, 9}),
        properties=frozenset({"ours"}),
        refs=frozenset({"t"}),
        pins={"t": 5},
        history=(RECORD,),
    )


def test_what_was_ours_and_is_still_there_stays_ours() -> None:
    memory = Bookkeeping(
        columns=frozenset({3, 99}), properties=frozenset({"once ours", "gone"}), refs=frozenset({"once ours", "gone"})
    )
    after = managed_after(MANIFEST, LIVE, memory, now_ms=NOW_MS)
    assert 3 in after.columns
    assert 99 not in after.columns
    assert 10 not in after.columns
    assert after.properties == {"ours", "once ours"}
    assert after.refs == {"t", "once ours"}


def test_a_time_in_the_future_is_not_pinned() -> None:
    later = desired(refs=(DesiredRef(name="t", kind=RefKind.TAG, as_of_ms=NOW_MS + 1),))
    assert managed_after(later, LIVE, Bookkeeping(), now_ms=NOW_MS).pins == {}
    pinned = {"t": NOW_MS + 1}
    assert managed_after(later, LIVE, Bookkeeping(pins=pinned), now_ms=NOW_MS).pins == pinned


def test_refs_that_are_not_stated_keep_their_pins() -> None:
    after = managed_after(desired(), LIVE, Bookkeeping(pins={"t": 7, "gone": 8}), now_ms=NOW_MS)
    assert after.pins == {"t": 7}


def test_the_columns_can_be_read_alone() -> None:
    assert managed_columns(write(FULL)) == FULL.columns


def test_of_upkeep_only_the_last_record_of_a_kind_stays_and_plans_are_never_crowded_out() -> None:
    kept = Bookkeeping(history=(RECORD,))
    for day in range(30):
        for kind in ("compact", "expire-snapshots"):
            record = HistoryRecord(plan="", time_ms=day, actor="cron", kind=kind, operation=f"{day:016x}")
            kept = append_history(kept, record)
    assert [(r.kind, r.time_ms) for r in kept.history] == [
        ("commit", RECORD.time_ms),
        ("compact", 29),
        ("expire-snapshots", 29),
    ]


# ---------------------------------------------------------------- after an undo

BEFORE = Bookkeeping(columns=frozenset({1, 2}), properties=frozenset({"ours"}))
AFTER = Bookkeeping(columns=frozenset({1, 4}), properties=frozenset({"theirs"}))
PAST = spec(field(1, "id"), field(2, "note"), field(3, "strange"), properties={"ours": "1", "theirs": "111"})
NOW = spec(field(1, "id"), field(4, "added"), properties={"theirs": "222"})


def told(before: Bookkeeping, after: Bookkeeping) -> HistoryRecord:
    return msgspec.structs.replace(RECORD, ownership=ownership_change(before, after))


@pytest.mark.parametrize(
    "undone",
    [
        pytest.param((told(BEFORE, AFTER),), id="one plan"),
        pytest.param((told(BEFORE, FULL), told(FULL, AFTER)), id="two plans"),
        pytest.param((told(BEFORE, AFTER), msgspec.structs.replace(RECORD, kind="backfill")), id="a data operation"),
    ],
)
def test_undo_gives_back_what_was_ours_and_no_more(undone: tuple[HistoryRecord, ...]) -> None:
    after = restored(AFTER, PAST, NOW, undone)
    assert (after.columns, after.properties) == (BEFORE.columns, BEFORE.properties)


def test_records_that_tell_no_ownership_make_ours_what_came_back() -> None:
    after = restored(AFTER, PAST, NOW, (RECORD, told(BEFORE, AFTER)))
    assert after.columns == {1, 2, 3}
    assert after.properties == {"ours", "theirs"}


def test_a_damaged_or_huge_change_of_ownership_costs_nothing() -> None:
    damaged = msgspec.structs.replace(RECORD, ownership=OwnershipChange(lost_columns="1-2000000000"))
    assert restored(AFTER, PAST, NOW, (damaged,)).columns == {1}
    huge = Bookkeeping(properties=frozenset(f"property.{number}" for number in range(200)))
    assert append_history(Bookkeeping(), told(Bookkeeping(), huge)).history == (RECORD,)
