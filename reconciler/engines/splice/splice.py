"""Write a Parquet file that is another one plus columns: old bytes, new column chunks, and a footer that knows both.

The bytes up to the old footer stay where they are, so the old column chunks, page indexes and bloom filters keep their
absolute offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs

from reconciler.engines.splice import keyvalue
from reconciler.engines.splice.chunks import Settings, settings_of, write_chunks
from reconciler.engines.splice.compact import BadFooter, Struct
from reconciler.engines.splice.footer import (
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    Footer,
    RowGroup,
    SchemaElement,
    footer_bytes,
    read_footer,
)
from reconciler.engines.splice.plan import refusal
from reconciler.engines.splice.storage import new_file
from reconciler.errors import Unsupported
from reconciler.model.types import Field


class Spliced(NamedTuple):
    """A file that was written; `chunks` are the new column chunks per row group, one for each leaf."""

    path: str
    size_bytes: int
    chunks: tuple[tuple[Struct, ...], ...]


def inspect(source: str, filesystem: pafs.FileSystem | None = None) -> Footer:
    """Read a file's footer; raises BadFooter, or Unsupported when it is encrypted."""
    with (filesystem or pafs.LocalFileSystem()).open_input_file(source) as file:
        return read_footer(file)


def splice(
    source: str,
    target: str,
    columns: Sequence[Field],
    row_groups: Iterable[pa.Table],
    *,
    filesystem: pafs.FileSystem | None = None,
    settings: Settings | None = None,
    footer: Footer | None = None,
) -> Spliced:
    """Write `target` as `source` plus `columns`, whose values come as one table per row group of the source.

    `target` must not exist. Raises Unsupported for what `plan.refusal` names, InvalidInput for values that do not fit;
    then there is no target. Without settings the file's own are kept. `footer` is the source's, where it was read
    before; it becomes the target's.
    """
    filesystem = filesystem or pafs.LocalFileSystem()
    footer = footer or inspect(source, filesystem)
    if reason := refusal(footer, columns):
        raise Unsupported(reason, where=source, hint="Rewrite the file instead.")
    with new_file(filesystem, source, target, footer.start) as file:
        addition = write_chunks(file, footer, columns, row_groups, settings or settings_of(footer))
        _graft(footer.meta, addition.meta)
        keyvalue.follow(footer.meta, columns)
        end = footer_bytes(footer.meta)
        file.write(end)
    chunks = tuple(tuple(g.structs(RowGroup.COLUMNS)) for g in addition.meta.structs(FileMetaData.ROW_GROUPS))
    return Spliced(target, footer.start + addition.size + len(end), chunks)


def _graft(meta: Struct, new: Struct) -> None:
    """Add the schema elements and column chunks of one footer to another."""
    root, *added = new.structs(FileMetaData.SCHEMA)
    meta.structs(FileMetaData.SCHEMA)[0].add(SchemaElement.NUM_CHILDREN, root.integer(SchemaElement.NUM_CHILDREN))
    meta.items(FileMetaData.SCHEMA).values.extend(added)
    if FileMetaData.COLUMN_ORDERS in meta:  # without them nobody may use the old columns' statistics, nor the new ones'
        meta.items(FileMetaData.COLUMN_ORDERS).values.extend(new.structs(FileMetaData.COLUMN_ORDERS))
    old_groups, new_groups = meta.structs(FileMetaData.ROW_GROUPS), new.structs(FileMetaData.ROW_GROUPS)
    if [g.integer(RowGroup.NUM_ROWS) for g in old_groups] != [g.integer(RowGroup.NUM_ROWS) for g in new_groups]:
        raise BadFooter("The new columns came out in other row groups than the old ones.")
    for old, fresh in zip(old_groups, new_groups, strict=True):
        chunks = fresh.structs(RowGroup.COLUMNS)
        old.items(RowGroup.COLUMNS).values.extend(chunks)
        columns = [chunk.struct(ColumnChunk.META_DATA) for chunk in chunks]
        old.add(RowGroup.TOTAL_BYTE_SIZE, sum(c.integer(ColumnMetaData.TOTAL_UNCOMPRESSED_SIZE) for c in columns))
        old.add(RowGroup.TOTAL_COMPRESSED_SIZE, sum(c.integer(ColumnMetaData.TOTAL_COMPRESSED_SIZE) for c in columns))
