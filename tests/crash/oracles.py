"""What must hold after every run, however often it was killed; each of these is shown to fail in test_oracles."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

from reconciler.engines.data_state import CHUNK_STAMP, OPERATION_STAMP
from tests.crash.scenarios import Row, Scenario
from tests.crash.world import World


def converged(world: World, scenario: Scenario, heads: dict[str, int]) -> None:
    """Check rows, branches, chunks and ancestry of every table of a story; `heads` were main's before it."""
    for name, expected in scenario.rows.items():
        metadata = world.metadata(name)
        same_rows(name, expected, rows(world, name, scenario.columns[name]))
        assert leftovers(metadata) == [], f"{name} has branches left"
        on_main = [snapshot["snapshot-id"] for snapshot in ancestry(metadata)]
        assert name not in heads or heads[name] in on_main, f"{name}: main was re-pointed, others' commits are gone"
    stamps = [stamp for name in scenario.rows for stamp in chunks(world.metadata(name))]
    twice = [stamp for stamp, count in Counter(stamps).items() if count > 1]
    assert not twice, f"chunks that are in main more than once: {twice}"
    assert len(stamps) == scenario.chunks, f"{len(stamps)} chunks in main, {scenario.chunks} were to be made"


def same_rows(name: str, expected: Iterable[Row], found: Iterable[Row]) -> None:
    """Compare the hashes of rows, each as often as it occurs."""
    wanted, there = Counter(map(row_hash, expected)), Counter(map(row_hash, found))
    missing, extra = (wanted - there).total(), (there - wanted).total()
    assert wanted == there, f"{name}: {missing} rows are missing, {extra} are too many"


def row_hash(row: Row) -> str:
    """Digest one row."""
    return hashlib.sha256(repr(row).encode()).hexdigest()


def rows(world: World, name: str, columns: tuple[str, ...]) -> list[Row]:
    """Read a table as another client does."""
    return [tuple(row[column] for column in columns) for row in world.rows(world.full(name))]


def leftovers(metadata: dict[str, Any]) -> list[str]:
    """Name the branches of work that is over; undo tags are meant to stay."""
    return [name for name, ref in metadata["refs"].items() if name.startswith("lt_") and ref["type"] == "branch"]


def ancestry(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Walk main from its head."""
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots", ())}
    at, found = metadata["refs"].get("main", {}).get("snapshot-id"), []
    while at in by_id:
        found.append(by_id[at])
        at = by_id[at].get("parent-snapshot-id")
    return found


def chunks(metadata: dict[str, Any]) -> list[str]:
    """List the chunks stamped on main's snapshots."""
    summaries = [snapshot["summary"] for snapshot in ancestry(metadata)]
    return [f"{s[OPERATION_STAMP]}/{s[CHUNK_STAMP]}" for s in summaries if s.get(CHUNK_STAMP)]


def heads(world: World) -> dict[str, int]:
    """Note where main of every table stands."""
    found = {}
    for name in world.tables():
        ref = world.metadata(name)["refs"].get("main")
        if ref is not None:
            found[name] = int(ref["snapshot-id"])
    return found
