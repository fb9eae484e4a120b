"""A manifest's normal form, and which bytes of it the plan hash covers."""

from __future__ import annotations

import pytest

from reconciler.model.desired import canonical_desired, to_desired
from reconciler.model.documents import load_documents
from reconciler.model.maintenance import DAY_MS, ExpireSnapshots, Maintenance, RemoveOrphans
from reconciler.model.manifest import LakeTable
from reconciler.model.table import (
    Computed,
    Desired,
    DesiredIndex,
    DesiredPartitionField,
    DesiredRef,
    DesiredSortField,
    Direction,
    Nulls,
    RefKind,
    Suppression,
    TableIdent,
    UnmanagedColumns,
)
from reconciler.model.types import Field, StructType
from reconciler.model.yaml_text import dump_yaml
from tests.model.test_manifest_checks import TABLE


def desired(text: str = TABLE, project: str = "shop") -> Desired:
    (document,) = load_documents(text, "f")
    assert isinstance(document.manifest, LakeTable)
    return to_desired(document.manifest, project)


def test_every_part_arrives() -> None:
    found = desired()
    assert found.maintenance == Maintenance(
        expire=ExpireSnapshots(older_than_ms=7 * DAY_MS, keep=20), orphans=RemoveOrphans(older_than_ms=3 * DAY_MS)
    )
    assert found.owner == "shop/sales/orders"
    assert found.ident == TableIdent(("sales",), "orders")
    assert found.renamed_from == TableIdent(("sales",), "old_orders")
    assert found.format_version == 3
    assert found.location == "s3://lake/orders"
    assert found.unmanaged_columns is UnmanagedColumns.WARN
    assert found.properties == {
        "write.parquet.compression-codec": "zstd",
        "team": "sales",
        "comment": "Orders",
        "write.distribution-mode": "hash",
        "write.parquet.bloom-filter-enabled.column.customer_ref": "true",
    }
    assert found.indexes == (DesiredIndex(name="by_customer", type="bloom", columns=(("customer_ref",),)),)
    assert found.identifier_fields == (("order_id",),)
    assert found.partitioning == (
        DesiredPartitionField(path=("ordered_at",), transform="day"),
        DesiredPartitionField(path=("order_id",), transform="bucket[16]", name="by_id"),
    )
    assert found.sort_order == (DesiredSortField(path=("ordered_at",), direction=Direction.DESC, nulls=Nulls.LAST),)
    assert found.column_renames == {
        ("customer_ref",): "cust_id",
        ("address", "postcode"): "zip",
        ("address", "tags", "element", "k"): "key",
    }
    assert found.defaults_stated == {("amount",), ("address", "postcode")}
    assert found.computed == {("amount_eur",): Computed(expression="amount * fx_rate")}
    assert found.suppressions == (Suppression(code="LK104", reason="agreed", path=("address", "postcode")),)
    assert found.approval == "sha256:" + 64 * "0"
    assert found.refs == (
        DesiredRef(name="q3", kind=RefKind.TAG, as_of_ms=1_790_812_800_000, max_ref_age_ms=365 * 86_400_000),
        DesiredRef(name="nightly", kind=RefKind.TAG, track="main", schedule="0 2 * * *"),
        DesiredRef(name="audit", kind=RefKind.BRANCH, max_ref_age_ms=30 * 86_400_000, min_snapshots_to_keep=2),
    )


def test_columns_with_their_nested_fields() -> None:
    columns = {field.name: field for field in desired().columns.fields}
    assert columns["amount"] == Field(
        name="amount", required=False, type="decimal(18,2)", initial_default="0.00", write_default="0.00"
    )
    address = columns["address"].type
    assert isinstance(address, StructType)
    assert address.fields[1] == Field(
        name="postcode",
        required=False,
        type="string",
        doc="Postal code",
        initial_default="none",
        write_default="none",
    )
    assert [field.name for field in desired().columns.fields][:2] == ["order_id", "customer_ref"]


def test_type_changes_and_constraints_arrive() -> None:
    found = desired()
    (name,) = found.type_changes
    assert found.type_changes[name].on_cast_failure in ("Fail", "Null", "Quarantine")
    assert found.constraints is not None
    assert desired(MINIMAL).constraints is None
    assert desired(f"{MINIMAL}  constraints: []\n").constraints == ()


MINIMAL = """\
apiVersion: laketable.dev/v1alpha1
kind: LakeTable
metadata: {name: orders}
spec:
  columns: [{name: a, type: bigint}]
"""


def test_what_is_not_stated_stays_open() -> None:
    assert desired(MINIMAL, "p") == Desired(
        ident=TableIdent(("default",), "orders"),
        owner="p/default/orders",
        columns=StructType((Field(name="a", required=False, type="long"),)),
    )


def test_empty_is_not_the_same_as_not_stated() -> None:
    found = desired(f"{MINIMAL}  partitioning: []\n  sortOrder: []\n  identifierFields: []\n  tags: []\n")
    assert (found.partitioning, found.sort_order, found.identifier_fields, found.refs) == ((), (), (), ())


def test_a_null_default_removes_and_no_default_leaves() -> None:
    found = desired(MINIMAL.replace("bigint", "bigint, default: null"))
    assert found.defaults_stated == {("a",)}
    assert found.columns.fields[0].write_default is None


def test_nulls_follow_the_direction() -> None:
    found = desired(f"{MINIMAL}  sortOrder: [{{column: a, direction: desc}}]\n")
    assert found.sort_order == (DesiredSortField(path=("a",), direction=Direction.DESC, nulls=Nulls.LAST),)
    found = desired(f"{MINIMAL}  sortOrder: [{{column: a}}]\n")
    assert found.sort_order == (DesiredSortField(path=("a",), direction=Direction.ASC, nulls=Nulls.FIRST),)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param('0000000000000000"}', '1111111111111111"}', id="approval"),
        pytest.param("olderThan: 7d, keep: 20", "olderThan: 9d", id="maintenance"),
        pytest.param("interval: 10m", "interval: 1h", id="reconcile"),
        pytest.param("metadata: {name: orders,", "metadata: {name: other,", id="metadata"),
        pytest.param("zstd, team: sales}", "zstd, team: sales} # same", id="comment"),
        pytest.param(
            "{write.parquet.compression-codec: zstd, team: sales}",
            "{team: sales, write.parquet.compression-codec: zstd}",
            id="order-of-properties",
        ),
        pytest.param("type: long, required: true", "type: bigint, required: true", id="alias"),
    ],
)
def test_the_hash_is_blind_to(before: str, after: str) -> None:
    assert TABLE.count(before) == 1
    assert canonical_desired(desired(TABLE.replace(before, after))) == canonical_desired(desired())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("type: string, renamedFrom", "type: binary, renamedFrom"),
        ("doc: Customer key", "doc: Customer"),
        ("renamedFrom: cust_id", "renamedFrom: cust"),
        ('default: "0.00"', 'default: "0.01"'),
        ("unmanagedColumns: Warn", "unmanagedColumns: Drop"),
        ("transform: day", "transform: month"),
        ("direction: desc", "direction: asc"),
        ("team: sales", "team: shop"),
        ("retain: 365d", "retain: 364d"),
        ("check: amount >= 0", "check: amount > 0"),
        ("expression: amount", "expression: 2 * amount"),
        ("reason: agreed", "reason: no"),
        ("formatVersion: 3", "formatVersion: 3\n  rewriteExisting: true"),
        ("keepOldFor: 7d", "keepOldFor: 8d"),
    ],
)
def test_the_hash_covers(before: str, after: str) -> None:
    assert TABLE.count(before) == 1
    assert canonical_desired(desired(TABLE.replace(before, after))) != canonical_desired(desired())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TABLE, id="everything"),
        pytest.param(MINIMAL, id="minimal"),
        pytest.param(
            f"{MINIMAL.replace('bigint', 'bigint, default: null, doc: ' + repr(''))}  partitioning: []\n  tags: []\n",
            id="stated-as-empty",
        ),
    ],
)
def test_a_printed_manifest_means_the_same(text: str) -> None:
    (document,) = load_documents(text, "f")
    assert document.manifest is not None
    assert desired(dump_yaml(document.manifest)) == desired(text)
