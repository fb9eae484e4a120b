"""Budgets over time: what a day may rewrite, how far a cost may grow, what a first backfill may cost by itself."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.diff.changes import Change, CreateTable
from reconciler.model.documents import load_documents
from reconciler.model.manifest import LakePolicy
from reconciler.plan.data import data_operations
from reconciler.plan.operations import Cost, Operation, OperationClass, OperationKind, Plan, Refresh
from reconciler.plan.policy import (
    OPERATOR_DEFAULT,
    Outcome,
    Policy,
    grew_too_much,
    is_first_backfill,
    judge,
    policy_from_manifest,
)
from tests.plan.test_data import BASE, TOTAL, after, observed, planned, wanted

MANIFEST = """\
apiVersion: laketable.dev/v1alpha1
kind: LakePolicy
metadata: {name: gold}
spec:
  budgets: {maxRewriteBytesPerDay: 1Ki, maxCostDriftPercent: 20}
"""


def gold() -> Policy:
    (document,) = load_documents(MANIFEST.encode(), "policy.yaml")
    assert isinstance(document.manifest, LakePolicy)
    return policy_from_manifest(document.manifest)


def costing(made: Plan, size: int) -> Plan:
    cost = Cost(files_read=1, bytes_read=size, files_rewritten=1, bytes_rewritten=size)
    operations = tuple(msgspec.structs.replace(o, cost=cost) if o.work else o for o in made.operations)
    return msgspec.structs.replace(made, operations=operations)


def outcome(made: Plan, policy: Policy, *, auto: bool = False, spent: int = 0) -> Outcome:
    return judge(made, (policy,), approvals=frozenset(), auto_approve=auto, now_ms=0, spent_bytes=spent).outcome


FIRST = planned(wanted(), observed(*BASE))


def changed() -> Plan:
    (done,) = data_operations(planned(wanted(), observed(*BASE, TOTAL)))
    return planned(wanted("x * 3"), after(done, *BASE, TOTAL))


def test_a_cluster_fills_newly_added_columns_up_to_ten_gibibytes_by_itself() -> None:
    assert is_first_backfill(FIRST)
    assert outcome(costing(FIRST, 10 << 30), OPERATOR_DEFAULT) is Outcome.ALLOW
    assert outcome(costing(FIRST, (10 << 30) + 1), OPERATOR_DEFAULT) is Outcome.NEEDS_APPROVAL


def test_values_that_are_there_are_not_replaced_by_themselves() -> None:
    assert not is_first_backfill(changed())
    assert outcome(costing(changed(), 1), OPERATOR_DEFAULT) is Outcome.NEEDS_APPROVAL
    there = planned(wanted(), observed(*BASE, TOTAL))
    assert not is_first_backfill(there), "the column was there before: it may hold somebody's values"


def test_a_policy_of_ones_own_has_no_such_exception() -> None:
    own = msgspec.structs.replace(OPERATOR_DEFAULT, name="own", auto_backfill_bytes=0)
    assert outcome(costing(FIRST, 1), own) is Outcome.NEEDS_APPROVAL


@pytest.mark.parametrize(
    ("size", "spent", "expected"),
    [
        (1024, 0, Outcome.ALLOW),
        (1025, 0, Outcome.NEEDS_APPROVAL),
        (1, 1023, Outcome.ALLOW),
        (1, 1024, Outcome.NEEDS_APPROVAL),
    ],
)
def test_what_a_day_may_rewrite(size: int, spent: int, expected: Outcome) -> None:
    assert outcome(costing(FIRST, size), gold(), auto=True, spent=spent) is expected


@pytest.mark.parametrize(("now", "told"), [(100, False), (120, False), (121, True)])
def test_how_far_a_cost_may_grow(now: int, told: bool) -> None:
    why = grew_too_much(costing(FIRST, now), costing(FIRST, 100), (gold(), OPERATOR_DEFAULT))
    assert bool(why) is told
    assert grew_too_much(costing(FIRST, 10_000), costing(FIRST, 1), (OPERATOR_DEFAULT,)) == ""


def test_a_day_is_for_all_tables_of_a_policy_together() -> None:
    alone = gold()
    shared = msgspec.structs.replace(alone, spent_elsewhere=1000)
    assert outcome(costing(FIRST, 25), alone, auto=True) is Outcome.ALLOW
    assert outcome(costing(FIRST, 24), shared, auto=True) is Outcome.ALLOW
    assert outcome(costing(FIRST, 25), shared, auto=True) is Outcome.NEEDS_APPROVAL
    (why, *_) = judge(costing(FIRST, 25), (shared,), approvals=frozenset(), auto_approve=True, now_ms=0).reasons
    assert "of all its tables in 24 hours" in why


def view(read: int, *changes: Change) -> Plan:
    work = Refresh(query="q", text="t", pieces=(), columns=(), sources=())
    fill = Operation(
        id="r",
        kind=OperationKind.REFRESH,
        summary="s",
        operation_class=OperationClass.REWRITE,
        work=work,
        cost=Cost(files_read=1, bytes_read=read),
    )
    commit = Operation(
        id="c",
        kind=OperationKind.COMMIT,
        summary="s",
        operation_class=OperationClass.METADATA_ONLY,
        changes=changes,
    )
    return msgspec.structs.replace(FIRST, operations=(commit, fill))


def test_the_first_rows_of_a_new_view_pass_like_a_first_backfill() -> None:
    create = CreateTable(spec=observed(*BASE).spec)
    assert outcome(view(10 << 30, create), OPERATOR_DEFAULT) is Outcome.ALLOW
    assert outcome(view((10 << 30) + 1, create), OPERATOR_DEFAULT) is Outcome.NEEDS_APPROVAL
    assert outcome(view(1), OPERATOR_DEFAULT) is Outcome.NEEDS_APPROVAL, "another query replaces rows that are there"
    there = view(1)
    assert there.base is not None
    empty = msgspec.structs.replace(there, base=msgspec.structs.replace(there.base, snapshot_id=None))
    assert outcome(empty, OPERATOR_DEFAULT) is Outcome.ALLOW, "made by a plan just before, and not filled yet"
