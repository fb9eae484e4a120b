"""A plan that was started goes on after a crash, whatever of it was done; its undo tag outlives it."""

from __future__ import annotations

import msgspec

from reconciler.model.bookkeeping import APPROVED, write
from reconciler.model.bookkeeping import Bookkeeping as Memory
from reconciler.model.maintenance import DAY_MS, Maintenance
from reconciler.model.table import Observed
from reconciler.plan.approvals import approval_of, is_continued, released, starts, undo_tag, undo_tag_change
from reconciler.plan.operations import Plan
from reconciler.plan.policy import Outcome, judge
from tests.plan.test_data import BASE, TOTAL, observed, planned, wanted


def outcome(made: Plan) -> Outcome:
    return judge(made, (), approvals=frozenset(), auto_approve=False, now_ms=0).outcome


def started(reviewed: Plan, current: Observed) -> Observed:
    """Commit the metadata of a plan with what it remembers of its approval, and crash."""
    memory = write(Memory(approved=approval_of(reviewed, current, actor="ci")))
    live = observed(*BASE, TOTAL)
    return msgspec.structs.replace(live, bookkeeping={**live.bookkeeping, APPROVED: memory[APPROVED]})


def test_a_crash_before_the_branch_needs_no_new_approval() -> None:
    current = observed(*BASE)
    reviewed = planned(wanted(), current)
    assert starts(reviewed)
    assert outcome(reviewed) is Outcome.NEEDS_APPROVAL
    after = started(reviewed, current)
    left = released(planned(wanted(), after), after)
    assert left.hash != reviewed.hash
    assert outcome(left) is Outcome.ALLOW
    assert is_continued(left, after, reviewed)
    assert not starts(left)


def test_another_expression_was_not_released() -> None:
    current = observed(*BASE)
    after = started(planned(wanted(), current), current)
    other = released(planned(wanted("x * 3"), after), after)
    assert outcome(other) is Outcome.NEEDS_APPROVAL
    assert not is_continued(other, after, planned(wanted(), current))


def test_another_plan_is_not_the_one_that_was_started() -> None:
    current = observed(*BASE)
    after = started(planned(wanted(), current), current)
    left = released(planned(wanted(), after), after)
    assert not is_continued(left, after, planned(wanted("x * 3"), current))


def test_the_undo_tag_names_the_plan_and_lives_from_now_on() -> None:
    current = msgspec.structs.replace(observed(*BASE), snapshot_times={7: 1_000})
    made = planned(wanted(), current)
    now = 50 * DAY_MS
    change = undo_tag_change(made, wanted(), current, now_ms=now)
    assert change is not None
    assert change.ref.name == undo_tag(made.hash) == f"lt_undo_{made.hash[7:19]}"
    assert change.ref.snapshot_id == 7
    assert change.ref.max_ref_age_ms == now - 1_000 + 30 * DAY_MS
    short = msgspec.structs.replace(wanted(), maintenance=Maintenance(undo_age_ms=DAY_MS))
    less = undo_tag_change(made, short, current, now_ms=now)
    assert less is not None
    assert less.ref.max_ref_age_ms == now - 1_000 + DAY_MS


def test_metadata_only_plans_and_empty_tables_leave_no_tag() -> None:
    current = observed(*BASE, snapshot=None)
    assert undo_tag_change(planned(wanted(), current), wanted(), current, now_ms=0) is None
