"""The conformance table: every change there is, in every variation, with what each executor must do about it.

A row is applied to a fresh copy of `base_spec` that holds `ROWS`. Unless it says otherwise, every executor must end at
the model's spec on every catalog; `refused` names the (executor, catalog) pairs that must refuse it instead.
"""

from __future__ import annotations

from reconciler.diff.changes import (
    CreateRef,
    DropRef,
    MoveRef,
    SetProperty,
    SetRefRetention,
    UnsetProperty,
    UpgradeFormat,
)
from reconciler.model.table import (
    Direction,
    Nulls,
    RefKind,
    SortField,
)
from reconciler.model.types import ListType, StructType
from tests.suites.cell_parts import (
    BASE,
    BY_ID,
    DAY_OF_AT,
    EMBEDDED_V3,
    ROW,
    Cell,
    add,
    default,
    doc,
    drop,
    field,
    first_snapshot,
    identify,
    move,
    moved_and_retained,
    part,
    partition_by,
    ref,
    rename,
    required,
    sort_by,
    widen,
)

# ---------------------------------------------------------------- the table

_BUCKET = part(1, "bucket[16]", "id_bucket")
_TAG, _BRANCH = RefKind.TAG, RefKind.BRANCH
_NESTED = StructType(
    (field(-2, "x", "int"), field(-3, "y", ListType(element_id=-4, element="long", element_required=False)))
)

COLUMNS = (
    Cell(
        name="add-last",
        changes=(add((), field(-1, "extra", "string", doc="New"), "tags"),),
        read={**ROW, "extra": None},
    ),
    Cell(name="add-first", changes=(add((), field(-1, "extra", "uuid"), None),)),
    Cell(name="add-after", changes=(add((), field(-1, "extra", "fixed[4]"), "name"),)),
    Cell(name="add-struct", changes=(add((), field(-1, "extra", _NESTED), "tags"),), read={**ROW, "extra": None}),
    Cell(
        name="add-to-struct",
        changes=(add(("address",), field(-1, "city", "string"), "street"),),
        read={"address": {"street": "here", "city": None, "zip": 1000}},
    ),
    Cell(
        name="add-to-list-element",
        changes=(add(("items", "element"), field(-1, "note", "string"), "qty"),),
        read={"items": [{"sku": "a", "qty": 2, "note": None}]},
    ),
    Cell(
        name="add-to-map-value",
        changes=(add(("attrs", "value"), field(-1, "z", "int"), None),),
        read={"attrs": {"k": {"z": None, "v": 3, "w": 1.5}}},
    ),
    Cell(name="add-two", changes=(add((), field(-1, "a", _NESTED), "tags"), add((), field(-5, "b", "binary"), "a"))),
    Cell(name="drop", changes=(drop(("name",), 2, "string"),)),
    Cell(name="drop-nested", changes=(drop(("items", "element", "qty"), 16, "int"),), read={"items": [{"sku": "a"}]}),
    Cell(name="drop-struct", changes=(drop(("address",), 8, BASE.fields[7].type),)),
    Cell(
        name="restore-dropped-id",
        changes=(drop(("name",), 2, "string"), add((), field(2, "name", "string"), "id")),
        read=ROW,
    ),
    Cell(name="rename", changes=(rename(("name",), 2, "full_name"),), read={"id": 1, "full_name": "ada"}),
    Cell(
        name="rename-nested",
        changes=(rename(("address", "zip"), 13, "postcode"), rename(("attrs", "value", "v"), 19, "val")),
        read={"address": {"street": "here", "postcode": 1000}, "attrs": {"k": {"val": 3, "w": 1.5}}},
    ),
    Cell(
        name="swap-names",
        changes=(
            rename(("small",), 3, "swap"),
            rename(("name",), 2, "small"),
            rename(("swap",), 3, "name"),
        ),
        read={"small": "ada", "name": 7},
    ),
    Cell(name="rename-partition-source", changes=(rename(("at",), 7, "happened_at"),)),
    Cell(name="move-first", changes=(move(("small",), 3, None),), read=ROW),
    Cell(name="move-after", changes=(move(("id",), 1, "price"),), read=ROW),
    Cell(name="move-nested", changes=(move(("items", "element", "qty"), 16, None),), read=ROW),
    Cell(name="widen-int", changes=(widen(("small",), 3, "int", "long"),), read=ROW),
    Cell(name="widen-float", changes=(widen(("ratio",), 4, "float", "double"),), read=ROW),
    Cell(name="widen-decimal", changes=(widen(("price",), 5, "decimal(9,2)", "decimal(18,2)"),)),
    Cell(
        name="widen-nested",
        changes=(
            widen(("address", "zip"), 13, "int", "long"),
            widen(("tags", "element"), 21, "int", "long"),
            widen(("attrs", "value", "w"), 20, "float", "double"),
        ),
        read=ROW,
    ),
    Cell(name="doc-set", changes=(doc(("small",), 3, None, 'It\'s \\ "small"'),)),
    Cell(name="doc-change", changes=(doc(("name",), 2, "Who", "Whom"),)),
    Cell(name="doc-unset", changes=(doc(("name",), 2, "Who", None),)),
    Cell(name="doc-nested", changes=(doc(("address", "zip"), 13, None, "Postal"),)),
    Cell(name="set-required", changes=(required(("name",), 2, True),), read=ROW),
    Cell(name="set-required-nested", changes=(required(("address", "zip"), 13, True),)),
    Cell(name="set-optional", changes=(required(("id",), 1, False),), read=ROW),
    Cell(name="identifier-set", changes=(identify((), (1,)),)),
    Cell(name="identifier-two", changes=(required(("name",), 2, True), identify((), (1, 2)))),
    Cell(name="identifier-unset", changes=(identify((1,), ()),), base={"identifier_field_ids": frozenset({1})}),
)

LAYOUT = (
    Cell(name="partition-identity", changes=(partition_by(DAY_OF_AT, part(2, "identity", "name")),), read=ROW),
    Cell(name="partition-bucket", changes=(partition_by(DAY_OF_AT, _BUCKET),), read=ROW),
    Cell(name="partition-truncate", changes=(partition_by(DAY_OF_AT, part(2, "truncate[4]", "name_trunc")),)),
    Cell(name="partition-year", changes=(partition_by(part(7, "year", "at_year")),)),
    Cell(name="partition-month", changes=(partition_by(part(7, "month", "at_month")),)),
    Cell(name="partition-hour", changes=(partition_by(part(7, "hour", "at_hour")),)),
    Cell(name="partition-day-of-date", changes=(partition_by(DAY_OF_AT, part(6, "day", "day_day")),)),
    Cell(name="partition-void", changes=(partition_by(DAY_OF_AT, part(1, "void", "id_void")),)),
    Cell(name="partition-nested", changes=(partition_by(DAY_OF_AT, part(13, "identity", "address.zip")),)),
    Cell(name="partition-removed", changes=(partition_by(),), read=ROW),
    Cell(name="partition-renamed", changes=(partition_by(part(7, "day", "the_day")),)),
    Cell(name="partition-reordered", changes=(partition_by(_BUCKET, DAY_OF_AT),)),
    Cell(
        name="partition-new-column",
        changes=(add((), field(-1, "x", "int"), "tags"), partition_by(part(-1, "identity", "x"))),
    ),
    Cell(name="partition-v1-removed", version=1, changes=(partition_by(),), read=ROW),
    Cell(name="partition-v1-added", version=1, changes=(partition_by(DAY_OF_AT, _BUCKET),)),
    Cell(
        name="sort-two",
        changes=(
            sort_by(BY_ID, SortField(source_id=2, transform="identity", direction=Direction.DESC, nulls=Nulls.LAST)),
        ),
    ),
    Cell(
        name="sort-transform",
        changes=(sort_by(SortField(source_id=1, transform="bucket[8]", direction=Direction.ASC, nulls=Nulls.FIRST)),),
    ),
    Cell(name="sort-removed", changes=(sort_by(),)),
    Cell(
        name="sort-nested",
        changes=(sort_by(SortField(source_id=13, transform="identity", direction=Direction.ASC, nulls=Nulls.LAST)),),
    ),
)

TABLE = (
    Cell(name="property-set", changes=(SetProperty(key="team", before="blue", after='red\'s \\ "x"'),)),
    Cell(
        name="property-new",
        changes=(
            SetProperty(key="n", before=None, after="1"),
            SetProperty(key="laketable.owner", before=None, after="me"),
        ),
    ),
    Cell(name="property-unset", changes=(UnsetProperty(key="team", before="blue"),)),
    Cell(name="comment", changes=(SetProperty(key="comment", before="A table", after="The table"),)),
    Cell(
        name="distribution",
        changes=(SetProperty(key="write.distribution-mode", before=None, after="range"),),
    ),
    Cell(name="upgrade-1-to-2", version=1, changes=(UpgradeFormat(before=1, after=2),), read=ROW),
    Cell(name="upgrade-2-to-3", changes=(UpgradeFormat(before=2, after=3),), refused=EMBEDDED_V3, read=ROW),
)

REFS = (
    Cell(name="tag", changes=lambda o: (CreateRef(ref=ref(o, "t", _TAG)),)),
    Cell(name="tag-retained", changes=lambda o: (CreateRef(ref=ref(o, "t", _TAG, max_ref_age_ms=86_400_000_000)),)),
    Cell(name="tag-of-the-past", changes=lambda o: (CreateRef(ref=first_snapshot(o, "t", _TAG)),)),
    Cell(
        name="branch",
        changes=lambda o: (
            CreateRef(
                ref=ref(o, "b", _BRANCH, max_ref_age_ms=9, max_snapshot_age_ms=8_000_000_000, min_snapshots_to_keep=2)
            ),
        ),
    ),
)
# These start from a table that has the tag `t` and the branch `b` at main's head.
REFS_THERE = (
    Cell(name="tag-moved", changes=lambda o: (MoveRef(before=o.spec.refs["t"], after=first_snapshot(o, "t", _TAG)),)),
    Cell(
        name="branch-moved",
        changes=lambda o: (MoveRef(before=o.spec.refs["b"], after=first_snapshot(o, "b", _BRANCH)),),
    ),
    Cell(
        name="tag-retention",
        changes=lambda o: (SetRefRetention(before=o.spec.refs["t"], after=ref(o, "t", _TAG, max_ref_age_ms=5)),),
    ),
    Cell(
        name="branch-retention",
        changes=lambda o: (
            SetRefRetention(before=o.spec.refs["b"], after=ref(o, "b", _BRANCH, min_snapshots_to_keep=3)),
        ),
    ),
    Cell(name="tag-moved-and-retained", changes=lambda o: moved_and_retained(o, "t", max_ref_age_ms=5)),
    Cell(name="branch-moved-and-retained", changes=lambda o: moved_and_retained(o, "b", min_snapshots_to_keep=3)),
    Cell(name="refs-dropped", changes=lambda o: (DropRef(ref=o.spec.refs["t"]), DropRef(ref=o.spec.refs["b"]))),
)

V3 = (
    Cell(
        name="v3-default-on-add",
        version=3,
        changes=(add((), field(-1, "d", "string", initial_default="x", write_default="x"), "tags"),),
        refused=EMBEDDED_V3,
        read={"id": 1, "d": "x"},
    ),
    Cell(
        name="v3-bytes-default",  # Java reads them back in capitals
        version=3,
        changes=(
            add((), field(-1, "d", "binary", initial_default="0aff", write_default="0aff"), "tags"),
            add((), field(-2, "f", "fixed[2]", initial_default="0aff", write_default="beef"), "d"),
        ),
        refused=EMBEDDED_V3,
        read={"id": 1, "d": b"\x0a\xff", "f": b"\x0a\xff"},
    ),
    Cell(
        name="v3-required-with-default",
        version=3,
        changes=(add((), field(-1, "d", "int", required=True, initial_default=5, write_default=6), None),),
        refused=EMBEDDED_V3,
        read={"id": 1, "d": 5},
    ),
    Cell(name="v3-write-default", version=3, changes=(default(("small",), 3, None, 9),), refused=EMBEDDED_V3),
    Cell(name="v3-rename", version=3, changes=(rename(("name",), 2, "n"),), refused=EMBEDDED_V3, read={"n": "ada"}),
    Cell(name="v3-types", version=3, changes=(add((), field(-1, "ns", "timestamptz_ns"), "at"),), refused=EMBEDDED_V3),
    Cell(
        name="v3-date-to-timestamp",
        version=3,
        changes=(widen(("day",), 6, "date", "timestamp"),),
        refused=EMBEDDED_V3,
    ),
    Cell(name="v3-variant", version=3, changes=(add((), field(-1, "v", "variant"), "at"),), refused=EMBEDDED_V3),
    Cell(
        name="upgrade-with-default",
        changes=(
            UpgradeFormat(before=2, after=3),
            add((), field(-1, "d", "boolean", initial_default=True, write_default=False), "tags"),
        ),
        refused=EMBEDDED_V3,
        read={"id": 1, "d": True},
    ),
)

TOGETHER = Cell(
    name="everything-at-once",
    changes=(
        widen(("small",), 3, "int", "long"),
        widen(("ratio",), 4, "float", "double"),
        add(("address",), field(-1, "city", "string"), "zip"),
        rename(("name",), 2, "full_name"),
        rename(("address", "zip"), 13, "postcode"),
        add((), field(-2, "extra", _NESTED), "tags"),
        partition_by(DAY_OF_AT, _BUCKET),
        sort_by(),
        SetProperty(key="team", before="blue", after="red"),
        SetProperty(key="laketable.columns", before=None, after="1-30"),
    ),
    read={
        "id": 1,
        "full_name": "ada",
        "small": 7,
        "ratio": 0.5,
        "address": {"street": "here", "postcode": 1000, "city": None},
        "extra": None,
    },
)

CELLS: tuple[Cell, ...] = (*COLUMNS, *LAYOUT, *TABLE, *REFS, *REFS_THERE, *V3, TOGETHER)
WITH_REFS = frozenset(cell.name for cell in REFS_THERE)
