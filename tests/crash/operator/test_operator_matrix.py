"""`kill -9` of the operator before and after every write of every story; only when asked for, by `make test-crash`."""

from __future__ import annotations

import pytest

from tests.crash.operator.job_stories import DATA, HELD
from tests.crash.operator.journal import Place
from tests.crash.operator.runs import Told
from tests.crash.operator.scene import World
from tests.crash.operator.stories import ALTER_BY_TIMER, METADATA, Story
from tests.crash.recorder import When
from tests.crash.tally import Line

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("story", [*DATA, *HELD, *METADATA], ids=lambda story: story.kind)
def test_killed_at_every_write_it_converges(stage: World, story: Story, tally: list[Line]) -> None:
    told = Told(stage, story).record()
    line = Line(f"operator: {story.kind}", recorded=told.places)
    tally.append(line)
    for place in told.places:
        try:
            told.kill_at(place)
        except AssertionError as error:
            line.failed[place] = str(error)
        line.run.append(place)
    line.check()


def test_after_a_kill_the_timer_finds_nothing_to_write_either(stage: World) -> None:
    told = Told(stage, ALTER_BY_TIMER).record()
    told.kill_at(Place("catalog: TABLE: schema + properties", 1, When.AFTER))
