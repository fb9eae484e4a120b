"""Say what each change is, in one place, for every output. All text comes back clean: safe to print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, assert_never

import msgspec

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
from reconciler.diff.layout import partitioning_text, sort_order_text
from reconciler.model.table import BOOKKEEPING_PREFIX, PartitionField, Ref, TableSpec
from reconciler.model.type_strings import print_path, print_type, quote_name
from reconciler.model.types import Field, JsonValue, Type, walk
from reconciler.render.safe import clean
from reconciler.render.units import duration, plural

VALUE_LIMIT = 120
CONSTRAINT = f"{BOOKKEEPING_PREFIX}constraint."
TYPE_LIMIT = 400


class Mark(StrEnum):
    """The sign in front of a change; RENAMED also stands for a move of place."""

    ADD = "+"
    DROP = "-"
    ALTER = "~"
    RENAME = "→"


class Aspect(StrEnum):
    """The part of a table that a change touches; the headings of a plan."""

    TABLE = "table"
    COLUMNS = "columns"
    LAYOUT = "layout"
    PROPERTIES = "properties"
    CONSTRAINTS = "constraints"
    REFS = "tags and branches"


class Description(NamedTuple):
    """One change as one line: its mark, what it touches, how."""

    mark: Mark
    aspect: Aspect
    subject: str
    detail: str


def describe(change: Change) -> Description:
    """Return the one sentence of a change."""
    match change:
        case CreateTable() | DropTable() | AdoptTable() | RenameTable() | UpgradeFormat():
            return _table(change)
        case CreateRef() | MoveRef() | SetRefRetention() | DropRef():
            return _ref(change)
        case SetProperty(key=key, after=after) if key.startswith(CONSTRAINT):
            return Description(Mark.ADD, Aspect.CONSTRAINTS, clean(key.removeprefix(CONSTRAINT)), _check(after))
        case UnsetProperty(key=key, before=before) if key.startswith(CONSTRAINT):
            return Description(Mark.DROP, Aspect.CONSTRAINTS, clean(key.removeprefix(CONSTRAINT)), _check(before))
        case SetProperty(key=key, before=None, after=after):
            return Description(Mark.ADD, Aspect.PROPERTIES, clean(key), _value(after))
        case SetProperty(key=key, before=before, after=after):
            return Description(Mark.ALTER, Aspect.PROPERTIES, clean(key), f"{_value(before)} → {_value(after)}")
        case UnsetProperty(key=key, before=before):
            return Description(Mark.DROP, Aspect.PROPERTIES, clean(key), f"was {_value(before)}")
        case SetIdentifierFields(before_names=before, after_names=after):
            return _layout("identifier fields", before, after)
        case SetPartitioning(before_text=before, after_text=after) if before != after:
            return _layout("partitioning", before, after)
        case SetPartitioning(before=before_fields, after=after_fields, after_text=terms):
            return _layout("partitioning", _named(terms, before_fields), _named(terms, after_fields))
        case SetSortOrder(before_text=before, after_text=after):
            return _layout("sort order", before, after)
        case _:
            return _column(change)


def _table(change: CreateTable | DropTable | AdoptTable | RenameTable | UpgradeFormat) -> Description:
    match change:
        case CreateTable(spec=spec):
            columns = plural(len(spec.schema.fields), "column")
            detail = f"new {spec.format.value} v{spec.format_version} table, {columns}"
            return Description(Mark.ADD, Aspect.TABLE, clean(str(spec.ident)), detail)
        case DropTable(ident=ident, uuid=uuid):
            return Description(Mark.DROP, Aspect.TABLE, clean(str(ident)), f"drop the table (uuid {clean(uuid)})")
        case AdoptTable(ident=ident, owner=owner, taken_from=None):
            detail = f"adopt the existing table, nobody owns it; owner {clean(owner)}"
            return Description(Mark.ALTER, Aspect.TABLE, clean(str(ident)), detail)
        case AdoptTable(ident=ident, owner=owner, taken_from=taken_from):
            detail = f"take ownership: {clean(taken_from or '')} → {clean(owner)}"
            return Description(Mark.ALTER, Aspect.TABLE, clean(str(ident)), detail)
        case RenameTable(before=before, after=after):
            return Description(Mark.RENAME, Aspect.TABLE, clean(str(after)), f"(was {clean(str(before))})")
        case UpgradeFormat(before=before_version, after=after_version):
            detail = f"v{before_version} → v{after_version}, there is no way back"
            return Description(Mark.ALTER, Aspect.TABLE, "format version", detail)
        case _:
            assert_never(change)


def _column(
    change: AddColumn
    | DropColumn
    | RenameColumn
    | MoveColumn
    | AlterColumnType
    | AlterColumnRequired
    | AlterColumnDoc
    | AlterColumnDefault,
) -> Description:
    match change:
        case AddColumn(parent=parent, field=field):
            back = f" (restored, field {field.id})" if field.id > 0 else ""
            return _at(Mark.ADD, (*parent, field.name), _field(field) + back)
        case DropColumn(path=path, field_id=field_id, type=type_):
            return _at(Mark.DROP, path, f"was {type_text(type_)}, field {field_id}")
        case RenameColumn(path=path, field_id=field_id, to=to):
            return _at(Mark.RENAME, (*path[:-1], to), f"(was {clean(quote_name(path[-1]))}, field {field_id})")
        case MoveColumn(path=path, after=after):
            return _at(
                Mark.RENAME,
                path,
                f"move after {clean(quote_name(after))}" if after is not None else "move to the front",
            )
        case AlterColumnType(path=path, before=before, after=after):
            return _at(Mark.ALTER, path, f"{type_text(before)} → {type_text(after)}")
        case AlterColumnRequired(path=path, required=required):
            return _at(Mark.ALTER, path, "optional → required" if required else "required → optional")
        case AlterColumnDoc(path=path, before=was, after=now):
            return _at(Mark.ALTER, path, f"doc {_value(was)} → {_value(now)}")
        case AlterColumnDefault(path=path, before=was_default, after=now_default):
            return _at(Mark.ALTER, path, f"write default {_json(was_default)} → {_json(now_default)}")
        case _:
            assert_never(change)


def _ref(change: CreateRef | MoveRef | SetRefRetention | DropRef) -> Description:
    match change:
        case CreateRef(ref=ref):
            keep = _retention(ref)
            detail = f"{ref.kind.value} at snapshot {ref.snapshot_id}{', ' + keep if keep else ''}"
            return Description(Mark.ADD, Aspect.REFS, clean(ref.name), detail)
        case MoveRef(before=before, after=after):
            detail = f"{after.kind.value} snapshot {before.snapshot_id} → {after.snapshot_id}"
            return Description(Mark.ALTER, Aspect.REFS, clean(after.name), detail)
        case SetRefRetention(before=before, after=after):
            detail = f"{_retention(before) or 'default retention'} → {_retention(after) or 'default retention'}"
            return Description(Mark.ALTER, Aspect.REFS, clean(after.name), detail)
        case DropRef(ref=ref):
            return Description(
                Mark.DROP, Aspect.REFS, clean(ref.name), f"{ref.kind.value}, was at snapshot {ref.snapshot_id}"
            )
        case _:
            assert_never(change)


def parts(change: Change) -> Iterator[Description]:
    """Yield the lines below a change: a new table's columns, layout, properties and refs; nothing for the others."""
    if isinstance(change, CreateTable):
        yield from _new_table(change.spec)


def _new_table(spec: TableSpec) -> Iterator[Description]:
    names = {field.id: print_path(path) for path, field in walk(spec.schema)}
    for field in spec.schema.fields:
        yield _at(Mark.ADD, (field.name,), _field(field))
    layout = (
        ("identifier fields", sorted(names.get(i, str(i)) for i in spec.identifier_field_ids)),
        ("partitioning", partitioning_text(spec)),
        ("sort order", sort_order_text(spec)),
        ("location", [spec.location] if spec.location else []),
    )
    for subject, texts in layout:
        if texts:
            yield Description(Mark.ADD, Aspect.LAYOUT, subject, _joined(texts))
    for key, value in sorted(spec.properties.items()):
        yield Description(Mark.ADD, Aspect.PROPERTIES, clean(key), _value(value))
    for ref in spec.refs.values():
        yield describe(CreateRef(ref=ref))


def _layout(subject: str, before: Iterable[str], after: Iterable[str]) -> Description:
    was, now = _joined(before), _joined(after)
    if not was:
        return Description(Mark.ADD, Aspect.LAYOUT, subject, now)
    if not now:
        return Description(Mark.DROP, Aspect.LAYOUT, subject, f"was {was}")
    return Description(Mark.ALTER, Aspect.LAYOUT, subject, f"{was} → {now}")


def _named(terms: Sequence[str], fields: Sequence[PartitionField]) -> list[str]:
    """Tell partition fields apart that differ in nothing but their names."""
    return [f"{term} as {field.name}" for term, field in zip(terms, fields, strict=True)]


def _joined(texts: Iterable[str]) -> str:
    return clean(", ".join(texts))


def _at(mark: Mark, path: tuple[str, ...], detail: str) -> Description:
    return Description(mark, Aspect.COLUMNS, clean(print_path(path)), detail)


def _field(field: Field) -> str:
    text = type_text(field.type) + (" required" if field.required else "")
    if field.initial_default is not None:
        text += f" default {_json(field.initial_default)}"
    if field.write_default is not None and field.write_default != field.initial_default:
        text += f" write default {_json(field.write_default)}"
    return text


def type_text(type_: Type) -> str:
    """Write a type as a manifest does, cut when it is very long."""
    return clean(print_type(type_), TYPE_LIMIT)


def _retention(ref: Ref) -> str:
    stated = (
        ref.max_ref_age_ms is not None and f"kept for {duration(ref.max_ref_age_ms)}",
        ref.max_snapshot_age_ms is not None and f"its snapshots for {duration(ref.max_snapshot_age_ms)}",
        ref.min_snapshots_to_keep is not None and f"at least {plural(ref.min_snapshots_to_keep, 'snapshot')}",
    )
    return ", ".join(text for text in stated if text)


def _value(value: str | None) -> str:
    return "(none)" if value is None else _json(value) if value == "" else clean(value, VALUE_LIMIT)


def _check(memory: str) -> str:
    """Show a constraint's condition, not all that the table remembers of it."""
    try:
        return clean(str(msgspec.json.decode(memory)["check"]), VALUE_LIMIT)
    except (ValueError, KeyError, TypeError):
        return clean(memory, VALUE_LIMIT)


def _json(value: JsonValue) -> str:
    import json

    return "(none)" if value is None else clean(json.dumps(value, ensure_ascii=False), VALUE_LIMIT)


def moment(milliseconds: int) -> str:
    """Write a time since the epoch in UTC; one out of range stays a number."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return f"{milliseconds} ms"
