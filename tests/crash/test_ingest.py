"""Somebody appends every 200 ms while a column is planned, approved, filled and published, files are laid out anew, and
a view reads it all.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from reconciler.catalogs.connection import explicit
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.errors import CommitConflict, InvalidInput
from reconciler.model.table import TableIdent
from tests.crash import oracles
from tests.crash.conftest import Tell
from tests.crash.scenarios import BACKFILL, BRANCH, Row, declare_rewrite
from tests.crash.world import World

FIRST = 1000  # the ids of what is ingested start here
FOREVER = 5000
"""An ingest that got this far has won every race of the job's for more than a quarter of an hour."""


class Ingest:
    """A writer that knows nothing of LakeTable's plans; `phase` says what the others are doing."""

    def __init__(self, world: World, name: str) -> None:
        self._catalog = IcebergCatalog(explicit("lake", world.properties))
        self._world, self._ident = world, TableIdent.parse(world.full(name))
        self.ids: list[int] = []
        self.snapshots: list[int] = []
        self.failures: list[Exception] = []
        self.phases: list[str] = []
        self.phase = ""
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Append a row every 200 ms, as long as it takes."""
        thread = threading.Thread(target=self._append_all)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    @property
    def goes_on(self) -> bool:
        """Whether more rows are to be expected."""
        return not self.failures and len(self.ids) < FOREVER

    def _append_all(self) -> None:
        while self.goes_on and not self._stop.wait(0.2):
            number = FIRST + len(self.ids)
            phase = self.phase
            try:
                self._append(number)
            except Exception as error:  # noqa: BLE001
                self.failures.append(error)
                return
            self.ids.append(number)
            self.phases.append(phase)

    def _append(self, number: int) -> None:
        try:
            self._append_once(number)
        except (CommitConflict, InvalidInput):  # the partition spec or the schema changed since it was read
            self._append_once(number)

    def _append_once(self, number: int) -> None:
        schema = self._world.table(str(self._ident)).schema().as_arrow()
        row = {"id": number, "x": number % 5}
        batch = pa.RecordBatch.from_pylist([row], schema=schema)
        receipt = self._catalog.write_batch(self._ident, batch, f"row-{number}")
        snapshot = self._catalog.commit(self._ident, [receipt]).version.snapshot_id
        assert snapshot is not None
        self.snapshots.append(snapshot)


def filled(ids: list[int]) -> list[Row]:
    """Compute what the rows must be."""
    found = [*((r[0], r[1]) for r in BACKFILL.rows["orders"]), *((i, i % 5) for i in ids)]
    return [(i, x, None if x is None else x * 2 + i) for i, x in found]


def test_ingest_all_the_time_loses_nothing_and_voids_no_approval(inside: Tell) -> None:
    story = inside(BACKFILL)
    world, ingest = story.world, Ingest(story.world, "orders")
    with ingest.running():
        ingest.phase = "plan"
        while ingest.goes_on and "plan" not in ingest.phases:  # a plan may take less than ingest's pause
            world.ok("plan", "-f", ".", "--out", world.folder.parent / "plan.json")
        ingest.phase = "approve"
        world.ok("approve", "-f", "orders.yaml")
        ingest.phase = "apply"
        world.proxy.start()
        applied = world.ok("apply", "-f", ".")  # nothing but what was committed approves it
        written = world.proxy.written
        ingest.phase = "fill"
        world.ok("backfill", "-f", ".")
        ingest.phase = "rewrite"
        declare_rewrite(world)
        world.ok("apply", "-f", ".", "--auto-approve")
        ingest.phase = "refresh"
        _declare_view(world)
        world.ok("apply", "-f", ".", "--auto-approve")
        ingest.phase = ""
    assert not ingest.failures
    assert {"plan", "apply", "fill", "rewrite", "refresh"} <= set(ingest.phases)
    assert "published total" in applied.out
    assert f"orders: {BRANCH}" in written
    assert any("rows on main" in write and "done" in write for write in written), "main was to move under it"
    world.ok("backfill", "-f", "orders.yaml", "-f", "lake.yaml")
    metadata = world.metadata("orders")
    oracles.same_rows("orders", filled(ingest.ids), oracles.rows(world, "orders", ("id", "x", "total")))
    on_main = {snapshot["snapshot-id"] for snapshot in oracles.ancestry(metadata)}
    assert set(ingest.snapshots) <= on_main
    assert oracles.leftovers(metadata) == []
    assert world.run("plan", "-f", ".", "--detailed-exitcode").code == 0
    world.ok("refresh", "-f", ".")
    oracles.same_rows("sums", _sums(ingest.ids), oracles.rows(world, "sums", ("k", "total")))


def _declare_view(world: World) -> None:
    """Let a view read the filled column."""
    query = f"SELECT id % 3 AS k, sum(total) AS total FROM {world.full('orders')} GROUP BY id % 3"
    world.declare("sums", "materializedView:", f"  query: {query}")


def _sums(ids: list[int]) -> list[Row]:
    found: dict[int, int] = {}
    for number, _, total in filled(ids):
        found[number % 3] = found.get(number % 3, 0) + (total or 0)
    return list(found.items())
