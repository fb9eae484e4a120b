"""What one reconcile of a LakeTable is about, once the table was observed and a plan was made; pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from reconciler.model.manifest.table import Reconcile
from reconciler.operator.gate import Gate, gate
from reconciler.operator.manifests import Wanted
from reconciler.operator.objects import TABLES, Json, Key, Meta, meta_of, text_at
from reconciler.operator.pool import OpenCatalog
from reconciler.operator.status import Applied, Found, Running
from reconciler.pipeline import Approval, Proposal, judged
from reconciler.plan.hashing import desired_hash
from reconciler.plan.operations import Plan
from reconciler.plan.policy import Decision, Policy, approves


@dataclass(frozen=True, slots=True)
class Case:
    """The resource as just read, its wish, its catalog, and what is proposed.

    `approved` are hashes approved on plan objects, `released` the operations that began under an earlier approval.
    """

    raw: Json
    meta: Meta
    wanted: Wanted
    settings: Reconcile
    catalog: OpenCatalog
    catalog_key: Key
    proposal: Proposal
    plan: Plan
    decision: Decision
    has_drifted: bool
    plan_name: str = ""
    approved: frozenset[str] = frozenset()
    released: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, raw: Json, wanted: Wanted, settings: Reconcile, catalog: OpenCatalog, catalog_key: Key, proposal: Proposal
    ) -> Case:
        """Begin with a proposal that has a plan."""
        plan, decision = proposal.plan, proposal.decision
        if plan is None or decision is None:
            raise TypeError("a case needs a plan")
        synced = text_at(raw, "status", "syncedSpec")
        has_drifted = bool(plan.changes) and bool(synced) and synced == desired_hash(wanted.desired)
        return cls(raw, meta_of(raw), wanted, settings, catalog, catalog_key, proposal, plan, decision, has_drifted)

    @property
    def key(self) -> Key:
        """The LakeTable."""
        return Key(TABLES.kind, self.meta.namespace, self.meta.name)

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
        released: frozenset[str] = frozenset(),
        catalog: OpenCatalog | None = None,
        policies: tuple[Policy, ...] | None = None,
    ) -> Case:
        """Judge again with what has been learnt since."""
        hashes = self.approved | ({approved} if approved else set())
        released = self.released | released
        catalog = catalog or self.catalog
        request = self.proposal.request
        if request is not None:
            own = request.policies if policies is None else policies
            request = replace(request, policies=own, catalog=catalog.catalog)
        # What was released once goes on like an operation whose branch is there: its id names all that it does.
        operations = tuple(
            msgspec.structs.replace(o, resumes=True) if o.id in released else o for o in self.plan.operations
        )
        plan = msgspec.structs.replace(self.plan, operations=operations)
        proposal = judged(
            replace(self.proposal, request=request, plan=plan), Approval(hashes=frozenset(hashes)), now_ms=now_ms
        )
        return replace(
            self,
            proposal=proposal,
            plan=plan,
            decision=proposal.decision or self.decision,
            catalog=catalog,
            approved=frozenset(hashes),
            released=released,
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
            observed=self.proposal.current,
            is_absent=self.proposal.current is None,
            plan=self.plan,
            plan_name=self.plan_name,
            has_drifted=self.has_drifted,
            running=running,
            applied=applied,
            synced_spec=desired_hash(self.wanted.desired) if self.plan.is_empty else None,
            is_computed=bool(self.wanted.desired.computed),
        )
