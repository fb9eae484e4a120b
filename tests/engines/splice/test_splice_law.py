"""Whatever the schema, the row groups and the settings: spliced equals rewritten, and the old bytes are untouched."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.engines.splice.arrow_types import arrow_field, arrow_type
from reconciler.engines.splice.chunks import Settings
from reconciler.engines.splice.splice import inspect
from reconciler.model.types import Field, ListType, MapType, StructType, Type, assign_ids, walk
from tests.engines.splice.files import VALUES, add, assert_equal, rewritten, with_id

LEAVES = [kind for kind in VALUES if kind not in {"struct", "list", "map", "deep", "fixed", "uuid"}]


@st.composite
def types(draw: st.DrawFn, depth: int = 3) -> Type:
    """Draw a type of any nesting, without ids."""
    kind = draw(st.sampled_from(["leaf", "leaf", "struct", "list", "map"])) if depth else "leaf"
    required = st.booleans()
    match kind:
        case "struct":
            inner = draw(st.lists(types(depth - 1), min_size=1, max_size=3))
            return StructType(
                tuple(Field(name=f"f{n}", required=draw(required), type=type_) for n, type_ in enumerate(inner))
            )
        case "list":
            return ListType(element=draw(types(depth - 1)), element_required=draw(required))
        case "map":
            value = draw(types(depth - 1))
            return MapType(key=draw(st.sampled_from(["int", "string"])), value=value, value_required=draw(required))
        case _:
            return VALUES[draw(st.sampled_from(LEAVES))][0]


def sample(dice: random.Random, type_: pa.DataType, *, nullable: bool) -> object:
    """Make a value of an Arrow type, NULL now and then where it may be."""
    if nullable and dice.random() < 0.2:
        return None
    if pa.types.is_struct(type_):
        return {field.name: sample(dice, field.type, nullable=field.nullable) for field in type_}
    if pa.types.is_map(type_):
        keys = {sample(dice, type_.key_type, nullable=False) for _ in range(dice.randrange(3))}
        return [(key, sample(dice, type_.item_type, nullable=type_.item_field.nullable)) for key in keys]
    if pa.types.is_list(type_):
        field = type_.value_field
        return [sample(dice, field.type, nullable=field.nullable) for _ in range(dice.randrange(4))]
    return dice.choice(LEAF_VALUES[type_])


def _leaf_values() -> dict[pa.DataType, list[object]]:
    return {arrow_type(VALUES[kind][0]): [VALUES[kind][1](n) for n in range(0, 1000, 97)] for kind in LEAVES}


LEAF_VALUES = _leaf_values()


@settings(max_examples=60)
@given(
    wanted=st.lists(st.tuples(types(), st.booleans()), min_size=1, max_size=4),
    old=st.integers(1, 5),
    rows=st.integers(0, 120),
    group=st.integers(1, 50),
    codec=st.sampled_from(["none", "snappy", "zstd", "gzip"]),
    page=st.sampled_from(["1.0", "2.0"]),
    index=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_spliced_equals_rewritten(
    wanted: list[tuple[Type, bool]], old: int, rows: int, group: int, codec: str, page: str, index: bool, seed: int
) -> None:
    dice = random.Random(seed)
    ids = iter(range(100, 10_000))
    shape = assign_ids(
        StructType(tuple(Field(name=f"n{n}", required=r, type=t) for n, (t, r) in enumerate(wanted))),
        lambda: next(ids),
    )
    columns = shape.fields
    if any(field.type == "boolean" for _, field in walk(shape)):
        page = "1.0"  # new booleans are never written in pages of version 2
    schema = pa.schema([arrow_field(column) for column in columns])
    new = pa.Table.from_pylist(
        [{f.name: sample(dice, f.type, nullable=f.nullable) for f in schema} for _ in range(rows)], schema=schema
    )
    before = pa.table(
        {f"o{n}": [dice.choice([None, dice.randrange(9)]) for _ in range(rows)] for n in range(old)},
        schema=pa.schema([with_id(n + 1, f"o{n}", pa.int64()) for n in range(old)]),
    )
    written = {"compression": codec, "data_page_version": page, "write_page_index": index}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "a.parquet")
        pq.write_table(before, source, row_group_size=group, **written)
        pieces = [new.slice(start, group) for start in range(0, rows, group)] or [new]
        how = Settings(codec=codec, page_version=page, page_index=index)
        done = add(source, columns, pieces, settings=how)
        assert_equal(Path(done.path), rewritten(source, columns, new, group, **written))
        start = inspect(str(source)).start
        assert Path(done.path).read_bytes()[:start] == source.read_bytes()[:start]
