"""One Spark task: take the values of one whole file as Spark computed them, and splice them in.

This runs in the executor's Python. It is proven here, and not assumed, that the values are the file's rows in its
order: each row comes with its `_pos`, and every 4096th with a mark of its `_file` in that; to compare the whole name of
each row's file would cost as much as the values do. In format v3 `_row_id` says it all: each file has a range of its
own. Whatever does not fit is no error but an answer: the driver has the file rewritten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
MARK_EVERY = 4096
MARK_DIGITS = 15
"""A mark is that many hexadecimal digits of a digest: it stays a positive long."""

ROW_ID = Field(id=ROW_ID_FIELD, name="_row_id", required=False, type="long")


class Target(NamedTuple):
    """Where a file's successor goes, up to the suffix that each attempt adds; its rows, and how they count up.

    That is from 0 with the file's mark in it, or in format v3 from the first row's id and without.
    """

    stem: str
    rows: int
    first: int = 0
    mark: int = 0


def mark_of(location: str) -> int:
    """Return a file's mark, as Spark computes it too: the begin of its location's SHA-256."""
    return int(hashlib.sha256(location.encode()).hexdigest()[:MARK_DIGITS], 16)


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


def run_task(job: Job, schema: bytes, messages: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Splice one Spark partition; each attempt of a task writes a file of its own name.

    The messages are Arrow's record batches of that schema. Yields the file and the answer, encoded.
    """
    from pyspark import TaskContext

    context, known = TaskContext.get(), pa.ipc.read_schema(pa.py_buffer(schema))
    batches = (pa.ipc.read_record_batch(pa.py_buffer(message), known) for message in messages)
    for file, answer in splice_partition(batches, job, context.taskAttemptId() if context else 0):
        yield file, msgspec.msgpack.encode(answer)


def splice_partition(batches: Iterator[pa.RecordBatch], job: Job, attempt: int) -> Iterator[tuple[str, Answer]]:
    """Splice the file that one Spark partition is; rows that begin as no file of the job does have no answer."""
    rows = Rows(batches, [column.name for column in job.columns], job.targets)
    if rows.file:
        yield rows.file, _answer(rows, job, attempt)
    for _ in batches:
        pass  # a task that leaves its input unread may fail


def _answer(rows: Rows, job: Job, attempt: int) -> Answer:
    target = job.targets[rows.file]
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

    def __init__(self, batches: Iterator[pa.RecordBatch], names: Sequence[str], targets: Mapping[str, Target]) -> None:
        """Read the first rows: how they begin names the file. `names` are the columns whose values are handed out."""
        self._names = names
        self._batches = (batch for batch in batches if batch.num_rows)
        self._batch = next(self._batches, None)
        self._none = None if self._batch is None else self._batch.slice(0, 0)
        begin = None if self._batch is None else self._batch[POSITION][0].as_py()
        files = {target.first ^ target.mark: source for source, target in targets.items()}
        self.file = "" if begin is None else files.get(begin, "")
        self._next, self._mark = (targets[self.file].first, targets[self.file].mark) if self.file else (0, 0)

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
        positions = part[POSITION]
        found = np.frombuffer(positions.buffers()[1], np.int64, len(positions), positions.offset * 8)
        wanted = np.arange(self._next, self._next + part.num_rows)
        if self._mark:
            wanted[-self._next % MARK_EVERY :: MARK_EVERY] ^= self._mark
        if positions.null_count or not np.array_equal(found, wanted):
            raise NotInOrder("Spark did not hand over the file's rows in their order.")
        self._next += part.num_rows

    def _values(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [batch[POSITION if name == ROW_ID.name else name] for name in self._names]
        return pa.RecordBatch.from_arrays(columns, names=list(self._names))
