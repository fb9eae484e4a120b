"""Run a story undisturbed, or with the operator killed at a place; then look whether it is as it should be."""

from __future__ import annotations

import re
import signal
from collections import Counter
from dataclasses import dataclass, field

from tests.crash.operator.journal import Place, places
from tests.crash.operator.scene import Scene, World, eventually, same
from tests.crash.operator.stories import Story, held
from tests.kube.client import Object

SETTLE_SECONDS = 300.0
RESYNCS = 5
LOOK_SECONDS = 0.2
QUIET_SECONDS = 0.5
"""How long nothing may be written before the silence begins: events are written beside the rest."""
_MADE = ("catalog: ", "create jobs", "create laketableplans")


@dataclass
class Told:
    """A story, told once without a crash: what was written, and how everything looked."""

    world: World
    story: Story
    writes: list[str] = field(default_factory=list)
    picture: Object = field(default_factory=dict)
    patience: float = SETTLE_SECONDS

    def record(self) -> Told:
        """Run it undisturbed: it writes what is listed, no more and no less, and then nothing."""
        with held(self.world, self.story):
            scene = self.begin()
            self.story.change(scene)
            self.story.is_over(scene)
            scene.wait_quiet()
            self.writes = [write for write in self.world.journal.tried if not self._comes_by_time(write)]
            self.story.holds(scene)
            self.picture = scene.picture()
            self.is_silent(scene)
        scene.end()
        unlisted = Counter(self.writes) - Counter(self.story.writes)
        unmade = Counter(self.story.writes) - Counter(self.writes)
        assert not unlisted, f"writes that are not listed: {unlisted}; and not made: {unmade}"
        assert not unmade, f"writes that were not made: {unmade}"
        return self

    @property
    def places(self) -> list[Place]:
        """Where it can be killed."""
        return places(self.writes)

    def kill_at(self, place: Place) -> None:
        """Kill the operator there and start another: everything ends as if nothing had been."""
        scene = self.world.scene()
        try:
            with held(self.world, self.story):
                self.begin(scene)
                self.world.journal.end_at(place, self._kill)
                self.story.change(scene)
                assert self.world.journal.is_reached(self.patience), f"{place}: never reached"
                self.world.operator.restart()
                eventually(lambda: same(self.picture, scene.picture()), self.patience, LOOK_SECONDS)
                self.story.holds(scene)
                self.was_once()
                self.is_silent(scene)
        finally:
            self.world.journal.begin("", "")
            if self.world.operator.process.poll() is not None:
                self.world.operator.restart()
            scene.end()

    def was_once(self) -> None:
        """Find that nothing was made twice, by both operators together: no commit, no Job, no plan."""
        made = Counter(write for write in self.world.journal.taken if write.startswith(_MADE))
        twice = made - Counter(self.writes)
        assert not twice, f"made more often than without a crash: {twice}"

    def is_silent(self, scene: Scene) -> None:
        """Look again five times: not one write, and one read of the table each time."""
        scene.wait_for_pods()
        scene.wait_quiet(QUIET_SECONDS)
        scene.begin_between_looks(self.story.watched)
        if self.story.by_timer:
            eventually(lambda: scene.looks(self.story.watched) > RESYNCS, self.patience)
        else:
            scene.resync(self.story.watched, RESYNCS + 1)
        self.was_silent(scene)

    def was_silent(self, scene: Scene) -> None:
        """Find no write, and at most one read of the catalog for each look at the watched table."""
        journal, watched = self.world.journal, self.story.watched
        assert journal.tried == [], f"looking again wrote something: {journal.tried}"
        looks, reads = scene.looks(watched), journal.reads(f"catalog table {watched}")
        assert looks > RESYNCS, f"it was looked at {looks} times"
        assert 0 < reads <= looks, f"{looks} looks read the table {reads} times: {journal.all_reads}"

    def begin(self, scene: Scene | None = None) -> Scene:
        """Make a scene in which the story can begin."""
        scene = scene or self.world.scene()
        scene.begin(self.story.table)
        self.story.before(scene)
        scene.wait_quiet(QUIET_SECONDS)
        scene.begin(self.story.table)
        return scene

    def _kill(self) -> None:
        self.world.operator.process.send_signal(signal.SIGKILL)
        self.world.operator.process.wait()

    def _comes_by_time(self, write: str) -> bool:
        return bool(self.story.by_time) and re.match(self.story.by_time, write) is not None
