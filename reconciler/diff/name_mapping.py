"""Keep `schema.name-mapping.default` in step with the schema: how files without field ids are read (Hive, add_files).

Without it a column that is renamed or added reads as NULL from every such file that comes later. Source: Iceberg table
spec, "Column projection"; Java's MappingUtil.update: a renamed field keeps its former names, a new one is appended, and
a name that is given away leaves the field that had it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reconciler.model.table import TableSpec
from reconciler.model.types import Field, fields_of

NAME_MAPPING = "schema.name-mapping.default"


class MappedField(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """One entry: these names in a file mean this field."""

    field_id: int | None = None
    names: tuple[str, ...] = ()
    fields: tuple[MappedField, ...] = ()


_DECODER = msgspec.json.Decoder(tuple[MappedField, ...])


def follow_schema(before: TableSpec, after: TableSpec) -> TableSpec:
    """Return `after` with its name mapping brought up to date; one that cannot be read is left alone."""
    text = after.properties.get(NAME_MAPPING)
    if text is None or after.schema == before.schema:
        return after
    try:
        mapping = _DECODER.decode(text)
    except msgspec.DecodeError:
        return after
    updated = _siblings(mapping, before.schema.fields, after.schema.fields)
    if updated == mapping:
        return after
    properties = {**after.properties, NAME_MAPPING: msgspec.json.encode(updated).decode()}
    return msgspec.structs.replace(after, properties=properties)


def _siblings(
    mapping: Sequence[MappedField], before: Sequence[Field], after: Sequence[Field]
) -> tuple[MappedField, ...]:
    was = {field.id: field for field in before}
    given = {f.name: f.id for f in after if f.id not in was or was[f.id].name != f.name}
    wanted = {field.id: field for field in after}
    updated = [_entry(entry, was, wanted, given) for entry in mapping]
    mapped = {entry.field_id for entry in mapping}
    return (*updated, *(_new_entry(f) for f in after if f.id not in was and f.id not in mapped))


def _entry(entry: MappedField, was: dict[int, Field], wanted: dict[int, Field], given: dict[str, int]) -> MappedField:
    names = [name for name in entry.names if given.get(name, entry.field_id) == entry.field_id]
    field = wanted.get(entry.field_id or 0)
    if field is None:
        return msgspec.structs.replace(entry, names=tuple(names))
    if field.name in given and field.name not in names:
        names.append(field.name)
    live = was.get(field.id)
    nested = _siblings(entry.fields, fields_of(live.type) if live else (), fields_of(field.type))
    return msgspec.structs.replace(entry, names=tuple(names), fields=nested)


def _new_entry(field: Field) -> MappedField:
    return MappedField(field.id, (field.name,), tuple(map(_new_entry, fields_of(field.type))))
