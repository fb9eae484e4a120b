"""The program on each of its runtimes, as processes of their own: who does the work, and how an interruption ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.lab import Lab

pytestmark = pytest.mark.spark

PLAIN = ("name: id, type: long", "name: x, type: int")
_OF_JAVA = ("WARNING", "Picked up JAVA_TOOL_OPTIONS", "NOTE: Picked up")
COMPUTED = (*PLAIN, "name: total, type: long, computed: {expression: 'x * 2 + id'}")


def catalog_manifest(lab: Lab, name: str, runtime: str) -> None:
    """Say where the catalog's data jobs run."""
    settings = "".join(f"    {key}: '{value}'\n" for key, value in lab.properties.items())
    lab.write(
        "catalog.yaml",
        f"apiVersion: laketable.dev/v1alpha1\nkind: LakeCatalog\nmetadata: {{name: {name}, namespace: sales}}\n"
        f"spec:\n  properties:\n{settings}  runtime: {runtime}\n",
    )


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    folder = tmp_path / "project"
    folder.mkdir()
    return Lab(folder)


def test_apply_fills_rows_through_a_spark_connect_server(
    lakes: dict[str, dict[str, str]], connect_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    lab = Lab(tmp_path, lakes["rest"])
    catalog_manifest(lab, "rest", f"{{type: connect, url: '{connect_url}'}}")
    name = "connected"
    lab.manifest(PLAIN, name=name)
    lab.ok("apply", "-f", ".", "--auto-approve")
    table = f"sales.{name}"
    lab.append([{"id": 1, "x": 1}, {"id": 2, "x": None}], table)
    lab.append([{"id": 3, "x": 3}], table)
    lab.manifest(COMPUTED, name=name)
    result = lab.process("apply", "-f", ".", "--auto-approve")
    assert result.code == 0, result.out + result.err
    assert "published total: 2 files, 3 rows" in result.out
    assert sorted((r["id"], r["total"]) for r in lab.rows(table)) == [(1, 3), (2, None), (3, 9)]
    assert [n for n, ref in lab.table(table).metadata.refs.items() if ref.snapshot_ref_type == "branch"] == ["main"]
    assert "no changes" in lab.ok("apply", "-f", ".").out
    lab.append([{"id": 4, "x": 4, "total": None}], table)
    assert "filled total" in lab.ok("backfill", "-f", ".").out
    assert sorted((r["id"], r["total"]) for r in lab.rows(table)) == [(1, 3), (2, None), (3, 9), (4, 12)]


def children_of(process: int) -> list[int]:
    """List the processes below one, by the kernel's account."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            if parent == process:
                found += [int(entry.name), *children_of(int(entry.name))]
    return found


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def all_end(processes: list[int]) -> bool:
    """Wait for the ends of processes whose parent has ended."""
    deadline = time.monotonic() + 60
    while any(map(is_running, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(is_running, processes))


def interrupted(process: subprocess.Popen[str], how: signal.Signals) -> tuple[list[int], list[str]]:
    """Wait for the first progress, interrupt, wait for the end; return what ran below the process, and its remarks."""
    assert process.stdout is not None
    for line in process.stdout:
        if '"progress"' in line:
            break
    below = children_of(process.pid)
    os.killpg(process.pid, how)  # all of it, as a terminal does
    _, err = process.communicate(timeout=300)
    return below, [line for line in err.splitlines() if line and not line.startswith(_OF_JAVA)]


def test_ctrl_c_ends_the_jvm_too_and_the_next_apply_goes_on(lab: Lab, jobs_inside: None) -> None:
    lab.apply(PLAIN)
    for number in range(4):
        lab.append([{"id": number, "x": number}])
    path = lab.manifest(COMPUTED)
    process = lab.start("apply", "-f", path, "--auto-approve", "--output", "json", start_new_session=True)
    below, said = interrupted(process, signal.SIGINT)
    assert process.returncode == 130
    assert said == ["error: interrupted; nothing was half-applied. Run the same command again to go on."]
    assert len(below) >= 2, "there was no job, or no JVM"
    assert all_end(below), "something outlived the program"
    assert all(row.get("total") is None for row in lab.rows())
    # the job itself, as Kubernetes ends it
    lab.run("plan", "-f", path, "--out", "plan.json")
    job = lab.start("execute", "--plan", "plan.json", "--output", "json", start_new_session=True)
    below, said = interrupted(job, signal.SIGTERM)
    assert job.returncode == 130
    assert [line.partition(";")[0] for line in said] == ["error: interrupted"]
    assert all_end(below), "the JVM outlived its job"
    result = lab.ok("apply", "-f", path)
    assert "published total" in result.out
    assert sorted((r["id"], r["total"]) for r in lab.rows()) == [(n, n * 3) for n in range(4)]
    assert [n for n, ref in lab.table().metadata.refs.items() if ref.snapshot_ref_type == "branch"] == ["main"]


def test_a_job_whose_server_is_away_may_be_started_again(lab: Lab, tmp_path: Path) -> None:
    lab.apply(PLAIN)
    lab.append([{"id": 1, "x": 1}])
    catalog_manifest(lab, "lake", "{type: connect, url: 'sc://127.0.0.1:1'}")
    path = lab.manifest(COMPUTED)
    result = lab.run("apply", "-f", path, "-f", lab.folder / "catalog.yaml", "--auto-approve")
    assert result.code == 1
    assert "Spark Connect does not answer" in result.err
    lab.run("plan", "-f", path, "-f", lab.folder / "catalog.yaml", "--out", "plan.json")
    job = lab.process("execute", "--plan", "plan.json", "--result", "why.json")
    assert job.code == 75
    assert "CatalogUnavailable" in (lab.folder / "why.json").read_text()
