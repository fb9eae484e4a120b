"""Rules of the Iceberg specification about a table as a whole: layouts, identifier fields, names, format features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.diff.changes import (
    AddColumn,
    AlterColumnDefault,
    AlterColumnDoc,
    AlterColumnRequired,
    AlterColumnType,
    Change,
    CreateTable,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetIdentifierFields,
    SetPartitioning,
    SetSortOrder,
)
from reconciler.model.primitives import V3_NAMES, primitive_name
from reconciler.model.transforms import NAMES, takes
from reconciler.model.types import Field, FieldPath, JsonValue, Type, walk
from reconciler.plan.dialect import Context, Located
from reconciler.plan.findings import finding
from reconciler.plan.operations import Finding

_NULL_DEFAULT_ONLY = frozenset({"unknown", "variant", "geometry", "geography"})
_LAYOUT = (CreateTable, SetPartitioning, SetSortOrder, AddColumn, RenameColumn, DropColumn, AlterColumnType)
_IDENTIFIERS = (CreateTable, SetIdentifierFields, AlterColumnRequired, DropColumn)


# ---------------------------------------------------------------- one change


def column_findings(change: Change, context: Context) -> Iterator[Finding]:
    """Yield what the format forbids about one column change."""
    match change:
        case AddColumn(parent=parent, field=field):
            path = (*parent, field.name)
            yield from _map_key(context.target_fields.get(field.id), path, context)
            yield from field_findings(field, path, context)
        case AlterColumnDefault(path=path, field_id=field_id, after=after):
            located = context.target_fields.get(field_id)
            yield from _default_findings(path, after, located, context)
            yield from _map_key(context.current_fields.get(field_id), path, context)
        case (
            RenameColumn(path=path, field_id=field_id)
            | DropColumn(path=path, field_id=field_id)
            | MoveColumn(path=path, field_id=field_id)
            | AlterColumnType(path=path, field_id=field_id)
            | AlterColumnRequired(path=path, field_id=field_id)
            | AlterColumnDoc(path=path, field_id=field_id)
        ):
            yield from _map_key(context.current_fields.get(field_id), path, context)
        case _:
            pass


def field_findings(field: Field, path: FieldPath, context: Context) -> Iterator[Finding]:
    """Yield what the format forbids about a new field and everything below it."""
    yield from _feature_findings(field, path, context)
    if not isinstance(field.type, str):
        for nested_path, nested in walk(field.type, path):
            yield from _feature_findings(nested, nested_path, context)


def _feature_findings(field: Field, path: FieldPath, context: Context) -> Iterator[Finding]:
    version = context.target.format_version
    kind = primitive_name(field.type) if isinstance(field.type, str) else ""
    if kind in V3_NAMES and version < 3:
        message = f"Column {context.column(path)} has type {field.type}, which format version {version} does not know."
        yield finding("LK404", message, path=path)
    if field.initial_default is not None or field.write_default is not None:
        default = field.initial_default if field.write_default is None else field.write_default
        yield from _default_findings(path, default, Located(path=path, field=field), context)
    if kind == "unknown" and field.required:
        yield finding("LK214", f"Column {context.column(path)} of type unknown cannot be required.", path=path)


def _default_findings(
    path: FieldPath, value: JsonValue, located: Located | None, context: Context
) -> Iterator[Finding]:
    version = context.target.format_version
    if version < 3:
        message = f"Column {context.column(path)} has a default, which format version {version} does not know."
        yield finding("LK404", message, path=path)
    if located is None or value is None:
        return
    type_ = located.field.type
    if not isinstance(type_, str) or primitive_name(type_) in _NULL_DEFAULT_ONLY:
        spelled = type_ if isinstance(type_, str) else "nested"
        yield finding("LK214", f"Column {context.column(path)} of type {spelled} cannot have a default.", path=path)


def _map_key(located: Located | None, path: FieldPath, context: Context) -> Iterator[Finding]:
    if located is not None and located.in_map_key:
        yield finding("LK213", f"Cannot change {context.column(path)}: it is part of a map's key.", path=path)


# ---------------------------------------------------------------- the target as a whole


def check_target(changes: Sequence[Change], context: Context, reserved: frozenset[str]) -> tuple[Finding, ...]:
    """Check what these changes can have broken, and nothing else: a table's older sins are not this plan's."""
    found: list[Finding] = []
    if any(isinstance(change, _LAYOUT) for change in changes):
        found += _partitioning_findings(context)
        found += _sort_findings(context)
    if any(isinstance(change, _IDENTIFIERS) for change in changes):
        found += _identifier_findings(context)
    for change in changes:
        match change:
            case CreateTable(spec=spec):
                for field in spec.schema.fields:
                    found += field_findings(field, (field.name,), context)
                    found += _name_findings((field.name,), context, reserved)
            case AddColumn(parent=(), field=field):
                found += _name_findings((field.name,), context, reserved)
            case RenameColumn(path=(_,), to=to):
                found += _name_findings((to,), context, reserved)
            case _:
                pass
    return tuple(found)


def _name_findings(path: FieldPath, context: Context, reserved: frozenset[str]) -> Iterator[Finding]:
    if path[-1].lower() in reserved:
        yield finding("LK606", f"The column name {context.column(path)} is reserved for Iceberg's readers.", path=path)


def _identifier_findings(context: Context) -> Iterator[Finding]:
    for field_id in sorted(context.target.identifier_field_ids):
        located = context.target_fields.get(field_id)
        if located is None:
            yield _in_use(field_id, "an identifier field", "identifierFields", context)
            continue
        why = _why_no_identifier(located)
        if why:
            message = f"{context.column(located.path)} cannot be an identifier field: {why}."
            yield finding("LK405", message, path=located.path)


def _why_no_identifier(located: Located) -> str:
    type_ = located.field.type
    if not isinstance(type_, str):
        return "it is nested"
    if located.in_collection:
        return "it lies inside a list or map"
    if type_ in ("float", "double"):
        return f"it is a {type_}"
    if located.in_optional:
        return "it lies inside an optional struct"
    return "" if located.field.required else "it is optional"


def _partitioning_findings(context: Context) -> Iterator[Finding]:
    names: set[str] = set()
    roles: set[tuple[int, str]] = set()
    top_level = {field.name: field.id for field in context.target.schema.fields}
    for field in context.target.partitioning:
        if field.transform == "void":  # what version 1 leaves of a removed field; its column may go
            names.add(field.name)
            continue
        located = context.target_fields.get(field.source_id)
        if located is None:
            yield _in_use(field.source_id, f"partition field {field.name}", "partitioning", context)
            continue
        yield from _source_findings(located, field.transform, "partitioned", context)
        if (field.source_id, field.transform) in roles:
            message = f"{context.column(located.path)} is partitioned by {field.transform} twice."
            yield finding("LK407", message, path=located.path)
        is_own_column = field.transform == "identity" and top_level.get(field.name) == field.source_id
        if field.name in names or (field.name in top_level and not is_own_column):
            message = f"The partition field name {field.name} of {context.table.name} is taken by another field."
            yield finding("LK407", message, path=located.path, hint="Give the partition field another `name`.")
        names.add(field.name)
        roles.add((field.source_id, field.transform))


def _sort_findings(context: Context) -> Iterator[Finding]:
    for field in context.target.sort_order:
        located = context.target_fields.get(field.source_id)
        if located is None:
            yield _in_use(field.source_id, "part of the sort order", "sortOrder", context)
        else:
            yield from _source_findings(located, field.transform, "sorted", context)


def _source_findings(located: Located, transform: str, verb: str, context: Context) -> Iterator[Finding]:
    column = context.column(located.path)
    if located.in_collection:
        message = f"A table cannot be {verb} by {column}: it repeats inside a list or map."
        yield finding("LK407", message, path=located.path, hint="Choose a column outside of lists and maps.")
    elif not _takes(transform, located.field.type):
        spelled = located.field.type if isinstance(located.field.type, str) else "nested columns"
        message = f"A table cannot be {verb} by {transform}({column}): the transform does not take {spelled}."
        yield finding("LK407", message, path=located.path)


def _takes(transform: str, type_: Type) -> bool:
    """A transform that we do not know came from the live table: whoever put it there knew what it takes."""
    return transform.partition("[")[0] not in NAMES or (isinstance(type_, str) and takes(transform, type_))


def _in_use(field_id: int, role: str, place: str, context: Context) -> Finding:
    located = context.current_fields.get(field_id)
    path = located.path if located else ()
    message = f"Cannot drop column {context.column(path) if path else field_id}: it is {role}."
    return finding("LK110", message, path=path, hint=f"Remove it from `{place}` first.")
