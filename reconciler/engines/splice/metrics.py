"""Iceberg's metrics of spliced columns, from the new column chunks, in the form that manifests hold them.

As Iceberg's own writers do: counts for every leaf, bounds only outside lists and maps, long bounds truncated.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from reconciler.engines.splice.arrow_types import DECIMAL, FIXED
from reconciler.engines.splice.compact import Struct
from reconciler.engines.splice.footer import ColumnChunk, ColumnMetaData, Statistics
from reconciler.engines.splice.splice import Spliced
from reconciler.model.table import DataFile
from reconciler.model.types import Field, ListType, MapType, fields_of

DEFAULT_MODE = "truncate(16)"
_TRUNCATE = re.compile(r"truncate\((\d+)\)")
_FORMATS = {
    **dict.fromkeys(("int", "date"), "<i"),
    **dict.fromkeys(("long", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), "<q"),
    "boolean": "<?",
    "float": "<f",
    "double": "<d",
}
_BYTE_ARRAYS = (6, 7)  # parquet.thrift's Type: BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY

Comparable = int | float | bytes


class ColumnMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics of the new leaves of one file, by field id; bounds in Iceberg's binary form."""

    column_bytes: Mapping[int, int] = {}
    value_counts: Mapping[int, int] = {}
    null_counts: Mapping[int, int] = {}
    lower_bounds: Mapping[int, bytes] = {}
    upper_bounds: Mapping[int, bytes] = {}


def column_metrics(spliced: Spliced, columns: Sequence[Field], modes: Mapping[int, str] | None = None) -> ColumnMetrics:
    """Compute the metrics of a spliced file's new columns.

    `modes` are Iceberg's metrics modes by field id: none, counts, truncate(n), full; `truncate(16)` where absent.
    """
    sizes: dict[int, int] = {}
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    leaves = [leaf for column in columns for leaf in _leaves(column, repeated=False)]
    for number, (leaf, repeated) in enumerate(leaves):
        chunks = [group[number].struct(ColumnChunk.META_DATA) for group in spliced.chunks]
        chunks = [chunk for chunk in chunks if chunk.integer(ColumnMetaData.NUM_VALUES)]  # others state nothing
        mode = (modes or {}).get(leaf.id, DEFAULT_MODE)
        sizes[leaf.id] = sum(chunk.integer(ColumnMetaData.TOTAL_COMPRESSED_SIZE) for chunk in chunks)
        if mode == "none":
            continue
        values[leaf.id] = sum(chunk.integer(ColumnMetaData.NUM_VALUES) for chunk in chunks)
        statistics = [_statistics(chunk) for chunk in chunks]
        if all(Statistics.NULL_COUNT in found for found in statistics):
            nulls[leaf.id] = sum(found.integer(Statistics.NULL_COUNT) for found in statistics)
        if mode == "counts" or repeated or leaf.id not in nulls:
            continue
        low, high = _bounds(str(leaf.type), chunks, statistics, mode)
        if low is not None:
            lower[leaf.id] = low
        if high is not None:
            upper[leaf.id] = high
    return ColumnMetrics(
        column_bytes=sizes, value_counts=values, null_counts=nulls, lower_bounds=lower, upper_bounds=upper
    )


def merged(before: DataFile, spliced: Spliced, metrics: ColumnMetrics) -> DataFile:
    """Return the entry of the spliced file: the old file's, with another path and size and the new columns' metrics."""
    return msgspec.structs.replace(
        before,
        path=spliced.path,
        size_bytes=spliced.size_bytes,
        column_bytes={**before.column_bytes, **metrics.column_bytes},
        value_counts={**before.value_counts, **metrics.value_counts},
        null_counts={**before.null_counts, **metrics.null_counts},
        lower_bounds={**before.lower_bounds, **metrics.lower_bounds},
        upper_bounds={**before.upper_bounds, **metrics.upper_bounds},
    )


def _leaves(field: Field, *, repeated: bool) -> Iterator[tuple[Field, bool]]:
    """Yield the leaves in Parquet's order, and whether each lies in a list or map."""
    if isinstance(field.type, str):
        yield field, repeated
    for child in fields_of(field.type):
        yield from _leaves(child, repeated=repeated or isinstance(field.type, ListType | MapType))


def _statistics(chunk: Struct) -> Struct:
    return chunk.struct(ColumnMetaData.STATISTICS) if ColumnMetaData.STATISTICS in chunk else Struct()


def _bounds(
    type_: str, chunks: Sequence[Struct], statistics: Sequence[Struct], mode: str
) -> tuple[bytes | None, bytes | None]:
    """Return lower and upper bound; none unless every row group that has values states its own."""
    lows: list[Comparable] = []
    highs: list[Comparable] = []
    for chunk, found in zip(chunks, statistics, strict=True):
        if found.integer(Statistics.NULL_COUNT) == chunk.integer(ColumnMetaData.NUM_VALUES):
            continue
        if Statistics.MIN_VALUE not in found or Statistics.MAX_VALUE not in found:
            return None, None
        physical = chunk.integer(ColumnMetaData.TYPE)
        lows.append(_value(type_, physical, found.binary(Statistics.MIN_VALUE)))
        highs.append(_value(type_, physical, found.binary(Statistics.MAX_VALUE)))
    if not lows or any(isinstance(value, float) and math.isnan(value) for value in (*lows, *highs)):
        return None, None
    low, high = min(lows), max(highs)
    if isinstance(low, bytes) and isinstance(high, bytes):
        return _truncated(type_, low, high, mode)
    return _binary(type_, low), _binary(type_, high)


def _value(type_: str, physical: int, data: bytes) -> Comparable:
    """Decode a plain-encoded Parquet value into something that compares as the type does."""
    if DECIMAL.fullmatch(type_):
        return int.from_bytes(data, "big" if physical in _BYTE_ARRAYS else "little", signed=True)
    if format_ := _FORMATS.get(type_):
        value: int | float = struct.unpack(format_, data)[0]
        return value
    return data


def _binary(type_: str, value: Comparable) -> bytes:
    """Encode a bound as Iceberg does: little endian, decimals as the shortest big-endian two's complement."""
    if isinstance(value, int) and DECIMAL.fullmatch(type_):
        bits = (value if value >= 0 else ~value).bit_length() + 1
        return value.to_bytes((bits + 7) // 8, "big", signed=True)
    return struct.pack(_FORMATS[type_], value)


def _truncated(type_: str, low: bytes, high: bytes, mode: str) -> tuple[bytes | None, bytes | None]:
    """Shorten the bounds of strings and binaries; the upper one is rounded up, or left out when it cannot be."""
    found = _TRUNCATE.fullmatch(mode)
    if found is None or type_ == "uuid":
        return low, high
    width = int(found[1])
    if type_ == "string":
        text, last = low.decode(), high.decode()
        return text[:width].encode(), high if len(last) <= width else _rounded(last[:width], _next_character)
    if not FIXED.fullmatch(type_) and type_ != "binary":
        return None, None
    return low[:width], high if len(high) <= width else _rounded_bytes(high[:width])


def _rounded(text: str, following: Callable[[str], str | None]) -> bytes | None:
    for number in reversed(range(len(text))):
        if (character := following(text[number])) is not None:
            return (text[:number] + character).encode()
    return None


def _next_character(character: str) -> str | None:
    """Return the next code point that is a character; None after the last."""
    code = ord(character) + 1
    if code > 0x10FFFF:
        return None
    return chr(0xE000 if 0xD800 <= code <= 0xDFFF else code)


def _rounded_bytes(data: bytes) -> bytes | None:
    kept = data.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
