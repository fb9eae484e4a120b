"""Give files new columns without decoding the old ones: Spark computes the values, its Python workers splice them in.

Every task reads one whole file, its input columns only, and answers with the file it wrote or with why it did not; what
was not spliced is rewritten. Nothing is committed here, and a file that never gets committed is an orphan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import msgspec

from reconciler.engines.backfill_files import ROW_ID as ROW_ID_COLUMN
from reconciler.engines.backfill_files import as_one, check_plan, first_value_of, rewrite, row_error, staged_frame
from reconciler.engines.data_files import Task
from reconciler.engines.gateway import jvm_of, text_map
from reconciler.engines.spark_site import SparkSite
from reconciler.engines.splice.locations import storage_properties
from reconciler.model.canonical import canonical_fields
from reconciler.model.table import DataFile
from reconciler.model.types import Field, StructType
from reconciler.plan.amounts import plural
from reconciler.plan.events import Progress
from reconciler.plan.operations import Backfill, BackfillColumn
from reconciler.plan.splicing import LAST_UPDATED_FIELD, ROW_ID_FIELD, lacking, leaf_ids, refusal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from reconciler.engines.splice.partition import Answer, Job

_FEW_ROWS, _MANY_ROWS = 2_000, 65_536


class Lot(NamedTuple):
    """What is spliced into files that lack the same.

    In format v3 a file's rows take their ids from their place in a manifest, and a new file would get new ones; so the
    ids become a column of the file, as in files that Iceberg rewrites.
    """

    columns: tuple[BackfillColumn, ...]
    needs_row_ids: bool = False


class _SchemaJson(msgspec.Struct, frozen=True):
    fields: tuple[Field, ...]


def fill_files(
    site: SparkSite, table: Any, tasks: Sequence[Task], backfill: Backfill, *, splices: bool = True
) -> list[Any]:
    """Write successors of files (of one partition spec and sort order) with their values, each its cheapest way."""
    lots, rewritten = parted(site.session, table, tasks, backfill) if splices else ({}, list(tasks))
    made: list[Any] = []
    for lot, spliced in lots.items():
        done, refused = splice_files(site.session, table, spliced, lot)
        made += done
        for why, left in refused.items():
            rewritten += left
            # What the plan called spliced is rewritten after all: some reasons only stand in the files.
            step = f"rewriting {plural(len(left), 'file')} that could not be spliced: {why}"
            site.tell(Progress(table=site.ref.table, operation=site.operation.id, step=step))
    return made + rewrite(site, rewritten, backfill) if rewritten else made


def parted(
    session: SparkSession, table: Any, tasks: Sequence[Task], backfill: Backfill
) -> tuple[dict[Lot, list[Task]], list[Task]]:
    """Part files into those to splice, by what they lack, and those to rewrite."""
    schema = schema_of(session, table)
    version = jvm_of(session).org.apache.iceberg.TableUtil.formatVersion(table)
    spliced: dict[Lot, list[Task]] = {}
    rewritten: list[Task] = []
    for task in tasks:
        file = _facts(task, backfill.columns, schema)
        columns = lacking(file, backfill.columns)
        if columns and not refusal(file, columns, schema, version):
            spliced.setdefault(Lot(columns, version > 2 and ROW_ID_FIELD not in file.column_bytes), []).append(task)
        else:
            rewritten.append(task)
    return spliced, rewritten


def splice_files(
    session: SparkSession, table: Any, tasks: Sequence[Task], lot: Lot
) -> tuple[list[Any], dict[str, list[Task]]]:
    """Splice columns into files; returns the new files, and by reason those that could not be spliced."""
    fields = {field.id: field for field in schema_of(session, table).fields}
    added = tuple(fields[column.field_id] for column in lot.columns)
    answers, boxed = _run(session, table, tasks, lot, added), _Boxes(session)
    made: list[Any] = []
    refused: dict[str, list[Task]] = {}
    for task in tasks:
        answer = answers.get(task.path)
        if answer is not None and not answer.refusal:
            made.append(_data_file(session, boxed, table, task, answer))
        else:
            why = answer.refusal if answer else "Spark's Python did not answer for it."
            refused.setdefault(why, []).append(task)
    return made, refused


def schema_of(session: SparkSession, table: Any) -> StructType:
    """Return a table's schema."""
    text = jvm_of(session).org.apache.iceberg.SchemaParser.toJson(table.schema())
    return StructType(canonical_fields(msgspec.json.decode(text, type=_SchemaJson).fields))


def _facts(task: Task, columns: Iterable[BackfillColumn], schema: StructType) -> DataFile:
    """Read from the manifest what decides about a file: a few keys of its metrics, for each costs a call to the JVM."""
    file = task.java.file()
    wanted = {column.field_id for column in columns}
    ids = [id_ for field in schema.fields if field.id in wanted for id_ in leaf_ids(field)]
    ids += [ROW_ID_FIELD, LAST_UPDATED_FIELD]
    return DataFile(
        path=task.path,
        size_bytes=task.size,
        rows=task.rows,
        has_deletes=task.has_deletes,
        format=str(file.format()),
        is_encrypted=file.keyMetadata() is not None,
        has_row_ids=file.firstRowId() is not None,
        column_bytes=_some(file.columnSizes(), ids),
        null_counts=_some(file.nullValueCounts(), ids),
    )


def _some(found: Any, ids: Sequence[int]) -> dict[int, int]:
    if found is None:
        return {}
    return {id_: value for id_ in ids if (value := found.get(id_)) is not None}


# ---------------------------------------------------------------- values


def _run(
    session: SparkSession, table: Any, tasks: Sequence[Task], lot: Lot, added: tuple[Field, ...]
) -> Mapping[str, Answer]:
    from reconciler.engines.splice.partition import ROW_ID, Answer

    # Larger batches cost fewer rounds of Python; a batch lies in the heap, and values may be as wide as they like.
    is_plain = all(isinstance(field.type, str) and field.type not in ("string", "binary") for field in added)
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(_MANY_ROWS if is_plain else _FEW_ROWS))
    job = _job(session, table, tasks, added)
    if lot.needs_row_ids:
        job = job._replace(columns=(*added, ROW_ID), modes={**job.modes, ROW_ID.id: "full"})
    with staged_frame(session, table, [as_one(session, table, task) for task in tasks]) as (frame, _):
        computed = [first_value_of(frame, column).alias(column.name) for column in lot.columns]
        check_plan(frame.select(*computed))
        try:
            answers = _answers(frame.select(*computed, _proof(frame)), job)
        except Exception as error:
            if (told := row_error(error)) is not None:
                raise told from error
            return {}  # executors without LakeTable's Python, say: rewriting needs none, or fails with the real reason
    return {file: msgspec.msgpack.decode(answer, type=Answer) for file, answer in answers}


def _answers(frame: DataFrame, job: Job) -> list[tuple[str, bytes]]:
    """Hand the rows to Python as Arrow's messages; `mapInArrow` would wrap each row into another one on the way."""
    from pyspark.core.rdd import RDD
    from pyspark.serializers import NoOpSerializer

    from reconciler.engines.splice.partition import run_task

    session = frame.sparkSession
    zone = session.conf.get("spark.sql.session.timeZone")
    arrow = jvm_of(session).org.apache.spark.sql.util.ArrowUtils.toArrowSchema(frame._jdf.schema(), zone, True, False)
    messages = RDD(frame._jdf.toArrowBatchRdd().toJavaRDD(), session.sparkContext, NoOpSerializer())
    with _settings_in_tasks(session):
        task = partial(run_task, job, bytes(arrow.serializeAsMessage()))
        answers: list[tuple[str, bytes]] = messages.mapPartitions(task).collect()
        return answers


@contextmanager
def _settings_in_tasks(session: SparkSession) -> Iterator[None]:
    """Let tasks see the session's settings: Spark hands them on with its queries, but not with what is run as an RDD.

    Without those of the catalogs, which may hold secrets and which no task reads.
    """
    context, found = session.sparkContext, text_map(session, session.conf._jconf.getAllAsJava())
    settings = {k: v for k, v in found.items() if k.startswith("spark.sql.") and not k.startswith("spark.sql.catalog.")}
    for key, value in settings.items():
        context.setLocalProperty(key, value)
    try:
        yield
    finally:
        for key in settings:
            context.setLocalProperty(key, None)


def _proof(frame: DataFrame) -> Column:
    """Return what proves which file a row is of, and where in it."""
    from pyspark.sql import functions as F

    from reconciler.engines.splice.partition import FILE, MARK_DIGITS, MARK_EVERY, POSITION

    if ROW_ID_COLUMN in frame.columns:  # format v3, whose staged tables have no other metadata columns
        return F.col(ROW_ID_COLUMN).alias(POSITION)
    position, name = frame.metadataColumn(POSITION), frame.metadataColumn(FILE)
    digest = F.substring(F.sha2(name.cast("binary"), 256), 1, MARK_DIGITS)
    marked = position.bitwiseXOR(F.conv(digest, 16, 10).cast("long"))
    return F.when(position.bitwiseAND(MARK_EVERY - 1) == 0, marked).otherwise(position).alias(POSITION)


def _job(session: SparkSession, table: Any, tasks: Sequence[Task], added: tuple[Field, ...]) -> Job:
    from reconciler.engines.splice.partition import Job, Target, mark_of

    attempt, locations = uuid4().hex, table.locationProvider()
    targets = {}
    for number, task in enumerate(tasks):
        file, spec, name = task.java.file(), table.specs().get(task.spec_id), f"{number:05d}-{attempt}"
        is_parted = spec.isPartitioned()
        stem = locations.newDataLocation(spec, file.partition(), name) if is_parted else locations.newDataLocation(name)
        first = _first_row_id(session, file)
        mark = mark_of(task.path) if first is None else 0
        targets[task.path] = Target(stem, task.rows, first or 0, mark)
    config = jvm_of(session).org.apache.iceberg.MetricsConfig.forTable(table)
    modes = {leaf: config.columnMode(leaf).toString() for field in added for leaf in leaf_ids(field)}
    return Job(added, modes, targets, _storage(session, table))


def _first_row_id(session: SparkSession, file: Any) -> int | None:
    """Return the id of a file's first row: the lowest one where the file holds them, for then they count up too."""
    lower = file.lowerBounds()
    found = None if lower is None else lower.get(ROW_ID_FIELD)
    if found is None:
        first: int | None = file.firstRowId()
        return first
    types = jvm_of(session).org.apache.iceberg.types
    lowest: int = types.Conversions.fromByteBuffer(types.Types.LongType.get(), found)
    return lowest


def _storage(session: SparkSession, table: Any) -> dict[str, str]:
    """Return what reaching the table's storage takes, as the catalog handed it out; secrets among it."""
    try:
        found = text_map(session, table.io().properties())
    except Exception:  # noqa: BLE001 - a FileIO need not tell; local files need none of it
        return {}
    return storage_properties(found)


# ---------------------------------------------------------------- manifest entries


def _data_file(session: SparkSession, boxed: _Boxes, table: Any, task: Task, answer: Answer) -> Any:
    """Return the new file's entry: the old one's with another path and size, and the new columns' metrics."""
    iceberg, old, added = jvm_of(session).org.apache.iceberg, task.java.file(), answer.metrics
    metrics = iceberg.Metrics(
        old.recordCount(),
        boxed.merged(old.columnSizes(), added.column_bytes),
        boxed.merged(old.valueCounts(), added.value_counts),
        boxed.merged(old.nullValueCounts(), added.null_counts),
        boxed.merged(old.nanValueCounts(), answer.nan_counts),
        boxed.merged(old.lowerBounds(), added.lower_bounds),
        boxed.merged(old.upperBounds(), added.upper_bounds),
    )
    builder = iceberg.DataFiles.builder(table.specs().get(task.spec_id)).copy(old)
    return builder.withPath(answer.path).withFileSizeInBytes(answer.size).withMetrics(metrics).build()


class _Boxes:
    """Makes Java maps of Longs and ByteBuffers: what Python hands over itself would arrive as Integers and arrays."""

    def __init__(self, session: SparkSession) -> None:
        self._java = jvm_of(session).java
        self._mapper = jvm_of(session).com.fasterxml.jackson.databind.ObjectMapper()
        self._maps = {int: self._map_of("java.lang.Long"), bytes: self._map_of("java.nio.ByteBuffer")}

    def merged(self, before: Any, added: Mapping[int, int] | Mapping[int, bytes]) -> Any:
        """Return a Java map with both."""
        made = self._java.util.HashMap() if before is None else self._java.util.HashMap(before)
        if added:
            type_ = self._maps[type(next(iter(added.values())))]
            made.putAll(self._mapper.readValue(msgspec.json.encode(added).decode(), type_))
        return made

    def _map_of(self, value: str) -> Any:
        classes = [self._java.lang.Class.forName(name) for name in ("java.util.HashMap", "java.lang.Integer", value)]
        return self._mapper.getTypeFactory().constructMapType(*classes)
