"""A spliced file equals the plain rewrite, over what pyarrow can write."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reconciler.engines.splice.chunks import Settings
from reconciler.engines.splice.compact import Struct, decode
from reconciler.engines.splice.footer import ColumnChunk, ColumnMetaData, FileMetaData, OffsetIndex, RowGroup
from reconciler.engines.splice.splice import inspect
from reconciler.errors import InvalidInput
from reconciler.model.types import Field
from tests.engines.splice.files import (
    OLD,
    ROWS,
    VALUES,
    add,
    assert_equal,
    column,
    groups,
    old_table,
    rewritten,
    values,
    write,
)

CODECS = ("none", "snappy", "gzip", "brotli", "zstd", "lz4")
PAGES = ("1.0", "2.0")


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("nulls", [True, False], ids=["nulls", "no-nulls"])
def test_every_type(tmp_path: Path, kind: str, nulls: bool) -> None:
    source = write(tmp_path / "a.parquet", old_table(), 300)
    new, columns = values(kind, nulls=nulls), [column(kind, required=not nulls)]
    done = add(source, columns, groups(new, 300))
    assert Path(done.path).stat().st_size == done.size_bytes
    assert_equal(Path(done.path), rewritten(source, columns, new, 300))


@pytest.mark.parametrize(
    ("codec", "page", "dictionary", "index"), list(itertools.product(CODECS, PAGES, *[(True, False)] * 2))
)
def test_codecs_pages_dictionaries_and_page_indexes(
    tmp_path: Path, codec: str, page: str, dictionary: bool, index: bool
) -> None:
    written: dict[str, Any] = {
        "compression": codec,
        "data_page_version": page,
        "use_dictionary": dictionary,
        "write_page_index": index,
        "data_page_size": 512,
    }
    source = write(tmp_path / "a.parquet", old_table(), 400, **written)
    for kind in ("string", "deep"):
        settings = Settings(codec=codec, page_version=page, page_bytes=512, page_index=index, dictionary=dictionary)
        done = add(source, [column(kind)], groups(values(kind), 400), settings=settings, target=tmp_path / kind)
        assert_equal(Path(done.path), rewritten(source, [column(kind)], values(kind), 400, **written))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("index", [True, False])
def test_without_settings_the_files_own_are_kept(tmp_path: Path, codec: str, index: bool) -> None:
    written: dict[str, Any] = {"compression": codec, "write_page_index": index}
    source = write(tmp_path / "a.parquet", old_table(), **written)
    done = add(source, [column("long")], [values("long")])
    assert_equal(Path(done.path), rewritten(source, [column("long")], values("long"), ROWS, **written))


def page_indexes(path: str, group: int) -> tuple[Struct, Struct, Struct]:
    """Return the last column's metadata, offset index and column index, read at the offsets the footer gives."""
    chunk = inspect(path).meta.structs(FileMetaData.ROW_GROUPS)[group].structs(RowGroup.COLUMNS)[-1]
    data, found = Path(path).read_bytes(), []
    for start, length in ((4, 5), (6, 7)):  # offset index, column index: offset and length
        at = chunk.integer(start)
        found.append(decode(data[at : at + chunk.integer(length)]))
    return chunk.struct(ColumnChunk.META_DATA), found[0], found[1]


def test_page_indexes_point_to_the_pages(tmp_path: Path) -> None:
    source = write(tmp_path / "a.parquet", old_table(4000), 2000, write_page_index=True)
    how = Settings(codec="zstd", page_index=True, dictionary=False, page_bytes=1000)
    done = add(source, [column("long")], groups(values("long", 4000), 2000), settings=how)
    plain = rewritten(
        source, [column("long")], values("long", 4000), 2000,
        compression="zstd", use_dictionary=False, data_page_size=1000, write_page_index=True,
    )  # fmt: skip
    for group in range(2):
        meta, offsets, columns = page_indexes(done.path, group)
        pages = offsets.structs(OffsetIndex.PAGE_LOCATIONS)
        assert len(pages) > 1
        at = meta.integer(ColumnMetaData.DATA_PAGE_OFFSET)
        for page in pages:
            assert page.integer(OffsetIndex.LOCATION_OFFSET) == at
            at += page.integer(2)  # compressed_page_size
        _, _, its = page_indexes(str(plain), group)
        assert columns == its


def test_the_old_bytes_are_unchanged_up_to_the_footer(tmp_path: Path) -> None:
    source = write(tmp_path / "a.parquet", old_table(), 100, write_page_index=True)
    start = inspect(str(source)).start
    done = add(source, [column("string")], groups(values("string"), 100))
    assert Path(done.path).read_bytes()[:start] == source.read_bytes()[:start]


def test_several_columns_at_once(tmp_path: Path) -> None:
    source = write(tmp_path / "a.parquet", old_table(), 250, write_page_index=True)
    columns = [
        Field(id=60, name="flat", required=True, type="int"),
        Field(id=61, name="deep one", required=False, type=VALUES["deep"][0]),
        Field(id=62, name="dotted.ñame", required=False, type="uuid"),
    ]
    new = pa.table(
        {
            "flat": values("int", nulls=False)["new"],
            "deep one": values("deep")["new"],
            "dotted.ñame": values("uuid")["new"],
        }
    )
    done = add(source, columns, groups(new, 250))
    assert_equal(Path(done.path), rewritten(source, columns, new, 250, write_page_index=True))


def test_a_spliced_file_can_be_spliced_again(tmp_path: Path) -> None:
    source = write(tmp_path / "a.parquet", old_table(), 300, write_page_index=True)
    first = add(source, [column("list")], groups(values("list"), 300))
    again = Field(id=77, name="again", required=False, type="double")
    new = values("double").rename_columns(["again"])
    second = add(Path(first.path), [again], groups(new, 300), target=tmp_path / "b.parquet")
    plain = rewritten(Path(first.path), [again], new, 300, write_page_index=True)
    assert_equal(Path(second.path), plain)


@pytest.mark.parametrize("index", [True, False])
def test_files_without_rows(tmp_path: Path, index: bool) -> None:
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(path, OLD, write_page_index=index):
        pass
    assert pq.ParquetFile(path).num_row_groups == 0
    done = add(path, [column("deep")], [])
    read = pq.read_table(done.path)
    assert (read.num_rows, read.column_names) == (0, [*OLD.names, "new"])
    assert pq.ParquetFile(done.path).num_row_groups == 0


def test_row_groups_of_several_sizes_an_empty_one_included(tmp_path: Path) -> None:
    table, new, sizes = old_table(), values("struct"), (10, 0, 700, 290)
    starts = [0, *itertools.accumulate(sizes)]
    with pq.ParquetWriter(tmp_path / "a.parquet", OLD) as writer:
        for start, size in zip(starts, sizes, strict=False):
            writer.write_table(table.slice(start, size), row_group_size=max(size, 1))
    pieces = [new.slice(start, size) for start, size in zip(starts, sizes, strict=False)]
    done = add(tmp_path / "a.parquet", [column("struct")], pieces)
    file = pq.ParquetFile(done.path)
    assert tuple(file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)) == sizes
    assert file.read()["new"].equals(new["new"])
    assert file.read().select(table.column_names).equals(table)


def test_the_row_groups_count_the_new_bytes(tmp_path: Path) -> None:
    source = write(tmp_path / "a.parquet", old_table(), 500)
    done = add(source, [column("string")], groups(values("string"), 500))
    plain = rewritten(source, [column("string")], values("string"), 500)
    for mine, its in zip(
        *(inspect(str(p)).meta.structs(FileMetaData.ROW_GROUPS) for p in (done.path, plain)), strict=True
    ):
        for field_id in (RowGroup.TOTAL_BYTE_SIZE, RowGroup.TOTAL_COMPRESSED_SIZE):
            assert mine.integer(field_id) == pytest.approx(its.integer(field_id), rel=0.02)


@pytest.mark.parametrize(
    ("kind", "sizes", "message"),
    [
        pytest.param("int", (500,), "values for 1 of the file's 2 row groups", id="too few"),
        pytest.param("int", (500, 500, 0), "more than the file's 2 row groups", id="too many"),
        pytest.param("int", (400, 600), "400 values for a row group of 500 rows", id="other sizes"),
    ],
)
def test_values_that_do_not_fit_leave_no_file(tmp_path: Path, kind: str, sizes: tuple[int, ...], message: str) -> None:
    source = write(tmp_path / "a.parquet", old_table(), 500)
    starts = [0, *itertools.accumulate(sizes)]
    pieces = [values(kind).slice(start, size) for start, size in zip(starts, sizes, strict=False)]
    with pytest.raises(InvalidInput, match=message):
        add(source, [column(kind)], pieces)
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]


@pytest.mark.parametrize(
    ("field", "new", "message"),
    [
        (column("int", required=True), values("int"), "is required, and its values hold NULLs"),
        (column("int"), pa.table({"new": pa.array(range(2**33, 2**33 + ROWS))}), "do not fit the types"),
        (column("int"), pa.table({"new": pa.array([[1]] * ROWS)}), "do not fit the types"),
        (column("int"), pa.table({"other": pa.array(range(ROWS))}), "are of other columns"),
    ],
    ids=["null in required", "overflow", "other type", "other name"],
)
def test_values_are_never_changed_to_fit(tmp_path: Path, field: Field, new: pa.Table, message: str) -> None:
    source = write(tmp_path / "a.parquet", old_table())
    with pytest.raises(InvalidInput, match=message):
        add(source, [field], [new])
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]


def test_a_wider_source_of_the_same_values_is_taken(tmp_path: Path) -> None:
    source = write(tmp_path / "a.parquet", old_table())
    new = values("string").cast(pa.schema([pa.field("new", pa.large_string())]))
    done = add(source, [column("string")], [new])
    assert pq.read_table(done.path)["new"].equals(values("string")["new"])


def test_control_the_comparison_sees_a_lost_value(tmp_path: Path) -> None:
    source = write(tmp_path / "a.parquet", old_table())
    done = add(source, [column("int")], [values("int", nulls=False)])
    with pytest.raises(AssertionError):
        assert_equal(Path(done.path), rewritten(source, [column("int")], values("int"), ROWS))


def test_new_booleans_are_not_run_length_encoded(tmp_path: Path) -> None:
    """As they would be in pages of version 2; Iceberg's vectorised reader in Spark cannot read those."""
    source = write(tmp_path / "a.parquet", old_table(), data_page_version="2.0")
    done = add(source, [column("boolean")], [values("boolean")], settings=Settings(page_version="2.0"))
    assert (
        "PLAIN"
        in pq.ParquetFile(done.path).metadata.row_group(0).column(pq.ParquetFile(source).metadata.num_columns).encodings
    )


def test_only_a_column_whose_values_come_again_gets_a_dictionary(tmp_path: Path) -> None:
    rows = 50_000
    source = write(tmp_path / "a.parquet", old_table(rows), rows)
    new = {
        "again": [n % 100 for n in range(rows)],
        "different": list(range(rows)),
        "flag": [n % 2 == 0 for n in range(rows)],
    }
    columns = [
        Field(id=60 + number, name=name, required=False, type="boolean" if name == "flag" else "long")
        for number, name in enumerate(new)
    ]
    done = add(source, columns, [pa.table(new)])
    group, read = pq.read_metadata(done.path).row_group(0), pq.read_table(done.path)
    chunks = {group.column(n).path_in_schema: group.column(n) for n in range(group.num_columns)}
    assert {name: chunks[name].has_dictionary_page for name in new} == {
        "again": True,
        "different": False,
        "flag": False,
    }
    assert {name: read[name].to_pylist() for name in new} == new
