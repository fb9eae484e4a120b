"""Parquet files to splice into, columns to add, and the plain rewrite to compare with."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from reconciler.engines.splice.arrow_types import arrow_field
from reconciler.engines.splice.chunks import Settings
from reconciler.engines.splice.splice import Spliced, splice
from reconciler.model.types import Field, ListType, MapType, StructType, Type

ROWS = 1000
UTC = datetime.UTC
STRUCT = StructType(
    (
        Field(id=101, name="street", required=False, type="string"),
        Field(id=102, name="number", required=False, type="int"),
    )
)
LIST = ListType(element_id=103, element="long", element_required=False)
MAP = MapType(key_id=104, key="string", value_id=105, value="double", value_required=False)
DEEP = ListType(
    element_id=106,
    element=StructType(
        (
            Field(id=107, name="at", required=False, type="timestamptz"),
            Field(
                id=108,
                name="tags",
                required=False,
                type=MapType(
                    key_id=109,
                    key="int",
                    value_id=110,
                    value=ListType(element_id=111, element="string", element_required=False),
                    value_required=False,
                ),
            ),
        )
    ),
    element_required=False,
)


def stamp(number: int, tz: datetime.tzinfo | None = None) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, tzinfo=tz) + datetime.timedelta(microseconds=number * 86_399_999_983)


# For each type the value of row `n`; some are negative, empty or at an edge.
VALUES: Mapping[str, tuple[Type, Any]] = {
    "boolean": ("boolean", lambda n: n % 3 == 0),
    "int": ("int", lambda n: (n * 7919) % 1000 - 500),
    "long": ("long", lambda n: (n - 500) * 2**40),
    "float": ("float", lambda n: [0.5, -1.25, float(n), -0.0][n % 4]),
    "double": ("double", lambda n: [n / 3, -float(n), float("inf"), 0.0][n % 4]),
    "decimal-small": ("decimal(5,2)", lambda n: decimal.Decimal(n - 500).scaleb(-2)),
    "decimal-middle": ("decimal(18,3)", lambda n: decimal.Decimal((n - 500) * 10**12).scaleb(-3)),
    "decimal-large": ("decimal(38,10)", lambda n: decimal.Decimal((n - 500) * 10**30).scaleb(-10)),
    "date": ("date", lambda n: datetime.date(1970, 1, 1) + datetime.timedelta(days=n - 500)),
    "time": ("time", lambda n: datetime.time(n % 24, n % 60, 1, n)),
    "timestamp": ("timestamp", lambda n: stamp(n - 500)),
    "timestamptz": ("timestamptz", lambda n: stamp(n - 500, UTC)),
    "timestamp-ns": ("timestamp_ns", stamp),
    "string": ("string", lambda n: "" if n % 50 == 0 else f"{'ü' * (n % 20)}{n}"),
    "binary": ("binary", lambda n: bytes([n % 256]) * (n % 30)),
    "fixed": ("fixed[5]", lambda n: n.to_bytes(5, "big")),
    "uuid": ("uuid", lambda n: UUID(int=n * 2**100).bytes),
    "struct": (STRUCT, lambda n: {"street": None if n % 5 == 0 else f"road {n}", "number": n}),
    "list": (LIST, lambda n: [None if i == 2 else n + i for i in range(n % 4)]),
    "map": (MAP, lambda n: [(f"k{i}", None if i == 1 else n / 2) for i in range(n % 3)]),
    "deep": (
        DEEP,
        lambda n: [{"at": stamp(n, UTC), "tags": [(i, [f"t{i}"] * (n % 2)) for i in range(n % 3)]}] * (n % 2),
    ),
}


def column(kind: str, field_id: int = 50, *, required: bool = False) -> Field:
    """Return the column `new` of a type."""
    return Field(id=field_id, name="new", required=required, type=VALUES[kind][0])


def values(kind: str, rows: int = ROWS, *, nulls: bool = True) -> pa.Table:
    """Return values for the column `new`; every seventh is NULL."""
    type_, make = VALUES[kind]
    field = arrow_field(Field(id=50, name="new", required=False, type=type_))
    found = [None if nulls and n % 7 == 3 else make(n) for n in range(rows)]
    return pa.table({"new": pa.array(found, type=field.type)})


def with_id(field_id: int, name: str, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, metadata={b"PARQUET:field_id": str(field_id).encode()})


OLD = pa.schema(
    [
        with_id(1, "id", pa.int64()),
        with_id(2, "name", pa.string()),
        with_id(3, "price", pa.decimal128(9, 2)),
        with_id(4, "at", pa.timestamp("us", tz="UTC")),
        with_id(5, "place", pa.struct([with_id(6, "city", pa.string()), with_id(7, "floor", pa.int32())])),
        with_id(8, "tags", pa.list_(with_id(9, "element", pa.string()))),
        with_id(
            10,
            "marks",
            pa.map_(
                pa.field("key", pa.string(), nullable=False, metadata={b"PARQUET:field_id": b"11"}),
                with_id(12, "value", pa.int64()),
            ),
        ),
    ]
)


def old_table(rows: int = ROWS, seed: int = 1) -> pa.Table:
    """Return rows of flat and nested old columns."""
    dice = random.Random(seed)
    return pa.table(
        {
            "id": pa.array(range(rows), type=pa.int64()),
            "name": [None if n % 11 == 0 else f"name {n % 37}" for n in range(rows)],
            "price": pa.array(
                [decimal.Decimal(dice.randrange(10**6)).scaleb(-2) for _ in range(rows)], pa.decimal128(9, 2)
            ),
            "at": pa.array([stamp(n, UTC) for n in range(rows)], pa.timestamp("us", tz="UTC")),
            "place": [None if n % 13 == 0 else {"city": f"c{n % 9}", "floor": n} for n in range(rows)],
            "tags": [[f"t{i}" for i in range(n % 3)] for n in range(rows)],
            "marks": [[(f"k{i}", n) for i in range(n % 2)] for n in range(rows)],
        },
        schema=OLD,
    )


def groups(table: pa.Table, rows: int) -> list[pa.Table]:
    """Cut a table into row groups."""
    return [table.slice(start, rows) for start in range(0, table.num_rows, rows)]


def write(path: Path, table: pa.Table, rows: int = ROWS, **settings: Any) -> Path:
    """Write a file with row groups of so many rows."""
    pq.write_table(table, path, row_group_size=rows, store_decimal_as_integer=True, **settings)
    return path


def add(
    source: Path,
    columns: Sequence[Field],
    tables: Sequence[pa.Table],
    *,
    target: Path | None = None,
    settings: Settings | None = None,
) -> Spliced:
    """Splice into a file beside the source."""
    target = target or source.with_name(f"spliced-{source.name}")
    return splice(str(source), str(target), columns, tables, settings=settings)


def rewritten(source: Path, columns: Sequence[Field], new: pa.Table, rows: int, **settings: Any) -> Path:
    """Write the same by decoding everything: what the splice must equal."""
    table = pq.read_table(source)
    for field in columns:
        table = table.append_column(arrow_field(field), new[field.name].cast(arrow_field(field).type))
    target = source.with_name(f"rewritten-{source.name}")
    pq.write_table(table, target, row_group_size=max(rows, 1), store_decimal_as_integer=True, **settings)
    return target


def statistics(chunk: Any) -> Any:
    found = chunk.statistics
    return found and (found.min_raw, found.max_raw, found.null_count, found.num_values)


def assert_equal(spliced: Path, plain: Path) -> None:
    """Compare rows, types, row groups, and what the footer says of every column chunk."""
    one, other = pq.ParquetFile(spliced), pq.ParquetFile(plain)
    assert one.schema_arrow.equals(other.schema_arrow)
    assert one.read().equals(other.read())
    for group in range(other.num_row_groups):
        assert one.read_row_group(group).equals(other.read_row_group(group))
        assert one.metadata.row_group(group).num_rows == other.metadata.row_group(group).num_rows
        for leaf in range(other.metadata.num_columns):
            mine, its = (f.metadata.row_group(group).column(leaf) for f in (one, other))
            for name in ("path_in_schema", "physical_type", "num_values", "compression", "encodings"):
                assert getattr(mine, name) == getattr(its, name), (group, leaf, name)
            assert statistics(mine) == statistics(its)
            assert mine.has_column_index == its.has_column_index
            assert mine.has_offset_index == its.has_offset_index
    assert one.schema.equals(other.schema)
