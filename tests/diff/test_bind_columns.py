"""Which desired column is which live field."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from reconciler.diff.bind import Binding, bind
from reconciler.diff.problems import ProblemKind as K
from reconciler.model.bookkeeping import Bookkeeping
from reconciler.model.table import Desired, PartitionField, TableSpec, UnmanagedColumns
from reconciler.model.types import Field, FieldPath, Type
from tests.diff.tables import (
    NOW_MS,
    bind_managed,
    bind_unowned,
    columns,
    desired,
    field,
    list_of,
    map_of,
    observed,
    problems,
    spec,
    struct,
    wanted,
)

Found = tuple[K, str, str]

AB = spec(field(1, "a"), field(2, "b"))
A = spec(field(1, "a"))


@pytest.mark.parametrize(
    ("names", "renames", "live", "expected"),
    [
        pytest.param(["b"], {("b",): "a"}, A, [(1, "b")], id="rename"),
        pytest.param(["b"], {("b",): "a"}, spec(field(1, "b")), [(1, "b")], id="already renamed"),
        pytest.param(["c", "b"], {("c",): "b", ("b",): "a"}, AB, [(2, "c"), (1, "b")], id="chain"),
        pytest.param(
            ["c", "b"],
            {("c",): "b", ("b",): "a"},
            spec(field(1, "b"), field(2, "c")),
            [(2, "c"), (1, "b")],
            id="chain already applied",
        ),
        pytest.param(["b", "a"], {("b",): "a"}, spec(field(1, "b")), [(1, "b"), (-1, "a")], id="name used anew"),
        pytest.param(["a", "b"], {("b",): "a"}, AB, [(1, "a"), (2, "b")], id="names win over renames"),
    ],
)
def test_renames_keep_the_field_id(
    names: list[str], renames: dict[FieldPath, str], live: TableSpec, expected: list[tuple[int, str]]
) -> None:
    binding = bind_managed(desired(*map(wanted, names), column_renames=renames), live)
    assert columns(binding) == expected
    assert problems(binding) == []


@pytest.mark.parametrize(
    ("names", "renames", "live", "expected"),
    [
        pytest.param(["b"], {("b",): "a"}, AB, [(K.RENAME_AMBIGUOUS, "b", "a")], id="both are there"),
        pytest.param(["a", "b"], {("b",): "a"}, A, [(K.RENAME_AMBIGUOUS, "b", "a")], id="the former one stays"),
        pytest.param(["z"], {("z",): "y"}, A, [(K.RENAME_SOURCE_MISSING, "z", "y")], id="neither is there"),
        pytest.param(["A"], {}, A, [(K.CASE_CLASH, "A", "a")], id="case"),
        pytest.param(["A"], {("A",): "a"}, A, [], id="case, declared"),
        pytest.param(
            ["a", "c"],
            {("c",): "b"},
            spec(field(1, "a"), field(2, "b"), field(3, "C")),
            [(K.CASE_CLASH, "c", "C")],
            id="renamed into a case clash",
        ),
    ],
)
def test_what_a_rename_cannot_settle(
    names: list[str], renames: dict[FieldPath, str], live: TableSpec, expected: list[Found]
) -> None:
    assert problems(bind_unowned(desired(*map(wanted, names), column_renames=renames), live)) == expected


def test_an_ambiguous_rename_drops_nothing() -> None:
    binding = bind_unowned(desired(wanted("b"), column_renames={("b",): "a"}), AB)
    assert columns(binding) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("bind_to", [bind_managed, bind_unowned], ids=["managed", "unmanaged"])
def test_a_rename_onto_a_live_column_drops_neither(bind_to: Callable[[Desired, TableSpec], Binding]) -> None:
    """A managed target is no proof that the rename was done: the column under its former name is managed too."""
    top = bind_to(desired(wanted("b"), column_renames={("b",): "a"}), AB)
    assert problems(top) == [(K.RENAME_AMBIGUOUS, "b", "a")]
    assert top.spec == AB
    live = spec(field(3, "s", struct(*AB.schema.fields)))
    nested = bind_to(desired(wanted("s", struct(wanted("b"))), column_renames={("s", "b"): "a"}), live)
    assert problems(nested) == [(K.RENAME_AMBIGUOUS, "s.b", "a")]
    assert nested.spec == live


def test_the_former_name_may_be_used_anew_while_the_rename_is_still_stated() -> None:
    """Once we have added it, both columns are managed, and the manifest names both."""
    manifest = desired(wanted("b"), wanted("a"), column_renames={("b",): "a"})
    first = bind_managed(manifest, spec(field(1, "b")))
    assert (columns(first), problems(first)) == ([(1, "b"), (-1, "a")], [])
    settled = spec(field(1, "b"), field(2, "a"))
    second = bind_managed(manifest, settled)
    assert (second.spec, problems(second)) == (settled, [])


def test_a_column_we_renamed_once_is_not_ambiguous_when_the_former_name_comes_back() -> None:
    memory = Bookkeeping(columns=frozenset({2}))
    binding = bind(desired(wanted("b"), column_renames={("b",): "a"}), observed(AB, memory), now_ms=NOW_MS)
    assert problems(binding) == []
    assert columns(binding) == [(1, "a"), (2, "b")]


def test_renames_count_for_nothing_on_a_table_that_is_not_there() -> None:
    binding = bind(desired(wanted("b"), column_renames={("b",): "a"}), None, now_ms=NOW_MS)
    assert columns(binding) == [(1, "b")]
    assert problems(binding) == []


def test_nested_rename_below_a_renamed_parent() -> None:
    live = spec(field(1, "address", struct(field(2, "zip"), field(3, "city"))))
    manifest = desired(
        wanted("location", struct(wanted("postcode"), wanted("city"))),
        column_renames={("location",): "address", ("location", "postcode"): "zip"},
    )
    (location,) = bind_managed(manifest, live).spec.schema.fields
    assert location == field(1, "location", struct(field(2, "postcode"), field(3, "city")))


@pytest.mark.parametrize(
    ("policy", "expected_columns", "expected_problems"),
    [
        pytest.param(UnmanagedColumns.IGNORE, [(1, "a"), (9, "x"), (2, "b")], [], id="ignore"),
        pytest.param(
            UnmanagedColumns.WARN, [(1, "a"), (9, "x"), (2, "b")], [(K.UNMANAGED_COLUMN, "x", "uuid")], id="warn"
        ),
        pytest.param(
            UnmanagedColumns.ADOPT, [(1, "a"), (9, "x"), (2, "b")], [(K.UNMANAGED_COLUMN, "x", "uuid")], id="adopt"
        ),
        pytest.param(UnmanagedColumns.DROP, [(1, "a"), (2, "b")], [], id="drop"),
    ],
)
def test_columns_nobody_declared(
    policy: UnmanagedColumns, expected_columns: list[tuple[int, str]], expected_problems: list[Found]
) -> None:
    live = spec(field(1, "a"), field(9, "x", "uuid"), field(2, "b"))
    memory = Bookkeeping(columns=frozenset({1, 2}))
    manifest = desired(wanted("a"), wanted("b"), unmanaged_columns=policy)
    binding = bind(manifest, observed(live, memory), now_ms=NOW_MS)
    assert columns(binding) == expected_columns
    assert problems(binding) == expected_problems


def test_managed_columns_go_when_the_manifest_drops_them_at_any_depth() -> None:
    nested = struct(field(2, "x"), field(3, "y"), field(4, "z"))
    live = spec(
        field(1, "s", nested), field(5, "l", list_of(struct(field(7, "p"), field(8, "q")), 6)), field(9, "gone")
    )
    memory = Bookkeeping(columns=frozenset({1, 2, 3, 5, 6, 7, 8, 9}))  # s.z is somebody else's
    manifest = desired(wanted("s", struct(wanted("x"))), wanted("l", list_of(struct(wanted("p")))))
    bound = bind(manifest, observed(live, memory), now_ms=NOW_MS).spec.schema
    assert bound == struct(
        field(1, "s", struct(field(2, "x"), field(4, "z"))), field(5, "l", list_of(struct(field(7, "p")), 6))
    )


def test_nothing_counts_as_managed_on_a_table_we_never_touched() -> None:
    assert columns(bind_unowned(desired(wanted("a")), AB)) == [(1, "a"), (2, "b")]


def test_a_managed_column_that_the_layout_needs_stays_and_is_reported() -> None:
    live = spec(
        field(1, "a"),
        field(2, "s", struct(field(3, "day", "date"))),
        partitioning=(PartitionField(source_id=3, transform="identity", name="day"),),
    )
    kept = bind_managed(desired(wanted("a")), live)
    assert problems(kept) == [(K.COLUMN_IN_USE, "s", "partition field day")]
    assert kept.spec.schema == live.schema
    alike = bind_managed(desired(wanted("a"), wanted("t", struct(wanted("day", "date")))), live)
    assert problems(alike) == [(K.COLUMN_IN_USE, "s", "partition field day"), (K.SUSPECTED_RENAME, "t", "s")]
    freed = bind_managed(desired(wanted("a"), partitioning=()), live)
    assert problems(freed) == []
    assert columns(freed) == [(1, "a")]


@pytest.mark.parametrize(
    ("live", "manifest", "expected"),
    [
        pytest.param(
            [field(1, "id", "long"), field(2, "cust_id", "string")],
            [wanted("id", "long"), wanted("customer", "string")],
            [(K.SUSPECTED_RENAME, "customer", "cust_id")],
            id="same type",
        ),
        pytest.param(
            [field(1, "amount", "decimal(10,2)")],
            [wanted("total", "decimal(18,2)")],
            [(K.SUSPECTED_RENAME, "total", "amount")],
            id="wider type",
        ),
        pytest.param([field(1, "a", "long")], [wanted("b", "string")], [], id="another type"),
        pytest.param(
            [field(1, "id", "long"), field(2, "home_zip"), field(3, "work_zip")],
            [wanted("id", "long"), wanted("work_postcode"), wanted("home_postcode")],
            [(K.SUSPECTED_RENAME, "work_postcode", "work_zip"), (K.SUSPECTED_RENAME, "home_postcode", "home_zip")],
            id="best pairs by name",
        ),
        pytest.param(
            [field(1, "s", struct(field(2, "zip")))],
            [wanted("s", struct(wanted("postcode")))],
            [(K.SUSPECTED_RENAME, "s.postcode", "zip")],
            id="nested",
        ),
        pytest.param(
            [field(1, "address", struct(field(2, "zip")))],
            [wanted("location", struct(wanted("zip")))],
            [(K.SUSPECTED_RENAME, "location", "address")],
            id="whole struct",
        ),
        pytest.param(
            [field(1, "s", struct(field(2, "x"), field(3, "y"))), field(4, "gone")],
            [wanted("s", struct(wanted("x"), wanted("y"), wanted("new")))],
            [],
            id="not across levels",
        ),
    ],
)
def test_drop_and_add_that_looks_like_a_rename(live: list[Field], manifest: list[Field], expected: list[Found]) -> None:
    assert problems(bind_managed(desired(*manifest), spec(*live))) == expected


def test_suspected_renames_of_columns_we_never_managed_need_the_same_place_and_a_like_name() -> None:
    live = spec(field(1, "id", "long"), field(2, "customer_id"))
    alike = desired(wanted("id", "long"), wanted("customer_ref"))
    other = desired(wanted("id", "long"), wanted("region"))
    elsewhere = desired(wanted("customer_ref"), wanted("id", "long"))
    assert problems(bind_unowned(alike, live)) == [(K.SUSPECTED_RENAME, "customer_ref", "customer_id")]
    assert problems(bind_unowned(other, live)) == []
    assert problems(bind_unowned(elsewhere, live)) == []


def test_thousands_of_suspects_are_paired_by_order() -> None:
    live = spec(*(field(i, f"old{i}") for i in range(1, 2001)))
    found = problems(bind_managed(desired(*(wanted(f"new{i}") for i in range(1, 2001))), live))
    assert len(found) == 2000
    assert found[0] == (K.SUSPECTED_RENAME, "new1", "old1")


@pytest.mark.parametrize(
    ("live", "manifest"),
    [
        pytest.param("string", struct(wanted("x")), id="primitive to struct"),
        pytest.param(struct(field(2, "x")), "string", id="struct to primitive"),
        pytest.param(list_of("string", 2), map_of("string", "string"), id="list to map"),
    ],
)
def test_another_shape_is_reported_and_the_live_one_kept(live: Type, manifest: Type) -> None:
    binding = bind_managed(desired(wanted("c", manifest), wanted("new")), spec(field(1, "c", live)))
    assert [p.kind for p in binding.problems] == [K.SHAPE_CHANGED]
    assert binding.spec.schema == struct(field(1, "c", live), field(-1, "new"))


def test_docs_and_defaults_are_left_alone_unless_stated() -> None:
    live = spec(
        field(1, "kept", doc="old"),
        field(2, "removed", doc="old"),
        field(3, "set"),
        Field(id=4, name="default", type="int", required=False, write_default=1),
        Field(id=5, name="unset", type="int", required=False, write_default=1, initial_default=7),
    )
    manifest = desired(
        wanted("kept"),
        wanted("removed", doc=""),
        wanted("set", doc="new"),
        wanted("default", "int"),
        wanted("unset", "int"),
        defaults_stated=frozenset({("unset",)}),
    )
    fields = bind_managed(manifest, live).spec.schema.fields
    assert [f.doc for f in fields[:3]] == ["old", None, "new"]
    assert [f.write_default for f in fields[3:]] == [1, None]
    assert fields[4].initial_default == 7


def test_new_fields_have_unique_negative_ids_and_what_the_manifest_says() -> None:
    new = Field(
        name="n", required=True, type=struct(wanted("x", doc=""), wanted("y")), initial_default=1, write_default=2
    )
    bound = bind_managed(desired(wanted("a"), new, wanted("m", map_of("string", "long"))), A).spec.schema
    n, m = bound.fields[1:]
    assert n == msgspec.structs.replace(new, id=-1, type=struct(field(-2, "x"), field(-3, "y")))
    assert m == field(-4, "m", map_of("string", "long", -5, -6))


def test_new_tables_are_numbered_as_create_table_numbers_them() -> None:
    from pyiceberg.schema import Schema, assign_fresh_schema_ids

    inner = struct(wanted("p", "int"), wanted("q", map_of("string", list_of("int"))))
    manifest = desired(
        wanted("a", struct(wanted("b", struct(wanted("c", "int"))), wanted("d", "int"))),
        wanted("e", list_of(inner)),
        wanted("f", map_of(struct(wanted("k", "int")), struct(wanted("v", "int"), wanted("w", list_of("int"))))),
        wanted("g", "int", doc=""),
    )
    schema = bind(manifest, None, now_ms=NOW_MS).spec.schema
    ours = Schema.model_validate_json(msgspec.json.encode({"type": "struct", "fields": schema.fields}))
    assert assign_fresh_schema_ids(ours).as_struct() == ours.as_struct()
    assert sorted(ours.field_ids) == list(range(1, len(ours.field_ids) + 1))
    # Control: the comparison sees a wrong number.
    shifted = msgspec.structs.replace(schema.fields[3], id=99)
    wrong = Schema.model_validate_json(msgspec.json.encode({"type": "struct", "fields": (*schema.fields[:3], shifted)}))
    assert assign_fresh_schema_ids(wrong).as_struct() != wrong.as_struct()


def test_order_is_the_manifests_and_unmanaged_columns_stay_behind_their_predecessor() -> None:
    live = spec(field(1, "a"), field(8, "x"), field(9, "y"), field(2, "b"), field(3, "c"))
    memory = Bookkeeping(columns=frozenset({1, 2, 3}))
    manifest = desired(wanted("c"), wanted("new"), wanted("a"), wanted("b"))
    binding = bind(manifest, observed(live, memory), now_ms=NOW_MS)
    assert [name for _, name in columns(binding)] == ["c", "new", "a", "x", "y", "b"]


def test_an_equal_manifest_binds_to_the_very_same_schema() -> None:
    live = spec(field(1, "s", struct(field(2, "x", doc="d"))), field(3, "l", list_of("int", 4)))
    manifest = desired(wanted("s", struct(wanted("x"))), wanted("l", list_of("int")))
    assert bind_managed(manifest, live).spec.schema is live.schema
