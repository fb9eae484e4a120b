"""Expiry never takes what somebody needs, over random histories; a planted fault must be noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from reconciler.model.table import Ref, RefKind
from reconciler.plan.data import branch_of
from reconciler.plan.expiry import Expiry, SnapshotTime, expire

NOW = 1_000_000
OPERATION = "0123456789abcdef"
Case = tuple[tuple[SnapshotTime, ...], dict[str, Ref], int, int, frozenset[int]]
Expire = Callable[..., Expiry]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a history that grows over time, with branches, tags and stamped snapshots."""
    count = draw(st.integers(1, 14))
    steps = draw(st.lists(st.integers(1, 200_000), min_size=count, max_size=count))
    total, times = sum(steps), []
    for step in steps:
        total -= step
        times.append(NOW - total)
    parents = [None if n == 0 else draw(st.one_of(st.just(n), st.integers(1, n))) for n in range(count)]
    stamped = draw(st.sets(st.integers(1, count)))
    snapshots = tuple(
        SnapshotTime(
            snapshot_id=n + 1,
            parent_id=parents[n],
            time_ms=times[n],
            operation=OPERATION if n + 1 in stamped else None,
        )
        for n in range(count)
    )
    ids = st.integers(1, count)
    ages = st.one_of(st.none(), st.integers(0, 1_000_000))
    refs = {"main": Ref(name="main", kind=RefKind.BRANCH, snapshot_id=draw(ids))}
    for name in draw(st.sets(st.sampled_from(["a", "lt_undo_x", "b", branch_of(OPERATION)]))):
        kind = RefKind.BRANCH if name in ("b", branch_of(OPERATION)) else RefKind.TAG
        age = None if name == branch_of(OPERATION) else draw(ages)
        refs[name] = Ref(name=name, kind=kind, snapshot_id=draw(ids), max_ref_age_ms=age)
    protected = frozenset(draw(st.sets(ids, max_size=2)))
    return snapshots, refs, draw(st.integers(0, 600_000)), draw(st.integers(1, 4)), protected


def check(found: Expiry, case: Case) -> None:
    """Ask of every snapshot that goes whether anybody needs it."""
    snapshots, refs, age, keep, protected = case
    by_id = {s.snapshot_id: s for s in snapshots}
    gone = set(found.snapshots)
    assert not gone & protected
    for name in found.refs:
        ref = refs[name]
        assert name != "main"
        assert ref.max_ref_age_ms is not None
        assert NOW - by_id[ref.snapshot_id].time_ms > ref.max_ref_age_ms
    for name, ref in refs.items():
        if name not in found.refs:
            assert ref.snapshot_id not in gone, name
    assert not gone & set(list(walk(refs["main"].snapshot_id, by_id))[:keep])
    assert all(by_id[id_].time_ms < NOW - age for id_ in gone)
    working = refs.get(branch_of(OPERATION))
    if working is not None:
        for id_ in walk(working.snapshot_id, by_id):
            assert id_ not in gone, "unfinished work lost a snapshot, or its start"
            if by_id[id_].operation != OPERATION:
                break


def walk(head: int | None, by_id: Mapping[int, SnapshotTime]) -> Iterator[int]:
    while head is not None:
        yield head
        head = by_id[head].parent_id


def run(case: Case, how: Expire = expire) -> Expiry:
    snapshots, refs, age, keep, protected = case
    return how(snapshots, refs, now_ms=NOW, older_than_ms=age, keep=keep, protected=protected)


@given(cases())
def test_nothing_that_is_needed_goes(case: Case) -> None:
    check(run(case), case)


@given(cases())
def test_a_second_expiry_finds_nothing(case: Case) -> None:
    snapshots, refs, age, keep, protected = case
    first = run(case)
    left = tuple(s for s in snapshots if s.snapshot_id not in first.snapshots)
    refs = {name: ref for name, ref in refs.items() if name not in first.refs}
    again = run((left, refs, age, keep, protected))
    assert again.refs == ()
    if not first.refs:
        assert again.snapshots == ()


def test_what_is_old_and_named_by_nobody_does_go() -> None:
    snapshots = history(0, 100, 200, 900_000)
    main = {"main": Ref(name="main", kind=RefKind.BRANCH, snapshot_id=4)}
    assert run((snapshots, main, 500_000, 1, frozenset())).snapshots == (1, 2, 3)
    assert run((snapshots, main, 500_000, 2, frozenset({1}))).snapshots == (2,)


def history(*times: int) -> tuple[SnapshotTime, ...]:
    return tuple(
        SnapshotTime(snapshot_id=n, parent_id=n - 1 or None, time_ms=time) for n, time in enumerate(times, start=1)
    )


FAULTS: Sequence[tuple[str, dict[str, object]]] = [
    ("forgets what is protected", {"protected": frozenset()}),
    ("forgets the branches of unfinished work", {"refs": "main only"}),
    ("keeps one too few", {"keep": 1}),
    ("takes what is young", {"older_than_ms": -1}),
]


@pytest.mark.parametrize(("name", "fault"), FAULTS, ids=[name for name, _ in FAULTS])
def test_control_a_planted_fault_is_noticed(name: str, fault: dict[str, object]) -> None:
    """Break one rule; some history must show it."""

    def broken(snapshots: tuple[SnapshotTime, ...], refs: dict[str, Ref], **said: object) -> Expiry:
        if "refs" in fault:
            refs = {"main": refs["main"]}
        return expire(snapshots, refs, **{**said, **{k: v for k, v in fault.items() if k != "refs"}})  # type: ignore[arg-type]

    @settings(phases=[Phase.generate])
    @given(cases())
    def law(case: Case) -> None:
        check(run(case, broken), case)

    with pytest.raises((AssertionError, ExceptionGroup)):
        law()
