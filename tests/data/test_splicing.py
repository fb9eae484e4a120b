"""New columns are spliced into the files that can take them, and the table is as if all had been rewritten."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from reconciler.engines import splice_files
from reconciler.engines.data_files import iterate, listed_rows
from reconciler.engines.data_job import SparkEngine
from reconciler.model.table import Computed
from reconciler.model.types import Field, StructType
from reconciler.plan.events import Event, Progress
from reconciler.plan.operations import How, Operation
from tests.data.kit import Killed, Lake, Shop, Writes
from tests.data.test_backfill import DOUBLED, model
from tests.engines.splice.test_readers import relation

SPLICED = re.compile(r"/\d{5}-[0-9a-f]{32}-[0-9a-f]+\.parquet$")


def entries(table: Lake) -> dict[str, Any]:
    """List the live files as Iceberg sees them, by location."""
    spark3 = table.spark._jvm.org.apache.iceberg.spark.Spark3Util
    loaded = spark3.loadIcebergTable(table.spark._jsparkSession, table.name)
    tasks = loaded.newScan().includeColumnStats().planFiles()
    return {str(task.file().location()): task.file() for task in iterate(tasks)}


def spliced(table: Lake) -> int:
    """Count the live files that a splice wrote, by their names."""
    return sum(SPLICED.search(location) is not None for location in entries(table))


def run(table: Lake, operation: Operation, *, splices: bool = True, chunk_bytes: int = 1 << 30) -> list[str]:
    """Run an operation and return what was told besides how far it is."""
    told: list[Event] = []
    engine = SparkEngine(table.spark, table.catalog_name, chunk_bytes=chunk_bytes, splices=splices)
    table.start(operation, engine, told).commit()
    return [event.step for event in told if isinstance(event, Progress) and not event.all_files]


@pytest.mark.parametrize(("lake", "version"), [("embedded", 1), ("embedded", 2), ("rest", 3)])
def test_a_new_column_is_spliced_into_every_file(shop: Shop, lake: str, version: int) -> None:
    table = shop.fresh(lake, version=version)
    names = ("id", "x", "note", *(["_row_id"] if version == 3 else []))
    before = table.rows(*names)
    operation = table.evolve(table.wants(total=DOUBLED))
    assert [(way.how, way.cost.files_rewritten) for way in operation.ways] == [(How.SPLICE, 3)]
    assert run(table, operation) == []
    assert spliced(table) == 3
    assert table.rows("id", "total") == model(range(12))
    assert table.rows(*names) == before
    # a second column goes into the spliced files
    again = table.evolve(table.wants(total=DOUBLED, twice=Computed(expression="id * 2")))
    assert [way.how for way in again.ways] == [How.SPLICE]
    assert run(table, again) == []
    assert table.rows("id", "twice") == sorted(((i, i * 2) for i in range(12)), key=repr)
    assert table.rows(*names) == before
    # and a changed one is rewritten, rows as they were
    changed = table.evolve(table.wants(total=Computed(expression="id"), twice=Computed(expression="id * 2")))
    assert [(way.how, way.why) for way in changed.ways] == [(How.REWRITE, "it has the column already")]
    run(table, changed)
    assert spliced(table) == 0
    assert table.rows("id", "total") == sorted(((i, i) for i in range(12)), key=repr)
    assert table.rows(*names) == before


# ---------------------------------------------------------------- beside the rewrite

WRITTEN: tuple[Mapping[str, str], ...] = (
    {"write.parquet.compression-codec": "zstd", "write.parquet.bloom-filter-enabled.column.id": "true"},
    {"write.parquet.compression-codec": "snappy", "write.parquet.page-version": "v2"},
    {"write.parquet.compression-codec": "gzip", "write.parquet.dict-size-bytes": "1"},
    {"write.parquet.compression-codec": "uncompressed", "write.parquet.page-row-limit": "50"},
    {
        "write.parquet.compression-codec": "lz4_raw",
        "write.parquet.row-group-size-bytes": "2000",
        "write.parquet.row-group-check-min-record-count": "100",
        "write.parquet.row-group-check-max-record-count": "100",
    },
)
EACH = 400
VALUES = {
    "n": ("long", "x * 3 + id"),
    "ratio": ("double", "CASE WHEN id % 50 = 0 THEN CAST('NaN' AS DOUBLE) WHEN id % 7 = 0 THEN NULL ELSE id / 8 END"),
    "words": ("string", "concat('é', note, note, note, note, note)"),
    "price": ("decimal(12,2)", "CAST(id * 1.01 AS DECIMAL(12,2))"),
    "seen": ("timestamptz", "timestamp_seconds(id * 100000)"),
    "on_day": ("date", "date_add(DATE '2020-01-01', CAST(id AS INT))"),
    "odd": ("boolean", "id % 2 = 1"),
}


def varied(shop: Shop) -> Lake:
    """Make a partitioned, sorted table with nested columns whose files were all written in another way."""
    table = shop.fresh(files=0, extra="PARTITIONED BY (truncate(1000, id))")
    spark = table.spark
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMNS (place struct<city: string, floor: int>, tags array<string>)")
    spark.sql(f"ALTER TABLE {table.name} WRITE LOCALLY ORDERED BY id")
    for number, properties in enumerate(WRITTEN):
        pairs = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
        spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ({pairs})")
        rows = spark.range(EACH * number, EACH * (number + 1)).selectExpr(
            "id",
            "IF(id % 11 = 0, NULL, CAST(id % 5 AS INT)) AS x",
            "concat('n', id % 20) AS note",  # Iceberg's vectorised reader does not know v2's encoding of other strings
            "named_struct('city', concat('c', id % 9), 'floor', CAST(id AS INT)) AS place",
            "IF(id % 5 = 0, NULL, array(concat('t', id))) AS tags",
        )
        rows.coalesce(1).writeTo(table.name).append()
        spark.sql(f"ALTER TABLE {table.name} UNSET TBLPROPERTIES ({', '.join(repr(key) for key in properties)})")
    return table


def evolved(table: Lake) -> Operation:
    """Add the computed columns of VALUES."""
    live = [msgspec.structs.replace(f, id=0) for f in table.observe().spec.schema.fields[:3]]
    new = [Field(name=name, required=False, type=type_) for name, (type_, _) in VALUES.items()]
    desired = msgspec.structs.replace(
        table.wants(),
        columns=StructType((*live, *new)),
        computed={(name,): Computed(expression=sql) for name, (_, sql) in VALUES.items()},
    )
    return table.evolve(desired)


def first_id(table: Lake, file: Any) -> int:
    """Return the lowest id in a file."""
    types = table.spark._jvm.org.apache.iceberg.types
    found: int = types.Conversions.fromByteBuffer(types.Types.LongType.get(), file.lowerBounds().get(1))
    return found


def local(location: Any) -> str:
    """Return the path of a file."""
    return str(location).removeprefix("file://").removeprefix("file:")


def totals(table: Lake, counts: str) -> dict[int, int]:
    """Add up one of the metrics over all files, by column."""
    found: Counter[int] = Counter()
    for file in entries(table).values():
        found.update(metrics(table, file, new=True)[counts])
    return dict(found)


def metrics(table: Lake, file: Any, *, new: bool) -> dict[str, Any]:
    """Return a file's metrics of its old or its new columns."""
    found, buffers = {}, table.spark._jvm.org.apache.iceberg.util.ByteBuffers
    for name in ("valueCounts", "nullValueCounts", "nanValueCounts", "lowerBounds", "upperBounds", "columnSizes"):
        values = getattr(file, name)() or {}
        chosen = {key: values[key] for key in values if (key > 8) is new}
        if name.endswith("Bounds"):
            chosen = {key: bytes(buffers.toByteArray(value)) for key, value in chosen.items()}
        found[name] = chosen
    return found


def test_file_by_file_it_equals_the_rewrite(shop: Shop) -> None:
    first, second = varied(shop), varied(shop)
    before = {first_id(first, file): file for file in entries(first).values()}
    operation = evolved(first)
    assert run(first, operation) == []
    assert run(second, evolved(second), splices=False) == []
    assert spliced(first) == len(entries(first)) >= len(WRITTEN)
    assert spliced(second) == 0
    written = sum(file.fileSizeInBytes() for file in entries(first).values())
    assert operation.cost.bytes_rewritten == pytest.approx(written, rel=0.3)  # small files; large ones: see the bench
    everything = [field.name for field in first.spark.table(first.name).schema.fields]
    for vectorised in ("true", "false"):
        mine, its = (
            sorted(map(repr, t.spark.read.option("vectorization-enabled", vectorised).table(t.name).collect()))
            for t in (first, second)
        )
        assert mine == its
        assert len(mine) == EACH * len(WRITTEN)
    rewritten = {first_id(second, file): file for file in entries(second).values()}
    for location, file in entries(first).items():
        start = first_id(first, file)
        old, other = before[start], rewritten[start]
        assert metrics(first, file, new=False) == metrics(first, old, new=False)
        added, written_anew = metrics(first, file, new=True), metrics(second, other, new=True)
        del added["columnSizes"], written_anew["columnSizes"]
        assert added == written_anew
        _same_to_other_readers(local(location), local(other.location()))
        assert file.recordCount() == old.recordCount() == other.recordCount()
        assert file.partition().toString() == old.partition().toString()
        assert (file.specId(), file.sortOrderId()) == (old.specId(), old.sortOrderId())
        assert file.sortOrderId() > 0
        assert list(file.splitOffsets()) == list(old.splitOffsets())
        assert file.fileSizeInBytes() == Path(local(location)).stat().st_size
    for counts in ("valueCounts", "nullValueCounts", "nanValueCounts"):
        assert totals(first, counts) == totals(second, counts)
    one, two = (_pyiceberg(table).select(everything).sort_by("id").to_pylist() for table in (first, second))
    assert str(one) == str(two)  # as text: NaN is not equal to itself


def _same_to_other_readers(spliced: str, rewritten: str) -> None:
    mine, its = (pq.ParquetFile(path).read().sort_by("id") for path in (spliced, rewritten))
    assert str(mine.to_pylist()) == str(its.to_pylist())
    query = "SELECT * FROM '{}' ORDER BY id"
    one, two = (relation(query.format(path)).to_arrow_table().to_pylist() for path in (spliced, rewritten))
    assert str(one) == str(two)


def _pyiceberg(table: Lake) -> Any:
    from pyiceberg.catalog import load_catalog

    properties = {k: v for k, v in table.catalog.settings.properties.items() if isinstance(v, str)}
    return load_catalog(table.catalog_name, **properties).load_table(str(table.ident)).scan().to_arrow()


# ---------------------------------------------------------------- what cannot be spliced


def test_each_file_goes_its_own_way_as_the_plan_said(shop: Shop) -> None:
    table = shop.fresh(files=2)
    for format_ in ("orc", "avro"):
        table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.format.default'='{format_}')")
        start = 8 if format_ == "orc" else 12
        table.append(range(start, start + 4))
    table.spark.sql(f"DELETE FROM {table.name} WHERE id = 1")
    table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.format.default'='parquet')")
    table.append(range(16, 20))  # written after the delete, so that it has none; the delete is for its whole partition
    operation = table.evolve(table.wants(total=DOUBLED))
    assert {(way.how, way.why): way.cost.files_rewritten for way in operation.ways} == {
        (How.SPLICE, ""): 1,
        (How.REWRITE, "row deletes"): 2,
        (How.REWRITE, "ORC file"): 1,
        (How.REWRITE, "AVRO file"): 1,
    }
    assert run(table, operation) == []
    assert spliced(table) == 1
    assert table.rows("id", "total") == sorted((row for row in model(range(20)) if row[0] != 1), key=repr)


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_of_several_row_groups_is_rewritten_as_one(shop: Shop, version: int) -> None:
    table = shop.fresh("rest", version=version, files=0)
    pairs = ", ".join(f"'{key}'='{value}'" for key, value in WRITTEN[-1].items())
    table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ({pairs})")
    table.append(range(EACH))
    table.spark.sql(f"DELETE FROM {table.name} WHERE id = 1")
    (whole,) = entries(table).values()
    assert len(whole.splitOffsets()) > 1
    lineage = ("id", "_row_id") if version > 2 else ("id",)
    before = table.rows(*lineage)
    assert run(table, table.evolve(table.wants(total=DOUBLED))) == []
    (made,) = entries(table).values()
    assert made.recordCount() == EACH - 1
    assert table.rows(*lineage) == before
    assert table.rows("id", "total") == sorted((row for row in model(range(EACH)) if row[0] != 1), key=repr)


def test_what_only_the_file_tells_is_rewritten_after_all_and_said(
    shop: Shop, spark: SparkSession, tmp_path: Path
) -> None:
    """Files that were added as they are carry no field ids."""
    table = shop.fresh(files=1)
    plain = spark.createDataFrame([(i, i % 5, f"n{i}") for i in range(4, 6)], "id bigint, x int, note string")
    plain.coalesce(1).write.parquet(str(tmp_path / "plain"))
    spark.sql(
        f"CALL {table.catalog_name}.system.add_files(table => '{table.ident}', "
        f"source_table => '`parquet`.`{tmp_path / 'plain'}`')"
    )
    operation = table.evolve(table.wants(total=DOUBLED))
    assert [way.how for way in operation.ways] == [How.SPLICE]
    (told,) = run(table, operation)
    assert told.startswith("rewriting 1 file that could not be spliced: ")
    assert "no field id" in told
    assert spliced(table) == 1
    assert table.rows("id", "total") == model(range(6))


def test_a_file_that_spark_reads_in_parts_is_never_spliced(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof of order fails in every task that does not begin with its file."""
    monkeypatch.setattr(splice_files, "as_one", lambda session, table, task: task)
    table = shop.fresh(files=0)
    pairs = ", ".join(f"'{key}'='{value}'" for key, value in WRITTEN[-1].items())
    table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ({pairs})")
    table.append(range(EACH))
    (told,) = run(table, table.evolve(table.wants(total=DOUBLED)))
    assert told.startswith("rewriting 1 file that could not be spliced: ")
    assert spliced(table) == 0
    assert table.rows("id", "total") == model(range(EACH))


def test_splicing_needs_no_pandas(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)  # as where it is not installed: PySpark does not ask for it
    table = shop.fresh()
    assert run(table, table.evolve(table.wants(total=DOUBLED))) == []
    assert spliced(table) == 3


def test_manifests_alone_tell_how_many_rows_there_are_unless_some_are_deleted(shop: Shop) -> None:
    table = shop.fresh(version=2)
    assert _listed(table) == 12
    table.spark.sql(f"DELETE FROM {table.name} WHERE id = 5")
    assert _listed(table) is None
    assert len(table.rows("id")) == 11


def _listed(table: Lake) -> int | None:
    spark3 = table.spark._jvm.org.apache.iceberg.spark.Spark3Util
    loaded = spark3.loadIcebergTable(table.spark._jsparkSession, table.name)
    return listed_rows(loaded, loaded.currentSnapshot().snapshotId())


def test_where_leaves_the_other_rows_without_a_value(shop: Shop) -> None:
    table = shop.fresh(files=2)
    operation = table.evolve(table.wants(total=Computed(expression="x", where="id < 3")))
    assert run(table, operation) == []
    assert spliced(table) == 2
    assert table.rows("id", "total") == sorted(((i, i % 5 if i < 3 else None) for i in range(8)), key=repr)


def test_a_killed_splice_goes_on_where_it_stopped(shop: Shop) -> None:
    table = shop.fresh(files=3)
    operation = table.evolve(table.wants(total=DOUBLED))
    with pytest.raises(Killed):
        table.run(operation, table.engine(Writes((3, "before"))))  # branch, first chunk, and no further
    assert table.rows("id", "total") == sorted(((i, None) for i in range(12)), key=repr)
    writes = Writes()
    table.run(operation, table.engine(writes))
    assert writes.count == 3  # two chunks, publish
    assert spliced(table) == 3
    assert table.rows("id", "total") == model(range(12))
    assert table.branches() == []
    # the chunk that was written and not committed left a file that nothing refers to
    folder = Path(next(iter(entries(table))).removeprefix("file://").removeprefix("file:")).parent
    assert len([path for path in folder.glob("*.parquet") if SPLICED.search(str(path))]) == 4


def test_rows_appended_and_deleted_meanwhile_stay_as_for_a_rewrite(shop: Shop) -> None:
    table = shop.fresh("rest", version=3)
    staged = table.start(table.evolve(table.wants(total=DOUBLED)))
    table.append(range(12, 14))
    table.spark.sql(f"DELETE FROM {table.name} WHERE id = 5")
    before = table.rows("id", "_row_id")
    staged.commit()
    rows = dict(table.rows("id", "total"))
    assert {i: rows[i] for i in range(12) if i != 5} == {i: v for i, v in model(range(12)) if i != 5}
    assert 5 not in rows
    assert table.rows("id", "_row_id") == before
