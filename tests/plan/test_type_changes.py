"""Type changes in a plan: what a manifest means at each point, recognised from the table alone."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.dialects import dialect_for
from reconciler.diff.apply import apply
from reconciler.diff.bind import bind
from reconciler.diff.diff import diff
from reconciler.model.bookkeeping import managed_after, read, write
from reconciler.model.table import (
    Computed,
    Desired,
    DesiredPartitionField,
    Observed,
    PartitionField,
    TableSpec,
    TypeChange,
)
from reconciler.model.types import Field, StructType
from reconciler.plan.computed import COMPUTED_PREFIX, memory_after, published_properties
from reconciler.plan.conversions import conversion
from reconciler.plan.data import fill_operation
from reconciler.plan.operations import Backfill, Operation, OperationClass, OperationKind, Plan
from reconciler.plan.planner import plan
from reconciler.plan.row_work import Swap, Validate
from reconciler.plan.swaps import swapped_spec
from reconciler.plan.type_changes import NEW, OLD, expand, key, memories, type_memory_after
from reconciler.sql.refusals import RefusedSql
from tests.diff.tables import NOW_MS, desired, field, managed, observed, spec, struct, wanted
from tests.plan.planning import blocking, codes
from tests.sql.samples import HOSTILE

LIVE = spec(field(1, "id", "long"), field(2, "amount", "string", doc="Net"), field(3, "note"))
WEEK = TypeChange().keep_old_ms


def manifest(to: str = "decimal(18,2)", *, required: bool = False, **more: object) -> Desired:
    rule = more.pop("rule", TypeChange())
    columns = (wanted("id", "long"), wanted("amount", to, required=required), wanted("note"))
    return msgspec.structs.replace(desired(*columns), type_changes={"amount": rule}, **more)


def live(table: TableSpec = LIVE, *, rows: bool = True) -> Observed:
    return observed(table, managed(table), snapshots={500: 7} if rows else None)


def planned(wish: Desired, current: Observed, *, now_ms: int = NOW_MS) -> Plan:
    types = expand(wish, current, now_ms=now_ms)
    binding = bind(types.desired, current, now_ms=now_ms)
    changes = diff(current.spec, binding.spec)
    dialect = dialect_for(wish.format)
    return plan(types.desired, current, binding, changes, dialect=dialect, catalog="lake", files=(), types=types)


def kinds(made: Plan) -> list[str]:
    return [operation.kind.value for operation in made.operations]


def swap_of(made: Plan) -> Operation:
    return next(o for o in made.operations if isinstance(o.work, Swap))


def committed(wish: Desired, current: Observed, target: TableSpec, *, now_ms: int = NOW_MS) -> Observed:
    """What the pipeline's commit of a target leaves: the schema, and the memory that rides along."""
    meant = expand(wish, current, now_ms=now_ms).desired
    memory: dict[str, str | None] = dict(memory_after(meant, current, target))
    memory |= type_memory_after(wish, current, target, is_undo=False, now_ms=now_ms)
    kept = {k: v for k, v in {**current.bookkeeping, **memory}.items() if v is not None}
    ours = write(managed_after(meant, target, read(current.bookkeeping), now_ms=now_ms))
    last = max(current.version.last_field_id, *(f.id for f in target.schema.fields))
    version = msgspec.structs.replace(current.version, last_field_id=last, schema_id=current.version.schema_id + 1)
    return msgspec.structs.replace(current, spec=target, version=version, bookkeeping={**kept, **ours})


def step(wish: Desired, current: Observed, *, now_ms: int = NOW_MS) -> Observed:
    """Carry out the next thing a plan asks for, as the machine would."""
    made = planned(wish, current, now_ms=now_ms)
    assert not made.is_blocked, made.findings
    if made.changes:
        target = apply(current.spec, made.changes, last_field_id=current.version.last_field_id)
        return committed(wish, current, target, now_ms=now_ms)
    work = made.operations[0].work
    if isinstance(work, Backfill):
        return msgspec.structs.replace(current, bookkeeping={**current.bookkeeping, **published_properties(work)})
    assert isinstance(work, Swap)
    return committed(wish, current, swapped_spec(current.spec, work), now_ms=now_ms)


def through(wish: Desired, current: Observed, *, now_ms: int = NOW_MS) -> list[Observed]:
    """Step until nothing is left to do."""
    states = [current]
    while planned(wish, states[-1], now_ms=now_ms).operations:
        states.append(step(wish, states[-1], now_ms=now_ms))
        assert len(states) < 10
    return states


def fields(current: Observed) -> list[tuple[int, str, object]]:
    return [(f.id, f.name, f.type) for f in current.spec.schema.fields]


# ---------------------------------------------------------------- phases


def test_the_whole_way_is_one_plan_and_every_phase_plans_the_rest_under_the_same_ids() -> None:
    states = through(manifest(), live())
    plans = [planned(manifest(), state) for state in states]
    assert [kinds(made) for made in plans] == [
        ["validate", "commit", "backfill", "validate", "publish", "swap"],
        ["backfill", "validate", "publish", "swap"],
        ["swap"],
        [],
    ]
    assert plans[0].operation_class is OperationClass.REWRITE
    assert plans[0].is_breaking
    assert len({swap_of(made).id for made in plans[:3]}) == 1
    assert len({o.id for made in plans[:2] for o in made.operations if o.kind is OperationKind.BACKFILL}) == 1


def test_the_twin_takes_name_place_and_doc_and_the_former_column_stays_behind_until_its_date() -> None:
    *_, begun, _, done = through(manifest(), live())
    assert fields(begun)[-1] == (4, f"amount{NEW}", "decimal(18,2)")
    assert fields(done) == [
        (1, "id", "long"),
        (4, "amount", "decimal(18,2)"),
        (3, "note", "string"),
        (2, f"amount{OLD}", "string"),
    ]
    assert done.spec.schema.fields[1].doc == "Net"
    memory = memories(done.bookkeeping)[2]
    assert (memory.new, memory.swapped_ms) == (4, NOW_MS)
    assert f"{COMPUTED_PREFIX}4" not in done.bookkeeping
    waiting = planned(manifest(), done, now_ms=NOW_MS + WEEK - 1)
    assert waiting.is_empty
    assert [o.kind.value for o in waiting.upkeep] == ["maintain"]
    due = planned(manifest(), done, now_ms=NOW_MS + WEEK)
    assert kinds(due) == ["validate", "commit"]
    assert due.operation_class is OperationClass.DESTRUCTIVE
    (gone,) = through(manifest(), done, now_ms=NOW_MS + WEEK)[1:]
    assert fields(gone) == fields(done)[:3]
    assert memories(gone.bookkeeping) == {}


def test_keep_old_for_may_be_changed_while_it_waits() -> None:
    done = through(manifest(), live())[-1]
    longer = manifest(rule=TypeChange(keep_old_ms=10 * WEEK))
    assert planned(longer, done, now_ms=NOW_MS + WEEK).is_empty


def test_without_the_section_the_former_column_still_leaves_on_its_date() -> None:
    done = through(manifest(), live())[-1]
    plain = msgspec.structs.replace(manifest(), type_changes={})
    assert planned(plain, done).is_empty
    assert planned(plain, done, now_ms=NOW_MS + WEEK).operation_class is OperationClass.DESTRUCTIVE


def test_a_to_b_to_a_converts_three_times_beside_what_is_kept() -> None:
    state = live()
    for wish in (manifest(), manifest("string"), manifest()):
        state = through(wish, state)[-1]
    kept = {name: type_ for _, name, type_ in fields(state) if OLD in name}
    assert sorted(kept.values()) == ["decimal(18,2)", "string", "string"]  # type: ignore[type-var]
    assert {name: type_ for _, name, type_ in fields(state)}["amount"] == "decimal(18,2)"
    assert fields(through(manifest(), state, now_ms=NOW_MS + WEEK)[-1]) == [
        (1, "id", "long"),
        (6, "amount", "decimal(18,2)"),
        (3, "note", "string"),
    ]


def test_back_to_the_former_type_on_the_day_the_former_column_leaves_is_no_rename() -> None:
    done = through(manifest(), live())[-1]
    back = through(manifest("string"), done, now_ms=NOW_MS + WEEK)[-1]
    assert {name: type_ for _, name, type_ in fields(back)} == {
        "id": "long",
        "amount": "string",
        "note": "string",
        f"amount{OLD}": "decimal(18,2)",
    }


def test_what_is_added_on_that_day_is_suspected_only_for_what_the_author_drops() -> None:
    done = through(manifest(), live())[-1]

    def with_columns(*names: str) -> Desired:
        more = tuple(wanted(name) for name in names)
        columns = StructType((*manifest().columns.fields[:2], *more))
        return msgspec.structs.replace(manifest(), columns=columns)

    added = planned(with_columns("note", "remark"), done, now_ms=NOW_MS + WEEK)
    assert not added.is_blocked
    assert "LK104" not in codes(added)
    assert "LK104" in codes(planned(with_columns("remark"), done, now_ms=NOW_MS + WEEK))


def test_a_twin_of_another_type_is_given_up_first() -> None:
    begun = through(manifest(), live())[1]
    made = planned(manifest("double"), begun)
    assert kinds(made) == ["commit"]
    assert "LK223" in codes(made)
    assert fields(through(manifest("double"), begun)[-1])[1] == (5, "amount", "double")


def test_giving_up_drops_the_twin_and_leaves_the_column() -> None:
    begun = through(manifest(), live())[1]
    plain = msgspec.structs.replace(manifest("string"), type_changes={})
    assert fields(through(plain, begun)[-1]) == fields(live())


def test_a_renamed_column_keeps_its_twin_and_its_former_self() -> None:
    wish = manifest()
    columns = tuple(msgspec.structs.replace(f, name="net") if f.name == "amount" else f for f in wish.columns.fields)
    renamed = msgspec.structs.replace(
        wish,
        columns=struct(*columns),
        column_renames={("net",): "amount"},
        type_changes={"net": TypeChange()},
    )
    for state in through(wish, live()):
        end = through(renamed, state)[-1]
        names = {name: id_ for id_, name, _ in fields(end)}
        assert names["net"] == 4
        assert any(id_ == 2 for id_, name, _ in fields(end) if OLD in name)


def test_what_the_format_widens_by_itself_needs_no_twin() -> None:
    table = spec(field(1, "id", "long"), field(2, "amount", "int"), field(3, "note"))
    made = planned(manifest("long"), live(table))
    assert kinds(made) == ["commit"]
    assert blocking(made) == []


def test_an_empty_table_needs_no_scan() -> None:
    made = planned(manifest(), live(rows=False))
    assert kinds(made) == ["commit", "swap"]


def test_a_required_column_is_optional_while_it_is_kept() -> None:
    table = spec(field(1, "id", "long"), field(2, "amount", "string", required=True), field(3, "note"))
    wish = manifest(required=True)
    done = through(wish, live(table))[-1]
    required = {f.name: f.required for f in done.spec.schema.fields}
    assert required == {"id": False, "amount": True, "note": False, f"amount{OLD}": False}


def test_a_default_is_of_the_converted_column_only() -> None:
    former = msgspec.structs.replace(field(2, "amount", "string"), write_default="0")
    table = spec(field(1, "id", "long"), former, field(3, "note"), format_version=3)
    wish = manifest("int", defaults_stated=frozenset({("amount",)}))
    columns = tuple(
        msgspec.structs.replace(f, write_default=7, initial_default=7) if f.name == "amount" else f
        for f in wish.columns.fields
    )
    states = through(msgspec.structs.replace(wish, columns=struct(*columns)), live(table))
    assert states[1].spec.schema.fields[-1].initial_default is None, "rows without a value must stay to be seen"
    defaults = {f.name: f.write_default for f in states[-1].spec.schema.fields}
    assert defaults == {"id": None, "amount": 7, "note": None, f"amount{OLD}": None}


def test_rows_that_others_write_are_filled_anew_while_there_is_a_twin() -> None:
    wish = manifest()
    _, begun, full, _ = through(wish, live())
    meant = expand(wish, full, now_ms=NOW_MS).desired
    fill = fill_operation(meant, full)
    assert fill is not None
    assert isinstance(fill.work, Backfill)
    assert [(c.name, c.recompute) for c in fill.work.columns] == [(f"amount{NEW}", True)]
    assert fill.summary.startswith("fill rows without")
    assert "<=>" in swap_of(planned(wish, begun)).work.columns[0].missing  # type: ignore[union-attr]


# ---------------------------------------------------------------- refusals


LAYOUTS = {
    "partitioned": {"partitioning": (PartitionField(source_id=2, transform="identity", name="amount"),)},
    "identifier": {"identifier_field_ids": frozenset({2})},
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_what_rests_on_the_former_field_id_refuses(layout: dict[str, object]) -> None:
    made = planned(manifest(), live(msgspec.structs.replace(LIVE, **layout)))
    assert blocking(made) == ["LK222"]


def test_a_partition_that_is_wanted_refuses_too() -> None:
    wish = manifest(partitioning=(DesiredPartitionField(path=("amount",), transform="identity"),))
    assert "LK222" in blocking(planned(wish, live()))


def test_a_strangers_column_of_the_twins_name_refuses() -> None:
    table = spec(*LIVE.schema.fields, field(4, f"amount{NEW}", "decimal(18,2)"))
    assert blocking(planned(manifest(), live(table))) == ["LK222"]


def test_nothing_new_is_computed_from_a_column_whose_type_changes() -> None:
    total = Field(name="total", required=False, type="string")
    wish = manifest()
    wish = msgspec.structs.replace(
        wish,
        columns=struct(*wish.columns.fields, total),
        computed={("total",): Computed(expression="concat(amount, 'x')")},
    )
    assert "LK222" in blocking(planned(wish, live()))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_using_blocks_the_plan_and_is_in_no_operation(text: str) -> None:
    made = planned(manifest(rule=TypeChange(using=text)), live())
    assert made.is_blocked
    assert not [o for o in made.operations if o.work is not None]


# ---------------------------------------------------------------- conversions


@pytest.mark.parametrize(
    ("before", "after", "sql"),
    [
        ("string", "int", "TRY_CAST(`a` AS INT)"),
        ("long", "int", "CASE WHEN TRY_CAST(TRY_CAST(`a` AS INT) AS BIGINT) = `a` THEN TRY_CAST(`a` AS INT) END"),
        (
            "long",
            "double",
            "CASE WHEN TRY_CAST(TRY_CAST(`a` AS DOUBLE) AS BIGINT) = `a` AND `a` <> 9223372036854775807 "
            "THEN TRY_CAST(`a` AS DOUBLE) END",
        ),
        (
            "string",
            "decimal(5,2)",
            r"CASE WHEN `a` RLIKE '^\\s*[+-]?[0-9]*([.][0-9]{0,2}0*)?\\s*$' THEN TRY_CAST(`a` AS DECIMAL(5, 2)) END",
        ),
        ("int", "string", "TRY_CAST(`a` AS STRING)"),
        ("timestamptz", "string", "TRY_CAST(`a` AS STRING)"),
    ],
)
def test_default_conversions(before: str, after: str, sql: str) -> None:
    schema = struct(Field(name="a", required=False, type=before))
    assert conversion(TypeChange(), before, after, name="a", stands_as="a", schema=schema).value == sql


@pytest.mark.parametrize(("before", "after"), [("binary", "int"), ("boolean", "date"), ("string", "uuid")])
def test_there_is_no_default_for_every_pair(before: str, after: str) -> None:
    schema = struct(Field(name="a", required=False, type=before))
    with pytest.raises(RefusedSql):
        conversion(TypeChange(), before, after, name="a", stands_as="a", schema=schema)


def test_using_cannot_break_out_of_the_cast_around_it() -> None:
    schema = struct(Field(name="a", required=False, type="string"))
    rule = TypeChange(using="a) AS INT), (a")
    with pytest.raises(RefusedSql):
        conversion(rule, "string", "int", name="a", stands_as="a", schema=schema)


def test_only_fail_looks_for_values_that_do_not_convert() -> None:
    for policy, scans in (("Fail", 1), ("Null", 0), ("Quarantine", 0)):
        made = planned(manifest(rule=TypeChange(on_cast_failure=policy)), live())
        assert sum(isinstance(o.work, Validate) for o in made.operations) == scans
    done = {p: through(manifest(rule=TypeChange(on_cast_failure=p)), live())[-1] for p in ("Null", "Quarantine")}
    leaving = {
        p: planned(manifest(rule=TypeChange(on_cast_failure=p)), d, now_ms=NOW_MS + WEEK) for p, d in done.items()
    }
    assert [kinds(made) for made in leaving.values()] == [["validate", "commit"]] * 2
    lost = {p: check.sql for p, made in leaving.items() for check in made.operations[0].work.checks}  # type: ignore[union-attr]
    assert lost["Quarantine"] == f"NOT (((`amount{OLD}`) IS NOT NULL) AND (`amount` IS NULL))"
    assert "CAST" in lost["Null"]  # only what could have been converted


def test_a_damaged_memory_counts_as_none() -> None:
    state = msgspec.structs.replace(live(), bookkeeping={**live().bookkeeping, key(2): "{", key(3): "7"})
    assert memories(state.bookkeeping) == {}
    assert planned(manifest(), state).operations
