"""A Parquet file's footer: where it is, its fields by the ids of parquet.thrift, and its bytes again.

The classes below hold the field ids of the structs of the same name in Apache Parquet's `parquet.thrift`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from reconciler.engines.splice.compact import BadFooter, Struct, decode, encode
from reconciler.errors import Unsupported

MAGIC, MAGIC_ENCRYPTED = b"PAR1", b"PARE"
TAIL_BYTES = 8
SIGNATURE_BYTES = 28
STOP = b"\x00"  # how every Thrift struct ends
# 10,000 columns in 10 row groups take about 15 MiB; a tree in Python takes some 30 times that.
MAX_FOOTER_BYTES = 32 << 20


class FileMetaData:
    """The footer itself."""

    SCHEMA, NUM_ROWS, ROW_GROUPS, KEY_VALUE_METADATA, COLUMN_ORDERS = 2, 3, 4, 5, 7
    ENCRYPTION_ALGORITHM, FOOTER_SIGNING_KEY_METADATA = 8, 9


class SchemaElement:
    """One node of the schema, which is a tree flattened depth first."""

    TYPE, REPETITION_TYPE, NAME, NUM_CHILDREN, FIELD_ID = 1, 3, 4, 5, 9


class RowGroup:
    """Some rows, all columns."""

    COLUMNS, TOTAL_BYTE_SIZE, NUM_ROWS, TOTAL_COMPRESSED_SIZE = 1, 2, 3, 6


class ColumnChunk:
    """Where one leaf column of a row group lies."""

    FILE_PATH, FILE_OFFSET, META_DATA = 1, 2, 3
    OFFSET_INDEX_OFFSET, OFFSET_INDEX_LENGTH, COLUMN_INDEX_OFFSET = 4, 5, 6
    CRYPTO_METADATA, ENCRYPTED_COLUMN_METADATA = 8, 9


class ColumnMetaData:
    """What a column chunk holds."""

    TYPE, CODEC, NUM_VALUES, TOTAL_UNCOMPRESSED_SIZE, TOTAL_COMPRESSED_SIZE = 1, 4, 5, 6, 7
    DATA_PAGE_OFFSET, INDEX_PAGE_OFFSET, DICTIONARY_PAGE_OFFSET = 9, 10, 11
    STATISTICS, ENCODING_STATS, BLOOM_FILTER_OFFSET = 12, 13, 14


class PageEncodingStats:
    """How many pages of one kind and encoding a chunk has."""

    PAGE_TYPE = 1
    DATA_PAGE_V2 = 3


class Statistics:
    """Smallest and largest value of a chunk."""

    NULL_COUNT, MAX_VALUE, MIN_VALUE = 3, 5, 6


class OffsetIndex:
    """Where a chunk's pages lie."""

    PAGE_LOCATIONS = 1
    LOCATION_OFFSET = 1


class KeyValue:
    """One entry of the file's own metadata."""

    KEY, VALUE = 1, 2


class Readable(Protocol):
    """A file that can be read anywhere, such as pyarrow's."""

    def seek(self, position: int, whence: int = 0) -> int:
        """Move to a position."""
        ...

    def read(self, nbytes: int) -> bytes:
        """Read some bytes."""
        ...

    def tell(self) -> int:
        """Return the position."""
        ...


class Footer(NamedTuple):
    """A file's footer; `start` is the offset of its first byte: all before it is column data, indexes and filters."""

    meta: Struct
    start: int
    size: int


def read_footer(file: Readable) -> Footer:
    """Read the footer of an open file; raises BadFooter, or Unsupported when it is encrypted."""
    file.seek(0, 2)
    size = file.tell()
    if size < len(MAGIC) + TAIL_BYTES:
        raise BadFooter("The file is too small to be Parquet.")
    file.seek(size - TAIL_BYTES)
    tail = file.read(TAIL_BYTES)
    if tail[4:] == MAGIC_ENCRYPTED:
        raise Unsupported("The Parquet footer is encrypted.", hint="Rewrite the file with its keys instead.")
    file.seek(0)
    if tail[4:] != MAGIC or file.read(4) != MAGIC:
        raise BadFooter("The file is not Parquet.")
    length = int.from_bytes(tail[:4], "little")
    start = size - TAIL_BYTES - length
    if start < len(MAGIC):
        raise BadFooter("The Parquet footer claims to be longer than its file.")
    if length > MAX_FOOTER_BYTES:
        raise BadFooter(f"The Parquet footer takes {length:,} bytes, more than {MAX_FOOTER_BYTES:,}.")
    file.seek(start)
    data = file.read(length)
    if _is_signed(data):
        raise Unsupported("The file is encrypted.", hint="Rewrite the file with its keys instead.")
    return Footer(decode(data), start, size)


def _is_signed(data: bytes) -> bool:
    """Whether this is the plain footer of an encrypted file: a signature follows, and the algorithm is named."""
    if data.endswith(STOP):
        return False
    try:
        return FileMetaData.ENCRYPTION_ALGORITHM in decode(data[:-SIGNATURE_BYTES])
    except BadFooter:
        return False


def footer_bytes(meta: Struct) -> bytes:
    """Return a footer with what follows it, to the end of the file."""
    data = encode(meta)
    return data + len(data).to_bytes(4, "little") + MAGIC
