"""Put a spliced file into an Iceberg table in the place of the one it was made from."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from reconciler.engines.splice.metrics import column_metrics
from reconciler.engines.splice.plan import row_counts
from reconciler.engines.splice.splice import Spliced, inspect, splice
from reconciler.model.types import Field


def new_column(table: Table) -> Field:
    """Return the table's last column, with the ids the catalog gave it."""
    # our decimals are written without the space
    return msgspec.json.decode(table.schema().fields[-1].model_dump_json().replace(", ", ","), type=Field)


def replace_file(table: Table, values: Callable[[str, list[int]], list[pa.Table]]) -> list[Spliced]:
    """Splice the table's last column into each of its files; `values` are asked for by path and row group sizes."""
    field, done = new_column(table), []
    files = [task.file for task in table.scan().plan_files()]
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as snapshot:
        for file in files:
            source = file.file_path.removeprefix("file://").removeprefix("file:")
            target = source.replace(".parquet", "-spliced.parquet")
            spliced = splice(source, target, [field], values(source, list(row_counts(inspect(source)))))
            snapshot.delete_data_file(file)
            snapshot.append_data_file(entry(file, spliced, field))
            done.append(spliced)
    return done


def entry(file: DataFile, spliced: Spliced, field: Field) -> DataFile:
    """Return the manifest entry of the spliced file."""
    metrics = column_metrics(spliced, [field])
    made = DataFile.from_args(
        content=file.content,
        file_path=file.file_path.replace(".parquet", "-spliced.parquet"),
        file_format=file.file_format,
        partition=file.partition,
        record_count=file.record_count,
        file_size_in_bytes=spliced.size_bytes,
        column_sizes={**(file.column_sizes or {}), **metrics.column_bytes},
        value_counts={**(file.value_counts or {}), **metrics.value_counts},
        null_value_counts={**(file.null_value_counts or {}), **metrics.null_counts},
        nan_value_counts=file.nan_value_counts or {},
        lower_bounds={**(file.lower_bounds or {}), **metrics.lower_bounds},
        upper_bounds={**(file.upper_bounds or {}), **metrics.upper_bounds},
        split_offsets=file.split_offsets,
        sort_order_id=file.sort_order_id,
        spec_id=file.spec_id,
    )
    made.spec_id = file.spec_id
    return made
