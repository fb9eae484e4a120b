"""Plan computed columns: which need their rows filled, what that costs, and what the table remembers about it.

The memory is the property `laketable.computed.<field id>`, written in the commit that makes it true: with the metadata
where no row has to change, else in the commit that publishes the filled files. So A → B → A computes three times, and a
backfill that never got published leaves no trace in it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from reconciler.diff.apply import CannotApply, apply
from reconciler.diff.changes import Change
from reconciler.model import bookkeeping as books
from reconciler.model.table import (
    BOOKKEEPING_PREFIX,
    Computed,
    DataFile,
    Desired,
    Observed,
    TableSpec,
)
from reconciler.model.types import Field, FieldPath, find_field
from reconciler.plan.amounts import plural
from reconciler.plan.findings import finding
from reconciler.plan.hashing import compared_properties, data_operation_id, desired_hash, operation_id, plan_hash
from reconciler.plan.operations import (
    Backfill,
    BackfillColumn,
    Cost,
    Finding,
    Operation,
    OperationClass,
    OperationKind,
    Plan,
)
from reconciler.plan.splicing import leaf_ids, ways
from reconciler.plan.table_work import Maintain
from reconciler.plan.type_changes import memories, twins

COMPUTED_PREFIX = f"{BOOKKEEPING_PREFIX}computed."
DONE_PREFIX = f"{BOOKKEEPING_PREFIX}done."
BRANCH_PREFIX = "lt_"
_OUR_BRANCH = re.compile(r"lt_[0-9a-f]{16}(_[0-9a-f]{16})?")
_BACKFILL = "Backfill"
_IGNORE = "Ignore"
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


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What the computed columns of one manifest come to."""

    operations: tuple[Operation, ...] = ()
    findings: tuple[Finding, ...] = ()
    upkeep: tuple[Operation, ...] = ()


_MEMORY = msgspec.json.Decoder(Remembered)
_ENCODER = msgspec.json.Encoder(order="deterministic")
_NOTHING = Planned()


# ---------------------------------------------------------------- memory


def computed_key(field_id: int) -> str:
    """Name the property that remembers one computed column."""
    return f"{COMPUTED_PREFIX}{field_id}"


def branch_of(operation: str) -> str:
    """Name the branch that an operation works on."""
    return f"{BRANCH_PREFIX}{operation}"


def branches_of(planned: Planned) -> frozenset[str]:
    """Name the branches of planned work."""
    return frozenset(branch_of(o.id) for o in (*planned.operations, *planned.upkeep) if o.work is not None)


def is_our_branch(name: str) -> bool:
    """Say whether a branch is one that operations work on."""
    return _OUR_BRANCH.fullmatch(name) is not None


def done_key(operation: Operation) -> str:
    """Name the property that holds the id of the last operation of a kind that was done; replaced, never piled up.

    Every step of maintenance is a kind of its own here.
    """
    step = f".{operation.work.step}" if isinstance(operation.work, Maintain) else ""
    return f"{DONE_PREFIX}{operation.kind.value}{step}"


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
    computed = {field.id: (field, rule) for field, rule in _columns(desired, target)}
    for key in live:
        number = key.removeprefix(COMPUTED_PREFIX)
        if key.startswith(COMPUTED_PREFIX) and number.isdigit() and int(number) not in computed:
            after[key] = None
    for field_id, (field, rule) in computed.items():
        before = remembered(live, field_id)
        if _is_unchanged(rule, before) and current is not None and current.spec.schema == target.schema:
            continue
        column, _ = _read(field, rule, target, frozenset())
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
    is_filled = _has_rows(current) and rule.on_change == _BACKFILL
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


# ---------------------------------------------------------------- plan


def data_operations(plan: Plan) -> tuple[Operation, ...]:
    """Return the operations that need a data job."""
    return tuple(operation for operation in plan.operations if operation.work is not None)


def needs_files(desired: Desired, current: Observed | None) -> bool:
    """Say whether planning needs the live data files for a backfill's cost."""
    if current is None or not desired.computed or not _has_rows(current):
        return False
    fields = {field.name: field.id for field in current.spec.schema.fields}
    return any(
        rule.on_change == _BACKFILL and not _is_unchanged(rule, remembered(current.bookkeeping, fields.get(name, 0)))
        for (name,), rule in desired.computed.items()
    )


def plan_computed(
    desired: Desired,
    current: Observed | None,
    target: TableSpec,
    changes: Sequence[Change],
    files: tuple[DataFile, ...] | None,
) -> Planned:
    """Plan the computed columns of a manifest; `target` is what the metadata changes lead to."""
    if not desired.computed:
        return _NOTHING
    target = with_real_ids(current, target, changes)
    findings: list[Finding] = []
    pending: list[BackfillColumn] = []
    names = frozenset(name for (name,) in desired.computed)
    for field, rule in _columns(desired, target):
        before = remembered(current.bookkeeping, field.id) if current else None
        if _is_unchanged(rule, before) and not changes:
            continue
        column, refused = _read(field, rule, target, names)
        findings += refused
        if column is None or current is None or not _has_rows(current) or rule.on_change != _BACKFILL:
            continue
        if before is None or not keeps_values(column, rule, before, current, target):
            revision = before.revision + 1 if before else 1
            pending.append(
                msgspec.structs.replace(
                    column, revision=revision, recompute=before is not None and before.expression != ""
                )
            )
    if current is None:
        return Planned(findings=tuple(findings))
    operations = _operations(current, target, Backfill(columns=tuple(pending)), files) if pending else ()
    if not pending and not findings:
        unfinished = fill_operation(desired, current)
        if unfinished is not None and unfinished.resumes:
            operations = _with_parts(unfinished)
    upkeep = tuple(_forgotten(desired, current, target))
    return Planned(operations=operations, findings=tuple(findings), upkeep=upkeep)


def fill_operation(
    desired: Desired,
    current: Observed,
    names: frozenset[str] | None = None,
    files: tuple[DataFile, ...] | None = None,
) -> Operation | None:
    """Return the operation that fills rows written without their values since the last backfill; None: no column.

    A twin's rows are filled anew where the value that they are converted from has changed since.
    """
    columns = []
    converting = twins(current.bookkeeping)
    for field, rule in _columns(desired, current.spec):
        before = remembered(current.bookkeeping, field.id)
        if before is None or rule.on_change == _IGNORE or (names is not None and field.name not in names):
            continue
        column, refused = _read(field, rule, current.spec, frozenset())
        if column is not None and not refused and column.expression == before.expression:
            columns.append(
                msgspec.structs.replace(
                    column,
                    revision=before.revision,
                    round=before.round + 1,
                    recompute=field.id in converting,
                )
            )
    if not columns or not _has_rows(current):
        return None
    fill = Backfill(columns=tuple(columns), is_fill=True)
    return _backfill(current, current.spec, fill, files or ())


def fill_plan(desired: Desired, current: Observed, made: Plan, files: tuple[DataFile, ...]) -> Plan | None:
    """Turn the plan of a table in sync into one that fills its rows; None: no column is computed."""
    fill = fill_operation(desired, current, files=files)
    if fill is None:
        return None
    operations = _with_parts(fill)
    wanted = desired_hash(desired)
    hash_ = plan_hash(wanted, current.version, compared_properties(desired, current), operations)
    return msgspec.structs.replace(made, operations=operations, upkeep=(), desired_hash=wanted, hash=hash_)


def unfilled_rows(desired: Desired, current: Observed, files: Iterable[DataFile]) -> dict[str, int]:
    """Count per computed column the rows without a value, from manifests: at most so many, for NULL may be right."""
    fields = [f for f, rule in _columns(desired, current.spec) if rule.on_change == _BACKFILL]
    counts = {field.name: 0 for field in fields}
    for file in files:
        for field in fields:
            counts[field.name] += file.null_counts.get(field.id, file.rows)
    return {name: rows for name, rows in counts.items() if rows}


def _columns(desired: Desired, target: TableSpec) -> Iterator[tuple[Field, Computed]]:
    """Pair the computed columns with their fields, in the table's order."""
    for field in target.schema.fields:
        rule = desired.computed.get((field.name,))
        if rule is not None:
            yield field, rule


def _field(target: TableSpec, field_id: int) -> Field:
    return next(field for field in target.schema.fields if field.id == field_id)


def _has_rows(current: Observed | None) -> bool:
    return current is not None and current.version.snapshot_id is not None


def with_real_ids(current: Observed | None, target: TableSpec, changes: Sequence[Change]) -> TableSpec:
    """Apply the changes to the live spec: that predicts the field ids that new columns will get."""
    if current is None or not changes:
        return target
    try:
        return apply(current.spec, changes, last_field_id=current.version.last_field_id)
    except (CannotApply, ValueError):
        return target  # a finding blocks such a plan anyway


# ---------------------------------------------------------------- expressions


def _is_unchanged(rule: Computed, before: Remembered | None) -> bool:
    """Compare texts: parsing costs more than everything else of a plan that finds nothing to do."""
    return before is not None and before.text == _text_hash(rule)


def is_unchanged_rule(rule: Computed, bookkeeping: Mapping[str, str], field_id: int) -> bool:
    """Say whether a column's values are of this rule."""
    return _is_unchanged(rule, remembered(bookkeeping, field_id))


def _text_hash(rule: Computed) -> str:
    return _digest([rule.expression, rule.where, rule.version])


def _digest(value: object) -> str:
    return hashlib.sha256(_ENCODER.encode(value)).hexdigest()[:16]


def keeps_values(
    column: BackfillColumn, rule: Computed, before: Remembered, current: Observed | None, target: TableSpec
) -> bool:
    """Say whether the remembered expression reads what it read, whatever those columns are called from now on.

    A type change makes no other column; of a twin only the expression is compared, which tells the backfills it had.
    """
    known = memories(current.bookkeeping) if current else {}
    converting = {memory.new: old for old, memory in known.items() if memory.swapped_ms is None}
    if current is None or column.field_id in converting:
        return before.expression == column.expression
    live = {field.id: field.name for field in current.spec.schema.fields}
    former = {field.name: live.get(converting.get(field.id, field.id), field.name) for field in target.schema.fields}
    aliases = {name: then for name, then in former.items() if then != name}
    then, _ = _read(_field(target, column.field_id), rule, current.spec, frozenset(), aliases)
    inputs = {converting.get(leaf, leaf) for leaf in column.inputs}
    return then is not None and then.expression == before.expression and inputs == set(then.inputs)


def _read(
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


# ---------------------------------------------------------------- operations


def _operations(
    current: Observed, target: TableSpec, backfill: Backfill, files: tuple[DataFile, ...] | None
) -> tuple[Operation, ...]:
    return _with_parts(_backfill(current, target, backfill, files or ()))


def _backfill(current: Observed, target: TableSpec, backfill: Backfill, files: Iterable[DataFile]) -> Operation:
    found = ways(files, backfill.columns, target.schema, target.format_version)
    arguments = [[c.field_id, c.sql, c.where, c.recompute] for c in backfill.columns]
    revision = ",".join(f"{c.revision}.{c.round}" for c in backfill.columns)
    id_ = data_operation_id(current.version.uuid, OperationKind.BACKFILL, arguments, revision)
    names = ", ".join(column.name for column in backfill.columns)
    resumes = branch_of(id_) in current.spec.refs
    is_anew = not backfill.is_fill and any(column.recompute for column in backfill.columns)
    verb = "go on to" if resumes else "all rows:" if is_anew else ""
    fill = "fill rows without" if backfill.is_fill else "backfill"
    return Operation(
        id=id_,
        kind=OperationKind.BACKFILL,
        summary=f"{verb} {fill} {names} on a branch".strip(),
        operation_class=OperationClass.REWRITE,
        cost=sum((way.cost for way in found), Cost()),
        ways=found,
        work=backfill,
        resumes=resumes,
    )


def _with_parts(backfill: Operation) -> tuple[Operation, ...]:
    """Show what follows a backfill: it is one unit of work with it."""
    count = len(backfill.work.columns) if isinstance(backfill.work, Backfill) else 0
    audit = Operation(
        id=backfill.id,
        kind=OperationKind.VALIDATE,
        summary="audit: as many rows as before, none left without its value",
        operation_class=OperationClass.AUDIT,
        resumes=backfill.resumes,
    )
    publish = Operation(
        id=backfill.id,
        kind=OperationKind.PUBLISH,
        summary=f"publish {plural(count, 'column')} on main (1 commit)",
        operation_class=OperationClass.METADATA_ONLY,
        resumes=backfill.resumes,
    )
    return backfill, audit, publish


# ---------------------------------------------------------------- upkeep


def _forgotten(desired: Desired, current: Observed, target: TableSpec) -> Iterator[Operation]:
    if memory_after(desired, current, target):
        yield upkeep_commit("remember the expressions of computed columns", current)


def upkeep_commit(summary: str, current: Observed, changes: tuple[Change, ...] = ()) -> Operation:
    """Make a metadata commit that is upkeep."""
    return Operation(
        id=operation_id(current.version, OperationKind.COMMIT, changes),
        kind=OperationKind.COMMIT,
        summary=summary,
        changes=changes,
        operation_class=OperationClass.METADATA_ONLY,
    )
