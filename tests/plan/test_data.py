"""Computed columns in a plan: what is filled, under which id, at what cost, and what is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
import pytest

from reconciler.dialects import dialect_for
from reconciler.diff.bind import bind
from reconciler.diff.diff import diff
from reconciler.model.bookkeeping import COMMIT, HISTORY, HistoryRecord
from reconciler.model.table import (
    Computed,
    DataFile,
    Desired,
    DesiredPartitionField,
    Observed,
    Ref,
    RefKind,
    TableIdent,
    TableSpec,
    TableVersion,
)
from reconciler.model.types import Field, FieldPath, StructType, fields_of
from reconciler.plan.computed import fillers, memory_after, published_properties
from reconciler.plan.data import branch_of, data_operations, done_key, fill_operation
from reconciler.plan.operations import Backfill, How, Operation, OperationClass, OperationKind, Plan
from reconciler.plan.planner import plan
from reconciler.plan.policy import Outcome, judge

IDENT = TableIdent(("sales",), "orders")
BASE = (Field(id=1, name="id", required=False, type="long"), Field(id=2, name="x", required=False, type="int"))
TOTAL = Field(id=3, name="total", required=False, type="long")
FILES = (DataFile(path="a", size_bytes=100, rows=4), DataFile(path="b", size_bytes=50, rows=2, null_counts={3: 0}))


def observed(
    *fields: Field,
    snapshot: int | None = 7,
    refs: tuple[str, ...] = (),
    memory: Mapping[str, str] = MappingProxyType({}),
) -> Observed:
    return Observed(
        spec=TableSpec(
            ident=IDENT,
            schema=StructType(fields),
            refs={name: Ref(name=name, kind=RefKind.BRANCH, snapshot_id=7) for name in refs},
        ),
        version=TableVersion(
            uuid="u", schema_id=0, spec_id=0, sort_order_id=0, last_field_id=fields[-1].id, snapshot_id=snapshot
        ),
        bookkeeping={"laketable.owner": "me", "laketable.columns": "1-3", **memory},
        snapshot_ids=frozenset({7}),
    )


def wanted(expression: str = "x * 2", **more: object) -> Desired:
    columns = StructType(tuple(msgspec.structs.replace(f, id=0) for f in (*BASE, TOTAL)))
    computed = Computed(expression=expression, **{k: v for k, v in more.items() if k != "partitioning"})  # type: ignore[arg-type]
    return Desired(
        ident=IDENT,
        owner="me",
        columns=columns,
        computed={("total",): computed},
        partitioning=more.get("partitioning"),  # type: ignore[arg-type]
    )


def planned(desired: Desired, current: Observed) -> Plan:
    binding = bind(desired, current, now_ms=0)
    changes = diff(current.spec, binding.spec)
    dialect = dialect_for(desired.format)
    return plan(desired, current, binding, changes, dialect=dialect, catalog="lake", files=FILES)


def published(operation: Operation) -> dict[str, str]:
    """Return what the table remembers of a published backfill."""
    assert isinstance(operation.work, Backfill)
    return {**published_properties(operation.work), done_key(operation): operation.id}


def after(operation: Operation, *fields: Field) -> Observed:
    """Publish an operation."""
    return observed(*fields, memory=published(operation))


def test_a_new_column_is_added_then_filled_audited_and_published() -> None:
    made = planned(wanted(), observed(*BASE))
    assert [o.kind for o in made.operations] == [
        OperationKind.COMMIT,
        OperationKind.BACKFILL,
        OperationKind.VALIDATE,
        OperationKind.PUBLISH,
    ]
    assert made.operation_class is OperationClass.REWRITE
    (backfill,) = data_operations(made)
    assert backfill.cost.files_rewritten == 1  # b has no NULL in it
    assert [(way.how, way.cost.files_spliced) for way in backfill.ways] == [(How.SPLICE, 1)]
    assert isinstance(backfill.work, Backfill)
    assert [(c.field_id, c.sql, c.recompute) for c in backfill.work.columns] == [(3, "`x` * 2", False)]


def test_the_id_is_the_same_before_and_after_the_metadata_commit() -> None:
    (before,) = data_operations(planned(wanted(), observed(*BASE)))
    (later,) = data_operations(planned(wanted(), observed(*BASE, TOTAL)))
    assert before.id == later.id
    assert len(before.id) == 16


def test_what_was_published_is_not_done_again_and_a_changed_expression_is() -> None:
    ids, current = [], observed(*BASE, TOTAL)
    for expression in ("x * 2", "x * 3", "x * 2"):
        (operation,) = data_operations(planned(wanted(expression), current))
        ids.append(operation.id)
        current = after(operation, *BASE, TOTAL)
        assert planned(wanted(expression), current).operations == ()
    assert len(set(ids)) == 3


def test_other_white_space_is_no_other_expression() -> None:
    (operation,) = data_operations(planned(wanted(), observed(*BASE, TOTAL)))
    assert planned(wanted("x*2"), after(operation, *BASE, TOTAL)).operations == ()


W = Field(id=4, name="w", required=False, type="int")


def renaming(names: Mapping[str, str], expression: str) -> Desired:
    """Want live columns under other names; `names` are new to old."""
    former = {old: new for new, old in names.items()}
    fields = (msgspec.structs.replace(f, id=0, name=former.get(f.name, f.name)) for f in (*BASE, TOTAL, W))
    renames: dict[FieldPath, str] = {(new,): old for new, old in names.items()}
    computed: dict[FieldPath, Computed] = {("total",): Computed(expression=expression)}
    columns = StructType(tuple(fields))
    return Desired(ident=IDENT, owner="me", columns=columns, computed=computed, column_renames=renames)


def committed(desired: Desired, current: Observed) -> Observed:
    """Make the metadata commit of a plan, not its data operations."""
    target = bind(desired, current, now_ms=0).spec
    memory = memory_after(desired, current, target)
    kept = {key: value for key, value in {**current.bookkeeping, **memory}.items() if value is not None}
    return msgspec.structs.replace(observed(*target.schema.fields), bookkeeping=kept)


@pytest.fixture
def filled() -> Observed:
    """A table whose `total` holds `x * 2`."""
    live = observed(*BASE, TOTAL, W)
    (operation,) = data_operations(planned(renaming({}, "x * 2"), live))
    return msgspec.structs.replace(live, bookkeeping={**live.bookkeeping, **published(operation)})


@pytest.mark.parametrize("names", [{"y": "x"}, {"y": "x", "x": "w"}], ids=["renamed", "and its name given away"])
def test_an_expression_that_follows_a_renamed_column_fills_nothing(filled: Observed, names: dict[str, str]) -> None:
    desired = renaming(names, "y * 2")
    assert data_operations(planned(desired, filled)) == ()
    later = committed(desired, filled)
    assert planned(desired, later).is_empty
    assert planned(renaming({}, "x * 2"), filled).is_empty


def test_a_name_that_goes_to_another_column_fills_all_rows_also_after_the_metadata_commit(filled: Observed) -> None:
    desired = renaming({"y": "x", "x": "w"}, "x * 2")
    (operation,) = data_operations(planned(desired, filled))
    assert isinstance(operation.work, Backfill)
    assert [column.recompute for column in operation.work.columns] == [True]
    (left,) = data_operations(planned(desired, committed(desired, filled)))
    assert left.id == operation.id


def test_a_struct_that_grows_fills_nothing() -> None:
    before = Field(
        id=4, name="s", required=False, type=StructType((Field(id=5, name="a", required=False, type="int"),))
    )
    more = Field(id=6, name="b", required=False, type="int")
    after_ = msgspec.structs.replace(before, type=StructType((*fields_of(before.type), more)))
    small, large = (
        msgspec.structs.replace(wanted("size(array(s))"), columns=StructType((*BASE, TOTAL, struct)))
        for struct in (before, after_)
    )
    live = observed(*BASE, TOTAL, before)
    live = msgspec.structs.replace(live, version=msgspec.structs.replace(live.version, last_field_id=5))
    (operation,) = data_operations(planned(small, live))
    filled_ = msgspec.structs.replace(live, bookkeeping={**live.bookkeeping, **published(operation)})
    assert [o.kind for o in planned(large, filled_).operations] == [OperationKind.COMMIT]


def test_an_expression_that_changes_with_a_rename_fills_all_rows(filled: Observed) -> None:
    (operation,) = data_operations(planned(renaming({"y": "x"}, "y * 3"), filled))
    assert isinstance(operation.work, Backfill)
    assert [column.recompute for column in operation.work.columns] == [True]


@pytest.mark.parametrize("on_change", ["NewRows", "Ignore"])
def test_without_backfill_rows_stay_and_the_memory_is_upkeep(on_change: str) -> None:
    desired = wanted(on_change=on_change)
    current = observed(*BASE, TOTAL)
    made = planned(desired, current)
    assert made.operations == ()
    assert any("remember the expressions" in o.summary for o in made.upkeep)
    assert set(memory_after(desired, current, current.spec)) == {"laketable.computed.3"}


def test_an_empty_table_remembers_with_its_metadata() -> None:
    current = observed(*BASE, snapshot=None)
    made = planned(wanted(), current)
    assert [o.kind for o in made.operations] == [OperationKind.COMMIT]


def test_a_column_no_longer_computed_is_forgotten() -> None:
    current = observed(*BASE, TOTAL, memory={"laketable.computed.3": '{"expression":"x"}'})
    desired = msgspec.structs.replace(wanted(), computed={})
    assert memory_after(desired, current, current.spec) == {"laketable.computed.3": None}


def test_damaged_memory_counts_as_none() -> None:
    current = observed(*BASE, TOTAL, memory={"laketable.computed.3": "{"})
    assert len(data_operations(planned(wanted(), current))) == 1


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        pytest.param("reflect('java.lang.System', 'exit', 0)", "LK215", id="runs-java"),
        pytest.param("(select max(x) from other)", "LK215", id="subquery"),
        pytest.param("x; drop table sales.orders", "LK215", id="two-statements"),
        pytest.param("nothing + 1", "LK215", id="no-such-column"),
        pytest.param("rand() * x", "LK215", id="by-chance"),
        pytest.param("total + 1", "LK216", id="reads-itself"),
    ],
)
def test_what_must_not_run_blocks_the_plan(expression: str, code: str) -> None:
    made = planned(wanted(expression), observed(*BASE))
    assert made.is_blocked
    assert [f.code for f in made.findings if f.is_blocking] == [code]
    assert data_operations(made) == ()


def test_a_partition_source_is_not_computed() -> None:
    desired = wanted(partitioning=(DesiredPartitionField(path=("total",), transform="identity"),))
    made = planned(desired, observed(*BASE, TOTAL))
    assert "LK216" in [f.code for f in made.findings if f.is_blocking]


def test_started_work_goes_on_without_a_second_approval() -> None:
    (operation,) = data_operations(planned(wanted(), observed(*BASE)))
    fresh = planned(wanted(), observed(*BASE, TOTAL))
    resumed = planned(wanted(), observed(*BASE, TOTAL, refs=(branch_of(operation.id),)))
    outcomes = [judge(p, (), approvals=frozenset(), auto_approve=False, now_ms=0).outcome for p in (fresh, resumed)]
    assert outcomes == [Outcome.NEEDS_APPROVAL, Outcome.ALLOW]


def test_an_unfinished_fill_is_taken_up() -> None:
    (operation,) = data_operations(planned(wanted(), observed(*BASE, TOTAL)))
    current = after(operation, *BASE, TOTAL)
    fill = fill_operation(wanted(), current)
    assert fill is not None
    names = (branch_of(fill.id), "lt_0123456789abcdef", "lt_mine")
    left = msgspec.structs.replace(
        current,
        spec=msgspec.structs.replace(
            current.spec, refs={n: Ref(name=n, kind=RefKind.BRANCH, snapshot_id=7) for n in names}
        ),
    )
    made = planned(wanted(), left)
    assert [o.id for o in data_operations(made)] == [fill.id]


def test_only_backfills_of_the_present_expression_filled_a_column() -> None:
    first, anew = '{"expression":"a"}', '{"expression":"b"}'
    unknown = HistoryRecord(plan="p", time_ms=1, actor="x", kind="backfill", operation="old", properties=None)
    records = [
        made("other", "laketable.computed.4", None),
        made("first", "laketable.computed.3", None),
        made("anew", "laketable.computed.3", first),
        made("rewritten", "laketable.computed.3", anew, kind="rewrite"),
        made("filled", "laketable.computed.3", anew),
        made("", "laketable.owner", None, kind=COMMIT),
    ]
    assert fillers(remembering(anew, *records), 3) == {"anew", "filled"}
    assert fillers(remembering(anew, *records[:4], unknown, *records[4:]), 3) == {"filled"}
    assert fillers(remembering("", *records), 3) == frozenset()


def made(operation: str, key: str, before: str | None, *, kind: str = "backfill") -> HistoryRecord:
    return HistoryRecord(plan="p", time_ms=1, actor="x", kind=kind, operation=operation, properties={key: before})


def remembering(memory: str, *records: HistoryRecord) -> dict[str, str]:
    return {"laketable.computed.3": memory, HISTORY: msgspec.json.encode(records).decode()}
