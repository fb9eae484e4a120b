"""Computed columns: what their expressions come to, and what the table remembers about them.

The memory is the property `laketable.computed.<field id>`, written in the commit that makes it true: with the metadata
where no row has to change, else in the commit that publishes the filled files. So A → B → A computes three times, and a
backfill that never got published leaves no trace in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from reconciler.model import bookkeeping as books
from reconciler.model.table import BOOKKEEPING_PREFIX, Computed, Desired, Observed, TableSpec
from reconciler.model.types import Field, FieldPath, find_field
from reconciler.plan.findings import finding
from reconciler.plan.operations import Backfill, BackfillColumn, Finding, OperationKind
from reconciler.plan.splicing import leaf_ids
from reconciler.plan.type_changes import memories

COMPUTED_PREFIX = f"{BOOKKEEPING_PREFIX}computed."
BACKFILL = "Backfill"
UNKNOWN = "unknown"
"""What the table remembers of an expression when its rows may hold another one's values: all are computed again."""


class Remembered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a table knows of one computed column: hashes of the expression and of its text, and how often it ran.

    An empty expression: the column was computed, and a restore took that back.
    """

    expression: str
    text: str = ""
    revision: int = 1
    round: int = 0


_MEMORY = msgspec.json.Decoder(Remembered)
_ENCODER = msgspec.json.Encoder(order="deterministic")


# ---------------------------------------------------------------- memory


def computed_key(field_id: int) -> str:
    """Name the property that remembers one computed column."""
    return f"{COMPUTED_PREFIX}{field_id}"


def remembered(bookkeeping: Mapping[str, str], field_id: int) -> Remembered | None:
    """Read what a table remembers of a computed column; a damaged value counts as absent."""
    return _decoded(bookkeeping.get(computed_key(field_id)))


def _decoded(text: str | None) -> Remembered | None:
    try:
        return _MEMORY.decode(text or "null")
    except ValueError:  # msgspec's decoding errors are ValueErrors too
        return None


def fillers(bookkeeping: Mapping[str, str], field_id: int) -> frozenset[str]:
    """Name the backfills that gave a column the values of its present expression, as far as history remembers."""
    key, present = computed_key(field_id), remembered(bookkeeping, field_id)
    found, after = set[str](), present
    for record in reversed(books.read(bookkeeping).history):
        if present is None or record.properties is None:
            break
        if key not in record.properties:
            continue
        is_backfill = record.kind == OperationKind.BACKFILL.value
        if is_backfill and after is not None and after.expression == present.expression:
            found.add(record.operation)
        after = _decoded(record.properties[key])
    return frozenset(found)


def published_properties(backfill: Backfill) -> dict[str, str]:
    """Return the properties that ride in the commit which publishes a backfill."""
    return {computed_key(c.field_id): _memory_of(c) for c in backfill.columns}


def memory_after(desired: Desired, current: Observed | None, target: TableSpec) -> dict[str, str | None]:
    """Return the memory that a metadata commit writes: of columns whose rows stay as they are; None means unset."""
    after: dict[str, str | None] = {}
    live = current.bookkeeping if current else {}
    computed = {field.id: (field, rule) for field, rule in computed_columns(desired, target)}
    for key in live:
        number = key.removeprefix(COMPUTED_PREFIX)
        if key.startswith(COMPUTED_PREFIX) and number.isdigit() and int(number) not in computed:
            after[key] = None
    for field_id, (field, rule) in computed.items():
        before = remembered(live, field_id)
        if is_unchanged(rule, before) and current is not None and current.spec.schema == target.schema:
            continue
        column, _ = read_column(field, rule, target, frozenset())
        if column is not None:
            memory = _memory_now(column, rule, before, current, target)
            if memory is not None and memory != before:
                after[computed_key(field_id)] = computed_memory(memory)
    return after


def _memory_now(
    column: BackfillColumn, rule: Computed, before: Remembered | None, current: Observed | None, target: TableSpec
) -> Remembered | None:
    """Return what a metadata commit remembers of a column; None: nothing before its rows are filled."""
    anew = Remembered(expression=column.expression, text=column.text, revision=before.revision + 1 if before else 1)
    is_filled = has_rows(current) and rule.on_change == BACKFILL
    if before is None:
        return None if is_filled else anew
    is_same = before.expression == column.expression
    if keeps_values(column, rule, before, current, target):
        return before if is_same else msgspec.structs.replace(before, expression=column.expression, text=column.text)
    if is_same and is_filled:  # the text does not tell that other columns bear the names in it
        return msgspec.structs.replace(before, expression=UNKNOWN, text="")
    if is_same:
        return before
    return None if is_filled else anew


def _memory_of(column: BackfillColumn) -> str:
    return computed_memory(
        Remembered(expression=column.expression, text=column.text, revision=column.revision, round=column.round)
    )


def computed_memory(memory: Remembered) -> str:
    """Print what a table remembers of a computed column."""
    return _ENCODER.encode(memory).decode()


# ---------------------------------------------------------------- expressions


def computed_columns(desired: Desired, target: TableSpec) -> Iterator[tuple[Field, Computed]]:
    """Pair the computed columns with their fields, in the table's order."""
    for field in target.schema.fields:
        rule = desired.computed.get((field.name,))
        if rule is not None:
            yield field, rule


def _field(target: TableSpec, field_id: int) -> Field:
    return next(field for field in target.schema.fields if field.id == field_id)


def has_rows(current: Observed | None) -> bool:
    """Say whether a table has, or had, rows."""
    return current is not None and current.version.snapshot_id is not None


def is_unchanged(rule: Computed, before: Remembered | None) -> bool:
    """Compare texts: parsing costs more than everything else of a plan that finds nothing to do."""
    return before is not None and before.text == _text_hash(rule)


def is_unchanged_rule(rule: Computed, bookkeeping: Mapping[str, str], field_id: int) -> bool:
    """Say whether a column's values are of this rule."""
    return is_unchanged(rule, remembered(bookkeeping, field_id))


def _text_hash(rule: Computed) -> str:
    return _digest([rule.expression, rule.where, rule.version])


def _digest(value: object) -> str:
    return hashlib.sha256(_ENCODER.encode(value)).hexdigest()[:16]


def keeps_values(
    column: BackfillColumn, rule: Computed, before: Remembered, current: Observed | None, target: TableSpec
) -> bool:
    """Say whether the remembered expression reads what it read, whatever those columns are called from now on.

    A field that comes or goes inside a struct changes nothing, and a type change makes no other column. Of a twin only
    the expression is compared, which tells the backfills it had.
    """
    known = memories(current.bookkeeping) if current else {}
    converting = {memory.new: old for old, memory in known.items() if memory.swapped_ms is None}
    if current is None or column.field_id in converting:
        return before.expression == column.expression
    live = {field.id: field.name for field in current.spec.schema.fields}
    former = {field.name: live.get(converting.get(field.id, field.id), field.name) for field in target.schema.fields}
    aliases = {name: then for name, then in former.items() if then != name}
    then, _ = read_column(_field(target, column.field_id), rule, current.spec, frozenset(), aliases)
    inputs = {converting.get(leaf, leaf) for leaf in column.inputs}
    stay = _all_leaves(current.spec) & _all_leaves(target)
    return then is not None and then.expression == before.expression and inputs & stay == stay.intersection(then.inputs)


def _all_leaves(spec: TableSpec) -> set[int]:
    return {leaf for field in spec.schema.fields for leaf in leaf_ids(field)}


def read_column(
    field: Field,
    rule: Computed,
    target: TableSpec,
    computed: frozenset[str],
    aliases: Mapping[str, str] | None = None,
) -> tuple[BackfillColumn | None, list[Finding]]:
    """Parse a column's expression; `computed` are the names that no expression may read.

    `aliases` maps names in it to those that the columns have in `target`.
    """
    from reconciler.sql.expressions import parse_expression, parse_predicate
    from reconciler.sql.refusals import RefusedSql

    path = (field.name,)
    column = f"{target.ident.name}.{field.name}"
    part = "expression"
    try:
        parsed = parse_expression(rule.expression, schema=target.schema, aliases=aliases)
        part = "where"
        where = None if rule.where is None else parse_predicate(rule.where, schema=target.schema, aliases=aliases)
    except RefusedSql as refused:
        message = f"Cannot compute {column}: its {part} is refused, {refused.message}."
        return None, [finding("LK215", message, path=path, hint=refused.hint)]
    read = parsed.columns | (where.columns if where else frozenset())
    refusal = _refusal(field, target, read & (computed | {field.name}))
    if refusal:
        return None, [finding("LK216", f"Cannot compute {column}: {refusal}", path=path)]
    condition = where.sql if where else None
    return BackfillColumn(
        name=field.name,
        field_id=field.id,
        sql=parsed.sql,
        where=condition,
        expression=_digest([parsed.sql, condition, rule.version]),
        text=_text_hash(rule),
        inputs=_leaves(target, parsed.inputs | (where.inputs if where else frozenset())),
    ), []


def _leaves(target: TableSpec, paths: Iterable[FieldPath]) -> tuple[int, ...]:
    """Return the field ids of the leaves that these paths hold."""
    fields = (find_field(target.schema, path) for path in paths)
    return tuple(sorted({field_id for field in fields if field is not None for field_id in leaf_ids(field)}))


def _refusal(field: Field, target: TableSpec, computed_inputs: frozenset[str]) -> str:
    if computed_inputs:
        return f"it reads {', '.join(sorted(computed_inputs))}, which is computed itself."
    if any(part.source_id == field.id for part in target.partitioning):
        return "the table is partitioned by it, so filling it would move rows between partitions."
    if any(part.source_id == field.id for part in target.sort_order):
        return "the table is sorted by it, and filled files would not be."
    if field.id in target.identifier_field_ids:
        return "it is an identifier field, and filling it would change the rows' keys."
    return ""
