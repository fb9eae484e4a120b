"""What a person waits for: help, a plan and an apply of one table, as whole processes without a JVM."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.data import TEMPLATE, manifest, project
from tests.bench.noop import plan
from tests.bench.process import LAKETABLE, Cost, median, medians, run
from tests.bench.report import Row, Yardstick

NAME = "start-up"
HELP_SECONDS, PLAN_SECONDS, APPLY_SECONDS = 0.15, 0.3, 1.0
IMPORT_SECONDS = 0.6  # where the limits were set


def measure(root: Path, *, quick: bool) -> Iterator[Row]:
    """Time the three commands, each several times."""
    runs = 3 if quick else 11
    folder = project(root, "tables", 1)
    _help(folder)
    yield Row(NAME, "laketable --help", median(runs, lambda: _help(folder)), (("wall", HELP_SECONDS),))
    planned, imported = medians(runs, lambda: plan(folder), lambda: imports(folder))
    row = partial(Row, NAME, yardstick=Yardstick(imported.wall, IMPORT_SECONDS))
    yield row("laketable plan, 1 table, no-op", planned, (("wall", PLAN_SECONDS),))
    applied = median(3 if quick else 5, _apply)
    yield row("laketable apply, 1 table, metadata-only", applied, (("wall", APPLY_SECONDS),))
    yield Row(NAME, "  importing PyIceberg's SQL catalog", imported)


def imports(folder: Path) -> Cost:
    """Only import what PyIceberg needs to open the embedded catalog."""
    return run([sys.executable, "-c", "import pyiceberg.catalog.sql"], cwd=folder)


def _help(folder: Path) -> Cost:
    return run([LAKETABLE, "--help"], cwd=folder)


def _apply() -> Cost:
    """Widen, add and re-document columns of a table that exists."""
    with tempfile.TemporaryDirectory(prefix="laketable-bench-") as name:
        folder = Path(name)
        (folder / ".laketable").mkdir()
        (folder / "tables").mkdir()
        path = folder / "tables" / f"{TEMPLATE}.yaml"
        path.write_text(manifest(TEMPLATE))
        apply = [LAKETABLE, "apply", "-f", "tables", "--auto-approve"]
        run(apply, cwd=folder)
        path.write_text(evolved(manifest(TEMPLATE)))
        cost = run(apply, cwd=folder)
        plan(folder)
        shutil.rmtree(folder / ".laketable")
    return cost


def evolved(text: str) -> str:
    """Return the manifest's next version."""
    return (
        text.replace('type: "int"', 'type: "long"')
        .replace('type: "float"', 'type: "double"')
        .replace("doc: open or closed", "doc: open or closed or void")
        .replace("  identifierFields:", f"    - {{name: region_{TEMPLATE}, type: string}}\n  identifierFields:")
    )
