"""Tables that were there before: importing, adopting and owning them."""

from __future__ import annotations

import pytest

from tests.cli.lab import Lab, foreign

ID = "name: id, type: long"
NOTE = "name: note, type: string"


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(["sales.theirs", "sales.more"], id="tables"),
        pytest.param(["sales"], id="a namespace"),
        pytest.param(["--all"], id="the whole catalog"),
    ],
)
def test_the_plan_of_what_was_imported_is_empty(lab: Lab, args: list[str]) -> None:
    lab.apply([ID])
    foreign(lab)
    foreign(lab, "sales.more")
    foreign(lab, "web.far")
    lab.ok("import", *args, "--output-dir", "imported")
    assert len(list((lab.folder / "imported").iterdir())) == {"sales": 3, "--all": 4}.get(args[0], 2)
    for path in (lab.folder / "imported").iterdir():
        result = lab.run("plan", "-f", path, "--detailed-exitcode")
        assert result.code == 0, result.out
    lab.ok("validate", "imported")
    assert lab.run("fmt", "--check", "imported").code == 0, "what import writes is in canonical form"


def test_importing_writes_to_stdout_and_changes_nothing(lab: Lab) -> None:
    foreign(lab)
    before = lab.state()
    text = lab.ok("import", "sales.theirs").out
    assert lab.state() == before
    lab.write("theirs.yaml", text)
    assert lab.run("plan", "-f", "theirs.yaml", "--detailed-exitcode").code == 0


def test_importing_overwrites_nothing(lab: Lab) -> None:
    foreign(lab)
    lab.ok("import", "sales", "--output-dir", "out")
    before = lab.state()
    assert lab.run("import", "sales", "--output-dir", "out").code == 1
    assert lab.state() == before


def test_the_first_change_of_an_imported_manifest_claims_the_table(lab: Lab) -> None:
    foreign(lab)
    path = lab.write("theirs.yaml", lab.ok("import", "sales.theirs").out + "  comment: Ours now\n")
    assert "laketable.owner" not in lab.table("sales.theirs").properties
    assert "Ours now" in lab.run("plan", "-f", path).out
    lab.ok("apply", "-f", path, "--auto-approve")
    assert lab.table("sales.theirs").properties["laketable.owner"] == "cli/sales/theirs"


def test_somebody_elses_table_is_refused_and_taken_over_only_when_said(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.apply([ID])
    monkeypatch.setenv("LAKETABLE_PROJECT", "other")
    path = lab.manifest([ID, NOTE])
    with lab.untouched():
        for command in (["plan"], ["apply", "--auto-approve"]):
            result = lab.run(*command, "-f", path)
            assert result.code == 3
            assert "cli/sales/orders" in result.err
            assert "--take-ownership" in result.err
    planned = lab.ok("plan", "-f", path, "--take-ownership")
    assert "LK112" in planned.out
    lab.ok("apply", "-f", path, "--auto-approve", "--take-ownership")
    assert lab.table().properties["laketable.owner"] == "other/sales/orders"


@pytest.mark.parametrize(
    ("policy", "code", "says"),
    [
        pytest.param("Ignore", 0, None, id="Ignore"),
        pytest.param("Warn", 0, "LK601", id="Warn"),
        pytest.param("Adopt", 0, None, id="Adopt"),
        pytest.param("Drop", 2, "- surprise", id="Drop"),
    ],
)
def test_unmanaged_columns(lab: Lab, policy: str, code: int, says: str | None) -> None:
    from pyiceberg.types import StringType

    lab.apply([ID])
    with lab.table().update_schema() as update:
        update.add_column("surprise", StringType())
    path = lab.manifest([ID], f"unmanagedColumns: {policy}")
    result = lab.run("plan", "-f", path, "--detailed-exitcode")
    assert result.code == code
    assert says is None or says in result.out
    if policy == "Drop":
        assert lab.run("apply", "-f", path, "--auto-approve").code == 3
        lab.ok("apply", "-f", path, "--approve", lab.plan_hash("-f", path))
        assert list(lab.columns()) == ["id"]
    else:
        lab.ok("apply", "-f", path, "--auto-approve")
        assert list(lab.columns()) == ["id", "surprise"]


def test_a_table_that_no_manifest_can_describe_is_one_line_and_stops_no_other(lab: Lab) -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    lab.apply(["name: id, type: long"])
    schema = Schema(NestedField(1, "total\u00a0amount", LongType(), required=False))
    lab.catalog().create_table("sales.a_sheet", schema)
    result = lab.run("import", "sales")
    assert result.code == 1
    assert "name: orders" in result.out
    assert "sheet" not in result.out
    (line,) = result.errors
    assert line.startswith("error: sales.a_sheet: The live table does not fit a manifest: spec.columns[0].name")


def test_tables_whose_names_differ_in_spelling_only_are_two_resources(lab: Lab) -> None:
    names = ("sales.a_b", "sales.a-b", "sales.A_B")
    for name in names:
        foreign(lab, name)
    lab.ok("import", "sales", "--output-dir", "out")
    assert len(list((lab.folder / "out").iterdir())) == 3
    assert (lab.folder / "out" / "sales.a-b.yaml").exists()
    lab.ok("validate", "out")
    assert lab.run("plan", "-f", "out", "--detailed-exitcode").code == 0
    for path in (lab.folder / "out").iterdir():
        path.write_text(path.read_text() + "  comment: Ours now\n")
    lab.ok("apply", "-f", "out", "--auto-approve")
    owners = {lab.table(name).properties["laketable.owner"] for name in names}
    assert len(owners) == 3


def test_one_resource_name_for_two_tables_is_refused(lab: Lab) -> None:
    lab.apply([ID])
    lab.manifest([ID], "identifier: sales.others", name="orders", file="others.yaml")
    with lab.untouched():
        result = lab.run("apply", "-f", ".", "--auto-approve")
    assert result.code == 1
    (error,) = result.errors
    assert (
        "LakeTable sales/orders stands for two tables: sales.others here, and sales.orders at ./orders.yaml:1" in error
    )


def test_a_name_with_a_dot_is_refused_and_not_taken_for_a_namespace(lab: Lab) -> None:
    foreign(lab)
    lab.catalog().create_table(("sales", "d.ot"), lab.table("sales.theirs").schema())
    result = lab.run("import", "sales")
    assert result.code == 1
    assert "name: theirs" in result.out
    assert "d.ot" not in result.out
    (line,) = result.errors
    assert line.startswith("error: sales.d.ot: ")
    assert "'d.ot' holds a dot" in line
