"""Reading table metadata of every format version, and only what is needed of it."""

from __future__ import annotations

import gzip
from typing import Any

import msgspec
import pytest

from reconciler.errors import InvalidTable, RefNotFound
from reconciler.model.metadata import decode_metadata
from reconciler.model.observation import past_spec, to_observed
from reconciler.model.table import Direction, Nulls, PartitionField, Ref, RefKind, SortField, TableIdent
from reconciler.model.types import Field, ListType, StructType

ORDERS = TableIdent(("sales",), "orders")
ID = {"id": 1, "name": "id", "required": True, "type": "long", "doc": "decimal(9, 2)"}


def document(**changed: Any) -> dict[str, Any]:
    """A small v2 table."""
    return {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "file:///w/orders",
        "last-sequence-number": 34,
        "last-updated-ms": 1,
        "last-column-id": 9,
        "current-schema-id": 3,
        "schemas": [
            {"type": "struct", "schema-id": 3, "identifier-field-ids": [1], "fields": [ID]},
            {"type": "struct", "schema-id": 1, "fields": []},
        ],
        "default-spec-id": 1,
        "partition-specs": [
            {"spec-id": 0, "fields": []},
            {"spec-id": 1, "fields": [{"name": "b", "transform": "bucket[4]", "source-id": 1, "field-id": 1000}]},
        ],
        "last-partition-id": 1000,
        "default-sort-order-id": 2,
        "sort-orders": [
            {
                "order-id": 2,
                "fields": [{"transform": "identity", "source-id": 1, "direction": "desc", "null-order": "nulls-last"}],
            }
        ],
        "properties": {"a": "b", "laketable.owner": "me"},
        "current-snapshot-id": 5,
        "refs": {
            "main": {"snapshot-id": 5, "type": "branch"},
            "close": {"snapshot-id": 4, "type": "tag", "max-ref-age-ms": 10},
        },
        "snapshots": [
            {"snapshot-id": 4, "timestamp-ms": 1, "summary": {"operation": "append"}, "manifest-list": "x"},
            {
                "snapshot-id": 5,
                "timestamp-ms": 2,
                "summary": {"operation": "append", "total-records": "7", "total-files-size": "90"},
                "manifest-list": "y",
            },
        ],
        "snapshot-log": [{"snapshot-id": 4, "timestamp-ms": 1}, {"snapshot-id": 5, "timestamp-ms": 2}],
        "statistics": [{"unknown": ["to", "us"]}],
        **changed,
    }


def decode(**changed: Any):  # type: ignore[no-untyped-def]
    return decode_metadata(msgspec.json.encode(document(**changed)))


def test_everything_a_plan_needs() -> None:
    seen = to_observed(decode(), ORDERS)
    assert seen.spec.schema == StructType((Field(id=1, name="id", required=True, type="long", doc="decimal(9, 2)"),))
    assert seen.spec.identifier_field_ids == {1}
    assert seen.spec.partitioning == (PartitionField(source_id=1, transform="bucket[4]", name="b"),)
    assert seen.spec.sort_order == (
        SortField(source_id=1, transform="identity", direction=Direction.DESC, nulls=Nulls.LAST),
    )
    assert seen.spec.properties == {"a": "b"}
    assert seen.bookkeeping == {"laketable.owner": "me"}
    assert seen.spec.refs == {"close": Ref(name="close", kind=RefKind.TAG, snapshot_id=4, max_ref_age_ms=10)}
    version = seen.version
    assert (version.schema_id, version.spec_id, version.sort_order_id, version.last_field_id) == (3, 1, 2, 9)
    assert version.snapshot_id == 5
    assert (seen.statistics.rows, seen.statistics.bytes, seen.statistics.files) == (7, 90, None)
    assert seen.snapshot_log == ((1, 4), (2, 5))
    assert seen.snapshot_ids == {4, 5}


def test_format_v1_without_the_later_fields() -> None:
    old = {
        "format-version": 1,
        "location": "file:///w/orders",
        "last-column-id": 1,
        "schema": {"type": "struct", "fields": [ID]},
        "partition-spec": [{"name": "b", "transform": "bucket[4]", "source-id": 1}],
        "current-snapshot-id": 8,
        "snapshots": [{"snapshot-id": 8, "timestamp-ms": 1, "manifests": ["m"]}],
    }
    metadata = decode_metadata(msgspec.json.encode(old))
    seen = to_observed(metadata, ORDERS)
    assert [f.name for f in seen.spec.schema.fields] == ["id"]
    assert seen.spec.partitioning[0].transform == "bucket[4]"
    assert (seen.version.schema_id, seen.version.spec_id, seen.version.sort_order_id) == (0, 0, 0)
    assert (seen.version.snapshot_id, metadata.last_partition_id, seen.spec.refs) == (8, 1000, {})
    spec = metadata.spec(0)
    assert spec is not None
    assert spec.fields[0].field_id == 1000


@pytest.mark.parametrize("head", [-1, None])
def test_a_table_without_data_says_so_in_two_ways(head: int | None) -> None:
    seen = to_observed(decode(**{"current-snapshot-id": head, "refs": {}, "snapshots": [], "snapshot-log": []}), ORDERS)
    assert seen.version.snapshot_id is None
    assert (seen.statistics.rows, seen.statistics.files) == (0, 0)


def test_types_are_spelled_canonically_at_any_depth() -> None:
    fields = [
        {"id": 1, "name": "d", "required": False, "type": "decimal(9, 2)", "doc": "decimal(9, 2)"},
        {
            "id": 2,
            "name": "l",
            "required": False,
            "type": {"type": "list", "element-id": 3, "element": "decimal(38,  10)", "element-required": True},
        },
        {"id": 4, "name": "g", "required": False, "type": "geography(srid:4326, spherical)"},
    ]
    schemas = [{"type": "struct", "schema-id": 3, "fields": fields}]
    one, two, three = to_observed(decode(schemas=schemas), ORDERS).spec.schema.fields
    assert (one.type, one.doc) == ("decimal(9,2)", "decimal(9, 2)")
    assert two.type == ListType(element_id=3, element="decimal(38,10)", element_required=True)
    assert three.type == "geography(srid:4326,spherical)"


def test_defaults_are_spelled_canonically_at_any_depth() -> None:
    def column(id_: int, name: str, type_: object, **defaults: object) -> dict[str, object]:
        return {"id": id_, "name": name, "required": False, "type": type_, **defaults}

    inner = column(3, "x", "fixed[2]", **{"write-default": "0AFF"})
    fields = [
        column(1, "b", "binary", **{"initial-default": "DEADBEEF", "write-default": "0A"}),
        column(2, "s", {"type": "struct", "fields": [inner]}),
        column(4, "d", "decimal(9, 2)", **{"write-default": "1.5"}),
        column(5, "wrong", "fixed[2]", **{"write-default": "NOT HEX"}),
    ]
    schemas = [{"type": "struct", "schema-id": 3, "fields": fields}]
    b, s, d, wrong = to_observed(decode(schemas=schemas), ORDERS).spec.schema.fields
    assert (b.initial_default, b.write_default) == ("deadbeef", "0a")
    assert isinstance(s.type, StructType)
    assert s.type.fields[0].write_default == "0aff"
    assert (d.type, d.write_default) == ("decimal(9,2)", "1.50")
    assert wrong.write_default == "NOT HEX"


def test_a_voided_v1_partition_field_partitions_nothing() -> None:
    void = {"name": "gone", "transform": "void", "source-id": 1, "field-id": 1000}
    specs = [{"spec-id": 1, "fields": [void]}]
    assert to_observed(decode(**{"format-version": 1, "partition-specs": specs}), ORDERS).spec.partitioning == ()
    assert to_observed(decode(**{"partition-specs": specs}), ORDERS).spec.partitioning[0].transform == "void"


def test_past_specs() -> None:
    past = past_spec(decode(), ORDERS, 1, 0, 0)
    assert (past.schema.fields, past.partitioning, past.sort_order) == ((), (), ())
    for ids in ((9, 0, 0), (1, 9, 0), (1, 0, 9)):
        with pytest.raises(RefNotFound):
            past_spec(decode(), ORDERS, *ids)


def test_gzip_by_its_bytes() -> None:
    data = msgspec.json.encode(document())
    assert to_observed(decode_metadata(gzip.compress(data)), ORDERS) == to_observed(decode_metadata(data), ORDERS)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"format-version": 2}', id="fields missing"),
        pytest.param(b"\x1f\x8b\x00", id="broken gzip"),
        pytest.param(b'{"location": "\xff\xfe"}', id="not text"),
        pytest.param(msgspec.json.encode(document(schemas=[])), id="no schema"),
        pytest.param(msgspec.json.encode(document(properties={"a": 1})), id="a property that is no text"),
    ],
)
def test_broken_metadata_names_the_place(data: bytes) -> None:
    with pytest.raises(InvalidTable) as caught:
        decode_metadata(data, where="catalog lake: sales.orders")
    assert caught.value.where == "catalog lake: sales.orders"


def test_a_broken_current_schema_is_an_invalid_table() -> None:
    schemas = [{"type": "struct", "schema-id": 3, "fields": [{"id": "one"}]}]
    with pytest.raises(InvalidTable):
        to_observed(decode(schemas=schemas), ORDERS)


def test_what_is_not_needed_is_not_decoded() -> None:
    """An old schema, of which a table may have hundreds, costs nothing: not even a broken one is noticed."""
    broken = {"type": "struct", "schema-id": 2, "fields": [{"id": "one"}]}
    schemas = [broken, *document()["schemas"]]
    assert to_observed(decode(schemas=schemas), ORDERS).spec.schema.fields
    with pytest.raises(InvalidTable):
        decode(schemas=schemas).schemas()
