"""A catalog that commits and does not say so, and one that does neither: recognised there, tried again here."""

from __future__ import annotations

import pytest

from tests.crash.conftest import Tell
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.proxy import Fault

LOST = {
    "connection closed": Fault(drop_after=True),
    "500": Fault(status=500, forward=True),
    "503": Fault(status=503, forward=True),
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.kind)
def test_a_lost_answer_to_every_write_is_looked_up_and_no_write_repeated(inside: Tell, scenario: Scenario) -> None:
    story = inside(scenario)
    recorded = story.record()
    for name, fault in LOST.items():
        story.restart()
        story.finish(dict.fromkeys(range(1, len(recorded) + 1), fault))
        assert story.world.proxy.written == recorded, name
        assert story.world.proxy.attempted == recorded, name
        story.converged()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.kind)
def test_a_refused_write_without_effect_is_tried_again(inside: Tell, scenario: Scenario) -> None:
    story = inside(scenario)
    for fault in (Fault(status=503), Fault(drop_before=True)):
        story.restart()
        # every write is refused once: the odd ones are first tries
        story.finish({2 * number + 1: fault for number in range(len(scenario.writes))})
        assert tuple(story.world.proxy.written) == scenario.writes
        story.converged()
