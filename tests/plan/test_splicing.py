"""Which way a file goes, and what a backfill costs: from manifests alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reconciler.model.table import DataFile
from reconciler.model.types import Field, ListType, MapType, StructType, Type
from reconciler.plan.operations import BackfillColumn, Cost, How
from reconciler.plan.splicing import NAMED_FILES, can_splice, refusal, scheme_of, ways
from reconciler.render.report import ways_text

ROWS = 1_000_000


def field(id_: int, type_: Type = "long", **more: Any) -> Field:
    return Field(id=id_, name=f"c{id_}", required=False, type=type_, **more)


def schema(new: Type = "long", **more: Any) -> StructType:
    return StructType((field(1), field(2, "string"), field(3, new, **more)))


COLUMN = BackfillColumn(name="c3", field_id=3, sql="`c1` + 1", inputs=(1,))
FILE = DataFile(
    path="s3://b/a.parquet",
    size_bytes=20_000_000,
    rows=ROWS,
    column_bytes={1: 8_000_000, 2: 12_000_000},
    null_counts={1: 0, 2: 0},
)


def changed(**changes: Any) -> DataFile:
    return msgspec.structs.replace(FILE, **changes)


@pytest.mark.parametrize(
    ("file", "why"),
    [
        pytest.param(FILE, "", id="s3"),
        pytest.param(changed(path="/w/a.parquet"), "", id="no-scheme"),
        pytest.param(changed(path="file:/w/a.parquet"), "", id="local"),
        pytest.param(changed(path="hdfs://n/a.parquet"), "hdfs: storage", id="hdfs"),
        pytest.param(changed(format="ORC"), "ORC file", id="orc"),
        pytest.param(changed(format="avro"), "AVRO file", id="avro"),
        pytest.param(changed(has_deletes=True), "row deletes", id="deletes"),
        pytest.param(changed(is_encrypted=True), "encrypted", id="encrypted"),
        pytest.param(changed(column_bytes={3: 10}), "it has the column already", id="has-bytes"),
        pytest.param(changed(null_counts={3: 4}), "it has the column already", id="has-nulls"),
        pytest.param(changed(value_counts={3: 4}), "it has the column already", id="has-values"),
    ],
)
def test_what_keeps_a_file_from_splicing(file: DataFile, why: str) -> None:
    assert refusal(file, [COLUMN], schema(), 2) == why


def test_a_changed_column_is_rewritten() -> None:
    assert refusal(FILE, [msgspec.structs.replace(COLUMN, recompute=True)], schema(), 2)


def test_a_default_would_have_to_be_read() -> None:
    assert refusal(FILE, [COLUMN], schema(initial_default=1), 3) == "the column has a default"


def test_format_3_needs_row_ids() -> None:
    assert refusal(FILE, [COLUMN], schema(), 3) == "no row ids yet"
    assert refusal(changed(has_row_ids=True), [COLUMN], schema(), 3) == ""


def test_the_leaves_of_a_nested_column_tell_that_it_is_there() -> None:
    nested = schema(StructType((field(4), field(5, "string"))))
    assert refusal(FILE, [COLUMN], nested, 2) == ""
    assert refusal(changed(null_counts={5: 1}), [COLUMN], nested, 2) == "it has the column already"


@pytest.mark.parametrize("type_", ["uuid", "fixed[3]", "time", "variant", "timestamp_ns", "unknown", StructType(())])
def test_types_that_spark_arrow_and_parquet_see_differently_are_rewritten(type_: Type) -> None:
    assert not can_splice(type_)
    assert not can_splice(ListType(element_id=9, element=type_, element_required=False))
    assert refusal(FILE, [COLUMN], schema(type_), 2) == "the column's type"


def test_nested_types_of_known_leaves_are_spliced() -> None:
    map_ = MapType(key_id=7, key="string", value_id=8, value="decimal(9,2)", value_required=False)
    assert can_splice(StructType((field(4, map_), field(5, "timestamptz"))))


def test_ways_are_grouped_with_their_reasons_and_priced() -> None:
    local = changed(path="file:/w/a.parquet")
    files = [FILE, local, local, changed(has_deletes=True), changed(null_counts={3: 0}), changed(rows=0)]
    found = ways(files, [COLUMN], schema(), 2)
    assert [(w.how, w.why, w.cost.files_rewritten) for w in found] == [
        (How.SPLICE, "streamed through the job", 1),
        (How.SPLICE, "", 2),
        (How.REWRITE, "row deletes", 1),
    ]
    total = sum((w.cost for w in found), Cost())
    assert (total.files_rewritten, total.files_spliced) == (4, 3)
    assert total.bytes_read == 3 * 8_000_000 + 20_000_000
    assert found[1].cost.bytes_spliced == found[1].cost.bytes_rewritten > 2 * FILE.size_bytes
    assert found[2].cost.bytes_spliced == 0
    (unknown,) = ways([changed(column_bytes={})], [COLUMN], schema(), 2)
    assert unknown.cost.bytes_read == FILE.size_bytes
    assert ways_text(found) == (
        "1 file spliced (streamed through the job; 26 MiB), 2 files spliced (51 MiB), "
        "1 file rewritten (row deletes; 26 MiB)"
    )


def test_the_files_of_a_way_are_named_with_their_costs_the_most_costly_first() -> None:
    small, large = changed(path="s3://b/small.parquet", size_bytes=10), changed(path="s3://b/large.parquet")
    (spliced, rewritten) = ways([small, large, changed(has_deletes=True)], [COLUMN], schema(), 2)
    assert [file.path for file in spliced.files] == ["s3://b/large.parquet", "s3://b/small.parquet"]
    assert [file.path for file in rewritten.files] == ["s3://b/a.parquet"]
    assert sum(file.bytes_rewritten for file in spliced.files) == spliced.cost.bytes_rewritten


def test_a_plan_names_so_many_files_and_no_more() -> None:
    (way,) = ways([changed(path=f"/w/{n}.parquet") for n in range(NAMED_FILES + 5)], [COLUMN], schema(), 2)
    assert len(way.files) == NAMED_FILES
    assert way.cost.files_rewritten == NAMED_FILES + 5


def test_a_file_that_has_one_column_and_lacks_another_is_spliced() -> None:
    other = msgspec.structs.replace(COLUMN, name="c2", field_id=2)
    assert [w.how for w in ways([FILE], [other, COLUMN], schema(), 2)] == [How.SPLICE]
    lacking = changed(null_counts={1: 0, 2: 7})
    assert [w.how for w in ways([lacking], [other, COLUMN], schema(), 2)] == [How.REWRITE]


def added(type_: Type, inputs: dict[int, int]) -> int:
    file = changed(column_bytes=inputs, size_bytes=0)
    (way,) = ways([file], [msgspec.structs.replace(COLUMN, inputs=tuple(inputs))], schema(type_), 2)
    return way.cost.bytes_rewritten


def test_the_estimate_of_a_new_column() -> None:
    mib = 1_000_000
    assert added("long", {}) < 1000  # a constant
    assert added("long", {1: mib // 4}) == pytest.approx(mib // 4, rel=0.01)  # of one input: no more than it has
    assert added("double", {1: 2 * mib, 2: mib}) == pytest.approx(6.8 * mib, rel=0.01)  # too many pairs to be listed
    assert added("double", {1: mib // 2, 2: mib // 2}) == pytest.approx(mib, rel=0.01)  # few pairs
    assert added("int", {1: 8 * mib}) == pytest.approx(3.4 * mib, rel=0.01)  # no more than its width
    assert added("string", {1: 8 * mib, 2: 12 * mib}) == pytest.approx(20 * mib, rel=0.01)


@pytest.mark.parametrize(
    ("location", "scheme"),
    [("/a/b", "file"), ("a", "file"), ("FILE:/a", "file"), ("s3a://b/c:d", "s3a"), ("/a/b:c", "file")],
)
def test_schemes(location: str, scheme: str) -> None:
    assert scheme_of(location) == scheme
