"""`kill -9` of real jobs, their JVM included, at some of their writes; `make test-crash` does it at all."""

from __future__ import annotations

import pytest

from reconciler.errors import ExitCode
from tests.crash.conftest import Tell
from tests.crash.recorder import Point, When
from tests.crash.runs import killed_and_taken_up
from tests.crash.scenarios import BACKFILL, CANARY, FIRST_REFRESH, Scenario


# Where a run finds most to wonder about: a branch without rows, half of the chunks, all of them; and main has the rows,
# but who wrote them never heard of it. Before a write the catalog holds what it held after the one before.
@pytest.mark.parametrize(
    ("scenario", "point", "by_process"),
    [
        pytest.param(BACKFILL, Point(2, When.AFTER), False, id="backfill, after its branch"),
        pytest.param(BACKFILL, Point(5, When.BEFORE), True, id="backfill, before publishing"),
        pytest.param(CANARY, Point(2, When.AFTER), False, id="x = x + 1, after a chunk"),
        pytest.param(FIRST_REFRESH, Point(3, When.AFTER), True, id="refresh, after its rows"),
        pytest.param(FIRST_REFRESH, Point(4, When.AFTER), False, id="refresh, after publishing"),
    ],
)
def test_killed_it_is_taken_up(outside: Tell, inside: Tell, scenario: Scenario, point: Point, by_process: bool) -> None:
    """What takes it up goes on from the catalog alone, be it a process again or this one."""
    tell = outside if by_process else inside
    killed_and_taken_up(tell(scenario), point, scenario.writes)


def test_interrupted_it_ends_with_all_it_started_and_is_taken_up(inside: Tell) -> None:
    story = inside(BACKFILL)
    assert story.interrupt_at(3) == ExitCode.INTERRUPTED  # between its two chunks
    written = tuple(story.world.proxy.written)
    assert BACKFILL.writes[:3] == written[:3]
    assert BACKFILL.writes[-1] not in written
    story.finish()
    assert (*written, *story.world.proxy.written) == BACKFILL.writes
    story.converged()
