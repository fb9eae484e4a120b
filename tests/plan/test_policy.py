"""What a plan comes to under policies, approvals and flags."""

from __future__ import annotations

import re

import pytest

from reconciler.diff.changes import DropColumn, SetProperty
from reconciler.model.documents import load_documents
from reconciler.model.manifest import LakePolicy
from reconciler.model.table import TableIdent
from reconciler.plan.findings import finding
from reconciler.plan.operations import (
    Cost,
    Finding,
    Operation,
    OperationClass,
    OperationKind,
    Plan,
    Severity,
)
from reconciler.plan.policy import (
    OPERATOR_DEFAULT,
    Decision,
    Outcome,
    Policy,
    Rule,
    approves,
    judge,
    policy_from_manifest,
)
from reconciler.plan.windows import Window, is_open, next_opening

HASH = "sha256:" + "9f3c1ab2d4e5" + "0" * 52
META, AUDIT, REWRITE, DESTRUCTIVE = OperationClass
ALLOW, ASK, DENY = Outcome.ALLOW, Outcome.NEEDS_APPROVAL, Outcome.DENY
DROP = DropColumn(path=("a",), field_id=1, type="int")
SET = SetProperty(key="k", before=None, after="v")


def plan(
    operation_class: OperationClass = META,
    *,
    breaking: bool = False,
    findings: tuple[Finding, ...] = (),
    cost: Cost | None = None,
) -> Plan:
    operation = Operation(
        id="0" * 16,
        kind=OperationKind.COMMIT,
        summary="commit",
        changes=(DROP if operation_class is DESTRUCTIVE else SET,),
        operation_class=operation_class,
        breaking=breaking,
        cost=cost or Cost(),
    )
    return Plan(
        table=TableIdent(("sales",), "orders"),
        owner="cli/demo",
        catalog="lake",
        base=None,
        operations=(operation,),
        findings=findings,
        hash=HASH,
    )


EMPTY = Plan(table=TableIdent(("sales",), "orders"), owner="cli/demo", catalog="lake", base=None)


def policy(**stated: object) -> Policy:
    return Policy(name="p", **stated)  # type: ignore[arg-type]


def judged(
    made: Plan, *policies: Policy, approvals: tuple[str, ...] = (), auto: bool = False, now: int = 0
) -> Decision:
    return judge(made, policies, approvals=frozenset(approvals), auto_approve=auto, now_ms=now)


@pytest.mark.parametrize(
    ("made", "nothing", "auto", "approved"),
    [
        pytest.param(EMPTY, ALLOW, ALLOW, ALLOW, id="empty"),
        pytest.param(plan(META), ASK, ALLOW, ALLOW, id="metadata-only"),
        pytest.param(plan(META, breaking=True), ASK, ALLOW, ALLOW, id="breaking"),
        pytest.param(plan(AUDIT), ASK, ALLOW, ALLOW, id="audit"),
        pytest.param(plan(REWRITE), ASK, ALLOW, ALLOW, id="rewrite"),
        pytest.param(plan(DESTRUCTIVE), ASK, ASK, ALLOW, id="destructive"),
        pytest.param(plan(findings=(finding("LK201", "no"),)), DENY, DENY, DENY, id="blocked"),
        pytest.param(plan(findings=(finding("LK401", "well"),)), ASK, ALLOW, ALLOW, id="warning"),
    ],
)
def test_without_policies(made: Plan, nothing: Outcome, auto: Outcome, approved: Outcome) -> None:
    assert judged(made).outcome is nothing
    assert judged(made, auto=True).outcome is auto
    assert judged(made, approvals=(HASH,)).outcome is approved


@pytest.mark.parametrize(
    ("made", "outcome"),
    [
        pytest.param(plan(META), ALLOW, id="metadata-only"),
        pytest.param(plan(META, breaking=True), ASK, id="breaking"),
        pytest.param(plan(REWRITE), ASK, id="rewrite"),
        pytest.param(plan(DESTRUCTIVE), ASK, id="destructive"),
    ],
)
def test_a_cluster_without_policies(made: Plan, outcome: Outcome) -> None:
    assert judged(made, OPERATOR_DEFAULT).outcome is outcome


@pytest.mark.parametrize(
    ("approval", "accepted"),
    [
        pytest.param(HASH, True, id="full"),
        pytest.param(HASH.upper().replace("SHA256", "sha256"), True, id="upper case"),
        pytest.param("9f3c1ab2d4e5", True, id="12 digits"),
        pytest.param("sha256:9f3c1ab2d4e50", True, id="13 digits with prefix"),
        pytest.param("9f3c1ab2d4e", False, id="11 digits"),
        pytest.param("sha256:", False, id="nothing"),
        pytest.param("", False, id="empty"),
        pytest.param("9f3c1ab2d4e6", False, id="another"),
        pytest.param(HASH + "0", False, id="longer"),
    ],
)
def test_approval_by_hash_or_prefix(approval: str, accepted: bool) -> None:
    assert approves(approval, HASH) is accepted
    assert (judged(plan(DESTRUCTIVE), approvals=(approval,)).outcome is ALLOW) is accepted


def test_no_approval_approves_a_plan_without_hash() -> None:
    assert not approves("", "")
    assert not approves("0" * 12, "")


def test_an_approval_of_another_plan_is_told() -> None:
    decision = judged(plan(DESTRUCTIVE), approvals=("sha256:" + "ab" * 32,), auto=True)
    assert decision.outcome is ASK
    assert "The approved hash abababababab… is not this plan's 9f3c1ab2d4e5…." in decision.reasons
    assert decision.hash == HASH


def test_blocking_findings_are_the_reasons() -> None:
    made = plan(findings=(finding("LK203", "Cannot make orders.a required: 3 nulls.", hint="Fill them."),))
    assert judged(made).reasons == ("LK203: Cannot make orders.a required: 3 nulls. Fill them.",)


def test_a_blocked_plan_without_operations_is_denied_too() -> None:
    blocked = Plan(table=EMPTY.table, owner="o", catalog="c", base=None, findings=(finding("LK106", "Which one?"),))
    assert judged(blocked, auto=True).outcome is DENY


@pytest.mark.parametrize(
    ("rules", "made", "outcome"),
    [
        pytest.param(policy(deny=Rule(classes=frozenset({DESTRUCTIVE}))), plan(DESTRUCTIVE), DENY, id="class"),
        pytest.param(policy(deny=Rule(classes=frozenset({DESTRUCTIVE}))), plan(REWRITE), ALLOW, id="other class"),
        pytest.param(policy(deny=Rule(changes=frozenset({"drop-column"}))), plan(DESTRUCTIVE), DENY, id="change"),
        pytest.param(policy(deny=Rule(breaking=True)), plan(breaking=True), DENY, id="breaking"),
        pytest.param(
            policy(deny=Rule(findings=frozenset({"LK401"}))),
            plan(findings=(finding("LK401", "x"),)),
            DENY,
            id="finding",
        ),
        pytest.param(policy(protected_names=("sales.*",)), plan(DESTRUCTIVE), DENY, id="protected"),
        pytest.param(policy(protected_names=("gold.*",)), plan(DESTRUCTIVE), ALLOW, id="other name"),
        pytest.param(policy(protected_names=("sales.*",)), plan(META), ALLOW, id="protected, harmless"),
    ],
)
def test_a_denial_beats_every_approval(rules: Policy, made: Plan, outcome: Outcome) -> None:
    assert judged(made, rules, approvals=(HASH,), auto=True).outcome is outcome
    assert judged(made, Policy(name="lax"), rules, approvals=(HASH,), auto=True).outcome is outcome


GIB = 2**30


@pytest.mark.parametrize(
    ("rules", "made", "auto"),
    [
        pytest.param(policy(auto_approve=frozenset({META})), plan(REWRITE), ASK, id="class not listed"),
        pytest.param(policy(auto_approve=frozenset({META, REWRITE})), plan(REWRITE), ALLOW, id="listed"),
        pytest.param(policy(auto_approve=frozenset(OperationClass)), plan(DESTRUCTIVE), ASK, id="never these"),
        pytest.param(policy(auto_approve=frozenset()), plan(META), ASK, id="nothing"),
        pytest.param(policy(require_approval=Rule(breaking=True)), plan(breaking=True), ASK, id="required"),
        pytest.param(policy(max_rewrite_bytes=GIB), plan(REWRITE, cost=Cost(bytes_rewritten=2 * GIB)), ASK, id="bytes"),
        pytest.param(
            policy(max_rewrite_bytes=GIB),
            plan(REWRITE, cost=Cost(bytes_rewritten=GIB)),
            ALLOW,
            id="in budget",
        ),
        pytest.param(policy(max_rewrite_files=1), plan(REWRITE, cost=Cost(files_rewritten=2)), ASK, id="files"),
    ],
)
def test_a_policy_limits_what_auto_approve_covers(rules: Policy, made: Plan, auto: Outcome) -> None:
    assert judged(made, rules, auto=True).outcome is auto
    assert judged(made, rules, approvals=(HASH,)).outcome is ALLOW


def test_the_strictest_policy_wins() -> None:
    lax, strict = Policy(name="lax", auto_approve=frozenset(OperationClass)), Policy(name="s", auto_approve=frozenset())
    assert judged(plan(META), lax).outcome is ALLOW
    assert judged(plan(META), lax, strict).outcome is ASK
    assert judged(plan(META), strict, lax).outcome is ASK


# ---------------------------------------------------------------- severities

ACCEPTED = Finding(code="LK104", severity=Severity.ERROR, message="x", suppressed="meant")


@pytest.mark.parametrize(
    ("found", "severities", "outcome"),
    [
        pytest.param(finding("LK401", "x"), (Severity.ERROR,), DENY, id="raised"),
        pytest.param(finding("LK104", "x"), (Severity.WARNING,), ALLOW, id="lowered"),
        pytest.param(finding("LK104", "x"), (Severity.WARNING, Severity.ERROR), DENY, id="strictest wins"),
        pytest.param(finding("LK201", "x"), (Severity.INFO,), DENY, id="what would break stays"),
        pytest.param(ACCEPTED, (), ALLOW, id="accepted by the author"),
        pytest.param(ACCEPTED, (Severity.ERROR,), DENY, id="the policy has the last word"),
    ],
)
def test_severities(found: Finding, severities: tuple[Severity, ...], outcome: Outcome) -> None:
    policies = [Policy(name=str(i), severities={found.code: s}) for i, s in enumerate(severities)]
    assert judged(plan(findings=(found,)), *policies, auto=True).outcome is outcome


# ---------------------------------------------------------------- windows

NIGHTS = Window.parse(days=["Fri", "Sat"], start="22:00", end="06:00", time_zone="UTC")
OFFICE = Window.parse(days=None, start="09:00", end="17:00", time_zone="Europe/Prague")


def at(text: str) -> int:
    from datetime import datetime

    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("window", "moment", "open_"),
    [
        pytest.param(NIGHTS, "2027-01-15T22:00:00+00:00", True, id="opens"),
        pytest.param(NIGHTS, "2027-01-15T21:59:00+00:00", False, id="not yet"),
        pytest.param(NIGHTS, "2027-01-17T05:59:00+00:00", True, id="past midnight, of Saturday"),
        pytest.param(NIGHTS, "2027-01-17T06:00:00+00:00", False, id="closed"),
        pytest.param(NIGHTS, "2027-01-17T23:00:00+00:00", False, id="Sunday night"),
        pytest.param(OFFICE, "2027-07-01T07:00:00+00:00", True, id="summer time"),
        pytest.param(OFFICE, "2027-01-04T08:30:00+00:00", True, id="winter time"),
        pytest.param(OFFICE, "2027-01-04T07:00:00+00:00", False, id="an hour off"),
    ],
)
def test_windows(window: Window, moment: str, open_: bool) -> None:
    assert is_open((window,), at(moment)) is open_


def test_outside_its_windows_a_policy_holds_back_all_but_metadata() -> None:
    nights = policy(windows=(NIGHTS,))
    sunday = at("2027-01-17T12:00:00+00:00")
    decision = judged(plan(REWRITE), nights, approvals=(HASH,), now=sunday)
    assert decision.outcome is DENY
    assert "2027-01-22T22:00+00:00" in decision.reasons[0]
    assert judged(plan(META), nights, approvals=(HASH,), now=sunday).outcome is ALLOW
    assert judged(plan(REWRITE), nights, approvals=(HASH,), now=at("2027-01-16T23:00:00+00:00")).outcome is ALLOW


def test_the_next_opening_is_found_a_week_ahead() -> None:
    assert next_opening((NIGHTS,), at("2027-01-16T22:00:00+00:00")) == "2027-01-22T22:00+00:00"
    assert is_open((), 0)


# ---------------------------------------------------------------- from the manifest

MANIFEST = """
apiVersion: laketable.dev/v1alpha1
kind: LakePolicy
metadata: {name: gold, namespace: finance}
spec:
  autoApprove: [metadata-only]
  deny: {classes: [destructive], changes: [rename-table], findings: [LK403], breaking: true, reason: Ask finance.}
  requireApproval: {changes: [set-property]}
  budgets: {maxRewriteBytes: 100Gi, maxRewriteFiles: 50}
  windows: [{days: [Sat], start: "22:00", end: "06:00", timeZone: Europe/Prague}]
  severities: {LK601: error}
  protectedNames: ["finance.*"]
"""


def test_a_manifest_becomes_a_policy() -> None:
    (document,) = load_documents(MANIFEST, "policy.yaml")
    assert isinstance(document.manifest, LakePolicy)
    assert policy_from_manifest(document.manifest) == Policy(
        name="gold",
        auto_approve=frozenset({META}),
        deny=Rule(
            classes=frozenset({DESTRUCTIVE}),
            changes=frozenset({"rename-table"}),
            findings=frozenset({"LK403"}),
            breaking=True,
            reason="Ask finance.",
        ),
        require_approval=Rule(changes=frozenset({"set-property"})),
        max_rewrite_bytes=100 * GIB,
        max_rewrite_files=50,
        windows=(Window(days=frozenset({5}), start=22 * 60, end=6 * 60, time_zone="Europe/Prague"),),
        severities={"LK601": Severity.ERROR},
        protected_names=("finance.*",),
    )


def test_an_empty_manifest_is_a_policy_without_a_say() -> None:
    (document,) = load_documents(re.sub(r"spec:.*", "spec: {}\n", MANIFEST, flags=re.DOTALL), "policy.yaml")
    assert isinstance(document.manifest, LakePolicy)
    assert policy_from_manifest(document.manifest) == Policy(name="gold")
