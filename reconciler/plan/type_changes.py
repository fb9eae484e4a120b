"""Type changes that the format cannot make in place: a converted twin is filled, takes the name, the former one goes.

The table alone says how far a change is. `laketable.typechange.<field id>` names the twin of a column: while the twin
bears its own name the column is being converted; once it bears the column's, the former one is kept until its date.
`expand` turns a manifest into what it means at that point; the planner knows nothing of phases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from reconciler.model.table import (
    BOOKKEEPING_PREFIX,
    FORMER_SUFFIX,
    TWIN_SUFFIX,
    Computed,
    Desired,
    Observed,
    TableSpec,
    TypeChange,
)
from reconciler.model.types import Field, StructType
from reconciler.plan.conversions import Conversion, conversion, quoted
from reconciler.plan.findings import finding
from reconciler.plan.operations import Finding
from reconciler.plan.proofs import widens
from reconciler.plan.row_work import RowCheck
from reconciler.sql.refusals import RefusedSql

PREFIX = f"{BOOKKEEPING_PREFIX}typechange."
NEW, OLD = TWIN_SUFFIX, FORMER_SUFFIX
LENIENT = "Null"


class Remembered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a table knows of a column that has a twin; `swapped_ms` None: the twin does not have its name yet."""

    new: int
    to: str
    rule: TypeChange
    swapped_ms: int | None = None


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A column that has still to be converted: what is wanted, what is live, its twin's name (None: given up)."""

    wanted: Field
    live: Field
    rule: TypeChange
    twin: str | None
    conversion: Conversion
    states_default: bool = False


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A former column: `until_ms` is when it may go, `field` what it is, `name` the column it was."""

    field: Field
    name: str
    until_ms: int


class TypeChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What a manifest means while types change: its columns with twins and former ones, and what that entails.

    `leaving` are former columns whose date has come; `checks` must hold before they go.
    """

    desired: Desired
    pending: tuple[Pending, ...] = ()
    kept: tuple[Kept, ...] = ()
    leaving: tuple[Kept, ...] = ()
    checks: tuple[RowCheck, ...] = ()
    findings: tuple[Finding, ...] = ()


_MEMORY = msgspec.json.Decoder(Remembered)
_ENCODER = msgspec.json.Encoder(order="deterministic")


def key(field_id: int) -> str:
    """Name the property that remembers a column's twin."""
    return f"{PREFIX}{field_id}"


def encode(memory: Remembered) -> str:
    """Print what a table remembers."""
    return _ENCODER.encode(memory).decode()


def memories(bookkeeping: Mapping[str, str]) -> dict[int, Remembered]:
    """Read what a table remembers, by field id; a damaged value counts as absent."""
    found = {}
    for name, text in bookkeeping.items():
        number = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and number.isdigit():
            try:
                found[int(number)] = _MEMORY.decode(text)
            except ValueError:  # msgspec's decoding errors are ValueErrors too
                continue
    return found


def twins(bookkeeping: Mapping[str, str]) -> frozenset[int]:
    """Return the field ids of the twins that do not have their column's name yet."""
    return frozenset(m.new for m in memories(bookkeeping).values() if m.swapped_ms is None)


# ---------------------------------------------------------------- what a manifest means now


def expand(desired: Desired, current: Observed | None, *, now_ms: int) -> TypeChanges:
    """Return what a manifest means for this table at this moment; most manifests mean what they say."""
    if current is None:
        return TypeChanges(desired=desired)
    known = memories(current.bookkeeping)
    if not desired.type_changes and not known:
        return TypeChanges(desired=desired)
    found = list(_changing(desired, current, known))
    pending = tuple(p for p in found if isinstance(p, Pending))
    former = list(_former(desired, current, known))
    kept = tuple(k for k in former if now_ms < k.until_ms)
    leaving = tuple(k for k in former if now_ms >= k.until_ms)
    return TypeChanges(
        desired=_meant(desired, current, pending, kept),
        pending=pending,
        kept=kept,
        leaving=leaving,
        checks=tuple(_checks(current, known, leaving)),
        findings=(*(f for f in found if isinstance(f, Finding)), *_computed_findings(desired, current, pending)),
    )


def _changing(desired: Desired, current: Observed, known: Mapping[int, Remembered]) -> Iterator[Pending | Finding]:
    live = {field.name: field for field in current.spec.schema.fields}
    version = max(current.spec.format_version, desired.format_version or 0)
    for wanted in desired.columns.fields:
        rule = desired.type_changes.get(wanted.name)
        former = desired.column_renames.get((wanted.name,), "")
        column = live.get(wanted.name) or live.get(former)
        if rule is None or column is None or column.type == wanted.type:
            continue
        if not isinstance(column.type, str) or not isinstance(wanted.type, str):
            continue  # bind refuses another shape
        if not widens(column.type, wanted.type, version):
            yield _pending(desired, current, wanted, column, rule, known.get(column.id))


def _pending(
    desired: Desired, current: Observed, wanted: Field, live: Field, rule: TypeChange, memory: Remembered | None
) -> Pending | Finding:
    name = wanted.name
    said = f"Cannot change {desired.ident.name}.{name} from {live.type} to {wanted.type} by expand and contract"
    role = _role(desired, current, name, live)
    if role:
        hint = "Take it out of the layout first, or add a column of the new type under another name."
        return finding("LK222", f"{said}: {role}.", path=(name,), hint=hint)
    by_id = {field.id: field for field in current.spec.schema.fields}
    made = by_id.get(memory.new) if memory is not None and memory.swapped_ms is None else None
    twin = made.name if made is not None else name + NEW
    other = next((field for field in by_id.values() if field.name.lower() == twin.lower()), None)
    if other is not None and other is not made:
        hint = f"Rename or drop {twin} first."
        return finding(
            "LK222", f"{said}: there is a column {twin} that LakeTable did not make.", path=(name,), hint=hint
        )
    schema = StructType(
        tuple(msgspec.structs.replace(f, name=name) if f is live else f for f in current.spec.schema.fields)
    )
    try:
        how = conversion(rule, str(live.type), str(wanted.type), name=name, stands_as=name, schema=schema)
    except RefusedSql as refused:
        return finding("LK222", f"{said}: {refused.message}.", path=(name,), hint=refused.hint)
    return Pending(
        wanted=wanted,
        live=live,
        rule=rule,
        twin=None if made is not None and made.type != wanted.type else twin,
        conversion=how,
        states_default=(name,) in desired.defaults_stated,
    )


def _role(desired: Desired, current: Observed, name: str, live: Field) -> str:
    spec = current.spec
    layout = (
        (
            "the table is partitioned by it",
            any(f.source_id == live.id and f.transform != "void" for f in spec.partitioning),
            [f.path for f in desired.partitioning or ()],
        ),
        (
            "the table is sorted by it",
            any(f.source_id == live.id for f in spec.sort_order),
            [f.path for f in desired.sort_order or ()],
        ),
        ("it is an identifier field", live.id in spec.identifier_field_ids, desired.identifier_fields or ()),
    )
    return next((text for text, is_live, paths in layout if is_live or any(p[0] == name for p in paths)), "")


def _former(desired: Desired, current: Observed, known: Mapping[int, Remembered]) -> Iterator[Kept]:
    """Find the columns whose name another one has by now, unless the manifest names them itself or drops both."""
    by_id = {field.id: field for field in current.spec.schema.fields}
    named = {field.name for field in desired.columns.fields}
    sources = {source: path[0] for path, source in desired.column_renames.items() if len(path) == 1}
    for field_id, memory in known.items():
        field, new = by_id.get(field_id), by_id.get(_latest(memory, known))
        if memory.swapped_ms is None or field is None or new is None or field.name in named:
            continue
        name = new.name if new.name in named else sources.get(new.name, "")
        if name:
            rule = desired.type_changes.get(name, memory.rule)
            yield Kept(field=field, name=new.name, until_ms=memory.swapped_ms + rule.keep_old_ms)


def _latest(memory: Remembered, known: Mapping[int, Remembered]) -> int:
    """Follow a column that changed its type again to the one that has the name now."""
    found, seen = memory.new, set[int]()
    while found in known and known[found].swapped_ms is not None and found not in seen:
        seen.add(found)
        found = known[found].new
    return found


def _checks(current: Observed, known: Mapping[int, Remembered], leaving: tuple[Kept, ...]) -> Iterator[RowCheck]:
    """Want every value of a leaving column converted; what cannot be is lost only where that was said."""
    for kept in leaving:
        memory = known[kept.field.id]
        schema = current.spec.schema
        try:
            how = conversion(
                memory.rule,
                str(kept.field.type),
                memory.to,
                name=kept.name,
                stands_as=kept.field.name,
                schema=schema,
            )
            wanted = how.value if memory.rule.on_cast_failure == LENIENT else how.source
        except RefusedSql:  # another column it reads is gone
            wanted = quoted(kept.field.name)
        lost = f"(({wanted}) IS NOT NULL) AND ({quoted(kept.name)} IS NULL)"
        yield RowCheck(fault=f"have a value in {kept.field.name} and none in {kept.name}", sql=f"NOT ({lost})")


def _meant(desired: Desired, current: Observed, pending: tuple[Pending, ...], kept: tuple[Kept, ...]) -> Desired:
    """Let a changing column be what it is, give it its twin, and keep former columns where they are."""
    by_name = {p.wanted.name: p for p in pending}
    columns = [_as_live(by_name[f.name]) if f.name in by_name else f for f in desired.columns.fields]
    twins = [p for p in pending if p.twin is not None]
    columns += [Field(name=p.twin or "", required=False, type=p.wanted.type) for p in twins]
    for one in kept:
        _insert(columns, one.field, current.spec.schema)
    filled = {(p.twin or "",): Computed(expression=p.conversion.value) for p in twins}
    return msgspec.structs.replace(
        desired,
        columns=StructType(tuple(columns)),
        computed={**desired.computed, **filled},
        defaults_stated=desired.defaults_stated - {(name,) for name in by_name},
    )


def _as_live(pending: Pending) -> Field:
    wanted, live = pending.wanted, pending.live
    return Field(name=wanted.name, required=live.required, type=live.type, doc=wanted.doc)


def _insert(columns: list[Field], field: Field, live: StructType) -> None:
    """Put a column behind its live predecessor, so that nothing moves."""
    before: list[str] = []
    for other in live.fields:
        if other.id == field.id:
            break
        before.append(other.name)
    places = {column.name: place for place, column in enumerate(columns)}
    place = next((places[name] + 1 for name in reversed(before) if name in places), 0)
    columns.insert(place, Field(name=field.name, required=field.required, type=field.type))


# ---------------------------------------------------------------- what else reads it


def _computed_findings(desired: Desired, current: Observed, pending: tuple[Pending, ...]) -> Iterator[Finding]:
    """Refuse to compute anything anew from a column whose type is changing: from which of the two would be chance."""
    from reconciler.plan.computed import is_unchanged_rule
    from reconciler.sql.expressions import parse_expression

    changing = {p.wanted.name for p in pending}
    ids = {field.name: field.id for field in current.spec.schema.fields}
    for (name,), rule in desired.computed.items() if changing else ():
        try:
            read = parse_expression(rule.expression, schema=None).columns & changing
        except RefusedSql:
            continue  # a finding of its own
        if read and is_unchanged_rule(rule, current.bookkeeping, ids.get(name, 0)):
            message = f"{desired.ident.name}.{name} is computed from {', '.join(sorted(read))} and keeps its values."
            hint = "Raise its `version` afterwards to compute it from the converted values."
            yield finding("LK221", message, path=(name,), hint=hint)
        elif read:
            message = f"Cannot compute {desired.ident.name}.{name} while the type of {', '.join(sorted(read))} changes."
            yield finding("LK222", message, path=(name,), hint="Apply the type change first, then the computed column.")


# ---------------------------------------------------------------- memory


def type_memory_after(
    desired: Desired, current: Observed | None, target: TableSpec, *, is_undo: bool, now_ms: int
) -> dict[str, str | None]:
    """Return the memory that a metadata commit writes; None: unset."""
    if current is None:
        return {}
    live = {field.id: field for field in current.spec.schema.fields}
    after = {field.id: field for field in target.schema.fields}
    made: dict[str, str | None] = {}
    known = memories(current.bookkeeping)
    for field_id, memory in known.items():
        if field_id not in after or memory.new not in after:
            made[key(field_id)] = None
        elif memory.swapped_ms is None and after[memory.new].name == live[field_id].name:
            rule = desired.type_changes.get(after[memory.new].name, memory.rule)
            made[key(field_id)] = encode(msgspec.structs.replace(memory, swapped_ms=now_ms, rule=rule))
    if is_undo:
        return made
    ids = {field.name: field.id for field in target.schema.fields}
    for p in expand(desired, current, now_ms=now_ms).pending:
        twin = ids.get(p.twin or "")
        before = known.get(p.live.id)
        if twin is not None and (before is None or before.new != twin):
            made[key(p.live.id)] = encode(Remembered(new=twin, to=str(p.wanted.type), rule=p.rule))
    return made
