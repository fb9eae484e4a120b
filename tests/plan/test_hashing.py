"""The hash an approval names: what voids it, and what must not."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from reconciler.model.bookkeeping import Bookkeeping, write
from reconciler.model.table import Desired, DesiredRef, Observed, RefKind, Statistics, Suppression
from reconciler.plan.operations import Plan
from tests.diff.tables import OWNER, desired, field, managed, observed, spec, wanted
from tests.plan.planning import file, planned

LIVE = spec(field(1, "id", "int"), field(2, "cust_id"), properties={"comment": "old", "theirs": "1"})
MANIFEST = desired(
    wanted("id", "long"),
    wanted("cust_id", required=True),
    properties={"comment": "new"},
    refs=(DesiredRef(name="start", kind=RefKind.TAG),),
)


def current() -> Observed:
    return observed(LIVE, managed(LIVE), snapshots={500: 7})


def with_spec(**changes: object) -> Observed:
    return msgspec.structs.replace(current(), spec=msgspec.structs.replace(LIVE, **changes))


def with_version(**changes: object) -> Observed:
    seen = current()
    return msgspec.structs.replace(seen, version=msgspec.structs.replace(seen.version, **changes))


def make(manifest: Desired = MANIFEST, seen: Observed | None = None) -> Plan:
    return planned(manifest, seen or current(), (file(2), file(2)))


def restated(**changes: object) -> Desired:
    return msgspec.structs.replace(MANIFEST, **changes)


REFERENCE = make().hash


def test_hash_is_a_full_sha256() -> None:
    assert REFERENCE.startswith("sha256:")
    assert len(REFERENCE) == 7 + 64


def test_an_empty_plan_has_no_hash() -> None:
    in_sync = desired(wanted("id", "int"), wanted("cust_id"))
    assert planned(in_sync, current()).hash == ""


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(make, id="the same"),
        pytest.param(lambda: make(restated(approval=REFERENCE)), id="its own approval committed"),
        pytest.param(lambda: make(seen=with_version(snapshot_id=8)), id="rows came in"),
        pytest.param(
            lambda: make(seen=msgspec.structs.replace(current(), statistics=Statistics(rows=5, files=2, bytes=9))),
            id="statistics",
        ),
        pytest.param(
            lambda: make(seen=with_spec(properties={"comment": "old", "theirs": "2"})), id="others' properties"
        ),
    ],
)
def test_what_moves_by_itself_voids_no_approval(again: Callable[[], Plan]) -> None:
    assert again().hash == REFERENCE


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda: make(restated(properties={"comment": "newer"})), id="one byte of spec"),
        pytest.param(
            lambda: make(restated(suppressions=(Suppression(code="LK101", reason="x"),))), id="an accepted finding"
        ),
        pytest.param(lambda: make(seen=with_version(uuid="other")), id="another table"),
        pytest.param(lambda: make(seen=with_version(schema_id=1)), id="schema id"),
        pytest.param(lambda: make(seen=with_version(spec_id=1)), id="partition spec id"),
        pytest.param(lambda: make(seen=with_version(sort_order_id=1)), id="sort order id"),
        pytest.param(lambda: make(seen=with_version(last_field_id=9)), id="last field id"),
        pytest.param(
            lambda: make(seen=with_spec(properties={"comment": "odd", "theirs": "1"})), id="compared property"
        ),
    ],
)
def test_what_a_reviewer_approved_is_what_runs(changed: Callable[[], Plan]) -> None:
    assert changed().hash != REFERENCE


def test_the_owner_s_name_is_not_part_of_what_was_approved() -> None:
    unowned = observed(LIVE, snapshots={500: 7})
    assert make(seen=unowned).hash == make(restated(owner="cluster/sales/orders"), unowned).hash


def test_taking_a_table_is_part_of_what_was_approved() -> None:
    unowned = observed(LIVE, snapshots={500: 7})
    theirs = observed(LIVE, Bookkeeping(owner="them"), snapshots={500: 7})
    taken = planned(MANIFEST, theirs, (file(2),), take_ownership=True)
    assert taken.hash != make(seen=unowned).hash


def test_operation_ids_repeat_for_the_same_work_only() -> None:
    (first,), (same,) = make().operations, make().operations
    (later,) = make(seen=with_version(schema_id=5)).operations
    assert len(first.id) == 16
    assert first.id == same.id
    assert first.id != later.id


def test_owner_is_remembered_in_the_table() -> None:
    assert OWNER in write(managed(LIVE)).values()  # the comparison above is not of two unowned tables
