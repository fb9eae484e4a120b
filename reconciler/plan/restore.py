"""Plan to bring back the rows of an earlier snapshot: a new one on main, so that everybody's history stays.

Only files that differ are written again, under the table's present schema. What that schema cannot hold is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from reconciler.errors import RefNotFound, Unsupported
from reconciler.model.bookkeeping import HISTORY_RECORDS, VIEW, HistoryRecord, read
from reconciler.model.schedules import parse_instant
from reconciler.model.table import DataFile, Observed, TableSpec
from reconciler.model.types import StructType
from reconciler.plan.amounts import plural
from reconciler.plan.computed import COMPUTED_PREFIX, UNKNOWN, Remembered, computed_memory, remembered
from reconciler.plan.data import branch_of
from reconciler.plan.hashing import data_operation_id
from reconciler.plan.operations import Cost, Finding, Operation, OperationClass, OperationKind
from reconciler.plan.restore_refusals import refusals
from reconciler.plan.table_work import Restore


def restore_id(uuid: str, work: Restore) -> str:
    """Derive the id of a restore from all it does: target and head are in it, so an approval names them."""
    arguments = [work.target, work.head, sorted(work.memory.items())]
    return data_operation_id(uuid, OperationKind.RESTORE, arguments, "")


def snapshot_named(current: Observed, text: str) -> int:
    """Find the snapshot that a tag, an id or a time means; raises RefNotFound."""
    ref = current.spec.refs.get(text)
    if ref is not None:
        return ref.snapshot_id
    if text.isdecimal() and int(text) in current.snapshot_ids:
        return int(text)
    then = _at_time(current, text)
    if then is not None and then in current.snapshot_ids:
        return then
    tags = ", ".join(sorted(current.spec.refs)) or "none"
    raise RefNotFound(
        f"{current.spec.ident} has no tag, no snapshot and no state of that time called '{text}' (tags: {tags}).",
        hint="Name a tag, a snapshot id, or a time such as 2026-10-01T00:00:00Z; what expired does not come back.",
    )


def restore_operation(
    current: Observed,
    target: int,
    before: Sequence[DataFile],
    after: Sequence[DataFile],
    *,
    schema: TableSpec | None = None,
    schemas: Mapping[int, StructType] | None = None,
) -> tuple[Operation, tuple[Finding, ...]] | None:
    """Return the work that makes main's rows those of `target`, with what stands against it; None: they are.

    `before` are the files of main's head, `after` those of the target; `schema` is the spec that the table will have,
    `schemas` are those that snapshots were made under, where that is known.
    """
    head = current.version.snapshot_id
    if head is None:
        raise RefNotFound(f"{current.spec.ident} has no rows yet.", hint="There is nothing to go back from.")
    if VIEW in current.bookkeeping:
        raise Unsupported(
            f"The rows of {current.spec.ident} come from its query; they are refreshed, not restored.",
            hint="Restore its sources, then run 'laketable refresh'.",
        )
    if _is_restored(current, target):
        return None
    back, gone = _differing(after, before), _differing(before, after)
    if not back and not gone:
        return None
    work = Restore(target=target, head=head, memory=memory_at(current, target))
    id_ = restore_id(current.version.uuid, work)
    total = sum(file.size_bytes for file in back)
    operation = Operation(
        id=id_,
        kind=OperationKind.RESTORE,
        summary=_summary(current, target, len(back), len(gone)),
        operation_class=OperationClass.DESTRUCTIVE,
        cost=Cost(files_read=len(back), bytes_read=total, files_rewritten=len(back), bytes_rewritten=total),
        asserts=(f"main = {head}",),
        work=work,
        resumes=branch_of(id_) in current.spec.refs,
    )
    return operation, tuple(refusals(current, schema or current.spec, target, back, schemas or {}))


def with_parts(restore: Operation) -> tuple[Operation, ...]:
    """Show what follows: it is one unit of work with the restore."""
    audit = Operation(
        id=restore.id,
        kind=OperationKind.VALIDATE,
        summary="audit: as many rows as the snapshot had",
        operation_class=OperationClass.AUDIT,
        resumes=restore.resumes,
    )
    publish = Operation(
        id=restore.id,
        kind=OperationKind.PUBLISH,
        summary="publish on main as a new snapshot (1 commit)",
        operation_class=OperationClass.METADATA_ONLY,
        resumes=restore.resumes,
    )
    return restore, audit, publish


def memory_at(current: Observed, target: int) -> Mapping[str, str]:
    """Return what the table shall remember of its computed columns once its rows are those of `target`.

    What was computed since is forgotten; the revision goes on counting, so that no operation looks done already.
    """
    history = read(current.bookkeeping).history
    since = [r for r in history if _is_after(current, r.published_id, target)]
    is_whole = len(history) < HISTORY_RECORDS or len(since) < len(history)
    found: dict[str, str] = {}
    for key in current.bookkeeping:
        number = key.removeprefix(COMPUTED_PREFIX)
        live = remembered(current.bookkeeping, int(number)) if number.isdigit() and number != key else None
        if live is None:
            continue
        wrote = next((r for r in since if r.properties is not None and key in r.properties), None)
        if wrote is not None and wrote.properties is not None:
            text = wrote.properties[key]
            then = remembered({key: text} if text else {}, int(number)) or Remembered(expression="")
        elif is_whole and all(r.properties is not None for r in since):
            continue
        else:
            then = Remembered(expression=UNKNOWN)
        found[key] = computed_memory(msgspec.structs.replace(then, revision=live.revision + 1, round=0))
    return found


# ---------------------------------------------------------------- parts


def _at_time(current: Observed, text: str) -> int | None:
    try:
        time_ms = parse_instant(text)
    except ValueError:
        return None
    return next((id_ for since, id_ in reversed(current.snapshot_log) if since <= time_ms), None)


def _is_restored(current: Observed, target: int) -> bool:
    """Say whether main's head is what a restore of the target made: the same rows, in files of other names."""
    last = next((r for r in reversed(read(current.bookkeeping).history) if r.kind == OperationKind.RESTORE.value), None)
    if last is None or last.published_id != current.version.snapshot_id or last.snapshot_id is None:
        return False
    memory = {key: current.bookkeeping.get(key, "") for key in last.properties or {}}
    work = Restore(target=target, head=last.snapshot_id, memory=memory)
    return restore_id(current.version.uuid, work) == last.operation


def _differing(files: Sequence[DataFile], others: Sequence[DataFile]) -> list[DataFile]:
    """List the files that the other side lacks, or has with other row deletes as far as anybody can tell."""
    known = {file.path: file for file in others}
    return [file for file in files if _differs(file, known.get(file.path))]


def _differs(file: DataFile, other: DataFile | None) -> bool:
    return other is None or file.deletes != other.deletes


def _is_after(current: Observed, snapshot_id: int | None, target: int) -> bool:
    """Say whether main had a snapshot after it had the target, by its log."""
    log = [id_ for _, id_ in current.snapshot_log]
    if snapshot_id is None or snapshot_id not in log:
        return False
    return target not in log or log.index(snapshot_id) > log.index(target)


def _summary(current: Observed, target: int, back: int, gone: int) -> str:
    log = [id_ for _, id_ in current.snapshot_log]
    commits = len(log) - 1 - log.index(target) if target in log else None
    taken = f"{plural(commits, 'commit')} after it" if commits is not None else "what main has instead of it"
    made_ms = current.snapshot_times.get(target)
    when = f" of {datetime.fromtimestamp(made_ms / 1000, tz=UTC).isoformat(timespec='seconds')}" if made_ms else ""
    return f"bring back the rows of snapshot {target}{when}: {plural(back, 'file')} back, {gone:,} out; undoes {taken}"


def records_since(history: Sequence[HistoryRecord], plan: str) -> tuple[HistoryRecord, ...]:
    """Return the records of a plan and of everything after it."""
    first = next((number for number, record in enumerate(history) if record.plan == plan), len(history))
    return tuple(history[first:])
