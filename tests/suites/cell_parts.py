"""What conformance cells are made of: the table they all start from, and changes in few words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from reconciler.diff.changes import (
    AddColumn,
    AlterColumnDefault,
    AlterColumnDoc,
    AlterColumnRequired,
    AlterColumnType,
    Change,
    DropColumn,
    MoveColumn,
    MoveRef,
    RenameColumn,
    SetIdentifierFields,
    SetPartitioning,
    SetRefRetention,
    SetSortOrder,
)
from reconciler.model.table import (
    Direction,
    Nulls,
    Observed,
    PartitionField,
    Ref,
    RefKind,
    SortField,
    TableIdent,
    TableSpec,
)
from reconciler.model.types import Field, FieldPath, JsonValue, ListType, MapType, StructType, Type

Changes = tuple[Change, ...]
Row = Mapping[str, Any]
EMBEDDED_V3 = frozenset({("catalog", "embedded")})


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table; `read` is what the base row must look like afterwards, as far as the cell cares."""

    name: str
    changes: Changes | Callable[[Observed], Changes]
    version: int = 2
    base: Mapping[str, Any] = {}
    refused: frozenset[tuple[str, str]] = frozenset()
    read: Row | None = None


def field(id_: int, name: str, type_: Type, *, required: bool = False, **rest: Any) -> Field:
    """Shorten the writing of fields."""
    return Field(id=id_, name=name, type=type_, required=required, **rest)


BASE = StructType(
    (
        field(1, "id", "long", required=True),
        field(2, "name", "string", doc="Who"),
        field(3, "small", "int"),
        field(4, "ratio", "float"),
        field(5, "price", "decimal(9,2)"),
        field(6, "day", "date"),
        field(7, "at", "timestamptz"),
        field(8, "address", StructType((field(12, "street", "string"), field(13, "zip", "int")))),
        field(
            9,
            "items",
            ListType(
                element_id=14,
                element=StructType((field(15, "sku", "string"), field(16, "qty", "int"))),
                element_required=False,
            ),
        ),
        field(
            10,
            "attrs",
            MapType(
                key_id=17,
                key="string",
                value_id=18,
                value=StructType((field(19, "v", "int"), field(20, "w", "float"))),
                value_required=False,
            ),
        ),
        field(11, "tags", ListType(element_id=21, element="int", element_required=False)),
    )
)


ROW: Row = {
    "id": 1,
    "name": "ada",
    "small": 7,
    "ratio": 0.5,
    "address": {"street": "here", "zip": 1000},
    "items": [{"sku": "a", "qty": 2}],
    "attrs": {"k": {"v": 3, "w": 1.5}},
    "tags": [4],
}


DAY_OF_AT = PartitionField(source_id=7, transform="day", name="at_day")
BY_ID = SortField(source_id=1, transform="identity", direction=Direction.ASC, nulls=Nulls.FIRST)
MAIN_AT = {"comment": "A table", "write.format.default": "parquet", "team": "blue"}


def base_spec(ident: TableIdent, cell: Cell) -> TableSpec:
    """Return the table that a cell starts from."""
    spec = TableSpec(
        ident=ident,
        format_version=cell.version,
        schema=BASE,
        partitioning=(DAY_OF_AT,),
        sort_order=(BY_ID,),
        properties=MAIN_AT,
    )
    return msgspec.structs.replace(spec, **cell.base)


def add(parent: FieldPath, new: Field, after: str | None) -> AddColumn:
    return AddColumn(parent=parent, field=new, after=after)


def rename(path: FieldPath, id_: int, to: str) -> RenameColumn:
    return RenameColumn(path=path, field_id=id_, to=to)


def move(path: FieldPath, id_: int, after: str | None) -> MoveColumn:
    return MoveColumn(path=path, field_id=id_, after=after)


def widen(path: FieldPath, id_: int, before: Type, after: Type) -> AlterColumnType:
    return AlterColumnType(path=path, field_id=id_, before=before, after=after)


def doc(path: FieldPath, id_: int, before: str | None, after: str | None) -> AlterColumnDoc:
    return AlterColumnDoc(path=path, field_id=id_, before=before, after=after)


def default(path: FieldPath, id_: int, before: JsonValue, after: JsonValue) -> AlterColumnDefault:
    return AlterColumnDefault(path=path, field_id=id_, before=before, after=after)


def required(path: FieldPath, id_: int, value: bool) -> AlterColumnRequired:
    return AlterColumnRequired(path=path, field_id=id_, required=value)


def drop(path: FieldPath, id_: int, type_: Type) -> DropColumn:
    return DropColumn(path=path, field_id=id_, type=type_)


def partition_by(*after: PartitionField, before: tuple[PartitionField, ...] = (DAY_OF_AT,)) -> SetPartitioning:
    return SetPartitioning(before=before, after=after, before_text=(), after_text=())


def part(source_id: int, transform: str, name: str) -> PartitionField:
    return PartitionField(source_id=source_id, transform=transform, name=name)


def sort_by(*after: SortField, before: tuple[SortField, ...] = (BY_ID,)) -> SetSortOrder:
    return SetSortOrder(before=before, after=after, before_text=(), after_text=())


def identify(before: tuple[int, ...], after: tuple[int, ...]) -> SetIdentifierFields:
    return SetIdentifierFields(before=before, after=after, before_names=(), after_names=())


def ref(observed: Observed, name: str, kind: RefKind, **ages: int) -> Ref:
    """Point at main's head."""
    assert observed.version.snapshot_id is not None
    return Ref(name=name, kind=kind, snapshot_id=observed.version.snapshot_id, **ages)


def first_snapshot(observed: Observed, name: str, kind: RefKind) -> Ref:
    """Point at the oldest snapshot, which is not main's head."""
    return Ref(name=name, kind=kind, snapshot_id=observed.snapshot_log[0][1])


def moved_and_retained(observed: Observed, name: str, **ages: int) -> Changes:
    """Move a ref to the oldest snapshot and keep it for another time, as one plan says it."""
    before = observed.spec.refs[name]
    there = msgspec.structs.replace(before, snapshot_id=observed.snapshot_log[0][1])
    after = msgspec.structs.replace(there, **ages)
    return MoveRef(before=before, after=there), SetRefRetention(before=there, after=after)
