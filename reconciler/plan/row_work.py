"""Work that looks at rows before a metadata commit: validation scans, and the swap that ends a type change."""

from __future__ import annotations

import msgspec

from reconciler.model.types import FieldPath, JsonValue


class RequiredColumn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A column, or a field of structs only, that no row may leave without a value."""

    path: FieldPath
    field_id: int


class RowCheck(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A condition that no row may make false (NULL passes, as in SQL); `sql` was parsed and printed anew.

    `fault` says what rows do that break it ("have no amount").
    """

    fault: str
    sql: str


class Validate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="work", tag="validate"):
    """What a validation scan asks of the rows before the metadata commit that rests on it.

    `since` is a snapshot whose files were scanned already: only what came later is read.
    """

    required: tuple[RequiredColumn, ...] = ()
    checks: tuple[RowCheck, ...] = ()
    since: int | None = None


class SwappedColumn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A column whose converted twin takes its name.

    `missing` finds rows whose twin has another value than theirs becomes, `failed` (empty: they may stay NULL) those
    whose value cannot be converted; both were printed anew. `required`: so must the twin be.
    """

    name: str
    field_id: int
    new_id: int
    missing: str
    failed: str = ""
    required: bool = False
    states_default: bool = False
    default: JsonValue = None


class Swap(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="work", tag="swap"):
    """What a SWAP does: check that every row is converted, then exchange the names in one commit."""

    columns: tuple[SwappedColumn, ...]
