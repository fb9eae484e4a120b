"""Rewrites of existing files in a plan: what asks for one, what it takes along, what is upkeep, what is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
import pytest

from reconciler.dialects import dialect_for
from reconciler.diff.bind import bind
from reconciler.diff.diff import diff
from reconciler.model.indexes import index_properties
from reconciler.model.table import (
    Computed,
    DataFile,
    Desired,
    DesiredIndex,
    DesiredPartitionField,
    DesiredSortField,
    Direction,
    Nulls,
    Observed,
    PartitionField,
    Ref,
    RefKind,
    SortField,
    TableIdent,
    TableSpec,
    TableVersion,
)
from reconciler.model.types import Field, StructType
from reconciler.plan.built import Built, built_key, print_built, read_built
from reconciler.plan.data import branch_of, data_operations
from reconciler.plan.operations import AspectKind, Operation, OperationKind, Plan, Rewrite
from reconciler.plan.planner import plan, plan_offline
from reconciler.plan.rewrites import needs_layouts, rewrite_memory_after, rewritten_properties

IDENT = TableIdent(("sales",), "orders")
FIELDS = (
    Field(id=1, name="id", required=False, type="long"),
    Field(id=2, name="x", required=False, type="int"),
    Field(id=3, name="note", required=False, type="string"),
)
BUCKETS = (DesiredPartitionField(path=("id",), transform="bucket[4]"),)
LIVE_BUCKETS = (PartitionField(source_id=1, transform="bucket[4]", name="id_bucket_4"),)
BY_X = (DesiredSortField(path=("x",)),)
LIVE_BY_X = (SortField(source_id=2, transform="identity", direction=Direction.ASC, nulls=Nulls.FIRST),)
BLOOM = DesiredIndex(name="by_note", type="bloom", columns=(("note",),), rewrite_existing=True)
CURVE = DesiredIndex(name="both", type="zorder", columns=(("id",), ("x",)), rewrite_existing=True)
HEAD = 7


def file(path: str, *, spec: int = 0, order: int = 0, sequence: int = 1, deletes: bool = False) -> DataFile:
    return DataFile(
        path=path,
        size_bytes=100,
        rows=4,
        spec_id=spec,
        sort_order_id=order,
        sequence_number=sequence,
        has_deletes=deletes,
    )


OLD = (file("a"), file("b"))


def observed(
    *,
    partitioning: tuple[PartitionField, ...] = (),
    sort_order: tuple[SortField, ...] = (),
    memory: Mapping[str, str] = MappingProxyType({}),
    properties: Mapping[str, str] = MappingProxyType({}),
    refs: tuple[str, ...] = (),
    log: tuple[int, ...] = (HEAD,),
) -> Observed:
    return Observed(
        spec=TableSpec(
            ident=IDENT,
            schema=StructType(FIELDS),
            partitioning=partitioning,
            sort_order=sort_order,
            properties=properties,
            refs={name: Ref(name=name, kind=RefKind.BRANCH, snapshot_id=HEAD) for name in refs},
        ),
        version=TableVersion(
            uuid="u",
            schema_id=0,
            spec_id=1 if partitioning else 0,
            sort_order_id=1 if sort_order else 0,
            last_field_id=3,
            snapshot_id=log[-1] if log else None,
        ),
        bookkeeping={"laketable.owner": "me", "laketable.columns": "1-3", **memory},
        snapshot_log=tuple((i, id_) for i, id_ in enumerate(log)),
        snapshot_ids=frozenset(log),
    )


def wanted(**more: object) -> Desired:
    columns = StructType(tuple(msgspec.structs.replace(f, id=0) for f in FIELDS))
    indexes: tuple[DesiredIndex, ...] = more.get("indexes", ())  # type: ignore[assignment]
    base = Desired(ident=IDENT, owner="me", columns=columns, properties=index_properties(indexes))
    return msgspec.structs.replace(base, **more)


def planned(desired: Desired, current: Observed, files: tuple[DataFile, ...] = OLD) -> Plan:
    binding = bind(desired, current, now_ms=0)
    changes = diff(current.spec, binding.spec)
    return plan(desired, current, binding, changes, dialect=dialect_for(desired.format), catalog="lake", files=files)


def rewrite_of(made: Plan) -> Operation:
    (operation,) = (o for o in data_operations(made) if isinstance(o.work, Rewrite))
    return operation


def work_of(operation: Operation) -> Rewrite:
    assert isinstance(operation.work, Rewrite)
    return operation.work


def published(operation: Operation, *own: tuple[int, int], whole: int = HEAD) -> dict[str, str]:
    built = {aspect.name: Built(whole=whole, own=own) for aspect in work_of(operation).aspects}
    return rewritten_properties(work_of(operation), built)


# ---------------------------------------------------------------- layout


def test_without_the_wish_old_files_stay_and_the_plan_says_so() -> None:
    made = planned(wanted(partitioning=BUCKETS), observed())
    assert data_operations(made) == ()
    assert [f.message for f in made.findings if f.code == "LK501"]


def test_a_changed_layout_rewrites_every_file_and_no_file_keeps_it() -> None:
    made = planned(wanted(partitioning=BUCKETS, rewrite_existing=True), observed())
    assert [o.kind for o in made.operations] == [
        OperationKind.COMMIT,
        OperationKind.REWRITE,
        OperationKind.VALIDATE,
        OperationKind.PUBLISH,
    ]
    assert rewrite_of(made).cost.bytes_rewritten == 200
    assert not [f for f in made.findings if f.code == "LK501"]
    assert [n.evidence for n in made.notes] == ["existing files are rewritten"]


def test_the_id_survives_the_metadata_commit_and_ingest() -> None:
    desired = wanted(partitioning=BUCKETS, rewrite_existing=True)
    before = rewrite_of(planned(desired, observed()))
    noted = {built_key("layout"): print_built(Built())}
    after = observed(partitioning=LIVE_BUCKETS, memory=noted, log=(HEAD, 8))
    assert rewrite_of(planned(desired, after, (*OLD, file("c", spec=1)))).id == before.id
    hashes = {planned(desired, observed(log=log), files).hash for log, files in (((7,), OLD), ((7, 8), OLD[:1]))}
    assert len(hashes) == 1


def test_the_metadata_commit_notes_what_is_wanted_so_that_an_old_spec_back_again_is_no_dead_end() -> None:
    desired, current = wanted(partitioning=BUCKETS, rewrite_existing=True), observed()
    target = msgspec.structs.replace(current.spec, partitioning=LIVE_BUCKETS)
    noted = rewrite_memory_after(desired, current, target, diff(current.spec, target))
    assert noted == {built_key("layout"): "{}"}
    # Every file lies in the spec that came back; the job still finds its operation, and it costs nothing.
    there = observed(partitioning=LIVE_BUCKETS, memory={built_key("layout"): "{}"})
    operation = rewrite_of(planned(desired, there, (file("a", spec=1),)))
    assert operation.id == rewrite_of(planned(desired, current)).id
    assert operation.cost.files_rewritten == 0


def test_published_is_done_and_a_to_b_to_a_runs_three_times() -> None:
    ids, memory = [], dict[str, str]()
    layouts = [(BUCKETS, LIVE_BUCKETS), ((), ()), (BUCKETS, LIVE_BUCKETS)]
    for fields, live in layouts:
        desired = wanted(partitioning=fields, rewrite_existing=True)
        current = observed(partitioning=live, memory=memory)
        stale = (file("a", spec=9),)
        operation = rewrite_of(planned(desired, current, stale))
        ids.append(operation.id)
        memory = published(operation)
        done = observed(partitioning=live, memory=memory)
        assert planned(desired, done, (file("a", spec=current.version.spec_id, sequence=5),)).is_empty
    assert len(set(ids)) == 3


def test_a_table_that_is_as_it_should_be_needs_nothing() -> None:
    current = observed(partitioning=LIVE_BUCKETS, sort_order=LIVE_BY_X)
    desired = wanted(partitioning=BUCKETS, sort_order=BY_X, rewrite_existing=True)
    made = planned(desired, current, (file("a", spec=1, order=1),))
    assert made.operations == ()
    assert not [o for o in made.upkeep if o.work is not None]


@pytest.mark.parametrize(
    ("stale", "passes"),
    [
        pytest.param(file("a", spec=0, order=1), ["partition spec"], id="partition"),
        pytest.param(file("a", spec=1, order=0), ["sort order"], id="order"),
    ],
)
def test_files_tell_by_their_manifest_what_they_lack(stale: DataFile, passes: list[str]) -> None:
    desired = wanted(partitioning=BUCKETS, sort_order=BY_X, rewrite_existing=True)
    current = observed(partitioning=LIVE_BUCKETS, sort_order=LIVE_BY_X)
    operation = rewrite_of(planned(desired, current, (stale, file("b", spec=1, order=1))))
    assert operation.summary == f"rewrite existing files on a branch: {', '.join(passes)}"
    assert operation.cost.files_rewritten == 1


def test_what_others_brought_since_is_upkeep_and_neither_drift_nor_in_the_hash() -> None:
    desired = wanted(partitioning=BUCKETS, rewrite_existing=True)
    memory = published(rewrite_of(planned(desired, observed())))
    current = observed(partitioning=LIVE_BUCKETS, memory=memory, log=(HEAD, 8))
    files = (file("a", spec=1), file("b", spec=1), file("c", spec=0, sequence=9))
    made = planned(desired, current, files)
    assert made.is_empty
    (lag,) = (o for o in made.upkeep if o.work is not None)
    assert lag.summary == "2 of 3 files in the table's layout"
    assert lag.cost.files_rewritten == 1
    assert work_of(lag).aspects[0].round == 1


def test_manifests_are_read_only_when_main_moved() -> None:
    desired = wanted(partitioning=BUCKETS, rewrite_existing=True)
    memory = published(rewrite_of(planned(desired, observed())))
    there = observed(partitioning=LIVE_BUCKETS, memory=memory)
    assert not needs_layouts(desired, there, there.spec)
    assert needs_layouts(desired, there, observed().spec)
    assert needs_layouts(desired, observed(partitioning=LIVE_BUCKETS, memory=memory, log=(HEAD, 8)), there.spec)
    assert needs_layouts(desired, observed(partitioning=LIVE_BUCKETS), there.spec)
    plain = wanted(partitioning=BUCKETS)
    assert not needs_layouts(plain, observed(partitioning=LIVE_BUCKETS, log=(HEAD, 8)), there.spec)


def test_offline_only_a_change_of_the_manifest_rewrites() -> None:
    dialect = dialect_for(wanted().format)
    before = wanted(partitioning=BUCKETS, rewrite_existing=True, indexes=(BLOOM,))
    assert data_operations(plan_offline(before, before, dialect=dialect, now_ms=0)) == ()
    after = msgspec.structs.replace(before, sort_order=BY_X)
    (operation,) = data_operations(plan_offline(before, after, dialect=dialect, now_ms=0))
    assert operation.kind is OperationKind.REWRITE


def test_an_empty_table_remembers_with_its_metadata() -> None:
    desired, empty = wanted(partitioning=BUCKETS, rewrite_existing=True), observed(log=())
    assert data_operations(planned(desired, empty, ())) == ()
    after = rewrite_memory_after(desired, empty, empty.spec, ())
    built = read_built({k: v or "" for k, v in after.items()}, "layout")
    assert built is not None
    assert built.revision == 1


def test_what_is_no_longer_wanted_is_forgotten() -> None:
    current = observed(memory={built_key("layout"): print_built(Built(definition="x", revision=1))})
    assert rewrite_memory_after(wanted(), current, current.spec, ()) == {built_key("layout"): None}
    made = planned(wanted(), current)
    assert [o.summary for o in made.upkeep] == ["remember what existing files have"]


# ---------------------------------------------------------------- one pass


def test_several_wishes_and_a_backfill_are_one_pass_and_the_plan_says_what_it_saves() -> None:
    total = Field(id=0, name="total", required=False, type="long")
    base = wanted(partitioning=BUCKETS, sort_order=BY_X, rewrite_existing=True, indexes=(BLOOM,))
    desired = msgspec.structs.replace(
        base,
        columns=StructType((*base.columns.fields, total)),
        computed={("total",): Computed(expression="x * 2")},
    )
    made = planned(desired, observed(), (*OLD, file("c", deletes=True)))
    (operation,) = data_operations(made)
    work = work_of(operation)
    assert [a.kind for a in work.aspects] == [AspectKind.LAYOUT, AspectKind.BLOOM]
    assert work.backfill is not None
    assert [c.name for c in work.backfill.columns] == ["total"]
    assert operation.cost.files_rewritten == 3
    assert "partition spec, sort order, index by_note, deleted rows, values of total" in operation.summary
    assert "one pass instead of 5: saves" in operation.summary
    properties = published(operation)
    assert {"laketable.built.layout", "laketable.built.index.by_note", "laketable.computed.4"} == set(properties)


def test_a_backfill_under_way_goes_on_by_itself() -> None:
    total = Field(id=4, name="total", required=False, type="long")
    base = wanted()
    alone = msgspec.structs.replace(
        base,
        columns=StructType((*base.columns.fields, msgspec.structs.replace(total, id=0))),
        computed={("total",): Computed(expression="x * 2")},
    )
    (backfill,) = data_operations(planned(alone, observed()))
    both = msgspec.structs.replace(alone, partitioning=BUCKETS, rewrite_existing=True)
    made = planned(both, observed(refs=(branch_of(backfill.id),)))
    assert [o.kind for o in data_operations(made)] == [OperationKind.BACKFILL, OperationKind.REWRITE]
    assert data_operations(made)[0].id == backfill.id
    assert work_of(data_operations(made)[1]).backfill is None


def test_a_started_pass_is_resumed_and_its_branch_is_not_swept() -> None:
    desired = wanted(partitioning=BUCKETS, rewrite_existing=True)
    operation = rewrite_of(planned(desired, observed()))
    current = observed(partitioning=LIVE_BUCKETS, memory={built_key("layout"): "{}"}, refs=(branch_of(operation.id),))
    again = rewrite_of(planned(desired, current))
    assert again.id == operation.id
    assert again.resumes
    memory = published(operation)
    lag = observed(partitioning=LIVE_BUCKETS, memory=memory, log=(HEAD, 8))
    (behind,) = (o for o in planned(desired, lag, (file("c", sequence=9),)).upkeep if o.work is not None)
    held = observed(partitioning=LIVE_BUCKETS, memory=memory, log=(HEAD, 8), refs=(branch_of(behind.id),))
    made = planned(desired, held, (file("c", sequence=9),))
    assert not [o for o in made.upkeep if "given-up" in o.summary]
