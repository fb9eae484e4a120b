"""What a plan may need besides columns: another name, another executor, the upkeep, and a defect that is told well."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.errors import InvalidInput
from tests.cli.lab import Lab

ID = "name: id, type: long"
NOTE = "name: note, type: string"


def test_a_table_is_renamed_only_by_its_former_name_and_its_hash(lab: Lab) -> None:
    lab.apply([ID], "properties: {team: web}")
    lab.append([{"id": 1}])
    path = lab.manifest([ID], "identifier: sales.purchases", "renamedFrom: sales.orders", "properties: {team: web}")
    with lab.untouched():
        refused = lab.run("apply", "-f", path, "--auto-approve")
    assert refused.code == 3
    assert "LK103" in refused.out
    lab.ok("apply", "-f", path, "--approve", lab.plan_hash("-f", path))
    assert lab.rows("sales.purchases") == [{"id": 1}]
    assert not lab.catalog().table_exists("sales.orders")
    assert lab.run("plan", "-f", path, "--detailed-exitcode").code == 0, "renamedFrom may stay"


def test_only_our_properties_are_unset(lab: Lab) -> None:
    lab.apply([ID], "properties: {team: web, tier: gold}")
    with lab.table().transaction() as transaction:
        transaction.set_properties({"theirs": "stays"})
    lab.apply([ID], "properties: {team: data}")
    properties = lab.table().properties
    assert properties["team"] == "data"
    assert "tier" not in properties
    assert properties["theirs"] == "stays"


def test_a_property_changed_behind_our_back_is_drift(lab: Lab) -> None:
    lab.apply([ID], "properties: {team: web}")
    with lab.table().transaction() as transaction:
        transaction.set_properties({"team": "thieves"})
    result = lab.run("drift", "-f", "orders.yaml")
    assert result.code == 2
    lab.ok("apply", "-f", "orders.yaml", "--auto-approve")
    assert lab.table().properties["team"] == "web"


def test_a_tag_is_a_promise(lab: Lab) -> None:
    lab.apply([ID])
    lab.append([{"id": 1}])
    lab.apply([ID], "tags: [{name: close}]")
    first = lab.table().metadata.refs["close"].snapshot_id
    lab.append([{"id": 2}])
    assert lab.run("plan", "-f", "orders.yaml", "--detailed-exitcode").code == 0, "it stays where it was made"
    path = lab.manifest([ID])
    with lab.untouched():
        assert lab.run("apply", "-f", path, "--auto-approve").code in {0, 3}
    path = lab.manifest([ID], "tags: []")
    with lab.untouched():
        assert lab.run("apply", "-f", path, "--auto-approve").code == 3
    assert lab.table().metadata.refs["close"].snapshot_id == first
    lab.ok("apply", "-f", path, "--approve", lab.plan_hash("-f", path))
    assert "close" not in lab.table().metadata.refs


def test_what_the_catalog_cannot_do_is_refused_by_name_of_who_can(lab: Lab) -> None:
    path = lab.manifest([ID], "formatVersion: 3")
    before = lab.state()
    result = lab.run("apply", "-f", path, "--auto-approve", "--engine", "catalog")
    assert result.code == 1
    assert "spark" in result.err.lower()
    assert lab.state() == before


@pytest.mark.spark
def test_and_auto_goes_there_by_itself(lab: Lab) -> None:
    path = lab.manifest([ID, "name: currency, type: string, required: true, default: EUR"], "formatVersion: 3")
    applied = lab.process("apply", "-f", path, "--auto-approve")
    assert applied.code == 0, applied.err
    assert "committed through spark" in applied.out
    assert lab.run("plan", "-f", path, "--detailed-exitcode").code == 0
    lab.manifest([ID], name="plain")
    second = lab.process("apply", "-f", "plain.yaml", "--auto-approve")
    assert "Starting Spark" not in second.err, "no JVM where none is needed"


def test_a_rename_goes_through_spark_when_told(lab: Lab, spark: SparkSession) -> None:
    lab.apply([ID])
    lab.append([{"id": 1}])
    path = lab.manifest([ID, NOTE], "identifier: sales.purchases", "renamedFrom: sales.orders")
    plan_hash = lab.plan_hash("-f", path)
    applied = lab.run("apply", "-f", path, "--approve", plan_hash, "--engine", "spark")
    assert applied.code == 0, applied.err
    assert "committed through spark" in applied.out
    assert lab.rows("sales.purchases") == [{"id": 1, "note": None}]
    assert not lab.catalog().table_exists("sales.orders")


def test_a_defect_is_one_line_without_what_it_might_give_away(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("password=hunter2")

    lab.manifest([ID])
    monkeypatch.setattr(IcebergCatalog, "get_table_specs", broken)
    result = lab.run("plan", "-f", "orders.yaml")
    assert result.code == 1
    (line,) = result.err.splitlines()
    assert line.startswith("error: internal error: RuntimeError at test_routes.py:")
    assert "LAKETABLE_DEBUG=1" in line
    assert "hunter2" not in result.out + result.err
    monkeypatch.setenv("LAKETABLE_DEBUG", "1")
    with pytest.raises(RuntimeError):
        lab.run("plan", "-f", "orders.yaml")


@pytest.mark.parametrize("failure", [RuntimeError("closed"), InvalidInput("No answer.")], ids=["a defect", "an error"])
def test_what_ctrl_c_became_on_its_way_is_an_interruption(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def interrupted(*args: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise failure from None

    lab.manifest([ID])
    monkeypatch.setattr(IcebergCatalog, "get_table_specs", interrupted)
    result = lab.run("plan", "-f", "orders.yaml")
    assert result.code == 130
    assert result.err == "error: interrupted; nothing was half-applied. Run the same command again to go on.\n"


def test_hostile_names_cannot_act_on_the_terminal(lab: Lab) -> None:
    lab.manifest(['name: "evil\\u202e", type: strng', 'name: "x\\e[2J", type: string', NOTE])
    for command in ("plan", "validate", "diff", "approve"):
        result = lab.run(command, "-f", "orders.yaml")
        assert result.code in {1, 3}
        assert "\x1b" not in result.err + result.out
        assert "\u202e" not in result.err + result.out


def test_a_docs_text_is_shown_cleaned(lab: Lab) -> None:
    path = lab.apply([ID])
    lab.manifest(['name: id, type: long, doc: "\\e[31mred\\e[0m\\nNo changes."'])
    for output in ("text", "markdown"):
        text = lab.run("plan", "-f", path, "--output", output).out
        assert "\x1b[31m" not in text
        assert "\nNo changes." not in text
