"""Write rows as Parquet files, one partition each.

PyIceberg computes partitions only with its Rust extension, and never two from one column; for the few rows written
here its transforms in Python are enough.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionKey
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.transforms import Transform
    from pyiceberg.typedef import Record


@dataclass(frozen=True)
class _Partition:
    """What PyIceberg's writer asks of a `PartitionKey`."""

    partition: Record
    path: str

    def to_path(self) -> str:
        return self.path


def write_files(table: Table, rows: pa.Table) -> list[DataFile]:
    """Write rows in the table's current layout; nobody sees the files yet."""
    from pyiceberg.io.pyarrow import bin_pack_arrow_table, write_file
    from pyiceberg.table import TableProperties, WriteTask
    from pyiceberg.utils.properties import property_as_int

    size = property_as_int(
        table.properties,
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES,
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT,
    )
    write_id, numbers = uuid4(), itertools.count()
    tasks = (
        WriteTask(
            write_uuid=write_id,
            task_id=next(numbers),
            schema=table.schema(),
            record_batches=batches,
            partition_key=cast("PartitionKey | None", partition),
        )
        for partition, part in _split(table, rows)
        for batches in bin_pack_arrow_table(part, size or TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT)
    )
    return list(write_file(table.io, table.metadata, tasks))


def _split(table: Table, rows: pa.Table) -> Iterator[tuple[_Partition | None, pa.Table]]:
    from pyiceberg.typedef import Record

    spec, schema = table.spec(), table.schema()
    if spec.is_unpartitioned():
        yield None, rows
        return
    columns = [_values(rows, schema, f.source_id, f.transform) for f in spec.fields]
    members: dict[tuple[object, ...], list[int]] = {}
    for position, values in enumerate(zip(*columns, strict=True)):
        members.setdefault(values, []).append(position)
    for values, positions in members.items():
        record = Record(*values)
        yield _Partition(record, spec.partition_to_path(record, schema)), rows.take(positions).combine_chunks()


def _values(rows: pa.Table, schema: Schema, source_id: int, transform: Transform[Any, Any]) -> list[object]:
    from pyiceberg.partitioning import _to_partition_representation

    source = schema.find_field(source_id).field_type
    first, *below = (schema.find_column_name(source_id) or "").split(".")
    column = rows[first].to_pylist()
    for name in below:
        column = [None if value is None else value[name] for value in column]
    apply = transform.transform(source)
    return [apply(_to_partition_representation(source, value)) for value in column]
