"""Whatever happens to a table, no file counts as indexed that is not; after a pass all by itself, every file does."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.plan.built import Built, FileLayout, TableLayout, is_whole, lacks, ranges_of
from reconciler.plan.operations import Aspect, AspectKind

ASPECT = Aspect(name="index.a", kind=AspectKind.ZORDER, columns=(1, 2), definition="d")
LAYOUT = TableLayout(spec_id=0, sort_order_id=0)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.just(0)),
        st.tuples(st.just("pass"), st.integers(0, 2)),
        st.tuples(st.just("compact"), st.just(0)),
        st.tuples(st.just("back"), st.integers(0, 9)),
        st.tuples(st.just("expire"), st.just(0)),
    ),
    max_size=14,
)


@dataclass
class Table:
    """Files as (sequence number, is it indexed); snapshots remember theirs, the log remembers main's heads."""

    files: tuple[tuple[int, bool], ...] = ()
    sequence: int = 0
    log: list[int] = field(default_factory=list)
    states: dict[int, tuple[tuple[int, bool], ...]] = field(default_factory=dict)
    built: Built | None = None

    def commit(self, files: tuple[tuple[int, bool], ...]) -> None:
        """Make main's next snapshot; its id is its sequence number."""
        self.files = files
        self.log.append(self.sequence)
        self.states[self.sequence] = files

    def append(self) -> None:
        """Somebody ingests."""
        self.sequence += 1
        self.commit((*self.files, (self.sequence, False)))

    def compact(self) -> None:
        """Somebody writes all files again, without the index."""
        self.sequence += 1
        self.commit(((self.sequence, False),) if self.files else ())

    def lacking(self) -> list[tuple[int, bool]]:
        """What plan and job go by."""
        if is_whole(ASPECT, self.built, self.log[-1] if self.log else None):
            return []
        return [f for f in self.files if lacks(ASPECT, _layout(f), LAYOUT, self.built)]

    def rewrite(self, meanwhile: int, *, careless: bool = False) -> None:
        """Bring up every file that lacks the index, beside so many appends of others."""
        if not self.log:
            return
        base, before = self.log[-1], self.lacking()
        kept, made = tuple(f for f in self.files if f not in before), list[tuple[int, bool]]()
        if not meanwhile:
            for _ in before:
                self.sequence += 1
                made.append((self.sequence, True))
        for _ in range(meanwhile):
            self.append()
        if meanwhile and before:
            self.sequence += 1
            made = [(self.sequence, True) for _ in before]
        theirs = tuple(f for f in self.files if f[0] > base) if meanwhile else ()
        if made:
            self.commit((*kept, *made, *theirs))
        live = {f[0] for f in (*kept, *before)}
        own = {n for low, high in (self.built.own if self.built else ()) for n in range(low, high + 1)} & live
        whole = self.log[-1] if careless or not meanwhile else 0
        self.built = Built(definition="d", revision=1, whole=whole, own=ranges_of(own | {f[0] for f in made}))

    def back(self, place: int) -> None:
        """Somebody sets main to a former snapshot."""
        if self.log:
            to = self.log[place % len(self.log)]
            self.log.append(to)
            self.files = self.states[to]

    def expire(self) -> None:
        """Forget all snapshots but main's: the log is cut where one is gone."""
        self.log = self.log[-1:]


def _layout(file: tuple[int, bool]) -> FileLayout:
    return FileLayout(spec_id=0, sort_order_id=0, sequence_number=file[0])


def run(steps: list[tuple[str, int]], *, careless: bool = False) -> None:
    table = Table()
    for what, number in steps:
        match what:
            case "append":
                table.append()
            case "pass":
                table.rewrite(number, careless=careless)
                assert number or not table.lacking()
            case "compact":
                table.compact()
            case "back":
                table.back(number)
            case _:
                table.expire()
        lacking = table.lacking()
        assert all(file in lacking for file in table.files if not file[1]), "a file counts as indexed and is not"


@given(STEPS)
@example([("append", 0), ("pass", 0), ("back", 0)])
@example([("append", 0), ("pass", 2), ("append", 0), ("back", 1)])
@example([("append", 0), ("append", 0), ("pass", 2), ("expire", 0), ("back", 0)])
def test_no_file_counts_as_indexed_that_is_not(steps: list[tuple[str, int]]) -> None:
    run(steps)


def test_control_a_memory_that_claims_what_others_appended_is_noticed() -> None:
    with pytest.raises(AssertionError, match="counts as indexed"):
        run([("append", 0), ("pass", 1)], careless=True)
