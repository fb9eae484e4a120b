"""Observe live tables and propose: one plan and one decision per manifest, or the error that kept it from one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby

import msgspec

from reconciler.dialects import dialect_for
from reconciler.diff.bind import bind
from reconciler.diff.diff import diff
from reconciler.errors import (
    LakeError,
    TableNotFound,
)
from reconciler.model import bookkeeping
from reconciler.model.maintenance import DAY_MS
from reconciler.model.table import DataFile, Desired, Observed, TableIdent
from reconciler.model.types import StructType
from reconciler.pipeline.views import Key, Seen, ViewFinder, ViewReader
from reconciler.plan.approvals import released
from reconciler.plan.constraints import needs_scan
from reconciler.plan.data import needs_files
from reconciler.plan.distinct_counts import needs_counts
from reconciler.plan.impacts import concerns_views
from reconciler.plan.lineage import Lineage
from reconciler.plan.operations import OperationClass, Plan
from reconciler.plan.planner import plan, plan_offline
from reconciler.plan.policy import Decision, Outcome, Policy, approves, judge
from reconciler.plan.proofs import needs_data_files
from reconciler.plan.rewrites import needs_layouts
from reconciler.plan.runtimes import within_runtime
from reconciler.plan.table_upkeep import with_table_upkeep
from reconciler.plan.type_changes import expand
from reconciler.plan.validation import NOTHING_SCANNED, Proven
from reconciler.plan.views import ViewInputs, plan_unreadable_view
from reconciler.ports import CatalogProvider


class Request(msgspec.Struct, frozen=True):
    """One manifest against one catalog; `source` is its file:line, `actor` who acts, for the history.

    `command` is what to run again, when that is not `apply`. `undone` are the records of the plans that an undo takes
    back.

    `view` is what a materialized view reads, `readers` finds the views of the catalog; the whole run tells both.

    `may_read` says which tables whoever reads the plan may know of; None: all.
    """

    desired: Desired
    catalog: CatalogProvider
    catalog_name: str
    policies: tuple[Policy, ...] = ()
    source: str = ""
    is_undo: bool = False
    undone: tuple[bookkeeping.HistoryRecord, ...] = ()
    runtime: str = "local"
    actor: str = ""
    command: str = ""
    view: ViewInputs | None = None
    readers: Callable[[], Sequence[Lineage]] | None = None
    may_read: Callable[[TableIdent], bool] | None = None

    @classmethod
    def undo(
        cls,
        table: TableIdent,
        owner: str,
        catalog: CatalogProvider,
        catalog_name: str,
        policies: tuple[Policy, ...],
        *,
        runtime: str = "local",
        actor: str = "",
        command: str = "",
    ) -> Request:
        """Ask for a table's own past instead of a manifest's wish."""
        nothing_stated = Desired(ident=table, owner=owner, columns=StructType(()))
        return cls(
            nothing_stated,
            catalog,
            catalog_name,
            policies,
            is_undo=True,
            runtime=runtime,
            actor=actor,
            command=command or f"laketable undo {table}",
        )


class Proposal(msgspec.Struct, frozen=True):
    """What one request comes to: a plan with its decision, or the error that kept it from one.

    `request` None: nothing live was asked (specs compared offline, or no catalog could be found).
    """

    table: TableIdent
    source: str = ""
    request: Request | None = None
    current: Observed | None = None
    plan: Plan | None = None
    decision: Decision | None = None
    error: LakeError | None = None

    @property
    def key(self) -> Key:
        """The table in its catalog."""
        return (self.request.catalog_name if self.request else "", self.table)

    @property
    def reads(self) -> tuple[Key, ...]:
        """The tables that a materialized view reads."""
        if self.request is None or self.request.view is None:
            return ()
        return tuple((self.request.catalog_name, source.table) for source in self.request.view.sources)


class Approval(msgspec.Struct, frozen=True):
    """What the caller releases: plan hashes, and whether everything short of destructive goes through."""

    hashes: frozenset[str] = frozenset()
    auto: bool = False
    take_ownership: bool = False


def propose_all(requests: Sequence[Request], approval: Approval, *, now_ms: int) -> Iterator[Proposal]:
    """Plan every request, one catalog at a time; one table's failure is that table's proposal."""
    by_catalog = sorted(requests, key=lambda request: request.catalog_name)
    for _, group in groupby(by_catalog, key=lambda request: request.catalog_name):
        batch = list(group)
        seen = observe(batch[0].catalog, [request.desired for request in batch])
        for request in _with_views(batch, seen, now_ms=now_ms):
            yield propose(request, seen[request.desired.ident], approval, now_ms=now_ms)


def _with_views(batch: Sequence[Request], seen: Seen, *, now_ms: int) -> Iterator[Request]:
    """Give materialized views their columns and what they read; a run without views reads nothing for them."""
    catalog = batch[0].catalog
    declared = {request.desired.ident: request.desired for request in batch}
    has_views = any(desired.view is not None for desired in declared.values())
    reader = ViewReader(catalog, declared, seen, now_ms) if has_views else None
    readers: Callable[[], Sequence[Lineage]] = ViewFinder(catalog, reader)
    for request in batch:
        if request.desired.view is None or reader is None:
            yield msgspec.structs.replace(request, readers=readers)
            continue
        view = reader.read(request.desired.ident)
        yield msgspec.structs.replace(request, desired=view.desired, view=view.inputs, readers=readers)


def observe(catalog: CatalogProvider, desired: Sequence[Desired]) -> dict[TableIdent, Observed | LakeError | None]:
    """Read the live tables of these manifests: None for a table that is not there, under its former name neither."""
    seen: dict[TableIdent, Observed | LakeError | None] = {}
    for ident, found in catalog.get_table_specs([d.ident for d in desired]):
        seen[ident] = None if isinstance(found, TableNotFound) else found
    former = {d.renamed_from: d.ident for d in desired if d.renamed_from and seen[d.ident] is None}
    if former:
        for ident, found in catalog.get_table_specs(list(former)):
            seen[former[ident]] = None if isinstance(found, TableNotFound) else found
    return seen


def propose(request: Request, seen: Observed | LakeError | None, approval: Approval, *, now_ms: int) -> Proposal:
    """Bind, diff, plan and judge one observed table."""
    if isinstance(seen, LakeError):
        return _proposal(request, error=seen)
    try:
        made = make_plan(request, seen, now_ms=now_ms, take_ownership=approval.take_ownership)
    except LakeError as error:
        return _proposal(request, current=seen, error=error)
    return judged(_proposal(request, current=seen, plan=made), approval, now_ms=now_ms)


def _proposal(
    request: Request, *, current: Observed | None = None, plan: Plan | None = None, error: LakeError | None = None
) -> Proposal:
    return Proposal(request.desired.ident, request.source, request, current, plan, error=error)


def propose_offline(before: Desired | None, after: Desired, *, source: str, now_ms: int) -> Proposal:
    """Compare two versions of a manifest without a catalog; `before` None: the manifest is new."""
    try:
        made = plan_offline(before, after, dialect=dialect_for(after.format), now_ms=now_ms)
    except LakeError as error:
        return Proposal(after.ident, source, error=error)
    return Proposal(after.ident, source, plan=made)


def make_plan(
    request: Request,
    current: Observed | None,
    *,
    now_ms: int,
    take_ownership: bool = False,
    proven: Proven = NOTHING_SCANNED,
) -> Plan:
    """Plan one table; manifests are read only when a change needs a proof or a cost, and `proven` adds to them."""
    desired = request.desired
    if request.view is not None and request.view.findings:
        return plan_unreadable_view(desired, current, request.view, catalog=request.catalog_name)
    types = expand(desired, current, now_ms=now_ms)
    desired = types.desired
    binding = bind(desired, current, now_ms=now_ms)
    changes = diff(current.spec if current else None, binding.spec)
    needs_rows = needs_data_files(changes) or needs_files(desired, current) or needs_scan(desired, current)
    needs_rows = needs_rows or bool(types.checks)
    needs_rows = needs_rows or needs_layouts(desired, current, binding.spec) or needs_counts(desired, current)
    planned = partial(
        plan,
        desired,
        current,
        binding,
        changes,
        dialect=dialect_for(desired.format),
        catalog=request.catalog_name,
        files=_data_files(request.catalog, current) if needs_rows else None,
        view=request.view,
        take_ownership=take_ownership,
        proven=proven,
        types=types,
    )
    made = planned()
    if concerns_views(changes, released(made, current).operations) and (readers := _readers(request)):
        made = planned(readers=readers)
    if current is not None:
        made = with_table_upkeep(released(made, current), desired, current, now_ms=now_ms)
    return within_runtime(made, request.runtime)


def _readers(request: Request) -> Sequence[Lineage]:
    """Return the views of the catalog, those hidden that the plan's reader may not know by name."""
    found = request.readers() if request.readers else ()
    may_read = request.may_read
    if may_read is None:
        return found
    return [one if may_read(one.view) else msgspec.structs.replace(one, is_hidden=True) for one in found]


def judged(proposal: Proposal, approval: Approval, *, now_ms: int) -> Proposal:
    """Judge a proposal's plan by its policies, the caller's approval and the one committed in the spec."""
    if proposal.plan is None or proposal.request is None:
        return proposal
    committed = proposal.request.desired.approval
    is_used = committed is not None and _is_used(committed, proposal)
    hashes = approval.hashes | ({committed} if committed and not is_used else set())
    decision = judge(
        proposal.plan,
        proposal.request.policies,
        approvals=frozenset(hashes),
        auto_approve=approval.auto,
        now_ms=now_ms,
        spent_bytes=_spent(proposal.current, now_ms=now_ms),
    )
    if is_used and decision.outcome is Outcome.NEEDS_APPROVAL:
        why = "The approval in the manifest released this plan once already, and it was taken back since."
        decision = msgspec.structs.replace(decision, reasons=(why, *decision.reasons))
    return msgspec.structs.replace(proposal, decision=decision)


def _spent(current: Observed | None, *, now_ms: int) -> int:
    """Add up what plans rewrote in a table in the last 24 hours, as its history tells."""
    history = bookkeeping.read(current.bookkeeping).history if current else ()
    return sum(record.bytes for record in history if record.plan and record.time_ms > now_ms - DAY_MS)


def _is_used(committed: str, proposal: Proposal) -> bool:
    """Say whether a committed approval of a destructive plan was carried out before: after an undo it lies there still.

    `--approve` is somebody's word of today, so it counts again.
    """
    made, current = proposal.plan, proposal.current
    if made is None or current is None or made.operation_class is not OperationClass.DESTRUCTIVE:
        return False
    is_this = approves(committed, made.hash)
    return is_this and any(made.hash == record.plan for record in bookkeeping.read(current.bookkeeping).history)


def _data_files(catalog: CatalogProvider, current: Observed | None) -> tuple[DataFile, ...] | None:
    if current is None:
        return None
    if current.version.snapshot_id is None:
        return ()
    return catalog.get_data_files(current.spec.ident, current.version.snapshot_id)
