"""The same plan over a REST catalog at a distance of 20 ms, beside PyIceberg one by one and with threads."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.bench.data import project
from tests.bench.process import LAKETABLE, Cost, environment, median, module, run
from tests.bench.report import Row, Yardstick

NAME = "rest"
WALL_SECONDS = 2.0
ONE_BY_ONE_SECONDS = 21.7  # of wall time, PyIceberg, 1,000 tables, where the limit was set
LATENCY = 0.02
THREADS = 32
SUBSET = 100
RUNS = 3


def measure(root: Path, *, quick: bool) -> Iterator[Row]:
    """Plan with nothing remembered, plan again, and let PyIceberg load the same tables."""
    count = 200 if quick else 1000
    folder = project(root, "tables", count)
    with server(folder) as uri:
        start = run(module("loops", "rest", str(folder), uri, "1"), cwd=folder)
        some = run(module("loops", "rest", str(folder), uri, str(SUBSET)), cwd=folder)
        one_by_one = _extrapolate(start, some, count)
        limited = partial(
            Row,
            limits=(("wall", WALL_SECONDS),),
            figure="wall",
            yardstick=Yardstick(one_by_one.wall, ONE_BY_ONE_SECONDS),
        )
        cold = median(RUNS, lambda: plan(folder, uri))
        what = f"laketable plan, {count:,} tables, {LATENCY * 1000:.0f} ms"
        yield limited(NAME, what, cold, base=cold)
        with tempfile.TemporaryDirectory() as cache:
            plan(folder, uri, cache)
            warm = median(RUNS, lambda: plan(folder, uri, cache))
        yield limited(NAME, "  again: every answer is 304", warm, base=cold)
        threads = run(module("loops", "rest-threads", str(folder), uri, str(THREADS)), cwd=folder)
        yield Row(NAME, f"  PyIceberg, {THREADS} threads", threads, base=cold, figure="wall")
        what = f"  PyIceberg one by one (extrapolated from {SUBSET})"
        yield Row(NAME, what, one_by_one, base=cold, figure="wall")


def plan(folder: Path, uri: str, cache: str | None = None) -> Cost:
    """Plan against the catalog at `uri`, with this cache folder or with an empty one."""
    env = {"PYICEBERG_CATALOG__LAKE__URI": uri, "PYICEBERG_CATALOG__LAKE__TYPE": "rest"}
    command = [LAKETABLE, "plan", "-f", "tables", "--detailed-exitcode", "--include-upkeep"]
    return run(command, cwd=folder, env=env if cache is None else {**env, "XDG_CACHE_HOME": cache})


def _extrapolate(start: Cost, some: Cost, count: int) -> Cost:
    """Take start-up once and every further table at the price of those measured."""
    factor = (count - 1) / (SUBSET - 1)
    cpu = (start.cpu or 0.0) + ((some.cpu or 0.0) - (start.cpu or 0.0)) * factor
    return Cost(start.wall + (some.wall - start.wall) * factor, cpu, some.rss)


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run the stub in a process of its own; it ends with its stdin."""
    command, env = module("rest_stub", str(folder), str(LATENCY)), environment(None)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as server:
        if server.stdin is None or server.stdout is None:
            raise RuntimeError("the stub has no pipes")
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()
