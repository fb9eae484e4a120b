"""One new computed column for 10 million rows × 10 columns in 8 files, beside the overwrite that one writes by hand.

Every way is a process of its own on a fresh copy of the table. The clock starts when its Spark session has answered one
query, on both sides alike, and stops when the rows are published; CPU is that of the process and all below it (the JVM,
the Python workers). The JVM of ours is started as `laketable execute` starts it for this plan, the other one as Spark
starts it, both from the same archive of Spark's classes, as after a first job. A warmed way fills a second column in
the session that has filled a first: what the JVM learned is paid for.
`python -m tests.bench.backfill make|hand|splice|rewrite|two|warm-hand|warm-splice|compare <folder> <rows>`.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.bench.process import Cost, environment, module
from tests.bench.report import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "backfill"
ROWS, FILES, RUNS = 10_000_000, 8, 5
PAIRED, PAIRS = ("splice", "two"), 11  # their ratio lies nearer to its limit than five runs can tell
SPLICE_WALL, SPLICE_CPU, REWRITE_WALL, TWO_WALL, ESTIMATE = 0.35, 0.25, 1.15, 1.2, 0.10
CATALOG, TABLE = "lake", "bench.orders"
COLUMNS = {
    "id": "id",
    "amount": "pmod(xxhash64(id, 1), 10000) / 10000",
    "rate": "pmod(xxhash64(id, 2), 100) / 100",
    "customer": "pmod(xxhash64(id, 3), 100000)",
    "day": "cast(pmod(xxhash64(id, 4), 365) AS int)",
    "status": "elt(cast(pmod(xxhash64(id, 5), 3) AS int) + 1, 'open', 'closed', 'paid')",
    "city": "concat('city ', pmod(xxhash64(id, 6), 1000))",
    "weight": "pmod(xxhash64(id, 7), 1000) / 1000",
    "flag": "pmod(xxhash64(id, 8), 2) = 0",
    "quantity": "cast(pmod(xxhash64(id, 9), 100) AS int)",
}
COMPARED = ("splice", "rewrite")
COMPUTED = {"total": "amount * rate", "more": "amount + rate * quantity"}


def measure(root: Path, *, quick: bool) -> Iterator[Row]:
    """Fill the column every way; what comes out is compared before anything is reported."""
    rows, folder = (ROWS // 20 if quick else ROWS), root / "backfill"
    folder.mkdir()
    _child("make", folder, rows)
    _child("splice", folder, rows)  # the first job archives Spark's classes, which all others start from
    cost = _rounds(folder, rows)
    hand, splice, warm, warm_hand = (cost[way] for way in ("hand", "splice", "warm-splice", "warm-hand"))
    what = f"{rows:,} rows × {len(COLUMNS)} columns, {FILES} files"
    yield Row(
        NAME, f"backfill of a new column by splicing, {what}", splice, base=hand, figure="wall", factor=SPLICE_WALL
    )
    yield Row(NAME, "  its CPU", splice, base=hand, factor=SPLICE_CPU)
    yield Row(NAME, "  two columns in one pass", cost["two"], base=splice, figure="wall", factor=TWO_WALL)
    yield Row(NAME, "  by rewriting", cost["rewrite"], base=hand, figure="wall", factor=REWRITE_WALL)
    yield Row(NAME, "  withColumn and overwrite, by hand", hand, base=hand, figure="wall")
    yield Row(NAME, "  a second column in the same session, spliced", warm, base=warm_hand, figure="wall")
    yield Row(NAME, "  its CPU", warm, base=warm_hand)
    yield Row(NAME, "  a second column in the same session, by hand", warm_hand, base=warm_hand, figure="wall")
    shutil.rmtree(folder)


def _rounds(folder: Path, rows: int) -> dict[str, Cost]:
    """Run every way in turn, several times over: a machine that is slower for a while is so for all of them."""
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for ways in (*[tuple(WAYS)] * RUNS, *[PAIRED] * (PAIRS - RUNS)):
        for way in ways:
            found[way].append(_child(way, folder, rows))
            if way in COMPARED and len(found[way]) == 1:
                _child("compare", folder, rows)
    return {way: _median(costs) for way, costs in found.items()}


def _median(costs: Sequence[Mapping[str, float]]) -> Cost:
    return Cost(*(statistics.median(cost[figure] for cost in costs) for figure in ("wall", "cpu")))


def _child(way: str, folder: Path, rows: int) -> dict[str, float]:
    if way in WAYS:
        shutil.rmtree(folder / "lake", ignore_errors=True)
        shutil.copytree(folder / "fresh", folder / "lake")
    command = module("backfill", way, str(folder), str(rows))
    env = environment({"XDG_CACHE_HOME": str(folder / "cache")} if way in WAYS else {"LAKETABLE_CACHE": "off"})
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{way} failed:\n{done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


# ---------------------------------------------------------------- in a process of its own


def _properties(folder: Path) -> dict[str, str]:
    at = folder / "lake"
    return {"type": "sql", "uri": f"sqlite:///{at}/catalog.db", "warehouse": f"file://{at}/warehouse"}


def _session(folder: Path, *, is_small: bool = False) -> SparkSession:
    from reconciler.engines.session import spark_session

    return spark_session([(CATALOG, _properties(folder))], is_small=is_small)


def _made(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(0, rows, 1, FILES).selectExpr(*(f"{sql} AS {name}" for name, sql in COLUMNS.items()))


def _make(folder: Path, rows: int) -> dict[str, float]:
    (folder / "lake").mkdir()
    spark = _session(folder)
    spark.sql(f"CREATE NAMESPACE {CATALOG}.bench")
    _made(spark, rows).writeTo(f"{CATALOG}.{TABLE}").using("iceberg").tableProperty(
        "write.distribution-mode", "none"
    ).create()
    spark.stop()
    (folder / "lake").rename(folder / "fresh")
    return {}


Work = Callable[[], dict[str, float]]


class Way(NamedTuple):
    """One way to fill a column: whether its plan calls for a small JVM, and what to do in its session."""

    is_small: bool
    start: Callable[[SparkSession], Work]


def _hand(column: str) -> Callable[[Path], Way]:
    def start(spark: SparkSession) -> Work:
        from pyspark.sql import functions as F

        name = f"{CATALOG}.{TABLE}"
        spark.sql(f"ALTER TABLE {name} ADD COLUMN {column} double")

        def work() -> dict[str, float]:
            spark.table(name).withColumn(column, F.expr(COMPUTED[column])).writeTo(name).overwrite(F.lit(True))
            return {}

        return work

    return lambda folder: Way(False, start)


def _ours(*names: str, splices: bool) -> Callable[[Path], Way]:
    def planned(folder: Path) -> Way:
        from reconciler.catalogs.connection import CatalogSettings
        from reconciler.catalogs.iceberg import IcebergCatalog
        from reconciler.dialects import dialect_for
        from reconciler.diff.bind import bind
        from reconciler.diff.diff import diff
        from reconciler.engines.data_job import SparkEngine
        from reconciler.engines.jvm import is_small
        from reconciler.engines.staged import staging_ref
        from reconciler.model.table import Computed, Desired, TableIdent
        from reconciler.model.types import Field, FieldPath, StructType
        from reconciler.plan.operations import OperationKind
        from reconciler.plan.planner import plan

        settings = CatalogSettings(name=CATALOG, properties=_properties(folder), origin="bench")
        catalog, ident = IcebergCatalog(settings), TableIdent.parse(TABLE)
        current = catalog.get_table_spec(ident)
        live = [Field(name=f.name, required=f.required, type=f.type) for f in current.spec.schema.fields]
        new = [Field(name=name, required=False, type="double") for name in names]
        filled = COMPUTED.keys() & {field.name for field in (*live, *new)}
        computed: dict[FieldPath, Computed] = {(name,): Computed(expression=COMPUTED[name]) for name in filled}
        desired = Desired(ident=ident, owner="bench", columns=StructType((*live, *new)), computed=computed)
        binding = bind(desired, current, now_ms=0)
        changes, files = (
            diff(current.spec, binding.spec),
            catalog.get_data_files(ident, current.version.snapshot_id or 0),
        )
        dialect = dialect_for(desired.format)
        made = plan(desired, current, binding, changes, dialect=dialect, catalog=CATALOG, files=files)
        catalog.apply(ident, made.base, [c for o in made.operations for c in o.changes])
        operation = next(o for o in made.operations if o.kind is OperationKind.BACKFILL)

        def start(spark: SparkSession) -> Work:
            def work() -> dict[str, float]:
                ref = staging_ref(ident, current.version.uuid, operation)
                engine = SparkEngine(spark, CATALOG) if splices else SparkEngine(spark, CATALOG, splices=False)
                staged = engine.execute(operation, ref, lambda event: None)
                staged.commit()
                return {"estimated": operation.cost.bytes_rewritten, "written": staged.bytes}

            return work

        return Way(splices and is_small([operation]), start)

    return planned


WAYS: Mapping[str, tuple[Callable[[Path], Way], ...]] = {
    "hand": (_hand("total"),),
    "splice": (_ours("total", splices=True),),
    "two": (_ours("total", "more", splices=True),),
    "rewrite": (_ours("total", splices=False),),
    "warm-hand": (_hand("total"), _hand("more")),
    "warm-splice": (_ours("total", splices=True), _ours("more", splices=True)),
}
"""What each way does in one session; the last thing is what is measured."""


def _timed(way: str, folder: Path) -> dict[str, float]:
    from reconciler.engines.session import end_spark

    *before, measured = WAYS[way]
    spark: SparkSession | None = None
    for planned in before:
        first = planned(folder)
        spark = spark or _session(folder, is_small=first.is_small)
        first.start(spark)()
    last = measured(folder)
    spark = spark or _session(folder, is_small=last.is_small)
    work = last.start(spark)
    spark.sql(f"SELECT count(*) FROM {CATALOG}.{TABLE}").collect()
    cpu, began = _cpu(), time.perf_counter()
    found = work()
    wall = time.perf_counter() - began
    found |= {"wall": wall, "cpu": _cpu() - cpu}
    if "written" in found and abs(found["estimated"] / found["written"] - 1) > ESTIMATE:
        raise RuntimeError(f"the plan said {found['estimated']:,} bytes, and {found['written']:,} were written")
    end_spark(at_once=False, note=lambda text: None)
    return found


def _cpu() -> float:
    """Add up the CPU seconds of this process and all below it, those that have ended included."""
    parents, spent = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            parents[int(folder.name)], spent[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours and pid not in ours}:
        ours |= more
    return sum(spent.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")


def _compare(folder: Path, count: int) -> dict[str, float]:
    """Compare what the last run left with the values computed from the rows as they were made."""
    spark = _session(folder)
    rows = spark.table(f"{CATALOG}.{TABLE}")
    wrong = rows.where(f"NOT (total <=> {COMPUTED['total']})").count()
    old = ", ".join(COLUMNS)
    sums = [
        frame.selectExpr("count(*)", f"sum(crc32(to_json(struct({old})))) ").first()
        for frame in (rows, _made(spark, count))
    ]
    spark.stop()
    if wrong or sums[0] != sums[1]:
        raise RuntimeError(f"{wrong} rows have another value than the expression's, or the old columns changed")
    return {}


def main(way: str, folder: Path, rows: int) -> dict[str, float]:
    """Do one thing and return its figures."""
    match way:
        case "make":
            return _make(folder, rows)
        case "compare":
            return _compare(folder, rows)
        case _:
            return _timed(way, folder)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
