"""A plan of many tables that are what their manifests say, on the embedded catalog, beside other tools."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench import rivals
from tests.bench.data import project
from tests.bench.process import LAKETABLE, Cost, median, medians, module, run
from tests.bench.report import Row, Yardstick

NAME = "no-op"
CPU_SECONDS, MIB = 1.0, 150.0
FLOOR_SECONDS = 0.385  # of CPU, for 1,000 tables, where the limit was set
GROWTH = 1.25  # a table of the large plan may cost this many times one of the small plan
RUNS = 5


def measure(root: Path, *, quick: bool) -> Iterator[Row]:
    """Plan 1,000 tables, do the same with others, then plan ten times as many."""
    count, more = (100, 1000) if quick else (1000, 10000)
    folder = project(root, "tables", count)
    ours, floor = medians(RUNS, lambda: plan(folder), lambda: _floor(folder))
    what = f"laketable plan, {count:,} tables × 20 columns"
    yardstick = Yardstick(floor.cpu or 0.0, FLOOR_SECONDS)
    yield Row(NAME, what, ours, (("cpu", CPU_SECONDS), ("rss", MIB)), ours, yardstick=yardstick)
    with tempfile.TemporaryDirectory() as cache:
        plan(folder, cache)
        yield Row(NAME, "  again: manifests unchanged", median(RUNS, lambda: plan(folder, cache)), base=ours)
    yield Row(NAME, "  floor: libyaml, SQLite, msgspec", floor, base=ours)
    yield Row(
        NAME, "  PyIceberg, load_table one by one", run(module("loops", "sql", str(folder)), cwd=folder), base=ours
    )
    yield Row(NAME, f"  Alembic, check of {count:,} tables", rivals.alembic(count), base=ours)
    yield Row(NAME, f"  SQLMesh, plan of {count:,} models", rivals.sqlmesh(count), base=ours)
    large = project(root, "tables", more)
    small = run([LAKETABLE, "--help"], cwd=folder).cpu or 0.0
    cost = plan(large)
    yield Row(NAME, f"laketable plan, {more:,} tables × 20 columns", cost, base=ours)
    each = _per_table(ours, count, small), _per_table(cost, more, small)
    growth = each[1].times(1000), each[0].times(1000)
    yield Row(
        NAME, f"  growth: a table of {more:,} against one of {count:,}, ms", growth[0], base=growth[1], factor=GROWTH
    )


def plan(folder: Path, cache: str | None = None) -> Cost:
    """Plan a project whose plan is empty: exit code 2 would say that it is not."""
    command = [LAKETABLE, "plan", "-f", "tables", "--detailed-exitcode", "--include-upkeep"]
    return run(command, cwd=folder, env=None if cache is None else {"XDG_CACHE_HOME": cache})


def _floor(folder: Path) -> Cost:
    return run([sys.executable, "-m", "tests.bench.floor", str(folder)], cwd=folder)


def _per_table(cost: Cost, count: int, start: float) -> Cost:
    return Cost(wall=cost.wall / count, cpu=((cost.cpu or 0.0) - start) / count)
