"""Iceberg's schema types as immutable values, in the shape of Iceberg's own JSON.

A primitive type is its canonical string (`int`, `decimal(18,2)`, `fixed[16]`, `timestamptz_ns`): comparing two types is
`==`, and a schema decodes straight from table metadata. A field id of 0 means "not bound yet", a negative one "new".
Source: Iceberg table spec, Appendix C (JSON serialization).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar, cast

import msgspec

FieldPath = tuple[str, ...]
JsonValue = str | int | float | bool | None


class Field(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """A column or a struct's field."""

    id: int = 0
    name: str
    required: bool
    type: Type
    doc: str | None = None
    initial_default: JsonValue = None
    write_default: JsonValue = None


class StructType(msgspec.Struct, frozen=True, tag_field="type", tag="struct"):
    """A struct, and the shape of a whole table."""

    fields: tuple[Field, ...]


class ListType(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", tag_field="type", tag="list"):
    """A list; its element is the path segment `element`."""

    element_id: int = 0
    element: Type
    element_required: bool


class MapType(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", tag_field="type", tag="map"):
    """A map; its key and value are the path segments `key` and `value`."""

    key_id: int = 0
    key: Type
    value_id: int = 0
    value: Type
    value_required: bool


Type = str | StructType | ListType | MapType


def fields_of(type_: Type) -> tuple[Field, ...]:
    """Return the direct children of a type as fields; a list's and a map's are called element, key and value."""
    match type_:
        case StructType(fields=fields):
            return fields
        case ListType():
            return (Field(id=type_.element_id, name="element", required=type_.element_required, type=type_.element),)
        case MapType():
            return (
                Field(id=type_.key_id, name="key", required=True, type=type_.key),
                Field(id=type_.value_id, name="value", required=type_.value_required, type=type_.value),
            )
        case _:
            return ()


def with_fields(type_: Type, fields: tuple[Field, ...]) -> Type:
    """Return `type_` with other children; the inverse of `fields_of`."""
    match type_:
        case StructType():
            return StructType(fields)
        case ListType():
            (element,) = fields
            return ListType(element_id=element.id, element=element.type, element_required=element.required)
        case MapType():
            key, value = fields
            return MapType(
                key_id=key.id,
                key=key.type,
                value_id=value.id,
                value=value.type,
                value_required=value.required,
            )
        case _:
            return type_


def walk(type_: Type, prefix: FieldPath = ()) -> Iterator[tuple[FieldPath, Field]]:
    """Yield every field below `type_` with its path, parents before children."""
    for field in fields_of(type_):
        path = (*prefix, field.name)
        yield path, field
        if not isinstance(field.type, str):
            yield from walk(field.type, path)


def field_ids(type_: Type) -> Iterator[int]:
    """Yield the field ids below `type_`, at any depth."""
    for field in fields_of(type_):
        yield field.id
        if not isinstance(field.type, str):
            yield from field_ids(field.type)


def highest_id(type_: Type) -> int:
    """Return the highest field id below `type_`; 0 when there is none."""
    return max(field_ids(type_), default=0)


def find_field(type_: Type, path: FieldPath) -> Field | None:
    """Return the field at `path` below `type_`; None when there is none."""
    found: Field | None = None
    for segment in path:
        found = next((f for f in fields_of(type_) if f.name == segment), None)
        if found is None:
            return None
        type_ = found.type
    return found


def paths_by_id(type_: Type) -> dict[int, FieldPath]:
    """Map every field id below `type_` to its path."""
    return {field.id: path for path, field in walk(type_)}


def map_fields(type_: Type, change: Callable[[Field], Field]) -> Type:
    """Return `type_` with `change` applied to every field at any depth, children first."""
    fields = fields_of(type_)
    if not fields:
        return type_
    return with_fields(
        type_,
        tuple(
            change(f if isinstance(f.type, str) else msgspec.structs.replace(f, type=map_fields(f.type, change)))
            for f in fields
        ),
    )


_AnyType = TypeVar("_AnyType", bound=Type)


def assign_ids(type_: _AnyType, next_id: Callable[[], int]) -> _AnyType:
    """Return `type_` with an id for every nested field that has none (0 or negative), in Iceberg's order.

    All children of a struct (or a map's key and value) are numbered before what lies below them; this is how
    `create_table` and `add_column` hand out ids (Java's `TypeUtil.assignFreshIds`).
    """
    fields = fields_of(type_)
    if not fields:
        return type_
    numbered = [f if f.id > 0 else msgspec.structs.replace(f, id=next_id()) for f in fields]
    return cast(
        _AnyType,
        with_fields(
            type_,
            tuple(
                f if isinstance(f.type, str) else msgspec.structs.replace(f, type=assign_ids(f.type, next_id))
                for f in numbered
            ),
        ),
    )


def dotted(path: FieldPath) -> str:
    """Join a path for people and for SQL."""
    return ".".join(path)
