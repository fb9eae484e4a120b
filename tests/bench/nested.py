"""One table with 10,000 nested leaves: its plan as a process, its diff alone, and DeepDiff on the same two schemas.

`python -m tests.bench.nested bind|diff|diff-every|deepdiff <project>` prints the seconds of one diff.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sized
from pathlib import Path

from msgspec.structs import replace

from reconciler.model.types import Field, map_fields
from tests.bench.data import TEMPLATE, project
from tests.bench.noop import plan
from tests.bench.process import LAKETABLE, Cost, environment, median, module, run
from tests.bench.report import Row

NAME = "nested"
DIFF_SECONDS, PLAN_SECONDS = 0.05, 3.0
RUNS = 5
EVOLVED = [LAKETABLE, "plan", "-f", "evolved", "--detailed-exitcode"]


def measure(root: Path, *, quick: bool) -> Iterator[Row]:
    """Plan it unchanged and with a hundred changes; diff the latter in process, and the worst case."""
    leaves = 1000 if quick else 10000
    folder = project(root, "deep", leaves)
    whole = (("wall", PLAN_SECONDS),)
    yield Row(NAME, f"laketable plan, {leaves:,} leaves, no-op", median(RUNS, lambda: plan(folder)), whole)
    changed = median(RUNS, lambda: run(EVOLVED, cwd=folder, expect=2))
    yield Row(NAME, f"laketable plan, {leaves:,} leaves, {leaves // 100} changes", changed, whole)
    bound, limit = _inside("bind", folder), (("wall", DIFF_SECONDS),)
    yield Row(NAME, "  its bind and diff, in process", bound, limit, figure="wall")
    ours = _inside("diff", folder)
    yield Row(NAME, "  its diff alone, in process", ours, limit, ours, figure="wall")
    every = _inside("diff-every", folder)
    yield Row(NAME, "  diff when every field changed, in process", every, limit, ours, figure="wall")
    yield Row(NAME, "  DeepDiff of the same schemas, in process", _inside("deepdiff", folder), base=ours, figure="wall")


def _inside(name: str, folder: Path) -> Cost:
    command = module("nested", name, str(folder))
    done = subprocess.run(command, env=environment(None), cwd=folder, capture_output=True, text=True, check=True)
    return Cost(float(done.stdout))


def _time(name: str, folder: Path) -> float:
    from deepdiff import DeepDiff
    from msgspec import convert, to_builtins

    from reconciler.catalogs.connection import embedded
    from reconciler.catalogs.iceberg import IcebergCatalog
    from reconciler.cli.project import load_tables
    from reconciler.diff.bind import bind
    from reconciler.diff.diff import diff

    (table,) = load_tables([str(folder / "evolved" / f"{TEMPLATE}.yaml")]).tables
    live = IcebergCatalog(embedded(folder)).get_table_spec(table.desired.ident)
    wanted = bind(table.desired, live, now_ms=0).spec
    if name == "deepdiff":
        before, after = to_builtins(live.spec.schema), to_builtins(wanted.schema)
        return _timed(lambda: DeepDiff(before, after))
    # Decoded anew: what binding shares with the live table would be equal by identity.
    other = convert(to_builtins(map_fields(wanted.schema, _documented)), type(wanted.schema))
    work: dict[str, Callable[[], Sized]] = {
        "bind": lambda: diff(live.spec, bind(table.desired, live, now_ms=0).spec),
        "diff": lambda: diff(live.spec, wanted),
        "diff-every": lambda: diff(live.spec, replace(wanted, schema=other)),
    }
    return statistics.median(_timed(work[name]) for _ in range(RUNS))


def _documented(field: Field) -> Field:
    return replace(field, doc="changed")


def _timed(work: Callable[[], Sized]) -> float:
    began = time.perf_counter()
    found = work()
    took = time.perf_counter() - began
    if not found:
        raise SystemExit("the two versions do not differ: nothing was measured")
    return took


if __name__ == "__main__":
    print(_time(sys.argv[1], Path(sys.argv[2])))
