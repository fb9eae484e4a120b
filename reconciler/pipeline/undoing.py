"""Propose the way back: to the spec and the rows before a plan of ours, or to the rows of an earlier snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec

from reconciler.dialects import dialect_for
from reconciler.diff.column_properties import follow_columns
from reconciler.diff.diff import diff
from reconciler.errors import CommitConflict, RefNotFound
from reconciler.model import bookkeeping
from reconciler.model.bookkeeping import COMMIT, HistoryRecord
from reconciler.model.table import BOOKKEEPING_PREFIX, DataFile, Observed, TableSpec
from reconciler.model.types import StructType, paths_by_id
from reconciler.pipeline.proposals import Approval, Proposal, Request, judged
from reconciler.plan.approvals import released, undo_tag
from reconciler.plan.computed import COMPUTED_PREFIX
from reconciler.plan.constraints import PREFIX as CONSTRAINT_PREFIX
from reconciler.plan.data import DONE_PREFIX
from reconciler.plan.findings import finding
from reconciler.plan.hashing import past_hash, plan_hash
from reconciler.plan.operations import Finding, OperationKind, Plan
from reconciler.plan.planner import plan_drop, plan_undo
from reconciler.plan.policy import approves
from reconciler.plan.proofs import needs_data_files
from reconciler.plan.restore import records_since, restore_operation, snapshot_named, with_parts
from reconciler.plan.runtimes import within_runtime
from reconciler.plan.type_changes import memories
from reconciler.render.report import short_hash


def propose_restore(request: Request, current: Observed, to: str, approval: Approval, *, now_ms: int) -> Proposal:
    """Plan to make main's rows those of a tag, a snapshot or a time; raises RefNotFound. Empty when they are."""
    target = snapshot_named(current, to)
    made = _with_rows(_nothing(request, current), request, current, target, current.spec)
    return _judged(made, request, current, approval, now_ms=now_ms)


def propose_undo(
    request: Request, current: Observed, approval: Approval, *, now_ms: int, wanted: str | None = None
) -> Proposal:
    """Plan the way back to the spec and rows before a plan of ours, the last one unless another is named.

    Raises RefNotFound when there is no such plan, or the metadata no longer holds that past; CommitConflict when
    somebody else has committed rows since. Before a creation there was no table, so that is a drop.
    """
    history = bookkeeping.read(current.bookkeeping).history
    since = records_since(history, _chosen(history, wanted, current))
    commits = [record for record in since if record.kind == COMMIT]
    if commits and commits[0].schema_id is None:
        dialect = dialect_for(current.spec.format)
        made = plan_drop(current, owner=request.desired.owner, catalog=request.catalog_name, dialect=dialect)
        return _judged(made, request, current, approval, now_ms=now_ms)
    past = _past(request, current, since)
    made = _metadata_undo(request, current, past, since)
    target = _rows_before(since, past, current)
    if target is not None:
        made = _with_rows(made, request, current, target, past)
    if not made.operations and not made.findings:
        raise RefNotFound(
            f"That plan of {current.spec.ident} left nothing that undo brings back: tags, branches, the format "
            "version, ownership and properties above 1 KiB stay as they are, and so does how files are laid out.",
            hint="Change the manifest instead, and apply it.",
        )
    made = msgspec.structs.replace(made, findings=(*made.findings, *_lost_to_others(current, past, since)))
    request = msgspec.structs.replace(request, undone=since)
    return _judged(made, request, current, approval, now_ms=now_ms)


def _chosen(history: Sequence[HistoryRecord], wanted: str | None, current: Observed) -> str:
    """Pick the plan to undo; one that brings rows back and did not finish is gone on with, not undone."""
    unfinished = _unfinished(current)
    plans = [record.plan for record in history if record.plan and record.plan != unfinished]
    if not plans:
        raise RefNotFound(f"LakeTable has not changed {current.spec.ident}; there is nothing to undo.")
    if wanted is None:
        return plans[-1]
    found = next((plan for plan in reversed(plans) if approves(wanted, plan)), None)
    if found is None:
        raise RefNotFound(
            f"{current.spec.ident} remembers no plan {short_hash(wanted)}.",
            hint="'laketable history' lists those it remembers.",
        )
    return found


def _unfinished(current: Observed) -> str:
    before = bookkeeping.approved(current.bookkeeping)
    done = current.bookkeeping.get(f"{DONE_PREFIX}{OperationKind.RESTORE.value}")
    return before.plan if before is not None and before.needs and done not in before.operations else ""


# ---------------------------------------------------------------- metadata


def _past(request: Request, current: Observed, since: Sequence[HistoryRecord]) -> TableSpec:
    """Return the spec before the first of these records, with every property that they replaced."""
    first = next((r for r in since if r.kind == COMMIT), since[0])
    ids = first.schema_id or 0, first.spec_id or 0, first.sort_order_id or 0
    past = request.catalog.get_past_spec(current.spec.ident, *ids)
    properties = dict(current.spec.properties)
    replaced = _replaced(since)
    for key, value in replaced.items():
        if value is None:
            properties.pop(key, None)
        elif not key.startswith(BOOKKEEPING_PREFIX):
            properties[key] = value
    followed = follow_columns(properties, current.spec.schema, past.schema, kept=replaced)
    return msgspec.structs.replace(past, properties=followed, refs=current.spec.refs)


def _replaced(since: Sequence[HistoryRecord]) -> dict[str, str | None]:
    """Return the properties that these plans replaced, as they were before the first of them."""
    found: dict[str, str | None] = {}
    for record in reversed([r for r in since if r.kind == COMMIT]):
        found |= record.properties or {}
    return found


def _metadata_undo(request: Request, current: Observed, past: TableSpec, since: Sequence[HistoryRecord]) -> Plan:
    replaced = _replaced(since)
    return plan_undo(
        current,
        past,
        owner=request.desired.owner,
        catalog=request.catalog_name,
        dialect=dialect_for(current.spec.format),
        files=_files(request, current, current.version.snapshot_id)
        if needs_data_files(diff(current.spec, past))
        else None,
        constraints={key: value for key, value in replaced.items() if key.startswith(CONSTRAINT_PREFIX)},
        has_same_rows=current.version.snapshot_id == since[0].snapshot_id,
    )


# ---------------------------------------------------------------- rows


def _rows_before(since: Sequence[HistoryRecord], past: TableSpec, current: Observed) -> int | None:
    """Return the snapshot whose rows an undo brings back; None: no row has another value than before.

    A column that goes takes its values with it, and a rewrite moved rows without changing them.
    """
    fields = paths_by_id(past.schema)
    changed = [record for record in since if _changed_values(record, fields)]
    if not changed:
        return None
    first = changed[0].snapshot_id
    if first is None or _followed(first, since) != current.version.snapshot_id:
        tag = undo_tag(changed[0].plan)
        raise CommitConflict(
            f"Others have committed to {current.spec.ident} since plan {short_hash(changed[0].plan)}; undoing its rows "
            "would take that back too.",
            hint=f"To do so all the same: 'laketable restore {current.spec.ident} --to {tag}'.",
        )
    return first


def _followed(snapshot_id: int | None, records: Sequence[HistoryRecord]) -> int | None:
    """Follow main from a snapshot through what we alone published."""
    for record in records:
        if record.kind != COMMIT and record.snapshot_id == snapshot_id:
            snapshot_id = record.published_id
    return snapshot_id


def _lost_to_others(current: Observed, past: TableSpec, since: Sequence[HistoryRecord]) -> Iterator[Finding]:
    """Say which converted columns go although others wrote: the former one has no value of their rows."""
    then = paths_by_id(past.schema)
    for field_id, memory in memories(current.bookkeeping).items():
        if memory.swapped_ms is None or field_id not in then or memory.new in then:
            continue
        at = max((n for n, r in enumerate(since) if r.kind == COMMIT and r.time_ms == memory.swapped_ms), default=None)
        if at is None or _followed(since[at].snapshot_id, since[at:]) != current.version.snapshot_id:
            (name, *_) = then[field_id]
            message = f"Others have committed since {name} got its new type: what they wrote in it is lost."
            yield finding("LK228", message, path=(name,))


def _changed_values(record: HistoryRecord, fields: Mapping[int, object]) -> bool:
    if record.kind == OperationKind.RESTORE.value:
        return True
    numbers = (key.removeprefix(COMPUTED_PREFIX) for key in record.properties or {} if key.startswith(COMPUTED_PREFIX))
    return record.kind != COMMIT and any(number.isdigit() and int(number) in fields for number in numbers)


def _with_rows(made: Plan, request: Request, current: Observed, target: int, spec: TableSpec) -> Plan:
    """Add the restore of rows to a plan; its id covers target and head, and the plan's hash covers the id."""
    if target not in current.snapshot_ids:
        raise RefNotFound(
            f"Snapshot {target} of {current.spec.ident} has expired; its rows do not come back.",
            hint="maintenance.keepUndo says how long what plans replaced is kept.",
        )
    before = _files(request, current, current.version.snapshot_id)
    after = _files(request, current, target)
    schemas = _schemas(request, current, {target, *(file.added_by for file in after)})
    found = restore_operation(current, target, before, after, schema=spec, schemas=schemas)
    if found is None:
        return made
    operation, refusals = found
    operations = (*made.operations, *with_parts(operation))
    wanted = past_hash(spec, current.version.snapshot_id)
    made = msgspec.structs.replace(
        made,
        operations=operations,
        findings=(*made.findings, *refusals),
        guards_snapshot=True,
        desired_hash=wanted,
        hash=plan_hash(wanted, current.version, {}, operations),
    )
    return within_runtime(made, request.runtime)


def _schemas(request: Request, current: Observed, snapshots: Iterable[int | None]) -> dict[int, StructType]:
    """Return the schemas that snapshots were made under, where the metadata still tells."""
    known = current.snapshot_schemas
    made_under = {snapshot: known[snapshot] for snapshot in snapshots if snapshot is not None and snapshot in known}
    version = current.version
    found: dict[int, StructType] = {}
    for id_ in set(made_under.values()):
        with suppress(RefNotFound):
            past = request.catalog.get_past_spec(current.spec.ident, id_, version.spec_id, version.sort_order_id)
            found[id_] = past.schema
    return {snapshot: found[id_] for snapshot, id_ in made_under.items() if id_ in found}


def _files(request: Request, current: Observed, snapshot_id: int | None) -> tuple[DataFile, ...]:
    return () if snapshot_id is None else request.catalog.get_data_files(current.spec.ident, snapshot_id)


def _nothing(request: Request, current: Observed) -> Plan:
    return Plan(
        table=current.spec.ident,
        owner=request.desired.owner,
        catalog=request.catalog_name,
        base=current.version,
        statistics=current.statistics,
        format_version=current.spec.format_version,
    )


def _judged(made: Plan, request: Request, current: Observed, approval: Approval, *, now_ms: int) -> Proposal:
    proposal = Proposal(request.desired.ident, request.source, request, current, released(made, current))
    return judged(proposal, approval, now_ms=now_ms)
