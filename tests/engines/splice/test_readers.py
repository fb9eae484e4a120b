"""Other readers than the writer's own find every value: DuckDB, and PyIceberg in a table that refers to the file."""

from __future__ import annotations

from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import IcebergType

from reconciler.engines.splice.footer import FileMetaData, RowGroup
from reconciler.engines.splice.splice import inspect
from tests.engines.splice.files import ROWS, VALUES, add, column, groups, old_table, rewritten, values, write
from tests.engines.splice.tables import replace_file


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("page", ["1.0", "2.0"])
def test_duckdb_reads_it_as_it_reads_the_rewrite(tmp_path: Path, kind: str, page: str) -> None:
    written = {"data_page_version": page, "write_page_index": True, "compression": "zstd"}
    source = write(tmp_path / "a.parquet", old_table(), 300, **written)
    done = add(source, [column(kind)], groups(values(kind), 300))
    plain = rewritten(source, [column(kind)], values(kind), 300, **written)
    mine, its = (relation(f"SELECT * FROM '{path}' ORDER BY id").to_arrow_table() for path in (done.path, plain))
    assert mine.equals(its)
    assert mine["new"].null_count == values(kind)["new"].null_count
    assert mine.num_rows == ROWS


def test_duckdb_prunes_by_the_new_statistics(tmp_path: Path) -> None:
    source = write(tmp_path / "a.parquet", old_table(), 100, write_page_index=True)
    done = add(source, [column("long")], groups(values("long", nulls=False), 100))
    assert relation(f"SELECT id FROM '{done.path}' WHERE new = {250 * 2**40}").fetchall() == [(750,)]
    assert relation(f"SELECT count(*) FROM '{done.path}' WHERE new < 0 AND place.floor >= 100").fetchall() == [
        (400 - 31,)
    ]


@pytest.mark.parametrize("bloom", [True, False])
def test_a_file_of_duckdb_with_bloom_filters(tmp_path: Path, bloom: bool) -> None:
    """DuckDB writes bloom filters for dictionary-encoded columns; they must keep working at their old offsets."""
    source = tmp_path / "a.parquet"
    ratio = "BLOOM_FILTER_FALSE_POSITIVE_RATIO 0.001," if bloom else ""
    duckdb.sql(
        f"COPY (SELECT range AS id, (range % 50) * 1000 AS n FROM range(10000)) TO '{source}'"
        f" (FORMAT parquet, {ratio} WRITE_BLOOM_FILTER {bloom}, ROW_GROUP_SIZE 2048, FIELD_IDS {{id: 1, n: 2}})"
    )
    counts = [g.integer(RowGroup.NUM_ROWS) for g in inspect(str(source)).meta.structs(FileMetaData.ROW_GROUPS)]
    new, starts = values("string", 10000), [sum(counts[:n]) for n in range(len(counts))]
    done = add(source, [column("string")], [new.slice(s, n) for s, n in zip(starts, counts, strict=True)])
    assert pq.read_table(done.path)["new"].equals(new["new"])
    probe = "SELECT file_name IS NOT NULL, bloom_filter_excludes FROM parquet_bloom_probe('{}', 'n', 1001)"
    for path in (source, done.path):
        assert relation(probe.format(path)).fetchall() == [(True, bloom)] * len(counts)


@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind != "timestamp-ns"])
def test_pyiceberg_reads_it_in_its_table(tmp_path: Path, kind: str) -> None:
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("n")
    rows = old_table()
    table = catalog.create_table("n.t", schema=rows.schema)
    table.append(rows.cast(schema_to_pyarrow(table.schema())))
    with table.update_schema() as update:
        type_ = TypeAdapter(IcebergType).validate_json(msgspec.json.encode(VALUES[kind][0]))
        update.add_column("new", type_)
    replace_file(catalog.load_table("n.t"), lambda _, counts: _cut(values(kind), counts))
    whole = catalog.create_table("n.u", schema=table.refresh().schema())
    whole.append(rows.append_column("new", values(kind)["new"]).cast(schema_to_pyarrow(whole.schema())))
    read, wanted = (catalog.load_table(name).scan().to_arrow() for name in ("n.t", "n.u"))
    assert read.cast(wanted.schema).equals(wanted)  # it reads short and large strings and lists as the file has them
    assert read["new"].to_pylist()[4] == values(kind)["new"].to_pylist()[4]
    if kind in {"long", "string", "decimal-small", "timestamptz"}:  # it filters by few types
        scan = catalog.load_table("n.t").scan(row_filter="new is null and id < 500", selected_fields=("id", "new"))
        assert scan.to_arrow().num_rows == values(kind, 500)["new"].null_count


def relation(query: str) -> duckdb.DuckDBPyRelation:
    found = duckdb.sql(query)
    assert found is not None
    return found


def _cut(table: pa.Table, counts: list[int]) -> list[pa.Table]:
    return [table.slice(sum(counts[:n]), count) for n, count in enumerate(counts)]
