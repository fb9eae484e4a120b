"""A backfill on a real Iceberg: right values, nothing else changed, published in one commit."""

from __future__ import annotations

import pytest

from reconciler.model.table import Computed
from tests.data.kit import Lake, Shop

DOUBLED = Computed(expression="x * 2 + id")


def model(ids: range) -> list[tuple[int, int | None]]:
    """Compute in plain Python what Spark must."""
    return sorted(((i, None if i % 7 == 6 else (i % 5) * 2 + i) for i in ids), key=repr)


@pytest.mark.parametrize(("lake", "version"), [("embedded", 2), ("rest", 2), ("rest", 3)])
def test_fills_every_row_in_one_commit_on_main(shop: Shop, lake: str, version: int) -> None:
    table = shop.fresh(lake, version=version)
    before = table.rows("id", "x", "note")
    operation = table.evolve(table.wants(total=DOUBLED))
    heads = table.ancestry()
    staged = table.start(operation)
    assert table.rows("id", "total") == sorted(((i, None) for i in range(12)), key=repr)
    outcome = staged.commit()
    assert not outcome.replayed
    assert table.rows("id", "total") == model(range(12))
    assert table.rows("id", "x", "note") == before
    assert table.ancestry()[-len(heads) :] == heads
    assert table.branches() == []
    assert table.plan(table.wants(total=DOUBLED)).operations == ()
