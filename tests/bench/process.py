"""Run a program as a user would and take what the kernel says it cost: wall time, CPU time, peak memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
LAKETABLE = str(Path(sys.executable).with_name("laketable"))


@dataclass(frozen=True)
class Cost:
    """What one process cost: seconds, MiB, and how often it did what is counted. None: not measured."""

    wall: float
    cpu: float | None = None
    rss: float | None = None
    count: float | None = None

    def times(self, factor: float) -> Cost:
        """Extrapolate the time."""
        return Cost(self.wall * factor, None if self.cpu is None else self.cpu * factor, self.rss)


def run(command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None, expect: int = 0) -> Cost:
    """Run a command with nothing cached, unless `env` names a cache; raise RuntimeError unless it exits as expected."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory() as empty:
        variables = environment({"XDG_CACHE_HOME": empty, **(env or {})})
        began = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=cwd, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != expect:
            output.seek(0)
            text = output.read().decode(errors="replace")[-2000:]
            raise RuntimeError(f"{' '.join(command)} exited {process.returncode}, not {expect}:\n{text}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    """Return this environment without anything that configures a catalog, laketable or colours."""
    ours = ("PYICEBERG_", "LAKETABLE_", "FORCE_COLOR", "CLICOLOR")
    plain = {k: v for k, v in os.environ.items() if not k.startswith(ours) and k != "PYTHONDONTWRITEBYTECODE"}
    return {**plain, "PYTHONPATH": str(ROOT), **(extra or {})}


def median(runs: int, measure: Callable[[], Cost]) -> Cost:
    """Repeat a measurement and take the median of each figure."""
    (cost,) = medians(runs, measure)
    return cost


def medians(runs: int, *measures: Callable[[], Cost]) -> list[Cost]:
    """Repeat measurements in turns, for the machine is not equally fast at all times; return each one's median."""
    rounds = [[measure() for measure in measures] for _ in range(runs)]
    return [_median(costs) for costs in zip(*rounds, strict=True)]


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(c.wall for c in costs),
        statistics.median(c.cpu or 0.0 for c in costs),
        statistics.median(c.rss or 0.0 for c in costs),
    )


def module(name: str, *arguments: str, python: str = sys.executable) -> list[str]:
    """Return the command that runs a module of the bench as a process of its own."""
    return [python, "-m", f"tests.bench.{name}", *arguments]
