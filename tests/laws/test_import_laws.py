"""Whatever lives in a catalog: its import is a valid manifest, and planning that manifest changes nothing."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.diff.bind import bind
from reconciler.diff.diff import diff
from reconciler.model.desired import to_desired
from reconciler.model.documents import load_documents
from reconciler.model.manifest import LakeTable
from reconciler.model.observed_manifest import dns_label, from_observed
from reconciler.model.table import (
    Direction,
    Nulls,
    Observed,
    PartitionField,
    Ref,
    RefKind,
    SortField,
    TableIdent,
    TableSpec,
    TableVersion,
)
from reconciler.model.types import Field, ListType, MapType, StructType, Type, assign_ids
from reconciler.model.yaml_text import dump_yaml
from tests.laws.strategies import leaves

SNAPSHOTS = frozenset({1, 2**63 - 1})
PRIMITIVES = ("boolean", "int", "long", "double", "string", "timestamp", "uuid", "fixed[16]", "decimal(38,9)", "binary")
# What people type is not all that tables hold: other engines refuse little.
texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Cn")), max_size=12)
odd_names = st.sampled_from(
    (
        "a.b",
        "`x`",
        "element",
        "key",
        "value",
        "no",
        "1e5",
        "~",
        "- a",
        "a: b",
        "#c",
        "struct<a: int>",
        "ü 💥",
        "x" * 100,
    )
) | texts.filter(lambda text: bool(text.strip()) and text.isprintable())
docs = st.none() | st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)


def types(depth: int) -> st.SearchStrategy[Type]:
    """Draw types of every kind, fields of odd names and docs inside."""
    primitive: st.SearchStrategy[Type] = st.sampled_from(PRIMITIVES)
    if not depth:
        return primitive
    inner = types(depth - 1)
    lists = st.builds(ListType, element=inner, element_required=st.booleans())
    maps = st.builds(MapType, key=st.sampled_from(PRIMITIVES), value=inner, value_required=st.booleans())
    return primitive | lists | maps | structs(inner)


def structs(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[StructType]:
    """Draw structs; names that differ only by case are another matter."""
    field = st.builds(Field, name=odd_names, required=st.booleans(), type=inner, doc=docs)
    several = st.lists(field, min_size=1, max_size=4, unique_by=lambda f: f.name.casefold())
    return several.map(lambda drawn: StructType(tuple(drawn)))


SCHEMAS = structs(types(2))  # making a strategy costs as much as drawing from it
PROPERTIES = st.dictionaries(st.sampled_from(("owner", "comment", "write.metadata.x", "k k", "é", "on")), texts)


@st.composite
def tables(draw: st.DrawFn) -> Observed:
    """Draw a live table as another engine may have left it."""
    ids = count(1)
    schema = assign_ids(draw(SCHEMAS), lambda: next(ids))
    sources = draw(st.lists(st.sampled_from(list(leaves(schema).values()) or [0]), max_size=2, unique=True))
    sources = sources if leaves(schema) else []
    taken = {field.name for field in schema.fields}
    names = draw(st.lists(odd_names.filter(lambda name: name not in taken), min_size=2, max_size=2, unique=True))
    refs = draw(st.dictionaries(st.sampled_from(("eod", "v1.2", "Audit_1")), st.sampled_from(RefKind)))
    ages = st.none() | st.integers(1, 10**12)
    spec = TableSpec(
        ident=TableIdent(("Some_Where",), draw(st.sampled_from(("t", "Order_Items", "2024")))),
        format_version=draw(st.sampled_from((1, 2, 3))),
        location="s3://lake/x",
        schema=schema,
        partitioning=tuple(
            PartitionField(source_id=id_, transform="identity", name=name)
            for id_, name in zip(sources, names, strict=False)
        ),
        sort_order=tuple(
            SortField(
                source_id=id_,
                transform="identity",
                direction=draw(st.sampled_from(Direction)),
                nulls=draw(st.sampled_from(Nulls)),
            )
            for id_ in sources
        ),
        properties=draw(PROPERTIES),
        refs={
            name: Ref(
                name=name, kind=kind, snapshot_id=draw(st.sampled_from(sorted(SNAPSHOTS))), max_ref_age_ms=draw(ages)
            )
            for name, kind in refs.items()
        },
    )
    version = TableVersion(uuid="u", schema_id=0, spec_id=0, sort_order_id=0, last_field_id=10**6, snapshot_id=1)
    return Observed(spec=spec, version=version, snapshot_ids=SNAPSHOTS)


@settings(max_examples=150)
@given(tables())
def test_an_import_plans_nothing(live: Observed) -> None:
    text = dump_yaml(from_observed(live, dns_label(live.spec.ident.name), "sales", None))
    (document,) = load_documents(text.encode(), "f")
    assert isinstance(document.manifest, LakeTable)
    binding = bind(to_desired(document.manifest), live, now_ms=0)
    assert binding.problems == ()
    assert diff(live.spec, binding.spec) == ()
