"""Which way each data file gets new columns, and what that costs; pure, from what its manifest tells.

Splicing copies a file's bytes and writes the new columns behind them; rewriting decodes and writes everything. Both end
in a file with the same rows, so both write about as much; splicing decodes the input columns only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from reconciler.model.table import DataFile
from reconciler.model.types import Field, StructType, Type, fields_of
from reconciler.plan.operations import BackfillColumn, Cost, How, PricedFile, Way

# Iceberg's reserved ids of _row_id and _last_updated_sequence_number, where a file of format v3 holds them itself.
ROW_ID_FIELD, LAST_UPDATED_FIELD = 2147483540, 2147483539
PARQUET = "PARQUET"
LOCAL = "file"
NAMED_FILES = 1000
STREAMED = frozenset({"s3", "s3a", "s3n"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_DECIMAL = re.compile(r"decimal\((\d+),\d+\)")

# What one value takes; those with a width are the types whose values Spark, Arrow and Parquet agree on.
_WIDTHS = {
    "boolean": 0.125,
    **dict.fromkeys(("int", "float", "date"), 4.0),
    **dict.fromkeys(("long", "double", "timestamp", "timestamptz"), 8.0),
}
_VARIABLE = ("string", "binary")
_UNKNOWN_WIDTH = 16.0
_ROW_ID_WIDTH = 1.0  # they count up, which compresses well
_COMPRESSED = 0.85  # what the writers' codecs make of plain numbers
_OVERHEAD = 250  # the column's entries in the footer
_DICTIONARY_BITS = 17  # a Parquet dictionary ends at 1 MiB: 2^17 values of 8 bytes


def scheme_of(location: str) -> str:
    """Return a location's scheme; `file` when it has none."""
    found = _SCHEME.match(location)
    return found[1].lower() if found else LOCAL


def can_splice(type_: Type) -> bool:
    """Say whether values of a type go from Spark through Arrow into Parquet as Iceberg prescribes."""
    if isinstance(type_, str):
        return type_ in _WIDTHS or type_ in _VARIABLE or _DECIMAL.fullmatch(type_) is not None
    children = fields_of(type_)
    return bool(children) and all(can_splice(child.type) for child in children)


def refusal(file: DataFile, columns: Sequence[BackfillColumn], schema: StructType, format_version: int) -> str:
    """Say what keeps these columns from being spliced into a file; empty: nothing that its manifest tells."""
    fields = {field.id: field for field in schema.fields}
    present = file.column_bytes.keys() | file.value_counts.keys() | file.null_counts.keys()
    for column in columns:
        field = fields.get(column.field_id)
        if column.recompute or field is None or present & set(leaf_ids(field)):
            return "it has the column already"
        if not can_splice(field.type) or field.initial_default is not None:
            return "the column's type" if field.initial_default is None else "the column has a default"
    if file.format.upper() != PARQUET:
        return f"{file.format.upper()} file"
    if file.has_deletes:
        return "row deletes"
    if file.is_encrypted:
        return "encrypted"
    if format_version > 2 and not file.has_row_ids:
        return "no row ids yet"
    if LAST_UPDATED_FIELD in present:
        return "it says when each row was updated"
    scheme = scheme_of(file.path)
    return "" if scheme == LOCAL or scheme in STREAMED else f"{scheme}: storage"


def leaf_ids(field: Field) -> Iterator[int]:
    """Yield the ids of a field's leaves; metrics know no others."""
    if isinstance(field.type, str):
        yield field.id
    for child in fields_of(field.type):
        yield from leaf_ids(child)


def lacking(file: DataFile, columns: Iterable[BackfillColumn]) -> tuple[BackfillColumn, ...]:
    """Return the columns that a file must be replaced for: its manifest does not prove that no value is missing."""
    return tuple(c for c in columns if lacks_value(c, file.null_counts.get(c.field_id))) if file.rows else ()


def lacks_value(column: BackfillColumn, null_count: int | None) -> bool:
    """Say whether a file must be replaced for a column: unless its manifest proves that no value is missing."""
    return column.recompute or null_count is None or null_count > 0


# ---------------------------------------------------------------- cost


def ways(
    files: Iterable[DataFile], columns: Sequence[BackfillColumn], schema: StructType, format_version: int
) -> tuple[Way, ...]:
    """Price a backfill per way, and per reason for rewriting; what is spliced comes first."""
    found: dict[tuple[How, str], list[tuple[str, Cost]]] = {}
    for file in files:
        wanted = lacking(file, columns)
        if not wanted:
            continue
        why = refusal(file, wanted, schema, format_version)
        written = bytes_with(file, wanted, schema, format_version)
        cost = Cost(files_read=1, bytes_read=file.size_bytes, files_rewritten=1, bytes_rewritten=written)
        key = (How.REWRITE, why)
        if not why:
            key = (How.SPLICE, "" if scheme_of(file.path) == LOCAL else "streamed through the job")
            cost = msgspec.structs.replace(
                cost, bytes_read=_decoded(file, wanted), files_spliced=1, bytes_spliced=written
            )
        found.setdefault(key, []).append((file.path, cost))
    return tuple(way_of(how, why, priced) for (how, why), priced in sorted(found.items(), reverse=True))


def bytes_with(file: DataFile, columns: Sequence[BackfillColumn], schema: StructType, format_version: int) -> int:
    """Estimate a file's size once it has these columns, which it lacks."""
    written = file.size_bytes + sum(_added(file, column, schema) for column in columns)
    if columns and format_version > 2 and ROW_ID_FIELD not in file.column_bytes:
        written += int(file.rows * _ROW_ID_WIDTH) + _OVERHEAD
    return written


def way_of(how: How, why: str, priced: Sequence[tuple[str, Cost]]) -> Way:
    """Add up files that go one way, and name the most costly."""
    costly = sorted((PricedFile(path, cost.bytes_rewritten) for path, cost in priced), key=_by_cost)[:NAMED_FILES]
    return Way(how=how, why=why, cost=sum((cost for _, cost in priced), Cost()), files=tuple(costly))


def _by_cost(file: PricedFile) -> tuple[int, str]:
    return -file.bytes_rewritten, file.path


def _decoded(file: DataFile, columns: Iterable[BackfillColumn]) -> int:
    """Add up the inputs' bytes; the whole file where the manifest does not tell."""
    known = [file.column_bytes.get(i) for i in {i for column in columns for i in column.inputs}]
    return file.size_bytes if None in known else sum(found or 0 for found in known)


def _added(file: DataFile, column: BackfillColumn, schema: StructType) -> int:
    """Estimate what a column adds to a file; nothing where the file has it already."""
    field = next((f for f in schema.fields if f.id == column.field_id), None)
    if field is None or file.column_bytes.keys() & set(leaf_ids(field)):
        return 0
    return sum(_leaf_bytes(file, leaf, column.inputs) + _OVERHEAD for leaf in _leaf_types(field.type))


def _leaf_bytes(file: DataFile, type_: str, inputs: Sequence[int]) -> int:
    """Estimate one leaf: as many bits as its inputs have while a dictionary holds its values, else its plain width."""
    if not inputs:
        return 0  # a constant
    width = _width(type_)
    known = [file.column_bytes.get(field_id) for field_id in inputs]
    sizes = [found for found in known if found is not None]
    plain = int(file.rows * (width or _UNKNOWN_WIDTH) * _COMPRESSED)
    if len(sizes) < len(known):
        return plain
    carried = sum(sizes)
    if width is None or len(sizes) == 1 or 8 * carried <= _DICTIONARY_BITS * file.rows:
        return min(carried, plain) if width else carried
    return plain


def _width(type_: str) -> float | None:
    """Return the plain width of a type's values; None when they have none."""
    if found := _DECIMAL.fullmatch(type_):
        precision = int(found[1])
        return 4.0 if precision <= 9 else 8.0 if precision <= 18 else 16.0
    return _WIDTHS.get(type_)


def _leaf_types(type_: Type) -> Iterator[str]:
    if isinstance(type_, str):
        yield type_
    for child in fields_of(type_):
        yield from _leaf_types(child.type)
