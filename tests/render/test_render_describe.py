from typing import get_args

import pytest

from reconciler.diff.changes import (
    AddColumn,
    AdoptTable,
    AlterColumnDefault,
    AlterColumnDoc,
    AlterColumnRequired,
    AlterColumnType,
    Change,
    CreateRef,
    CreateTable,
    DropColumn,
    DropRef,
    DropTable,
    MoveColumn,
    MoveRef,
    RenameColumn,
    RenameTable,
    SetIdentifierFields,
    SetPartitioning,
    SetProperty,
    SetRefRetention,
    SetSortOrder,
    UnsetProperty,
    UpgradeFormat,
)
from reconciler.model.table import PartitionField, Ref, RefKind, TableIdent, TableSpec
from reconciler.model.types import Field, StructType
from reconciler.render.describe import describe, moment

T = TableIdent(("sales",), "orders")
TAG = Ref(name="q3", kind=RefKind.TAG, snapshot_id=7)
KEPT = Ref(name="q3", kind=RefKind.TAG, snapshot_id=9, max_ref_age_ms=604_800_000)
DAY = PartitionField(source_id=5, transform="day", name="a")
LONG = Field(id=-1, name="n", required=True, type="long", initial_default=7, write_default=8)
TEXT = Field(id=4, name="n.m", required=False, type="string")

SENTENCES: list[tuple[Change, str]] = [
    (
        CreateTable(spec=TableSpec(ident=T, schema=StructType((TEXT,)))),
        "+ sales.orders | new iceberg v2 table, 1 column",
    ),
    (DropTable(ident=T, uuid="u"), "- sales.orders | drop the table (uuid u)"),
    (AdoptTable(ident=T, owner="a/b"), "~ sales.orders | adopt the existing table, nobody owns it; owner a/b"),
    (AdoptTable(ident=T, owner="a/b", taken_from="c/d"), "~ sales.orders | take ownership: c/d → a/b"),
    (RenameTable(before=TableIdent(("s",), "o"), after=T), "→ sales.orders | (was s.o)"),
    (AddColumn(parent=("p",), field=LONG, after=None), "+ p.n | long required default 7 write default 8"),
    (AddColumn(parent=(), field=TEXT, after=None), "+ `n.m` | string (restored, field 4)"),
    (DropColumn(path=("p", "ip"), field_id=3, type="string"), "- p.ip | was string, field 3"),
    (RenameColumn(path=("p", "zip"), field_id=3, to="code"), "→ p.code | (was zip, field 3)"),
    (MoveColumn(path=("a",), field_id=3, after="b"), "→ a | move after b"),
    (MoveColumn(path=("a",), field_id=3, after=None), "→ a | move to the front"),
    (AlterColumnType(path=("a",), field_id=3, before="int", after="long"), "~ a | int → long"),
    (AlterColumnRequired(path=("a",), field_id=3, required=True), "~ a | optional → required"),
    (AlterColumnRequired(path=("a",), field_id=3, required=False), "~ a | required → optional"),
    (AlterColumnDoc(path=("a",), field_id=3, before=None, after="Key"), "~ a | doc (none) → Key"),
    (AlterColumnDefault(path=("a",), field_id=3, before="x", after=None), '~ a | write default "x" → (none)'),
    (SetIdentifierFields(before=(), after=(1,), before_names=(), after_names=("a",)), "+ identifier fields | a"),
    (
        SetPartitioning(before=(DAY,), after=(), before_text=("day(t)",), after_text=()),
        "- partitioning | was day(t)",
    ),
    (
        SetPartitioning(
            before=(DAY,),
            after=(PartitionField(source_id=5, transform="day", name="b"),),
            before_text=("day(t)",),
            after_text=("day(t)",),
        ),
        "~ partitioning | day(t) as a → day(t) as b",
    ),
    (SetSortOrder(before=(), after=(), before_text=("a asc",), after_text=("b asc",)), "~ sort order | a asc → b asc"),
    (SetProperty(key="k", before=None, after="v"), "+ k | v"),
    (SetProperty(key="k", before="", after="v"), '~ k | "" → v'),
    (UnsetProperty(key="k", before="v"), "- k | was v"),
    (UpgradeFormat(before=2, after=3), "~ format version | v2 → v3, there is no way back"),
    (CreateRef(ref=KEPT), "+ q3 | tag at snapshot 9, kept for 7d"),
    (MoveRef(before=TAG, after=KEPT), "~ q3 | tag snapshot 7 → 9"),
    (SetRefRetention(before=TAG, after=KEPT), "~ q3 | default retention → kept for 7d"),
    (DropRef(ref=TAG), "- q3 | tag, was at snapshot 7"),
]


@pytest.mark.parametrize(("change", "sentence"), SENTENCES)
def test_each_change_has_its_sentence(change: Change, sentence: str) -> None:
    said = describe(change)
    assert f"{said.mark} {said.subject} | {said.detail}" == sentence


def test_no_change_is_left_out() -> None:
    assert {type(change) for change, _ in SENTENCES} == set(get_args(Change))


def test_hostile_text_is_clean_and_long_text_is_cut() -> None:
    said = describe(SetProperty(key="k\x1b[2K", before=None, after="x\n" * 5_000))
    assert said.subject == r"k\x1b[2K"
    assert said.detail.endswith("… (10,000 characters)")
    assert len(said.detail) < 250


def test_moment_survives_nonsense() -> None:
    assert moment(1_700_000_000_000) == "2023-11-14 22:13:20Z"
    assert moment(10**30) == f"{10**30} ms"
