"""The program itself: plan, apply, execute, backfill, drift; jobs as processes where it is they that matter."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.cli.lab import Lab
from tests.inside import InProcess

pytestmark = pytest.mark.spark

PLAIN = ("name: id, type: long", "name: x, type: int")
COMPUTED = (*PLAIN, "name: total, type: long, computed: {expression: 'x * 2 + id'}")


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    folder = tmp_path / "project"
    folder.mkdir()
    return Lab(folder)


def test_apply_commits_the_column_and_fills_its_rows(lab: Lab) -> None:
    lab.apply(PLAIN)
    lab.append([{"id": 1, "x": 1}, {"id": 2, "x": None}])
    lab.append([{"id": 3, "x": 3}])
    path = lab.manifest(COMPUTED)
    shown = lab.run("plan", "-f", path).out
    assert "backfill total" in shown
    assert "rewrite" in shown
    result = lab.ok("apply", "-f", path, "--auto-approve")
    assert "published total: 2 files, 3 rows" in result.out
    rows = sorted((row["id"], row["total"]) for row in lab.rows() if row["total"] is not None)
    assert rows == [(1, 3), (3, 9)]
    assert "no changes" in lab.ok("apply", "-f", path).out
    # rows that somebody appends without the value
    lab.append([{"id": 4, "x": 4, "total": None}])
    drift = lab.run("drift", "-f", path)
    assert "total: 2 rows without a value" in drift.out
    assert drift.code == 0
    assert "filled total" in lab.ok("backfill", "-f", path).out
    assert sorted((r["id"], r["total"]) for r in lab.rows() if r["id"] == 4) == [(4, 12)]
    assert branches(lab) == []


def test_a_renamed_source_column_rewrites_nothing_and_a_name_given_to_another_all_rows(lab: Lab) -> None:
    lab.apply(("name: id, type: long", "name: x, type: int", "name: y, type: int"))
    lab.append([{"id": 1, "x": 1, "y": 50}, {"id": 2, "x": 2, "y": 60}])
    computed = "name: total, type: long, computed: {expression: 'x * 2'}"
    lab.apply(("name: id, type: long", "name: x, type: int", "name: y, type: int", computed))
    head = lab.table().metadata.current_snapshot_id
    renamed = ("name: id, type: long", "name: old, type: int, renamedFrom: x", "name: y, type: int")
    lab.apply((*renamed, computed.replace("x * 2", "old * 2")))
    assert lab.table().metadata.current_snapshot_id == head
    assert sorted((row["old"], row["total"]) for row in lab.rows()) == [(1, 2), (2, 4)]
    given = ("name: id, type: long", "name: older, type: int, renamedFrom: old", "name: old, type: int, renamedFrom: y")
    path = lab.apply((*given, computed.replace("x * 2", "old * 2")))
    assert sorted((row["older"], row["old"], row["total"]) for row in lab.rows()) == [(1, 50, 100), (2, 60, 120)]
    assert "no changes" in lab.ok("apply", "-f", path).out


def branches(lab: Lab) -> list[str]:
    refs = lab.table().metadata.refs
    return [name for name, ref in refs.items() if name != "main" and ref.snapshot_ref_type == "branch"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_a_job_that_ended_half_way_is_taken_up_by_the_next_apply(
    lab: Lab, jobs_inside: None, how: signal.Signals
) -> None:
    lab.apply(PLAIN)
    for number in range(4):
        lab.append([{"id": number, "x": number}])
    path = lab.manifest(COMPUTED)
    process = lab.start("apply", "-f", path, "--auto-approve", "--output", "json", start_new_session=True)
    assert process.stdout is not None
    for line in process.stdout:
        if '"progress"' in line:
            break
    if how is signal.SIGKILL:
        os.killpg(process.pid, how)  # the job and its JVM too
    else:
        process.send_signal(how)
    process.communicate(timeout=300)
    assert process.returncode != 0
    assert all(row.get("total") is None for row in lab.rows())
    left = branches(lab)
    assert len(left) == 1
    result = lab.ok("apply", "-f", path)
    assert "published total" in result.out
    assert sorted((r["id"], r["total"]) for r in lab.rows()) == [(n, n * 3) for n in range(4)]
    assert branches(lab) == []


def test_execute_waits_for_the_metadata_and_finds_finished_work_done(lab: Lab, jobs_inside: None) -> None:
    lab.apply(PLAIN)
    lab.append([{"id": 1, "x": 1}])
    path = lab.manifest(COMPUTED)
    lab.run("plan", "-f", path, "--out", "plan.json")
    early = lab.process("execute", "--plan", "plan.json")
    assert early.code == 4
    assert "metadata" in early.err
    lab.ok("apply", "-f", path, "--auto-approve")
    with lab.untouched():
        assert "an earlier run had published it" in lab.ok("execute", "--plan", "plan.json").out


def test_a_hostile_expression_is_refused_by_validate(lab: Lab) -> None:
    path = lab.manifest((*PLAIN, "name: total, type: long, computed: {expression: \"reflect('a', 'b')\"}"))
    result = lab.run("validate", "-f", path)
    assert result.code == 1
    assert "reflect() is not allowed" in result.err
    assert "orders.yaml:8" in result.err


def test_a_runtime_that_only_the_operator_starts_is_refused_at_plan_time(lab: Lab) -> None:
    lab.apply(PLAIN)
    lab.append([{"id": 1, "x": 1}])
    settings = "".join(f"    {key}: '{value}'\n" for key, value in lab.properties.items())
    lab.write(
        "catalog.yaml",
        "apiVersion: laketable.dev/v1alpha1\nkind: LakeCatalog\nmetadata: {name: lake, namespace: sales}\n"
        f"spec:\n  properties:\n{settings}  runtime: {{type: job}}\n",
    )
    result = lab.run("plan", "-f", lab.manifest(COMPUTED))
    assert "LK208" in result.out
    assert "set its runtime to local" in result.out


def test_a_catalog_alone_refuses_rows_before_it_commits_anything(lab: Lab) -> None:
    lab.apply(PLAIN)
    lab.append([{"id": 1, "x": 1}])
    path = lab.manifest(COMPUTED)
    with lab.untouched():
        result = lab.run("apply", "-f", path, "--auto-approve", "--engine", "catalog")
    assert result.code != 0
    assert "A catalog reads and fills no rows" in result.err


def test_an_approved_plan_goes_on_after_a_crash_before_its_branch(
    lab: Lab, jobs_inside: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.apply(PLAIN)
    lab.append([{"id": 1, "x": 1}])
    path = lab.manifest(COMPUTED)
    lab.ok("plan", "-f", path, "--out", "plan.json")
    approved = lab.plan_hash("-f", path)

    class Crashed(BaseException):
        """The machine went away when the job was to be started."""

    def crash(self: InProcess, plan: object) -> None:
        raise Crashed

    with monkeypatch.context() as patch:
        patch.setattr(InProcess, "run", crash)
        with pytest.raises(Crashed):
            lab.run("apply", "plan.json", "--approve", approved)
    assert branches(lab) == []
    assert "total" in lab.columns()
    early = lab.manifest((*PLAIN, "name: total, type: long, computed: {expression: 'x * 3'}"), file="other.yaml")
    assert lab.run("apply", "-f", early).code == 3, "another expression was not released"
    result = lab.ok("apply", "plan.json")
    assert "published total" in result.out
    assert [row["total"] for row in lab.rows()] == [3]
    tags = [name for name in lab.table().metadata.refs if name.startswith("lt_undo_")]
    assert tags == [f"lt_undo_{approved[7:19]}"]
    history = lab.ok("history", "sales.orders", "-o", "json").json()
    assert [(r.get("kind", "commit"), r["plan"]) for r in history[1:]] == [("commit", approved), ("backfill", approved)]
    assert history[-1]["bytes"] > 0
