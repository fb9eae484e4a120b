"""Must show: other writers between plan and apply, and inside the commit itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from reconciler.catalogs.iceberg import IcebergCatalog
from tests.cli.lab import Lab

ID = "name: id, type: long"
MORE = (ID, "name: more, type: string")


def add_column(lab: Lab) -> None:
    from pyiceberg.types import StringType

    with lab.table().update_schema() as update:
        update.add_column("surprise", StringType())


def add_row(lab: Lab) -> None:
    lab.append([{"id": 7}])


@pytest.fixture
def planned(lab: Lab) -> Lab:
    """A live table with a row, and a reviewed plan file that adds a column."""
    lab.apply([ID])
    add_row(lab)
    lab.manifest(MORE)
    lab.ok("plan", "-f", "orders.yaml", "--out", "plan.json")
    return lab


def test_a_plan_file_is_applied_as_reviewed(planned: Lab) -> None:
    planned.ok("apply", "plan.json", "--auto-approve")
    assert list(planned.columns()) == ["id", "more"]


def test_a_column_added_since_the_plan_makes_it_stale(planned: Lab) -> None:
    add_column(planned)
    with planned.untouched():
        result = planned.run("apply", "plan.json", "--auto-approve")
    assert result.code == 4
    assert "no longer fits" in result.err


def test_rows_appended_since_the_plan_do_not_matter(planned: Lab) -> None:
    add_row(planned)
    planned.ok("apply", "plan.json", "--auto-approve")
    assert planned.rows() == [{"id": 7, "more": None}] * 2


def test_a_plan_file_applied_twice_is_stale_the_second_time(planned: Lab) -> None:
    planned.ok("apply", "plan.json", "--auto-approve")
    with planned.untouched():
        result = planned.run("apply", "plan.json", "--auto-approve")
    assert result.code == 4
    assert "nothing left to do" in result.err


def test_a_destructive_plan_file_needs_its_hash_still(planned: Lab) -> None:
    planned.ok("apply", "plan.json", "--auto-approve")
    planned.manifest([ID])
    planned.ok("plan", "-f", "orders.yaml", "--out", "drop.json")
    with planned.untouched():
        assert planned.run("apply", "drop.json", "--auto-approve").code == 3
    planned.ok("apply", "drop.json", "--approve", planned.plan_hash("-f", "orders.yaml"))


class Racing:
    """Let another writer commit after everything was observed and judged, just before our commit."""

    def __init__(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab = lab
        self.monkeypatch = monkeypatch

    def against(self, writer: Any) -> None:
        apply = IcebergCatalog.apply

        def late(catalog: IcebergCatalog, *args: Any, **more: Any) -> Any:
            writer(self.lab)
            return apply(catalog, *args, **more)

        self.monkeypatch.setattr(IcebergCatalog, "apply", late)


@pytest.fixture
def racing(planned: Lab, monkeypatch: pytest.MonkeyPatch) -> Racing:
    return Racing(planned, monkeypatch)


def test_a_column_added_inside_the_commit_is_refused_by_the_catalog(planned: Lab, racing: Racing) -> None:
    racing.against(add_column)
    result = planned.run("apply", "-f", "orders.yaml", "--auto-approve")
    assert result.code == 4
    assert "nothing changed" in result.err
    assert list(planned.columns()) == ["id", "surprise"], "theirs is there, ours is not"


def test_rows_appended_inside_the_commit_go_through(planned: Lab, racing: Racing) -> None:
    racing.against(add_row)
    planned.ok("apply", "-f", "orders.yaml", "--auto-approve")
    assert planned.rows() == [{"id": 7, "more": None}] * 2


def test_a_null_written_while_required_was_proven_is_refused(planned: Lab, racing: Racing) -> None:
    planned.manifest(["name: id, type: long, required: true"])
    racing.against(lambda lab: lab.append([{"id": None}]))
    result = planned.run("apply", "-f", "orders.yaml", "--auto-approve")
    assert result.code == 4
    assert not planned.table().schema().find_field("id").required


def test_rows_that_keep_the_promise_are_proven_again(planned: Lab, racing: Racing) -> None:
    planned.manifest(["name: id, type: long, required: true"])
    left = [add_row, add_row]
    racing.against(lambda lab: left.pop()(lab) if left else None)
    planned.ok("apply", "-f", "orders.yaml", "--auto-approve")
    assert planned.table().schema().find_field("id").required
    assert planned.rows() == [{"id": 7}] * 3


def test_a_null_of_a_writer_under_way_makes_the_column_optional_again(
    planned: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned.manifest(["name: id, type: long, required: true"])
    under_way = planned.table()
    apply = IcebergCatalog.apply
    late = iter([lambda: under_way.append(pa.table({"id": pa.array([None], pa.int64())}))])

    def then_append(catalog: IcebergCatalog, *args: Any, **more: Any) -> Any:
        outcome = apply(catalog, *args, **more)
        next(late, lambda: None)()
        return outcome

    monkeypatch.setattr(IcebergCatalog, "apply", then_append)
    result = planned.run("apply", "-f", "orders.yaml", "--auto-approve")
    assert result.code == 4
    assert "optional again" in result.err
    assert not planned.table().schema().find_field("id").required
    assert sorted(planned.rows(), key=str) == [{"id": 7}, {"id": None}], "their row is kept"


def test_a_table_created_inside_the_commit_is_refused(planned: Lab, racing: Racing) -> None:
    def create(lab: Lab) -> None:
        lab.catalog().create_table("sales.fresh", lab.table().schema())

    planned.manifest([ID, "name: x, type: int"], name="fresh")
    racing.against(create)
    result = planned.run("apply", "-f", "fresh.yaml", "--auto-approve")
    assert result.code == 4
    assert list(planned.columns("sales.fresh")) == ["id"]


def test_a_table_dropped_and_made_anew_inside_the_commit_is_refused(planned: Lab, racing: Racing) -> None:
    def replace(lab: Lab) -> None:
        schema = lab.table().schema()
        lab.catalog().drop_table("sales.orders")
        lab.catalog().create_table("sales.orders", schema)

    racing.against(replace)
    result = planned.run("apply", "-f", "orders.yaml", "--auto-approve")
    assert result.code == 4
    assert list(planned.columns()) == ["id"]


@pytest.mark.spark
def test_the_same_races_on_a_rest_catalog(
    lab: Lab, rest_catalog: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.cli.test_must_show_lifecycle import on_rest

    there = on_rest(lab, rest_catalog)
    there.apply([ID])
    add_row(there)
    there.manifest(MORE)
    with monkeypatch.context() as patch:
        Racing(there, patch).against(add_column)
        assert there.run("apply", "-f", "orders.yaml", "--auto-approve").code == 4
    assert list(there.columns()) == ["id", "surprise"]
    with monkeypatch.context() as patch:
        Racing(there, patch).against(add_row)
        there.ok("apply", "-f", "orders.yaml", "--auto-approve")
    assert len(there.rows()) == 2


def test_a_table_claimed_inside_the_commit_is_left_to_its_new_owner(planned: Lab, racing: Racing) -> None:
    def claim(lab: Lab) -> None:
        with lab.table().transaction() as transaction:
            transaction.set_properties({"laketable.owner": "cluster/other/orders"})

    racing.against(claim)
    result = planned.run("apply", "-f", "orders.yaml", "--auto-approve")
    assert result.code == 4
    assert "laketable.owner has another value" in result.err
    assert list(planned.columns()) == ["id"]


def test_what_another_run_remembered_inside_the_commit_is_not_overwritten(planned: Lab, racing: Racing) -> None:
    planned.manifest([ID], "properties: {ours: '1'}")

    def other_revision(lab: Lab) -> None:
        racing.monkeypatch.undo()
        lab.manifest([ID], "properties: {theirs: '1'}", file="other.yaml")
        lab.ok("apply", "-f", "other.yaml", "--auto-approve")

    racing.against(other_revision)
    assert planned.run("apply", "-f", "orders.yaml", "--auto-approve").code == 4
    assert planned.table().properties["laketable.properties"] == '["theirs"]'
