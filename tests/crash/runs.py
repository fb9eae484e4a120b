"""Run a story to its end, or end it at a point; what the proxy saw is compared with what was written down."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.cli.lab import Result
from tests.crash import canary, oracles
from tests.crash.recorder import Point, When
from tests.crash.scenarios import Scenario
from tests.crash.world import TIMEOUT_SECONDS, World, kill_group, wait_for_group
from tests.proxy import Fault

Run = Callable[[World, Scenario], Result]


def in_this_process(world: World, scenario: Scenario) -> Result:
    """Run the story's command here, on the Spark session of the tests."""
    program, *args = scenario.command(world)
    if program == "canary":
        return Result(canary.main(args), "", "")
    return world.run(*args)


def as_a_process(world: World, scenario: Scenario) -> Result:
    """Run the story's command as a process of its own."""
    return world.finish(world.argv(scenario.command(world)))


@dataclass
class Story:
    """A story that is ready to be run again and again from the same start."""

    world: World
    scenario: Scenario
    run: Run
    heads: dict[str, int] = field(default_factory=dict)
    recorded: list[str] = field(default_factory=list)

    def prepare(self) -> None:
        """Make the tables, and remember them."""
        self.world.proxy.start()
        self.scenario.prepare(self.world)
        self.world.save()
        self.heads = oracles.heads(self.world)

    def restart(self) -> None:
        """Put everything back."""
        self.world.restore()

    def record(self) -> list[str]:
        """Run it undisturbed and return its writes as the proxy saw them; the catalog must have counted as many."""
        self.restart()
        before = self._versions()
        self.finish()
        self.recorded = self.world.proxy.written
        commits = self._versions() - before
        assert commits == len(self.recorded), (
            f"{len(self.recorded)} writes passed the proxy, the catalog made {commits}"
        )
        assert tuple(self.recorded) == self.scenario.writes, f"writes other than those listed: {self.recorded}"
        self.converged()
        return self.recorded

    def finish(self, faults: Mapping[int, Fault] | None = None) -> Result:
        """Run it to its end, whatever the n-th write meets."""
        self.world.proxy.start()
        self.world.proxy.meet(faults or {})
        result = self.run(self.world, self.scenario)
        told = f"exit {result.code}\n{result.out}\n{result.err}"
        is_over = bool(self.scenario.is_over) and self.scenario.is_over in told
        assert result.code == 0 or (is_over and not self.world.proxy.attempted), told
        return result

    def converged(self) -> None:
        """Check everything, and that nothing is left to do."""
        oracles.converged(self.world, self.scenario, self.heads)

    def is_done(self) -> None:
        """Check that another run writes nothing."""
        self.finish()
        assert self.world.proxy.attempted == [], "there was something left to do"

    # ------------------------------------------------------------ ends

    def cut_at(self, point: Point) -> list[str]:
        """Run it with nothing getting through from a point on; return what was written before."""
        self.world.proxy.start()
        self.world.proxy.cut_at(point)
        result = self.run(self.world, self.scenario)
        assert result.code != 0, f"cut off {point}, and it said that all is well"
        return self.world.proxy.written

    def kill_at(self, point: Point) -> list[str]:
        """Run it as a process that is killed at a point; return what was written before."""
        self.world.proxy.start()
        with self._process() as process:
            self.world.proxy.end_at(point, lambda: kill_group(process.pid))
            code = process.wait(timeout=TIMEOUT_SECONDS)
        assert code == -signal.SIGKILL, f"it ended by itself ({code}) before {point}"
        return self.world.proxy.written

    def interrupt_at(self, number: int) -> int:
        """Run it as a process that gets a terminal's Ctrl-C during the n-th write; return its exit code."""
        self.world.proxy.start()
        with self._process() as process:
            self.world.proxy.meet({number: Fault(call=lambda: os.killpg(process.pid, signal.SIGINT))})
            code = process.wait(timeout=TIMEOUT_SECONDS)
            wait_for_group(process.pid)
        return code

    @contextlib.contextmanager
    def _process(self) -> Iterator[subprocess.Popen[str]]:
        """Start the command; whatever becomes of it, nothing of it is left."""
        process = self.world.spawn(self.world.argv(self.scenario.command(self.world)))
        try:
            yield process
        finally:
            kill_group(process.pid)
            process.wait()

    def _versions(self) -> int:
        return sum(self._version(name) for name in self.world.tables())

    def _version(self, name: str) -> int:
        return len(self.world.metadata(name).get("metadata-log", ())) + 1


def killed_and_taken_up(story: Story, point: Point, recorded: Sequence[str]) -> None:
    """Kill it at a point: nothing but the writes before it are made, and by the next run nothing but the others."""
    story.restart()
    taken = point.number if point.when is When.AFTER else point.number - 1
    assert story.kill_at(point) == list(recorded[:taken])
    story.finish()
    assert story.world.proxy.written == list(recorded[taken:])
    story.converged()
