"""`kill -9` before and after every write of every kind of data job; only when asked for, by `make test-crash`.

What is killed is a process with its JVM. The run that takes it up is the same program in this process, whose Spark is
warm: that halves the time, and what it goes on from is the catalog alone. `test_kill` takes up by processes too.
"""

from __future__ import annotations

import pytest

from tests.crash.conftest import Tell
from tests.crash.recorder import points
from tests.crash.runs import killed_and_taken_up
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.crash.tally import Line

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.kind)
def test_killed_at_every_write_the_next_apply_converges(inside: Tell, scenario: Scenario, tally: list[Line]) -> None:
    story = inside(scenario)
    line = Line(scenario.kind, recorded=points(story.record()))
    tally.append(line)
    for point in line.recorded:
        try:
            killed_and_taken_up(story, point, story.recorded)
        except AssertionError as error:
            line.failed[point] = str(error)
        line.run.append(point)
    line.check()
