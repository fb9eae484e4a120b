"""A materialized view after 1 % new rows: merged, beside the whole query run anew, in one Spark session.

Sum, count, min and max over 50 million rows in 100,000 groups. A refresh is measured from plan to published rows,
without Spark's start; an unchanged view as a whole process. `python -m tests.bench.views refresh <folder> <rows>`.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.process import LAKETABLE, Cost, environment, median, module, run
from tests.bench.report import Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconciler.catalogs.iceberg import IcebergCatalog
    from reconciler.model.table import Desired

NAME = "views"
ROWS, GROUPS, FILES, RUNS = 50_000_000, 100_000, 8, 3
FACTOR, UNCHANGED_SECONDS = 1 / 8, 1.0
QUERY = "SELECT k, sum(v) AS total, count(*) AS n, min(v) AS low, max(v) AS high FROM shop.facts GROUP BY k"
MANIFEST = f"""\
apiVersion: laketable.dev/v1alpha1
kind: LakeTable
metadata: {{name: sums, namespace: shop}}
spec:
  materializedView:
    query: {QUERY}
"""


def measure(root: Path, *, quick: bool) -> Iterator[Row]:
    """Refresh both ways; the rows are compared before anything is reported."""
    rows, folder = (ROWS // 20 if quick else ROWS), root / "views"
    folder.mkdir()
    (folder / "sums.yaml").write_text(MANIFEST)
    command = module("views", "refresh", str(folder), str(rows))
    subprocess.run(command, env=environment(None), cwd=folder, check=True, stdout=subprocess.DEVNULL)
    found = json.loads((folder / "times.json").read_text())
    full, merged = Cost(found["full"]), Cost(found["merged"])
    what = f"{rows:,} rows, {GROUPS:,} groups"
    yield Row(NAME, f"refresh after 1 % new rows by merging, {what}", merged, base=full, figure="wall", factor=FACTOR)
    yield Row(NAME, "  the same in full", full, base=full, figure="wall")
    unchanged = median(RUNS, lambda: run([LAKETABLE, "refresh", "-f", "sums.yaml"], cwd=folder))
    yield Row(NAME, "refresh of an unchanged view, whole process", unchanged, limits=(("wall", UNCHANGED_SECONDS),))
    shutil.rmtree(folder)


class _Lab:
    """The embedded catalog of a folder, with a session on it."""

    def __init__(self, folder: Path, rows: int) -> None:
        from reconciler.catalogs.connection import CatalogSettings
        from reconciler.catalogs.iceberg import IcebergCatalog
        from reconciler.engines.session import spark_session
        from reconciler.model.table import Desired, TableIdent, View
        from reconciler.model.types import StructType

        state = folder / ".laketable"
        state.mkdir(exist_ok=True)
        properties = {"type": "sql", "uri": f"sqlite:///{state}/catalog.db", "warehouse": f"file://{state}/warehouse"}
        self.rows, self.next = rows, 0
        self.spark: SparkSession = spark_session([("lake", properties)], {"spark.ui.enabled": "false"})
        settings = CatalogSettings(name="lake", properties=dict(properties), origin="bench")
        self.catalog: IcebergCatalog = IcebergCatalog(settings)
        self.views: dict[str, Desired] = {
            mode: Desired(
                ident=TableIdent(("shop",), "sums"),
                owner="default/shop/sums",
                columns=StructType(()),
                view=View(query=QUERY, mode=mode),
            )
            for mode in ("Full", "Incremental")
        }

    def append(self, rows: int, files: int) -> None:
        """Add rows of random groups."""
        first, self.next = self.next, self.next + rows
        columns = f"hash(id) & 2147483647 AS h FROM range({first}, {first + rows}, 1, {files})"
        values = "CAST((h % 1000003) / 100 AS decimal(10,2)) AS v"
        self.spark.sql(f"SELECT CAST(h % {GROUPS} AS int) AS k, {values} FROM (SELECT {columns})").writeTo(
            "lake.shop.facts"
        ).append()

    def refresh(self, mode: str) -> float:
        """Plan, stage and publish; return how long it took."""
        from reconciler.engines.data_job import SparkEngine
        from reconciler.engines.staged import staging_ref
        from reconciler.pipeline import Approval, Request, propose_all
        from reconciler.plan.data import data_operations
        from reconciler.plan.views import refresh_plan

        began, view = time.perf_counter(), self.views[mode]
        request = Request(view, self.catalog, "lake")
        (proposal,) = propose_all([request], Approval(auto=True), now_ms=time.time_ns() // 1_000_000)
        if proposal.plan is None or proposal.request is None:
            raise SystemExit(f"no plan: {proposal.error}")
        if proposal.current is None:
            changes = proposal.plan.operations[0].changes
            self.catalog.apply(view.ident, None, changes)
            return self.refresh(mode)
        made = refresh_plan(proposal.request.desired, proposal.current, proposal.plan) or proposal.plan
        (operation,) = data_operations(made)
        ref = staging_ref(view.ident, proposal.current.version.uuid, operation)
        SparkEngine(self.spark, "lake").execute(operation, ref, lambda event: None).commit()
        return time.perf_counter() - began

    def compare(self) -> None:
        """End the bench when the view does not hold what its query gives."""
        query = QUERY.replace("shop.facts", "lake.shop.facts")
        view = "SELECT k, total, n, low, high FROM lake.shop.sums"
        for one, other in ((query, view), (view, query)):
            if self.spark.sql(f"{one} EXCEPT {other}").count():
                raise SystemExit("the view is not its query's result: nothing was measured")


def _refresh(folder: Path, rows: int) -> None:
    lab = _Lab(folder, rows)
    lab.spark.sql("CREATE NAMESPACE lake.shop")
    lab.spark.sql("CREATE TABLE lake.shop.facts (k int, v decimal(10,2)) USING iceberg")
    lab.append(rows, FILES)
    lab.refresh("Full")
    times: dict[str, list[float]] = {"Full": [], "Incremental": []}
    for number in range(RUNS + 1):
        for mode, taken in times.items():
            lab.append(rows // 100, 1)
            took = lab.refresh(mode)
            if number:  # the first of each warms the code paths of both
                taken.append(took)
    lab.compare()
    full, merged = (statistics.median(times[mode]) for mode in ("Full", "Incremental"))
    (folder / "times.json").write_text(json.dumps({"full": full, "merged": merged, "all": times}))
    lab.spark.stop()


if __name__ == "__main__":
    _refresh(Path(sys.argv[2]), int(sys.argv[3]))
