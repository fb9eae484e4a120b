"""Which data files carry bloom filters, read from their footers through the table's own storage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from reconciler.engines.data_files import Task
from reconciler.engines.splice.compact import BadFooter, Struct
from reconciler.engines.splice.footer import (
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    PageEncodingStats,
    Readable,
    RowGroup,
    SchemaElement,
    read_footer,
)
from reconciler.errors import Unsupported

_THREADS = 8
_DICTIONARIES = frozenset({2, 8})  # PLAIN_DICTIONARY, RLE_DICTIONARY
_DATA_PAGES = frozenset({0, 3})
_ENCODING = 2


class Opened:
    """A file of the table's storage, read as a Python file; every read is one range."""

    def __init__(self, io: Any, path: str) -> None:
        """Ask for its length."""
        self._input = io.newInputFile(path)
        self._size, self._at = int(self._input.getLength()), 0

    def seek(self, position: int, whence: int = 0) -> int:
        """Move to a position."""
        self._at = position + (self._size if whence == 2 else 0)
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def read(self, nbytes: int) -> bytes:
        """Read some bytes."""
        stream = self._input.newStream()
        try:
            stream.seek(self._at)
            data = bytes(stream.readNBytes(nbytes))
        finally:
            stream.close()
        self._at += len(data)
        return data


def without_filters(open_: Callable[[str], Readable], tasks: Sequence[Task], columns: Collection[int]) -> set[str]:
    """Return the paths of the files in which one of these columns (field ids) has no bloom filter, nor needs one."""
    candidates = [task for task in tasks if task.is_parquet]
    with ThreadPoolExecutor(_THREADS) as pool:
        found = pool.map(lambda task: has_filters(open_(task.path), columns), candidates)
        lacking = {task.path for task, has in zip(candidates, found, strict=True) if not has}
    return lacking | {task.path for task in tasks if not task.is_parquet}


def has_filters(file: Readable, columns: Collection[int]) -> bool:
    """Look into one footer; a footer that cannot be read has none."""
    try:
        meta = read_footer(file).meta
    except (BadFooter, Unsupported):
        return False
    elements = meta.structs(FileMetaData.SCHEMA)[1:]
    leaves = [element for element in elements if not element.integer(SchemaElement.NUM_CHILDREN, 0)]
    if not all(SchemaElement.FIELD_ID in element for element in leaves):
        return False  # an imported file: which column is which only its name tells
    places = [i for i, element in enumerate(leaves) if element.integer(SchemaElement.FIELD_ID) in columns]
    groups = meta.structs(FileMetaData.ROW_GROUPS)
    return all(_is_filtered(group.structs(RowGroup.COLUMNS)[i]) for group in groups for i in places)


def _is_filtered(chunk: Struct) -> bool:
    """Say whether a chunk has a bloom filter, or a dictionary of all its values, for which Parquet writes none."""
    if ColumnChunk.META_DATA not in chunk:
        return False
    meta = chunk.struct(ColumnChunk.META_DATA)
    if ColumnMetaData.BLOOM_FILTER_OFFSET in meta:
        return True
    stats = meta.structs(ColumnMetaData.ENCODING_STATS)
    pages = [s for s in stats if s.integer(PageEncodingStats.PAGE_TYPE) in _DATA_PAGES]
    return bool(pages) and all(s.integer(_ENCODING) in _DICTIONARIES for s in pages)
