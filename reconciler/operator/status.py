"""A LakeTable's status document from what one reconcile found out; pure."""

from __future__ import annotations

import msgspec

from reconciler.model import bookkeeping
from reconciler.model.bookkeeping import HistoryRecord
from reconciler.model.table import Observed
from reconciler.model.yaml import Data
from reconciler.operator.conditions import Condition, print_conditions, standing_conditions
from reconciler.operator.objects import Json, at, int_at, mapping_at, print_time, text_at
from reconciler.operator.reasons import STANDINGS, Reason
from reconciler.plan.data import data_operations
from reconciler.plan.events import Progress
from reconciler.plan.operations import Plan
from reconciler.render.safe import clean

SHORT_HASH = 8
MINUTE_MS = 60_000
FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 2.0, 30.0


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A data operation that is under way, for so long."""

    operation: str
    job: str
    progress: Progress | None = None
    age_seconds: int = 0

    @property
    def look_again_seconds(self) -> float:
        """When to look at it again: each look is a reconcile, and many jobs that take hours must not cost one core."""
        return min(max(FIRST_LOOK_SECONDS, self.age_seconds / 10), LONGEST_LOOK_SECONDS)


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that this reconcile carried out."""

    hash: str
    time_ms: int


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What one reconcile found out; what is None was not looked at, and the status keeps what it said about it."""

    reason: Reason
    message: str = ""
    catalog: str = ""
    observed: Observed | None = None
    is_absent: bool = False
    plan: Plan | None = None
    plan_name: str = ""
    has_drifted: bool | None = None
    running: Running | None = None
    applied: Applied | None = None
    synced_spec: str | None = None
    is_computed: bool = False
    is_fresh: bool | None = None
    waits_for_window: bool = False


def table_status(found: Found, raw: Json, now_ms: int) -> Json:
    """Return the whole status that a LakeTable should have.

    What we committed on the way to another spec is not drift from the one that the table was equal to before.
    """
    before, generation = mapping_at(raw, "status"), at(raw, "metadata", "generation")
    number = generation if isinstance(generation, int) else 0
    status: Json = {
        "observedGeneration": number,
        "phase": STANDINGS[found.reason].phase,
        "conditions": print_conditions(_conditions(found), before.get("conditions"), number, print_time(now_ms)),
    }
    was_looked_at = found.observed is not None or found.is_absent
    parts: dict[str, Data] = {
        "table": _table(found.observed, found.catalog)
        if found.observed
        else None
        if was_looked_at
        else before.get("table"),
        "plan": _plan(found) if found.plan is not None else None if was_looked_at else before.get("plan"),
        "operation": _operation(found.running, now_ms)
        if found.running
        else None
        if was_looked_at
        else before.get("operation"),
        "lastApplied": _applied(found.applied, number) if found.applied else before.get("lastApplied"),
        "syncedSpec": found.synced_spec or (None if found.applied else before.get("syncedSpec")),
        "drift": _drift(found) if found.has_drifted is not None else before.get("drift"),
    }
    status.update({name: part for name, part in parts.items() if part is not None})
    return status


def _conditions(found: Found) -> list[Condition]:
    conditions = standing_conditions(found.reason, found.message)
    unreachable = found.reason in (Reason.CATALOG_UNAVAILABLE, Reason.UNAUTHENTICATED, Reason.THROTTLED)
    if found.observed is not None:
        conditions.append(Condition("Available", "True", "TableFound", "The table can be read."))
    elif found.is_absent:
        conditions.append(Condition("Available", "False", "TableMissing", "There is no such table yet."))
    elif unreachable:
        conditions.append(Condition("Available", "Unknown", found.reason, found.message))
    if found.has_drifted is not None:
        drifted = found.has_drifted
        said = "The table was changed behind the spec's back." if drifted else ""
        conditions.append(Condition("Drifted", str(drifted), "Drifted" if drifted else "NoDrift", said))
    if found.is_computed and found.plan is not None:
        waits = bool(data_operations(found.plan))
        said = "Rows wait for their computed values." if waits else ""
        reason = "BackfillPending" if waits else "BackfillComplete"
        conditions.append(Condition("BackfillComplete", str(not waits), reason, said))
    if found.is_fresh is not None:
        said = "" if found.is_fresh else "The view's sources moved since it was refreshed."
        conditions.append(Condition("Fresh", str(found.is_fresh), "Fresh" if found.is_fresh else "Stale", said))
    return conditions


def _table(observed: Observed, catalog: str) -> Json:
    version, statistics = observed.version, observed.statistics
    facts: dict[str, Data] = {
        "uuid": version.uuid,
        "catalog": catalog or None,
        "identifier": str(observed.spec.ident),
        "snapshotId": version.snapshot_id,
        "schemaId": version.schema_id,
        "specId": version.spec_id,
        "rows": statistics.rows,
        "bytes": statistics.bytes,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _plan(found: Found) -> Json | None:
    plan = found.plan
    if plan is None or not plan.operations:
        return None
    cost = plan.cost
    return {
        **({"name": found.plan_name} if found.plan_name else {}),
        "hash": plan.hash,
        "shortHash": plan.hash.rpartition(":")[2][:SHORT_HASH],
        "class": plan.operation_class.value,
        "breaking": plan.is_breaking,
        "summary": clean(plan_summary(plan), 1000),
        "operations": len(plan.operations),
        "filesToRewrite": cost.files_rewritten,
        "bytesToRewrite": cost.bytes_rewritten,
        "rewrite": short_size(cost.bytes_rewritten),
    }


def is_working(raw: Json) -> bool:
    """Say whether a LakeTable's status names an operation that is under way."""
    return bool(mapping_at(raw, "status", "operation"))


def published(found: Found, before: Json) -> HistoryRecord | None:
    """Return what the operation of the status before has published, by the table's word: its job may still be ending.

    A refresh may run under another id than it was started with; it is the one that moved the table's head.
    """
    operation, seen = text_at(before, "operation", "id"), found.observed
    if not operation or found.running is not None or seen is None:
        return None
    head = seen.version.snapshot_id
    has_moved = head != int_at(before, "table", "snapshotId")
    history = reversed(bookkeeping.read(seen.bookkeeping).history)
    of_data = (record for record in history if record.kind != bookkeeping.COMMIT)
    return next((r for r in of_data if r.operation == operation or (has_moved and r.published_id == head)), None)


def is_done(found: Found, before: Json) -> bool:
    """Say whether the table remembers what was under way: its job ends by itself, and may still delete files."""
    operation, seen = text_at(before, "operation", "id"), found.observed
    if published(found, before) is not None or seen is None:
        return seen is not None
    commits = (r for r in bookkeeping.read(seen.bookkeeping).history if r.kind == bookkeeping.COMMIT)
    return any(record.plan.rpartition(":")[2].startswith(operation) for record in commits)


def plan_summary(plan: Plan) -> str:
    """Say in one line how much of what a plan is."""
    from reconciler.render.report import totals

    return totals([plan])


def short_size(number: int) -> str:
    """Print bytes as Kubernetes does: 412Gi."""
    for exponent, unit in ((5, "Pi"), (4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if number >= 1024**exponent:
            return f"{number / 1024**exponent:.3g}{unit}"
    return str(number) if number else "-"


def _operation(running: Running, now_ms: int) -> Json:
    progress = running.progress
    document: Json = {"id": running.operation, "jobRef": running.job, "step": progress.step if progress else "start"}
    if progress is not None:
        document["percent"] = progress.percent
        document["progress"] = f"{progress.percent}%"
        if progress.all_chunks:
            document["chunks"] = f"{progress.chunks}/{progress.all_chunks}"
        if progress.all_bytes:
            document["bytes"] = f"{short_size(progress.bytes)}/{short_size(progress.all_bytes)}"
        if progress.eta_seconds is not None:
            document["eta"] = print_time((now_ms + progress.eta_seconds * 1000) // MINUTE_MS * MINUTE_MS)
    return document


def _applied(applied: Applied, generation: int) -> Json:
    return {"hash": applied.hash, "time": print_time(applied.time_ms), "generation": generation}


def _drift(found: Found) -> int:
    return len(found.plan.changes) if found.has_drifted and found.plan is not None else 0
