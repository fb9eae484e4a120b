"""A tag that follows main, over some nights, through the real program on the embedded catalog."""

from __future__ import annotations

import pytest

from reconciler.cli import workspace
from tests.cli.lab import Lab

DAY_MS = 86_400_000
COLUMNS = ("name: id, type: long",)
NIGHTLY = 'tags: [{name: nightly, track: main, schedule: "0 2 * * *"}]'


def head(lab: Lab) -> int:
    found = lab.table().current_snapshot()
    assert found
    return found.snapshot_id


def tagged(lab: Lab) -> int:
    return lab.table().metadata.refs["nightly"].snapshot_id


def test_a_tag_follows_main_until_somebody_else_moves_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    start, later = workspace.now_ms(), 0
    monkeypatch.setattr(workspace, "now_ms", lambda: start + later)
    lab.apply(COLUMNS)
    lab.append([{"id": 1}])
    first = head(lab)
    path = lab.apply(COLUMNS, NIGHTLY)
    assert tagged(lab) == first
    lab.append([{"id": 2}])
    second = head(lab)
    assert "move nightly" not in lab.ok("plan", "-f", path, "--include-upkeep").out, "its schedule has not ticked"

    later = 2 * DAY_MS
    assert "move nightly" in lab.ok("plan", "-f", path, "--include-upkeep").out
    assert lab.run("plan", "-f", path, "--detailed-exitcode").code == 0, "upkeep is no drift"
    lab.ok("apply", "-f", path)
    assert tagged(lab) == first, "and nobody asked for it"
    lab.ok("maintain", "-f", path)
    assert tagged(lab) == second
    with lab.untouched():
        assert "nothing is due" in lab.ok("maintain", "-f", path).out

    lab.table().manage_snapshots().remove_tag("nightly").commit()
    lab.table().manage_snapshots().create_tag(first, "nightly").commit()
    later = 4 * DAY_MS
    with lab.untouched():
        assert "LK113" in lab.ok("plan", "-f", path).out
        lab.ok("maintain", "-f", path)
    lab.table().manage_snapshots().remove_tag("nightly").commit()
    lab.ok("apply", "-f", path, "--auto-approve")
    assert tagged(lab) == second
    assert "LK113" not in lab.ok("plan", "-f", path).out
