"""What `plan --output json` prints: every manifest's verdict beside its plan, versioned, with a published JSON Schema.

The plans are those of the plan document (`plan.document`), which is what `apply` takes back; this report adds what a
machine would otherwise have to work out: verdict, reasons, class, cost, errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from reconciler.plan import document
from reconciler.plan.operations import Cost, Plan
from reconciler.render.report import Report

SCHEMA_ID = "https://laketable.dev/schemas/plan-report.schema.json"


class TableReport(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest: where it stands and why; without a plan `error` and `error_reason` say what went wrong.

    `verdict` is what people read, `outcome` the policy's decision; `source` is the manifest's file:line.
    """

    table: str
    source: str
    verdict: Literal["failed", "blocked", "denied", "needs approval", "allowed", "no changes"]
    outcome: str = ""
    reasons: tuple[str, ...] = ()
    operation_class: str = ""
    breaking: bool = False
    changes: int = 0
    cost: Cost = Cost()
    hash: str = ""
    error_reason: str = ""
    error: str = ""
    plan: Plan | None = None


class PlanReport(msgspec.Struct, frozen=True, kw_only=True):
    """All manifests of one run, in their order."""

    kind: Literal["LakeTablePlanReport"] = "LakeTablePlanReport"
    version: Literal[1] = 1
    tables: tuple[TableReport, ...]


def render_json(reports: Sequence[Report]) -> str:
    """Render reports as one indented JSON document, ending in a newline."""
    printed = PlanReport(tables=tuple(_table(report) for report in reports))
    return msgspec.json.format(msgspec.json.encode(printed, order="deterministic"), indent=2).decode() + "\n"


def _table(report: Report) -> TableReport:
    plan = report.plan
    stands = TableReport(
        table=report.name,
        source=report.source,
        verdict=report.verdict.value,
        outcome=report.outcome,
        reasons=report.reasons,
        error_reason=report.error_reason,
        error=report.error,
        plan=plan,
    )
    if plan is None or not plan.operations:
        return stands
    return msgspec.structs.replace(
        stands,
        operation_class=plan.operation_class.value,
        breaking=plan.is_breaking,
        changes=len(plan.changes),
        cost=plan.cost,
        hash=plan.hash,
    )


def schema_page() -> str:
    """Print the JSON Schema of the report as it is published."""
    return document.schema_page(PlanReport, SCHEMA_ID)
