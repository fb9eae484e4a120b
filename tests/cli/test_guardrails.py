"""What guards a table must not be lost on the way to it: policies beside manifests, and the manifests themselves."""

from __future__ import annotations

import pytest

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


def said_next(lab: Lab, *files: str) -> str:
    """Write a plan file; return what is said of carrying it out."""
    flags = [part for file in files for part in ("-f", file)]
    (line,) = [line for line in lab.run("plan", *flags, "--out", "plan.json").err.splitlines() if "plan.json" in line]
    return line


@pytest.mark.parametrize(
    ("after", "flag"),
    [
        pytest.param((ID, "name: more, type: string, doc: More"), "--auto-approve", id="asked"),
        pytest.param((ID,), "--approve sha256:", id="destructive"),
    ],
)
def test_a_plan_file_that_waits_comes_with_the_command_that_carries_it_out(
    lab: Lab, after: tuple[str, ...], flag: str
) -> None:
    lab.apply(MORE)
    lab.manifest(after)
    said = said_next(lab, "orders.yaml")
    assert said.startswith(f"Wrote plan.json. It waits for approval: 'laketable apply plan.json {flag}")
    with lab.untouched():
        assert lab.run("apply", "plan.json").code == 3
    lab.ok(*said.split("'")[1].split()[1:])
    assert lab.run("plan", "-f", "orders.yaml", "--detailed-exitcode").code == 0


def test_a_plan_file_that_nobody_need_approve_says_so(lab: Lab) -> None:
    lab.apply([ID])
    lab.manifest(MORE)
    lab.ok("approve", "-f", "orders.yaml")
    said = said_next(lab, "orders.yaml")
    assert said == "Wrote plan.json. 'laketable apply plan.json' carries out exactly this, as long as nothing moves."
    lab.ok("apply", "plan.json")
    assert list(lab.columns()) == ["id", "more"]


def test_a_plan_file_that_is_refused_says_so(lab: Lab) -> None:
    lab.apply([ID])
    lab.manifest(["name: id, type: int"])
    said = said_next(lab, "orders.yaml")
    assert said.startswith("Wrote plan.json. 'laketable apply plan.json' refuses sales.orders: LK")
    assert said.endswith(". Fix the manifest as the finding says. Then plan again.")

    lab.apply([ID], name="others")
    for name in ("orders", "others"):
        lab.manifest(MORE, name=name)
    lab.write("policy.yaml", DENIES)
    assert said_next(lab, "orders.yaml", "others.yaml") == (
        "Wrote plan.json. 'laketable apply plan.json' refuses sales.orders and 1 other table: LakePolicy gold denies "
        "add-column. Ask first. Change the manifest, or the policy that denies it. Then plan again."
    )
    with lab.untouched():
        assert lab.run("apply", "plan.json", "--auto-approve").code == 3


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


@pytest.mark.parametrize(
    "more", [pytest.param((), id="one catalog"), pytest.param(("catalogRef: {name: lake}",), id="named by one of them")]
)
def test_two_manifests_that_claim_one_former_table_are_refused(lab: Lab, more: tuple[str, ...]) -> None:
    lab.apply([ID])
    lab.append([{"id": 1}])
    (lab.folder / "orders.yaml").unlink()
    lab.manifest([ID], "renamedFrom: sales.orders", name="a")
    lab.manifest([ID], "renamedFrom: sales.orders", *more, name="b")
    with lab.untouched():
        result = lab.run("apply", "-f", ".", "--auto-approve")
    assert result.code == 1
    (error,) = result.errors
    assert "Table sales.orders is renamed twice: to sales.b here, and to sales.a at" in error
    assert error.startswith("error: ./b.yaml:1")
    if not more:
        assert lab.run("validate", "-f", ".").code == 1
