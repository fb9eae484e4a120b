"""The law of materialized views: whatever happens to the sources, an incremental refresh gives the query's rows."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from reconciler.engines import refresh_rows
from reconciler.model.table import Desired
from tests.data.views import ViewLake

QUERIES = {
    "groups": (
        "SELECT k, sum(v) AS total, count(*) AS rows, count(n) AS present, min(n) AS low, max(n) AS high "
        "FROM @f GROUP BY k"
    ),
    "joined": "SELECT d.label, sum(f.v) AS total FROM @f AS f JOIN @d AS d ON f.k = d.k GROUP BY d.label",
    "projected": "SELECT id, k, v * 2 AS twice FROM @f WHERE n > 2",
    "looked_up": "SELECT f.n AS n, d.label AS label FROM @f AS f LEFT JOIN @d AS d ON f.k = d.k",
    "grand": "SELECT sum(v) AS total, count(*) AS rows FROM @f WHERE n IS NOT NULL",
    "keys": "SELECT k FROM @f GROUP BY k",
}
RUNS = {
    "embedded": ("copy-on-write", ("groups", "joined", "projected", "grand", "keys"), ("insert", "update", "delete")),
    "rest": ("merge-on-read", ("groups", "looked_up", "projected"), ("insert twice", "merge", "compact", "dimension")),
}
"""Per catalog: how its sources write deletes, the views, and what happens to the sources."""

WAYS = {
    "embedded": {"groups": "iii", "joined": "iii", "projected": "iii", "grand": "iff", "keys": "iii"},
    "rest": {"groups": "iii-", "looked_up": "iiif", "projected": "iii-"},
}
"""What each refresh did: (i)ncremental, (f)ull, or nothing because no source of the view had moved."""


def change(lake: ViewLake, step: str, chance: random.Random) -> None:
    """Change the sources."""
    some = f"id % 7 = {chance.randrange(7)}"
    match step:
        case "insert":
            _insert(lake, chance, 6)
        case "insert twice":
            _insert(lake, chance, 2)
            _insert(lake, chance, 3)
        case "delete":
            lake.sql(f"DELETE FROM @f WHERE {some}")
        case "update":
            lake.sql(f"UPDATE @f SET v = v + 1, k = (k + 1) % 4 WHERE {some}")
        case "merge":
            lake.sql(
                f"MERGE INTO @f USING (SELECT * FROM @f WHERE {some}) AS s ON @f.id = s.id "
                "WHEN MATCHED AND s.n > 4 THEN DELETE WHEN MATCHED THEN UPDATE SET n = s.n + 1"
            )
        case "compact":
            name = f"{lake.namespace}.f"
            lake.spark.sql(
                f"CALL {lake.lake}.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
            )
        case "dimension":
            lake.sql(f"UPDATE @d SET label = concat(label, '!') WHERE k = {chance.randrange(4)}")


def _insert(lake: ViewLake, chance: random.Random, count: int) -> None:
    rows = []
    for _ in range(count):
        key = chance.choice(["NULL", *range(4)])
        number = chance.choice(["NULL", *range(8)])
        rows.append(f"({chance.randrange(1000)}, {key}, {chance.randrange(10_000) / 100}, {number})")
    lake.sql(f"INSERT INTO @f VALUES {', '.join(rows)}")


def with_sources(made: ViewLake, mode: str) -> ViewLake:
    made.source("f", "id bigint, k int, v decimal(10,2), n int", mode=mode)
    made.source("d", "k int, label string", mode=mode)
    made.sql("INSERT INTO @d VALUES (0, 'a'), (1, 'b'), (2, 'b')")
    _insert(made, random.Random(1), 20)
    return made


def holds(lake: ViewLake, views: dict[str, Desired]) -> None:
    for name in views:
        assert lake.rows(name) == lake.result(QUERIES[name]), name


@pytest.mark.parametrize("lake_name", list(RUNS))
def test_incremental_is_full(spark: SparkSession, lakes: dict[str, dict[str, str]], lake_name: str) -> None:
    mode, names, steps = RUNS[lake_name]
    lake = with_sources(ViewLake(spark, lake_name, lakes[lake_name]), mode)
    assert ways_of(lake, names, steps) == WAYS[lake_name]


def ways_of(lake: ViewLake, names: Sequence[str], steps: Sequence[str]) -> dict[str, str]:
    """Change the sources step by step; the views must hold after each. Returns what the refreshes were."""
    views = {name: lake.view(name, QUERIES[name], "Incremental") for name in names}
    for view in views.values():
        lake.apply(view)
    holds(lake, views)
    chance, ways = random.Random(7), dict.fromkeys(names, "")
    for step in steps:
        change(lake, step, chance)
        for name, view in views.items():
            work = lake.refresh(view)
            ways[name] += "-" if work is None else "i" if work.delta is not None else "f"
        holds(lake, views)
    return ways


def test_control_a_wrong_merge_is_noticed(
    spark: SparkSession, lakes: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = with_sources(ViewLake(spark, "embedded", lakes["embedded"]), "copy-on-write")
    view = lake.view("groups", QUERIES["groups"])
    lake.apply(view)
    monkeypatch.setitem(refresh_rows._MERGE, "count", "max")
    change(lake, "insert", random.Random(3))
    work = lake.refresh(view)
    assert work is not None
    assert work.delta is not None
    with pytest.raises(AssertionError):
        holds(lake, {"groups": view})
