"""Write files anew in the table's present layout: its partition spec, its sort order, or along a z-order curve.

A chunk's files become other files with the same rows; in format v3 every row keeps its id. Iceberg distributes and
sorts as it does for any write to the table; what it wrote is handed back, not committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from reconciler.engines.backfill_files import filled, row_error, staged_frame
from reconciler.engines.data_files import Task, iterate
from reconciler.engines.zorder import z_value
from reconciler.model.metadata import SchemaJson
from reconciler.model.types import FieldPath, StructType, paths_by_id
from reconciler.plan.operations import Backfill

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameWriter

    from reconciler.engines.staged import Site

_TARGET = "write.target-file-size-bytes"
_TARGET_BYTES = 512 << 20
_FUNCTIONS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
_Z = "_laketable_z"


def lay_out(site: Site, table: Any, tasks: Sequence[Task], backfill: Backfill, curve: Sequence[FieldPath]) -> list[Any]:
    """Rewrite files into the table's layout, with the values of computed columns, and return the new ones.

    `curve` are the columns of a z-order; without them the table's own sort order decides.
    """
    writes = site.session._jvm.org.apache.iceberg.spark.FileRewriteCoordinator.get()
    with staged_frame(site.session, table, tasks) as (staged, group):
        frame = filled(staged, backfill)
        try:
            writer = _along_curve(site, table, tasks, frame, curve) if curve else _as_the_table_says(table, frame)
            writer.option("output-spec-id", table.spec().specId()).mode("append").save(group)
            return list(iterate(writes.fetchNewFiles(table, group)))
        except Exception as error:
            told = row_error(error)
            if told is None:
                raise
            raise told from error
        finally:
            writes.clearRewrite(table, group)


def _as_the_table_says(table: Any, frame: DataFrame) -> DataFrameWriter:
    """Distribute by partition; a sorted table by ranges, so that its files do not overlap."""
    mode = "range" if table.sortOrder().isSorted() else "hash"
    return frame.write.format("iceberg").option("distribution-mode", mode).option("fanout-enabled", "false")


def _along_curve(
    site: Site, table: Any, tasks: Sequence[Task], frame: DataFrame, curve: Sequence[FieldPath]
) -> DataFrameWriter:
    partitions = _partition_values(site, table)
    target = int(table.properties().get(_TARGET) or _TARGET_BYTES)
    count = max(1, -(-sum(task.size for task in tasks) // target))
    placed = frame.withColumn(_Z, z_value(frame, curve))
    order = [*partitions, placed[_Z]]
    sorted_ = placed.repartitionByRange(count, *order).sortWithinPartitions(*order).drop(_Z)
    writer = sorted_.write.format("iceberg").option("use-table-distribution-and-ordering", "false")
    return writer.option("fanout-enabled", "false")


def _partition_values(site: Site, table: Any) -> list[Column]:
    """Return the partition of a row as Iceberg's own functions compute it."""
    from pyspark.sql import functions as F

    paths, found = column_paths(site, table), []
    for field in iterate(table.spec().fields()):
        column = ".".join(_quoted(part) for part in paths.get(field.sourceId(), ()))
        name, _, number = str(field.transform().toString()).rstrip("]").partition("[")
        if name == "void":
            continue
        if name == "identity":
            found.append(F.expr(column))
            continue
        arguments = f"{number}, {column}" if number else column
        found.append(F.expr(f"{_quoted(site.catalog)}.system.{_FUNCTIONS.get(name, name)}({arguments})"))
    return found


def column_paths(site: Site, table: Any) -> dict[int, FieldPath]:
    """Return the columns of the table's schema by field id; a name may hold a dot, so Iceberg's own text is no path."""
    schema = site.session._jvm.org.apache.iceberg.SchemaParser.toJson(table.schema())
    return paths_by_id(StructType(msgspec.json.decode(schema, type=SchemaJson).fields))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
