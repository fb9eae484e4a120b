"""What cannot be spliced, and why: read from a file's footer and the columns to add, before a byte is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from reconciler.engines.splice.arrow_types import has_arrow_type
from reconciler.engines.splice.compact import BadFooter, Struct
from reconciler.engines.splice.footer import (
    MAGIC,
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    Footer,
    RowGroup,
    SchemaElement,
)
from reconciler.model.types import Field, StructType, walk

# pyarrow writes no larger row group: the new column's groups would not match the old ones.
MAX_GROUP_ROWS = 64 << 20


def refusal(footer: Footer, columns: Sequence[Field]) -> str | None:
    """Say in one sentence why these columns cannot be spliced into the file; None: they can."""
    try:
        return _of_columns(columns) or _of_encryption(footer) or _of_names(footer, columns) or _of_groups(footer)
    except BadFooter as error:
        return error.message


def row_counts(footer: Footer) -> tuple[int, ...]:
    """Return the rows of each row group, in order."""
    return tuple(group.integer(RowGroup.NUM_ROWS) for group in footer.meta.structs(FileMetaData.ROW_GROUPS))


def field_ids(footer: Footer) -> tuple[int, ...]:
    """Return the field ids of the file's schema, as far as it has any."""
    elements = footer.meta.structs(FileMetaData.SCHEMA)[1:]
    return tuple(e.integer(SchemaElement.FIELD_ID) for e in elements if SchemaElement.FIELD_ID in e)


def _of_columns(columns: Sequence[Field]) -> str | None:
    if not columns:
        return "There is no column to add."
    fields = [field for _, field in walk(StructType(tuple(columns)))]
    for field in fields:
        if not has_arrow_type(field.type):
            return f"Column {field.name} has type {field.type}, which cannot be written by splicing."
        if field.id <= 0:
            return f"Column {field.name} has no field id yet."
        if field.type == StructType(()):
            return f"Column {field.name} is a struct without fields, which Parquet does not have."
    if twice := _duplicate(column.name for column in columns):
        return f"Column {twice} is to be added twice."
    if clash := _duplicate(field.id for field in fields):
        return f"Field id {clash} is to be added twice."
    return None


def _of_encryption(footer: Footer) -> str | None:
    meta = footer.meta
    if FileMetaData.ENCRYPTION_ALGORITHM in meta or FileMetaData.FOOTER_SIGNING_KEY_METADATA in meta:
        return "The file is encrypted."
    for group in meta.structs(FileMetaData.ROW_GROUPS):
        for chunk in group.structs(RowGroup.COLUMNS):
            if ColumnChunk.CRYPTO_METADATA in chunk or ColumnChunk.ENCRYPTED_COLUMN_METADATA in chunk:
                return "The file has encrypted columns."
    return None


def _of_names(footer: Footer, columns: Sequence[Field]) -> str | None:
    """Names and field ids must be new; a file without ids is read by name, which one id in it would end."""
    nodes = list(_nodes(footer))
    names = {name for name, depth in nodes if depth == 1}
    for column in columns:
        if column.name.encode() in names:
            return f"The file has a column {column.name} already."
    elements = footer.meta.structs(FileMetaData.SCHEMA)[1:]
    ids = field_ids(footer)
    for element, (name, depth) in zip(elements, nodes, strict=True):
        if depth == 1 and SchemaElement.FIELD_ID not in element:
            return f"The file's column {name.decode(errors='replace')} has no field id: the file is read by name."
    if (clash := _duplicate(ids)) is not None:
        return f"The file has two fields with id {clash}."
    for _, field in walk(StructType(tuple(columns))):
        if field.id in ids:
            return f"The file has a field with id {field.id} already."
    return None


def _nodes(footer: Footer) -> Iterator[tuple[bytes, int]]:
    """Yield name and depth of every schema element below the root; raises BadFooter when they form no tree."""
    elements = footer.meta.structs(FileMetaData.SCHEMA)
    open_: list[int] = []  # children still to come, per level
    for number, element in enumerate(elements):
        children = element.integer(SchemaElement.NUM_CHILDREN, 0)
        if children < 0 or (children == 0) != (SchemaElement.TYPE in element) or (number > 0) != bool(open_):
            raise _no_tree()
        if number:
            open_[-1] -= 1
            yield element.binary(SchemaElement.NAME), len(open_)
        if children:
            open_.append(children)
        while open_ and not open_[-1]:
            open_.pop()
    if open_ or not elements:
        raise _no_tree()


def _no_tree() -> BadFooter:
    return BadFooter("The file's schema is damaged: its elements form no tree.")


def _of_groups(footer: Footer) -> str | None:
    """Every row group must hold every leaf, in this very file."""
    leaves = sum(SchemaElement.TYPE in element for element in footer.meta.structs(FileMetaData.SCHEMA))
    counts = row_counts(footer)
    if min(counts, default=0) < 0 or sum(counts) != footer.meta.integer(FileMetaData.NUM_ROWS):
        return "The file's row groups do not add up to its rows."
    if max(counts, default=0) > MAX_GROUP_ROWS:
        return f"The file has a row group of more than {MAX_GROUP_ROWS:,} rows."
    if FileMetaData.COLUMN_ORDERS in footer.meta and len(footer.meta.structs(FileMetaData.COLUMN_ORDERS)) != leaves:
        return "The file states the order of other columns than it has."
    for group in footer.meta.structs(FileMetaData.ROW_GROUPS):
        chunks = group.structs(RowGroup.COLUMNS)
        if len(chunks) != leaves:
            return "A row group of the file holds other columns than the schema."
        for chunk in chunks:
            if ColumnChunk.FILE_PATH in chunk:
                return "The file keeps columns in other files."
            if not _lies_inside(chunk.struct(ColumnChunk.META_DATA), footer.start):
                return "A column chunk does not lie inside the file."
    return None


def _lies_inside(column: Struct, end: int) -> bool:
    """Whether the chunk's pages are between the file's magic and its footer."""
    # 0 stands for "there is no such page": no dictionary, or no rows at all
    fields = (ColumnMetaData.DATA_PAGE_OFFSET, ColumnMetaData.DICTIONARY_PAGE_OFFSET)
    starts = [offset for field_id in fields if (offset := column.integer(field_id, 0))]
    size = column.integer(ColumnMetaData.TOTAL_COMPRESSED_SIZE)
    if not starts:
        return size == 0
    return len(MAGIC) <= min(starts) <= min(starts) + size <= end


def _duplicate(values: Iterator[str] | Iterator[int] | Sequence[int]) -> str | int | None:
    return next((value for value, count in Counter[str | int](values).items() if count > 1), None)
