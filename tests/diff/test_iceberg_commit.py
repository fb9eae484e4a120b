"""Ids that one Iceberg commit asks for: what the table had before is used again, v1 keeps every position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from reconciler.diff.changes import (
    AlterColumnDoc,
    Change,
    CreateRef,
    SetPartitioning,
    SetProperty,
    SetRefRetention,
    UpgradeFormat,
)
from reconciler.diff.iceberg_commit import requirements, target_of, updates
from reconciler.diff.refs import diff_refs
from reconciler.errors import CommitConflict
from reconciler.model.metadata import TableMetadata, decode_metadata
from reconciler.model.table import PartitionField, Ref, RefKind, TableIdent

ORDERS = TableIdent(("sales",), "orders")
FIELDS = [
    {"id": 1, "name": "id", "required": True, "type": "long"},
    {"id": 2, "name": "at", "required": False, "type": "timestamp"},
]


def part(source_id: int, transform: str, name: str, field_id: int) -> dict[str, Any]:
    return {"source-id": source_id, "transform": transform, "name": name, "field-id": field_id}


DAY = part(2, "day", "at_day", 1000)
BUCKET = part(1, "bucket[4]", "id_bucket", 1001)


def table(
    specs: Sequence[Sequence[Mapping[str, Any]]],
    *,
    version: int = 2,
    changed: Mapping[str, object] | None = None,
    **extra: object,
) -> TableMetadata:
    """A table whose last partition spec is the default one."""
    document = {
        "format-version": version,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "file:///w/orders",
        "last-column-id": 2,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": FIELDS}],
        "partition-specs": [{"spec-id": number, "fields": fields} for number, fields in enumerate(specs)],
        "default-spec-id": len(specs) - 1,
        "last-partition-id": max((f["field-id"] for fields in specs for f in fields), default=999),
        "sort-orders": [{"order-id": 0, "fields": []}],
        **extra,
        **(changed or {}),
    }
    return decode_metadata(msgspec.json.encode(document))


def repartition(metadata: TableMetadata, *after: PartitionField) -> list[Any]:
    """The updates of one change of partitioning."""
    spec = metadata.spec(metadata.default_spec_id)
    assert spec is not None
    shown = [f for f in spec.fields if metadata.format_version > 1 or f.transform != "void"]
    before = tuple(PartitionField(source_id=f.source_id, transform=f.transform, name=f.name) for f in shown)
    change = SetPartitioning(before=before, after=after, before_text=(), after_text=())
    return list(updates(metadata, target_of(metadata, ORDERS, [change])))


def day(name: str = "at_day") -> PartitionField:
    return PartitionField(source_id=2, transform="day", name=name)


def bucket(size: int = 4) -> PartitionField:
    return PartitionField(source_id=1, transform=f"bucket[{size}]", name="id_bucket")


def test_a_new_field_gets_the_next_partition_id() -> None:
    add, set_default = repartition(table([[DAY]]), day(), bucket())
    assert add["spec"] == {"spec-id": 1, "fields": [DAY, BUCKET]}
    assert set_default == {"action": "set-default-spec", "spec-id": -1}


def test_an_identical_spec_comes_back_under_its_id() -> None:
    assert repartition(table([[DAY], [DAY, BUCKET]]), day()) == [{"action": "set-default-spec", "spec-id": 0}]


def test_a_field_of_an_earlier_spec_gets_its_id_back() -> None:
    add, _ = repartition(table([[DAY, BUCKET], []]), bucket())
    assert add["spec"]["fields"] == [BUCKET]


def test_a_renamed_field_keeps_its_id() -> None:
    add, _ = repartition(table([[DAY]]), day("d"))
    assert add["spec"]["fields"] == [{**DAY, "name": "d"}]


def test_v1_voids_in_place_and_appends() -> None:
    add, _ = repartition(table([[DAY, BUCKET]], version=1), bucket(8))
    voided = {**BUCKET, "transform": "void", "name": "id_bucket_1001"}
    new = part(1, "bucket[8]", "id_bucket", 1002)
    assert add["spec"]["fields"] == [{**DAY, "transform": "void"}, voided, new]


def test_a_v1_field_that_comes_back_is_appended() -> None:
    """As Iceberg's own builder does: an id stays with its place, and the void gives up the name."""
    voided = {**DAY, "transform": "void"}
    add, _ = repartition(table([[DAY], [voided, BUCKET]], version=1), day())
    moved_on = {**voided, "name": "at_day_1000"}
    assert add["spec"]["fields"] == [moved_on, {**BUCKET, "transform": "void"}, {**DAY, "field-id": 1002}]


def test_an_upgrade_with_another_partitioning_leaves_no_void() -> None:
    change = SetPartitioning(before=(day(),), after=(bucket(),), before_text=(), after_text=())
    metadata = table([[DAY]], version=1)
    target = target_of(metadata, ORDERS, [UpgradeFormat(before=1, after=2), change])
    _, add, _ = updates(metadata, target)
    assert add["spec"] == {"spec-id": 1, "fields": [BUCKET]}


def test_an_upgrade_alone_shows_the_void_fields_of_version_1() -> None:
    metadata = table([[{**DAY, "transform": "void"}, BUCKET]], version=1)
    target = target_of(metadata, ORDERS, [UpgradeFormat(before=1, after=2)])
    assert target.spec.partitioning == (PartitionField(source_id=2, transform="void", name="at_day"), bucket())
    assert updates(metadata, target) == [{"action": "upgrade-format-version", "format-version": 2}]


def test_every_commit_asserts_what_it_was_computed_from() -> None:
    metadata = table([[DAY]])
    change = SetProperty(key="comment", before=None, after="x")
    target = target_of(metadata, ORDERS, [change])
    asserted = {str(r["type"]) for r in requirements(metadata, target, guard_snapshot=False)}
    assert asserted == {
        "assert-table-uuid",
        "assert-current-schema-id",
        "assert-last-assigned-field-id",
        "assert-default-spec-id",
        "assert-last-assigned-partition-id",
        "assert-default-sort-order-id",
    }
    guarded = requirements(metadata, target, guard_snapshot=True)
    assert {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None} in guarded


def test_retention_follows_a_branch_that_moved() -> None:
    """The plan saw the branch at 1; rows came in and it is at 2: only the retention may change."""
    snapshots = [{"snapshot-id": 1}, {"snapshot-id": 2}]
    metadata = table([[]], refs={"audit": {"snapshot-id": 2, "type": "branch"}}, snapshots=snapshots)
    planned = Ref(name="audit", kind=RefKind.BRANCH, snapshot_id=1)
    change = SetRefRetention(before=planned, after=msgspec.structs.replace(planned, max_ref_age_ms=5))
    (update,) = updates(metadata, target_of(metadata, ORDERS, [change]))
    assert (update["snapshot-id"], update["max-ref-age-ms"]) == (2, 5)


@pytest.mark.parametrize("kind", RefKind)
def test_a_ref_moves_and_gets_another_retention_in_one_commit(kind: RefKind) -> None:
    stored = {"snapshot-id": 1, "type": kind.value, "max-ref-age-ms": 5}
    metadata = table([[]], refs={"q3": stored}, snapshots=[{"snapshot-id": 1}, {"snapshot-id": 2}])
    before = Ref(name="q3", kind=kind, snapshot_id=1, max_ref_age_ms=5)
    after = msgspec.structs.replace(before, snapshot_id=2, max_ref_age_ms=9)
    target = target_of(metadata, ORDERS, list(diff_refs({"q3": before}, {"q3": after})))
    (update,) = updates(metadata, target)
    assert (update["snapshot-id"], update["max-ref-age-ms"]) == (2, 9)
    asserted = [r for r in requirements(metadata, target, guard_snapshot=False) if r.get("ref") == "q3"]
    assert asserted == [{"type": "assert-ref-snapshot-id", "ref": "q3", "snapshot-id": 1}]


def test_a_branch_that_is_moved_must_be_where_the_plan_saw_it() -> None:
    """Its retention changes too, and must not hide that somebody committed to it."""
    snapshots = [{"snapshot-id": 1}, {"snapshot-id": 2}, {"snapshot-id": 3}]
    metadata = table([[]], refs={"audit": {"snapshot-id": 3, "type": "branch"}}, snapshots=snapshots)
    planned = Ref(name="audit", kind=RefKind.BRANCH, snapshot_id=1)
    after = msgspec.structs.replace(planned, snapshot_id=2, max_ref_age_ms=5)
    with pytest.raises(CommitConflict):
        target_of(metadata, ORDERS, list(diff_refs({"audit": planned}, {"audit": after})))


def test_a_new_ref_must_not_be_there_yet() -> None:
    metadata = table([[]], snapshots=[{"snapshot-id": 1}])
    target = target_of(metadata, ORDERS, [CreateRef(ref=Ref(name="t", kind=RefKind.TAG, snapshot_id=1))])
    assert {"type": "assert-ref-snapshot-id", "ref": "t", "snapshot-id": None} in requirements(
        metadata, target, guard_snapshot=False
    )


@pytest.mark.parametrize("spelled", ["decimal(9,2)", "decimal(9, 2)"])
def test_a_schema_is_recognised_however_its_types_are_spelled(spelled: str) -> None:
    def fields(doc: str | None) -> list[dict[str, object]]:
        stated = {"doc": doc} if doc else {}
        return [{"id": 1, "name": "a", "required": False, "type": spelled, **stated}]

    schemas = [
        {"type": "struct", "schema-id": 4, "fields": fields(None)},
        {"type": "struct", "schema-id": 7, "fields": fields("x")},
    ]
    metadata = table([[]], changed={"schemas": schemas, "current-schema-id": 7, "last-column-id": 1})
    back: list[Change] = [AlterColumnDoc(path=("a",), field_id=1, before="x", after=None)]
    assert updates(metadata, target_of(metadata, ORDERS, back)) == [{"action": "set-current-schema", "schema-id": 4}]
    other: list[Change] = [AlterColumnDoc(path=("a",), field_id=1, before="x", after="y")]
    add = updates(metadata, target_of(metadata, ORDERS, other))[0]
    schema: Any = add["schema"]
    assert (schema["schema-id"], schema["fields"][0]["type"]) == (8, "decimal(9,2)")
