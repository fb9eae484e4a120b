"""What each change does to a spec, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest

from reconciler.diff.apply import CannotApply, apply
from reconciler.diff.changes import (
    AddColumn,
    AdoptTable,
    AlterColumnDefault,
    AlterColumnDoc,
    AlterColumnRequired,
    AlterColumnType,
    Change,
    CreateRef,
    CreateTable,
    DropColumn,
    DropRef,
    DropTable,
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
from reconciler.model.table import Direction, Nulls, PartitionField, RefKind, SortField, TableIdent
from reconciler.model.types import Field
from tests.diff.tables import ORDERS, field, list_of, map_of, spec, struct, tag

REGION = PartitionField(source_id=2, transform="identity", name="region")
BY_ID = SortField(source_id=1, transform="identity", direction=Direction.ASC, nulls=Nulls.FIRST)
LIVE = spec(
    field(1, "id", "long", required=True, doc="key"),
    field(2, "region"),
    field(3, "s", struct(field(4, "x"), field(5, "y"))),
    field(6, "l", list_of("int", 7)),
    identifier_field_ids=frozenset({1}),
    partitioning=(REGION,),
    sort_order=(BY_ID,),
    properties={"a": "1"},
    refs={"t": tag("t", 11)},
)
OTHER = TableIdent(("sales",), "other")


def set_partitioning(*after: PartitionField, before: tuple[PartitionField, ...] = (REGION,)) -> SetPartitioning:
    return SetPartitioning(before=before, after=after, before_text=(), after_text=())


def set_identifiers(*after: int, before: tuple[int, ...] = (1,)) -> SetIdentifierFields:
    return SetIdentifierFields(before=before, after=after, before_names=(), after_names=())


def set_sort_order(*after: SortField, before: tuple[SortField, ...] = (BY_ID,)) -> SetSortOrder:
    return SetSortOrder(before=before, after=after, before_text=(), after_text=())


def drop(id_: int, *path: str) -> DropColumn:
    return DropColumn(path=path, field_id=id_, type="string")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(CreateTable(spec=LIVE), id="create over a table"),
        pytest.param(DropTable(ident=ORDERS, uuid="u"), id="drop the table"),
        pytest.param(RenameTable(before=OTHER, after=ORDERS), id="rename another table"),
        pytest.param(UpgradeFormat(before=1, after=3), id="upgrade from another version"),
        pytest.param(UpgradeFormat(before=2, after=2), id="upgrade to the same version"),
        pytest.param(AddColumn(parent=(), field=field(-1, "id"), after=None), id="add a name that is there"),
        pytest.param(AddColumn(parent=("s",), field=field(-1, "x"), after=None), id="add a nested name that is there"),
        pytest.param(AddColumn(parent=(), field=field(-1, "n"), after="no"), id="add behind nobody"),
        pytest.param(AddColumn(parent=("no",), field=field(-1, "n"), after=None), id="add below nothing"),
        pytest.param(AddColumn(parent=("l",), field=field(-1, "n"), after=None), id="add below a list"),
        pytest.param(AddColumn(parent=("id",), field=field(-1, "n"), after=None), id="add below a primitive"),
        pytest.param(AddColumn(parent=(), field=field(4, "n"), after=None), id="restore an id that is there"),
        pytest.param(drop(9, "no"), id="drop nothing"),
        pytest.param(drop(9, "s"), id="drop another field of that name"),
        pytest.param(drop(1, "id"), id="drop an identifier field"),
        pytest.param(drop(2, "region"), id="drop a partition source"),
        pytest.param(drop(7, "l", "element"), id="drop an element"),
        pytest.param(RenameColumn(path=("id",), field_id=1, to="region"), id="rename to a name that is there"),
        pytest.param(RenameColumn(path=("l", "element"), field_id=7, to="x"), id="rename an element"),
        pytest.param(MoveColumn(path=("id",), field_id=1, after="id"), id="move behind itself"),
        pytest.param(MoveColumn(path=("id",), field_id=1, after="x"), id="move behind a stranger"),
        pytest.param(AlterColumnType(path=("id",), field_id=1, before="int", after="long"), id="other type"),
        pytest.param(AlterColumnDoc(path=("id",), field_id=1, before=None, after="d"), id="doc expected otherwise"),
        pytest.param(AlterColumnDefault(path=("id",), field_id=1, before=1, after=2), id="default expected otherwise"),
        pytest.param(AlterColumnRequired(path=("no",), field_id=1, required=True), id="require nothing"),
        pytest.param(set_identifiers(99), id="identifier field that is not there"),
        pytest.param(set_identifiers(2, before=()), id="identifier fields expected otherwise"),
        pytest.param(set_identifiers(-1), id="provisional id that nobody got"),
        pytest.param(set_partitioning(PartitionField(source_id=99, transform="day", name="d")), id="partition by none"),
        pytest.param(set_partitioning(REGION, msgspec.structs.replace(REGION, source_id=1)), id="partition name twice"),
        pytest.param(set_partitioning(before=()), id="partitioning expected otherwise"),
        pytest.param(set_sort_order(msgspec.structs.replace(BY_ID, source_id=99)), id="sort by nothing"),
        pytest.param(set_sort_order(before=()), id="sort order expected otherwise"),
        pytest.param(SetProperty(key="a", before=None, after="2"), id="property expected otherwise"),
        pytest.param(UnsetProperty(key="b", before="1"), id="unset nothing"),
        pytest.param(CreateRef(ref=tag("t", 1)), id="create a ref that is there"),
        pytest.param(DropRef(ref=tag("u", 1)), id="drop a ref that is not there"),
        pytest.param(MoveRef(before=tag("t", 1), after=tag("t", 2)), id="move a ref from elsewhere"),
        pytest.param(
            MoveRef(before=tag("t", 11), after=msgspec.structs.replace(tag("t", 1), kind=RefKind.BRANCH)),
            id="move a tag into a branch",
        ),
        pytest.param(SetRefRetention(before=tag("u", 1), after=tag("u", 1, max_ref_age_ms=1)), id="keep nothing"),
    ],
)
def test_what_does_not_fit_is_refused(change: Change) -> None:
    with pytest.raises(CannotApply, match=f"Cannot apply {change.__struct_config__.tag}: .+\\.") as refused:
        apply(LIVE, [change])
    assert refused.value.change is change


def test_a_nested_identifier_or_source_protects_its_ancestors() -> None:
    by_x = PartitionField(source_id=4, transform="identity", name="x")
    with pytest.raises(CannotApply):
        apply(LIVE, [set_partitioning(by_x), drop(3, "s")])
    void = msgspec.structs.replace(by_x, transform="void")
    assert len(apply(LIVE, [set_partitioning(void), drop(3, "s")]).schema.fields) == 3


def test_no_table_takes_only_a_creation() -> None:
    assert apply(None, [CreateTable(spec=LIVE), AdoptTable(ident=ORDERS, owner="o")]) == LIVE
    with pytest.raises(CannotApply):
        apply(None, [SetProperty(key="a", before=None, after="1")])
    with pytest.raises(ValueError, match="no table"):
        apply(None, [])


class FakeTransaction:
    """As much of a transaction as UpdateSchema looks at."""

    table_metadata = SimpleNamespace(partition_specs=(), schemas=(SimpleNamespace(schema_id=0),))


def test_new_fields_are_numbered_like_pyicebergs_update_schema() -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.table.update.schema import UpdateSchema

    inner = struct(field(-2, "p", "int"), field(-3, "q", map_of("string", list_of("int", -6), -4, -5)))
    first, second = field(-1, "a", struct(*inner.fields, field(-7, "r", "int"))), field(-8, "b", list_of("int", -9))
    changes = [
        AddColumn(parent=(), field=first, after="l"),
        AddColumn(parent=(), field=second, after="a"),
        AddColumn(parent=("s",), field=field(-10, "z", "int"), after="y"),
    ]
    ours = apply(LIVE, changes)

    def iceberg(fields: tuple[Field, ...]) -> Schema:
        return Schema.model_validate_json(msgspec.json.encode({"type": "struct", "fields": fields}))

    update = UpdateSchema(FakeTransaction(), schema=iceberg(LIVE.schema.fields))  # type: ignore[arg-type]
    new = iceberg((first, second, field(-10, "z", "int")))
    update.add_column("a", new.find_field("a").field_type)
    update.add_column("b", new.find_field("b").field_type)
    update.add_column(("s", "z"), new.find_field("z").field_type)
    assert update._apply().as_struct() == iceberg(ours.schema.fields).as_struct()
    assert update._apply().as_struct() != iceberg(apply(LIVE, [changes[2], *changes[:2]]).schema.fields).as_struct()


def test_provisional_ids_mean_the_ids_given_out() -> None:
    new = field(-1, "n", struct(field(-2, "x")))
    by_x = PartitionField(source_id=-2, transform="identity", name="n.x")
    after = apply(
        LIVE,
        [
            AddColumn(parent=(), field=new, after=None),
            set_identifiers(1, -1),
            set_partitioning(by_x),
            set_sort_order(msgspec.structs.replace(BY_ID, source_id=-2)),
            AlterColumnDoc(path=("n",), field_id=-1, before=None, after="d"),
        ],
        last_field_id=70,
    )
    assert after.schema.fields[0] == field(71, "n", struct(field(72, "x")), doc="d")
    assert after.identifier_field_ids == {1, 71}
    assert after.partitioning == (msgspec.structs.replace(by_x, source_id=72),)
    assert after.sort_order == (msgspec.structs.replace(BY_ID, source_id=72),)


def test_a_dropped_column_comes_back_under_its_id() -> None:
    (gone,) = (f for f in LIVE.schema.fields if f.name == "s")
    dropped = apply(LIVE, [drop(3, "s")], last_field_id=9)
    assert apply(dropped, [AddColumn(parent=(), field=gone, after="region")], last_field_id=9) == LIVE


def test_bookkeeping_passes_by() -> None:
    changes: list[Change] = [
        SetProperty(key="laketable.owner", before=None, after="me"),
        UnsetProperty(key="laketable.refs", before="[]"),
    ]
    assert apply(LIVE, changes) == LIVE


def test_the_current_spec_is_never_touched() -> None:
    before = msgspec.json.encode(msgspec.to_builtins(LIVE))
    apply(LIVE, [SetProperty(key="a", before="1", after="2"), DropRef(ref=tag("t", 11)), drop(3, "s")])
    assert msgspec.json.encode(msgspec.to_builtins(LIVE)) == before
