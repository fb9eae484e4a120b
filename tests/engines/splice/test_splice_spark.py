"""Files that Spark wrote are spliced, and Spark reads them: vectorised or not, through Iceberg and plainly."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from reconciler.engines.splice.compact import encode
from reconciler.engines.splice.footer import ColumnChunk, ColumnMetaData, FileMetaData, RowGroup
from reconciler.engines.splice.splice import Spliced, inspect
from reconciler.model.types import Field
from tests.engines.splice.files import UTC, add, stamp
from tests.engines.splice.tables import replace_file

ROWS = 4000
# Spark type → the value for row `n`
NEW: dict[str, tuple[str, Any]] = {
    "boolean": ("boolean", lambda n: n % 3 == 0),
    "int": ("int", lambda n: n - 2000),
    "long": ("bigint", lambda n: n * 2**40),
    "float": ("float", lambda n: n / 2),
    "double": ("double", lambda n: n / 4),
    "decimal_small": ("decimal(5,2)", lambda n: decimal.Decimal(n).scaleb(-2)),
    "decimal_middle": ("decimal(18,3)", lambda n: decimal.Decimal(n * 10**10).scaleb(-3)),
    "decimal_large": ("decimal(38,10)", lambda n: decimal.Decimal(-n * 10**30).scaleb(-10)),
    "date": ("date", lambda n: datetime.date(1970, 1, 1) + datetime.timedelta(days=n)),
    "timestamp": ("timestamp_ntz", stamp),
    "timestamptz": ("timestamp", lambda n: stamp(n, UTC)),
    "string": ("string", lambda n: f"é{n}" * (n % 4)),
    "binary": ("binary", lambda n: bytes([n % 256]) * (n % 9)),
    "record": ("struct<a: int, b: string>", lambda n: {"a": n, "b": None if n % 2 else f"b{n}"}),
    "items": ("array<bigint>", lambda n: [None if i == 1 else n + i for i in range(n % 4)]),
    "pairs": ("map<string, double>", lambda n: [(f"k{i}", n / 2) for i in range(n % 3)]),
    "odd.näme $": ("bigint", lambda n: n),
    "deep": ("array<struct<m: map<int, array<string>>>>", lambda n: [{"m": [(i, ["x"] * i) for i in range(n % 3)]}]),
}


def value(name: str, number: int) -> Any:
    return None if number % 7 == 3 else NEW[name][1](number)


def values_for(path: str, counts: list[int], name: str, type_: pa.DataType) -> list[pa.Table]:
    """Compute the new column from each row group's ids, as a backfill would."""
    file = pq.ParquetFile(path)
    ids = [file.read_row_group(n, columns=["id"])["id"].to_pylist() for n in range(len(counts))]
    return [pa.table({"new": pa.array([value(name, n) for n in group], type=type_)}) for group in ids]


def as_python(found: Any) -> Any:
    """Make Spark's rows comparable with plain Python values."""
    if hasattr(found, "asDict"):
        return {key: as_python(inner) for key, inner in found.asDict().items()}
    if isinstance(found, list):
        return [as_python(item) for item in found]
    if isinstance(found, dict):
        return [(key, as_python(item)) for key, item in found.items()]
    return bytes(found) if isinstance(found, bytearray) else found


@pytest.fixture(scope="module", params=["v1", "v2"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    """An Iceberg table by Spark: several files and row groups, nested columns, bloom filters, dictionaries."""
    name = f"embedded.splice.pages_{request.param}"
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS embedded.splice")
    spark.sql(
        f"CREATE TABLE {name} (id bigint, word string, place struct<city: string, floor: int>, tags array<string>)"
        f" USING iceberg TBLPROPERTIES ('write.parquet.page-version'='{request.param}',"
        " 'write.parquet.bloom-filter-enabled.column.id'='true', 'write.parquet.row-group-size-bytes'='4000',"
        " 'write.parquet.row-group-check-min-record-count'='200',"
        " 'write.parquet.row-group-check-max-record-count'='200', 'write.parquet.page-row-limit'='100')"
    )
    rows = spark.range(ROWS).selectExpr(
        "id",
        "concat('w', id % 50) AS word",
        "named_struct('city', concat('c', id), 'floor', cast(id AS int)) AS place",
        "if(id % 5 = 0, null, array(concat('t', id))) AS tags",
    )
    rows.repartition(2).writeTo(name).append()
    return name


def spliced(table: str, name: str, lakes: dict[str, dict[str, str]], spark: SparkSession) -> list[Spliced]:
    """Add one column to the table and splice it into every file."""
    from reconciler.engines.splice.arrow_types import arrow_type
    from tests.engines.splice.tables import new_column

    spark.sql(f"ALTER TABLE {table} ADD COLUMN `{name}` {NEW[name][0]}")
    loaded = load_catalog("embedded", **lakes["embedded"]).load_table(table.removeprefix("embedded."))
    type_ = arrow_type(new_column(loaded).type)

    def values(path: str, counts: list[int]) -> list[pa.Table]:
        return [t.rename_columns([name]) for t in values_for(path, counts, name, type_)]

    return replace_file(loaded, values)


def test_spark_reads_every_type_in_its_iceberg_table(
    spark: SparkSession, table: str, lakes: dict[str, dict[str, str]]
) -> None:
    """One column after the other: the files of the last hold all, spliced again and again."""
    files: list[Spliced] = []
    before = load_catalog("embedded", **lakes["embedded"]).load_table(table.removeprefix("embedded."))
    sources = [task.file.file_path.removeprefix("file:") for task in before.scan().plan_files()]
    assert len(sources) == 2
    for source in sources:
        footer = inspect(source.replace("//", "/"))
        assert encode(footer.meta) == Path(source).read_bytes()[footer.start : -8]
        groups = footer.meta.structs(FileMetaData.ROW_GROUPS)
        assert len(groups) > 1
        meta = groups[0].structs(RowGroup.COLUMNS)[0].struct(ColumnChunk.META_DATA)
        assert ColumnMetaData.BLOOM_FILTER_OFFSET in meta
    for name in NEW:
        files = spliced(table, name, lakes, spark)
    for vectorised in ("true", "false"):
        rows = spark.read.option("vectorization-enabled", vectorised).table(table).orderBy("id").collect()
        assert len(rows) == ROWS
        for row in rows:
            assert row.word == f"w{row.id % 50}"
            assert row.place.floor == row.id
            assert row.tags == (None if row.id % 5 == 0 else [f"t{row.id}"])
        for name in NEW:
            wanted = [value(name, n) for n in range(ROWS)]
            found = [as_python(row[name]) for row in rows]
            if name == "timestamptz":
                wanted = [w and w.replace(tzinfo=None) for w in wanted]
                found = [f and f.astimezone(UTC).replace(tzinfo=None) for f in found]
            assert found == wanted, (name, vectorised)
        # by the old column's bloom filter, the new one's bounds and page index
        flat = spark.read.option("vectorization-enabled", vectorised).table(table)
        assert [r.double for r in flat.where("id = 1234").collect()] == [1234 / 4]
        assert flat.where("id = 123456").count() == 0
        assert [r.id for r in flat.where("int = 1500").collect()] == [3500]
        assert flat.where("double is null").count() == sum(n % 7 == 3 for n in range(ROWS))
    # plain Spark, without Iceberg
    for vectorised in ("true", "false"):
        spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorised)
        plain = spark.read.parquet(*[file.path for file in files])
        assert plain.columns[-len(NEW) :] == list(NEW)
        assert {r.id: r.string for r in plain.select("id", "string").collect()} == {
            n: value("string", n) for n in range(ROWS)
        }
        assert [r.double for r in plain.where("int = 1500").select("double").collect()] == [3500 / 4]
    spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


@pytest.fixture
def plain_file(spark: SparkSession, tmp_path: Path) -> Path:
    """A file of plain Spark, which writes its own schema into the footer."""
    schema = StructType(
        [
            StructField("id", LongType(), True, {"parquet.field.id": 1}),
            StructField("n", IntegerType(), True, {"parquet.field.id": 2}),
            StructField("s", StringType(), True, {"parquet.field.id": 3}),
        ]
    )
    rows = spark.createDataFrame([(n, n, f"s{n}") for n in range(2000)], schema).coalesce(1)
    rows.write.option("parquet.block.size", "4096").option("parquet.page.size", "1024").parquet(str(tmp_path / "out"))
    (path,) = (tmp_path / "out").glob("*.parquet")
    return path


def test_plain_spark_sees_the_column_and_reads_each_row_once(spark: SparkSession, plain_file: Path) -> None:
    """Splits are made by row groups; a new column much larger than all old ones must not lose or double a row."""
    footer = inspect(str(plain_file))
    assert encode(footer.meta) == plain_file.read_bytes()[footer.start : -8]
    counts = [group.integer(RowGroup.NUM_ROWS) for group in footer.meta.structs(FileMetaData.ROW_GROUPS)]
    assert len(counts) > 2
    field = Field(id=9, name="new", required=False, type="string")
    ids = pq.read_table(plain_file, columns=["id"])["id"].to_pylist()
    new = pa.table({"new": [f"{n}-" + "".join(chr(33 + (n * i) % 90) for i in range(200)) for n in ids]})
    starts = [sum(counts[:n]) for n in range(len(counts))]
    done = add(plain_file, [field], [new.slice(s, n) for s, n in zip(starts, counts, strict=True)])
    spark.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    spark.conf.set("spark.sql.files.openCostInBytes", "1")
    try:
        frame = spark.read.parquet(done.path)
        assert frame.columns == ["id", "n", "s", "new"]
        assert frame.rdd.getNumPartitions() > 3
        found = sorted((row.id, row.s, row.new) for row in frame.collect())
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
        spark.conf.unset("spark.sql.files.openCostInBytes")
    assert found == [(n, f"s{n}", text) for n, text in sorted(zip(ids, new["new"].to_pylist(), strict=True))]
