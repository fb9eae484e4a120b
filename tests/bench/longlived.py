"""A no-op plan of one table with a long past: 10,000 snapshots and 500 schemas of 900 columns, 42 MiB of metadata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.bench.data import project
from tests.bench.noop import plan
from tests.bench.process import median, module, run
from tests.bench.report import Row, Yardstick
from tests.bench.startup import imports

NAME = "long-lived"
SECONDS, MIB = 0.5, 150.0
PARSE_SECONDS = 9.5  # PyIceberg, where the limit was set


def measure(root: Path, *, quick: bool) -> Iterator[Row]:
    """Plan it, and let PyIceberg load it."""
    folder = project(root, "old", 1000 if quick else 10000)
    (metadata,) = (folder / ".laketable/warehouse").rglob("*.metadata.json")
    size = metadata.stat().st_size / 1024**2
    cost = median(5, lambda: plan(folder))
    loaded = run(module("loops", "sql", str(folder)), cwd=folder)
    yardstick = Yardstick(loaded.wall - imports(folder).wall, PARSE_SECONDS)
    what, limits = f"laketable plan, {size:.0f} MiB of metadata", (("wall", SECONDS), ("rss", MIB))
    yield Row(NAME, what, cost, limits, cost, figure="wall", yardstick=yardstick)
    yield Row(NAME, "  PyIceberg, load_table", loaded, base=cost, figure="wall")
