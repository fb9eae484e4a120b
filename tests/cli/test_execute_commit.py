"""`laketable execute --commit`: the metadata commit of a document that was released, and of no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.lab import Lab

ID, NOTE, THIRD = "name: id, type: long", "name: note, type: string", "name: third, type: int"


@pytest.fixture
def orders(lab: Lab) -> Path:
    """Let a table's wish be to lose a column, which is destructive, and write the plan's document."""
    lab.apply([ID, NOTE])
    path = lab.manifest([ID])
    lab.ok("plan", "-f", path, "--out", "plan.json")
    return path


def test_the_document_is_the_release(lab: Lab, orders: Path) -> None:
    assert lab.run("apply", "-f", orders, "--auto-approve").code == 3, "the control: without its hash nobody may"
    assert list(lab.columns()) == ["id", "note"]
    words = ("--result", lab.folder / "why.json", "--output", "json")
    done = lab.ok("execute", "--commit", "--plan", "plan.json", *words)
    assert list(lab.columns()) == ["id"]
    assert '"committed"' in done.out
    assert '"committed"' in (lab.folder / "why.json").read_text()
    assert "no changes" in lab.ok("apply", "-f", orders).out


def test_another_plan_than_the_released_one_is_refused(lab: Lab, orders: Path) -> None:
    lab.apply([ID, NOTE, THIRD])
    refused = lab.run("execute", "--commit", "--plan", "plan.json", "--result", lab.folder / "why.json")
    assert refused.code == 4, refused.out + refused.err
    assert "PlanStale" in (lab.folder / "why.json").read_text()
    assert list(lab.columns()) == ["id", "note", "third"]


def test_without_the_flag_the_commit_is_not_the_jobs(lab: Lab, orders: Path) -> None:
    lab.run("execute", "--plan", "plan.json")
    assert list(lab.columns()) == ["id", "note"]
