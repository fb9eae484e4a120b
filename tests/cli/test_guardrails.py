"""What guards a table must not be lost on the way to it: policies beside manifests, and the manifests themselves."""

from __future__ import annotations

from tests.cli.lab import Lab

ID = "name: id, type: long"
MORE = (ID, "name: more, type: string")
DENIES = (
    "apiVersion: laketable.dev/v1alpha1\nkind: LakePolicy\nmetadata: {name: gold}\n"
    "spec: {deny: {changes: [add-column], reason: Ask first.}}\n"
)


def test_a_plan_file_carried_elsewhere_does_not_leave_its_policies_behind(lab: Lab) -> None:
    lab.apply([ID])
    lab.manifest(MORE)
    lab.write("policy.yaml", DENIES)
    lab.run("plan", "-f", "orders.yaml", "--out", "plan.json")
    lab.write("away/plan.json", (lab.folder / "plan.json").read_text())
    with lab.untouched():
        assert lab.run("apply", "plan.json", "--auto-approve").code == 3
        result = Lab(lab.folder / "away", lab.properties).run("apply", "plan.json", "--auto-approve")
    assert result.code == 1
    assert result.errors == [
        "error: plan.json: The plan was made with orders.yaml, which is not here, so its policies cannot be known. "
        "Apply the plan from the folder in which it was made, with the same files."
    ]


def test_a_policy_of_another_folder_still_counts_for_the_plan_file(lab: Lab) -> None:
    lab.apply([ID])
    lab.manifest(MORE)
    lab.write("policies/gold.yaml", DENIES)
    lab.run("plan", "-f", "orders.yaml", "-f", "policies", "--out", "plan.json")
    with lab.untouched():
        result = lab.run("apply", "plan.json", "--auto-approve")
    assert result.code == 3
    assert "gold denies add-column" in result.err


def test_a_policy_from_stdin_still_counts_for_the_plan_file(lab: Lab) -> None:
    manifest = lab.apply([ID])
    lab.manifest(MORE)
    both = f"{manifest.read_text()}---\n{DENIES}".encode()
    assert lab.run("plan", "-f", "-", "--out", "plan.json", stdin=both).code == 3
    with lab.untouched():
        assert lab.run("apply", "plan.json", "--auto-approve").code == 1


def test_a_plan_made_of_stdin_alone_is_applied_without_files(lab: Lab) -> None:
    manifest = lab.apply([ID])
    lab.manifest(MORE)
    text = manifest.read_bytes()
    assert lab.run("plan", "-f", "-", "--out", "plan.json", stdin=text).code == 0
    lab.ok("apply", "plan.json", "--auto-approve")
    assert list(lab.columns()) == ["id", "more"]


def test_an_approval_left_in_the_manifest_does_not_repeat_what_was_undone(lab: Lab) -> None:
    lab.apply(MORE)
    path = lab.manifest([ID])
    approved = lab.plan_hash("-f", path)
    lab.manifest([ID], f"approval: {{plan: '{approved}'}}")
    lab.ok("apply", "-f", path)
    lab.ok("undo", "sales.orders", "--auto-approve")
    with lab.untouched():
        result = lab.run("apply", "-f", path, "--auto-approve")
    assert result.code == 3
    assert "released this plan once already" in result.err
    lab.ok("apply", "-f", path, "--approve", approved)
    assert list(lab.columns()) == ["id"]


def test_one_table_declared_with_and_without_its_catalog_is_refused(lab: Lab) -> None:
    lab.manifest([ID])
    lab.manifest(["name: other, type: int"], "catalogRef: {name: lake}", "identifier: sales.orders", name="twin")
    result = lab.run("apply", "-f", ".", "--auto-approve")
    assert result.code == 1
    assert len(result.errors) == 1
    assert "Table sales.orders of catalog lake is declared twice" in result.errors[0]
    assert not (lab.folder / ".laketable" / "catalog.db").exists()
