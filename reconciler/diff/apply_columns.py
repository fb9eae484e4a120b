"""Apply column changes to a schema, and hand out the ids of new fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import msgspec

from reconciler.diff.cannot_apply import CannotApply
from reconciler.diff.changes import (
    AddColumn,
    AlterColumnDefault,
    AlterColumnDoc,
    AlterColumnRequired,
    AlterColumnType,
    DropColumn,
    MoveColumn,
    RenameColumn,
)
from reconciler.model.table import TableSpec
from reconciler.model.types import (
    Field,
    FieldPath,
    StructType,
    Type,
    assign_ids,
    dotted,
    fields_of,
    find_field,
    walk,
    with_fields,
)

Alteration = AlterColumnType | AlterColumnRequired | AlterColumnDoc | AlterColumnDefault
Existing = DropColumn | RenameColumn | MoveColumn | Alteration
ColumnChange = AddColumn | Existing
Siblings = tuple[Field, ...]


class Columns:
    """The id counter of one run of `apply`, and which id each provisional one became."""

    def __init__(self, last_field_id: int) -> None:
        self._last_field_id = last_field_id
        self._assigned: dict[int, int] = {}
        self._siblings: Siblings = ()
        self._places: dict[str, int] = {}

    def resolve(self, id_: int) -> int:
        """Return the id behind a provisional one; any other id is itself."""
        return self._assigned.get(id_, id_)

    def apply(self, spec: TableSpec, change: ColumnChange) -> TableSpec:
        """Return `spec` after one column change."""
        if isinstance(change, AddColumn):
            schema = self._add(spec.schema, change)
        else:
            place = self._expect(spec.schema, change)
            if isinstance(change, DropColumn):
                _refuse_drop_in_use(spec, change)
            schema = edit(spec.schema, change.path[:-1], lambda siblings: self._changed(siblings, place, change))
        return msgspec.structs.replace(spec, schema=schema)

    def _expect(self, schema: StructType, change: Existing) -> int:
        """Return the place among its siblings of the field that `change` is about."""
        *parents, name = change.path
        parent = find_field(schema, tuple(parents)) if parents else None
        siblings = fields_of(parent.type if parent else schema)
        place = self._place(siblings, name) if parent or not parents else None
        if place is None:
            raise CannotApply(change, f"there is no column {dotted(change.path)}")
        field = siblings[place]
        if field.id != self.resolve(change.field_id):
            raise CannotApply(change, f"column {dotted(change.path)} is field {field.id}, not {change.field_id}")
        if isinstance(change, DropColumn | RenameColumn | MoveColumn):
            _require_struct(schema, change.path[:-1], change)
        return place

    def _place(self, siblings: Siblings, name: str) -> int | None:
        """Look a name up; remembered while only alterations follow, as a wide table may have thousands of them."""
        if self._siblings is not siblings:
            self._siblings, self._places = siblings, {field.name: place for place, field in enumerate(siblings)}
        return self._places.get(name)

    def _add(self, schema: StructType, change: AddColumn) -> StructType:
        _require_struct(schema, change.parent, change)
        taken = {field.id for _, field in walk(schema)} if change.field.id > 0 else set()
        if change.field.id in taken:
            raise CannotApply(change, f"field {change.field.id} is there")
        field = self._numbered(change.field)

        def insert(siblings: Siblings) -> Siblings:
            if any(sibling.name == field.name for sibling in siblings):
                raise CannotApply(change, f"there is a column {dotted((*change.parent, field.name))}")
            return _inserted(siblings, field, change.after, change)

        return edit(schema, change.parent, insert)

    def _numbered(self, field: Field) -> Field:
        """Number a new field as Iceberg does: itself, then level by level below it; positive ids come back by undo."""
        numbered = msgspec.structs.replace(field, id=field.id if field.id > 0 else self._next_id())
        numbered = msgspec.structs.replace(numbered, type=assign_ids(numbered.type, self._next_id))
        self._remember(field, numbered)
        return numbered

    def _remember(self, provisional: Field, numbered: Field) -> None:
        if provisional.id < 0:
            self._assigned[provisional.id] = numbered.id
        self._last_field_id = max(self._last_field_id, numbered.id)
        for before, after in zip(fields_of(provisional.type), fields_of(numbered.type), strict=True):
            self._remember(before, after)

    def _next_id(self) -> int:
        self._last_field_id += 1
        return self._last_field_id

    def _changed(self, siblings: Siblings, place: int, change: Existing) -> Siblings:
        field, before, behind = siblings[place], siblings[:place], siblings[place + 1 :]
        match change:
            case DropColumn():
                return (*before, *behind)
            case RenameColumn():
                if any(sibling.name == change.to for sibling in siblings):
                    raise CannotApply(change, f"there is a column {dotted((*change.path[:-1], change.to))}")
                return (*before, msgspec.structs.replace(field, name=change.to), *behind)
            case MoveColumn():
                return _inserted((*before, *behind), field, change.after, change)
            case AlterColumnType() | AlterColumnRequired() | AlterColumnDoc() | AlterColumnDefault():
                self._siblings = (*before, self._altered(field, change), *behind)  # their names are the same
                return self._siblings
            case _:
                assert_never(change)

    def _altered(self, field: Field, change: Alteration) -> Field:
        match change:
            case AlterColumnType():
                _expect_before(field.type, change.before, change)
                return self._numbered(msgspec.structs.replace(field, type=change.after))
            case AlterColumnRequired():
                return msgspec.structs.replace(field, required=change.required)
            case AlterColumnDoc():
                _expect_before(field.doc or None, change.before or None, change)
                return msgspec.structs.replace(field, doc=change.after)
            case AlterColumnDefault():
                _expect_before(field.write_default, change.before, change)
                return msgspec.structs.replace(field, write_default=change.after)
            case _:
                assert_never(change)


def edit(type_: StructType, parent: FieldPath, change: Callable[[Siblings], Siblings]) -> StructType:
    """Return a schema in which the children of `parent` are changed; the path must exist."""
    return StructType(_edited(type_, parent, change))


def _edited(type_: Type, parent: FieldPath, change: Callable[[Siblings], Siblings]) -> Siblings:
    fields = fields_of(type_)
    if not parent:
        return change(fields)

    def below(field: Field) -> Field:
        return msgspec.structs.replace(field, type=with_fields(field.type, _edited(field.type, parent[1:], change)))

    return _replaced(fields, parent[0], below)


def _replaced(siblings: Siblings, name: str, change: Callable[[Field], Field]) -> Siblings:
    place = next(place for place, field in enumerate(siblings) if field.name == name)
    return (*siblings[:place], change(siblings[place]), *siblings[place + 1 :])


def _inserted(siblings: Siblings, field: Field, after: str | None, change: AddColumn | MoveColumn) -> Siblings:
    if after is None:
        return (field, *siblings)
    for index, sibling in enumerate(siblings, start=1):
        if sibling.name == after:
            return (*siblings[:index], field, *siblings[index:])
    raise CannotApply(change, f"there is no sibling {after} to stand behind")


def _require_struct(schema: StructType, path: FieldPath, change: ColumnChange) -> None:
    """Refuse to add, drop, rename or move what is not a struct's field: elements, keys and values are fixed."""
    if not path:
        return
    parent = find_field(schema, path)
    if parent is None or not isinstance(parent.type, StructType):
        raise CannotApply(change, f"{dotted(path)} is not a struct")


def _refuse_drop_in_use(spec: TableSpec, change: DropColumn) -> None:
    field = find_field(spec.schema, change.path)
    gone = {below.id for _, below in walk(StructType((field,)))} if field is not None else set()
    users = (
        ("an identifier field", spec.identifier_field_ids),
        ("the source of a partition field", {f.source_id for f in spec.partitioning if f.transform != "void"}),
        ("part of the sort order", {f.source_id for f in spec.sort_order}),
    )
    for user, ids in users:
        if not gone.isdisjoint(ids):
            raise CannotApply(change, f"column {dotted(change.path)} is or holds {user}")


def _expect_before(live: object, before: object, change: Alteration) -> None:
    if live != before:
        raise CannotApply(change, f"column {dotted(change.path)} is not what the change expects")
