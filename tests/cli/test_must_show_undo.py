"""Must show: the way back, and what the table remembers of it."""

from __future__ import annotations

from pyiceberg.types import StringType

from tests.cli.lab import Lab

ID = "name: id, type: long"
NOTE = "name: note, type: string"


def drop_note(lab: Lab) -> None:
    lab.apply([ID, NOTE])
    lab.append([{"id": 1, "note": "kept"}])
    path = lab.manifest([ID])
    lab.ok("apply", "-f", path, "--approve", lab.plan_hash("-f", path))
    assert lab.rows() == [{"id": 1}]


def test_undo_of_a_drop_brings_field_ids_and_data_back(lab: Lab) -> None:
    drop_note(lab)
    files = lab.data_files()
    lab.ok("undo", "sales.orders", "--auto-approve")
    assert lab.columns() == {"id": 1, "note": 2}
    assert lab.rows() == [{"id": 1, "note": "kept"}]
    assert lab.data_files() == files


def test_undo_says_that_git_still_says_otherwise(lab: Lab) -> None:
    drop_note(lab)
    result = lab.ok("undo", "sales.orders", "--auto-approve")
    assert "Git still says otherwise" in result.err
    assert lab.run("plan", "-f", "orders.yaml", "--detailed-exitcode").code == 2


def test_undo_of_an_addition_is_destructive(lab: Lab) -> None:
    lab.apply([ID])
    lab.apply([ID, NOTE])
    with lab.untouched():
        result = lab.run("undo", "sales.orders", "--auto-approve")
        assert result.code == 3
    (command,) = (line for line in result.out.splitlines() if "--approve" in line)
    assert "laketable undo sales.orders --approve sha256:" in command
    lab.ok("undo", "sales.orders", "--approve", command.rsplit(" ", 1)[1])
    assert list(lab.columns()) == ["id"]


def test_undo_twice_is_a_redo(lab: Lab) -> None:
    drop_note(lab)
    lab.ok("undo", "sales.orders", "--auto-approve")
    again = lab.run("undo", "sales.orders", "--auto-approve")
    assert again.code == 3, "a redo of the drop is as destructive as the drop"
    lab.ok("undo", "sales.orders", "--approve", again.out.rsplit("--approve ", 1)[1].split()[0])
    assert lab.rows() == [{"id": 1}]
    assert lab.run("plan", "-f", "orders.yaml", "--detailed-exitcode").code == 0


def test_undo_of_a_rename_a_property_and_a_partitioning_at_once(lab: Lab) -> None:
    lab.apply([ID, NOTE], "properties: {write.target-file-size-bytes: '1048576'}")
    lab.append([{"id": 1, "note": "kept"}])
    before = lab.ok("import", "sales.orders").out
    lab.apply(
        [ID, "name: remark, type: string, renamedFrom: note"],
        "properties: {write.target-file-size-bytes: '2097152', write.parquet.compression-codec: zstd}",
        "partitioning: [{column: id, transform: 'bucket[4]'}]",
    )
    assert lab.ok("import", "sales.orders").out != before
    lab.ok("undo", "sales.orders", "--auto-approve")
    assert lab.ok("import", "sales.orders").out == before
    assert lab.rows() == [{"id": 1, "note": "kept"}]


def test_a_constraint_follows_its_renamed_column_and_the_way_back(lab: Lab) -> None:
    former = lab.apply([ID, NOTE], "constraints: [{name: said, check: \"note <> ''\"}]").read_text()
    lab.apply([ID, "name: remark, type: string, renamedFrom: note"])
    assert "`remark`" in lab.table().properties["laketable.constraint.said"]
    lab.ok("undo", "sales.orders", "--auto-approve")
    lab.write("orders.yaml", former)
    assert lab.run("plan", "-f", "orders.yaml", "--detailed-exitcode").code == 0


def test_undo_of_a_changed_constraint_brings_the_former_one_back(lab: Lab) -> None:
    former = lab.apply([ID], "constraints: [{name: positive, check: 'id >= 0'}]").read_text()
    lab.apply([ID], "constraints: [{name: positive, check: 'id > 0'}]")
    lab.ok("undo", "sales.orders", "--auto-approve")
    lab.write("orders.yaml", former)
    assert lab.run("plan", "-f", "orders.yaml", "--detailed-exitcode").code == 0


def test_nothing_to_undo_is_one_line(lab: Lab) -> None:
    lab.apply([ID])
    lab.catalog().create_table("sales.theirs", lab.table().schema())
    result = lab.run("undo", "sales.theirs")
    assert result.code == 1
    assert result.errors == ["error: LakeTable has not changed sales.theirs; there is nothing to undo."]


def test_undo_of_a_creation_drops_the_table_by_its_hash_only(lab: Lab) -> None:
    lab.apply([ID])
    with lab.untouched():
        refused = lab.run("undo", "sales.orders", "--auto-approve")
    assert refused.code == 3
    lab.ok("undo", "sales.orders", "--approve", refused.out.rsplit("--approve ", 1)[1].split()[0])
    assert not lab.catalog().table_exists("sales.orders")


def test_history_lists_what_was_committed_by_whom(lab: Lab) -> None:
    drop_note(lab)
    records = lab.ok("history", "sales.orders", "-o", "json").json()
    assert len(records) == 2
    assert {record["actor"] for record in records} != {"unknown"}
    shown = lab.ok("history", "sales.orders").out
    assert records[0]["plan"][7:15] in shown
    assert records[1]["plan"][7:15] in shown


def test_history_of_a_table_laketable_never_changed(lab: Lab) -> None:
    lab.apply([ID])
    lab.catalog().create_table("sales.theirs", lab.table().schema())
    assert lab.ok("history", "sales.theirs").out == "LakeTable has not changed sales.theirs.\n"


def test_a_property_that_came_back_is_ours_again(lab: Lab) -> None:
    lab.apply([ID], "properties: {purpose: audit}")
    lab.apply([ID])
    lab.ok("undo", "sales.orders", "--auto-approve")
    assert lab.table().properties["purpose"] == "audit"
    assert lab.run("plan", "-f", "orders.yaml", "--detailed-exitcode").code == 2, "the manifest still says otherwise"
    lab.ok("apply", "-f", "orders.yaml", "--auto-approve")
    assert "purpose" not in lab.table().properties


def test_undo_leaves_somebody_elses_property_theirs(lab: Lab) -> None:
    former = lab.apply([ID]).read_text()
    lab.table().transaction().set_properties(purpose="theirs").commit_transaction()
    lab.apply([ID], "properties: {purpose: audit}")
    lab.ok("undo", "sales.orders", "--auto-approve")
    lab.write("orders.yaml", former)
    assert lab.table().properties["purpose"] == "theirs"
    assert lab.run("plan", "-f", "orders.yaml", "--detailed-exitcode").code == 0


def test_undo_leaves_somebody_elses_column_theirs_and_a_redo_drops_it_again(lab: Lab) -> None:
    former = lab.apply([ID]).read_text()
    with lab.table().update_schema() as update:
        update.add_column("theirs", StringType())
    path = lab.manifest([ID], "unmanagedColumns: Drop")
    lab.ok("apply", "-f", path, "--approve", lab.plan_hash("-f", path))
    lab.ok("undo", "sales.orders", "--auto-approve")
    lab.write("orders.yaml", former)
    assert list(lab.columns()) == ["id", "theirs"]
    assert lab.run("plan", "-f", "orders.yaml", "--detailed-exitcode").code == 0
    again = lab.run("undo", "sales.orders", "--auto-approve")
    lab.ok("undo", "sales.orders", "--approve", again.out.rsplit("--approve ", 1)[1].split()[0])
    assert list(lab.columns()) == ["id"]


def test_what_undo_cannot_bring_back_is_said(lab: Lab) -> None:
    lab.apply([ID])
    lab.append([{"id": 1}])
    lab.apply([ID], "tags: [{name: close}]")
    with lab.untouched():
        result = lab.run("undo", "sales.orders", "--auto-approve")
    assert result.code == 1
    assert len(result.errors) == 1
    assert "left nothing that undo brings back: tags, branches" in result.errors[0]
    assert "Git still says otherwise" not in result.err


def test_values_too_large_to_remember_are_said_to_stay(lab: Lab) -> None:
    lab.apply([ID, NOTE], f"properties: {{purpose: {'x' * 2_000}}}")
    path = lab.manifest([ID], "properties: {purpose: audit}")
    lab.ok("apply", "-f", path, "--approve", lab.plan_hash("-f", path))
    result = lab.ok("undo", "sales.orders", "--auto-approve")
    assert list(lab.columns()) == ["id", "note"]
    assert lab.table().properties["purpose"] == "audit"
    assert "too large to remember" in result.err
