"""A type change killed after each of its writes, and beside writers that append all the time.

The writes are counted by the catalog's own metadata log: one that bypasses the hooks fails the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from reconciler import jobs
from reconciler.diff.changes import RenameColumn
from reconciler.engines.swap_check import SwapCheck
from reconciler.model.table import Desired, TypeChange
from reconciler.model.types import Field, StructType
from reconciler.pipeline import Approval, Request, execute, propose_undo, swapping
from reconciler.plan.events import Event, Progress, Refused
from reconciler.plan.type_changes import memories
from tests.data.applying import Applier
from tests.data.kit import NOW_MS, Killed, Lake, Shop, Writes
from tests.data.test_type_changes import columns, converted, turning, write

FILES = 2
ROWS = 4 * FILES


def fresh(shop: Shop, lake: str = "embedded", version: int = 2, files: int = FILES) -> Lake:
    made = shop.fresh(lake, files=0, version=version)
    for number in range(files):
        write(made, range(4 * number, 4 * number + 4))
    return made


@contextmanager
def hooked(table: Lake, writes: Writes) -> Iterator[Applier]:
    """Let commits of the catalog and of the engine go through the same counter."""
    commit = table.catalog.apply
    table.catalog.apply = lambda *args, **more: writes.around(lambda: commit(*args, **more))  # type: ignore
    try:
        yield Applier(table, table=writes)
    finally:
        table.catalog.apply = commit  # type: ignore[method-assign]


def converges(table: Lake, rows: int = ROWS) -> None:
    """What must hold after every run, however often it was killed."""
    Applier(table).ok(turning(table))
    assert columns(table) == {"id": "long", "x": "int", "note": "int", "note__lt_old": "string"}
    assert table.rows("id", "note") == converted(range(rows))
    assert [row for row in table.rows("id", "note__lt_old") if row[1] == str(row[0] * 10)] or rows == 0
    assert [name for name in table.branches() if not name.startswith("lt_undo_")] == []
    assert [m.swapped_ms is not None for m in memories(table.observe().bookkeeping).values()] == [True]
    stamps = [s["summary"]["laketable.chunk"] for s in table.snapshots() if "laketable.chunk" in s["summary"]]
    assert len(set(stamps)) == len(stamps)


def test_killed_after_every_write_it_converges(shop: Shop) -> None:
    table, writes = fresh(shop, files=1), Writes()
    before = table.versions()
    with hooked(table, writes) as applier:
        applier.ok(turning(table))
    converges(table, 4)
    assert table.versions() - before == writes.count, "a write went past the hooks"
    assert writes.count == 5  # the twin, the branch, its chunk, publish, the swap
    for number in range(1, writes.count + 1):
        table = fresh(shop, files=1)
        with hooked(table, Writes((number, "after"))) as applier, pytest.raises(Killed):
            applier.apply(turning(table))
        assert (columns(table)["note"] == "int") == (number == writes.count)
        converges(table, 4)


class Appending(Writes):
    """Lets another writer append after each of the job's writes."""

    def __init__(self, append: Callable[[], None]) -> None:
        super().__init__()
        self._append = append

    def around(self, commit: Callable[[], bool]) -> bool:
        """Make one write, then somebody else's."""
        done = super().around(commit)
        self._append()
        return done


def test_rows_that_others_append_between_the_phases_are_converted_before_the_swap(shop: Shop) -> None:
    table = fresh(shop)
    arriving = list(range(ROWS, ROWS + 5))

    def append() -> None:
        if arriving:
            write(table, range(arriving[0], arriving.pop(0) + 1))

    with hooked(table, Appending(append)) as applier:
        applier.ok(turning(table))
    assert arriving == []
    assert table.rows("id", "note") == converted(range(ROWS + 5))


# ---------------------------------------------------------------- what others change before the exchange


def killed(*args: object) -> None:
    raise Killed


def filled(table: Lake, desired: Desired) -> Lake:
    """Convert until the twin is published, and be killed before the names are exchanged."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(jobs, "swap", killed)
        with pytest.raises(Killed):
            Applier(table).apply(desired)
    assert [name for name in columns(table) if name.endswith("__lt_new")]
    assert [name for name in table.branches() if not name.startswith("lt_undo_")] == []
    return table


def update(table: Lake, number: int, note: str) -> None:
    table.spark.sql(f"UPDATE {table.name} SET note = {note} WHERE id = {number}")


def scanned(events: list[Event]) -> list[str]:
    return [e.step for e in events if isinstance(e, Progress) and e.step.startswith("scanning")]


@pytest.mark.parametrize("policy", ["Fail", "Null", "Quarantine"])
def test_values_that_others_change_before_the_exchange_are_converted_anew(shop: Shop, policy: str) -> None:
    table = fresh(shop)
    filled(table, turning(table, on_cast_failure=policy))
    write(table, range(ROWS, ROWS + 1))
    update(table, 1, "'777'")
    update(table, 2, "NULL")
    update(table, ROWS, "'888'")
    unreadable = [] if policy == "Fail" else [3]
    for number in unreadable:
        update(table, number, "'abc'")
    Applier(table).ok(turning(table, on_cast_failure=policy))
    changed = {1: 777, 2: None, ROWS: 888, **dict.fromkeys(unreadable)}
    assert dict(table.rows("id", "note")) == {**dict(converted(range(ROWS))), **changed}


def test_a_value_that_no_longer_converts_refuses_the_exchange_until_it_is_corrected(shop: Shop) -> None:
    table = fresh(shop)
    filled(table, turning(table))
    update(table, 3, "'abc'")
    last = Applier(table).refused(turning(table))
    assert "The value of note cannot be converted in 1 row of 1 file; note is still what it was." in last.message
    assert columns(table)["note"] == "string"
    update(table, 3, "'31'")
    Applier(table).ok(turning(table))
    assert dict(table.rows("id", "note")) == {**dict(converted(range(ROWS))), 3: 31}


def test_the_exchange_reads_only_files_that_the_conversion_did_not_write_or_left_a_null_in(shop: Shop) -> None:
    table = fresh(shop)
    filled(table, turning(table))
    assert scanned(Applier(table).ok(turning(table))) == ["scanning 1 file"]  # that of the row without a value
    table = fresh(shop)
    filled(table, turning(table))
    update(table, 1, "note")
    assert scanned(Applier(table).ok(turning(table))) == ["scanning 2 files"]


def test_a_value_that_is_not_equal_to_itself_is_converted_once(shop: Shop) -> None:
    table = shop.fresh(files=0)
    table.spark.sql(f"ALTER TABLE {table.name} ADD COLUMN rate double")
    table.spark.sql(f"INSERT INTO {table.name} VALUES (1, 1, 'a', double('NaN')), (2, 1, 'b', 0.5)")
    fields = (*table.wants().columns.fields, Field(name="rate", required=False, type="float"))
    desired = msgspec.structs.replace(table.wants(), columns=StructType(fields), type_changes={"rate": TypeChange()})
    filled(table, desired)
    table.spark.sql(f"UPDATE {table.name} SET x = 2 WHERE id = 1")
    Applier(table).ok(desired)
    assert [str(rate) for _, rate in table.rows("id", "rate")] == ["nan", "0.5"]


def swaps(args: tuple[Any, ...]) -> bool:
    return any(isinstance(change, RenameColumn) for change in args[2])


def test_beside_a_writer_that_never_rests_the_names_stay_and_nothing_is_lost(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swapping, "SWAP_ROUNDS", 3)
    table, more = fresh(shop), iter(range(ROWS, ROWS + 100))
    commit = table.catalog.apply

    def apply(*args: Any, **named: Any) -> Any:
        if swaps(args):
            number = next(more)
            write(table, range(number, number + 1))
        return commit(*args, **named)

    table.catalog.apply = apply  # type: ignore[method-assign]
    last = Applier(table).refused(turning(table))
    assert isinstance(last, Refused)
    assert "Others committed rows 3 times while the names were to be exchanged." in last.message
    assert columns(table)["note"] == "string"
    table.catalog.apply = commit  # type: ignore[method-assign]
    converges(table, next(more))


def test_the_oracle_notices_rows_that_were_not_converted(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant the fault: exchange the names without looking at what was appended meanwhile."""
    monkeypatch.setattr(SwapCheck, "_scan", lambda self, head: None)
    table = fresh(shop)
    arriving = [ROWS]

    def append() -> None:
        is_staging = any(name.startswith("lt_") and "undo" not in name for name in table.branches())
        if arriving and not is_staging and len(table.ancestry()) > FILES:
            write(table, range(arriving[0], arriving.pop() + 1))

    Applier(table, table=Appending(append)).apply(turning(table))
    assert arriving == []
    with pytest.raises(AssertionError):
        assert table.rows("id", "note") == converted(range(ROWS + 1))


def test_row_ids_and_defaults_of_a_v3_table(shop: Shop) -> None:
    table = fresh(shop, "rest", 3)
    before = table.rows("id", "_row_id")
    converges(table)
    assert table.rows("id", "_row_id") == before


def test_a_type_change_can_be_undone_as_a_whole_and_done_again(shop: Shop) -> None:
    table = fresh(shop)
    converges(table)
    request = undoing(table)
    applier = Applier(table)
    proposal = propose_undo(request, table.observe(), Approval(), now_ms=applier.now_ms)
    assert proposal.plan is not None
    approval = Approval(hashes=frozenset({proposal.plan.hash}), auto=True)
    proposal = propose_undo(request, table.observe(), approval, now_ms=applier.now_ms)
    list(execute(proposal, applier.execution(turning(table))))
    assert columns(table) == {"id": "long", "x": "int", "note": "string"}
    assert memories(table.observe().bookkeeping) == {}
    again = applier.propose(turning(table), approve=False)
    assert again.decision is not None
    assert again.decision.reasons  # it is asked for anew
    converges(table)


def test_an_undo_of_a_type_change_tells_of_values_that_others_wrote_since(shop: Shop) -> None:
    table = fresh(shop)
    converges(table)
    assert lost(table) == []
    table.spark.sql(f"INSERT INTO {table.name} (id, x, note) VALUES (100, 1, 12345)")
    assert lost(table) == ["Others have committed since note got its new type: what they wrote in it is lost."]
    unread = propose_undo(undoing(table), table.observe(), Approval(auto=True), now_ms=NOW_MS)
    assert unread.decision is not None
    assert unread.decision.reasons  # its hash releases it, nothing else
    back = turning(table, to="string")
    Applier(table).ok(back)
    assert (100, "12345") in table.rows("id", "note")


def lost(table: Lake) -> list[str]:
    made = propose_undo(undoing(table), table.observe(), Approval(), now_ms=NOW_MS).plan
    assert made is not None
    return [found.message for found in made.findings if found.code == "LK228"]


def undoing(table: Lake) -> Request:
    return Request.undo(table.ident, "test", table.catalog, table.catalog_name, ())
