"""The change vocabulary: one small value per difference, applicable left to right by `diff.apply`.

A change is a fact about two specs; what it means is policy's question and what to do about it the planner's. Paths are
as named at the moment the change runs. Field ids: positive exist in the table (or come back by undo), negative are new.
"""

from __future__ import annotations

import msgspec

from reconciler.model.table import PartitionField, Ref, SortField, TableIdent, TableSpec
from reconciler.model.types import Field, FieldPath, JsonValue, Type


class CreateTable(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="create-table"):
    """There is no such table yet."""

    spec: TableSpec


class DropTable(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="drop-table"):
    """The table goes away; data files stay until the catalog purges them."""

    ident: TableIdent
    uuid: str


class AdoptTable(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="adopt-table"):
    """An existing table that nobody owns becomes this manifest's."""

    ident: TableIdent
    owner: str
    taken_from: str | None = None


class RenameTable(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="rename-table"):
    """The table takes another name in the same catalog; readers by name lose it."""

    before: TableIdent
    after: TableIdent


class AddColumn(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="add-column"):
    """Add `field` (nested ids included) below `parent`, after the sibling `after` or, with None, first."""

    parent: FieldPath
    field: Field
    after: str | None


class DropColumn(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="drop-column"):
    """Remove a column or nested field; `type` tells the reviewer what goes."""

    path: FieldPath
    field_id: int
    type: Type


class RenameColumn(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="rename-column"):
    """Give the last segment of `path` another name; the field id stays."""

    path: FieldPath
    field_id: int
    to: str


class MoveColumn(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="move-column"):
    """Move among its siblings, behind `after` or, with None, to the front."""

    path: FieldPath
    field_id: int
    after: str | None


class AlterColumnType(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="alter-column-type"):
    """Change a primitive type."""

    path: FieldPath
    field_id: int
    before: Type
    after: Type


class AlterColumnRequired(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="alter-column-required"):
    """Make a column required, or optional."""

    path: FieldPath
    field_id: int
    required: bool


class AlterColumnDoc(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="alter-column-doc"):
    """Set or remove a column's doc."""

    path: FieldPath
    field_id: int
    before: str | None
    after: str | None


class AlterColumnDefault(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="alter-column-default"):
    """Set or remove the default that later writes use (Iceberg's write-default)."""

    path: FieldPath
    field_id: int
    before: JsonValue
    after: JsonValue


class SetIdentifierFields(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="set-identifier-fields"):
    """Replace the set of identifier fields; the names are for people."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    before_names: tuple[str, ...]
    after_names: tuple[str, ...]


class SetPartitioning(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="set-partitioning"):
    """Replace the default partition spec; existing files keep theirs. `*_text` is for people: `day(ordered_at)`."""

    before: tuple[PartitionField, ...]
    after: tuple[PartitionField, ...]
    before_text: tuple[str, ...]
    after_text: tuple[str, ...]


class SetSortOrder(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="set-sort-order"):
    """Replace the default sort order; existing files keep theirs."""

    before: tuple[SortField, ...]
    after: tuple[SortField, ...]
    before_text: tuple[str, ...]
    after_text: tuple[str, ...]


class SetProperty(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="set-property"):
    """Set one table property; `before` None: it was not there."""

    key: str
    before: str | None
    after: str


class UnsetProperty(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="unset-property"):
    """Remove one table property that we set before."""

    key: str
    before: str


class UpgradeFormat(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="upgrade-format"):
    """Raise the table's format version; there is no way back."""

    before: int
    after: int


class CreateRef(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="create-ref"):
    """Make a tag or branch."""

    ref: Ref


class MoveRef(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="move-ref"):
    """Point an existing tag or branch at another snapshot."""

    before: Ref
    after: Ref


class SetRefRetention(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="set-ref-retention"):
    """Change how long a tag or branch, or its snapshots, are kept; it stays where it is."""

    before: Ref
    after: Ref


class DropRef(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="drop-ref"):
    """Remove a tag or branch that we made."""

    ref: Ref


Change = (
    CreateTable
    | DropTable
    | AdoptTable
    | RenameTable
    | AddColumn
    | DropColumn
    | RenameColumn
    | MoveColumn
    | AlterColumnType
    | AlterColumnRequired
    | AlterColumnDoc
    | AlterColumnDefault
    | SetIdentifierFields
    | SetPartitioning
    | SetSortOrder
    | SetProperty
    | UnsetProperty
    | UpgradeFormat
    | CreateRef
    | MoveRef
    | SetRefRetention
    | DropRef
)
