"""A plan that was started goes on after a crash, whatever of it was done; its undo tag outlives it."""

from __future__ import annotations

import msgspec

from reconciler.diff.changes import CreateRef, MoveRef
from reconciler.model.bookkeeping import APPROVED, write
from reconciler.model.bookkeeping import Bookkeeping as Memory
from reconciler.model.maintenance import DAY_MS, Maintenance
from reconciler.model.table import Observed, Ref, RefKind
from reconciler.model.types import StructType
from reconciler.plan.approvals import approval_of, is_continued, released, starts, undo_tag, undo_tag_change
from reconciler.plan.operations import OperationClass, Plan
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
    assert isinstance(change, CreateRef)
    assert change.ref.name == undo_tag(made.hash) == f"lt_undo_{made.hash[7:19]}"
    assert change.ref.snapshot_id == 7
    assert change.ref.max_ref_age_ms == now - 1_000 + 30 * DAY_MS
    short = msgspec.structs.replace(wanted(), maintenance=Maintenance(undo_age_ms=DAY_MS))
    less = undo_tag_change(made, short, current, now_ms=now)
    assert isinstance(less, CreateRef)
    assert less.ref.max_ref_age_ms == now - 1_000 + DAY_MS


def dropping() -> Plan:
    """Plan to drop a column: one commit, of metadata alone."""
    current = observed(*BASE, TOTAL)
    less = StructType(tuple(msgspec.structs.replace(f, id=0) for f in BASE))
    made = planned(msgspec.structs.replace(wanted(), columns=less, computed={}), current)
    assert made.operation_class is OperationClass.DESTRUCTIVE
    return made


def tagged(made: Plan, *, head: int) -> Observed:
    """Leave the plan's tag on snapshot 7, and let main go on to another."""
    current = observed(*BASE, TOTAL, snapshot=head)
    tag = Ref(name=undo_tag(made.hash), kind=RefKind.TAG, snapshot_id=7, max_ref_age_ms=5)
    spec = msgspec.structs.replace(current.spec, refs={tag.name: tag})
    return msgspec.structs.replace(current, spec=spec, snapshot_times={7: 1_000, 8: 2_000})


def test_the_same_plan_run_again_moves_its_tag_to_mains_head() -> None:
    made, now = dropping(), 50 * DAY_MS
    change = undo_tag_change(made, wanted(), tagged(made, head=8), now_ms=now)
    assert isinstance(change, MoveRef)
    assert (change.before.snapshot_id, change.after.snapshot_id) == (7, 8)
    assert (change.after.name, change.after.kind) == (undo_tag(made.hash), RefKind.TAG)
    assert change.after.max_ref_age_ms == now - 2_000 + 30 * DAY_MS
    assert undo_tag_change(made, wanted(), tagged(made, head=7), now_ms=now) is None


def test_a_plan_that_goes_on_leaves_its_tag_on_what_it_replaced() -> None:
    made = planned(wanted(), observed(*BASE))
    assert undo_tag_change(made, wanted(), tagged(made, head=8), now_ms=0) is None
    resumed = msgspec.structs.replace(
        made, operations=tuple(msgspec.structs.replace(o, resumes=True) for o in made.operations)
    )
    assert undo_tag_change(resumed, wanted(), tagged(made, head=8), now_ms=0) is None


def test_metadata_only_plans_and_empty_tables_leave_no_tag() -> None:
    current = observed(*BASE, snapshot=None)
    assert undo_tag_change(planned(wanted(), current), wanted(), current, now_ms=0) is None
