"""What a table's schema cannot hold of the files that a restore brings back.

A file's metrics prove what it holds. Where they are silent (by default Iceberg keeps those of the first 100 columns),
the schemas say what it may hold: the target's, and that of the snapshot which added the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from reconciler.model.table import DataFile, Observed, TableSpec
from reconciler.model.types import StructType, dotted, paths_by_id
from reconciler.plan.amounts import plural, size
from reconciler.plan.findings import finding
from reconciler.plan.operations import Finding
from reconciler.plan.splicing import leaf_ids
from reconciler.plan.type_changes import NEW, OLD, memories

_RESERVED_IDS = 2_147_483_447
"""From here on Iceberg numbers its own columns, such as the row ids of format v3."""


def refusals(
    current: Observed, spec: TableSpec, target: int, back: Sequence[DataFile], schemas: Mapping[int, StructType]
) -> Iterator[Finding]:
    """Say what stands against files coming back; `spec` is what the table will be, `schemas` are by snapshot."""
    past = schemas.get(target)
    known = frozenset(range(1, current.version.last_field_id + 1)) if past is None else _leaves(past)
    held = [(file, _held(file, known, schemas)) for file in back]
    yield from _dropped(spec, held)
    yield from _converted(current, spec, past, held)
    yield from _required(spec, back)


def _held(file: DataFile, known: frozenset[int], schemas: Mapping[int, StructType]) -> frozenset[int]:
    """Return the columns that a file has or, for all that is known, may have."""
    measured = frozenset(id_ for id_ in file.column_bytes if id_ < _RESERVED_IDS)
    if not file.rows:
        return measured
    written = schemas.get(file.added_by) if file.added_by is not None else None
    possible = known if written is None else known & _leaves(written)
    return measured | {id_ for id_ in possible if file.null_counts.get(id_) != file.rows}


def _leaves(schema: StructType) -> frozenset[int]:
    return frozenset(id_ for field in schema.fields for id_ in leaf_ids(field))


def _dropped(spec: TableSpec, held: Sequence[tuple[DataFile, frozenset[int]]]) -> Iterator[Finding]:
    lost = frozenset[int]().union(*(ids for _, ids in held)) - paths_by_id(spec.schema).keys()
    if lost:
        known = sum(file.column_bytes.get(id_, 0) for file, _ in held for id_ in lost)
        is_exact = all(id_ in file.column_bytes for file, ids in held for id_ in ids & lost)
        amount = size(known) if is_exact else f"at least {size(known)}" if known else "without metrics"
        yield finding(
            "LK219",
            f"{plural(len(lost), 'column')} of that snapshot (field ids {', '.join(map(str, sorted(lost)))}, "
            f"{amount}) were dropped since; their values would be lost.",
        )


def _converted(
    current: Observed, spec: TableSpec, past: StructType | None, held: Sequence[tuple[DataFile, frozenset[int]]]
) -> Iterator[Finding]:
    """Refuse files that were written before a type change: readers look for their values in the converted column."""
    names = {field.id: field.name for field in spec.schema.fields}
    for former, new in sorted(_exchanged(current, names, past)):
        files = [file for file, ids in held if file.rows and former in ids and not _has_metrics(file, new)]
        if files:
            yield finding(
                "LK219",
                f"{plural(len(files), 'file')} of that snapshot would bring values of {names[new]} from before its "
                f"type changed: they would be in {names[former]} alone, and {names[new]} would be NULL.",
                path=(names[new],),
                hint="Undo the type change first, then restore, then apply the type change again. To look at the rows "
                "only, read the tag.",
            )


def _exchanged(current: Observed, names: Mapping[int, str], past: StructType | None) -> frozenset[tuple[int, int]]:
    """Pair former columns with those that took their names after the snapshot was made."""
    then = {field.id: field.name for field in past.fields} if past is not None else {}
    remembered = {
        (former, memory.new)
        for former, memory in memories(current.bookkeeping).items()
        if memory.swapped_ms is not None and former in names and memory.new in names
    }
    # Undoing the plan that dropped a former column brings it back without what was remembered of it.
    ids = {name: id_ for id_, name in names.items()}
    alike = {(id_, ids.get(then.get(id_, ""), id_)) for id_, name in names.items() if name == then.get(id_, "") + OLD}
    pairs = remembered | {(former, new) for former, new in alike if former != new}
    return frozenset((former, new) for former, new in pairs if then.get(new, NEW).endswith(NEW))


def _has_metrics(file: DataFile, field_id: int) -> bool:
    return field_id in file.column_bytes or field_id in file.null_counts


def _required(spec: TableSpec, back: Sequence[DataFile]) -> Iterator[Finding]:
    for field in spec.schema.fields:
        if not field.required or not isinstance(field.type, str):
            continue
        if any(file.rows and file.null_counts.get(field.id) != 0 for file in back):
            yield finding(
                "LK220",
                f"Column {dotted((field.name,))} is required, and the snapshot's files do not prove that none of its "
                "rows lacks it.",
                path=(field.name,),
            )
