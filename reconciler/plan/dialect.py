"""What the planner asks of a table format: capabilities as data first, code only where data cannot say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

import msgspec

from reconciler.diff.changes import Change
from reconciler.model.table import DataFile, Observed, TableFormat, TableIdent, TableSpec
from reconciler.model.types import Field, FieldPath, ListType, MapType, Type, dotted, fields_of
from reconciler.plan.operations import Finding, Note, OperationClass


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """How a kind of change is classed when nothing special is known about it, and the finding it always brings."""

    operation_class: OperationClass
    breaking: bool = False
    code: str = ""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a format does in place, by kind of change; names in lower case that its readers keep for themselves."""

    format: TableFormat
    rules: Mapping[type[Change], Rule]
    reserved_columns: frozenset[str]


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """A field where it stands in a schema, and what lies around it: collections, a map's key, optional structs."""

    path: FieldPath
    field: Field
    in_collection: bool = False
    in_map_key: bool = False
    in_optional: bool = False


def locate(schema: Type) -> dict[int, Located]:
    """Index every field of a schema by id, with what its ancestors mean for it."""
    found: dict[int, Located] = {}
    _locate(schema, Located(path=(), field=Field(name="", required=True, type=schema)), found)
    return found


def _locate(type_: Type, parent: Located, found: dict[int, Located]) -> None:
    in_collection = parent.in_collection or isinstance(type_, ListType | MapType)
    in_optional = parent.in_optional or not parent.field.required
    is_map = isinstance(type_, MapType)
    for field in fields_of(type_):
        located = Located(
            path=(*parent.path, field.name),
            field=field,
            in_collection=in_collection,
            in_map_key=parent.in_map_key or (is_map and field.name == "key"),
            in_optional=in_optional,
        )
        found[field.id] = located
        if not isinstance(field.type, str):
            _locate(field.type, located, found)


class Context(msgspec.Struct, frozen=True, dict=True):
    """Everything a verdict may rest on; `files` None: the manifests were not read.

    `rewrites`: existing files are rewritten to a changed layout.
    """

    current: Observed | None
    target: TableSpec
    files: tuple[DataFile, ...] | None = None
    rewrites: bool = False

    @property
    def table(self) -> TableIdent:
        """The table as it will be called."""
        return self.target.ident

    @property
    def is_empty(self) -> bool:
        """Whether no row can be there: the table is new, or main has no snapshot."""
        return self.current is None or self.current.version.snapshot_id is None

    @cached_property
    def current_fields(self) -> Mapping[int, Located]:
        """The live schema by field id."""
        return locate(self.current.spec.schema) if self.current else {}

    @cached_property
    def target_fields(self) -> Mapping[int, Located]:
        """The target schema by field id; new fields have negative ids when the table exists."""
        return locate(self.target.schema)

    def column(self, path: FieldPath) -> str:
        """Name a column for people: `orders.address.zip`."""
        return f"{self.target.ident.name}.{dotted(path)}"


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What a dialect says about one change; `guards_snapshot`: the verdict holds for main's present head only."""

    note: Note
    findings: tuple[Finding, ...] = ()
    guards_snapshot: bool = False


class Dialect(Protocol):
    """One table format's rules."""

    @property
    def capabilities(self) -> Capabilities:
        """What the format can do, as data."""
        ...

    def judge(self, change: Change, context: Context) -> Judgement:
        """Class one change, with evidence; what cannot be done in place is a finding with a hint."""
        ...

    def check(self, changes: Sequence[Change], context: Context) -> tuple[Finding, ...]:
        """Check the target as a whole, as far as these changes can have broken it."""
        ...
