"""One new column for 10 million rows × 10 columns in 8 files: spliced, and by pyarrow decoding and writing everything.

Both on one thread, each as a process of its own. `python -m tests.bench.splice make|splice|rewrite <folder> <rows>`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.process import Cost, environment, median, module, run
from tests.bench.report import Row

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

NAME = "splice"
ROWS, FILES, GROUP_ROWS, COLUMNS, RUNS = 10_000_000, 8, 250_000, 10, 3
FACTOR = 0.35


def measure(root: Path, *, quick: bool) -> Iterator[Row]:
    """Add the column both ways; the results are compared before anything is reported."""
    rows, folder = (ROWS // 20 if quick else ROWS), root / "splice"
    folder.mkdir()
    subprocess.run(module("splice", "make", str(folder), str(rows)), env=environment(None), cwd=root, check=True)
    rewrite = median(RUNS, lambda: _timed("rewrite", folder, rows))
    splice = median(RUNS, lambda: _timed("splice", folder, rows))
    subprocess.run(module("splice", "compare", str(folder), str(rows)), env=environment(None), cwd=root, check=True)
    what = f"{rows:,} rows × {COLUMNS} columns, {FILES} files"
    yield Row(NAME, f"new column by splicing, {what}", splice, base=rewrite, figure="wall", factor=FACTOR)
    yield Row(NAME, "  the same by rewriting with pyarrow", rewrite, base=rewrite, figure="wall")
    shutil.rmtree(folder)


def _timed(way: str, folder: Path, rows: int) -> Cost:
    shutil.rmtree(folder / way, ignore_errors=True)
    return run(module("splice", way, str(folder), str(rows)), cwd=folder)


def _make(folder: Path, rows: int) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    dice, count = np.random.default_rng(1), rows // FILES
    (folder / "old").mkdir()
    for number in range(FILES):
        columns = {
            "id": np.arange(number * count, (number + 1) * count),
            "amount": dice.random(count).round(4),
            "rate": dice.random(count).round(2),
            "customer": dice.integers(0, 100_000, count),
            "day": dice.integers(0, 365, count).astype("int32"),
            "status": pa.array(np.array(["open", "closed", "paid"]))
            .take(pa.array(dice.integers(0, 3, count)))
            .cast(pa.string()),
            "city": pa.array([f"city {n}" for n in range(1000)]).take(pa.array(dice.integers(0, 1000, count))),
            "weight": dice.random(count).round(3),
            "flag": dice.integers(0, 2, count).astype(bool),
            "quantity": dice.integers(0, 100, count).astype("int32"),
        }
        table = pa.table(columns)
        fields = [f.with_metadata({b"PARQUET:field_id": str(n + 1).encode()}) for n, f in enumerate(table.schema)]
        path = folder / "old" / f"{number}.parquet"
        pq.write_table(table.cast(pa.schema(fields)), path, row_group_size=GROUP_ROWS, compression="zstd")


def _splice(folder: Path, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from reconciler.engines.splice.splice import splice
    from reconciler.model.types import Field

    pa.set_cpu_count(1)
    (folder / "splice").mkdir()
    column = Field(id=COLUMNS + 1, name="total", required=False, type="double")
    for path in sorted((folder / "old").iterdir()):
        file = pq.ParquetFile(path)
        values = (_computed(file, n, ["amount", "rate"]).select(["total"]) for n in range(file.num_row_groups))
        splice(str(path), str(folder / "splice" / path.name), [column], values)


def _rewrite(folder: Path, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_cpu_count(1)
    (folder / "rewrite").mkdir()
    for path in sorted((folder / "old").iterdir()):
        file = pq.ParquetFile(path)
        schema = file.schema_arrow.append(pa.field("total", pa.float64(), metadata={b"PARQUET:field_id": b"11"}))
        with pq.ParquetWriter(folder / "rewrite" / path.name, schema, compression="zstd") as writer:
            for number in range(file.num_row_groups):
                table = _computed(file, number, None)
                writer.write_table(table.cast(schema), row_group_size=table.num_rows)


def _computed(file: pq.ParquetFile, group: int, columns: list[str] | None) -> pa.Table:
    import pyarrow.compute as pc

    table = file.read_row_group(group, columns=columns, use_threads=False)
    return table.append_column("total", pc.multiply(table["amount"], table["rate"]))


def _compare(folder: Path, rows: int) -> None:
    import pyarrow.parquet as pq

    total = 0
    for path in sorted((folder / "rewrite").iterdir()):
        one, other = pq.read_table(path), pq.read_table(folder / "splice" / path.name)
        total += one.num_rows
        if not one.equals(other):
            raise SystemExit(f"{path.name} differs: nothing was measured")
    if total != rows // FILES * FILES:
        raise SystemExit(f"{total} rows instead of {rows}: nothing was measured")


WAYS: dict[str, Callable[[Path, int], None]] = {
    "make": _make,
    "splice": _splice,
    "rewrite": _rewrite,
    "compare": _compare,
}

if __name__ == "__main__":
    WAYS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
