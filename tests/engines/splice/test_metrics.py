"""The metrics of spliced columns are those PyIceberg computes for the same values, in the same bytes."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema

from reconciler.engines.splice.chunks import Settings
from reconciler.engines.splice.metrics import ColumnMetrics, column_metrics, merged
from reconciler.model.table import DataFile
from reconciler.model.types import Field
from tests.engines.splice.files import VALUES, add, column, groups, old_table, values, write

# PyIceberg 0.12 bounds no nested field, no uuid and no fixed; Iceberg's Java writers do, except in lists and maps
REPEATED = {"list", "map", "deep"}
UNBOUNDED = {"struct", "uuid", "fixed"}


def by_pyiceberg(path: str, field: Field) -> Any:
    """Compute the metrics of a file that holds only the new column."""
    table = pq.read_table(path, columns=["new"])
    alone = Path(path).with_name("alone.parquet")
    pq.write_table(table, alone, row_group_size=300, store_decimal_as_integer=True, compression="snappy")
    schema = Schema.model_validate_json(msgspec.json.encode({"type": "struct", "schema-id": 0, "fields": [field]}))
    return data_file_statistics_from_parquet_metadata(
        pq.read_metadata(alone), compute_statistics_plan(schema, {}), parquet_path_to_id_mapping(schema)
    )


@pytest.mark.parametrize("kind", VALUES)
def test_metrics_are_pyicebergs(tmp_path: Path, kind: str) -> None:
    source = write(tmp_path / "a.parquet", old_table(), 300)
    field = column(kind)
    mine = column_metrics(add(source, [field], groups(values(kind), 300)), [field])
    its = by_pyiceberg(str(tmp_path / "spliced-a.parquet"), field)
    assert mine.value_counts == its.value_counts
    assert mine.null_counts == its.null_value_counts
    assert mine.column_bytes == its.column_sizes
    if kind in REPEATED:
        assert (mine.lower_bounds, mine.upper_bounds) == ({}, {})
    elif kind in UNBOUNDED:
        assert set(mine.lower_bounds) == set(mine.upper_bounds) == set(mine.value_counts)
    else:
        bounds = its.column_aggregates[50]
        assert mine.lower_bounds == {50: bounds.min_as_bytes()}
        assert mine.upper_bounds.get(50) == bounds.max_as_bytes()


def of(tmp_path: Path, type_: str, rows: list[Any], mode: str | None = None, sizes: int = 2) -> ColumnMetrics:
    """Splice one column with these rows, in row groups of two."""
    from reconciler.engines.splice.arrow_types import arrow_type

    field = Field(id=50, name="new", required=False, type=type_)
    source = write(tmp_path / "a.parquet", old_table(len(rows)), sizes)
    new = pa.table({"new": pa.array(rows, type=arrow_type(type_))})
    done = add(source, [field], groups(new, sizes) or [new], settings=Settings())
    return column_metrics(done, [field], None if mode is None else {50: mode})


@pytest.mark.parametrize(
    ("type_", "rows", "low", "high"),
    [
        pytest.param("int", [3, -7, None, None], b"\xf9\xff\xff\xff", b"\x03\x00\x00\x00", id="a group of NULLs"),
        pytest.param("int", [None] * 4, None, None, id="only NULLs"),
        pytest.param("boolean", [True, None, False, True], b"\x00", b"\x01", id="boolean"),
        pytest.param("double", [float("nan")] * 4, None, None, id="only NaN"),
        pytest.param("double", [float("nan"), 1.0, 2.0, 1.0], b"\0\0\0\0\0\0\xf0?", b"\0\0\0\0\0\0\0@", id="some NaN"),
        pytest.param("fixed[2]", [b"\x80\x00", b"\x01\xff", b"a\0", b"a\0"], b"\x01\xff", b"\x80\x00", id="unsigned"),
        pytest.param("uuid", [b"\xff" * 16, b"\x00" * 16] * 2, b"\x00" * 16, b"\xff" * 16, id="uuid whole"),
        pytest.param("string", ["b" * 17, "a" * 17] * 2, b"a" * 16, b"b" * 15 + b"c", id="long strings"),
        pytest.param("string", ["é" * 16, "z"] * 2, b"z", "é".encode() * 16, id="sixteen characters, not bytes"),
        pytest.param("string", ["\U0010ffff" * 17] * 4, "\U0010ffff".encode() * 16, None, id="no next character"),
        pytest.param("string", ["a" + "\U0010ffff" * 16] * 4, b"a" + "\U0010ffff".encode() * 15, b"b", id="carry over"),
        pytest.param(
            "string",
            ["\ud7ff" * 17] * 4,
            "\ud7ff".encode() * 16,
            "\ud7ff".encode() * 15 + "\ue000".encode(),
            id="no surrogates",
        ),
        pytest.param("binary", [b"\xff" * 17] * 4, b"\xff" * 16, None, id="no next byte string"),
        pytest.param("binary", [b"\x01" + b"\xff" * 16] * 4, b"\x01" + b"\xff" * 15, b"\x02", id="carry bytes"),
        pytest.param("fixed[20]", [b"\x05" * 20] * 4, b"\x05" * 16, b"\x05" * 15 + b"\x06", id="fixed truncated"),
    ],
)
def test_bounds(tmp_path: Path, type_: str, rows: list[Any], low: bytes | None, high: bytes | None) -> None:
    found = of(tmp_path, type_, rows)
    assert (found.lower_bounds.get(50), found.upper_bounds.get(50)) == (low, high)
    assert found.value_counts == {50: 4}
    assert found.null_counts == {50: rows.count(None)}


@pytest.mark.parametrize(
    ("number", "data"),
    [
        (0, b"\0"),
        (127, b"\x7f"),
        (128, b"\0\x80"),
        (-1, b"\xff"),
        (-128, b"\x80"),
        (-129, b"\xff\x7f"),
        (99999, b"\x01\x86\x9f"),
    ],
)
@pytest.mark.parametrize("type_", ["decimal(5,0)", "decimal(12,0)", "decimal(30,0)"])
def test_decimal_bounds_are_the_shortest(tmp_path: Path, type_: str, number: int, data: bytes) -> None:
    found = of(tmp_path, type_, [decimal.Decimal(number)] * 2)
    assert (found.lower_bounds, found.upper_bounds) == ({50: data}, {50: data})


@pytest.mark.parametrize(
    ("mode", "counted", "bound"),
    [("none", False, None), ("counts", True, None), ("truncate(3)", True, b"abc"), ("full", True, b"abcdefgh" * 4)],
)
def test_modes(tmp_path: Path, mode: str, counted: bool, bound: bytes | None) -> None:
    found = of(tmp_path, "string", ["abcdefgh" * 4] * 2, mode)
    assert found.column_bytes[50] > 0
    assert (found.value_counts, found.null_counts) == (({50: 2}, {50: 0}) if counted else ({}, {}))
    assert found.lower_bounds.get(50) == bound


def test_files_and_groups_without_rows(tmp_path: Path) -> None:
    found = of(tmp_path, "int", [])
    assert (found.value_counts, found.null_counts, found.lower_bounds) == ({50: 0}, {50: 0}, {})


def test_the_entry_of_the_spliced_file_keeps_all_else(tmp_path: Path) -> None:
    source = write(tmp_path / "a.parquet", old_table(), 300)
    done = add(source, [column("int")], groups(values("int"), 300))
    before = DataFile(
        path=str(source),
        size_bytes=1,
        rows=1000,
        spec_id=4,
        column_bytes={1: 9},
        null_counts={1: 0},
        lower_bounds={1: b"l"},
    )
    after = merged(before, done, column_metrics(done, [column("int")]))
    assert (after.path, after.size_bytes, after.rows, after.spec_id) == (done.path, done.size_bytes, 1000, 4)
    assert (after.null_counts, after.value_counts) == ({1: 0, 50: 143}, {50: 1000})
    assert set(after.column_bytes) == set(after.lower_bounds) == {1, 50}
