"""Every oracle can fail: on work done twice, a lost row, a leftover branch, a re-pointed main, an unlisted write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from reconciler.engines.data_state import CHUNK_STAMP, OPERATION_STAMP
from tests.cli.lab import Result
from tests.crash import oracles
from tests.crash.conftest import Tell
from tests.crash.recorder import Point, When
from tests.crash.runs import Story, in_this_process
from tests.crash.scenarios import CANARY, Scenario, add_one
from tests.crash.world import World


@pytest.fixture(scope="module")
def plants() -> dict[str, Callable[[Story], object]]:
    """Say what is planted, by the words with which it must be noticed."""
    return {
        "7 rows are missing, 7 are too many": _do_it_twice,
        "1 rows are missing, 0 are too many": _lose_a_row,
        "0 rows are missing, 4 are too many": _repeat_a_chunk,
        "has branches left": _leave_a_branch,
        "main was re-pointed": _re_point_main,
        "0 chunks in main, 2 were to be made": _put_the_rows_by_hand,
        "chunks that are in main more than once": _stamp_a_chunk_twice,
    }


def test_what_was_planted_is_noticed(inside: Tell, plants: dict[str, Callable[[Story], object]]) -> None:
    story = inside(CANARY)
    story.finish()
    story.converged()
    story.world.save()
    for words, plant in plants.items():
        story.restart()
        plant(story)
        with pytest.raises(AssertionError, match=words):
            story.converged()


def _do_it_twice(story: Story) -> None:
    again = replace(CANARY, command=lambda world: add_one(world, 2))
    assert in_this_process(story.world, again).code == 0


def _lose_a_row(story: Story) -> None:
    story.world.table(story.world.full("counted")).delete("id == 3")


def _repeat_a_chunk(story: Story) -> None:
    table = story.world.table(story.world.full("counted"))
    table.append(table.scan(row_filter="id < 4").to_arrow())


def _leave_a_branch(story: Story) -> None:
    table = story.world.table(story.world.full("counted"))
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "lt_0000000000000001").commit()


def _stamp_a_chunk_twice(story: Story) -> None:
    """Commit no rows, under the stamps of a chunk that is in main."""
    stamped = next(s for s in oracles.ancestry(story.world.metadata("counted")) if CHUNK_STAMP in s["summary"])
    stamps = {key: stamped["summary"][key] for key in (OPERATION_STAMP, CHUNK_STAMP)}
    table = story.world.table(story.world.full("counted"))
    table.append(table.scan().to_arrow().slice(0, 0), snapshot_properties=stamps)


def _put_the_rows_by_hand(story: Story) -> None:
    """Go back to before the work, and write what it should have."""
    world = story.world
    table = world.table(world.full("counted"))
    rows = table.scan().to_arrow()
    table.manage_snapshots().rollback_to_snapshot(story.heads["counted"]).commit()
    table.overwrite(rows)


def _re_point_main(story: Story) -> None:
    """Go back to before the last append, and write all rows anew: nothing is missing but somebody's commit."""
    world = story.world
    table = world.table(world.full("counted"))
    rows = table.scan().to_arrow()
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    table.overwrite(rows)


def test_a_write_that_is_not_listed_fails(inside: Tell) -> None:
    story = inside(replace(CANARY, writes=CANARY.writes[:-1]))
    with pytest.raises(AssertionError, match="other than those listed"):
        story.record()


def test_a_write_that_goes_past_the_proxy_fails(inside: Tell) -> None:
    story = inside(CANARY)

    def run(world: World, scenario: Scenario) -> Result:
        with world.table(world.full("counted")).transaction() as transaction:
            transaction.set_properties({"owner.team": "web"})
        return in_this_process(world, scenario)

    story.run = run
    with pytest.raises(AssertionError, match="the catalog made 5"):
        story.record()


def test_a_point_that_is_never_reached_fails(inside: Tell) -> None:
    story = inside(CANARY)
    with pytest.raises(AssertionError, match="something left to do"):
        story.is_done()
    story.restart()
    with pytest.raises(AssertionError, match="said that all is well"):
        story.cut_at(Point(len(CANARY.writes) + 1, When.BEFORE))
    story.scenario = replace(CANARY, command=lambda world: ("laketable", "--version"))
    with pytest.raises(AssertionError, match="ended by itself"):
        story.kill_at(Point(1, When.BEFORE))
