"""Bind columns: which desired column is which live field id, at any depth.

Siblings are settled level by level: names first, then renames, then what is new and what goes. Type strings say nothing
about ids, so a struct's fields are matched by the same rules as the table's columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import msgspec

from reconciler.diff.bind_renames import Suspects, claim_live_names, suspected_renames
from reconciler.diff.problems import Problem, ProblemKind
from reconciler.model.bookkeeping import managed_columns
from reconciler.model.table import FORMER_SUFFIX, TWIN_SUFFIX, Desired, Observed, TableSpec, UnmanagedColumns
from reconciler.model.types import (
    Field,
    FieldPath,
    ListType,
    MapType,
    StructType,
    Type,
    assign_ids,
    field_ids,
    fields_of,
    with_fields,
)


def create_columns(columns: StructType) -> StructType:
    """Return the schema of a new table, its ids 1..n in the order in which Iceberg's `create_table` numbers them."""
    ids = count(1)
    return StructType(tuple(_without_empty_docs(f) for f in assign_ids(columns, lambda: next(ids)).fields))


def bind_columns(desired: Desired, current: Observed) -> tuple[StructType, list[Problem]]:
    """Return the schema the table shall have, kept and renamed fields under their ids, new ones under negative ids."""
    live = current.spec.schema
    if not desired.defaults_stated and _is_same(desired.columns, live):
        return live, []
    binder = _ColumnBinder(desired, current)
    fields = binder.bind_siblings((), desired.columns.fields, live.fields)
    return (live if fields == live.fields else StructType(fields)), binder.problems


def _is_same(desired: Type, live: Type) -> bool:
    """Whether the manifest says exactly what is there; the hot path, so no paths and no sets."""
    if isinstance(desired, str) or isinstance(live, str):
        return desired == live
    ours, theirs = fields_of(desired), fields_of(live)
    if type(desired) is not type(live) or len(ours) != len(theirs):
        return False
    for field, other in zip(ours, theirs, strict=True):
        if (
            field.name != other.name
            or field.required != other.required
            or (field.doc is not None and field.doc != (other.doc or ""))
            or (field.type != other.type and not _is_same(field.type, other.type))
        ):
            return False
    return True


def _without_empty_docs(field: Field) -> Field:
    """Drop the doc "", which only says "remove it"."""
    nested = tuple(_without_empty_docs(child) for child in fields_of(field.type))
    type_ = with_fields(field.type, nested) if nested else field.type
    return msgspec.structs.replace(field, doc=field.doc or None, type=type_)


def in_use(spec: TableSpec, desired: Desired) -> dict[int, str]:
    """Map the ids that the bound layout will still refer to, because the manifest does not state that layout."""
    used: dict[int, str] = {}
    if desired.sort_order is None:
        used |= {field.source_id: "the sort order" for field in spec.sort_order}
    if desired.partitioning is None:
        used |= {f.source_id: f"partition field {f.name}" for f in spec.partitioning if f.transform != "void"}
    if desired.identifier_fields is None:
        used |= dict.fromkeys(spec.identifier_field_ids, "an identifier field")
    return used


class _ColumnBinder:
    """One run over one table: collects problems and hands out provisional ids."""

    def __init__(self, desired: Desired, current: Observed) -> None:
        self.problems: list[Problem] = []
        self._desired = desired
        self._managed = managed_columns(current.bookkeeping)
        self._in_use = in_use(current.spec, desired)
        self._next_id = 0

    def bind_siblings(self, prefix: FieldPath, desired: Sequence[Field], live: Sequence[Field]) -> tuple[Field, ...]:
        """Bind the children of one struct (or of the table) and put them in order."""
        former = {
            field.name: name
            for field in desired
            if (name := self._desired.column_renames.get((*prefix, field.name))) is not None
        }
        claims, problems = claim_live_names(prefix, desired, live, former, self._managed)
        claims |= self._case_clashes(prefix, desired, live, claims)
        self.problems += problems
        ambiguous = {problem.before for problem in problems if problem.kind is ProblemKind.RENAME_AMBIGUOUS}

        by_name = {field.name: field for field in live}
        claimed = set(claims.values())
        unclaimed = [field for field in live if field.name not in claimed]
        kept = [f for f in unclaimed if f.name in ambiguous or self._is_kept(prefix, f)]
        bound = [
            self._bind_field(prefix, field, by_name[claims[field.name]]) if field.name in claims else self._new(field)
            for field in desired
        ]
        self.problems += suspected_renames(
            prefix,
            Suspects(
                live=live,
                desired=desired,
                added=[f for f in desired if f.name not in claims and f.name not in former and not _is_ours(f)],
                dropped=[f for f in unclaimed if f.name not in ambiguous and self._is_unwanted(f) and not _is_ours(f)],
                kept=[f for f in unclaimed if f.name not in ambiguous and not self._is_unwanted(f)],
            ),
        )
        return tuple(_ordered(bound, live, kept))

    def _case_clashes(
        self, prefix: FieldPath, desired: Sequence[Field], live: Sequence[Field], claims: dict[str, str]
    ) -> dict[str, str]:
        """Report names that differ from a live one only by case, and bind them to it: most readers cannot tell."""
        taken = set(claims.values())
        folded = {field.name.lower(): field.name for field in live if field.name not in taken}
        clashes = {}
        for field in desired:
            other = folded.get(field.name.lower())
            if other is not None and (field.name not in claims or claims[field.name] != field.name):
                path = (*prefix, field.name)
                self.problems.append(Problem(kind=ProblemKind.CASE_CLASH, path=path, before=other, after=field.name))
                if field.name not in claims:
                    clashes[field.name] = folded.pop(field.name.lower())
        return clashes

    def _is_unwanted(self, live: Field) -> bool:
        """Whether a live field that the manifest does not name is ours to drop."""
        return live.id in self._managed or self._desired.unmanaged_columns is UnmanagedColumns.DROP

    def _is_kept(self, prefix: FieldPath, live: Field) -> bool:
        """Decide about a live field that the manifest does not name."""
        path = (*prefix, live.name)
        if not self._is_unwanted(live):
            policy = self._desired.unmanaged_columns
            if policy is not UnmanagedColumns.IGNORE:
                self.problems.append(
                    Problem(kind=ProblemKind.UNMANAGED_COLUMN, path=path, before=shape(live.type), after=policy.value)
                )
            return True
        users = [user for id_, user in self._in_use.items() if id_ == live.id or id_ in field_ids(live.type)]
        for user in users:
            self.problems.append(Problem(kind=ProblemKind.COLUMN_IN_USE, path=path, before=user))
        return bool(users)

    def _bind_field(self, prefix: FieldPath, desired: Field, live: Field) -> Field:
        path = (*prefix, desired.name)
        clashes = desired.name != live.name and desired.name.lower() == live.name.lower()
        is_rename = self._desired.column_renames.get(path) == live.name
        states_default = path in self._desired.defaults_stated
        field = Field(
            id=live.id,
            name=live.name if clashes and not is_rename else desired.name,
            required=desired.required,
            type=self._bind_type(path, desired.type, live.type),
            doc=live.doc if desired.doc is None else desired.doc or None,
            initial_default=live.initial_default,
            write_default=desired.write_default if states_default else live.write_default,
        )
        return live if field == live else field

    def _bind_type(self, path: FieldPath, desired: Type, live: Type) -> Type:
        if isinstance(desired, str) and isinstance(live, str):
            return desired
        if type(desired) is not type(live):
            self.problems.append(
                Problem(kind=ProblemKind.SHAPE_CHANGED, path=path, before=shape(live), after=shape(desired))
            )
            return live
        if not isinstance(desired, StructType):
            children = [
                self._bind_field(path, ours, theirs)
                for ours, theirs in zip(fields_of(desired), fields_of(live), strict=True)
            ]
            return with_fields(live, tuple(children))
        return StructType(self.bind_siblings(path, desired.fields, fields_of(live)))

    def _new(self, desired: Field) -> Field:
        field = msgspec.structs.replace(desired, id=self._provisional_id())
        nested = assign_ids(field.type, self._provisional_id)
        return _without_empty_docs(msgspec.structs.replace(field, type=nested))

    def _provisional_id(self) -> int:
        self._next_id -= 1
        return self._next_id


def shape(type_: Type) -> str:
    """Name a type's kind; a primitive by itself."""
    match type_:
        case StructType():
            return "struct"
        case ListType():
            return "list"
        case MapType():
            return "map"
        case _:
            return type_


def _is_ours(field: Field) -> bool:
    """Say whether a column comes and goes with a type change: nobody means a rename by it."""
    return field.name.endswith(TWIN_SUFFIX) or FORMER_SUFFIX in field.name


def _ordered(bound: Sequence[Field], live: Sequence[Field], kept: Sequence[Field]) -> Iterator[Field]:
    """Yield the manifest's order; fields it does not name stay behind their current predecessor."""
    if not kept:
        yield from bound
        return
    bound_ids = {field.id for field in bound}
    kept_ids = {field.id for field in kept}
    behind: dict[int | None, list[Field]] = {}
    anchor: int | None = None
    for field in live:
        if field.id in bound_ids:
            anchor = field.id
        elif field.id in kept_ids:
            behind.setdefault(anchor, []).append(field)
    yield from behind.get(None, ())
    for field in bound:
        yield field
        yield from behind.get(field.id, ())
