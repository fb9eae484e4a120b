"""A no-op plan of one table with a long past: 10,000 snapshots and 500 schemas of 900 columns, 42 MiB of metadata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.bench.data import project
from tests.bench.noop import plan
from tests.bench.process import median
from tests.bench.report import Row

NAME = "long-lived"
SECONDS, MIB = 0.5, 150.0


def measure(root: Path, *, quick: bool) -> Iterator[Row]:
    """Plan it."""
    folder = project(root, "old", 1000 if quick else 10000)
    (metadata,) = (folder / ".laketable/warehouse").rglob("*.metadata.json")
    size = metadata.stat().st_size / 1024**2
    cost = median(5, lambda: plan(folder))
    yield Row(NAME, f"laketable plan, {size:.0f} MiB of metadata", cost, (("wall", SECONDS), ("rss", MIB)))
