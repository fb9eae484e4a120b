"""Make the plan: lower changes to ordered operations, note class and evidence per change, collect findings, hash.

Pure: called with what was observed, bound and diffed. A plan that cannot be applied is a value with blocking findings;
only a table that belongs to somebody else is an exception.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from reconciler.diff.bind import Binding, bind
from reconciler.diff.changes import AdoptTable, Change, DropTable, RenameTable
from reconciler.diff.diff import diff
from reconciler.errors import OwnershipConflict
from reconciler.model import bookkeeping
from reconciler.model.table import DataFile, Desired, Observed, Statistics, TableSpec, TableVersion
from reconciler.model.types import paths_by_id
from reconciler.plan.built import rewrites_layout
from reconciler.plan.constraints import plan_constraints
from reconciler.plan.data import plan_computed
from reconciler.plan.dialect import Context, Dialect
from reconciler.plan.distinct_counts import plan_counts
from reconciler.plan.findings import finding, suppress
from reconciler.plan.hashing import compared_properties, desired_hash, operation_id, past_hash, plan_hash
from reconciler.plan.impacts import impact_findings
from reconciler.plan.kept_constraints import plan_kept, plan_undone
from reconciler.plan.lineage import Lineage
from reconciler.plan.operations import Finding, Note, Operation, OperationClass, OperationKind, Plan, Severity
from reconciler.plan.rewrites import built_at_first, plan_rewrites
from reconciler.plan.summaries import commit_summary
from reconciler.plan.swaps import Swaps, plan_swaps
from reconciler.plan.tracking import moved_by_others
from reconciler.plan.type_changes import TypeChanges, expand
from reconciler.plan.unsettled import problem_finding
from reconciler.plan.upkeep import upkeep_operations
from reconciler.plan.validation import NOTHING_SCANNED, Proven, plan_scan
from reconciler.plan.view_query import offline_inputs
from reconciler.plan.views import ViewInputs, plan_view


def plan(
    desired: Desired,
    current: Observed | None,
    binding: Binding,
    changes: tuple[Change, ...],
    *,
    dialect: Dialect,
    catalog: str,
    files: tuple[DataFile, ...] | None = None,
    view: ViewInputs | None = None,
    readers: Sequence[Lineage] = (),
    take_ownership: bool = False,
    proven: Proven = NOTHING_SCANNED,
    types: TypeChanges | None = None,
) -> Plan:
    """Plan one manifest against one table; raises OwnershipConflict for somebody else's, unless it may be taken.

    `files` are main's live data files, needed only when `proofs.needs_data_files(changes)`; `proven` is what a scan of
    their rows has found since. `view` is what a materialized view reads,
    `readers` are the views that read this table, needed only when `impacts.concerns_views` says so of what was planned.
    """
    swaps = plan_swaps(types, current, binding.spec, changes, files) if types is not None else Swaps()
    if desired.constraints is None:
        constraints = plan_kept(current, binding.spec, changes)
    else:
        constraints = plan_constraints(desired, current, binding.spec, changes, swaps.changing)
    changes = (*changes, *constraints.changes)
    adoption = _adoption(desired, current, changes, take_ownership=take_ownership)
    changes = (*adoption, *changes)
    found = [problem_finding(desired, problem) for problem in binding.problems]
    if current is None and desired.renamed_from is not None and catalog:
        message = f"There is no table {desired.renamed_from} to rename: {desired.ident} is created, without rows."
        found.append(finding("LK114", message))
    if current is not None and desired.refs:
        found += moved_by_others(desired, current)
    base = current.version if current else None
    files = proven.told(files) if files is not None and proven.files else files
    context = Context(current, binding.spec, files, rewrites=rewrites_layout(desired))
    verdict = _judge(changes, context, dialect) if changes else _NOTHING
    checks = tuple(c for c in (*constraints.checks, *swaps.checks) if c.sql not in proven.checks)
    scan = plan_scan(context, verdict.notes, verdict.findings, checks)
    guards = verdict.guards_snapshot or scan.guards_snapshot
    verdict = msgspec.structs.replace(verdict, notes=scan.notes, findings=scan.findings, guards_snapshot=guards)
    operations = (*scan.operations, *_operations(verdict, base, guards_snapshot=guards)) if changes else ()
    found += (*swaps.instead_of(verdict.findings), *constraints.findings, *swaps.findings)
    refresh = plan_view(desired, current, view)
    data = plan_computed(desired, current, binding.spec, changes, files)
    data = plan_rewrites(desired, current, binding.spec, changes, files, data)
    data = plan_counts(desired, current, binding.spec, changes, files, data)
    operations = (*operations, *data.operations, *refresh.operations, *swaps.operations)
    found += (*data.findings, *refresh.findings, *impact_findings(desired, changes, operations, readers))
    wanted = desired_hash(desired) if operations else ""
    return Plan(
        table=desired.ident,
        owner=desired.owner,
        catalog=catalog,
        base=base,
        statistics=current.statistics if current else Statistics(),
        format_version=binding.spec.format_version,
        notes=verdict.notes,
        operations=operations,
        findings=suppress(found, desired.suppressions) if found or desired.suppressions else (),
        upkeep=()
        if operations or current is None
        else (
            *upkeep_operations(desired, current),
            *swaps.upkeep,
            *data.upkeep,
            *refresh.upkeep,
        ),
        guards_snapshot=verdict.guards_snapshot,
        desired_hash=wanted,
        hash=plan_hash(wanted, base, compared_properties(desired, current), operations) if operations else "",
    )


def plan_drop(current: Observed, *, owner: str, catalog: str, dialect: Dialect, take_ownership: bool = False) -> Plan:
    """Plan to drop a table; somebody else's is an OwnershipConflict, unless it may be taken."""
    _require_owner(owner, current, take_ownership=take_ownership)
    change = DropTable(ident=current.spec.ident, uuid=current.version.uuid)
    return _plan_against(current, current.spec, (change,), owner=owner, catalog=catalog, dialect=dialect, wanted="")


def plan_undo(
    current: Observed,
    past: TableSpec,
    *,
    owner: str,
    catalog: str,
    dialect: Dialect,
    files: tuple[DataFile, ...] | None = None,
    take_ownership: bool = False,
    constraints: Mapping[str, str | None] | None = None,
    has_same_rows: bool = False,
) -> Plan:
    """Plan to go back to a past spec: dropped columns return under their former field ids, with their data.

    `constraints` are the values that the undone plans replaced, `has_same_rows`: none have come since.
    """
    _require_owner(owner, current, take_ownership=take_ownership)
    undone = plan_undone(current, past, constraints or {}, has_same_rows=has_same_rows)
    changes = (*diff(current.spec, past), *undone.changes)
    wanted = past_hash(past, current.version.snapshot_id)
    made = _plan_against(
        current, past, changes, owner=owner, catalog=catalog, dialect=dialect, wanted=wanted, files=files
    )
    guards = made.guards_snapshot or undone.guards_snapshot
    return msgspec.structs.replace(made, findings=(*made.findings, *undone.findings), guards_snapshot=guards)


def plan_offline(before: Desired | None, after: Desired, *, dialect: Dialect, now_ms: int) -> Plan:
    """Plan from one version of a manifest to another, without a catalog: as if `before` were live, with rows, and ours.

    `before` None, or another table that `after` does not rename: the table is created. Tags and branches need
    snapshots, so they are left out. What only the rows decide is a warning here, and there is no hash: nobody can
    approve a plan that was made against no table.
    """
    wanted = msgspec.structs.replace(after, refs=None)
    is_known = before is not None and before.ident in (after.ident, after.renamed_from)
    current = _as_if_live(before, owner=after.owner, now_ms=now_ms) if before is not None and is_known else None
    types = expand(wanted, current, now_ms=now_ms)
    binding = bind(types.desired, current, now_ms=now_ms)
    changes = diff(current.spec if current else None, binding.spec)
    view = offline_inputs(before if is_known else None, after)
    made = plan(types.desired, current, binding, changes, dialect=dialect, catalog="", types=types, view=view)
    return msgspec.structs.replace(made, hash="", findings=tuple(map(_left_to_the_rows, made.findings)))


def _as_if_live(before: Desired, *, owner: str, now_ms: int) -> Observed:
    """Make up the table that a manifest describes, all of it managed by us."""
    spec = bind(msgspec.structs.replace(before, renamed_from=None, refs=None), None, now_ms=now_ms).spec
    memory = bookkeeping.managed_after(before, spec, bookkeeping.Bookkeeping(), now_ms=now_ms)
    last_id = max(paths_by_id(spec.schema), default=0)
    return Observed(
        spec=spec,
        version=TableVersion(uuid="", schema_id=0, spec_id=0, sort_order_id=0, last_field_id=last_id, snapshot_id=0),
        bookkeeping=bookkeeping.write(msgspec.structs.replace(memory, owner=owner)) | built_at_first(before, spec),
    )


def _left_to_the_rows(found: Finding) -> Finding:
    if found.code not in ("LK204", "LK206"):
        return found
    hint = "The live table decides: plan against its catalog."
    return msgspec.structs.replace(found, severity=Severity.WARNING, hint=hint)


# ---------------------------------------------------------------- ownership


def _adoption(
    desired: Desired, current: Observed | None, changes: Sequence[Change], *, take_ownership: bool
) -> tuple[AdoptTable, ...]:
    """Claim the table: from nobody together with other changes, from somebody only when told to."""
    if current is None:
        return ()
    taken_from = _require_owner(desired.owner, current, take_ownership=take_ownership)
    is_claimed = bookkeeping.OWNER in current.bookkeeping and taken_from is None
    if is_claimed or (taken_from is None and not changes):
        return ()
    return (AdoptTable(ident=desired.ident, owner=desired.owner, taken_from=taken_from),)


def _require_owner(owner: str, current: Observed, *, take_ownership: bool) -> str | None:
    """Return the other owner the table is taken from, None when it is ours or nobody's."""
    live = current.bookkeeping.get(bookkeeping.OWNER) or owner
    if live == owner:
        return None
    if take_ownership:
        return live
    raise OwnershipConflict(
        f"Table {current.spec.ident} belongs to {live}, not to {owner}.",
        hint="Remove one of the two manifests, or take the table over with --take-ownership.",
    )


# ---------------------------------------------------------------- lowering


class _Verdict(msgspec.Struct, frozen=True, kw_only=True):
    notes: tuple[Note, ...] = ()
    findings: tuple[Finding, ...] = ()
    guards_snapshot: bool = False


_NOTHING = _Verdict()


def _judge(changes: Sequence[Change], context: Context, dialect: Dialect) -> _Verdict:
    judgements = [dialect.judge(change, context) for change in changes]
    found = [f for judgement in judgements for f in judgement.findings]
    return _Verdict(
        notes=tuple(judgement.note for judgement in judgements),
        findings=(*found, *dialect.check(changes, context)),
        guards_snapshot=context.current is not None and any(j.guards_snapshot for j in judgements),
    )


def _operations(verdict: _Verdict, base: TableVersion | None, *, guards_snapshot: bool) -> tuple[Operation, ...]:
    """Group changes: a rename of the table first, then everything else in one commit; a table's drop stands alone."""
    renames = [note for note in verdict.notes if isinstance(note.change, RenameTable)]
    drops = [note for note in verdict.notes if isinstance(note.change, DropTable)]
    commits = [note for note in verdict.notes if not isinstance(note.change, RenameTable | DropTable)]
    operations = [_operation(OperationKind.RENAME_TABLE, [note], base, ()) for note in renames]
    if commits:
        asserts = tuple(_asserts(base, guards_snapshot=guards_snapshot))
        operations.append(_operation(OperationKind.COMMIT, commits, base, asserts))
    operations += [_operation(OperationKind.DROP_TABLE, [note], base, ()) for note in drops]
    return tuple(operations)


def _operation(
    kind: OperationKind, notes: Sequence[Note], base: TableVersion | None, asserts: tuple[str, ...]
) -> Operation:
    changes = tuple(note.change for note in notes)
    return Operation(
        id=operation_id(base, kind, changes),
        kind=kind,
        summary=_summary(changes),
        changes=changes,
        operation_class=max((note.operation_class for note in notes), default=OperationClass.METADATA_ONLY),
        breaking=any(note.breaking for note in notes),
        asserts=asserts,
    )


def _summary(changes: Sequence[Change]) -> str:
    match changes[0]:
        case RenameTable(before=before, after=after):
            return f"rename table {before} to {after}"
        case DropTable(ident=ident):
            return f"drop table {ident}"
        case _:
            return commit_summary(changes)


def _asserts(base: TableVersion | None, *, guards_snapshot: bool) -> Iterator[str]:
    """Say what the commit makes the catalog compare; the table's uuid always is."""
    if base is None:
        yield "no such table"
        return
    yield f"schema {base.schema_id}"
    yield f"spec {base.spec_id}"
    yield f"sort order {base.sort_order_id}"
    yield f"last field {base.last_field_id}"
    if guards_snapshot:
        yield f"main = {base.snapshot_id}" if base.snapshot_id is not None else "main without a snapshot"


def _plan_against(
    current: Observed,
    target: TableSpec,
    changes: tuple[Change, ...],
    *,
    owner: str,
    catalog: str,
    dialect: Dialect,
    wanted: str,
    files: tuple[DataFile, ...] | None = None,
) -> Plan:
    """Plan changes that no manifest states: a drop, an undo."""
    verdict = _judge(changes, Context(current, target, files), dialect) if changes else _NOTHING
    operations = _operations(verdict, current.version, guards_snapshot=verdict.guards_snapshot)
    return Plan(
        table=target.ident,
        owner=owner,
        catalog=catalog,
        base=current.version,
        statistics=current.statistics,
        format_version=target.format_version,
        notes=verdict.notes,
        operations=operations,
        findings=verdict.findings,
        guards_snapshot=verdict.guards_snapshot,
        desired_hash=wanted if operations else "",
        hash=plan_hash(wanted, current.version, {}, operations) if operations else "",
    )
