"""Properties that name a column follow it through renames and drops, as Iceberg's own library makes them follow."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from reconciler.diff.column_properties import follow_columns, missing_columns
from reconciler.diff.problems import ProblemKind
from reconciler.model.types import StructType
from tests.cli.lab import Lab
from tests.diff.tables import field, list_of, map_of, struct

METRICS, BLOOM = "write.metadata.metrics.column.", "write.parquet.bloom-filter-enabled.column."
PLACE = struct(field(11, "street"), field(12, "zip"))


def points(name: str, x: str) -> StructType:
    """A list of structs and a map to structs."""
    inside = struct(field(31, x))
    return struct(
        field(3, name, list_of(inside, 30)), field(4, "by_key", map_of("string", struct(field(43, x)), 41, 42))
    )


@pytest.mark.parametrize(
    ("live", "before", "after", "expected"),
    [
        pytest.param({"a": "full"}, struct(field(1, "a")), struct(field(1, "b")), {"b": "full"}, id="rename"),
        pytest.param({"a": "full"}, struct(field(1, "a")), struct(field(2, "b")), {}, id="drop"),
        pytest.param({"a": "full"}, struct(field(1, "a")), struct(field(2, "a")), {}, id="another column of that name"),
        pytest.param(
            {"a": "full"}, struct(field(1, "a")), struct(field(1, "a"), field(2, "b")), {"a": "full"}, id="add"
        ),
        pytest.param(
            {"a": "full", "b": "none"},
            struct(field(1, "a"), field(2, "b")),
            struct(field(1, "b"), field(2, "a")),
            {"b": "full", "a": "none"},
            id="exchanged names",
        ),
        pytest.param(
            {"place.zip": "full", "place.street": "none"},
            struct(field(1, "place", PLACE)),
            struct(field(1, "home", struct(field(12, "code")))),
            {"home.code": "full"},
            id="fields of a struct",
        ),
        pytest.param(
            {"p.element.x": "full", "by_key.value.x": "none"},
            points("p", "x"),
            points("q", "y"),
            {"q.element.y": "full", "by_key.value.y": "none"},
            id="in a list and a map",
        ),
        pytest.param(
            {"p.x": "full", "by_key.x": "none"},
            points("p", "x"),
            points("q", "y"),
            {"q.y": "full", "by_key.y": "none"},
            id="by short names",
        ),
        pytest.param(
            {"gone": "full"}, struct(field(1, "a")), struct(field(1, "b")), {"gone": "full"}, id="no column's"
        ),
        pytest.param({"": "full"}, struct(field(1, "a")), struct(field(1, "b")), {"": "full"}, id="no name"),
    ],
)
@pytest.mark.parametrize("prefix", [METRICS, BLOOM])
def test_a_key_follows_its_column(
    prefix: str, live: Mapping[str, str], before: StructType, after: StructType, expected: Mapping[str, str]
) -> None:
    other = {"write.metadata.metrics.default": "counts", "a": "1"}
    properties = other | {prefix + name: value for name, value in live.items()}
    found = follow_columns(properties, before, after, kept=())
    assert found == other | {prefix + name: value for name, value in expected.items()}


def test_a_kept_key_neither_moves_nor_is_written_over() -> None:
    live = {f"{METRICS}a": "full", f"{METRICS}b": "none"}
    before, after = struct(field(1, "a"), field(2, "b")), struct(field(1, "b"), field(2, "c"))
    assert follow_columns(live, before, after, kept={f"{METRICS}a"}) == {f"{METRICS}a": "full", f"{METRICS}c": "none"}
    assert follow_columns(live, before, after, kept={f"{METRICS}b"}) == {f"{METRICS}b": "none"}


def test_only_stated_names_of_no_column_are_problems() -> None:
    known = struct(field(1, "a"), field(2, "place", PLACE), *points("p", "x").fields)
    fine = ("a", "place", "place.zip", "p.element.x", "p.x", "by_key.key", "by_key.value.x")
    assert list(missing_columns({METRICS + name: "full" for name in fine}, known)) == []
    stated = {f"{METRICS}z": "full", f"{BLOOM}A": "true", "write.format.default": "orc"}
    found = [(problem.kind, problem.after) for problem in missing_columns(stated, known)]
    assert found == [(ProblemKind.METRICS_COLUMN_MISSING, "z"), (ProblemKind.PROPERTY_COLUMN_MISSING, "A")]


# ---------------------------------------------------------------- the whole way

ID, NOTE = "name: id, type: long", "name: note, type: string"
RENAMED = [ID, "name: remark, type: string, renamedFrom: note"]


def column_properties(lab: Lab) -> dict[str, str]:
    return {k: v for k, v in lab.table().properties.items() if ".column." in k and not k.startswith("laketable.")}


def test_somebody_elses_key_follows_a_rename_and_its_undo_and_stays_theirs(lab: Lab) -> None:
    former = lab.apply([ID, NOTE]).read_text()
    lab.table().transaction().set_properties({f"{METRICS}note": "full"}).commit_transaction()
    shown = lab.run("plan", "-f", lab.manifest(RENAMED)).out
    assert f"{METRICS}remark" in shown
    assert f"{METRICS}note" in shown
    lab.ok("apply", "-f", "orders.yaml", "--auto-approve")
    assert column_properties(lab) == {f"{METRICS}remark": "full"}
    assert lab.run("plan", "-f", "orders.yaml", "--detailed-exitcode").code == 0
    lab.ok("undo", "sales.orders", "--auto-approve")
    assert column_properties(lab) == {f"{METRICS}note": "full"}
    lab.write("orders.yaml", former)
    assert lab.run("plan", "-f", "orders.yaml", "--detailed-exitcode").code == 0


def test_a_key_set_since_follows_the_undo_of_a_rename(lab: Lab) -> None:
    lab.apply([ID, NOTE])
    lab.apply(RENAMED)
    lab.table().transaction().set_properties({f"{METRICS}remark": "full"}).commit_transaction()
    lab.ok("undo", "sales.orders", "--auto-approve")
    assert column_properties(lab) == {f"{METRICS}note": "full"}


def test_a_key_goes_with_a_dropped_column(lab: Lab) -> None:
    lab.apply([ID, NOTE])
    lab.table().transaction().set_properties({f"{BLOOM}note": "true"}).commit_transaction()
    path = lab.manifest([ID])
    lab.ok("apply", "-f", path, "--approve", lab.plan_hash("-f", path))
    assert column_properties(lab) == {}


def test_a_stated_key_with_the_former_name_blocks_the_plan_and_one_with_the_new_name_stays_ours(lab: Lab) -> None:
    lab.apply([ID, NOTE], f"properties: {{{METRICS}note: full}}")
    path = lab.manifest(RENAMED, f"properties: {{{METRICS}note: full}}")
    with lab.untouched():
        refused = lab.run("apply", "-f", path, "--auto-approve")
    assert refused.code == 3
    assert "LK608" in refused.out
    lab.apply(RENAMED, f"properties: {{{METRICS}remark: full}}")
    assert column_properties(lab) == {f"{METRICS}remark": "full"}
    lab.apply(RENAMED)
    assert column_properties(lab) == {}


def test_a_stated_bloom_filter_of_no_column_is_a_warning(lab: Lab) -> None:
    lab.apply([ID, NOTE])
    shown = lab.run("plan", "-f", lab.manifest(RENAMED, f"properties: {{{BLOOM}note: 'true'}}")).out
    assert "LK609 warning" in shown


@pytest.mark.parametrize("form", ["columns: [id]", "columns: [remark]"])
def test_a_declared_index_manages_its_own_keys(lab: Lab, form: str) -> None:
    lab.apply([ID, NOTE], "indexes: [{name: by_note, type: bloom, columns: [note]}]")
    lab.apply(RENAMED, f"indexes: [{{name: by_note, type: bloom, {form}}}]")
    (key,) = column_properties(lab)
    assert key.removeprefix(BLOOM) in form
