"""How the files of a backfill get their values: which way each file goes, and the way that works for every file.

Spark reads whole files with their deletes applied and writes them anew, one for one: same partition spec, same
partition, same row order, and in format v3 the same row ids. What it wrote is handed back, not committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from reconciler.engines.data_files import Task, iterate
from reconciler.engines.frames import functions_of, is_remote
from reconciler.engines.gateway import jvm_of
from reconciler.engines.java_errors import class_names
from reconciler.engines.table_cache import table_cache
from reconciler.errors import InvalidInput
from reconciler.plan.operations import Backfill, BackfillColumn

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from reconciler.engines.site import Site

ROW_ID = "_row_id"
LAST_UPDATED = "_last_updated_sequence_number"
WHOLE = 1 << 50  # larger than any file: never split one, never put two into one task (two of them do not overflow)


# ---------------------------------------------------------------- expressions


def filled(frame: DataFrame, backfill: Backfill) -> DataFrame:
    """Give every row its values; in format v3 a row whose values change is marked as updated, and keeps its id."""
    F = functions_of(frame)

    values = {column.name: value_of(frame, column) for column in backfill.columns}
    selected: list[Column] = []
    for field in frame.schema.fields:
        name = field.name
        if name in values:
            selected.append(values[name].alias(name))
        elif name == LAST_UPDATED and ROW_ID in frame.columns:
            same = F.lit(True)
            for column, value in values.items():
                same = same & frame[_quoted(column)].eqNullSafe(value)
            selected.append(F.when(same, frame[name]).alias(name))
        else:
            selected.append(frame[_quoted(name)])
    made = frame.select(*selected)
    check_plan(made)
    return made


def unfilled(frame: DataFrame, backfill: Backfill) -> DataFrame:
    """Keep the rows that lack a value they could have; in a fill of what is computed anew, that have another one."""
    F = functions_of(frame)

    lacking = F.lit(False)
    for column in backfill.columns:
        value = F.expr(column.sql).cast(frame.schema[column.name].dataType)
        present = frame[_quoted(column.name)]
        is_anew = backfill.is_fill and column.recompute
        lacks = ~present.eqNullSafe(value) if is_anew else present.isNull() & value.isNotNull()
        if column.where is not None:
            lacks = F.expr(column.where) & lacks
        lacking = lacking | lacks
    return frame.where(lacking)


def value_of(frame: DataFrame, column: BackfillColumn) -> Column:
    """Return what a row's value becomes: the present one stays, unless the column is computed anew."""
    F = functions_of(frame)

    present, value = frame[_quoted(column.name)], _computed(frame, column)
    value = value if column.recompute else F.coalesce(present, value)
    return value if column.where is None else F.when(F.expr(column.where), value).otherwise(present)


def first_value_of(frame: DataFrame, column: BackfillColumn) -> Column:
    """Return what a row's value becomes in a file that does not have the column: nothing of it has to be read."""
    F = functions_of(frame)

    value = _computed(frame, column)
    return value if column.where is None else F.when(F.expr(column.where), value)


def _computed(frame: DataFrame, column: BackfillColumn) -> Column:
    F = functions_of(frame)

    return F.expr(column.sql).cast(frame.schema[column.name].dataType)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def check_plan(frame: DataFrame) -> None:
    """Let Spark have the last word on what our parser let through."""
    if is_remote(frame):
        return  # a server shows no plan; there the parser has the last word
    plan = frame._jdf.queryExecution().analyzed()
    if not plan.deterministic() or not plan.subqueriesAll().isEmpty():
        raise InvalidInput(
            "Spark finds the expression of a computed column not deterministic, or a query inside it.",
            hint="Compute it from the row's own columns.",
        )


# ---------------------------------------------------------------- rewrite


def rewrite(site: Site, tasks: Sequence[Task], backfill: Backfill) -> list[Any]:
    """Rewrite whole files with their values and return the new ones; nothing is committed."""
    options = {
        "target-file-size-bytes": str(WHOLE),
        "use-table-distribution-and-ordering": "false",
        **site.table.facts().output_spec(tasks[0].spec_id),
        **_sort_order(tasks[0]),
    }
    return site.rewrite(tasks, lambda frame: filled(frame, backfill), options, is_whole=True)


def _sort_order(task: Task) -> dict[str, str]:
    """Keep what the file says of its order: its rows keep it too."""
    return {"output-sort-order-id": str(task.sort_order_id)} if task.sort_order_id else {}


@contextmanager
def staged_frame(session: SparkSession, table: Any, tasks: Sequence[Task]) -> Iterator[tuple[DataFrame, str]]:
    """Read scan tasks as a table, one Spark task for each whole file; the name that it is staged under comes too."""
    spark = jvm_of(session).org.apache.iceberg.spark
    group = str(uuid4())
    cache, reads = table_cache(session), spark.ScanTaskSetManager.get()
    staged = jvm_of(session).java.util.ArrayList()
    for task in tasks:
        staged.add(task.java)
    cache.add(group, table)
    try:
        reads.stageTasks(table, group, staged)
        reader = session.read.format("iceberg").option("split-size", WHOLE).option("file-open-cost", WHOLE)
        yield reader.load(group), group
    finally:
        cache.remove(group)
        reads.removeTasks(table, group)


def as_one(session: SparkSession, table: Any, task: Task) -> Task:
    """Return the task as one that Spark reads at once: of a file with several row groups it would make several.

    It splits at the offsets that the manifest names, so the file read is one that begins at the first of them.
    """
    file = task.java.file()
    offsets = file.splitOffsets()
    if offsets is None or len(offsets) < 2:
        return task
    iceberg, gateway = jvm_of(session).org.apache.iceberg, session.sparkContext._gateway
    spec = table.specs().get(task.spec_id)
    single = iceberg.DataFiles.builder(spec).copy(file).withSplitOffsets(offsets.subList(0, 1)).build()
    single.setDataSequenceNumber(file.dataSequenceNumber())
    single.setFileSequenceNumber(file.fileSequenceNumber())  # format v3 reads from it when a row was updated
    deletes = gateway.new_array(iceberg.DeleteFile, len(found := list(iterate(task.java.deletes()))))
    for place, delete in enumerate(found):
        deletes[place] = delete
    everything = iceberg.expressions.ResidualEvaluator.unpartitioned(iceberg.expressions.Expressions.alwaysTrue())
    schema, spec_json = iceberg.SchemaParser.toJson(table.schema()), iceberg.PartitionSpecParser.toJson(spec)
    return msgspec.structs.replace(task, java=iceberg.BaseFileScanTask(single, deletes, schema, spec_json, everything))


def row_error(error: Exception) -> InvalidInput | None:
    """Return what to tell when a row's values made the expression fail; None for any other error."""
    names = [name for name in class_names(error) if name in _ROW_ERRORS]
    if not names:
        return None
    return InvalidInput(
        f"The expression fails on a row ({names[0]}).",
        hint="Use try_cast, try_divide and the like, or limit it with `where`. Main has nothing of it.",
    )


_ROW_ERRORS = frozenset(
    {
        "SparkArithmeticException",
        "SparkNumberFormatException",
        "SparkDateTimeException",
        "SparkArrayIndexOutOfBoundsException",
        "SparkIllegalArgumentException",
        "SparkRuntimeException",
        "SparkUpgradeException",
    }
)
