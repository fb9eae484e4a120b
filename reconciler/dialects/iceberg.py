"""Judge changes for Apache Iceberg: what it does in place, what that rests on, and what it cannot do at all.

What Iceberg cannot do in place is a finding with a hint; never a drop and an add, never skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.dialects.iceberg_checks import check_target, column_findings
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
from reconciler.model.indexes import BLOOM_ENABLED
from reconciler.model.primitives import NEWEST_FORMAT_VERSION
from reconciler.model.table import TableFormat
from reconciler.model.types import Type
from reconciler.plan.amounts import plural, size
from reconciler.plan.constraints import PREFIX as CONSTRAINT_PREFIX
from reconciler.plan.dialect import Capabilities, Context, Judgement, Rule
from reconciler.plan.findings import finding
from reconciler.plan.operations import Fidelity, Finding, Note, OperationClass
from reconciler.plan.proofs import (
    BoundsProof,
    NullProof,
    Verdict,
    prove_fit,
    prove_no_nulls,
    uncounted,
    widens,
)

_SAFE = Rule(operation_class=OperationClass.METADATA_ONLY)

CAPABILITIES = Capabilities(
    format=TableFormat.ICEBERG,
    rules={
        CreateTable: _SAFE,
        DropTable: Rule(operation_class=OperationClass.DESTRUCTIVE, breaking=True, code="LK102"),
        AdoptTable: _SAFE,
        RenameTable: Rule(operation_class=OperationClass.DESTRUCTIVE, breaking=True, code="LK103"),
        AddColumn: _SAFE,
        DropColumn: Rule(operation_class=OperationClass.DESTRUCTIVE, breaking=True, code="LK101"),
        RenameColumn: Rule(operation_class=OperationClass.METADATA_ONLY, breaking=True, code="LK401"),
        MoveColumn: Rule(operation_class=OperationClass.METADATA_ONLY, code="LK406"),
        AlterColumnType: _SAFE,
        AlterColumnRequired: _SAFE,
        AlterColumnDoc: _SAFE,
        AlterColumnDefault: _SAFE,
        SetIdentifierFields: Rule(operation_class=OperationClass.METADATA_ONLY, code="LK302"),
        SetPartitioning: Rule(operation_class=OperationClass.METADATA_ONLY, code="LK403"),
        SetSortOrder: Rule(operation_class=OperationClass.METADATA_ONLY, code="LK501"),
        SetProperty: _SAFE,
        UnsetProperty: _SAFE,
        UpgradeFormat: Rule(operation_class=OperationClass.METADATA_ONLY, breaking=True, code="LK402"),
        CreateRef: _SAFE,
        MoveRef: Rule(operation_class=OperationClass.DESTRUCTIVE, breaking=True, code="LK108"),
        SetRefRetention: _SAFE,
        DropRef: Rule(operation_class=OperationClass.DESTRUCTIVE, breaking=True, code="LK109"),
    },
    reserved_columns=frozenset(
        {
            "_file",
            "_pos",
            "_deleted",
            "_spec_id",
            "_partition",
            "_row_id",
            "_last_updated_sequence_number",
            "_change_type",
            "_change_ordinal",
            "_commit_snapshot_id",
        }
    ),
)


class IcebergDialect:
    """Iceberg format versions 1 to 3."""

    capabilities = CAPABILITIES

    def judge(self, change: Change, context: Context) -> Judgement:
        """Class one change, with evidence; what cannot be done in place is a finding with a hint."""
        match change:
            case AlterColumnType():
                return _judge_type(change, context)
            case AlterColumnRequired(required=True):
                return _judge_required(change, context)
            case AddColumn():
                return _judge_add(change, context)
            case _:
                return _by_rule(change, context)

    def check(self, changes: Sequence[Change], context: Context) -> tuple[Finding, ...]:
        """Check the target as a whole, as far as these changes can have broken it."""
        return check_target(changes, context, CAPABILITIES.reserved_columns)


# ---------------------------------------------------------------- by rule


def _by_rule(change: Change, context: Context) -> Judgement:
    rule = CAPABILITIES.rules[type(change)]
    note = Note(
        change=change,
        operation_class=rule.operation_class,
        breaking=rule.breaking,
        evidence=_evidence(change, context),
        fidelity=Fidelity.INEXACT if _is_constraint(change) or _is_index(change) else Fidelity.EXACT,
    )
    found = _always(change, rule, context)
    return Judgement(note=note, findings=(*found, *column_findings(change, context)))


def _is_index(change: Change) -> bool:
    return isinstance(change, SetProperty) and change.key.startswith(BLOOM_ENABLED)


def _is_constraint(change: Change) -> bool:
    return isinstance(change, SetProperty) and change.key.startswith(CONSTRAINT_PREFIX)


def _evidence(change: Change, context: Context) -> str:
    """Say what the change itself does not: what it leaves alone, or where it cannot go back."""
    match change:
        case DropColumn():
            return "values stay in the files until those are rewritten"
        case SetProperty() if _is_constraint(change):
            return "Iceberg has no CHECK: only what LakeTable writes is held to it"
        case SetPartitioning() | SetSortOrder() if not context.is_empty:
            return "existing files are rewritten" if context.rewrites else "existing files keep their layout"
        case SetProperty(key=key) if key.startswith(BLOOM_ENABLED):
            return "a bloom filter per file, not an index"
        case _:
            return ""


def _always(change: Change, rule: Rule, context: Context) -> Iterator[Finding]:  # noqa: PLR0912 - a table by type
    """Yield what this kind of change always brings; an empty table has no reader to warn."""
    name = context.table.name
    match change:
        case DropTable(ident=ident):
            yield finding(rule.code, f"Table {ident} is dropped.")
        case RenameTable(before=before, after=after):
            yield finding(rule.code, f"Table {before} is renamed to {after}.")
        case AdoptTable(ident=ident, taken_from=str(owner)):
            yield finding("LK112", f"Table {ident} is taken from {owner}.")
        case DropColumn(path=path, field_id=field_id):
            message = f"Column {context.column(path)} (field {field_id}) is dropped."
            yield finding(rule.code, message, path=path)
        case RenameColumn(path=path, to=to):
            message = f"Column {context.column(path)} is renamed to {to}: queries that say {path[-1]} fail."
            yield finding(rule.code, message, path=(*path[:-1], to))
        case MoveColumn(path=path):
            yield finding(rule.code, f"Column {context.column(path)} moves: inserts by position change.", path=path)
        case SetIdentifierFields(before_names=before_names, after_names=after_names) if before_names:
            message = f"Identifier fields of {name} change from {_names(before_names)} to {_names(after_names)}."
            yield finding(rule.code, message)
        case SetPartitioning(before_text=before_text, after_text=after_text) if not context.is_empty:
            message = (
                f"Partitioning of {name} changes from {_names(before_text)} to {_names(after_text)}: a dynamic "
                "INSERT OVERWRITE replaces other rows than before."
            )
            yield finding(rule.code, message)
            yield from _layout(context)
        case SetSortOrder() if not context.is_empty:
            yield from _layout(context)
        case UpgradeFormat(before=lower, after=higher):
            yield finding(rule.code, f"Format version of {name} is raised from {lower} to {higher}; no way back.")
        case MoveRef(before=before, after=after):
            message = f"The {before.kind.value} {before.name} moves: {before.snapshot_id} → {after.snapshot_id}."
            yield finding(rule.code, message)
        case DropRef(ref=ref):
            yield finding(rule.code, f"The {ref.kind.value} {ref.name} (snapshot {ref.snapshot_id}) is dropped.")
        case _:
            pass


def _layout(context: Context) -> Iterator[Finding]:
    """Say how much data keeps the former layout, as the snapshot's own summary counts it."""
    if context.rewrites:
        return
    statistics = context.current.statistics if context.current else None
    amount = "its existing files keep the layout they have"
    if statistics and statistics.files is not None:
        held = f" ({size(statistics.bytes)})" if statistics.bytes is not None else ""
        amount = f"{plural(statistics.files, 'existing file')}{held} keep the layout they have"
    yield finding("LK501", f"{context.table.name}: {amount}.")


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


# ---------------------------------------------------------------- types


def _judge_type(change: AlterColumnType, context: Context) -> Judgement:
    if widens(change.before, change.after, context.target.format_version):
        refused = tuple(_widening_findings(change, context))
        note = Note(
            change=change,
            operation_class=OperationClass.METADATA_ONLY,
            evidence="" if refused else "in-place promotion",
        )
        return Judgement(note=note, findings=(*refused, *column_findings(change, context)))
    column = context.column(change.path)
    spelled = f"Cannot change {column} from {change.before} to {change.after}"
    if widens(change.before, change.after, NEWEST_FORMAT_VERSION):
        message = f"{spelled}: Iceberg promotes this from format version 3 on, the table has "
        refusal = finding(
            "LK404",
            f"{message}{context.target.format_version}.",
            path=change.path,
            hint="Set `formatVersion: 3`.",
        )
    elif widens(change.after, change.before, NEWEST_FORMAT_VERSION):
        proof = _fit(change, context)
        message = f"{spelled} in place: narrowing makes written files unreadable. {_fit_text(proof)}"
        refusal = finding("LK201", message, path=change.path, hint=_expand(change))
    else:
        proof = _fit(change, context)
        said = f" {_fit_text(proof)}" if proof and proof.verdict is not Verdict.UNPROVEN else ""
        message = f"{spelled}: Iceberg has no such promotion.{said}"
        refusal = finding("LK202", message, path=change.path, hint=_expand(change))
    note = Note(change=change, operation_class=OperationClass.REWRITE, breaking=True, evidence="not possible in place")
    return Judgement(note=note, findings=(refusal, *column_findings(change, context)))


def _widening_findings(change: AlterColumnType, context: Context) -> Iterator[Finding]:
    live = context.current.spec.partitioning if context.current else ()
    for field in live:
        if field.source_id == change.field_id and not keeps_value(field.transform, change.before, change.after):
            yield finding(
                "LK209",
                f"Cannot change {context.column(change.path)} from {change.before} to {change.after}: partition field "
                f"{field.name} ({field.transform}) would get other values than its files were written with.",
                path=change.path,
            )


def keeps_value(transform: str, before: Type, after: Type) -> bool:
    """Say whether a promoted column still gives the partition values that its files were written with.

    The day, month and year of a date and of its midnight are one number; its identity and its hash are not. All other
    promotions (int, float, decimal) keep value and hash.
    """
    return before != "date" or before == after or transform in ("year", "month", "day", "void")


def _fit(change: AlterColumnType, context: Context) -> BoundsProof | None:
    if context.files is None or not isinstance(change.before, str) or not isinstance(change.after, str):
        return None
    return prove_fit(context.files, change.field_id, change.before, change.after)


def _fit_text(proof: BoundsProof | None) -> str:
    """Say what the bounds know about today's values."""
    if proof is None:
        return "Whether today's values would fit was not looked up."
    if not proof.files:
        return "The table holds no data file."
    bounded = f"bounds of {proof.bounded_files:,} of {plural(proof.files, 'file')}"
    if not proof.lowest:
        return f"Whether today's values would fit is unknown ({bounded})."
    seen = f"values {proof.lowest} to {proof.highest}, {bounded}"
    match proof.verdict:
        case Verdict.PROVEN:
            return f"Today's values would fit ({seen})."
        case Verdict.DISPROVED:
            return f"Today's values would not fit ({seen})."
        case Verdict.UNPROVEN:
            return f"Whether today's values would fit is unproven ({seen})."


def _expand(change: AlterColumnType) -> str:
    name = change.path[-1]
    if len(change.path) == 1 and isinstance(change.before, str) and isinstance(change.after, str):
        return (
            f"Add `typeChange: {{strategy: ExpandContract}}` to {name}: its values are converted into a column that "
            "takes its name, and the former one leaves later."
        )
    return (
        f"Keep {name} as {change.before} and expand and contract: add a column of the new type under another name, "
        f"fill it, move the readers, then drop {name}."
    )


# ---------------------------------------------------------------- required, add


def _judge_required(change: AlterColumnRequired, context: Context) -> Judgement:
    if context.is_empty:
        return _required(change, context, "proven: the table is empty", ())
    proof = _nulls(change.field_id, context)
    column = context.column(change.path)
    if proof is None:
        message = f"Cannot make {column} required: its null counts are not known."
        refusal = finding("LK204", message, path=change.path)
        return _required(change, context, "unproven", (refusal,), OperationClass.AUDIT)
    files = plural(proof.files, "file")
    match proof.verdict:
        case Verdict.PROVEN:
            evidence = f"proven: 0 nulls in {proof.proven_files:,} of {files}"
            return _required(change, context, evidence, (finding("LK205", f"{column}: {evidence}.", path=change.path),))
        case Verdict.DISPROVED:
            found = f"{plural(proof.nulls, 'null')} in {proof.null_files:,} of {files}"
            refusal = finding("LK203", f"Cannot make {column} required: {found}.", path=change.path)
            return _required(change, context, f"disproved: {found}", (refusal,), OperationClass.AUDIT)
        case Verdict.UNPROVEN:
            found = f"{proof.unproven_files:,} of {files} unproven"
            message = (
                f"Cannot make {column} required: {found}, a validation scan of {size(proof.unproven_bytes)} is needed."
            )
            refusal = finding("LK204", message, path=change.path)
            return _required(change, context, found, (refusal,), OperationClass.AUDIT)


def _nulls(field_id: int, context: Context) -> NullProof | None:
    """Prove from the manifests; None when they were not read (nor count lists, maps, structs)."""
    located = context.current_fields.get(field_id)
    if context.files is None:
        return None
    if located is not None and (located.in_collection or not isinstance(located.field.type, str)):
        return prove_no_nulls(context.files, uncounted(field_id), exact=False)
    return prove_no_nulls(context.files, field_id, exact=located is not None and not located.in_optional)


def _required(
    change: AlterColumnRequired,
    context: Context,
    evidence: str,
    findings: tuple[Finding, ...],
    operation_class: OperationClass = OperationClass.METADATA_ONLY,
) -> Judgement:
    return Judgement(
        note=Note(change=change, operation_class=operation_class, evidence=evidence),
        findings=(*findings, *column_findings(change, context)),
        guards_snapshot=operation_class is OperationClass.METADATA_ONLY,
    )


def _judge_add(change: AddColumn, context: Context) -> Judgement:
    field = change.field
    path = (*change.parent, field.name)
    is_restored = field.id > 0 and context.current is not None
    proof = _nulls(field.id, context) if is_restored and field.required else None
    is_proven = proof is not None and proof.verdict is Verdict.PROVEN
    findings = list(column_findings(change, context))
    is_unfilled = field.required and field.initial_default is None and not context.is_empty
    if is_unfilled and not is_proven:
        message = f"Cannot add {context.column(path)} as required: existing rows would have no value for it."
        findings.insert(0, finding("LK206", message, path=path))
    if is_restored:
        evidence = f"field {field.id} comes back with the values still in the files"
    elif context.is_empty:
        evidence = ""
    else:
        evidence = f"existing rows read {_literal(field.initial_default)}"
    return Judgement(
        note=Note(change=change, operation_class=OperationClass.METADATA_ONLY, evidence=evidence),
        findings=tuple(findings),
        guards_snapshot=field.required and field.initial_default is None,
    )


def _literal(value: str | int | float | bool | None) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case _:
            return str(value)
