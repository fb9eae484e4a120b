"""One spelling for types and defaults, however a writer spelled them."""

from __future__ import annotations

import re
from operator import is_

import msgspec

from reconciler.model.defaults import canonical_default
from reconciler.model.types import Field, JsonValue, Type, fields_of, with_fields

_PARAMETER_GAP = re.compile(r",\s+")


def canonical_fields(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Return fields with every primitive and default spelled canonically, however the writer spelled it.

    `decimal(9,2)`, not `decimal(9, 2)`; bytes as `00ff`, not `00FF`, which is what Iceberg's Java writes.
    """
    result = tuple(_canonical_field(field) for field in fields)
    return fields if all(map(is_, result, fields)) else result


def _canonical_field(field: Field) -> Field:
    canonical = field
    if not isinstance(field.type, str):
        children = fields_of(field.type)
        respelled = canonical_fields(children)
        if respelled is not children:
            canonical = msgspec.structs.replace(field, type=with_fields(field.type, respelled))
    elif "," in field.type:
        spelled = _PARAMETER_GAP.sub(",", field.type)
        if spelled != field.type:
            canonical = msgspec.structs.replace(field, type=spelled)
    if field.initial_default is None and field.write_default is None:
        return canonical
    return _with_canonical_defaults(canonical)


def _with_canonical_defaults(field: Field) -> Field:
    initial, write = (_respelled(field.type, value) for value in (field.initial_default, field.write_default))
    if (initial, write) == (field.initial_default, field.write_default):
        return field
    return msgspec.structs.replace(field, initial_default=initial, write_default=write)


def _respelled(type_: Type, value: JsonValue) -> JsonValue:
    try:
        return canonical_default(type_, value)
    except ValueError:  # another writer's mistake stays as it is
        return value
