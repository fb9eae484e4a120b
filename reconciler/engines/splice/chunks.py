"""The new columns' chunks: written by pyarrow as a scratch file that is streamed into the new file as it grows.

Only the values of the current row group are held. Offsets in the scratch file are shifted to where its bytes end up;
offset indexes, which hold offsets of their own, are written anew.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reconciler.engines.splice.arrow_types import arrow_field
from reconciler.engines.splice.compact import Struct, decode, encode
from reconciler.engines.splice.footer import (
    MAGIC,
    TAIL_BYTES,
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    Footer,
    OffsetIndex,
    PageEncodingStats,
    RowGroup,
)
from reconciler.engines.splice.plan import row_counts
from reconciler.engines.splice.storage import Writable
from reconciler.errors import InvalidInput
from reconciler.model.types import Field, StructType, walk

# parquet.thrift's CompressionCodec; LZO has no writer, and LZ4 is Hadoop's framing, which pyarrow writes as LZ4_RAW
_CODECS = ("none", "snappy", "gzip", "snappy", "brotli", "lz4", "zstd", "lz4")

# Values of 8 bytes fill a dictionary's 1 MiB at 131,072 of them; as many different ones give this share among so few.
_SAMPLE_ROWS, _DIFFERENT = 32_768, 0.89


class Settings(NamedTuple):
    """How the new chunks are written, in pyarrow's words."""

    codec: str = "zstd"
    level: int | None = None
    page_version: str = "1.0"
    page_bytes: int | None = None
    page_index: bool = False
    dictionary: bool = True


def settings_of(footer: Footer) -> Settings:
    """Return how the file's first column was written; a file without row groups gives the defaults.

    Pages are of version 2 where the footer says so, as parquet-mr's does; pyarrow and DuckDB call all pages version 1.
    """
    for group in footer.meta.structs(FileMetaData.ROW_GROUPS)[:1]:
        for chunk in group.structs(RowGroup.COLUMNS)[:1]:
            column = chunk.struct(ColumnChunk.META_DATA)
            codec = column.integer(ColumnMetaData.CODEC)
            pages = {e.integer(PageEncodingStats.PAGE_TYPE) for e in column.structs(ColumnMetaData.ENCODING_STATS)}
            return Settings(
                codec=_CODECS[codec] if 0 <= codec < len(_CODECS) else Settings().codec,
                page_version="2.0" if PageEncodingStats.DATA_PAGE_V2 in pages else "1.0",
                page_index=ColumnChunk.OFFSET_INDEX_OFFSET in chunk,
            )
    return Settings()


class Addition(NamedTuple):
    """What was written: the scratch file's footer with offsets of the new file, and the bytes written for it."""

    meta: Struct
    size: int


def write_chunks(
    file: Writable, footer: Footer, columns: Sequence[Field], row_groups: Iterable[pa.Table], settings: Settings
) -> Addition:
    """Write the chunks of all columns behind the old bytes, and their page indexes behind the chunks."""
    scratch = _Scratch(file)
    schema = pa.schema([arrow_field(column) for column in columns])
    if any(field.type == "boolean" for _, field in walk(StructType(tuple(columns)))):
        # Pages of version 2 hold booleans run-length encoded, which Iceberg's vectorised reader in Spark does not know.
        settings = settings._replace(page_version="1.0")
    paired = iter(_paired(row_counts(footer), row_groups))
    first = next(paired, None)
    with pq.ParquetWriter(
        scratch,
        schema,
        compression=settings.codec,
        compression_level=settings.level,
        data_page_version=settings.page_version,
        data_page_size=settings.page_bytes,
        write_page_index=settings.page_index,
        use_dictionary=_dictionaries(first[1]) if settings.dictionary and first else settings.dictionary,
        store_schema=False,
        store_decimal_as_integer=True,  # as Iceberg prescribes
    ) as writer:
        for rows, table in chain(() if first is None else (first,), paired):
            writer.write_table(_fitting(table, schema, rows), row_group_size=max(rows, 1))
        scratch.keep()
    return _finish(scratch, shift=footer.start - len(MAGIC))


def _paired(counts: Sequence[int], row_groups: Iterable[pa.Table]) -> Iterable[tuple[int, pa.Table]]:
    tables = iter(row_groups)
    for number, rows in enumerate(counts):
        table = next(tables, None)
        if table is None:
            raise InvalidInput(f"There are values for {number} of the file's {len(counts)} row groups.")
        yield rows, table
    if next(tables, None) is not None:
        raise InvalidInput(f"There are values for more than the file's {len(counts)} row groups.")


def _dictionaries(table: pa.Table) -> bool | list[str]:
    """Choose the columns to write with a dictionary: those of which values come again among the first ones.

    Others would give theirs up at its largest size, after more work than writing them plainly takes.
    """
    sample = table.slice(0, _SAMPLE_ROWS)
    if not all(pa.types.is_primitive(column.type) for column in sample.columns):
        return True
    enough = _SAMPLE_ROWS * _DIFFERENT
    return [name for name in sample.column_names if pc.count_distinct(sample[name]).as_py() < enough]


def _fitting(table: pa.Table, schema: pa.Schema, rows: int) -> pa.Table:
    """Return the values exactly as the columns' types; raises InvalidInput when that would change one."""
    if table.num_rows != rows:
        raise InvalidInput(f"There are {table.num_rows:,} values for a row group of {rows:,} rows.")
    if table.column_names != schema.names:
        raise InvalidInput("The values are of other columns than those to add.")
    for field in schema:
        if not field.nullable and table[field.name].null_count:
            raise InvalidInput(f"Column {field.name} is required, and its values hold NULLs.")
    try:
        return table.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput("The values do not fit the types of the columns to add.") from error


class _Scratch(io.RawIOBase):
    """The file pyarrow writes: it goes on into the new file, but for its magic, and its end from `keep` on."""

    def __init__(self, file: Writable) -> None:
        self._file = file
        self._end: bytearray | None = None
        self.passed = 0

    def writable(self) -> bool:
        return True

    def write(self, data: memoryview) -> int:  # type: ignore[override]
        if self._end is None:
            self.put(data)
        else:
            self._end += data
        return len(data)

    def close(self) -> None:
        """Stay readable: pyarrow closes what it wrote."""

    def keep(self) -> None:
        """Pass nothing on any more."""
        self._end = bytearray()

    def put(self, data: bytes | memoryview) -> None:
        """Pass on, behind what was."""
        self._file.write(data[max(len(MAGIC) - self.passed, 0) :])
        self.passed += len(data)

    def end(self) -> bytes:
        """Return what was kept."""
        return bytes(self._end or b"")


def _finish(scratch: _Scratch, shift: int) -> Addition:
    """Write the page indexes (all that is left besides the scratch file's footer) and shift every offset."""
    base, rest = scratch.passed, scratch.end()
    length = int.from_bytes(rest[-TAIL_BYTES:-4], "little")
    end = len(rest) - TAIL_BYTES - length
    meta = decode(rest[end:-TAIL_BYTES])
    chunks = [c for group in meta.structs(FileMetaData.ROW_GROUPS) for c in group.structs(RowGroup.COLUMNS)]
    indexes = [chunk for chunk in chunks if ColumnChunk.OFFSET_INDEX_OFFSET in chunk]
    old = [_index_bytes(chunk, rest, base) for chunk in indexes]
    # They are the last thing in the scratch file, so they are replaced where they are.
    body = bytearray(rest[: end - sum(map(len, old))] if rest[:end].endswith(b"".join(old)) else rest[:end])
    for chunk, data in zip(indexes, old, strict=True):
        index = _shifted_index(data, shift)
        chunk.set(ColumnChunk.OFFSET_INDEX_OFFSET, base + len(body))
        chunk.set(ColumnChunk.OFFSET_INDEX_LENGTH, len(index))
        body += index
    for chunk in chunks:
        _shift(chunk, shift)
    scratch.put(bytes(body))
    return Addition(meta, scratch.passed - len(MAGIC))


def _index_bytes(chunk: Struct, rest: bytes, base: int) -> bytes:
    start = chunk.integer(ColumnChunk.OFFSET_INDEX_OFFSET) - base
    return rest[start : start + chunk.integer(ColumnChunk.OFFSET_INDEX_LENGTH)]


def _shifted_index(data: bytes, shift: int) -> bytes:
    index = decode(data)
    for location in index.structs(OffsetIndex.PAGE_LOCATIONS):
        location.add(OffsetIndex.LOCATION_OFFSET, shift)
    return encode(index)


def _shift(chunk: Struct, shift: int) -> None:
    _shift_fields(
        chunk, (ColumnChunk.OFFSET_INDEX_OFFSET, ColumnChunk.COLUMN_INDEX_OFFSET, ColumnChunk.FILE_OFFSET), shift
    )
    pages = (ColumnMetaData.DATA_PAGE_OFFSET, ColumnMetaData.INDEX_PAGE_OFFSET, ColumnMetaData.DICTIONARY_PAGE_OFFSET)
    _shift_fields(chunk.struct(ColumnChunk.META_DATA), (*pages, ColumnMetaData.BLOOM_FILTER_OFFSET), shift)


def _shift_fields(struct: Struct, offsets: Sequence[int], shift: int) -> None:
    for field_id in offsets:
        if struct.integer(field_id, 0):  # 0 stands for "there is none"
            struct.add(field_id, shift)
