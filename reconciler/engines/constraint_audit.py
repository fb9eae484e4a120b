"""Hold what a data operation wrote to the table's constraints, before anything of it is published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reconciler.engines.frames import functions_of
from reconciler.engines.validation import count_rows
from reconciler.errors import InvalidTable
from reconciler.plan.amounts import plural
from reconciler.plan.constraints import audited
from reconciler.plan.operations import Backfill, Refresh, Rewrite, Work
from reconciler.plan.row_work import RowCheck

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from reconciler.engines.site import Site


def audit_constraints(site: Site, head: int, added: Sequence[Any]) -> None:
    """Raise InvalidTable when rows of the added files break a constraint over what was written."""
    facts = site.table.facts()
    checks = audited(facts.properties, facts.schema(), _written(site.operation.work))
    if not checks or not added:
        return
    paths = {str(file.location()) for file in added}
    tasks = site.live(head, lambda file: str(file.location()) in paths)
    found = count_rows(site, tasks, lambda frame: _broken(frame, checks)) if tasks else {}
    for fault, count in found.items():
        if count.rows:
            raise InvalidTable(
                f"The audit found {plural(count.rows, 'row')} that {fault}; nothing is published.",
                where=site.branch_place,
                hint="Correct the rows' inputs or the constraint, then apply again.",
            )


def _broken(frame: DataFrame, checks: Sequence[RowCheck]) -> Mapping[str, Column]:
    F = functions_of(frame)
    return {check.fault: ~F.expr(check.sql) for check in checks}


def _written(work: Work | None) -> frozenset[str] | None:
    """Name the columns that got values; None: all of them. The rest is as whoever wrote it left it."""
    match work:
        case Backfill(columns=columns):
            return frozenset(column.name for column in columns)
        case Refresh():
            return None
        case Rewrite(backfill=backfill) if backfill is not None:
            return _written(backfill)
        case _:
            return frozenset()
