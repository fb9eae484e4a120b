"""Write files anew in the table's present layout: its partition spec, its sort order, or along a z-order curve.

A chunk's files become other files with the same rows; in format v3 every row keeps its id. Iceberg distributes and
sorts as it does for any write to the table; what it wrote is handed back, not committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reconciler.engines.backfill_files import filled
from reconciler.engines.data_files import Task
from reconciler.engines.data_state import TableFacts
from reconciler.engines.frames import functions_of
from reconciler.engines.sql import identifier
from reconciler.engines.zorder import z_value
from reconciler.model.metadata import PartitionFieldJson
from reconciler.model.types import FieldPath, paths_by_id, walk
from reconciler.plan.operations import Backfill

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from reconciler.engines.site import Site

_TARGET = "write.target-file-size-bytes"
_TARGET_BYTES = 512 << 20
_FUNCTIONS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
_Z = "_laketable_z"


def lay_out(site: Site, tasks: Sequence[Task], backfill: Backfill, curve: Sequence[FieldPath]) -> list[Any]:
    """Rewrite files into the table's layout, with the values of computed columns, and return the new ones.

    `curve` are the columns of a z-order; without them the table's own sort order decides.
    """
    facts = site.table.facts()
    fanout = str(_mixes_partitions(facts)).lower()
    options = {"fanout-enabled": fanout, "output-spec-id": str(facts.default_spec_id)}
    if curve:
        options["use-table-distribution-and-ordering"] = "false"
        return site.rewrite(
            tasks, lambda frame: _along_curve(site, facts, tasks, filled(frame, backfill), curve), options
        )
    # Distributed by partition; a sorted table by ranges, so that its files do not overlap.
    options["distribution-mode"] = "range" if facts.default_sort_order_id else "hash"
    return site.rewrite(tasks, lambda frame: filled(frame, backfill), options)


def _along_curve(
    site: Site, facts: TableFacts, tasks: Sequence[Task], frame: DataFrame, curve: Sequence[FieldPath]
) -> DataFrame:
    target = int(facts.properties.get(_TARGET) or _TARGET_BYTES)
    count = max(1, -(-sum(task.size for task in tasks) // target))
    placed = frame.withColumn(_Z, z_value(frame, curve))
    order = [*_partition_values(site, facts, frame), placed[_Z]]
    return placed.repartitionByRange(count, *order).sortWithinPartitions(*order).drop(_Z)


def _partition_values(site: Site, facts: TableFacts, frame: DataFrame) -> list[Column]:
    """Return the partition of a row as Iceberg's own functions compute it."""
    F, paths, found = functions_of(frame), paths_by_id(facts.schema()), list["Column"]()
    for field in _partition_fields(facts):
        column = ".".join(identifier(part) for part in paths.get(field.source_id, ()))
        name, _, number = field.transform.rstrip("]").partition("[")
        if name == "void":
            continue
        if name == "identity":
            found.append(F.expr(column))
            continue
        arguments = f"{number}, {column}" if number else column
        found.append(F.expr(f"{identifier(site.catalog)}.system.{_FUNCTIONS.get(name, name)}({arguments})"))
    return found


def _partition_fields(facts: TableFacts) -> tuple[PartitionFieldJson, ...]:
    return next(spec.fields for spec in facts.partition_specs if spec.spec_id == facts.default_spec_id)


def _mixes_partitions(facts: TableFacts) -> bool:
    """Say whether rows in Spark's order go to and fro between partitions: Spark buckets uuids as text."""
    types = {field.id: field.type for _, field in walk(facts.schema())}
    fields = _partition_fields(facts)
    return any(field.transform.startswith("bucket") and types.get(field.source_id) == "uuid" for field in fields)
