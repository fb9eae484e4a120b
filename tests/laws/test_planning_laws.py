"""Laws of planning on random schemas: nothing is substituted, nothing is lost, the same input gives the same plan."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.dialects import dialect_for
from reconciler.diff.bind import bind
from reconciler.diff.changes import AdoptTable, Change
from reconciler.diff.diff import diff
from reconciler.model.bookkeeping import Bookkeeping, write
from reconciler.model.table import Desired, Observed, TableFormat, TableVersion
from reconciler.plan.document import PlannedTable, decode, encode
from reconciler.plan.operations import OperationClass, OperationKind, Plan
from reconciler.plan.planner import plan
from tests.laws.strategies import managed_ids, manifests, specs

NOW_MS = 1_000_000
LAST_ID = 10_000


@st.composite
def cases(draw: st.DrawFn) -> tuple[Desired, Observed]:
    spec = draw(specs())
    memory = Bookkeeping(columns=draw(managed_ids(spec)))
    version = TableVersion(
        uuid="9c5b",
        schema_id=0,
        spec_id=0,
        sort_order_id=0,
        last_field_id=LAST_ID,
        snapshot_id=draw(st.none() | st.just(7)),
    )
    return draw(manifests(spec)), Observed(spec=spec, version=version, bookkeeping=write(memory))


def make(case: tuple[Desired, Observed]) -> tuple[Plan, tuple[Change, ...]]:
    desired, current = case
    binding = bind(desired, current, now_ms=NOW_MS)
    changes = diff(current.spec, binding.spec)
    dialect = dialect_for(TableFormat.ICEBERG)
    return plan(desired, current, binding, changes, dialect=dialect, catalog="lake", files=()), changes


@settings(deadline=None)
@given(cases())
def test_a_plan_does_the_changes_and_nothing_else(case: tuple[Desired, Observed]) -> None:
    made, changes = make(case)
    assert tuple(change for change in made.changes if not isinstance(change, AdoptTable)) == changes
    assert tuple(note.change for note in made.notes) == made.changes


@settings(deadline=None)
@given(cases())
def test_an_operation_is_as_harmful_as_its_worst_change(case: tuple[Desired, Observed]) -> None:
    made, _ = make(case)
    assert sum(operation.kind is OperationKind.COMMIT for operation in made.operations) <= 1
    harmless = OperationClass.METADATA_ONLY
    assert made.operation_class == max((note.operation_class for note in made.notes), default=harmless)
    assert made.is_breaking == any(note.breaking for note in made.notes)
    assert bool(made.hash) == bool(made.operations)


@settings(deadline=None)
@given(cases())
def test_plans_are_reproducible_and_survive_their_document(case: tuple[Desired, Observed]) -> None:
    made, _ = make(case)
    assert make(case)[0] == made
    document = (PlannedTable(plan=made),)
    assert decode(encode(document)) == document
