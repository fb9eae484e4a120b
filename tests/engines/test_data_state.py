"""Where work stands on a table without rows: its branch starts from an empty snapshot of its own."""

from __future__ import annotations

from reconciler.engines.data_state import (
    CHUNK_STAMP,
    OPERATION_STAMP,
    ROOT_STAMP,
    SnapshotFacts,
    Step,
    TableFacts,
    position,
)
from reconciler.model.metadata import RefJson
from reconciler.model.table import RefKind
from reconciler.plan.data import branch_of
from reconciler.plan.operations import Operation, OperationClass, OperationKind

WORK = Operation(id="c0ffee00c0ffee00", kind=OperationKind.REFRESH, summary="", operation_class=OperationClass.REWRITE)
ROOT = SnapshotFacts(snapshot_id=1, summary={ROOT_STAMP: "true"})
CHUNK = SnapshotFacts(snapshot_id=2, parent_snapshot_id=1, summary={OPERATION_STAMP: WORK.id, CHUNK_STAMP: "00"})
FOREIGN = SnapshotFacts(snapshot_id=9)


def facts(*snapshots: SnapshotFacts, **refs: int) -> TableFacts:
    return TableFacts(
        table_uuid="9c5b",
        format_version=2,
        current_schema_id=0,
        default_spec_id=0,
        refs={name: RefJson(snapshot_id=at, type=RefKind.BRANCH) for name, at in refs.items()},
        snapshots=snapshots,
    )


def test_it_goes_from_nothing_to_rows() -> None:
    branch = branch_of(WORK.id)
    assert position(facts(), WORK).step is Step.CREATE_BRANCH
    begun = position(facts(ROOT, **{branch: 1}), WORK)
    assert (begun.step, begun.base, begun.chunks, begun.is_current) == (Step.WRITE, 1, (), True)
    written = position(facts(ROOT, CHUNK, **{branch: 2}), WORK)
    assert (written.step, written.base, written.chunks, written.is_current) == (Step.WRITE, 1, (2,), True)
    assert position(facts(ROOT, CHUNK, main=2), WORK).step is Step.RECORD


def test_rows_that_somebody_wrote_meanwhile_start_it_over() -> None:
    assert position(facts(ROOT, CHUNK, FOREIGN, main=9, **{branch_of(WORK.id): 2}), WORK).step is Step.START_OVER


def test_control_an_empty_snapshot_of_others_is_no_root() -> None:
    foreign = SnapshotFacts(snapshot_id=1)
    assert position(facts(foreign, CHUNK, **{branch_of(WORK.id): 2}), WORK).step is Step.START_OVER
