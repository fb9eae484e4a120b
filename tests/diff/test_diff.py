"""Which changes lead from one spec to another, and in which order."""

from __future__ import annotations

import pytest

from reconciler.diff.apply import apply
from reconciler.diff.changes import (
    AddColumn,
    AlterColumnDefault,
    AlterColumnDoc,
    AlterColumnRequired,
    AlterColumnType,
    Change,
    CreateRef,
    CreateTable,
    DropColumn,
    DropRef,
    MoveColumn,
    MoveRef,
    RenameColumn,
    RenameTable,
    SetIdentifierFields,
    SetPartitioning,
    SetProperty,
    SetRefRetention,
    SetSortOrder,
    UnsetProperty,
    UpgradeFormat,
)
from reconciler.diff.diff import diff
from reconciler.model.table import (
    Direction,
    Nulls,
    PartitionField,
    Ref,
    RefKind,
    SortField,
    TableIdent,
    TableSpec,
)
from reconciler.model.types import Field, StructType
from tests.diff.tables import ORDERS, field, list_of, map_of, spec, struct, tag


def added(id_: int, name: str, after: str | None, *parent: str) -> AddColumn:
    return AddColumn(parent=parent, field=field(id_, name), after=after)


def renamed(id_: int, name: str, to: str) -> RenameColumn:
    return RenameColumn(path=(name,), field_id=id_, to=to)


def moved(id_: int, name: str, after: str | None) -> MoveColumn:
    return MoveColumn(path=(name,), field_id=id_, after=after)


def dropped(id_: int, *path: str) -> DropColumn:
    return DropColumn(path=path, field_id=id_, type="string")


A, B, C, D = (field(i, name) for i, name in enumerate("abcd", start=1))


@pytest.mark.parametrize(
    ("current", "target", "changes"),
    [
        pytest.param([A], [A], [], id="equal"),
        pytest.param([A, B], [A, field(-1, "n"), B], [added(-1, "n", "a")], id="add between"),
        pytest.param(
            [A], [field(-1, "m"), field(-2, "n"), A], [added(-1, "m", None), added(-2, "n", "m")], id="add first"
        ),
        pytest.param([A, B], [B], [dropped(1, "a")], id="drop"),
        pytest.param([A], [field(1, "z")], [renamed(1, "a", "z")], id="rename"),
        pytest.param([A, B, C, D], [D, A, B, C], [moved(4, "d", None)], id="one moves to the front"),
        pytest.param([A, B, C, D], [B, C, D, A], [moved(1, "a", "d")], id="one moves to the end"),
        pytest.param([A, B, C], [C, B, A], [moved(2, "b", "c"), moved(1, "a", "b")], id="reversed: one stays"),
        pytest.param([A, B, C], [C, A], [moved(1, "a", "c"), dropped(2, "b")], id="a dropped column moves nobody"),
        pytest.param(
            [A, B],
            [field(2, "c"), field(1, "b")],
            [renamed(2, "b", "c"), renamed(1, "a", "b"), moved(1, "b", "c")],
            id="chain",
        ),
        pytest.param(
            [A, B],
            [field(1, "b"), field(2, "a")],
            [renamed(1, "a", "laketable_tmp_1"), renamed(2, "b", "a"), renamed(1, "laketable_tmp_1", "b")],
            id="swap",
        ),
        pytest.param(
            [A],
            [field(-1, "a")],
            [renamed(1, "a", "laketable_tmp_1"), added(-1, "a", None), dropped(1, "laketable_tmp_1")],
            id="same name, other field",
        ),
        pytest.param(
            [A, B],
            [field(2, "a")],
            [renamed(1, "a", "laketable_tmp_1"), renamed(2, "b", "a"), dropped(1, "laketable_tmp_1")],
            id="a rename takes a dropped name",
        ),
        pytest.param(
            [field(1, "a"), field(2, "laketable_tmp_1")],
            [field(1, "laketable_tmp_1"), field(2, "a")],
            [
                renamed(1, "a", "laketable_tmp_1_"),
                renamed(2, "laketable_tmp_1", "a"),
                renamed(1, "laketable_tmp_1_", "laketable_tmp_1"),
            ],
            id="the temporary name is taken",
        ),
        pytest.param(
            [field(1, "a", "int", doc="x")],
            [field(1, "a", "long", required=True)],
            [
                AlterColumnType(path=("a",), field_id=1, before="int", after="long"),
                AlterColumnDoc(path=("a",), field_id=1, before="x", after=None),
                AlterColumnRequired(path=("a",), field_id=1, required=True),
            ],
            id="type, doc, required",
        ),
        pytest.param(
            [A],
            [Field(id=1, name="a", required=False, type="string", write_default="x")],
            [AlterColumnDefault(path=("a",), field_id=1, before=None, after="x")],
            id="default",
        ),
        pytest.param(
            [field(1, "l", list_of(struct(field(3, "x"), field(4, "y")), 2))],
            [field(1, "m", list_of(struct(field(3, "z"), field(-1, "n")), 2))],
            [
                renamed(1, "l", "m"),
                RenameColumn(path=("m", "element", "x"), field_id=3, to="z"),
                added(-1, "n", "z", "m", "element"),
                dropped(4, "m", "element", "y"),
            ],
            id="below a renamed list",
        ),
        pytest.param(
            [field(1, "m", map_of("int", "int", 2, 3))],
            [field(1, "m", map_of("int", "long", 2, 3))],
            [AlterColumnType(path=("m", "value"), field_id=3, before="int", after="long")],
            id="map value",
        ),
        pytest.param(
            [field(1, "m", list_of("int", 2))],
            [field(1, "m", list_of("int", 9))],
            [AlterColumnType(path=("m",), field_id=1, before=list_of("int", 2), after=list_of("int", 9))],
            id="another element field is another type",
        ),
    ],
)
def test_columns(current: list[Field], target: list[Field], changes: list[Change]) -> None:
    found = diff(spec(*current), spec(*target))
    assert list(found) == changes
    assert apply(spec(*current), found, last_field_id=50).schema == StructType(
        tuple(f if f.id > 0 else field(50 - f.id, f.name) for f in target)
    ) or any(f.id > 0 and not isinstance(f.type, str) for f in target)


def test_no_table_gives_one_creation() -> None:
    assert diff(None, spec(A)) == (CreateTable(spec=spec(A)),)


def full(**changes: object) -> TableSpec:
    return spec(
        field(1, "id", "long", required=True),
        field(2, "region"),
        identifier_field_ids=frozenset({1}),
        partitioning=(PartitionField(source_id=2, transform="identity", name="region"),),
        sort_order=(SortField(source_id=2, transform="identity", direction=Direction.ASC, nulls=Nulls.FIRST),),
        **changes,
    )


def test_layout_changes_stand_between_additions_and_drops() -> None:
    current = full()
    target = TableSpec(
        ident=TableIdent(("sales",), "sold"),
        format_version=3,
        schema=struct(field(1, "id", "long"), field(-1, "key", "long", required=True)),
        identifier_field_ids=frozenset({-1}),
        partitioning=(PartitionField(source_id=-1, transform="bucket[4]", name="key_bucket_4"),),
        sort_order=(SortField(source_id=-1, transform="identity", direction=Direction.DESC, nulls=Nulls.LAST),),
        properties={"a": "b"},
    )
    changes = diff(current, target)
    assert [type(c) for c in changes] == [
        RenameTable,
        UpgradeFormat,
        AddColumn,
        SetIdentifierFields,
        SetPartitioning,
        SetSortOrder,
        AlterColumnRequired,
        DropColumn,
        SetProperty,
    ]
    _, _, _, identifiers, partitioning, sort_order, *_ = changes
    assert isinstance(identifiers, SetIdentifierFields)
    assert (identifiers.before_names, identifiers.after_names) == (("id",), ("key",))
    assert isinstance(partitioning, SetPartitioning)
    assert (partitioning.before_text, partitioning.after_text) == (("region",), ("bucket[4](key)",))
    assert isinstance(sort_order, SetSortOrder)
    assert (sort_order.before_text, sort_order.after_text) == (
        ("region asc nulls first",),
        ("key desc nulls last",),
    )
    after = apply(current, changes, last_field_id=7)
    assert after.identifier_field_ids == {8}
    assert [f.source_id for f in after.partitioning] == [8]
    assert [f.source_id for f in after.sort_order] == [8]


def test_a_void_field_of_a_column_long_gone_has_a_text() -> None:
    void = PartitionField(source_id=99, transform="void", name="old")
    (change,) = diff(spec(A, partitioning=(void,)), spec(A))
    assert isinstance(change, SetPartitioning)
    assert change.before_text == ("void(#99)",)


def test_properties_are_set_before_others_are_unset_by_key() -> None:
    current, target = spec(A, properties={"b": "1", "z": "1", "y": "1"}), spec(A, properties={"b": "2", "a": "1"})
    assert diff(current, target) == (
        SetProperty(key="a", before=None, after="1"),
        SetProperty(key="b", before="1", after="2"),
        UnsetProperty(key="y", before="1"),
        UnsetProperty(key="z", before="1"),
    )


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        pytest.param(None, tag("t", 1), [CreateRef(ref=tag("t", 1))], id="create"),
        pytest.param(tag("t", 1), None, [DropRef(ref=tag("t", 1))], id="drop"),
        pytest.param(tag("t", 1), tag("t", 2), [MoveRef(before=tag("t", 1), after=tag("t", 2))], id="move"),
        pytest.param(
            tag("t", 1),
            tag("t", 2, max_ref_age_ms=5),
            [
                MoveRef(before=tag("t", 1), after=tag("t", 2)),
                SetRefRetention(before=tag("t", 2), after=tag("t", 2, max_ref_age_ms=5)),
            ],
            id="move and retention are two changes",
        ),
        pytest.param(
            tag("t", 1),
            Ref(name="t", kind=RefKind.BRANCH, snapshot_id=1),
            [DropRef(ref=tag("t", 1)), CreateRef(ref=Ref(name="t", kind=RefKind.BRANCH, snapshot_id=1))],
            id="another kind",
        ),
    ],
)
def test_refs(before: Ref | None, after: Ref | None, changes: list[Change]) -> None:
    current = spec(A, refs={"t": before} if before else {})
    target = spec(A, refs={"t": after} if after else {})
    assert list(diff(current, target)) == changes
    assert apply(current, changes) == target


def test_a_table_rename_is_one_change() -> None:
    other = TableSpec(ident=TableIdent(("s",), "x"), schema=struct(A))
    assert diff(spec(A), other) == (RenameTable(before=ORDERS, after=other.ident),)


def test_ten_thousand_renames_in_a_chain_stay_cheap() -> None:
    current = spec(*(field(i, f"c{i}") for i in range(1, 10_001)))
    target = spec(*(field(i, f"c{i + 1}") for i in range(1, 10_001)))
    changes = diff(current, target)
    assert len(changes) == 10_000
    assert changes[0] == RenameColumn(path=("c10000",), field_id=10_000, to="c10001")
