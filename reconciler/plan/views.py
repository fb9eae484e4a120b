"""Plan materialized views: whether the rows are those of the query and of its sources, and the refresh if they are not.

A first refresh and a changed query are the plan's; sources that moved are upkeep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from reconciler.model.table import DataFile, Desired, Observed, Statistics, TableIdent
from reconciler.model.types import MapType, StructType, Type, fields_of
from reconciler.plan.amounts import plural, size
from reconciler.plan.data import Planned, branch_of
from reconciler.plan.findings import suppress
from reconciler.plan.hashing import compared_properties, data_operation_id, desired_hash, plan_hash
from reconciler.plan.operations import (
    Cost,
    Edge,
    Finding,
    Operation,
    OperationClass,
    OperationKind,
    Plan,
    Refresh,
    Slot,
    SourceRead,
)
from reconciler.plan.view_memory import (
    RememberedView,
    changed_columns,
    digest,
    hash_fields,
    is_aggregation,
    is_rewritten_by_others,
    moment,
    moved_sources,
    remembered_view,
    stale_since,
    text_hash,
)

if TYPE_CHECKING:
    from reconciler.sql.queries import Query

_FULL, _AUTO = "Full", "Auto"
# Spark takes -0.0 and 0.0 for one value when it compares rows, but prints them apart
_UNCOMPARABLE = ("variant", "geometry", "geography", "float", "double")


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """How a source's data files differ from those at the watermark; one with other row deletes counts on both sides."""

    added_files: int = 0
    added_bytes: int = 0
    removed_files: int = 0
    removed_bytes: int = 0
    all_bytes: int = 0


class SourceState(msgspec.Struct, frozen=True, kw_only=True):
    """A source as it is: None when it is still to be created. `change`: what happened since the watermark."""

    table: TableIdent
    observed: Observed | None
    change: FileChange | None = None


class ViewInputs(msgspec.Struct, frozen=True, kw_only=True):
    """All that planning a view needs besides its table; `query` None: nothing moved, so that it was not even read.

    `exact` are the columns whose type is the query's own.
    """

    sources: tuple[SourceState, ...]
    query: Query | None = None
    exact: frozenset[str] = frozenset()
    findings: tuple[Finding, ...] = ()


# ---------------------------------------------------------------- plan


def plan_view(desired: Desired, current: Observed | None, inputs: ViewInputs | None) -> Planned:
    """Plan the rows of a view: its first refresh and a changed query as operations, moved sources as upkeep."""
    if desired.view is None or inputs is None or inputs.findings or inputs.query is None:
        return Planned(findings=inputs.findings if inputs else ())
    memory = remembered_view(current.bookkeeping) if current else None
    query = digest(inputs.query.sql)
    if memory is not None and memory.query == query and current is not None:
        seen = {state.table: state.observed for state in inputs.sources}
        if not moved_sources(current, seen) and not is_rewritten_by_others(current):
            return Planned()
        refresh = _refresh(desired, current, inputs, inputs.query, memory)
        since = stale_since(current, seen)
        stale = f" (stale since {moment(since)})" if since else ""
        return Planned(upkeep=(msgspec.structs.replace(refresh, summary=f"{refresh.summary}{stale}"),))
    return Planned(operations=_with_parts(_refresh(desired, current, inputs, inputs.query, memory)))


def plan_unreadable_view(desired: Desired, current: Observed | None, inputs: ViewInputs, *, catalog: str) -> Plan:
    """Return the plan of a view whose query cannot be read: findings, and nothing to do."""
    return Plan(
        table=desired.ident,
        owner=desired.owner,
        catalog=catalog,
        base=current.version if current else None,
        statistics=current.statistics if current else Statistics(),
        findings=suppress(inputs.findings, desired.suppressions),
    )


def refresh_plan(desired: Desired, current: Observed, made: Plan) -> Plan | None:
    """Turn the plan of a view in sync into one that refreshes it; None: its sources have not moved."""
    refresh = next((operation for operation in made.upkeep if isinstance(operation.work, Refresh)), None)
    if refresh is None:
        return None
    operations = _with_parts(refresh)
    wanted = desired_hash(desired)
    hash_ = plan_hash(wanted, current.version, compared_properties(desired, current), operations)
    return msgspec.structs.replace(made, operations=operations, upkeep=(), desired_hash=wanted, hash=hash_)


def _refresh(
    desired: Desired, current: Observed | None, inputs: ViewInputs, query: Query, memory: RememberedView | None
) -> Operation:
    delta, reason = _choose(desired, current, inputs, query, memory)
    work = _work(desired, inputs, query, memory, delta, reason)
    reads = [[s.table, s.uuid, s.snapshot_id, s.fields] for s in work.sources]
    uuid = current.version.uuid if current else ""
    id_ = data_operation_id(uuid, OperationKind.REFRESH, [work.query, reads], str(work.round))
    state = next((s for s in inputs.sources if s.table == delta), None)
    resumes = current is not None and branch_of(id_) in current.spec.refs
    how = _incrementally(work, state) if state else f"refresh in full{f', because {reason}' if reason else ''}"
    return Operation(
        id=id_,
        kind=OperationKind.REFRESH,
        summary=f"{'go on to ' if resumes else ''}{how}",
        operation_class=OperationClass.REWRITE,
        cost=_cost(current, inputs, work, state),
        work=work,
        resumes=resumes,
    )


def _work(
    desired: Desired,
    inputs: ViewInputs,
    query: Query,
    memory: RememberedView | None,
    delta: TableIdent | None,
    reason: str,
) -> Refresh:
    from reconciler.sql.shapes import Aggregation

    watermarks = {source.table: source.snapshot_id for source in memory.sources} if memory else {}
    read = {source.table: tuple(sorted(source.columns)) for source in query.sources}
    shape = query.shape if isinstance(query.shape, Aggregation) else None
    return Refresh(
        query=digest(query.sql),
        text=text_hash(desired.view.query if desired.view else ""),
        pieces=tuple(p if isinstance(p, str) else Slot(p.table, p.alias) for p in query.pieces),
        columns=tuple(output.name for output in query.outputs),
        sources=tuple(
            SourceRead(
                table=state.table,
                uuid=state.observed.version.uuid if state.observed else "",
                schema_id=state.observed.version.schema_id if state.observed else 0,
                snapshot_id=state.observed.version.snapshot_id if state.observed else None,
                columns=read.get(state.table, ()),
                since=watermarks.get(state.table) if state.table == delta else None,
                fields=hash_fields(state.observed.spec.schema, read.get(state.table, ())) if state.observed else "",
            )
            for state in inputs.sources
        ),
        edges=query_edges(query),
        delta=delta,
        keys=tuple(key.output for key in shape.keys) if shape else (),
        measures={measure.output: measure.function for measure in shape.measures} if shape else {},
        round=memory.round + 1 if memory else 1,
        reason=reason,
    )


def _choose(
    desired: Desired, current: Observed | None, inputs: ViewInputs, query: Query, memory: RememberedView | None
) -> tuple[TableIdent | None, str]:
    """Return the source whose changes suffice, or None and why only a full refresh gives the right rows."""
    mode = desired.view.mode if desired.view else _AUTO
    if current is None or memory is None:
        return None, "these are its first rows" if current is None or current.version.snapshot_id is None else ""
    if memory.query != digest(query.sql):
        return None, "its query changed"
    if is_rewritten_by_others(current):
        return None, "somebody else wrote into it"
    if mode == _FULL:
        return None, "its manifest says so"
    reason = _unmergeable(inputs, query)
    if reason:
        return None, reason
    seen = {state.table: state for state in inputs.sources}
    moved = moved_sources(current, {table: state.observed for table, state in seen.items()})
    if len(moved) != 1:
        return None, f"{' and '.join(str(source.table) for source in moved)} changed together"
    reason = _unreadable(moved[0], seen[moved[0].table], query, desired.columns, is_auto=mode == _AUTO)
    return (None, reason) if reason else (moved[0].table, "")


def _unmergeable(inputs: ViewInputs, query: Query) -> str:
    """Say what in the query no changes can follow."""
    from reconciler.sql.shapes import Aggregation, FullOnly

    if isinstance(query.shape, FullOnly):
        return query.shape.reason
    converted = sorted({output.name for output in query.outputs} - inputs.exact)
    if isinstance(query.shape, Aggregation) and converted:
        return f"its manifest gives {converted[0]} another type than the query"
    return ""


def _unreadable(source: SourceRead, state: SourceState, query: Query, view: StructType, *, is_auto: bool) -> str:
    """Say why the changes of a source cannot be had, or would cost more than all of it."""
    from reconciler.sql.shapes import Aggregation, FullOnly

    if isinstance(query.shape, FullOnly):
        return query.shape.reason
    if state.observed is None or state.observed.version.uuid != source.uuid:
        return f"{source.table} was dropped and made anew"
    changed = changed_columns(source, state.observed)
    if changed:
        return changed
    if source.table not in query.shape.drivers:
        return f"the joined table {source.table} changed"
    if source.snapshot_id is None:
        return f"{source.table} had no rows at the last refresh"
    if source.snapshot_id not in state.observed.snapshot_ids:
        return f"snapshot {source.snapshot_id} of {source.table} has expired"
    change = state.change or FileChange()
    if change.removed_files:
        if isinstance(query.shape, Aggregation) and not query.shape.keys:
            return f"rows of {source.table} were changed or deleted, and it has no groups"
        column = "" if isinstance(query.shape, Aggregation) else _uncomparable(state, query, view)
        if column:
            return f"rows of {source.table} were changed or deleted, and {column} cannot be compared exactly"
    if is_auto and 2 * (change.added_bytes + change.removed_bytes) > change.all_bytes:
        return f"most of {source.table} changed"
    return ""


def _uncomparable(state: SourceState, query: Query, view: StructType) -> str:
    """Name a column by which rows cannot be told apart: of those read from the source, or of the view's."""
    read = {column[0] for source in query.sources if source.table == state.table for column in source.columns}
    fields = state.observed.spec.schema.fields if state.observed else ()
    types: list[tuple[str, Type | None]] = [
        *((f"{state.table}.{field.name}", field.type) for field in fields if not read or field.name in read),
        *((output.name, output.type) for output in query.outputs),
        *((field.name, field.type) for field in view.fields),
    ]
    return next((name for name, type_ in types if type_ is None or not _is_comparable(type_)), "")


def _is_comparable(type_: Type) -> bool:
    if isinstance(type_, str):
        return not type_.startswith(_UNCOMPARABLE)
    return not isinstance(type_, MapType) and all(_is_comparable(field.type) for field in fields_of(type_))


def _incrementally(work: Refresh, state: SourceState) -> str:
    change = state.change or FileChange()
    added = f"{plural(change.added_files, 'new file')} of {state.table} ({size(change.added_bytes)})"
    if not change.removed_files:
        return (
            f"refresh incrementally: merge {added}" if work.measures else f"refresh incrementally: append from {added}"
        )
    what = "recompute the groups" if work.measures or work.keys else "exchange the rows"
    touched = plural(change.added_files + change.removed_files, "changed file")
    return f"refresh incrementally: {what} that {touched} of {state.table} touch"


def _cost(current: Observed | None, inputs: ViewInputs, work: Refresh, delta: SourceState | None) -> Cost:
    """Take a source's bytes from the summary of its snapshot, its changes from its manifests."""
    own = current.statistics if current else None
    view = Cost(files_read=(own.files or 0) if own else 0, bytes_read=(own.bytes or 0) if own else 0)
    rewritten = Cost(files_rewritten=view.files_read, bytes_rewritten=view.bytes_read)
    if delta is None or delta.change is None:
        return _all_of(inputs) + rewritten
    change = delta.change
    changed = Cost(
        files_read=change.added_files + change.removed_files, bytes_read=change.added_bytes + change.removed_bytes
    )
    if change.removed_files:
        return changed + _all_of(inputs) + view + rewritten
    others = _all_of(msgspec.structs.replace(inputs, sources=tuple(s for s in inputs.sources if s is not delta)))
    return changed + others + (view + rewritten if is_aggregation(work) else Cost())


def _all_of(inputs: ViewInputs) -> Cost:
    found = [state.observed.statistics for state in inputs.sources if state.observed is not None]
    return Cost(files_read=sum(s.files or 0 for s in found), bytes_read=sum(s.bytes or 0 for s in found))


def _with_parts(refresh: Operation) -> tuple[Operation, ...]:
    """Show what follows a refresh: it is one unit of work with it."""
    audit = Operation(
        id=refresh.id,
        kind=OperationKind.VALIDATE,
        summary="audit: the branch holds the rows that were written, and no others",
        operation_class=OperationClass.AUDIT,
        resumes=refresh.resumes,
    )
    publish = Operation(
        id=refresh.id,
        kind=OperationKind.PUBLISH,
        summary="publish the rows with their watermarks on main (1 commit)",
        operation_class=OperationClass.METADATA_ONLY,
        resumes=refresh.resumes,
    )
    return refresh, audit, publish


def file_change(before: tuple[DataFile, ...], after: tuple[DataFile, ...]) -> FileChange:
    """Compare a source's files with those at the watermark."""
    old, new = ({file.path: file for file in files} for files in (before, after))
    added = [f for f in after if f.path not in old or f.deletes != old[f.path].deletes]
    removed = [f for f in before if f.path not in new or f.deletes != new[f.path].deletes]
    return FileChange(
        added_files=len(added),
        added_bytes=sum(f.size_bytes for f in added),
        removed_files=len(removed),
        removed_bytes=sum(f.size_bytes for f in removed),
        all_bytes=sum(f.size_bytes for f in after),
    )


def query_edges(query: Query) -> dict[str, tuple[Edge, ...]]:
    """Map a query's columns to the source columns that they are made of."""
    return {
        output.name: tuple(sorted(Edge(edge.table, edge.path) for edge in output.edges if edge.table is not None))
        for output in query.outputs
    }
