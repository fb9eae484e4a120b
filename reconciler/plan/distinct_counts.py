"""Plan counts of distinct values (`ndv` indexes): what the table's metadata says was counted is what counts.

There is no memory of ours: a statistics file belongs to a snapshot and stands in the metadata. Columns that were never
counted are an operation of the plan, counts of a former snapshot are upkeep.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reconciler.diff.changes import Change
from reconciler.model.indexes import NDV
from reconciler.model.table import DataFile, Desired, Observed, TableFormat, TableSpec
from reconciler.plan.data import Planned, with_real_ids
from reconciler.plan.hashing import data_operation_id
from reconciler.plan.index_work import CountDistinct
from reconciler.plan.operations import Cost, Operation, OperationClass, OperationKind


def wants_counts(desired: Desired) -> bool:
    """Say whether a manifest declares such an index."""
    return desired.format is TableFormat.ICEBERG and any(index.type == NDV for index in desired.indexes)


def needs_counts(desired: Desired, current: Observed | None) -> bool:
    """Say whether planning needs the live data files for the cost of counting."""
    if not wants_counts(desired) or current is None or current.version.snapshot_id is None:
        return False
    return not _counted(current, _work(desired, current.spec))


def plan_counts(
    desired: Desired,
    current: Observed | None,
    target: TableSpec,
    changes: Sequence[Change],
    files: tuple[DataFile, ...] | None,
    planned: Planned,
) -> Planned:
    """Add to what is planned what is to be counted; all declared columns are counted in one scan."""
    if not wants_counts(desired) or current is None or current.version.snapshot_id is None:
        return planned
    work = _work(desired, with_real_ids(current, target, changes))
    counted, head = _counted(current, work), current.version.snapshot_id
    if not work.columns or head in counted:
        return planned
    names = ", ".join(work.columns)
    if not counted:
        first = _operation(current, work, f"count distinct values of {names}", files, "")
        return msgspec.structs.replace(planned, operations=(*planned.operations, first))
    since = f"distinct values of {names}: counted for a former snapshot"
    again = _operation(current, work, since, files, str(head))
    return msgspec.structs.replace(planned, upkeep=(*planned.upkeep, again))


def _counted(current: Observed, work: CountDistinct) -> frozenset[int]:
    """Return the snapshots for which all of it was counted."""
    found = frozenset(snapshot for snapshot, ids in current.counted.items() if ids.issuperset(work.field_ids))
    return found & current.counted_partitions if work.partitions else found


def _work(desired: Desired, target: TableSpec) -> CountDistinct:
    names = {path[0] for index in desired.indexes if index.type == NDV for path in index.columns}
    fields = [field for field in target.schema.fields if field.name in names]
    return CountDistinct(
        columns=tuple(field.name for field in fields),
        field_ids=tuple(field.id for field in fields),
        partitions=bool(target.partitioning),
    )


def _operation(
    current: Observed, work: CountDistinct, summary: str, files: tuple[DataFile, ...] | None, revision: str
) -> Operation:
    arguments = [work.field_ids, work.partitions]
    return Operation(
        id=data_operation_id(current.version.uuid, OperationKind.COUNT, arguments, revision),
        kind=OperationKind.COUNT,
        summary=summary,
        operation_class=OperationClass.AUDIT,
        cost=Cost(files_read=len(files or ()), bytes_read=sum(_bytes(file, work) for file in files or ())),
        work=work,
    )


def _bytes(file: DataFile, work: CountDistinct) -> int:
    """Add up the columns' bytes; the whole file where the manifest does not tell."""
    known = [file.column_bytes.get(field_id) for field_id in work.field_ids]
    return file.size_bytes if None in known else sum(size or 0 for size in known)
