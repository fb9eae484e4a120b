"""What the behaviour suite of catalogs does to a table of orders: every kind of change that a catalog commits."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from reconciler.diff.changes import (
    AddColumn,
    AlterColumnDoc,
    AlterColumnRequired,
    AlterColumnType,
    Change,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetIdentifierFields,
    SetPartitioning,
    SetProperty,
    SetSortOrder,
    UnsetProperty,
)
from reconciler.model.table import (
    Direction,
    Nulls,
    PartitionField,
    SortField,
    TableIdent,
    TableSpec,
)
from reconciler.model.types import Field, ListType, MapType, StructType

PARTITIONING = (
    PartitionField(source_id=8, transform="day", name="at_day"),
    PartitionField(source_id=1, transform="bucket[4]", name="id_bucket"),
)


SORT_ORDER = (SortField(source_id=1, transform="identity", direction=Direction.DESC, nulls=Nulls.LAST),)


def orders(ident: TableIdent) -> TableSpec:
    """Return a table with nested types, identifier fields, a partition spec, a sort order and gaps in its ids."""
    address = StructType((Field(id=5, name="street", required=False, type="string"),))
    tags = ListType(element_id=6, element="string", element_required=False)
    notes = MapType(key_id=10, key="string", value_id=11, value="int", value_required=False)
    return TableSpec(
        ident=ident,
        schema=StructType(
            (
                Field(id=1, name="id", required=True, type="long", doc="Order number"),
                Field(id=3, name="amount", required=False, type="decimal(9,2)"),
                Field(id=4, name="address", required=False, type=address),
                Field(id=7, name="tags", required=False, type=tags),
                Field(id=8, name="at", required=False, type="timestamptz"),
                Field(id=9, name="notes", required=False, type=notes),
            )
        ),
        identifier_field_ids=frozenset({1}),
        partitioning=PARTITIONING,
        sort_order=SORT_ORDER,
        properties={"write.parquet.compression-codec": "zstd"},
    )


def add(name: str, type_: str = "string", after: str | None = "notes") -> AddColumn:
    """Return the addition of one optional top-level column."""
    return AddColumn(parent=(), field=Field(id=-1, name=name, required=False, type=type_), after=after)


def repartition(after: Sequence[PartitionField]) -> SetPartitioning:
    """Return a new partitioning of `orders`."""
    return SetPartitioning(before=PARTITIONING, after=tuple(after), before_text=(), after_text=())


def resort(after: Sequence[SortField]) -> SetSortOrder:
    """Return a new sort order of `orders`."""
    return SetSortOrder(before=SORT_ORDER, after=tuple(after), before_text=(), after_text=())


def rows(*ids: int) -> pa.RecordBatch:
    """Return a batch for `orders`."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("amount", pa.decimal128(9, 2))])
    return pa.RecordBatch.from_pydict({"id": list(ids), "amount": [None] * len(ids)}, schema=schema)


NESTED = StructType(
    (Field(id=-3, name="x", required=False, type="int"), Field(id=-4, name="y", required=False, type="date"))
)


CHANGES: dict[str, Sequence[Change]] = {
    "add column": [add("note")],
    "add two columns, first and nested": [
        add("first", after=None),
        AddColumn(parent=("address",), field=Field(id=-2, name="zip", required=False, type="string"), after="street"),
    ],
    "add struct": [AddColumn(parent=(), field=Field(id=-1, name="s", required=False, type=NESTED), after="id")],
    "drop column": [DropColumn(path=("tags",), field_id=7, type="string")],
    "drop nested column": [
        AddColumn(parent=("address",), field=Field(id=-2, name="zip", required=False, type="string"), after="street"),
        DropColumn(path=("address", "street"), field_id=5, type="string"),
    ],
    "rename columns": [
        RenameColumn(path=("amount",), field_id=3, to="total"),
        RenameColumn(path=("address", "street"), field_id=5, to="road"),
    ],
    "move column": [MoveColumn(path=("at",), field_id=8, after=None)],
    "widen": [AlterColumnType(path=("amount",), field_id=3, before="decimal(9,2)", after="decimal(12,2)")],
    "widen map value": [AlterColumnType(path=("notes", "value"), field_id=11, before="int", after="long")],
    "make optional": [
        SetIdentifierFields(before=(1,), after=(), before_names=("id",), after_names=()),
        AlterColumnRequired(path=("id",), field_id=1, required=False),
    ],
    "make required": [AlterColumnRequired(path=("amount",), field_id=3, required=True)],
    "doc": [
        AlterColumnDoc(path=("id",), field_id=1, before="Order number", after=None),
        AlterColumnDoc(path=("at",), field_id=8, before=None, after="When"),
    ],
    "identifier fields": [SetIdentifierFields(before=(1,), after=(), before_names=("id",), after_names=())],
    "drop a partition field": [repartition(PARTITIONING[:1])],
    "replace a transform": [repartition([PartitionField(source_id=8, transform="hour", name="at_hour")])],
    "rename a partition field": [
        repartition([msgspec.structs.replace(PARTITIONING[0], name="d"), PARTITIONING[1]]),
    ],
    "unpartition": [repartition([])],
    "partition by a new column": [
        add("region"),
        repartition([*PARTITIONING, PartitionField(source_id=-1, transform="identity", name="region")]),
    ],
    "drop a partitioned column": [
        repartition(PARTITIONING[1:]),
        DropColumn(path=("at",), field_id=8, type="timestamptz"),
    ],
    "unsorted": [resort([])],
    "sort by two": [
        resort([*SORT_ORDER, SortField(source_id=8, transform="day", direction=Direction.ASC, nulls=Nulls.FIRST)])
    ],
    "properties": [
        SetProperty(key="comment", before=None, after="All orders"),
        UnsetProperty(key="write.parquet.compression-codec", before="zstd"),
    ],
    "everything at once": [
        add("note"),
        RenameColumn(path=("amount",), field_id=3, to="total"),
        repartition([PartitionField(source_id=-1, transform="truncate[2]", name="note_trunc")]),
        resort([]),
        SetProperty(key="comment", before=None, after="x"),
        SetProperty(key="laketable.owner", before=None, after="test"),
    ],
}
