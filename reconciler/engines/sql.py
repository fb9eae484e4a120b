"""Changes as Spark SQL, for Spark Connect and for people; what SQL cannot say is refused, never approximated.

Each statement is a commit of its own. Names and texts come from manifests and live tables, so every identifier is
quoted and every string escaped: doubling quotes is not enough, for a backslash would let the quote out again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reconciler.diff.apply import apply
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
from reconciler.errors import Unsupported
from reconciler.model.table import PartitionField, Ref, RefKind, SortField, TableIdent, TableSpec
from reconciler.model.types import Field, FieldPath, ListType, MapType, StructType, Type, paths_by_id

ELSEWHERE = "--engine catalog and Spark without Connect can."
_PRIMITIVES = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP",
    "string": "STRING",
    "binary": "BINARY",
    "variant": "VARIANT",
}
_TRANSFORM = re.compile(r"(identity|year|month|day|hour|bucket|truncate)(?:\[(\d+)\])?")
_UNITS = ((86_400_000, "DAYS"), (3_600_000, "HOURS"), (60_000, "MINUTES"))


def identifier(name: str) -> str:
    """Quote one identifier."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Quote one string, safe against both ways out of it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def table_name(catalog: str, table: TableIdent) -> str:
    """Quote a table's full name."""
    return ".".join(identifier(part) for part in (catalog, *table.namespace, table.name))


def procedure(catalog: str, name: str, table: TableIdent, arguments: str) -> str:
    """Call one of Iceberg's procedures for a table."""
    of_table = ".".join(identifier(part) for part in (*table.namespace, table.name))
    return f"CALL {identifier(catalog)}.system.{name}(table => {literal(of_table)}, {arguments})"


def render_all(changes: Sequence[Change], catalog: str, spec: TableSpec) -> list[str]:
    """Render changes to a table in order; properties of all changes share one statement."""
    statements: list[str] = []
    values: dict[str, str] = {}
    for index, change in enumerate(changes):
        if isinstance(change, SetProperty):
            values[change.key] = change.after
        else:
            statements += render_sql(change, catalog, apply(spec, changes[:index]), apply(spec, changes[: index + 1]))
    if values:
        pairs = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in values.items())
        statements.append(f"ALTER TABLE {table_name(catalog, spec.ident)} SET TBLPROPERTIES ({pairs})")
    return statements


def refusal(change: Change) -> str | None:
    """Say why SQL cannot state a change, as far as the change alone tells; None: it can, or the table decides."""
    match change:
        case CreateTable():
            return f"Spark SQL adds properties of its own to a table it creates; {ELSEWHERE}"
        case AddColumn(field=field):
            return _field_refusal(field)
        case AlterColumnRequired(required=True):
            return f"Spark SQL has no SET NOT NULL for Iceberg; {ELSEWHERE}"
        case AlterColumnDefault():
            return f"Spark SQL has no column defaults for Iceberg; {ELSEWHERE}"
        case SetSortOrder(after=()):
            return f"Spark SQL's WRITE UNORDERED also sets the distribution mode; {ELSEWHERE}"
        case AlterColumnDoc(after=None):
            return f"Spark SQL cannot remove a comment, only empty it; {ELSEWHERE}"
        case _:
            return None


def render_sql(change: Change, catalog: str, before: TableSpec, after: TableSpec) -> list[str]:
    """Render one change of the table `before`, which makes it `after`; raise Unsupported when SQL cannot say it."""
    if (reason := refusal(change)) is not None:
        raise Unsupported(reason)
    table = table_name(catalog, before.ident)
    match change:
        case AdoptTable():
            return []
        case DropTable():
            return [f"DROP TABLE {table}"]
        case RenameTable(after=name):
            return [f"ALTER TABLE {table} RENAME TO {table_name(catalog, name)}"]
        case SetIdentifierFields() | SetPartitioning() | SetSortOrder():
            return [f"ALTER TABLE {table} {clause}" for clause in _layout(change, before, after)]
        case _:
            clause = _column(change) or _property(change) or _ref_change(change)
            if clause is None:
                raise Unsupported(f"Spark SQL cannot make this change; {ELSEWHERE}")
            return [f"ALTER TABLE {table} {clause}"]


def _layout(
    change: SetIdentifierFields | SetPartitioning | SetSortOrder, before: TableSpec, after: TableSpec
) -> Iterator[str]:
    match change:
        case SetIdentifierFields():
            yield from _identifier_fields(before, after)
        case SetPartitioning():
            yield from _partitioning(before, after)
        case SetSortOrder():
            yield f"WRITE LOCALLY ORDERED BY {', '.join(_sort_field(f, after) for f in after.sort_order)}"


def _property(change: Change) -> str | None:
    match change:
        case SetProperty(key=key, after=value):
            return f"SET TBLPROPERTIES ({literal(key)} = {literal(value)})"
        case UnsetProperty(key=key):
            return f"UNSET TBLPROPERTIES ({literal(key)})"
        case UpgradeFormat(after=version):
            return f"SET TBLPROPERTIES ('format-version' = '{version}')"
        case _:
            return None


def _ref_change(change: Change) -> str | None:
    match change:
        case CreateRef(ref=ref):
            return f"CREATE {_ref(ref)}"
        case MoveRef(after=ref) | SetRefRetention(after=ref):
            return f"REPLACE {_ref(ref)}"
        case DropRef(ref=ref):
            return f"DROP {ref.kind.value.upper()} {identifier(ref.name)}"
        case _:
            return None


def _column(change: Change) -> str | None:
    match change:
        case AddColumn(parent=parent, field=field, after=after):
            comment = f" COMMENT {literal(field.doc)}" if field.doc else ""
            place = _place(after)
            return f"ADD COLUMN {_path((*parent, field.name))} {_type(field.type)}{comment} {place}"
        case DropColumn(path=path):
            return f"DROP COLUMN {_path(path)}"
        case RenameColumn(path=path, to=to):
            return f"RENAME COLUMN {_path(path)} TO {identifier(to)}"
        case MoveColumn(path=path, after=after):
            return f"ALTER COLUMN {_path(path)} {_place(after)}"
        case AlterColumnType(path=path, after=type_):
            return f"ALTER COLUMN {_path(path)} TYPE {_type(type_)}"
        case AlterColumnRequired(path=path):
            return f"ALTER COLUMN {_path(path)} DROP NOT NULL"
        case AlterColumnDoc(path=path, after=doc):
            return f"ALTER COLUMN {_path(path)} COMMENT {literal(doc or '')}"
        case _:
            return None


def _path(path: FieldPath) -> str:
    return ".".join(identifier(segment) for segment in path)


def _place(after: str | None) -> str:
    return "FIRST" if after is None else f"AFTER {identifier(after)}"


def _type(type_: Type) -> str:
    match type_:
        case StructType(fields=fields):
            return f"STRUCT<{', '.join(_struct_field(f) for f in fields)}>"
        case ListType(element=element):
            return f"ARRAY<{_type(element)}>"
        case MapType(key=key, value=value):
            return f"MAP<{_type(key)}, {_type(value)}>"
        case _:
            if type_.startswith("decimal("):
                return type_.upper()
            if type_ not in _PRIMITIVES:
                raise Unsupported(f"Spark SQL has no type for {type_}; {ELSEWHERE}")
            return _PRIMITIVES[type_]


def _struct_field(field: Field) -> str:
    null = " NOT NULL" if field.required else ""
    comment = f" COMMENT {literal(field.doc)}" if field.doc else ""
    return f"{identifier(field.name)}: {_type(field.type)}{null}{comment}"


def _field_refusal(field: Field) -> str | None:
    if field.id > 0:
        return f"Spark SQL gives a column that comes back a new field id; {ELSEWHERE}"
    if field.required:
        return f"Spark SQL cannot add a required column; {ELSEWHERE}"
    if field.initial_default is not None or field.write_default is not None:
        return f"Spark SQL has no column defaults for Iceberg; {ELSEWHERE}"
    try:
        _refuse_required_elements(field.type)
        _type(field.type)
    except Unsupported as error:
        return error.message
    return None


def _refuse_required_elements(type_: Type) -> None:
    match type_:
        case ListType(element_required=True) | MapType(value_required=True):
            raise Unsupported(f"Spark SQL cannot say that elements or values are required; {ELSEWHERE}")
        case ListType(element=inner) | MapType(value=inner):
            _refuse_required_elements(inner)
        case StructType(fields=fields):
            for field in fields:
                _refuse_required_elements(field.type)


def _identifier_fields(before: TableSpec, after: TableSpec) -> Iterator[str]:
    paths = paths_by_id(after.schema)
    gone = before.identifier_field_ids - after.identifier_field_ids
    new = after.identifier_field_ids - before.identifier_field_ids
    for verb, ids in (("DROP", gone), ("SET", after.identifier_field_ids if new else frozenset[int]())):
        if ids:
            yield f"{verb} IDENTIFIER FIELDS {', '.join(_path(paths[id_]) for id_ in sorted(ids))}"


def _partitioning(before: TableSpec, after: TableSpec) -> Iterator[str]:
    kept = [f for f in before.partitioning if f in after.partitioning]
    new = [f for f in after.partitioning if f not in before.partitioning]
    if (*kept, *new) != after.partitioning:
        raise Unsupported(f"Spark SQL adds partition fields last only; {ELSEWHERE}")
    for field in before.partitioning:
        if field not in kept:
            yield f"DROP PARTITION FIELD {identifier(field.name)}"
    for field in new:
        yield f"ADD PARTITION FIELD {_transform(field, after)} AS {identifier(field.name)}"


def _sort_field(field: SortField, spec: TableSpec) -> str:
    return f"{_transform(field, spec)} {field.direction.value.upper()} NULLS {field.nulls.value.upper()}"


def _transform(field: PartitionField | SortField, spec: TableSpec) -> str:
    column = _path(paths_by_id(spec.schema)[field.source_id])
    match = _TRANSFORM.fullmatch(field.transform)
    if match is None:
        raise Unsupported(f"Spark SQL has no transform {field.transform}; {ELSEWHERE}")
    name, width = match.groups()
    if name == "identity":
        return column
    return f"{name}({width}, {column})" if width else f"{name}({column})"


def _ref(ref: Ref) -> str:
    clauses = [f"{ref.kind.value.upper()} {identifier(ref.name)} AS OF VERSION {ref.snapshot_id}"]
    if ref.max_ref_age_ms is not None:
        clauses.append(f"RETAIN {_duration(ref.max_ref_age_ms)}")
    if ref.kind is RefKind.BRANCH and (ref.min_snapshots_to_keep or ref.max_snapshot_age_ms):
        count = f" {ref.min_snapshots_to_keep} SNAPSHOTS" if ref.min_snapshots_to_keep else ""
        age = f" {_duration(ref.max_snapshot_age_ms)}" if ref.max_snapshot_age_ms else ""
        clauses.append(f"WITH SNAPSHOT RETENTION{count}{age}")
    return " ".join(clauses)


def _duration(milliseconds: int) -> str:
    for size, unit in _UNITS:
        if milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    raise Unsupported(f"Spark SQL retains for whole minutes only; {ELSEWHERE}")
