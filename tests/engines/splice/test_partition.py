"""One Spark task: what comes in other than as the file's rows, in its order, is answered with a reason and no file."""

from __future__ import annotations

import math
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from reconciler.engines.splice.locations import local_path, open_location, storage_properties
from reconciler.engines.splice.partition import (
    MARK_EVERY,
    POSITION,
    ROW_ID,
    Answer,
    Job,
    Target,
    mark_of,
    run_task,
    splice_partition,
)
from reconciler.errors import Unsupported
from reconciler.model.types import Field
from tests.engines.splice.files import OLD, assert_equal, column, old_table, rewritten, values, with_id, write

ROWS = 2 * MARK_EVERY + 100
NEW = column("double")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "a.parquet", old_table(ROWS), 3000, compression="zstd")


def job(source: Path, columns: Sequence[Field] = (NEW,), rows: int = ROWS, first_row_id: int | None = None) -> Job:
    mark = mark_of(f"file:{source}") if first_row_id is None else 0
    target = Target(str(source.parent / "deep" / "new"), rows, first_row_id or 0, mark)
    return Job(tuple(columns), {}, {f"file:{source}": target}, {"s3.secret-access-key": "hush"})


def batches(source: Path, table: pa.Table, rows: int = 1000) -> list[pa.RecordBatch]:
    """Send values as Spark does."""
    return numbered(table, [position(source, number) for number in range(table.num_rows)], rows)


def numbered(table: pa.Table, positions: Sequence[int | None], rows: int = 1000) -> list[pa.RecordBatch]:
    found: list[pa.RecordBatch] = table.append_column(POSITION, pa.array(positions, pa.int64())).to_batches(rows)
    return found


def position(source: Path | str, number: int) -> int:
    return number if number % MARK_EVERY else number ^ mark_of(f"file:{source}")


def answers_to(sent: list[pa.RecordBatch], job: Job, attempt: int = 7) -> list[Answer]:
    """Splice one partition; all of its input must have been read."""
    left: Iterator[pa.RecordBatch] = iter(sent)
    found = [answer for _, answer in splice_partition(left, job, attempt)]
    assert next(left, None) is None
    return found


def run(sent: list[pa.RecordBatch], job: Job, attempt: int = 7) -> Answer:
    (answer,) = answers_to(sent, job, attempt)
    return answer


def test_the_file_is_as_if_it_had_been_rewritten(source: Path) -> None:
    new = values("double", ROWS)
    answer = run(batches(source, new), job(source))
    assert answer.path == str(source.parent / "deep" / "new-7.parquet")
    assert answer.size == Path(answer.path).stat().st_size
    assert answer.metrics.null_counts == {NEW.id: new["new"].null_count}
    assert_equal(Path(answer.path), rewritten(source, [NEW], new, 3000, compression="zstd"))


def test_each_attempt_has_a_file_of_its_own(source: Path) -> None:
    paths = {run(batches(source, values("double", ROWS)), job(source), attempt).path for attempt in (1, 2)}
    assert len(paths) == 2
    again = run(batches(source, values("double", ROWS)), job(source), 1)
    assert "already" in again.refusal  # no name is used twice


def test_nans_are_counted(source: Path) -> None:
    new = pa.table({"new": [math.nan if n % 3 == 0 else None if n % 3 == 1 else 0.5 for n in range(ROWS)]})
    answer = run(batches(source, new), job(source))
    assert answer.nan_counts == {NEW.id: len(range(0, ROWS, 3))}


Fault = Callable[[list[pa.RecordBatch]], list[pa.RecordBatch]]


def at(number: int, found: int | None) -> Fault:
    """Send one row with another position."""

    def fault(sent: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        table = pa.Table.from_batches(sent)
        positions = table[POSITION].to_pylist()
        positions[number] = found
        return numbered(table.drop_columns([POSITION]), positions, 500)

    return fault


OTHER = "other.parquet"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        pytest.param(lambda sent: [sent[0], sent[2], sent[1], *sent[3:]], "order", id="batches-swapped"),
        pytest.param(lambda sent: sent[:-1], "fewer rows", id="rows-missing"),
        pytest.param(lambda sent: [*sent[:3], *sent[4:]], "order", id="gap"),
        pytest.param(lambda sent: [*sent, sent[0]], "more rows", id="a-second-file"),
        pytest.param(lambda sent: [sent[0], sent[0], *sent[1:]], "order", id="twice"),
        pytest.param(at(MARK_EVERY, position(OTHER, MARK_EVERY)), "order", id="another-file"),
        pytest.param(at(MARK_EVERY, MARK_EVERY), "order", id="no-file"),
        pytest.param(at(777, 778), "order", id="another-position"),
        pytest.param(at(777, None), "order", id="no-position"),
        pytest.param(at(ROWS - 1, 0), "order", id="the-last-one"),
    ],
)
def test_rows_that_are_not_the_files_own_make_no_file(source: Path, fault: Fault, why: str) -> None:
    sent = batches(source, values("double", ROWS))
    assert re.search(why, run(fault(sent), job(source)).refusal)
    assert not list(source.parent.glob("**/new*"))
    assert not run(sent, job(source)).refusal


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda sent: sent[1:], id="first-rows-missing"),
        pytest.param(at(0, 0), id="no-name"),
        pytest.param(at(0, None), id="no-position"),
        pytest.param(at(0, position(OTHER, 0)), id="another-file"),
    ],
)
def test_rows_that_begin_as_no_file_does_are_not_answered(source: Path, fault: Fault) -> None:
    assert answers_to(fault(batches(source, values("double", ROWS))), job(source)) == []
    assert not list(source.parent.glob("**/new*"))


def test_a_task_answers_messages_of_arrow(source: Path) -> None:
    sent = batches(source, values("double", ROWS))
    messages = [batch.serialize().to_pybytes() for batch in sent]
    ((file, answer),) = run_task(job(source), sent[0].schema.serialize().to_pybytes(), messages)
    found = msgspec.msgpack.decode(answer, type=Answer)
    assert (file, found.size) == (f"file:{source}", Path(found.path).stat().st_size)


def test_what_does_not_fit_is_told(source: Path, tmp_path: Path) -> None:
    sent = batches(source, values("double", ROWS))
    assert "its manifest says 5" in run(sent, job(source, rows=5)).refusal
    assert "already" in run(sent, job(source, [Field(id=1, name="new", required=False, type="double")])).refusal
    source.rename(tmp_path / "gone")
    assert "FileNotFoundError" in run(sent, job(source)).refusal
    source.write_bytes(b"PAR1 no Parquet at all PAR1")
    assert run(sent, job(source)).refusal
    assert not list(tmp_path.glob("**/new*"))


def test_a_partition_without_rows_answers_nothing(source: Path) -> None:
    assert answers_to([], job(source)) == []
    assert answers_to([batches(source, values("double", 10))[0].slice(0, 0)], job(source)) == []


WORKER = """
import pickle, sys

class Asked:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            print("asked for pandas")

import pyarrow as pa
from reconciler.engines.splice.partition import splice_partition

sys.meta_path.insert(0, Asked())
with pa.OSFile("rows.arrow") as file:
    sent = list(pa.ipc.open_stream(file))
job = pickle.loads(open("job", "rb").read())
if "spoiled" in sys.argv:
    pa.array(["made of Python objects"])
print(*(answer.refusal or "made" for _, answer in splice_partition(iter(sent), job, 1)))
"""


@pytest.mark.parametrize("is_v3", [False, True])
def test_no_worker_imports_pandas(source: Path, tmp_path: Path, is_v3: bool) -> None:
    """Pyarrow imports it for the least of reasons, where it is installed: a third of a second of each worker."""
    new = values("double", ROWS)
    sent = lineage_batches(new, 500) if is_v3 else batches(source, new)
    work = job(source, (NEW, ROW_ID), first_row_id=500) if is_v3 else job(source)
    with pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as file, pa.ipc.new_stream(file, sent[0].schema) as stream:
        stream.write_table(pa.Table.from_batches(sent))
    (tmp_path / "job").write_bytes(pickle.dumps(work))

    def told(*arguments: str) -> str:
        command = [sys.executable, "-c", WORKER, *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    assert told() == "made\n"
    assert "pandas" in told("spoiled")


# ---------------------------------------------------------------- format v3


def lineage_batches(table: pa.Table, first: int) -> list[pa.RecordBatch]:
    return numbered(table, range(first, first + table.num_rows))


def test_row_ids_name_the_file_prove_its_order_and_become_a_column(source: Path) -> None:
    answer = run(lineage_batches(values("double", ROWS), 500), job(source, (NEW, ROW_ID), first_row_id=500))
    read = pq.read_table(answer.path)
    assert read["_row_id"].to_pylist() == list(range(500, 500 + ROWS))
    assert read["new"].equals(values("double", ROWS)["new"])
    assert answer.metrics.null_counts[ROW_ID.id] == 0


def test_ids_that_no_file_begins_with_answer_nothing(source: Path) -> None:
    sent = lineage_batches(values("double", ROWS), 400)
    assert answers_to(sent, job(source, (NEW, ROW_ID), first_row_id=500)) == []


def test_a_file_that_says_when_its_rows_were_updated_is_left_alone(tmp_path: Path) -> None:
    fields = pa.schema([*OLD, with_id(2147483539, "_last_updated_sequence_number", pa.int64())])
    old = old_table(ROWS).append_column(fields[-1], pa.nulls(ROWS, pa.int64()))
    source = write(tmp_path / "a.parquet", old.cast(fields))
    answer = run(lineage_batches(values("double", ROWS), 0), job(source, first_row_id=0))
    assert "updated" in answer.refusal


# ---------------------------------------------------------------- locations


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/a/b c%20d", "/a/b c%20d"),
        ("file:/a/x=%2F/b", "/a/x=%2F/b"),
        ("file:///a/b", "/a/b"),
        ("s3://a/b", None),
        ("hdfs://a/b", None),
    ],
)
def test_local_paths(location: str, path: str | None) -> None:
    assert local_path(location) == path


def test_s3_is_streamed_through_its_own_file_system_and_other_storage_is_refused() -> None:
    properties: dict[str, Any] = {
        "s3.endpoint": "http://127.0.0.1:9",
        "client.region": "eu-west-1",
        "s3.access-key-id": "me",
        "s3.secret-access-key": "hush",
        "warehouse": "s3://bucket",
    }
    kept = storage_properties(properties)
    assert set(kept) == {*properties, "s3.region"} - {"warehouse"}
    filesystem, path = open_location("s3://bucket/a/b.parquet", kept)
    assert isinstance(filesystem, pafs.S3FileSystem)
    assert (filesystem.region, path) == ("eu-west-1", "bucket/a/b.parquet")
    with pytest.raises(Unsupported, match="hdfs"):
        open_location("hdfs://n/a", properties)


def test_a_job_does_not_print_the_credentials_it_carries(source: Path) -> None:
    assert "hush" not in repr(job(source))
    assert "hush" not in str(job(source))
