"""Import: the manifest of a live table, loaded again, wants nothing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.diff.bind import bind
from reconciler.diff.diff import diff
from reconciler.model.desired import to_desired
from reconciler.model.documents import load_documents
from reconciler.model.manifest import LakeTable
from reconciler.model.metadata import decode_metadata
from reconciler.model.observation import to_observed
from reconciler.model.observed_manifest import dns_label, from_observed, resource_names
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
from reconciler.model.types import Field, ListType, MapType, StructType
from reconciler.model.yaml import Data, load_all
from reconciler.model.yaml_text import dump_data, dump_yaml

SCHEMA = StructType(
    (
        Field(id=1, name="id", required=True, type="long", doc="The key"),
        Field(id=2, name="odd name.", required=False, type="decimal(18,2)", write_default="1.50"),
        Field(
            id=3,
            name="address",
            required=True,
            type=StructType(
                (
                    Field(id=4, name="street", required=True, type="string", doc="it's: # a\nstreet"),
                    Field(id=5, name="no", required=False, type="int", write_default=7, initial_default=3),
                )
            ),
        ),
        Field(id=6, name="tags", required=False, type=ListType(element_id=7, element="string", element_required=True)),
        Field(
            id=8,
            name="kv",
            required=False,
            type=MapType(
                key_id=9,
                key="string",
                value_id=10,
                value=StructType((Field(id=11, name="yes", required=False, type="date"),)),
                value_required=False,
            ),
        ),
        Field(id=12, name="at", required=True, type="timestamptz", doc=""),
    )
)
SPEC = TableSpec(
    ident=TableIdent(("Sales",), "Order_Items"),
    format_version=3,
    location="s3://lake/x",
    schema=SCHEMA,
    identifier_field_ids=frozenset({1, 4}),
    partitioning=(
        PartitionField(source_id=12, transform="day", name="at_day"),
        PartitionField(source_id=1, transform="bucket[16]", name="shard"),
        PartitionField(source_id=4, transform="truncate[3]", name="address.street_trunc_3"),
    ),
    sort_order=(
        SortField(source_id=12, transform="identity", direction=Direction.DESC, nulls=Nulls.FIRST),
        SortField(source_id=1, transform="bucket[4]", direction=Direction.ASC, nulls=Nulls.FIRST),
    ),
    properties={
        "owner": "spark",
        "comment": "Items: all",
        "write.distribution-mode": "range",
        "write.format.default": "parquet",
        "write.data.path": "s3://elsewhere",
        "flag": "no",
        "number": "1e5",
    },
    refs={
        "v1": Ref(name="v1", kind=RefKind.TAG, snapshot_id=2**62 + 1, max_ref_age_ms=86_400_000),
        "audit": Ref(name="audit", kind=RefKind.BRANCH, snapshot_id=7, max_snapshot_age_ms=1, min_snapshots_to_keep=3),
        "lt_0123": Ref(name="lt_0123", kind=RefKind.BRANCH, snapshot_id=7),
    },
)


def observed(spec: TableSpec) -> Observed:
    version = TableVersion(uuid="u", schema_id=0, spec_id=0, sort_order_id=0, last_field_id=99, snapshot_id=7)
    return Observed(spec=spec, version=version, snapshot_ids=frozenset({7, 2**62 + 1}))


def imported(spec: TableSpec) -> str:
    return dump_yaml(from_observed(observed(spec), dns_label(spec.ident.name), "sales", "lake"))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(SPEC, id="everything"),
        pytest.param(TableSpec(ident=TableIdent(("a", "b"), "t"), schema=SCHEMA), id="plain"),
    ],
)
def test_an_imported_manifest_plans_nothing(spec: TableSpec) -> None:
    (document,) = load_documents(imported(spec), "f")
    assert isinstance(document.manifest, LakeTable)
    binding = bind(to_desired(document.manifest), observed(spec), now_ms=0)
    assert binding.problems == ()
    assert diff(spec, binding.spec) == ()


def test_defaults_that_a_library_put_into_a_version_2_table_are_left_alone() -> None:
    assert "default:" in imported(SPEC)
    assert "default:" not in imported(msgspec.structs.replace(SPEC, format_version=2, properties={}))


def test_bytes_that_java_writes_in_capitals_are_imported_and_plan_nothing() -> None:
    field = {"id": 1, "name": "b", "required": False, "type": "binary"}
    schema = {"schema-id": 0, "fields": [{**field, "initial-default": "DEADBEEF", "write-default": "DEADBEEF"}]}
    stored = {"format-version": 3, "location": "s3://lake/x", "last-column-id": 1, "schemas": [schema]}
    live = to_observed(decode_metadata(msgspec.json.encode(stored)), TableIdent(("a",), "t")).spec
    assert "default: deadbeef" in imported(live)
    test_an_imported_manifest_plans_nothing(live)


def test_a_changed_manifest_does_plan_something() -> None:
    (document,) = load_documents(imported(SPEC).replace("The key", "A key"), "f")
    assert isinstance(document.manifest, LakeTable)
    assert len(diff(SPEC, bind(to_desired(document.manifest), observed(SPEC), now_ms=0).spec)) == 1


def test_how_it_reads() -> None:
    assert (
        imported(SPEC)
        == """\
apiVersion: laketable.dev/v1alpha1
kind: LakeTable
metadata: {name: order-items, namespace: sales}
spec:
  catalogRef: {name: lake}
  identifier: Sales.Order_Items
  formatVersion: 3
  comment: "Items: all"
  columns:
    - {name: id, type: long, required: true, doc: The key}
    - {name: odd name., type: "decimal(18,2)", default: "1.50"}
    - name: address
      type: "struct<street: string required comment 'it''s: # a\\nstreet', no: int>"
      required: true
    - {name: tags, type: list<string required>}
    - {name: kv, type: "map<string, struct<yes: date>>"}
    - {name: at, type: timestamptz, required: true}
  nestedFields:
    - {path: address.no, default: 7}
  identifierFields: [address.street, id]
  partitioning:
    - {column: at, transform: day}
    - {column: id, transform: "bucket[16]", name: shard}
    - {column: address.street, transform: "truncate[3]"}
  sortOrder:
    - {column: at, direction: desc, nulls: first}
    - {column: id, transform: "bucket[4]"}
  writeDistribution: range
  properties:
    flag: "no"
    number: "1e5"
    write.format.default: parquet
  tags:
    - {name: v1, snapshot: {id: 4611686018427387905}, retain: 1d}
  branches:
    - {name: audit, maxSnapshotAge: 1ms, minSnapshotsToKeep: 3}
"""
    )


def test_what_rests_on_a_lost_column_is_left_out() -> None:
    lost = PartitionField(source_id=77, transform="void", name="gone")
    text = imported(msgspec.structs.replace(SPEC, partitioning=(lost,)))
    assert "partitioning" not in text
    assert "sortOrder" in text


@pytest.mark.parametrize(
    ("text", "label"), [("orders", "orders"), ("Order_Items", "order-items"), ("__", "table"), ("x" * 70, "x" * 63)]
)
def test_labels(text: str, label: str) -> None:
    assert dns_label(text) == label


def test_a_clash_of_labels_is_settled_by_the_identifier() -> None:
    dashed, under, other = (TableIdent.parse(text) for text in ("s.a-b", "s.a_b", "s.c_d"))
    named = resource_names([dashed, under, other])
    assert named[dashed] == ("s", "a-b"), "it is called that"
    assert named[other] == ("s", "c-d"), "nothing else is"
    assert named[under] == resource_names([under, TableIdent.parse("s.A.b"), TableIdent.parse("s.A_B")])[under]
    long = resource_names([TableIdent(("s",), "x" * 70), TableIdent(("s",), "x" * 71)])
    assert len(set(long.values())) == 2
    assert {len(name) for _, name in long.values()} == {63}


SCALARS = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(max_size=12) | st.sampled_from(
    ["no", "1e5", "0x1F", "a: b", "- a", "#", "{", "2026-01-01", "", "~", "<<"]
)
DATA: st.SearchStrategy[Data] = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS.filter(lambda k: k != "<<"), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(DATA)
def test_printed_yaml_reads_back_as_itself(data: Data) -> None:
    assert load_all(dump_data({"a": data}), "f") == [{"a": data}]
