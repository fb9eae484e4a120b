"""The main job, end to end, on a bare machine: `make demo`.

Plans and applies the quickstart on the embedded catalog, loads rows, evolves the manifest through two more versions and
shows that every row survives, read by PyIceberg and by Spark. Everything happens in a temporary folder.
"""

# ruff: noqa: T201  (it talks to a person)
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import Table

EXAMPLES = Path(__file__).parent
ROWS = 1000


def main() -> None:
    """Run the demo; any step that does not go as told ends it with an error."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="laketable-demo-") as folder:
        project = Path(folder)
        shutil.copytree(EXAMPLES / "quickstart", project / "tables")

        title("1. Two tables, from nothing")
        laketable(project, "plan", "-f", "tables", "--detailed-exitcode", expect=2)
        laketable(project, "apply", "-f", "tables", "--auto-approve")
        laketable(project, "plan", "-f", "tables", "--detailed-exitcode", expect=0)

        title(f"2. Load {ROWS:,} rows")
        load(project)

        title("3. Types grow, a column and a nested field are renamed: one commit, no data file touched")
        files = data_files(project)
        shutil.copy(EXAMPLES / "evolution/step-2/orders.yaml", project / "tables/orders.yaml")
        laketable(project, "plan", "-f", "tables/orders.yaml")
        laketable(project, "apply", "-f", "tables/orders.yaml", "--auto-approve")
        require(data_files(project) == files, "no data file was touched")

        title("4. Required (proven by the manifests), finer partitions, a sort order; this time through PySpark")
        shutil.copy(EXAMPLES / "evolution/step-3/orders.yaml", project / "tables/orders.yaml")
        laketable(project, "apply", "-f", "tables/orders.yaml", "--auto-approve", "--engine", "spark")
        require(data_files(project) == files, "no data file was touched")
        laketable(project, "plan", "-f", "tables", "--detailed-exitcode", expect=0)
        laketable(project, "history", "sales.orders")

        title("5. The rows, under their new names")
        by_pyiceberg = read_with_pyiceberg(open_table(project))
        by_spark = read_with_spark(project)
        require(by_pyiceberg == by_spark == expected(), f"all {ROWS:,} rows are there, by PyIceberg and by Spark")
    print(f"\nDone in {time.monotonic() - began:.0f} s.")


def title(text: str) -> None:
    """Print a step's headline."""
    print(f"\n=== {text}", flush=True)


def require(is_true: bool, claim: str) -> None:
    """Print a claim that was checked, or stop."""
    if not is_true:
        sys.exit(f"demo failed: not true that {claim}")
    print(f"    checked: {claim}", flush=True)


def laketable(project: Path, *arguments: str, expect: int = 0) -> None:
    """Run the command line as a user would, in the demo's own folder and with nothing configured."""
    print(f"\n$ laketable {' '.join(arguments)}", flush=True)
    configured = ("PYICEBERG_", "LAKETABLE_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(configured)} | {"HOME": str(Path.home())}
    done = subprocess.run(
        [Path(sys.executable).parent / "laketable", *arguments], cwd=project, env=environment, check=False
    )
    if done.returncode != expect:
        sys.exit(f"demo failed: exit code {done.returncode}, expected {expect}")


def open_table(project: Path) -> Table:
    """Open the table as any PyIceberg user would."""
    from pyiceberg.catalog import load_catalog

    state = project.resolve() / ".laketable"
    properties = {"type": "sql", "uri": f"sqlite:///{state}/catalog.db", "warehouse": f"file://{state}/warehouse"}
    return load_catalog("lake", **properties).load_table("sales.orders")


def load(project: Path) -> None:
    """Append the rows as the first version of the schema has them: staged, then committed in one snapshot."""
    import pyarrow as pa

    from reconciler.catalogs.connection import embedded
    from reconciler.catalogs.iceberg import IcebergCatalog
    from reconciler.model.table import TableIdent

    rows = [
        {
            "order_id": i,
            "cust_id": f"c{i % 7}",
            "amount": i / 2,
            "address": {"street": f"Main St {i}", "zip": f"{i:05}"},
            "ordered_at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=i),
        }
        for i in range(ROWS)
    ]
    catalog, orders = IcebergCatalog(embedded(project.resolve())), TableIdent.parse("sales.orders")
    batch = pa.RecordBatch.from_pylist(rows, schema=open_table(project).schema().as_arrow())
    catalog.commit(orders, [catalog.write_batch(orders, batch, ingest_id="demo")])
    print(f"    {ROWS:,} rows in {len(data_files(project))} files, one per month")


def data_files(project: Path) -> set[str]:
    """List the live data files."""
    return {task.file.file_path for task in open_table(project).scan().plan_files()}


def expected() -> list[tuple[int, str, float, str]]:
    """Compute what reading must give: order, customer, amount, postcode."""
    return [(i, f"c{i % 7}", i / 2, f"{i:05}") for i in range(ROWS)]


def read_with_pyiceberg(table: Table) -> list[tuple[int, str, float, str]]:
    """Read all rows in the order of their keys."""
    rows = table.scan().to_arrow().to_pylist()
    return sorted((r["order_id"], r["customer_ref"], r["amount"], r["address"]["postcode"]) for r in rows)


def read_with_spark(project: Path) -> list[tuple[int, str, float, str]]:
    """Read all rows through PySpark."""
    from reconciler.catalogs.connection import embedded
    from reconciler.engines.session import spark_session

    settings = embedded(project.resolve())
    properties = {key: str(value) for key, value in settings.properties.items()}
    session = spark_session([(settings.name, properties)], short=True)
    try:
        query = "SELECT order_id, customer_ref, amount, address.postcode FROM lake.sales.orders ORDER BY order_id"
        return [tuple(row) for row in session.sql(query).collect()]
    finally:
        session.stop()


if __name__ == "__main__":
    main()
