"""Our columns as Arrow fields that pyarrow writes as Iceberg prescribes: physical types, annotations, field ids."""

from __future__ import annotations

import re

import pyarrow as pa

from reconciler.model.types import Field, ListType, MapType, StructType, Type

FIELD_ID = b"PARQUET:field_id"
_PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", tz="UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
    "uuid": pa.uuid(),
}
DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
FIXED = re.compile(r"fixed\[(\d+)\]")


def arrow_field(field: Field) -> pa.Field:
    """Return the Arrow field of a column; raises KeyError for a type that has no Arrow type."""
    return pa.field(
        field.name, arrow_type(field.type), nullable=not field.required, metadata={FIELD_ID: str(field.id).encode()}
    )


def arrow_type(type_: Type) -> pa.DataType:
    """Return the Arrow type of a column's type; raises KeyError when there is none."""
    match type_:
        case StructType(fields=fields):
            return pa.struct([arrow_field(field) for field in fields])
        case ListType():
            return pa.list_(arrow_field(_child("element", type_.element_id, type_.element, type_.element_required)))
        case MapType():
            key = arrow_field(_child("key", type_.key_id, type_.key, True))
            return pa.map_(key, arrow_field(_child("value", type_.value_id, type_.value, type_.value_required)))
        case str() if found := DECIMAL.fullmatch(type_):
            return pa.decimal128(int(found[1]), int(found[2]))
        case str() if found := FIXED.fullmatch(type_):
            return pa.binary(int(found[1]))
        case _:
            return _PRIMITIVES[type_]


def has_arrow_type(type_: Type) -> bool:
    """Whether a column of this type can be written: variant, geometry, geography and unknown cannot."""
    try:
        arrow_type(type_)
    except KeyError:
        return False
    return True


def _child(name: str, field_id: int, type_: Type, required: bool) -> Field:
    return Field(id=field_id, name=name, type=type_, required=required)
