"""The file's own key-value metadata after a column was added: what describes the schema follows it, or goes.

- `ARROW:schema`: Arrow takes its fields by position, so it must list every column; it is completed. Without it large
  strings, dictionaries and durations would come back as other types.
- `iceberg.schema`: older PyIceberg releases take the file's schema from it and would not see the column; completed.
- Spark's row metadata: Spark takes the file's whole schema from it, so the column would be invisible; Spark derives the
  same from the Parquet schema, so it goes. Avro's schemas likewise.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence

import msgspec
import pyarrow as pa

from reconciler.engines.splice.arrow_types import arrow_field
from reconciler.engines.splice.compact import Items, Struct
from reconciler.engines.splice.footer import FileMetaData, KeyValue, SchemaElement
from reconciler.model.types import Field

ARROW, ICEBERG = b"ARROW:schema", b"iceberg.schema"
STALE = {
    b"org.apache.spark.sql.parquet.row.metadata",
    b"parquet.avro.schema",
    b"avro.schema",
    b"parquet.proto.descriptor",
    b"thrift.descriptor",
}


def follow(meta: Struct, columns: Sequence[Field]) -> None:
    """Bring the key-value metadata of a footer, whose root already counts the new columns, up to date."""
    if FileMetaData.KEY_VALUE_METADATA not in meta:
        return
    before = meta.structs(FileMetaData.SCHEMA)[0].integer(SchemaElement.NUM_CHILDREN) - len(columns)
    entries = meta.items(FileMetaData.KEY_VALUE_METADATA)
    kept = [entry for entry in meta.structs(FileMetaData.KEY_VALUE_METADATA) if _follows(entry, columns, before)]
    if kept:
        meta.set(FileMetaData.KEY_VALUE_METADATA, Items(entries.type, list(kept)))
    else:
        del meta.fields[FileMetaData.KEY_VALUE_METADATA]


def _follows(entry: Struct, columns: Sequence[Field], before: int) -> bool:
    """Update one entry in place; whether it stays."""
    key = entry.binary(KeyValue.KEY)
    if key in STALE:
        return False
    if key not in {ARROW, ICEBERG} or KeyValue.VALUE not in entry:
        return True
    complete = _arrow if key == ARROW else _iceberg
    value = complete(entry.binary(KeyValue.VALUE), columns, before)
    if value is not None:
        entry.set(KeyValue.VALUE, value)
    return value is not None


def _arrow(value: bytes, columns: Sequence[Field], before: int) -> bytes | None:
    """Append to a serialised Arrow schema; None when it is not one of this file."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value, validate=True)))
    except (pa.ArrowException, OSError, binascii.Error):
        return None
    if len(schema) != before:
        return None
    for column in columns:
        schema = schema.append(arrow_field(column))
    return base64.b64encode(schema.serialize().to_pybytes())


def _iceberg(value: bytes, columns: Sequence[Field], before: int) -> bytes | None:
    """Append to an Iceberg schema as JSON; None when it is not one of this file."""
    try:
        schema = json.loads(value)
        fields = schema["fields"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not isinstance(fields, list) or len(fields) != before:
        return None
    fields.extend(msgspec.to_builtins(column) for column in columns)
    return json.dumps(schema, separators=(",", ":")).encode()
