"""A data job on a tiny table beside a hand-written PySpark script that does the same: what `execute` adds to Spark.

Each is a process of its own, with Spark's start and end in it, and uses the same archive of Spark's classes.
`python -m tests.bench.jobs make|hand <folder> <number>`.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tests.bench.process import LAKETABLE, Cost, environment, module, run
from tests.bench.report import Row

if TYPE_CHECKING:
    from reconciler.plan.events import Event
    from reconciler.plan.operations import Plan

NAME = "jobs"
RUNS, OVERHEAD_SECONDS = 3, 1.5
_MANIFEST = """\
apiVersion: laketable.dev/v1alpha1
kind: LakeTable
metadata: {{name: {name}, namespace: bench}}
spec:
  columns:
    - {{name: id, type: long}}
    - {{name: x, type: int}}
"""
_COMPUTED = "    - {name: total, type: long, computed: {expression: 'x * 2 + id'}}\n"


def measure(root: Path, *, quick: bool) -> Iterator[Row]:
    """Run both in turns: this machine is never equally busy twice."""
    folder, runs = root / "jobs", 1 if quick else RUNS
    folder.mkdir()
    numbers = range(runs + 1)  # the first job makes the archive of Spark's classes
    subprocess.run(module("jobs", "make", str(folder), str(runs + 1)), env=environment(None), cwd=folder, check=True)
    env = {"XDG_CACHE_HOME": str(root / "cache")}
    jobs, hand = [], []
    for number in numbers:
        command = [LAKETABLE, "execute", "--plan", f"t{number}.json", "--output", "json"]
        jobs.append(run(command, cwd=folder, env=env))
        hand.append(run(module("jobs", "hand", str(folder), str(number)), cwd=folder, env=env))
    overheads = [job.wall - script.wall for job, script in zip(jobs[1:], hand[1:], strict=True)]
    yield Row(NAME, "execute, 4 rows in 1 file", _median(jobs[1:]), base=_median(hand[1:]), figure="wall")
    yield Row(NAME, "  a script: Spark, one UPDATE", _median(hand[1:]), base=_median(hand[1:]), figure="wall")
    overhead = Cost(max(statistics.median(overheads), 0.0))
    yield Row(NAME, "  overhead of execute", overhead, limits=(("wall", OVERHEAD_SECONDS),))
    yield Row(NAME, "  the first job, which archives Spark's classes", jobs[0], base=_median(jobs[1:]), figure="wall")
    shutil.rmtree(folder)


def _median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(c.wall for c in costs), statistics.median(c.cpu or 0.0 for c in costs))


def _make(folder: Path, count: int) -> None:
    """Make tables whose new column is committed and not filled, each with the plan of its job."""
    import pyarrow as pa

    from reconciler.cli.project import load_tables
    from reconciler.cli.workspace import Workspace
    from reconciler.pipeline import Approval, execute
    from reconciler.plan.events import Committed

    os.chdir(folder)
    for name in (f"{kind}{number}" for number in range(count) for kind in "th"):
        path = Path(f"{name}.yaml")
        path.write_text(_MANIFEST.format(name=name))
        subprocess.run([LAKETABLE, "apply", "-f", path, "--auto-approve"], check=True, stdout=subprocess.DEVNULL)
        path.write_text(_MANIFEST.format(name=name) + _COMPUTED)
        workspace = Workspace(load_tables([str(path)], recursive=False))
        (proposal,) = workspace.propose(workspace.project.tables)
        assert proposal.request is not None
        catalog = workspace.catalog(None)
        rows = pa.RecordBatch.from_pydict({"id": [1, 2, 3, 4], "x": pa.array([1, 2, 3, 4], pa.int32())})
        catalog.commit(proposal.table, [catalog.write_batch(proposal.table, rows, "rows")])
        command = [LAKETABLE, "plan", "-f", str(path), "--out", f"{name}.json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (proposal,) = workspace.propose(workspace.project.tables, Approval(auto=True))
        execution = workspace.execution(engine="auto", include_upkeep=False)
        events = list(execute(proposal, msgspec.structs.replace(execution, data=lambda request: _NoJob())))
        assert any(isinstance(event, Committed) for event in events), events


class _NoJob:
    """A runtime that starts nothing: the job is what is measured."""

    def run(self, plan: Plan) -> Iterator[Event]:
        """Leave the rows as they are."""
        return iter(())


def _hand(folder: Path, number: int) -> None:
    from reconciler.catalogs.connection import embedded
    from reconciler.engines.session import end_spark, spark_session

    settings = embedded(folder)
    session = spark_session([(settings.name, {k: str(v) for k, v in settings.properties.items()})])
    session.sql(f"UPDATE {settings.name}.bench.h{number} SET total = x * 2 + id")
    end_spark(at_once=False, note=print)


if __name__ == "__main__":
    {"make": _make, "hand": _hand}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
