"""What a plan means for the materialized views that read its table; pure: told which views there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from reconciler.diff.changes import AlterColumnType, Change, DropColumn, DropTable, RenameColumn, RenameTable
from reconciler.model.table import Desired
from reconciler.model.types import FieldPath, dotted
from reconciler.plan.findings import finding
from reconciler.plan.lineage import Lineage
from reconciler.plan.operations import Backfill, Finding, Operation
from reconciler.plan.row_work import Swap


def concerns_views(changes: Sequence[Change], operations: Sequence[Operation]) -> bool:
    """Say whether it is worth asking who reads the table: only then is the catalog looked through.

    For a backfill that goes on it was asked before it was released; until it is done there are many looks.
    """
    filled = _filled(operation for operation in operations if not operation.resumes)
    told = (_broken(changes), _retyped(changes), _swapped(operations), filled)
    return next(chain(*told), None) is not None


def impact_findings(
    desired: Desired, changes: Sequence[Change], operations: Sequence[Operation], views: Sequence[Lineage]
) -> Iterator[Finding]:
    """Yield LK301 for what breaks a view's query, LK303 for values that change under it."""
    broken = [*_broken(changes), *_swapped(operations)]
    moved = [*_retyped(changes), *_filled(operations)]
    for lineage in views:
        if lineage.view == desired.ident:
            continue
        for verb, path in broken:
            if desired.ident in lineage.reads and (not path or lineage.reads_column(desired.ident, path)):
                what = dotted(path) or str(desired.ident)
                message = f"{_named(lineage)} reads {what}: {verb} breaks its next refresh."
                yield finding(
                    "LK301", message, path=path, hint=f"{_way_out(lineage)}; or suppress LK301 with a reason."
                )
        for verb, path in moved:
            if lineage.reads_column(desired.ident, path):
                message = f"{_named(lineage)} reads {dotted(path)}, {verb}."
                yield finding("LK303", message, path=path)


def _named(lineage: Lineage) -> str:
    return "A materialized view of somebody else" if lineage.is_hidden else f"Materialized view {lineage.view}"


def _way_out(lineage: Lineage) -> str:
    if lineage.is_hidden:
        return "Ask the catalog's owner whose it is"
    return f"Change the query of {lineage.view} first, or in the same run"


def _broken(changes: Sequence[Change]) -> Iterator[tuple[str, FieldPath]]:
    for change in changes:
        match change:
            case DropColumn(path=path):
                yield "dropping it", path
            case RenameColumn(path=path, to=name):
                yield f"renaming it to {name}", path
            case DropTable():
                yield "dropping it", ()
            case RenameTable(after=after):
                yield f"renaming it to {after}", ()


def _retyped(changes: Sequence[Change]) -> Iterator[tuple[str, FieldPath]]:
    for change in changes:
        if isinstance(change, AlterColumnType):
            yield f"which becomes {change.after}", change.path


def _swapped(operations: Sequence[Operation]) -> Iterator[tuple[str, FieldPath]]:
    for operation in operations:
        if isinstance(operation.work, Swap):
            for column in operation.work.columns:
                yield "converting it to another type", (column.name,)


def _filled(operations: Iterable[Operation]) -> Iterator[tuple[str, FieldPath]]:
    for operation in operations:
        if isinstance(operation.work, Backfill):
            for column in operation.work.columns:
                yield "whose values are computed anew", (column.name,)
