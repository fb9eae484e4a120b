"""The program rewrites existing files: the example, an approval that outlives ingest, upkeep on request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.lab import EXAMPLES, Lab

TABLE = "plant.readings"
FIRST = EXAMPLES / "repartition/readings.yaml"
SECOND = EXAMPLES / "repartition/step-2/readings.yaml"
START = datetime(2026, 3, 30, tzinfo=UTC)


@pytest.fixture
def lab(jobs_inside: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    folder = tmp_path / "project"
    folder.mkdir()
    return Lab(folder)


def readings(first: int, count: int = 6) -> list[dict[str, Any]]:
    return [
        {"reading_id": i, "sensor": f"s{i * 7 % 5}", "celsius": float(i), "taken_at": START + timedelta(hours=9 * i)}
        for i in range(first, first + count)
    ]


def layouts(lab: Lab) -> set[tuple[int, int | None]]:
    files = lab.table(TABLE).inspect.files()
    return set(zip(files["spec_id"].to_pylist(), files["sort_order_id"].to_pylist(), strict=True))


def test_a_partition_change_with_rewrite_is_one_pass_and_then_in_sync(lab: Lab) -> None:
    lab.ok("apply", "-f", FIRST, "--auto-approve")
    lab.load(readings(0), TABLE)
    lab.load(readings(6, 4), TABLE)
    shown = lab.run("plan", "-f", SECOND).out
    assert "one pass instead of 4: saves" in " ".join(shown.split())
    assert "inexact" in shown
    approved = lab.plan_hash("-f", SECOND)
    lab.load(readings(10, 2), TABLE)  # ingest does not void what was approved
    assert lab.plan_hash("-f", SECOND) == approved
    before = {row["reading_id"] for row in lab.rows(TABLE)}
    result = lab.ok("apply", "-f", SECOND, "--approve", approved)
    assert "✓ plant.readings: rewrote existing files" in result.out
    rows = lab.rows(TABLE)
    assert {row["reading_id"] for row in rows} == before
    assert {(row["reading_id"], row["fahrenheit"]) for row in rows} == {(i, i * 1.8 + 32) for i in before}
    version = lab.table(TABLE).metadata
    assert layouts(lab) == {(version.default_spec_id, version.default_sort_order_id)}
    assert [name for name in version.refs if not name.startswith("lt_undo_")] == ["main"]
    assert lab.run("plan", "-f", SECOND, "--detailed-exitcode").code == 0
    # What others bring later neither drifts nor waits for an approval; it is brought up when somebody asks.
    lab.load([{**row, "fahrenheit": None} for row in readings(12, 3)], TABLE)
    shown = lab.run("plan", "-f", SECOND, "--include-upkeep").out
    assert "index by_sensor: indexed" in " ".join(shown.split())
    assert "index by_sensor: indexed" in lab.ok("status", "-f", SECOND).out
    assert lab.run("plan", "-f", SECOND, "--detailed-exitcode").code == 0
    lab.ok("apply", "-f", SECOND, "--include-upkeep")
    version = lab.table(TABLE).metadata
    assert layouts(lab) == {(version.default_spec_id, version.default_sort_order_id)}
    assert "indexed" not in lab.run("plan", "-f", SECOND, "--include-upkeep").out
