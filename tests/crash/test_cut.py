"""A job that the catalog hears nothing more of, before and after each write it makes, in this process."""

from __future__ import annotations

import pytest

from tests.crash.conftest import Tell
from tests.crash.recorder import Point, When
from tests.crash.scenarios import SCENARIOS, Scenario


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.kind)
def test_cut_off_at_every_write_in_turn_it_converges(inside: Tell, scenario: Scenario) -> None:
    """Each run is cut off at its first write, so each goes on from what the last one left, down to the last write."""
    story = inside(scenario)
    recorded = story.record()
    story.restart()
    written: list[str] = []
    for number in range(len(recorded)):
        assert story.cut_at(Point(1, When.BEFORE)) == []
        assert story.world.proxy.attempted[0] == recorded[number]
        written += story.cut_at(Point(1, When.AFTER))
    assert written == recorded
    story.converged()
    story.is_done()
