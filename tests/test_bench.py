"""The bench measures what it says: its tables plan to nothing, its rivals see the same tables, and a miss shows."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest

from tests.bench import data, noop, rest
from tests.bench.process import LAKETABLE, Cost, module, run
from tests.bench.report import Row, Yardstick, table
from tests.bench.startup import evolved


@pytest.mark.parametrize(("kind", "size"), [("tables", 3), ("old", 40), ("deep", 400)])
def test_generated_tables_plan_to_nothing_not_even_upkeep(kind: str, size: int, tmp_path: Path) -> None:
    noop.plan(data.project(tmp_path, kind, size))


def test_another_manifest_plans_to_something(tmp_path: Path) -> None:
    folder = data.project(tmp_path, "tables", 2)
    path = folder / "tables/t00001.yaml"
    path.write_text(path.read_text().replace("doc: open or closed", "doc: closed or open"))
    with pytest.raises(RuntimeError, match="exited 2, not 0"):
        noop.plan(folder)
    assert evolved(data.manifest(data.TEMPLATE)) != data.manifest(data.TEMPLATE)


def test_the_next_version_of_the_deep_table_has_changes(tmp_path: Path) -> None:
    folder = data.project(tmp_path, "deep", 400)
    run([LAKETABLE, "plan", "-f", "evolved", "--detailed-exitcode"], cwd=folder, expect=2)


def test_the_floor_and_pyiceberg_read_the_same_tables(tmp_path: Path) -> None:
    folder = data.project(tmp_path, "tables", 3)
    run([sys.executable, "-m", "tests.bench.floor", str(folder)], cwd=folder)
    run(module("loops", "sql", str(folder)), cwd=folder)
    (folder / "tables/t00002.yaml").unlink()
    with pytest.raises(RuntimeError, match="not what the manifests say"):
        run([sys.executable, "-m", "tests.bench.floor", str(folder)], cwd=folder)


def test_a_rest_catalog_is_planned_and_its_answers_are_kept(tmp_path: Path) -> None:
    folder = data.project(tmp_path, "tables", 3)
    cache = tmp_path / "cache"
    with rest.server(folder) as uri:
        rest.plan(folder, uri, str(cache))
        with sqlite3.connect(cache / "laketable/metadata/answers.db") as connection:
            assert connection.execute("SELECT count(*) FROM answers").fetchone() == (3,)
        rest.plan(folder, uri, str(cache))
        run(module("loops", "rest-threads", str(folder), uri, "2"), cwd=folder)


def test_a_missed_target_is_called_so() -> None:
    slow, fast = Cost(wall=1.2, cpu=1.1, rss=100.0), Cost(wall=0.2, cpu=0.2, rss=90.0)
    rows = [
        Row("x", "slow", slow, (("cpu", 1.0), ("rss", 150.0))),
        Row("x", "fast", fast, (("cpu", 1.0), ("rss", 95.0)), slow),
        Row("x", "grown", slow, base=fast, factor=1.25),
        Row("x", "beside", slow, base=fast),
        Row("x", "written", Cost(wall=1.0, count=3), (("count", 0),)),
        Row("x", "silent", Cost(wall=1.0, count=0), (("count", 0),)),
    ]
    assert [row.missed for row in rows] == [True, False, True, False, True, False]
    lines = table(rows).splitlines()
    assert lines[2].endswith("≤ 1 s CPU, ≤ 150 MiB  MISSED")
    assert lines[3].endswith("≤ 1 s CPU, ≤ 95 MiB   met")
    assert "5.5×" in lines[5]
    assert lines[6].split()[-4:] == ["3", "≤", "0", "MISSED"]
    assert lines[7].split()[-4:] == ["0", "≤", "0", "met"]


def test_a_slow_machine_explains_a_missed_limit_and_excuses_none() -> None:
    cost = Cost(wall=1.2, cpu=1.1, rss=160.0)

    def verdict(figure: str, limit: float, slowness: float) -> str:
        row = Row("x", "y", cost, ((figure, limit),), yardstick=Yardstick(0.4 * slowness, 0.4))
        assert row.missed == (getattr(cost, figure) > limit)
        return row.verdict

    assert [verdict("cpu", 1.0, slowness) for slowness in (0.5, 1.05)] == ["MISSED", "MISSED"]
    assert verdict("cpu", 1.0, 1.15) == "MISSED, machine × 1.15"
    assert verdict("wall", 1.3, 0.5) == verdict("wall", 1.3, 2.0) == "met"
    assert verdict("rss", 150.0, 2.0) == "MISSED"
