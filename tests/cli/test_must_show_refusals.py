"""Must show: what is refused is refused with its reason, the right exit code, and an untouched table."""

from __future__ import annotations

import pytest

from tests.cli.lab import Lab

ID = "name: id, type: long"
CUSTOMER = "name: cust_id, type: string"


@pytest.fixture
def orders(lab: Lab) -> Lab:
    """A table with two columns and two rows, one of them with a NULL."""
    lab.apply([ID, CUSTOMER])
    lab.append([{"id": 1, "cust_id": "ada"}, {"id": 2, "cust_id": None}])
    return lab


def test_drop_and_add_that_look_like_a_rename_are_refused(orders: Lab) -> None:
    orders.manifest([ID, "name: customer_ref, type: string"])
    with orders.untouched():
        planned = orders.run("plan", "-f", "orders.yaml")
        applied = orders.run("apply", "-f", "orders.yaml", "--auto-approve", "--approve", "0" * 64)
        assert planned.code == 3
        assert orders.run("apply", "-f", "orders.yaml", "--auto-approve").code == 3
    assert applied.code == 4, "a hash that is no plan's stops the run before"
    finding = next(line for line in planned.out.splitlines() if "LK104" in line)
    assert "cust_id" in finding
    assert "renamedFrom: cust_id" in planned.out
    assert "customer_ref" in planned.out


def test_the_rename_said_out_loud_goes_through(orders: Lab) -> None:
    before = orders.columns()["cust_id"]
    orders.apply([ID, "name: customer_ref, type: string, renamedFrom: cust_id"])
    assert orders.columns() == {"id": 1, "customer_ref": before}
    assert [row["customer_ref"] for row in orders.rows()] == ["ada", None]


def test_a_suppression_with_a_reason_makes_it_a_drop_that_needs_its_hash(orders: Lab) -> None:
    suppress = "suppress: [{code: LK104, reason: The two have nothing in common}]"
    path = orders.manifest([ID, "name: customer_ref, type: string"], suppress)
    with orders.untouched():
        assert orders.run("apply", "-f", path, "--auto-approve").code == 3
    assert "The two have nothing in common" in orders.run("plan", "-f", path).out
    orders.ok("apply", "-f", path, "--approve", orders.plan_hash("-f", path))
    assert orders.rows() == [{"id": 1, "customer_ref": None}, {"id": 2, "customer_ref": None}]


def test_a_suppression_without_a_reason_is_no_suppression(orders: Lab) -> None:
    path = orders.manifest([ID, "name: customer_ref, type: string"], "suppress: [{code: LK104}]")
    result = orders.run("plan", "-f", path)
    assert result.code == 1
    assert "'reason' is missing" in result.err


def test_a_narrowing_is_refused(orders: Lab) -> None:
    path = orders.manifest(["name: id, type: int", CUSTOMER])
    with orders.untouched():
        for command in (["plan"], ["apply", "--auto-approve"]):
            result = orders.run(*command, "-f", path)
            assert result.code == 3
            assert "LK201" in result.out
            assert "would fit (values 1 to 2" in result.out, "the bounds say whether a cast would succeed"


def test_required_on_a_column_with_nulls_is_refused_with_the_proof(orders: Lab) -> None:
    path = orders.manifest([ID, "name: cust_id, type: string, required: true"])
    with orders.untouched():
        result = orders.run("apply", "-f", path, "--auto-approve")
    assert result.code == 3
    assert "LK203" in result.out
    assert "1 null in 1 of 1 file" in result.out


def test_required_on_a_column_without_nulls_is_proven_and_applied(orders: Lab) -> None:
    path = orders.manifest(["name: id, type: long, required: true", CUSTOMER])
    assert "proven: 0 nulls in 1 of 1 file" in orders.run("plan", "-f", path).out
    orders.ok("apply", "-f", path, "--auto-approve")
    assert orders.table().schema().find_field("id").required


def test_a_destructive_change_is_not_covered_by_auto_approve(orders: Lab) -> None:
    path = orders.manifest([ID])
    with orders.untouched():
        result = orders.run("apply", "-f", path, "--auto-approve")
    assert result.code == 3
    assert "by its hash" in result.err


def test_a_destructive_change_goes_through_with_the_right_hash(orders: Lab) -> None:
    path = orders.manifest([ID])
    orders.ok("apply", "-f", path, "--approve", orders.plan_hash("-f", path))
    assert list(orders.columns()) == ["id"]


def test_yesterdays_hash_is_stale_after_an_out_of_band_change(orders: Lab) -> None:
    path = orders.manifest([ID])
    yesterday = orders.plan_hash("-f", path)
    from pyiceberg.types import StringType

    with orders.table().update_schema() as update:
        update.add_column("surprise", StringType())
    with orders.untouched():
        result = orders.run("apply", "-f", path, "--approve", yesterday)
    assert result.code == 4
    assert yesterday[7:15] in result.err
    orders.ok("apply", "-f", path, "--approve", orders.plan_hash("-f", path))


def test_without_a_terminal_apply_needs_a_flag(orders: Lab) -> None:
    path = orders.manifest([ID, CUSTOMER, "name: more, type: string"])
    with orders.untouched():
        result = orders.run("apply", "-f", path)
    assert result.code == 3
    assert "--auto-approve" in result.err


def test_a_failing_table_stops_no_other_and_the_worst_exit_code_wins(orders: Lab) -> None:
    orders.manifest([ID], name="orders", file="t/orders.yaml")
    orders.manifest([ID], name="fine", file="t/fine.yaml")
    with orders.untouched():
        assert orders.run("apply", "-f", "t", "--auto-approve").code == 3
    assert list(orders.columns("sales.fine")) == ["id"]

    orders.manifest([ID], "catalogRef: {name: nowhere}", name="lost", file="t/lost.yaml")
    orders.manifest([ID], name="later", file="t/zlater.yaml")
    result = orders.run("apply", "-f", "t", "--auto-approve")
    assert result.code == 1, "an error outranks a refusal"
    assert list(orders.columns("sales.later")) == ["id"]
    for table in ("sales.lost", "sales.orders"):
        assert table in result.err
