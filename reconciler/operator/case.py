"""What one reconcile of a LakeTable is about, once the table was observed and a plan was made; pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from reconciler.model import bookkeeping
from reconciler.model.manifest.table import Reconcile
from reconciler.operator.gate import Gate, gate
from reconciler.operator.manifests import Wanted
from reconciler.operator.objects import TABLES, Json, Key, Meta, mapping_at, meta_of, print_time, text_at
from reconciler.operator.pool import OpenCatalog
from reconciler.operator.status import Applied, Found, Running
from reconciler.operator.store import CANCEL
from reconciler.operator.upkeep import is_stale
from reconciler.pipeline import Approval, Proposal, Request, judged
from reconciler.plan.hashing import desired_hash
from reconciler.plan.operations import Cost, Plan
from reconciler.plan.policy import Decision, Policy, approves


@dataclass(frozen=True, slots=True)
class Case:
    """The resource as just read, its wish, its catalog, and what is proposed.

    `request` is the one as asked, before views got their columns; `approved` are hashes approved on plan objects.
    """

    raw: Json
    meta: Meta
    wanted: Wanted
    settings: Reconcile
    catalog: OpenCatalog
    catalog_key: Key
    request: Request
    proposal: Proposal
    plan: Plan
    decision: Decision
    has_drifted: bool
    plan_name: str = ""
    approved: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        raw: Json,
        wanted: Wanted,
        settings: Reconcile,
        catalog: OpenCatalog,
        catalog_key: Key,
        request: Request,
        proposal: Proposal,
    ) -> Case:
        """Begin with a proposal that has a plan."""
        plan, decision = proposal.plan, proposal.decision
        if plan is None or decision is None:
            raise TypeError("a case needs a plan")
        synced = text_at(raw, "status", "syncedSpec")
        has_drifted = bool(plan.changes) and bool(synced) and synced == desired_hash(wanted.desired)
        meta = meta_of(raw)
        return cls(raw, meta, wanted, settings, catalog, catalog_key, request, proposal, plan, decision, has_drifted)

    @property
    def key(self) -> Key:
        """The LakeTable."""
        return Key(TABLES.kind, self.meta.namespace, self.meta.name)

    @property
    def goes_on(self) -> bool:
        """Whether all that is left of the plan was released and begun before."""
        return bool(self.plan.operations) and all(operation.resumes for operation in self.plan.operations)

    @property
    def is_cancelled(self) -> bool:
        """Whether its operations are stopped by annotation."""
        return self.meta.annotations.get(CANCEL, "false").lower() != "false"

    @property
    def is_approved(self) -> bool:
        """Whether somebody approved exactly this plan, in the spec or on the plan object."""
        hashes = {*self.approved, *filter(None, [self.wanted.desired.approval])}
        return any(approves(approval, self.plan.hash) for approval in hashes)

    def rejudged(
        self,
        now_ms: int,
        *,
        approved: str = "",
        catalog: OpenCatalog | None = None,
        policies: tuple[Policy, ...] | None = None,
    ) -> Case:
        """Judge again with what has been learnt since."""
        hashes = self.approved | ({approved} if approved else set())
        catalog = catalog or self.catalog
        asked = self.request
        asked = msgspec.structs.replace(
            asked, catalog=catalog.catalog, policies=asked.policies if policies is None else policies
        )
        request = self.proposal.request or asked
        request = msgspec.structs.replace(request, catalog=asked.catalog, policies=asked.policies)
        proposal = msgspec.structs.replace(self.proposal, request=request)
        proposal = judged(proposal, Approval(hashes=frozenset(hashes)), now_ms=now_ms)
        return replace(
            self,
            request=asked,
            proposal=proposal,
            decision=proposal.decision or self.decision,
            catalog=catalog,
            approved=frozenset(hashes),
        )

    def costing(self, rewritten: int) -> Plan:
        """Return the plan as it was when it rewrote so many bytes."""
        (first, *_) = self.plan.operations
        return msgspec.structs.replace(
            self.plan, operations=(msgspec.structs.replace(first, cost=Cost(bytes_rewritten=rewritten)),)
        )

    def gate(self) -> Gate:
        """Say whether the plan is carried out now."""
        return gate(self.settings, self.plan, self.decision, has_drifted=self.has_drifted, is_approved=self.is_approved)

    def found(self, closed: Gate, *, running: Running | None = None, applied: Applied | None = None) -> Found:
        """Say what this reconcile found out."""
        if closed.reason is None:
            raise TypeError("an open gate is no finding")
        return Found(
            reason=closed.reason,
            message=closed.message,
            catalog=f"{self.catalog_key.namespace}/{self.catalog_key.name}",
            observed=self.proposal.current,
            is_absent=self.proposal.current is None,
            plan=self.plan,
            plan_name=self.plan_name,
            has_drifted=self.has_drifted,
            running=running,
            applied=self._applied(applied),
            synced_spec=desired_hash(self.wanted.desired) if self.plan.is_empty else None,
            is_computed=bool(self.wanted.desired.computed),
            is_fresh=None if self.wanted.desired.view is None else not is_stale(self.plan),
        )

    def _applied(self, applied: Applied | None) -> Applied | None:
        """Say what was applied last, where the status does not say so: by the table's word, which survives a crash."""
        seen = self.proposal.current
        history = bookkeeping.read(seen.bookkeeping).history if seen is not None else ()
        own = [r for r in history if r.kind == bookkeeping.COMMIT and r.plan and r.actor == self.request.actor]
        if not own:
            return applied
        last = sorted(own, key=lambda record: record.time_ms)[-1]
        said = mapping_at(self.raw, "status", "lastApplied")
        if (said.get("hash"), said.get("time")) == (last.plan, print_time(last.time_ms)):
            return None
        return Applied(hash=last.plan, time_ms=last.time_ms)
