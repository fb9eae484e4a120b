"""Iceberg's rules: what is done in place, with which evidence, and what is refused with which hint."""

from __future__ import annotations

import typing

import pytest

from reconciler.dialects import dialect_for
from reconciler.dialects.iceberg import CAPABILITIES, keeps_value
from reconciler.diff.changes import Change, CreateRef, MoveRef, RenameColumn, SetRefRetention
from reconciler.errors import Unsupported
from reconciler.model.table import (
    DataFile,
    Desired,
    DesiredPartitionField,
    DesiredRef,
    DesiredSortField,
    PartitionField,
    RefKind,
    Statistics,
    TableFormat,
    TableSpec,
)
from reconciler.model.types import Field, ListType, MapType
from reconciler.plan.operations import OperationClass, Plan
from reconciler.plan.row_work import Validate
from tests.diff.tables import desired, field, list_of, managed, map_of, observed, spec, struct, tag, wanted
from tests.plan.planning import blocking, codes, file, live, long_bound, message, planned

META, AUDIT, REWRITE, DESTRUCTIVE = OperationClass


def altered(before: str, after: str, files: tuple[DataFile, ...] = (), **stated: object) -> Plan:
    """The plan that changes one column's type."""
    return planned(desired(wanted("a", after), **stated), live(spec(field(1, "a", before))), files)


def evidence(made: Plan) -> list[str]:
    return [note.evidence for note in made.notes]


def test_every_kind_of_change_has_a_rule() -> None:
    assert set(CAPABILITIES.rules) == set(typing.get_args(Change))


@pytest.mark.parametrize("other", [TableFormat.DELTA, TableFormat.LANCE, TableFormat.PAIMON])
def test_other_formats_are_refused_in_one_line(other: TableFormat) -> None:
    with pytest.raises(Unsupported, match=f"{other.value} tables come in a later version"):
        dialect_for(other)


# ---------------------------------------------------------------- types


@pytest.mark.parametrize(("before", "after"), [("int", "long"), ("float", "double"), ("decimal(9,2)", "decimal(18,2)")])
def test_a_promotion_is_metadata_only(before: str, after: str) -> None:
    made = altered(before, after)
    assert made.operation_class is META
    assert not made.is_breaking
    assert evidence(made) == ["in-place promotion"]
    assert made.findings == ()


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("long", "int", "LK201"),
        ("double", "float", "LK201"),
        ("decimal(18,2)", "decimal(9,2)", "LK201"),
        ("string", "binary", "LK202"),
        ("decimal(10,2)", "decimal(12,4)", "LK202"),
        ("int", "string", "LK202"),
        ("timestamp", "timestamptz", "LK202"),
        ("date", "timestamp", "LK404"),
    ],
)
def test_any_other_change_of_type_is_refused_not_replaced(before: str, after: str, code: str) -> None:
    made = altered(before, after)
    assert blocking(made) == [code]
    assert [type(change).__name__ for change in made.changes] == ["AlterColumnType"]
    assert made.notes[0].operation_class is REWRITE
    assert made.notes[0].breaking


def test_version_three_promotes_dates() -> None:
    made = altered("date", "timestamp", format_version=3)
    assert evidence(made) == ["", "in-place promotion"]
    assert blocking(made) == []


def test_a_refused_narrowing_says_what_the_bounds_know() -> None:
    fits = altered("long", "int", (file(1, lower=long_bound(3), upper=long_bound(70_000)),))
    assert "Today's values would fit (values 3 to 70,000, bounds of 1 of 1 file)." in message(fits, "LK201")
    assert "typeChange: {strategy: ExpandContract}" in message(fits, "LK201")
    large = altered("long", "int", (file(1, lower=long_bound(3), upper=long_bound(2**40)),))
    assert "would not fit (values 3 to 1,099,511,627,776" in message(large, "LK201")
    silent = altered("long", "int", (file(1),))
    assert "is unknown (bounds of 0 of 1 file)" in message(silent, "LK201")


@pytest.mark.parametrize(
    ("transform", "before", "after", "kept"),
    [
        ("bucket[16]", "int", "long", True),
        ("truncate[4]", "int", "long", True),
        ("identity", "decimal(9,2)", "decimal(18,2)", True),
        ("identity", "float", "double", True),
        ("day", "date", "timestamp", True),
        ("void", "date", "timestamp", True),
        ("bucket[16]", "date", "timestamp", False),
        ("identity", "date", "timestamp_ns", False),
    ],
)
def test_promotions_and_partition_values(transform: str, before: str, after: str, kept: bool) -> None:
    assert keeps_value(transform, before, after) is kept
    partitioned = spec(
        field(1, "a", before),
        partitioning=(PartitionField(source_id=1, transform=transform, name="p"),),
        format_version=3,
    )
    made = planned(desired(wanted("a", after)), live(partitioned), ())
    assert ("LK209" in blocking(made)) is not kept


# ---------------------------------------------------------------- required


OPTIONAL = spec(field(1, "a", "long"))
REQUIRED = desired(wanted("a", "long", required=True))


def test_required_proven() -> None:
    made = planned(REQUIRED, live(OPTIONAL), (file(1), file(1, name="b")))
    assert (made.operation_class, made.guards_snapshot) == (META, True)
    assert evidence(made) == ["proven: 0 nulls in 2 of 2 files"]
    assert codes(made) == ["LK205"]


def test_required_disproved() -> None:
    made = planned(REQUIRED, live(OPTIONAL), (file(1), file(1, nulls=1, name="b")))
    assert blocking(made) == ["LK203"]
    assert "Cannot make orders.a required: 1 null in 1 of 2 files." in message(made, "LK203")
    assert not made.guards_snapshot


def test_required_unproven_says_what_a_scan_would_read() -> None:
    made = planned(REQUIRED, live(OPTIONAL), (file(1), file(1, nulls=None), file(2)))
    assert blocking(made) == []
    assert "2 of 3 files unproven, a validation scan of 1.1 KiB is needed." in message(made, "LK204")
    assert made.operation_class is AUDIT
    assert made.guards_snapshot


def test_required_without_manifests_is_unproven() -> None:
    assert blocking(planned(REQUIRED, live(OPTIONAL))) == ["LK204"]


def test_required_on_an_empty_table_is_proven_and_guarded() -> None:
    made = planned(REQUIRED, live(OPTIONAL, rows=False))
    assert evidence(made) == ["proven: the table is empty"]
    assert made.guards_snapshot


def test_nulls_inside_an_optional_struct_disprove_nothing() -> None:
    nested = spec(field(1, "s", struct(field(2, "a", "long"))))
    manifest = desired(wanted("s", struct(wanted("a", "long", required=True))))
    assert scanned(planned(manifest, live(nested), (file(2, nulls=1),))) == [("s", "a")]
    assert scanned(planned(manifest, live(nested), (file(2),))) == []


def scanned(made: Plan) -> list[tuple[str, ...]]:
    return [column.path for o in made.operations if isinstance(o.work, Validate) for column in o.work.required]


def test_structs_and_repeated_fields_are_never_proven() -> None:
    outer = spec(field(1, "s", struct(field(2, "a", "long"))))
    whole = desired(wanted("s", struct(wanted("a", "long")), required=True))
    assert scanned(planned(whole, live(outer), (file(1),))) == [("s",)]
    many = spec(field(1, "l", list_of("long", 2)))
    element = ListType(element="long", element_required=True)
    assert blocking(planned(desired(wanted("l", element)), live(many), (file(2),))) == ["LK204"]


def test_optional_again_is_metadata_only() -> None:
    made = planned(desired(wanted("a", "long")), live(spec(field(1, "a", "long", required=True))))
    assert (made.operation_class, made.is_breaking, made.findings) == (META, False, ())


# ---------------------------------------------------------------- add, drop, rename, move


def added(new: Field, *, rows: bool = True, version: int = 2) -> Plan:
    table = spec(field(1, "a", "long"), format_version=version)
    return planned(desired(wanted("a", "long"), new), live(table, rows=rows))


DEFAULTED = Field(name="b", type="string", required=True, initial_default="eu", write_default="eu")


@pytest.mark.parametrize(
    ("new", "rows", "version", "refused"),
    [
        pytest.param(wanted("b"), True, 2, [], id="optional"),
        pytest.param(wanted("b", required=True), True, 2, ["LK206"], id="required"),
        pytest.param(wanted("b", required=True), False, 2, [], id="required, empty table"),
        pytest.param(DEFAULTED, True, 3, [], id="required with a default"),
        pytest.param(DEFAULTED, True, 2, ["LK404"], id="a default on version 2"),
        pytest.param(wanted("b", "timestamp_ns"), True, 2, ["LK404"], id="a type of version 3"),
        pytest.param(wanted("b", struct(wanted("c", "variant"))), True, 2, ["LK404"], id="nested type of version 3"),
        pytest.param(wanted("b", "timestamp_ns"), True, 3, [], id="a type of version 3 on version 3"),
        pytest.param(wanted("b", "unknown", required=True), False, 3, ["LK214"], id="unknown is optional"),
        pytest.param(wanted("_file"), True, 2, ["LK606"], id="reserved name"),
        pytest.param(wanted("b", struct(wanted("c", required=True))), True, 2, [], id="required inside a new struct"),
    ],
)
def test_adding(new: Field, rows: bool, version: int, refused: list[str]) -> None:
    assert blocking(added(new, rows=rows, version=version)) == refused


def test_adding_says_what_existing_rows_read() -> None:
    assert evidence(added(wanted("b"))) == ["existing rows read NULL"]
    assert evidence(added(DEFAULTED, version=3)) == ["existing rows read eu"]
    assert evidence(added(wanted("b"), rows=False)) == [""]


def test_a_default_needs_only_the_version_of_the_same_plan() -> None:
    made = planned(desired(wanted("a", "long"), DEFAULTED, format_version=3), live(spec(field(1, "a", "long"))))
    assert blocking(made) == []
    assert "LK402" in codes(made)
    assert made.is_breaking


def test_a_drop_is_destructive() -> None:
    made = planned(desired(wanted("a")), live(spec(field(1, "a"), field(2, "b", "int"))))
    assert (made.operation_class, made.is_breaking, codes(made)) == (DESTRUCTIVE, True, ["LK101"])
    assert "Column orders.b (field 2) is dropped." in message(made, "LK101")


def test_a_rename_is_metadata_only_and_breaks_readers() -> None:
    manifest = desired(wanted("b"), column_renames={("b",): "a"})
    made = planned(manifest, live(spec(field(1, "a"))))
    assert (made.operation_class, made.is_breaking, codes(made)) == (META, True, ["LK401"])
    assert made.changes == (RenameColumn(path=("a",), field_id=1, to="b"),)


def test_a_map_s_key_never_changes() -> None:
    keyed = spec(field(1, "m", map_of(struct(field(4, "k", "int")), "string", 2, 3)))
    key = struct(wanted("k", "long"))
    made = planned(desired(wanted("m", MapType(key=key, value="string", value_required=False))), live(keyed))
    assert blocking(made) == ["LK213"]
    value = spec(field(1, "m", map_of("string", struct(field(4, "v", "int")), 2, 3)))
    wider = MapType(key="string", value=struct(wanted("v", "long")), value_required=False)
    assert blocking(planned(desired(wanted("m", wider)), live(value))) == []


# ---------------------------------------------------------------- layout and identifier fields


def created(*fields: Field, **stated: object) -> Plan:
    return planned(desired(*fields, **stated), None)


def by(path: str, transform: str, name: str | None = None) -> DesiredPartitionField:
    return DesiredPartitionField(path=tuple(path.split(".")), transform=transform, name=name)


@pytest.mark.parametrize(
    ("stated", "refused"),
    [
        pytest.param({"partitioning": (by("id", "bucket[16]"), by("at", "day"))}, [], id="good"),
        pytest.param({"partitioning": (by("id", "day"),)}, ["LK407"], id="day of a number"),
        pytest.param({"partitioning": (by("score", "bucket[4]"),)}, ["LK407"], id="bucket of a float"),
        pytest.param({"partitioning": (by("at", "truncate[4]"),)}, ["LK407"], id="truncate a time"),
        pytest.param({"partitioning": (by("items.element", "identity"),)}, ["LK407"], id="repeats"),
        pytest.param({"partitioning": (by("id", "bucket[4]", "at"),)}, ["LK407"], id="a column's name"),
        pytest.param({"partitioning": (by("id", "identity"),)}, [], id="identity has its column's name"),
        pytest.param({"partitioning": (by("id", "bucket[4]", "p"), by("at", "day", "p"))}, ["LK407"], id="one name"),
        pytest.param({"partitioning": (by("at", "day", "p"), by("at", "day", "q"))}, ["LK407"], id="twice"),
        pytest.param({"sort_order": (DesiredSortField(path=("at",)),)}, [], id="sorted"),
        pytest.param({"sort_order": (DesiredSortField(path=("id",), transform="hour"),)}, ["LK407"], id="hour"),
        pytest.param({"identifier_fields": (("id",),)}, [], id="identifier"),
        pytest.param({"identifier_fields": (("at",),)}, ["LK405"], id="optional identifier"),
        pytest.param({"identifier_fields": (("score",),)}, ["LK405"], id="float identifier"),
        pytest.param({"identifier_fields": (("items", "element"),)}, ["LK405"], id="repeated identifier"),
        pytest.param({"identifier_fields": (("part", "id"),)}, ["LK405"], id="inside an optional struct"),
        pytest.param({"identifier_fields": (("whole", "id"),)}, [], id="inside a required struct"),
        pytest.param({"identifier_fields": (("nope",),)}, ["LK605"], id="missing"),
    ],
)
def test_layouts(stated: dict[str, object], refused: list[str]) -> None:
    made = created(
        wanted("id", "long", required=True),
        wanted("at", "timestamptz"),
        wanted("score", "float", required=True),
        wanted("items", ListType(element="int", element_required=True), required=True),
        wanted("part", struct(wanted("id", "long", required=True))),
        wanted("whole", struct(wanted("id", "long", required=True)), required=True),
        **stated,
    )
    assert blocking(made) == refused


PARTITIONED = spec(
    field(1, "id", "long", required=True),
    field(2, "at", "date"),
    partitioning=(PartitionField(source_id=2, transform="day", name="at_day"),),
    identifier_field_ids=frozenset({1}),
)


def on(table: TableSpec, manifest: Desired) -> Plan:
    statistics = Statistics(rows=10, files=1_204, bytes=412 * 2**30)
    seen = observed(table, managed(table), snapshots={500: 7})
    from msgspec.structs import replace

    return planned(manifest, replace(seen, statistics=statistics))


def test_a_column_in_use_cannot_be_dropped() -> None:
    made = on(PARTITIONED, desired(wanted("id", "long", required=True)))
    assert blocking(made) == ["LK110"]
    freed = on(PARTITIONED, desired(wanted("id", "long", required=True), partitioning=()))
    assert blocking(freed) == []
    assert freed.operation_class is DESTRUCTIVE


def test_an_identifier_field_stays_required() -> None:
    made = on(PARTITIONED, desired(wanted("id", "long"), wanted("at", "date")))
    assert blocking(made) == ["LK405"]


def test_a_partition_change_says_that_files_keep_their_layout() -> None:
    manifest = desired(wanted("id", "long", required=True), wanted("at", "date"), partitioning=(by("at", "month"),))
    made = on(PARTITIONED, manifest)
    assert (made.operation_class, made.is_breaking) == (META, False)
    assert codes(made) == ["LK403", "LK501"]
    assert "1,204 existing files (412 GiB) keep the layout they have" in message(made, "LK501")
    assert evidence(made) == ["existing files keep their layout"]


def test_an_empty_table_has_no_layout_to_keep() -> None:
    manifest = desired(wanted("id", "long", required=True), wanted("at", "date"), partitioning=(by("at", "month"),))
    made = planned(manifest, live(PARTITIONED, rows=False))
    assert made.findings == ()


# ---------------------------------------------------------------- refs


def refs(before: dict[str, int], **after: int) -> Plan:
    table = spec(field(1, "a"), refs={name: tag(name, at) for name, at in before.items()})
    seen = observed(table, managed(table, refs=frozenset(before)), snapshots={400: 6, 500: 7})
    stated = tuple(DesiredRef(name=name, kind=RefKind.TAG, snapshot_id=at) for name, at in after.items())
    return planned(desired(wanted("a"), refs=stated), seen)


def test_making_a_tag_is_metadata_only() -> None:
    made = refs({}, q3=7)
    assert (made.operation_class, made.findings) == (META, ())
    assert isinstance(made.changes[0], CreateRef)


def test_moving_and_dropping_a_tag_is_destructive() -> None:
    moved, dropped = refs({"q3": 6}, q3=7), refs({"q3": 6})
    assert isinstance(moved.changes[0], MoveRef)
    assert (moved.operation_class, codes(moved)) == (DESTRUCTIVE, ["LK108"])
    assert "The tag q3 moves: 6 → 7." in message(moved, "LK108")
    assert (dropped.operation_class, codes(dropped)) == (DESTRUCTIVE, ["LK109"])


def test_retention_is_metadata_only() -> None:
    table = spec(field(1, "a"), refs={"q3": tag("q3", 7)})
    seen = observed(table, managed(table, refs=frozenset({"q3"})), snapshots={500: 7})
    stated = (DesiredRef(name="q3", kind=RefKind.TAG, snapshot_id=7, max_ref_age_ms=5),)
    made = planned(desired(wanted("a"), refs=stated), seen)
    assert isinstance(made.changes[0], SetRefRetention)
    assert made.operation_class is META


def test_a_missing_snapshot_is_refused() -> None:
    assert blocking(refs({}, q3=99)) == ["LK210"]
