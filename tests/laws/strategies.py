"""Random nested tables, and random evolutions of them; shared by the laws and by suites that run real engines.

Everything is small on purpose: few names and few types make renames, swaps and clashes likely.
`specs()` draws a live table, `evolved(spec)` another spec of the same table (what `diff` sees), `manifests(spec)` a
`Desired` for it (what `bind` sees).
"""

from __future__ import annotations

from functools import cache
from itertools import count

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from reconciler.model.table import (
    Desired,
    DesiredPartitionField,
    DesiredSortField,
    Direction,
    Nulls,
    PartitionField,
    SortField,
    TableIdent,
    TableSpec,
    UnmanagedColumns,
)
from reconciler.model.types import (
    Field,
    FieldPath,
    ListType,
    MapType,
    StructType,
    Type,
    assign_ids,
    fields_of,
    map_fields,
    walk,
    with_fields,
)

IDENT = TableIdent(("laws",), "t")
OWNER = "laws"
NAMES = ("a", "b", "c", "d", "e", "f", "laketable_tmp_1")
PRIMITIVES = ("int", "long", "float", "double", "string", "date", "timestamptz", "decimal(9,2)", "uuid", "binary")
WIDER = {"int": "long", "float": "double", "decimal(9,2)": "decimal(18,2)"}
DOCS = (None, None, "one", "two")
PROPERTIES = ("k1", "k2", "k3", "k4")


# ---------------------------------------------------------------- schemas


@cache  # making a strategy costs as much as drawing from it
def types(depth: int) -> SearchStrategy[Type]:
    """Draw a type without field ids, nested at most `depth` levels."""
    primitive: SearchStrategy[Type] = st.sampled_from(PRIMITIVES)
    if depth == 0:
        return primitive
    inner = types(depth - 1)
    lists = st.builds(ListType, element=inner, element_required=st.booleans())
    # Map keys are primitive: Iceberg freezes a struct used as a key.
    maps = st.builds(MapType, key=st.sampled_from(PRIMITIVES), value=inner, value_required=st.booleans())
    return primitive | structs(depth - 1) | lists | maps


@cache
def structs(depth: int, most: int = 4) -> SearchStrategy[StructType]:
    """Draw a struct of 1 to `most` fields with unique names."""
    field = st.builds(
        Field, name=st.sampled_from(NAMES), required=st.booleans(), type=types(depth), doc=st.sampled_from(DOCS)
    )
    fields = st.lists(field, min_size=1, max_size=most, unique_by=lambda f: f.name)
    return fields.map(lambda drawn: StructType(tuple(drawn)))


# ---------------------------------------------------------------- live tables


@st.composite
def specs(draw: DrawFn, depth: int = 2) -> TableSpec:
    """Draw a whole table; its ids start above 1 with holes, as on a table that has lived."""
    ids = count(draw(st.integers(1, 3)), draw(st.integers(1, 2)))
    schema = assign_ids(draw(structs(depth, most=6)), lambda: next(ids))
    return _with_layout(draw, TableSpec(ident=IDENT, schema=schema, properties=draw(_properties())))


@cache
def _properties() -> SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(PROPERTIES), st.sampled_from(("1", "2")))


def _with_layout(draw: DrawFn, spec: TableSpec) -> TableSpec:
    sources = st.sampled_from(list(leaves(spec.schema).values()) or [0])
    chosen = draw(st.lists(sources, max_size=2, unique=True)) if leaves(spec.schema) else []
    transforms = st.sampled_from(("identity", "bucket[4]", "void"))
    directions, nulls = st.sampled_from(Direction), st.sampled_from(Nulls)
    return msgspec.structs.replace(
        spec,
        identifier_field_ids=frozenset(chosen[:1]) if draw(st.booleans()) else frozenset(),
        partitioning=tuple(
            PartitionField(source_id=id_, transform=draw(transforms), name=f"p{place}")
            for place, id_ in enumerate(chosen)
        ),
        sort_order=tuple(
            SortField(source_id=id_, transform="identity", direction=draw(directions), nulls=draw(nulls))
            for id_ in chosen[1:]
        ),
    )


def leaves(schema: StructType) -> dict[FieldPath, int]:
    """Map the paths of primitive fields outside lists and maps to their ids: what a layout may refer to."""
    found: dict[FieldPath, int] = {}

    def visit(struct: StructType, prefix: FieldPath) -> None:
        for field in struct.fields:
            if isinstance(field.type, StructType):
                visit(field.type, (*prefix, field.name))
            elif isinstance(field.type, str):
                found[(*prefix, field.name)] = field.id

    visit(schema, ())
    return found


# ---------------------------------------------------------------- another spec of the same table


@st.composite
def evolved(draw: DrawFn, spec: TableSpec) -> TableSpec:
    """Draw a target for `diff`: fields dropped, renamed, swapped, moved, altered, added, restored under free ids."""
    ids = count(-1, -1)
    schema = StructType(_evolved_fields(draw, spec.schema.fields, ids, depth=2))
    target = msgspec.structs.replace(spec, schema=schema, properties=draw(_properties()))
    return _with_layout(draw, target)


def _evolved_fields(draw: DrawFn, fields: tuple[Field, ...], ids: count[int], depth: int) -> tuple[Field, ...]:
    kept = [f for f in fields if draw(st.integers(0, 4))]
    added = draw(st.lists(types(min(depth, 1)), min_size=0 if kept else 1, max_size=2))
    new = [
        Field(id=next(ids), name="", required=draw(st.booleans()), type=assign_ids(type_, lambda: next(ids)))
        for type_ in added
    ]
    names = _names(draw, kept, len(new))
    both = [_evolved_field(draw, f, ids, depth) for f in kept] + new
    named = [msgspec.structs.replace(f, name=name) for f, name in zip(both, names, strict=True)]
    return tuple(draw(st.permutations(named)) if draw(st.booleans()) else named)


def _names(draw: DrawFn, kept: list[Field], new: int) -> list[str]:
    """Keep most names; shuffle them sometimes, which gives chains and swaps."""
    free = [name for name in (*NAMES, "g", "h", "i", "j") if name not in {f.name for f in kept}]
    renamed = [draw(st.sampled_from(free)) if not draw(st.integers(0, 3)) else f.name for f in kept]
    if len(set(renamed)) < len(renamed):
        renamed = [f.name for f in kept]
    if draw(st.integers(0, 3)) == 0:
        renamed = list(draw(st.permutations(renamed)))
    return renamed + [name for name in (*free, *(f.name for f in kept)) if name not in renamed][:new]


def _evolved_field(draw: DrawFn, field: Field, ids: count[int], depth: int) -> Field:
    return msgspec.structs.replace(
        field,
        required=draw(st.booleans()),
        doc=draw(st.sampled_from(DOCS)),
        write_default=draw(st.sampled_from((None, None, 7))),
        type=_evolved_type(draw, field.type, ids, depth),
    )


def _evolved_type(draw: DrawFn, type_: Type, ids: count[int], depth: int) -> Type:
    match type_:
        case StructType():
            return StructType(_evolved_fields(draw, type_.fields, ids, depth - 1)) if depth else type_
        case ListType():
            return msgspec.structs.replace(type_, element=_evolved_type(draw, type_.element, ids, depth))
        case MapType():
            return msgspec.structs.replace(type_, value=_evolved_type(draw, type_.value, ids, depth))
        case _:
            return draw(st.sampled_from(PRIMITIVES)) if draw(st.booleans()) else type_


# ---------------------------------------------------------------- manifests


def unbound(schema: StructType) -> StructType:
    """Strip ids: what a manifest that names every field says."""
    stripped = map_fields(schema, lambda f: msgspec.structs.replace(f, id=0))
    assert isinstance(stripped, StructType)
    return StructType(tuple(msgspec.structs.replace(f, type=_without_ids(f.type)) for f in stripped.fields))


def _without_ids(type_: Type) -> Type:
    nested = tuple(msgspec.structs.replace(f, id=0, type=_without_ids(f.type)) for f in fields_of(type_))
    return with_fields(type_, nested) if nested else type_


@st.composite
def manifests(draw: DrawFn, spec: TableSpec) -> Desired:
    """Draw a manifest that evolves the live table by legal means: declared renames, additions, drops, widening, …"""
    renames: dict[FieldPath, str] = {}
    columns = StructType(_desired_fields(draw, spec.schema.fields, (), renames))
    paths = [path for path in leaves(columns) if draw(st.booleans())][:2]
    states_layout = draw(st.booleans())
    return Desired(
        ident=IDENT,
        owner=OWNER,
        columns=columns,
        column_renames=renames,
        unmanaged_columns=draw(st.sampled_from(UnmanagedColumns)),
        identifier_fields=tuple(paths[:1]) if states_layout else None,
        partitioning=tuple(DesiredPartitionField(path=path, transform="bucket[4]") for path in paths)
        if states_layout
        else None,
        sort_order=tuple(DesiredSortField(path=path) for path in paths) if states_layout else None,
        properties=draw(_properties()),
    )


def _desired_fields(
    draw: DrawFn, live: tuple[Field, ...], prefix: FieldPath, renames: dict[FieldPath, str]
) -> tuple[Field, ...]:
    fields: list[Field] = []
    taken = {f.name for f in live}
    for field in live:
        fate = draw(st.sampled_from(("keep", "keep", "keep", "alter", "rename", "drop")))
        if fate == "drop" and (fields or field is not live[-1]):
            continue
        name = field.name
        if fate == "rename":
            # A fresh name, or the name that a sibling before it has left: a chain.
            left = [renames[(*prefix, f.name)] for f in fields if (*prefix, f.name) in renames]
            used = {f.name for f in fields}
            free = [option for option in ("r1", "r2", "r3", *left) if option not in used]
            name = draw(st.sampled_from(free or [field.name]))
            if name != field.name:
                renames[(*prefix, name)] = field.name
        fields.append(_desired_field(draw, field, name, prefix, renames, alters=fate == "alter"))
    for name in draw(st.lists(st.sampled_from(("n1", "n2")), unique=True, max_size=2)):
        if name not in taken:
            type_ = draw(types(1))
            fields.insert(draw(st.integers(0, len(fields))), Field(name=name, required=draw(st.booleans()), type=type_))
    return tuple(draw(st.permutations(fields)) if draw(st.booleans()) else fields)


def _desired_field(
    draw: DrawFn, live: Field, name: str, prefix: FieldPath, renames: dict[FieldPath, str], *, alters: bool
) -> Field:
    path = (*prefix, name)
    return Field(
        name=name,
        required=draw(st.booleans()) if alters else live.required,
        doc=draw(st.sampled_from((None, "", "new"))) if alters else live.doc,
        type=_desired_type(draw, live.type, path, renames, alters=alters),
    )


def _desired_type(draw: DrawFn, live: Type, path: FieldPath, renames: dict[FieldPath, str], *, alters: bool) -> Type:
    match live:
        case StructType():
            return StructType(_desired_fields(draw, live.fields, path, renames))
        case ListType():
            element = _desired_type(draw, live.element, (*path, "element"), renames, alters=alters)
            return ListType(element=element, element_required=live.element_required)
        case MapType():
            value = _desired_type(draw, live.value, (*path, "value"), renames, alters=alters)
            return MapType(key=_without_ids(live.key), value=value, value_required=live.value_required)
        case _:
            return WIDER.get(live, live) if alters else live


def ids_below(type_: Type) -> list[int]:
    """List every field id below a type."""
    return [field.id for _, field in walk(type_)]


@st.composite
def managed_ids(draw: DrawFn, spec: TableSpec) -> frozenset[int]:
    """Draw managed memory: nothing, everything, or some of a table's fields."""
    everything = ids_below(spec.schema)
    some = st.lists(st.sampled_from(everything), unique=True)
    return frozenset(draw(st.one_of(st.just([]), st.just(everything), some)))
