"""A world per story: a project in a namespace of its own behind a proxy of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from reconciler.engines import local_runtime
from tests.conftest import forget_settings
from tests.crash.recorder import CommitProxy
from tests.crash.runs import Run, Story, as_a_process, in_this_process
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.crash.tally import Line, table
from tests.crash.world import World
from tests.inside import InProcess

TALLY = pytest.StashKey[list[Line]]()
_NUMBERS = itertools.count()
Tell = Callable[[Scenario], Story]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what became of the matrix, when it ran."""
    lines = config.stash.get(TALLY, [])
    if lines:
        terminalreporter.section("kill -9 before and after every write")
        for line in table(lines):
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def tally(request: pytest.FixtureRequest) -> list[Line]:
    """Count points; printed at the end."""
    return request.config.stash.setdefault(TALLY, [])


@pytest.fixture
def proxy(rest_catalog: dict[str, str]) -> Iterator[CommitProxy]:
    """Stand between the program and Iceberg's REST server."""
    with CommitProxy(rest_catalog["uri"]) as proxy:
        yield proxy


@pytest.fixture
def world(bare: None, tmp_path: Path, proxy: CommitProxy, rest_catalog: dict[str, str]) -> World:
    """Make an empty project."""
    folder = tmp_path / "project"
    folder.mkdir()
    return World(folder, rest_catalog, proxy, f"crash{next(_NUMBERS)}")


@pytest.fixture
def inside(world: World, jobs_inside: None) -> Tell:
    """Prepare stories that run in this process, on the Spark session of all tests."""
    return _teller(world, in_this_process)


@pytest.fixture(scope="module", params=SCENARIOS, ids=lambda s: s.kind)
def recorded(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    rest_catalog: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Story]:
    """Prepare and record a story of each kind, once for all that befalls it in this process."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch, CommitProxy(rest_catalog["uri"]) as proxy:
        forget_settings(patch)
        patch.setenv("PYICEBERG_HOME", str(folder))
        patch.setattr(local_runtime, "LocalRuntime", InProcess)
        story = Story(World(folder, rest_catalog, proxy, f"crash{next(_NUMBERS)}"), request.param, in_this_process)
        story.prepare()
        InProcess.works.clear()
        story.record()
        assert story.scenario.works <= InProcess.works, f"its plan asks for {InProcess.works}"
        yield story


@pytest.fixture
def outside(world: World) -> Tell:
    """Prepare stories that run as processes."""
    return _teller(world, as_a_process)


def _teller(world: World, run: Run) -> Tell:
    def tell(scenario: Scenario) -> Story:
        story = Story(world, scenario, run)
        story.prepare()
        return story

    return tell
