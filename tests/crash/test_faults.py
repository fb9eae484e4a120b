"""What befalls a job's writes, in this process: nothing gets through any more, answers are lost, writes are refused."""

from __future__ import annotations

from tests.crash.recorder import Point, When
from tests.crash.runs import Story
from tests.proxy import Fault

CLOSED = Fault(drop_after=True)
FAILED = (Fault(status=500, forward=True), Fault(status=503, forward=True))
REFUSED = (Fault(status=503), Fault(drop_before=True))


def test_cut_off_before_and_after_every_write_it_goes_on_and_converges(recorded: Story) -> None:
    """Each run is cut off at its first write, so each goes on from what the last one left, down to the last write."""
    recorded.restart()
    written: list[str] = []
    for number in range(len(recorded.recorded)):
        assert recorded.cut_at(Point(1, When.BEFORE)) == []
        assert recorded.world.proxy.attempted[0] == recorded.recorded[number]
        written += recorded.cut_at(Point(1, When.AFTER))
    assert written == recorded.recorded
    recorded.converged()
    recorded.is_done()


def test_a_connection_closed_after_every_commit_is_looked_into(recorded: Story) -> None:
    _lost(recorded, [CLOSED] * len(recorded.recorded))


def test_an_error_after_every_commit_is_looked_into(recorded: Story) -> None:
    _lost(recorded, [FAILED[number % 2] for number in range(len(recorded.recorded))])


def _lost(story: Story, faults: list[Fault]) -> None:
    """Lose the answer to every write: none is repeated."""
    story.restart()
    story.finish(dict(enumerate(faults, start=1)))
    assert story.world.proxy.written == story.recorded
    assert story.world.proxy.attempted == story.recorded
    story.converged()


def test_every_write_that_is_refused_without_effect_is_tried_again(recorded: Story) -> None:
    recorded.restart()
    # every write is refused once: the odd ones are first tries
    recorded.finish({2 * number + 1: REFUSED[number % 2] for number in range(len(recorded.recorded))})
    assert recorded.world.proxy.written == recorded.recorded
    recorded.converged()
