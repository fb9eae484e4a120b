"""Plan rewrites of existing files: to a changed partition spec or sort order, for an index, along with a backfill.

A changed wish is an operation of the plan. Files that other writers brought since are lag: upkeep, on request. The
memory (`plan.built`) is written in the commit that publishes, its revision counts the changes, so A → B → A runs three
times, and what others ingest meanwhile changes neither an operation's id nor a plan's hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from reconciler.diff.changes import Change, SetPartitioning, SetSortOrder
from reconciler.model.indexes import ON_ICEBERG, ZORDER
from reconciler.model.table import DataFile, Desired, Observed, TableFormat, TableSpec
from reconciler.plan.amounts import plural, size
from reconciler.plan.built import (
    BUILT_PREFIX,
    LAYOUT,
    Built,
    TableLayout,
    aspects_of,
    built_key,
    is_whole,
    lacks,
    layout_of,
    print_built,
    read_built,
    wants_rewrites,
)
from reconciler.plan.computed import published_properties
from reconciler.plan.data import Planned, branch_of, upkeep_commit, with_real_ids
from reconciler.plan.findings import finding
from reconciler.plan.hashing import data_operation_id
from reconciler.plan.operations import (
    Aspect,
    AspectKind,
    Backfill,
    Cost,
    Finding,
    How,
    Operation,
    OperationClass,
    OperationKind,
    Rewrite,
    Way,
)
from reconciler.plan.splicing import bytes_with, lacking, way_of, ways

_NO_LAYOUT = TableLayout(spec_id=-1, sort_order_id=-1)  # that no file has: the metadata commit will make another


# ---------------------------------------------------------------- memory


def rewrite_memory_after(
    desired: Desired, current: Observed | None, target: TableSpec, changes: Iterable[Change]
) -> dict[str, str | None]:
    """Return the memory that a metadata commit writes; None means unset.

    Without rows everything is as it should be. With rows, a layout that existing files shall get is noted as wanted;
    one that they shall not get is forgotten, for files of both kinds are there from now on.
    """
    wanted = {aspect.name: aspect for aspect in aspects_of(desired, target)}
    live = current.bookkeeping if current else {}
    after: dict[str, str | None] = {
        key: None for key in live if key.startswith(BUILT_PREFIX) and key.removeprefix(BUILT_PREFIX) not in wanted
    }
    has_rows = current is not None and current.version.snapshot_id is not None
    moves = any(isinstance(change, SetPartitioning | SetSortOrder) for change in changes)
    for name, aspect in wanted.items():
        before = read_built(live, name)
        if before is None and has_rows and moves and name == LAYOUT:
            after[built_key(name)] = print_built(Built())
        elif not has_rows and (before is None or before.definition != aspect.definition):
            revision = before.revision + 1 if before else 1
            after[built_key(name)] = print_built(Built(definition=aspect.definition, revision=revision))
    return after


def built_at_first(desired: Desired, spec: TableSpec) -> dict[str, str]:
    """Return the memory of a table that was made as its manifest says."""
    return {key: value for key, value in rewrite_memory_after(desired, None, spec, ()).items() if value is not None}


def rewritten_properties(rewrite: Rewrite, built: Mapping[str, Built]) -> dict[str, str]:
    """Return the memory that rides in the commit which publishes a rewrite; `built` says which files have an aspect."""
    properties = published_properties(rewrite.backfill) if rewrite.backfill else {}
    for aspect in rewrite.aspects:
        known = msgspec.structs.replace(
            built[aspect.name], definition=aspect.definition, revision=aspect.revision, round=aspect.round
        )
        properties[built_key(aspect.name)] = print_built(known)
    return properties


# ---------------------------------------------------------------- plan


def needs_layouts(desired: Desired, current: Observed | None, target: TableSpec) -> bool:
    """Say whether planning needs the live data files: only when main moved since all of them were as they should be."""
    if current is None or current.version.snapshot_id is None:
        return False
    head = current.version.snapshot_id
    aspects = aspects_of(desired, target)
    return any(not is_whole(aspect, read_built(current.bookkeeping, aspect.name), head) for aspect in aspects)


def plan_rewrites(
    desired: Desired,
    current: Observed | None,
    target: TableSpec,
    changes: Sequence[Change],
    files: tuple[DataFile, ...] | None,
    computed: Planned,
) -> Planned:
    """Add to the planned backfills what existing files shall be rewritten for: one pass does both where it can."""
    findings = (*computed.findings, *_index_findings(desired))
    planned = msgspec.structs.replace(computed, findings=findings)
    if current is None:
        return planned
    if not changes and rewrite_memory_after(desired, current, target, ()):
        forget = upkeep_commit("remember what existing files have", current, ())
        planned = msgspec.structs.replace(planned, upkeep=(*planned.upkeep, forget))
    if current.version.snapshot_id is None or not wants_rewrites(desired):
        return planned
    view = _View(current, with_real_ids(current, target, changes), files, changes)
    is_filling = any(isinstance(o.work, Backfill) and not o.work.is_fill for o in planned.operations)
    pending = view.pending(desired) or (view.kept(desired) if is_filling else ())
    if pending:
        return _with_rewrite(view, pending, planned, cleans=desired.rewrite_existing)
    behind = view.behind(desired)
    if not behind:
        return planned
    upkeep = _operation(view, Rewrite(aspects=behind, deletes=desired.rewrite_existing), is_upkeep=True)
    return msgspec.structs.replace(planned, upkeep=(*planned.upkeep, upkeep))


class _View:
    """A table's files against what they shall have, once the metadata changes are made."""

    def __init__(
        self, current: Observed, target: TableSpec, files: Sequence[DataFile] | None, changes: Sequence[Change]
    ) -> None:
        self.current, self.target = current, target
        self.files = [file for file in files or () if file.rows]
        self.is_unread = files is None
        self.repartitions = any(isinstance(change, SetPartitioning) for change in changes)
        self.sorts = any(isinstance(change, SetSortOrder) for change in changes) and bool(target.sort_order)
        moves = any(isinstance(change, SetPartitioning | SetSortOrder) for change in changes)
        version = current.version
        order = version.sort_order_id if target.sort_order else 0
        self.layout = _NO_LAYOUT if moves else TableLayout(spec_id=version.spec_id, sort_order_id=order)

    def built(self, aspect: Aspect) -> Built | None:
        """Return what the table remembers of an aspect."""
        return read_built(self.current.bookkeeping, aspect.name)

    def lacking(self, aspect: Aspect) -> list[DataFile]:
        """List the files that an aspect is to be given."""
        built, is_layout = self.built(aspect), aspect.kind is AspectKind.LAYOUT
        if not is_layout and is_whole(aspect, built, self.current.version.snapshot_id):
            return []
        return [file for file in self.files if lacks(aspect, layout_of(file), self.layout, built)]

    def pending(self, desired: Desired) -> tuple[Aspect, ...]:
        """Return what the table does not remember to have as it is wanted now, and with it all else that is wanted.

        New files have to keep what the old ones had, and what others brought without it is brought up on the way.
        """
        found = [self._next(aspect) for aspect in aspects_of(desired, self.target)]
        new = [aspect for aspect in found if not aspect.round]
        is_due = any(self.is_unread or self.built(aspect) is not None or self.lacking(aspect) for aspect in new)
        return tuple(found) if is_due else ()

    def kept(self, desired: Desired) -> tuple[Aspect, ...]:
        """Return what a backfill has to hand on to the files that it replaces, though no manifest tells it."""
        found = tuple(self._next(aspect) for aspect in aspects_of(desired, self.target))
        return found if any(a.round and a.kind is not AspectKind.LAYOUT for a in found) else ()

    def _next(self, aspect: Aspect) -> Aspect:
        """Number an aspect: another revision when it changed, another round when it did not."""
        before = self.built(aspect)
        if before is not None and before.definition == aspect.definition:
            return msgspec.structs.replace(aspect, revision=before.revision, round=before.round + 1)
        return msgspec.structs.replace(aspect, revision=before.revision + 1 if before else 1)

    def behind(self, desired: Desired) -> tuple[Aspect, ...]:
        """Return what is wanted when files that others brought lack some of it: new files have to keep the rest."""
        found = tuple(self._next(aspect) for aspect in aspects_of(desired, self.target))
        return found if any(aspect.round and self.lacking(aspect) for aspect in found) else ()


def _with_rewrite(view: _View, pending: tuple[Aspect, ...], planned: Planned, *, cleans: bool) -> Planned:
    """Take a backfill along that has not been started by itself; what has been started goes on as it was."""
    alone = Rewrite(aspects=pending, deletes=cleans)
    backfill = next((o for o in planned.operations if isinstance(o.work, Backfill)), None)
    is_started = _branch(view, alone) in view.current.spec.refs
    if backfill is None or backfill.resumes or is_started or not isinstance(backfill.work, Backfill):
        operation = _operation(view, alone)
        return msgspec.structs.replace(planned, operations=(*planned.operations, *_with_parts(operation)))
    together = msgspec.structs.replace(alone, backfill=backfill.work)
    others = tuple(o for o in planned.operations if o.id != backfill.id)
    operation = _operation(view, together)
    return msgspec.structs.replace(planned, operations=(*others, *_with_parts(operation)))


# ---------------------------------------------------------------- operations


def _operation(view: _View, rewrite: Rewrite, *, is_upkeep: bool = False) -> Operation:
    passes = _passes(view, rewrite)
    found = _ways(view, rewrite)
    cost = sum((way.cost for way in found), Cost())
    resumes = _branch(view, rewrite) in view.current.spec.refs
    return Operation(
        id=_id(view, rewrite),
        kind=OperationKind.REWRITE,
        summary=_lag(view, rewrite) if is_upkeep else _summary(passes, cost, resumes=resumes),
        operation_class=OperationClass.REWRITE,
        cost=cost,
        ways=found,
        work=rewrite,
        resumes=resumes,
    )


def _id(view: _View, rewrite: Rewrite) -> str:
    arguments: list[object] = [[a.name, a.definition] for a in rewrite.aspects]
    revisions = [f"{a.revision}.{a.round}" for a in rewrite.aspects]
    for column in rewrite.backfill.columns if rewrite.backfill else ():
        arguments.append([column.field_id, column.sql, column.where, column.recompute])
        revisions.append(f"{column.revision}.{column.round}")
    uuid = view.current.version.uuid
    return data_operation_id(uuid, OperationKind.REWRITE, arguments, ",".join(revisions))


def _branch(view: _View, rewrite: Rewrite) -> str:
    return branch_of(_id(view, rewrite))


def _passes(view: _View, rewrite: Rewrite) -> list[tuple[str, int]]:
    """Name what each part would be as a pass of its own, and how much that would write."""
    passes: list[tuple[str, int]] = []
    for aspect in rewrite.aspects:
        files = view.lacking(aspect)
        if aspect.kind is not AspectKind.LAYOUT:
            passes.append((_shown(aspect), _size(files)))
            continue
        parts = [f for f in files if view.repartitions or f.spec_id != view.current.version.spec_id]
        order = view.current.version.sort_order_id
        unsorted = [f for f in files if view.sorts or (view.target.sort_order and f.sort_order_id != order)]
        passes += [("partition spec", _size(parts))] if parts else []
        passes += [("sort order", _size(unsorted))] if unsorted else []
    if rewrite.deletes and (dirty := [file for file in view.files if file.has_deletes]):
        passes.append(("deleted rows", _size(dirty)))
    if rewrite.backfill:
        columns = ", ".join(column.name for column in rewrite.backfill.columns)
        found = ways(view.files, rewrite.backfill.columns, view.target.schema, view.target.format_version)
        passes.append((f"values of {columns}", sum(way.cost.bytes_rewritten for way in found)))
    return passes


def _summary(passes: Sequence[tuple[str, int]], cost: Cost, *, resumes: bool) -> str:
    verb = "go on to rewrite" if resumes else "rewrite"
    what = ", ".join(name for name, _ in passes) or "nothing: every file is as it should be"
    summary = f"{verb} existing files on a branch: {what}"
    saved = sum(written for _, written in passes) - cost.bytes_rewritten
    if len(passes) > 1 and saved > 0:
        return f"{summary}; one pass instead of {len(passes)}: saves {size(saved)}"
    return summary


def _lag(view: _View, rewrite: Rewrite) -> str:
    """Say how many files of how many have what is wanted, as far as it is known without opening them."""
    texts = []
    for aspect in rewrite.aspects:
        missing, total = len(view.lacking(aspect)), len(view.files)
        if not missing:
            continue
        done = f"{total - missing:,} of {plural(total, 'file')}"
        if aspect.kind is AspectKind.LAYOUT:
            texts.append(f"{done} in the table's layout")
        elif aspect.kind is AspectKind.BLOOM:
            texts.append(f"{aspect.name.replace('.', ' ', 1)}: indexed {done}, later ones are looked into")
        else:
            texts.append(f"{aspect.name.replace('.', ' ', 1)}: indexed {done}")
    return "; ".join(texts)


def _ways(view: _View, rewrite: Rewrite) -> tuple[Way, ...]:
    """Price one pass: files that must be rewritten get their values in it, the others only those."""
    touched = {file.path for aspect in rewrite.aspects for file in view.lacking(aspect)}
    if rewrite.deletes:
        touched |= {file.path for file in view.files if file.has_deletes}
    rewritten = [file for file in view.files if file.path in touched]
    columns = rewrite.backfill.columns if rewrite.backfill else ()
    schema, version = view.target.schema, view.target.format_version
    priced = [(f.path, _cost(f, bytes_with(f, lacking(f, columns), schema, version))) for f in rewritten]
    rest = [file for file in view.files if file.path not in touched]
    return (*((way_of(How.REWRITE, "", priced),) if rewritten else ()), *ways(rest, columns, schema, version))


def _cost(file: DataFile, written: int) -> Cost:
    return Cost(files_read=1, bytes_read=file.size_bytes, files_rewritten=1, bytes_rewritten=written)


def _size(files: Iterable[DataFile]) -> int:
    return sum(file.size_bytes for file in files)


def _with_parts(rewrite: Operation) -> tuple[Operation, ...]:
    """Show what follows a rewrite: it is one unit of work with it."""
    audit = Operation(
        id=rewrite.id,
        kind=OperationKind.VALIDATE,
        summary="audit: as many rows as before, every new file as it is wanted",
        operation_class=OperationClass.AUDIT,
        resumes=rewrite.resumes,
    )
    publish = Operation(
        id=rewrite.id,
        kind=OperationKind.PUBLISH,
        summary="publish the new files on main (1 commit)",
        operation_class=OperationClass.METADATA_ONLY,
        resumes=rewrite.resumes,
    )
    return rewrite, audit, publish


def _shown(aspect: Aspect) -> str:
    return aspect.name.replace(".", " ", 1)


def summary_when_done(rewrite: Rewrite) -> str:
    """Say what a rewrite gave existing files."""
    parts = [_shown(aspect) for aspect in rewrite.aspects]
    parts += [f"values of {column.name}" for column in (rewrite.backfill.columns if rewrite.backfill else ())]
    return f"rewrote existing files: {', '.join(parts)}"


# ---------------------------------------------------------------- findings


def _index_findings(desired: Desired) -> Iterator[Finding]:
    """Say which indexes the format has not, and which would never be built."""
    if desired.format is not TableFormat.ICEBERG:
        return
    for index in desired.indexes:
        if index.type not in ON_ICEBERG:
            message = f"Index {index.name} is of type {index.type}, which Iceberg does not have."
            yield finding("LK225", message)
        elif index.type == ZORDER and not index.rewrite_existing:
            yield finding("LK226", f"Index {index.name} is a z-order that nothing makes.")
