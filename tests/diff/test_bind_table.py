"""What a manifest says beside columns: layout, properties, refs, format."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.diff.bind import Binding, bind
from reconciler.diff.problems import ProblemKind as K
from reconciler.model.bookkeeping import Bookkeeping
from reconciler.model.table import (
    DesiredPartitionField,
    DesiredRef,
    DesiredSortField,
    Direction,
    Nulls,
    PartitionField,
    Ref,
    RefKind,
    SortField,
    TableFormat,
    TableIdent,
)
from tests.diff.tables import (
    NOW_MS,
    bind_managed,
    desired,
    field,
    observed,
    problems,
    spec,
    struct,
    tag,
    wanted,
)

LIVE = [field(1, "id", "long", required=True), field(2, "ts", "timestamp"), field(3, "s", struct(field(4, "x")))]
WANTED = [wanted("id", "long", required=True), wanted("ts", "timestamp"), wanted("s", struct(wanted("x")))]


def partition(path: str, transform: str, name: str | None = None) -> DesiredPartitionField:
    return DesiredPartitionField(path=tuple(path.split(".")), transform=transform, name=name)


@pytest.mark.parametrize(
    ("path", "transform", "name"),
    [
        ("id", "bucket[16]", "id_bucket_16"),
        ("s.x", "truncate[4]", "s.x_trunc_4"),
        ("ts", "day", "ts_day"),
        ("ts", "hour", "ts_hour"),
        ("id", "identity", "id"),
        ("id", "void", "id_null"),
    ],
)
def test_partition_fields_are_named_as_iceberg_names_them(path: str, transform: str, name: str) -> None:
    binding = bind(desired(*WANTED, partitioning=(partition(path, transform),)), None, now_ms=NOW_MS)
    assert [field.name for field in binding.spec.partitioning] == [name]


def test_a_partition_field_keeps_its_live_name_unless_another_is_stated() -> None:
    live = spec(*LIVE, partitioning=(PartitionField(source_id=2, transform="day", name="d"),))
    kept = bind_managed(desired(*WANTED, partitioning=(partition("ts", "day"),)), live).spec
    assert kept.partitioning is live.partitioning
    stated = bind_managed(desired(*WANTED, partitioning=(partition("ts", "day", "by_day"),)), live).spec
    assert [field.name for field in stated.partitioning] == ["by_day"]


def test_layout_refers_to_new_and_renamed_columns() -> None:
    manifest = desired(
        wanted("key", "long", required=True),
        *WANTED[1:],
        wanted("new", "int"),
        column_renames={("key",): "id"},
        identifier_fields=(("key",),),
        partitioning=(partition("new", "identity"), partition("key", "bucket[4]")),
        sort_order=(DesiredSortField(path=("s", "x"), direction=Direction.DESC, nulls=Nulls.LAST),),
    )
    bound = bind_managed(manifest, spec(*LIVE)).spec
    assert bound.identifier_field_ids == {1}
    assert [f.source_id for f in bound.partitioning] == [-1, 1]
    assert bound.sort_order == (
        SortField(source_id=4, transform="identity", direction=Direction.DESC, nulls=Nulls.LAST),
    )


def test_layout_is_kept_when_it_is_not_stated_and_removed_when_it_is_empty() -> None:
    live = spec(
        *LIVE,
        identifier_field_ids=frozenset({1}),
        partitioning=(PartitionField(source_id=2, transform="day", name="d"),),
        sort_order=(SortField(source_id=1, transform="identity", direction=Direction.ASC, nulls=Nulls.FIRST),),
    )
    assert bind_managed(desired(*WANTED), live).spec == live
    bare = bind_managed(desired(*WANTED, identifier_fields=(), partitioning=(), sort_order=()), live).spec
    assert (bare.identifier_field_ids, bare.partitioning, bare.sort_order) == (frozenset(), (), ())


def test_layout_over_a_column_that_is_not_there() -> None:
    manifest = desired(
        *WANTED,
        identifier_fields=(("no",),),
        partitioning=(partition("s.no", "day"),),
        sort_order=(DesiredSortField(path=("no",)),),
    )
    for current in (None, observed(spec(*LIVE))):
        found = problems(bind(manifest, current, now_ms=NOW_MS))
        assert [(kind, path) for kind, path, _ in found] == [
            (K.COLUMN_NOT_FOUND, "no"),
            (K.COLUMN_NOT_FOUND, "s.no"),
            (K.COLUMN_NOT_FOUND, "no"),
        ]


V1_DAY = PartitionField(source_id=2, transform="day", name="d")
V1_BUCKET = PartitionField(source_id=1, transform="bucket[4]", name="b")
V1_HOUR = PartitionField(source_id=2, transform="hour", name="ts_hour")


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        pytest.param([("id", "bucket[4]"), ("ts", "hour")], (V1_BUCKET, V1_HOUR), id="replaced"),
        pytest.param([("ts", "hour"), ("id", "bucket[4]")], (V1_BUCKET, V1_HOUR), id="what stays keeps its place"),
        pytest.param([("id", "bucket[4]"), ("ts", "day")], (V1_DAY, V1_BUCKET), id="another order"),
        pytest.param([("ts", "void"), ("id", "bucket[4]")], (V1_BUCKET,), id="void stated"),
        pytest.param([("ts", "void")], (), id="nothing but void stated"),
        pytest.param([], (), id="removed"),
    ],
)
def test_format_version_1_shows_no_void_fields(
    stated: list[tuple[str, str]], expected: tuple[PartitionField, ...]
) -> None:
    """The commit voids what is gone; it is not read back, so it is not bound either."""
    live = spec(*LIVE, format_version=1, partitioning=(V1_DAY, V1_BUCKET))
    manifest = desired(*WANTED, partitioning=tuple(partition(path, transform) for path, transform in stated))
    bound = bind_managed(manifest, live).spec
    assert bound.partitioning == expected
    assert bind_managed(manifest, bound).spec == bound


def test_void_fields_make_no_difference_to_a_live_table() -> None:
    void = PartitionField(source_id=2, transform="void", name="d")
    buckets = (partition("id", "bucket[4]"),)
    for live, stated in (
        ((void, V1_BUCKET), buckets),
        ((V1_BUCKET,), (partition("ts", "void"), *buckets)),
        ((), (partition("ts", "void"),)),
    ):
        assert bind_managed(desired(*WANTED, partitioning=stated), spec(*LIVE, partitioning=live)).spec == spec(
            *LIVE, partitioning=live
        )
    changed = bind_managed(desired(*WANTED, partitioning=(partition("ts", "void"), *buckets)), spec(*LIVE)).spec
    assert [field.transform for field in changed.partitioning] == ["void", "bucket[4]"], "the control"


def test_only_version_1_leaves_stated_void_fields_out_of_a_new_table() -> None:
    for version, transforms in ((1, ["day"]), (2, ["void", "day"])):
        stated = (partition("id", "void"), partition("ts", "day"))
        made = bind(desired(*WANTED, format_version=version, partitioning=stated), None, now_ms=NOW_MS).spec
        assert [field.transform for field in made.partitioning] == transforms


def test_properties_are_three_way() -> None:
    live = spec(*LIVE, properties={"ours": "1", "dropped": "1", "theirs": "1"})
    memory = Bookkeeping(properties=frozenset({"ours", "dropped", "gone already"}))
    manifest = desired(*WANTED, properties={"ours": "2", "new": "1"})
    bound = bind(manifest, observed(live, memory), now_ms=NOW_MS).spec
    assert bound.properties == {"ours": "2", "new": "1", "theirs": "1"}


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        pytest.param({"format": TableFormat.DELTA}, [(K.FORMAT_DIFFERS, "", "iceberg")], id="format"),
        pytest.param({"format_version": 1}, [(K.FORMAT_DOWNGRADE, "", "2")], id="format version"),
        pytest.param({"location": "s3://b/other"}, [(K.LOCATION_DIFFERS, "", "s3://b/t")], id="location"),
        pytest.param({"location": "s3://b/t/", "format_version": 3}, [], id="slash and upgrade"),
    ],
)
def test_what_cannot_change_in_place(stated: dict[str, object], expected: list[tuple[K, str, str]]) -> None:
    live = spec(*LIVE, location="s3://b/t")
    binding = bind_managed(desired(*WANTED, **stated), live)
    assert problems(binding) == expected
    assert (binding.spec.format, binding.spec.location) == (TableFormat.ICEBERG, "s3://b/t")
    assert binding.spec.format_version == (3 if not expected else 2)


def test_a_renamed_table_is_bound_under_its_new_name() -> None:
    live = spec(*LIVE)
    manifest = desired(*WANTED, renamed_from=live.ident)
    other = TableIdent(("sales",), "sold")
    bound = bind_managed(msgspec.structs.replace(manifest, ident=other), live).spec
    assert bound.ident == other
    assert bound.schema is live.schema


def test_a_new_table_is_complete() -> None:
    manifest = desired(*WANTED, identifier_fields=(("id",),), properties={"a": "b"}, location="s3://b/t")
    bound = bind(manifest, None, now_ms=NOW_MS).spec
    properties = {"a": "b", "write.parquet.compression-codec": "zstd"}  # as Iceberg's own library creates tables
    assert bound == spec(
        *LIVE, identifier_field_ids=frozenset({1}), properties=properties, location="s3://b/t", format_version=2
    )
    stated = desired(*WANTED, properties={"write.parquet.compression-codec": "snappy"})
    assert bind(stated, None, now_ms=NOW_MS).spec.properties == {"write.parquet.compression-codec": "snappy"}
    assert bind(desired(*WANTED, format_version=3), None, now_ms=NOW_MS).spec.format_version == 3


# ---------------------------------------------------------------- refs

SNAPSHOTS = {100: 11, 200: 22, 300: 33}


def want_tag(name: str = "t", **stated: object) -> DesiredRef:
    return DesiredRef(name=name, kind=RefKind.TAG, **stated)  # type: ignore[arg-type]


def bind_ref(wanted_ref: DesiredRef, live: Ref | None = None, memory: Bookkeeping | None = None) -> Binding:
    table = spec(*LIVE, refs={live.name: live} if live else {})
    return bind(desired(*WANTED, refs=(wanted_ref,)), observed(table, memory, snapshots=SNAPSHOTS), now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("wanted_ref", "live", "snapshot"),
    [
        pytest.param(want_tag(), None, 33, id="main's head on creation"),
        pytest.param(want_tag(), tag("t", 11), 11, id="where it is afterwards"),
        pytest.param(want_tag(track="main", schedule="0 2 * * *"), None, 33, id="tracked, created"),
        pytest.param(want_tag(track="main", schedule="0 2 * * *"), tag("t", 11), 11, id="tracked, left to upkeep"),
        pytest.param(want_tag(snapshot_id=22), None, 22, id="at a snapshot"),
        pytest.param(want_tag(snapshot_id=22), tag("t", 11), 22, id="moved"),
        pytest.param(want_tag(snapshot_id=99), tag("t", 99), 99, id="already there, snapshot expired"),
        pytest.param(want_tag(as_of_ms=250), None, 22, id="as of"),
        pytest.param(want_tag(as_of_ms=200), None, 22, id="as of the very moment"),
        pytest.param(want_tag(as_of_ms=250), tag("t", 11), 22, id="as of, moved"),
    ],
)
def test_where_a_tag_points(wanted_ref: DesiredRef, live: Ref | None, snapshot: int) -> None:
    binding = bind_ref(wanted_ref, live)
    assert problems(binding) == []
    assert binding.spec.refs["t"].snapshot_id == snapshot


def test_a_pinned_as_of_is_never_resolved_again() -> None:
    pinned = Bookkeeping(refs=frozenset({"t"}), pins={"t": 250})
    assert bind_ref(want_tag(as_of_ms=250), tag("t", 11), pinned).spec.refs["t"].snapshot_id == 11
    assert bind_ref(want_tag(as_of_ms=150), tag("t", 33), pinned).spec.refs["t"].snapshot_id == 11


@pytest.mark.parametrize(
    ("wanted_ref", "live", "kind"),
    [
        pytest.param(want_tag(as_of_ms=NOW_MS + 1), None, K.REF_WAITS, id="future"),
        pytest.param(want_tag(as_of_ms=NOW_MS + 1), tag("t", 11), K.REF_WAITS, id="future, tag there"),
        pytest.param(want_tag(as_of_ms=99), None, K.SNAPSHOT_NOT_FOUND, id="before the first snapshot"),
        pytest.param(want_tag(snapshot_id=99), None, K.SNAPSHOT_NOT_FOUND, id="no such snapshot"),
        pytest.param(
            want_tag(), Ref(name="t", kind=RefKind.BRANCH, snapshot_id=11), K.REF_KIND_CHANGED, id="tag for branch"
        ),
    ],
)
def test_what_a_tag_cannot_settle(wanted_ref: DesiredRef, live: Ref | None, kind: K) -> None:
    binding = bind_ref(wanted_ref, live)
    assert [(p.kind, p.path) for p in binding.problems] == [(kind, ("t",))]
    assert binding.spec.refs == ({"t": live} if live else {})


@pytest.mark.parametrize(
    ("wanted_ref", "memory"),
    [
        pytest.param(want_tag(as_of_ms=250, max_ref_age_ms=1000), Bookkeeping(), id="by time"),
        pytest.param(want_tag(snapshot_id=11, max_ref_age_ms=1000), Bookkeeping(), id="its snapshot is still there"),
        pytest.param(
            want_tag(snapshot_id=99, max_ref_age_ms=1000), Bookkeeping(refs=frozenset({"t"})), id="and that went too"
        ),
    ],
)
def test_a_tag_past_its_time_is_not_made_again(wanted_ref: DesiredRef, memory: Bookkeeping) -> None:
    binding = bind_ref(wanted_ref, None, memory)
    assert [p.kind for p in binding.problems] == [K.REF_EXPIRED]
    assert binding.spec.refs == {}


def test_an_empty_table_has_nothing_to_tag() -> None:
    for current in (None, observed(spec(*LIVE))):
        binding = bind(desired(*WANTED, refs=(want_tag(), want_tag("u", as_of_ms=1))), current, now_ms=NOW_MS)
        assert [p.kind for p in binding.problems] == [K.REF_NEEDS_SNAPSHOT] * 2
        assert binding.spec.refs == {}


def test_only_refs_we_made_are_dropped() -> None:
    live = spec(*LIVE, refs={"ours": tag("ours", 11), "theirs": tag("theirs", 11)})
    current = observed(live, Bookkeeping(refs=frozenset({"ours"})), snapshots=SNAPSHOTS)
    assert set(bind(desired(*WANTED, refs=()), current, now_ms=NOW_MS).spec.refs) == {"theirs"}
    assert bind(desired(*WANTED), current, now_ms=NOW_MS).spec.refs is live.refs


def test_retention_changes_only_when_it_is_stated() -> None:
    live = tag("t", 11, max_ref_age_ms=5)
    assert bind_ref(want_tag(), live).spec.refs["t"] == live
    assert bind_ref(want_tag(max_ref_age_ms=7), live).spec.refs["t"] == tag("t", 11, max_ref_age_ms=7)
