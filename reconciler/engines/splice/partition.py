"""One Spark task: take the values of one whole file as Spark computed them, and splice them in.

This runs in the executor's Python. It is proven here, and not assumed, that the values are the file's rows in its
order: Spark compares each row's `_pos` with the number of rows it has read, and marks the rows where they differ;
besides, every 512th row is marked with its position or its file. More in each row would cost as much as the values do.
In format v3 `_row_id` says it all: each file has a range of its own. Whatever does not fit is no error but an answer:
the driver has the file rewritten.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from reconciler.engines.splice.locations import open_location
from reconciler.engines.splice.metrics import ColumnMetrics, column_metrics
from reconciler.engines.splice.plan import field_ids, refusal, row_counts
from reconciler.engines.splice.splice import inspect, splice
from reconciler.errors import LakeError
from reconciler.model.types import Field
from reconciler.plan.splicing import LAST_UPDATED_FIELD, ROW_ID_FIELD

FILE, POSITION = "_file", "_pos"
MARK = FILE
"""The column of marks: its file in every `FILE_EVERY`th row, its position in every other `MARK_EVERY`th, else NULL."""

MARK_EVERY, FILE_EVERY = 512, 4096
ASTRAY = "astray"
"""What a row is marked with that is not where Spark read it."""

ROW_ID = Field(id=ROW_ID_FIELD, name="_row_id", required=False, type="long")
ANSWER = "source string, answer binary"


class Target(NamedTuple):
    """Where a file's successor goes, up to the suffix that each attempt adds; its rows; in v3 the id of the first."""

    stem: str
    rows: int
    first_row_id: int | None = None


class Job(NamedTuple):
    """What all tasks share; `columns` may end with ROW_ID, whose values are the positions themselves.

    `properties` are those of the table's storage, credentials among them: never print them.
    """

    columns: tuple[Field, ...]
    modes: Mapping[int, str]
    targets: Mapping[str, Target]
    properties: Mapping[str, str]

    def __repr__(self) -> str:
        """Leave the properties out."""
        return f"Job(columns={[column.name for column in self.columns]}, files={len(self.targets)})"


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one file: a new one with the metrics of its new columns, or why there is none."""

    path: str = ""
    size: int = 0
    metrics: ColumnMetrics = ColumnMetrics()
    nan_counts: Mapping[int, int] = {}
    refusal: str = ""


class NotInOrder(Exception):
    """The rows are not one file's, whole and in its order."""


def run_task(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Splice one Spark partition; each attempt of a task writes a file of its own name."""
    from pyspark import TaskContext

    context = TaskContext.get()
    yield from splice_partition(batches, job, context.taskAttemptId() if context else 0)


def splice_partition(batches: Iterator[pa.RecordBatch], job: Job, attempt: int) -> Iterator[pa.RecordBatch]:
    """Splice the file that one Spark partition is; answers with one row, or none for a partition without rows."""
    starts = {t.first_row_id: source for source, t in job.targets.items() if t.first_row_id is not None}
    rows = Rows(batches, [column.name for column in job.columns], starts)
    if not rows.file:
        return  # no rows, or ids that no file begins with
    answer = _answer(rows, job, attempt)
    for _ in batches:
        pass  # a task that leaves its input unread may fail
    columns = [_one(pa.string(), rows.file.encode()), _one(pa.binary(), msgspec.msgpack.encode(answer))]
    yield pa.RecordBatch.from_arrays(columns, names=["source", "answer"])


def _one(type_: pa.DataType, value: bytes) -> pa.Array:
    """Return a column of one value; from Python objects pyarrow makes none without importing pandas if it is there."""
    offsets = struct.pack("<2i", 0, len(value))
    return pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(offsets), pa.py_buffer(value)])


def _answer(rows: Rows, job: Job, attempt: int) -> Answer:
    target = job.targets.get(rows.file)
    if target is None:
        return Answer(refusal="Spark read a file that was not asked for.")
    try:
        return _spliced(rows, f"{target.stem}-{attempt:x}.parquet", target.rows, job)
    except NotInOrder as error:
        return Answer(refusal=str(error))
    except LakeError as error:
        return Answer(refusal=error.message)
    except (OSError, pa.ArrowException) as error:
        return Answer(refusal=f"Its storage failed under Python ({type(error).__name__}).")


def _spliced(rows: Rows, location: str, count: int, job: Job) -> Answer:
    filesystem, old = open_location(rows.file, job.properties)
    _, new = open_location(location, job.properties)
    footer = inspect(old, filesystem)
    if reason := refusal(footer, job.columns):
        return Answer(refusal=reason)
    if LAST_UPDATED_FIELD in field_ids(footer):
        return Answer(refusal="The file says itself when each row was updated.")
    counts = row_counts(footer)
    if sum(counts) != count:
        return Answer(refusal=f"The file holds {sum(counts):,} rows, and its manifest says {count:,}.")
    if isinstance(filesystem, pafs.LocalFileSystem):
        Path(new).parent.mkdir(parents=True, exist_ok=True)
    nans = _NaNs(job.columns)
    done = splice(old, new, job.columns, _groups(rows, counts, nans), filesystem=filesystem, footer=footer)
    metrics = column_metrics(done, job.columns, job.modes)
    return Answer(path=location, size=done.size_bytes, metrics=metrics, nan_counts=nans.counts)


def _groups(rows: Rows, counts: Sequence[int], nans: _NaNs) -> Iterator[pa.Table]:
    """Cut the rows into the file's row groups; raises NotInOrder, and then there is no new file."""
    for count in counts:
        yield nans.counted(rows.take(count))
    rows.require_end()


class _NaNs:
    """Counts the NaNs of top-level floating point columns on their way: Iceberg's own writers do."""

    def __init__(self, columns: Sequence[Field]) -> None:
        self._ids = {column.name: column.id for column in columns if column.type in ("float", "double")}
        self.counts: dict[int, int] = dict.fromkeys(self._ids.values(), 0)

    def counted(self, table: pa.Table) -> pa.Table:
        for name, field_id in self._ids.items():
            self.counts[field_id] += pc.sum(pc.is_nan(table[name])).as_py() or 0
        return table


class Rows:
    """The rows as Spark sends them: hands out values, and checks that they are one file's, in its order."""

    def __init__(self, batches: Iterator[pa.RecordBatch], names: Sequence[str], starts: Mapping[int, str]) -> None:
        """Read the first rows, which name the file; without a name `starts` says which one begins at that position.

        `names` are the columns whose values are handed out.
        """
        self._names = names
        self._batches = (batch for batch in batches if batch.num_rows)
        self._batch = next(self._batches, None)
        self._none = None if self._batch is None else self._batch.slice(0, 0)
        self._next, self.file, self._is_named = 0, "", False
        if self._batch is not None and MARK in self._batch.schema.names:
            self.file, self._is_named = self._batch[MARK][0].as_py() or "", True
        elif self._batch is not None:
            self._next = self._batch[POSITION][0].as_py() or 0
            self.file = starts.get(self._next, "")

    def take(self, count: int) -> pa.Table:
        """Return the values of the next rows."""
        parts = [] if self._none is None else [self._values(self._none)]
        while count:
            if self._batch is None:
                raise NotInOrder("Spark read fewer rows than the file has.")
            part = self._batch.slice(0, count)
            self._check(part)
            parts.append(self._values(part))
            is_used_up = part.num_rows == self._batch.num_rows
            self._batch = next(self._batches, None) if is_used_up else self._batch.slice(count)
            count -= part.num_rows
        return pa.Table.from_batches(parts)

    def require_end(self) -> None:
        """Raise NotInOrder when there are more rows."""
        if self._batch is not None:
            raise NotInOrder("Spark read more rows than the file has.")

    def _check(self, part: pa.RecordBatch) -> None:
        if self._is_named:
            self._check_marks(part[MARK])
        else:
            positions = part[POSITION]
            found = np.frombuffer(positions.buffers()[1], np.int64, len(positions), positions.offset * 8)
            wanted = np.arange(self._next, self._next + part.num_rows)
            if positions.null_count or not np.array_equal(found, wanted):
                raise NotInOrder("Spark did not read the file's rows in their order.")
        self._next += part.num_rows

    def _check_marks(self, marks: pa.Array) -> None:
        marked = range(-self._next % MARK_EVERY, len(marks), MARK_EVERY)
        wanted = [str(n) if n % FILE_EVERY else self.file for n in (self._next + index for index in marked)]
        found = [marks[index].as_py() for index in marked]
        if found == wanted and marks.null_count == len(marks) - len(marked):
            return
        names = [name for name, mark in zip(found, wanted, strict=True) if mark == self.file]
        strange = [name for name in names if name and name not in (self.file, ASTRAY) and not name.isdigit()]
        raise NotInOrder(
            "Spark mixed the rows of two files." if strange else "Spark did not read the file's rows in their order."
        )

    def _values(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [batch[POSITION if name == ROW_ID.name else name] for name in self._names]
        return pa.RecordBatch.from_arrays(columns, names=list(self._names))
