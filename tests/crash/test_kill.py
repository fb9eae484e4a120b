"""`kill -9` of real jobs, their JVM included, at some of their writes; `make test-crash` does it at all."""

from __future__ import annotations

import pytest

from tests.crash.conftest import Tell
from tests.crash.recorder import Point, When
from tests.crash.runs import Story
from tests.crash.scenarios import BACKFILL, CANARY, Scenario


def killed_and_taken_up(story: Story, point: Point, recorded: tuple[str, ...]) -> None:
    """Kill it at a point; the next run makes exactly the writes that are missing."""
    story.restart()
    written = story.kill_at(point)
    taken = point.number if point.when is When.AFTER else point.number - 1
    assert tuple(written) == recorded[:taken]
    story.finish()
    assert tuple(story.world.proxy.written) == recorded[taken:]
    story.converged()


# The branch is there and has nothing; half of the chunks are on it; all is published and nobody heard of it.
@pytest.mark.parametrize(
    ("scenario", "point"),
    [
        pytest.param(BACKFILL, Point(2, When.AFTER), id="backfill, after its branch"),
        pytest.param(BACKFILL, Point(5, When.BEFORE), id="backfill, before publishing"),
        pytest.param(CANARY, Point(2, When.AFTER), id="canary, after a chunk"),
        pytest.param(CANARY, Point(4, When.AFTER), id="canary, after publishing"),
    ],
)
def test_killed_it_is_taken_up(outside: Tell, scenario: Scenario, point: Point) -> None:
    killed_and_taken_up(outside(scenario), point, scenario.writes)
