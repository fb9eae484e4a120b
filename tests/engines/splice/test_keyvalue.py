"""What a file says about its own schema never goes stale by a splice."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reconciler.engines.splice.footer import FileMetaData, KeyValue
from reconciler.engines.splice.splice import inspect
from reconciler.model.types import Field
from tests.engines.splice.files import OLD, add, column, old_table, values, with_id, write

SPARK_ROW = "org.apache.spark.sql.parquet.row.metadata"


def written(tmp_path: Path, metadata: dict[str, str], *, store_schema: bool = False) -> Path:
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(path, OLD, store_schema=store_schema) as writer:
        writer.write_table(old_table())
        writer.add_key_value_metadata(metadata)
    return path


def entries(path: str) -> dict[str, bytes]:
    found = inspect(path).meta.structs(FileMetaData.KEY_VALUE_METADATA)
    return {entry.binary(KeyValue.KEY).decode(): entry.binary(KeyValue.VALUE) for entry in found}


def test_arrows_schema_is_completed_so_that_types_only_arrow_knows_come_back(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            with_id(1, "large", pa.large_string()),
            with_id(2, "words", pa.dictionary(pa.int32(), pa.string())),
            with_id(3, "took", pa.duration("ms")),
        ],
        metadata={"owner": "me"},
    )
    table = pa.table({"large": ["a"], "words": pa.array(["b"]).dictionary_encode(), "took": [1]}, schema=schema)
    source = write(tmp_path / "a.parquet", table)
    done = add(
        source,
        [column("list"), Field(id=90, name="u", required=False, type="uuid")],
        [pa.table({"new": values("list", 1)["new"], "u": values("uuid", 1)["new"]})],
    )
    read = pq.read_table(done.path)
    assert read.schema.types[:3] == schema.types
    assert read.schema.types[4] == pa.uuid()
    assert read.schema.metadata == {b"owner": b"me"}
    assert read["new"].to_pylist() == values("list", 1)["new"].to_pylist()


@pytest.mark.parametrize(
    "stale",
    [
        pytest.param("not base64!", id="not base64"),
        pytest.param(base64.b64encode(b"garbage").decode(), id="not a schema"),
        pytest.param("", id="empty"),
        pytest.param(base64.b64encode(pa.schema([("x", pa.int8())]).serialize().to_pybytes()).decode(), id="another"),
    ],
)
def test_an_arrow_schema_that_is_not_this_files_goes(tmp_path: Path, stale: str) -> None:
    done = add(written(tmp_path, {"ARROW:schema": stale, "kept": "1"}), [column("int")], [values("int")])
    assert entries(done.path) == {"kept": b"1"}
    assert pq.read_table(done.path)["new"].equals(values("int")["new"])


def test_icebergs_schema_is_completed(tmp_path: Path) -> None:
    fields = [{"id": n, "name": name, "required": False, "type": "string"} for n, name in enumerate(OLD.names)]
    schema = {"type": "struct", "schema-id": 3, "fields": fields, "identifier-field-ids": [1]}
    source = written(tmp_path, {"iceberg.schema": json.dumps(schema)})
    done = add(source, [column("list")], [values("list")])
    found = json.loads(entries(done.path)["iceberg.schema"])
    new = {"type": "list", "element-id": 103, "element": "long", "element-required": False}
    assert found.pop("fields") == [*fields, {"id": 50, "name": "new", "required": False, "type": new}]
    assert found == {"type": "struct", "schema-id": 3, "identifier-field-ids": [1]}


@pytest.mark.parametrize("stale", ["", "{", "[]", "{}", '{"fields": 3}', '{"fields": []}', "[" * 100_000])
def test_an_iceberg_schema_that_is_not_this_files_goes(tmp_path: Path, stale: str) -> None:
    done = add(written(tmp_path, {"iceberg.schema": stale, "kept": "1"}), [column("int")], [values("int")])
    assert entries(done.path) == {"kept": b"1"}


@pytest.mark.parametrize("key", [SPARK_ROW, "parquet.avro.schema", "avro.schema"])
def test_what_others_take_for_the_whole_schema_goes(tmp_path: Path, key: str) -> None:
    done = add(written(tmp_path, {key: "{}", "org.apache.spark.version": "4.1.4"}), [column("int")], [values("int")])
    assert entries(done.path) == {"org.apache.spark.version": b"4.1.4"}


def test_metadata_that_all_goes_leaves_none(tmp_path: Path) -> None:
    done = add(written(tmp_path, {SPARK_ROW: "{}"}), [column("int")], [values("int")])
    assert FileMetaData.KEY_VALUE_METADATA not in inspect(done.path).meta
    assert pq.read_table(done.path).num_columns == 8
