"""Upkeep by the clock: tags that follow main, due maintenance, stale branches."""

from __future__ import annotations

from datetime import datetime

import msgspec
import pytest

from reconciler.diff.changes import CreateRef, DropRef, MoveRef
from reconciler.model.bookkeeping import Approved, HistoryRecord, Tracked
from reconciler.model.maintenance import (
    DAY_MS,
    CompactFiles,
    ExpireSnapshots,
    Maintenance,
    RemoveOrphans,
    RewriteManifests,
)
from reconciler.model.table import DataFile, Desired, DesiredRef, Observed, Ref, RefKind
from reconciler.plan.data import branch_of, done_key
from reconciler.plan.maintenance import compactable, maintenance_operations, orphan_age_ms
from reconciler.plan.operations import Operation, OperationClass, Plan
from reconciler.plan.table_upkeep import with_table_upkeep
from reconciler.plan.table_work import Maintain, MaintenanceStep
from reconciler.plan.tracking import tracked_after
from tests.diff.tables import desired, field, managed, observed, spec, tag, wanted
from tests.plan.planning import codes, planned

LIVE = spec(field(1, "id", "int"))


def at(text: str) -> int:
    return int(datetime.fromisoformat(text + "+00:00").timestamp() * 1000)


NOON = at("2026-03-05T12:00:00")
NIGHTLY = DesiredRef(name="nightly", kind=RefKind.TAG, track="main", schedule="0 2 * * *")
HEADS = {at("2026-03-04T20:00:00"): 5, at("2026-03-05T01:00:00"): 6, at("2026-03-05T03:00:00"): 7}


def live(
    *, tagged: int = 5, put: int | None = 5, since: str = "2026-03-04T21:00:00", heads: dict[int, int] = HEADS
) -> Observed:
    memory = {} if put is None else {"nightly": Tracked(snapshot_id=put, time_ms=at(since))}
    table = msgspec.structs.replace(LIVE, refs={"nightly": tag("nightly", tagged)})
    return observed(table, managed(table, refs=frozenset({"nightly"}), tracked=memory), snapshots=heads)


def plan_of(current: Observed, now_ms: int = NOON, manifest: Desired | None = None) -> Plan:
    manifest = manifest or desired(wanted("id", "int"), refs=(NIGHTLY,))
    return with_table_upkeep(planned(manifest, current), manifest, current, now_ms=now_ms)


def moves(made: Plan) -> list[tuple[int, int]]:
    changes = [change for operation in made.upkeep for change in operation.changes]
    return [(c.before.snapshot_id, c.after.snapshot_id) for c in changes if isinstance(c, MoveRef)]


# ---------------------------------------------------------------- tags that follow main


def test_a_tick_moves_the_tag_to_what_main_was_at_that_tick() -> None:
    made = plan_of(live())
    assert made.is_empty
    assert moves(made) == [(5, 6)]
    assert made.hash == ""


@pytest.mark.parametrize(
    ("current", "now"),
    [
        pytest.param(live(), "2026-03-05T01:59:59", id="before-the-tick"),
        pytest.param(live(tagged=6, put=6, since="2026-03-05T02:00:01"), "2026-03-05T12:00:00", id="moved-at-it"),
        pytest.param(live(tagged=6, put=6), "2026-03-05T12:00:00", id="main-did-not-move"),
    ],
)
def test_nothing_is_due(current: Observed, now: str) -> None:
    assert moves(plan_of(current, at(now))) == []


def test_what_expired_since_the_tick_is_the_next_that_is_left() -> None:
    gone = msgspec.structs.replace(live(), snapshot_ids=frozenset({5, 7}))
    assert moves(plan_of(gone)) == [(5, 7)]


def test_a_tag_that_somebody_else_moved_is_a_finding_and_stays() -> None:
    made = plan_of(live(tagged=7, put=5))
    assert codes(made) == ["LK113"]
    assert moves(made) == []
    assert not made.is_blocked


def test_a_tag_that_was_there_before_us_is_remembered_first() -> None:
    made = plan_of(live(put=None))
    assert [o.summary for o in made.upkeep] == ["remember what this manifest manages"]
    assert codes(made) == []


def test_a_tag_that_is_made_anew_is_ours_again() -> None:
    memory = {"nightly": Tracked(snapshot_id=5, time_ms=1), "other": Tracked(snapshot_id=5, time_ms=1)}
    made = tracked_after(memory, (CreateRef(ref=tag("nightly", 7)), CreateRef(ref=tag("q3", 7))), now_ms=9)
    assert made == {"nightly": Tracked(snapshot_id=7, time_ms=9), "other": Tracked(snapshot_id=5, time_ms=1)}


# ---------------------------------------------------------------- maintenance

MAINTENANCE = Maintenance(
    expire=ExpireSnapshots(older_than_ms=7 * DAY_MS, keep=20),
    compact=CompactFiles(target_bytes=1000, min_files=2),
    manifests=RewriteManifests(),
    orphans=RemoveOrphans(older_than_ms=7 * DAY_MS),
)
KEPT = desired(wanted("id", "int"), maintenance=MAINTENANCE)


def steps(operations: tuple[Operation, ...]) -> list[str]:
    return [o.work.step.value for o in operations if isinstance(o.work, Maintain)]


def table(**memory: object) -> Observed:
    return observed(LIVE, managed(LIVE, **memory), snapshots=HEADS)


def done(current: Observed, *operations: Operation) -> Observed:
    properties = {done_key(operation): operation.id for operation in operations}
    return msgspec.structs.replace(current, bookkeeping={**current.bookkeeping, **properties})


def test_a_step_is_due_once_a_tick() -> None:
    first = maintenance_operations(KEPT, table(), now_ms=NOON)
    assert steps(first) == ["compact", "expire-snapshots", "rewrite-manifests", "remove-orphan-files"]
    after = done(table(), *first)
    assert maintenance_operations(KEPT, after, now_ms=NOON + 3_600_000) == ()
    assert steps(maintenance_operations(KEPT, after, now_ms=NOON + DAY_MS)) == ["compact", "expire-snapshots"]
    assert len({done_key(operation) for operation in first}) == 4


def test_maintenance_is_upkeep_with_its_own_classes_and_no_part_of_the_hash() -> None:
    made = plan_of(table(), manifest=KEPT)
    assert made.is_empty
    assert [o.operation_class for o in made.upkeep] == [
        OperationClass.REWRITE,
        OperationClass.DESTRUCTIVE,
        OperationClass.METADATA_ONLY,
        OperationClass.DESTRUCTIVE,
    ]
    changed = msgspec.structs.replace(KEPT, columns=desired(wanted("id", "int"), wanted("new")).columns)
    assert plan_of(table(), manifest=changed).upkeep == ()


def test_an_empty_table_needs_none() -> None:
    assert maintenance_operations(KEPT, observed(LIVE, managed(LIVE)), now_ms=NOON) == ()


def test_files_are_compacted_where_enough_small_ones_wait_in_one_partition() -> None:
    work = Maintain(step=MaintenanceStep.COMPACT, tick_ms=0, target_bytes=1000, min_files=2)
    files = [
        DataFile(path="a", size_bytes=10, rows=1, partition="x"),
        DataFile(path="b", size_bytes=20, rows=1, partition="x"),
        DataFile(path="c", size_bytes=10, rows=1, partition="y"),
        DataFile(path="d", size_bytes=900, rows=1, partition="x"),
        DataFile(path="e", size_bytes=10, rows=1, partition="x", spec_id=1),
    ]
    assert [file.path for file in compactable(files, work)] == ["a", "b"]
    (compact, *_) = maintenance_operations(KEPT, table(), now_ms=NOON, files=files)
    assert (compact.cost.files_rewritten, compact.cost.bytes_rewritten) == (2, 30)
    assert compact.summary == "compact 2 files into files of 1000 B"


@pytest.mark.parametrize(
    ("declared", "longest", "age"),
    [(DAY_MS, 0, 3 * DAY_MS), (5 * DAY_MS, 0, 5 * DAY_MS), (5 * DAY_MS, 4 * DAY_MS, 8 * DAY_MS)],
    ids=["three-days", "declared", "twice-the-longest-job"],
)
def test_how_old_an_orphan_is_at_least(declared: int, longest: int, age: int) -> None:
    ran = HistoryRecord(plan="p", time_ms=1, actor="x", kind="backfill", duration_ms=longest)
    assert orphan_age_ms(declared, table(history=(ran,))) == age


# ---------------------------------------------------------------- stale branches


def with_branches(current: Observed, **heads: int) -> Observed:
    refs = {name: Ref(name=name, kind=RefKind.BRANCH, snapshot_id=head) for name, head in heads.items()}
    return msgspec.structs.replace(current, spec=msgspec.structs.replace(current.spec, refs=refs))


def test_stale_branches_of_given_up_work_go_and_no_others() -> None:
    operation = "0123456789abcdef"
    kept = Approved(plan="p", actor="x", operations=(operation,))
    current = with_branches(table(approved=kept), **{branch_of("f" * 16): 5, branch_of(operation): 5, "lt_mine": 5})
    assert plan_of(current, manifest=desired(wanted("id", "int"))).upkeep == ()
    (sweep,) = plan_of(current, NOON + 8 * DAY_MS, manifest=desired(wanted("id", "int"))).upkeep
    assert [c.ref.name for c in sweep.changes if isinstance(c, DropRef)] == [branch_of("f" * 16)]
