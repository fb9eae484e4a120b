"""Must show: the review of a pull request, on a scratch Git repository."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.cli.lab import Lab

ID = "name: id, type: long, required: true"
BEFORE = (ID, "name: cust_id, type: string", "name: note, type: string")
AFTER = (ID, "name: customer_ref, type: string, renamedFrom: cust_id, doc: Customer key", "name: note, type: string")


def git(lab: Lab, *args: str) -> str:
    identity = ["-c", "user.name=reviewer", "-c", "user.email=reviewer@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *args], cwd=lab.folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def repository(lab: Lab) -> Lab:
    """Main declares two live tables with rows; a branch renames a column of one and is checked out."""
    git(lab, "init", "-q", "-b", "main")
    lab.write(".gitignore", ".laketable/\n")
    for name in ("orders", "others"):
        lab.manifest(BEFORE, name=name, file=f"tables/{name}.yaml")
    lab.ok("apply", "-f", "tables", "--auto-approve")
    lab.append([{"id": 1, "cust_id": "ada", "note": None}])
    git(lab, "add", ".")
    git(lab, "commit", "-q", "-m", "Two tables")
    git(lab, "checkout", "-q", "-b", "rename")
    lab.manifest(AFTER, name="orders", file="tables/orders.yaml")
    git(lab, "commit", "-qam", "Say customer_ref")
    return lab


def comment(lab: Lab) -> str:
    return lab.ok("plan", "-f", "tables", "--changed-since", "main", "--output", "markdown").out


def test_the_comment_shows_the_changed_table_only_with_the_hash_to_commit(repository: Lab) -> None:
    text = comment(repository)
    assert text.startswith("<!-- laketable:plan -->")
    assert "sales.orders" in text
    assert "sales.others" not in text
    assert "was cust_id" in text
    assert "LK401" in text, "readers who lose the name are named"
    assert repository.plan_hash("-f", "tables/orders.yaml") in text


def test_its_hash_committed_releases_exactly_that_plan(repository: Lab) -> None:
    with repository.untouched():
        assert repository.run("apply", "-f", "tables").code == 3
    found = re.search(r'approval: \{plan: "(sha256:[0-9a-f]{64})"\}', comment(repository))
    assert found
    before = (repository.folder / "tables/orders.yaml").read_text()
    repository.ok("approve", "-f", "tables/orders.yaml")
    after = (repository.folder / "tables/orders.yaml").read_text()
    assert found.group(1) in after, "approve writes what the comment shows"
    assert [line for line in after.splitlines() if "approval" not in line and found.group(1) not in line] == (
        before.splitlines()
    ), "and nothing else"
    git(repository, "commit", "-qam", "Approve")
    applied = repository.ok("apply", "-f", "tables")
    assert "sales.orders" in applied.out
    assert repository.rows() == [{"id": 1, "customer_ref": "ada", "note": None}]
    assert repository.run("plan", "-f", "tables", "--detailed-exitcode").code == 0, "a spent approval is no change"


def test_one_byte_of_spec_changed_after_the_approval_is_refused(repository: Lab) -> None:
    repository.ok("approve", "-f", "tables/orders.yaml")
    path = repository.folder / "tables/orders.yaml"
    approved = path.read_text()
    path.write_text(approved.replace("doc: Customer key", "doc: Customer keY"))
    with repository.untouched():
        result = repository.run("apply", "-f", "tables")
    assert result.code == 3
    assert "is not this plan's" in result.err
    path.write_text(approved)
    repository.ok("apply", "-f", "tables")


def test_a_comment_or_white_space_in_the_file_voids_nothing(repository: Lab) -> None:
    repository.ok("approve", "-f", "tables/orders.yaml")
    path = repository.folder / "tables/orders.yaml"
    path.write_text("# reviewed by ada\n" + path.read_text() + "\n")
    repository.ok("apply", "-f", "tables")


def test_rows_ingested_in_between_change_nothing(repository: Lab) -> None:
    repository.ok("approve", "-f", "tables/orders.yaml")
    repository.append([{"id": 2, "cust_id": "bob", "note": None}])
    repository.ok("apply", "-f", "tables")
    assert sorted(row["customer_ref"] for row in repository.rows()) == ["ada", "bob"]


def test_an_approval_covers_a_destructive_plan_too(repository: Lab) -> None:
    repository.manifest(BEFORE[:2], name="orders", file="tables/orders.yaml")
    repository.ok("approve", "-f", "tables/orders.yaml")
    repository.ok("apply", "-f", "tables")
    assert list(repository.columns()) == ["id", "cust_id"]


def test_an_untracked_manifest_counts_as_changed(repository: Lab) -> None:
    repository.manifest([ID], name="fresh", file="tables/fresh.yaml")
    assert "sales.fresh" in comment(repository)


def test_a_branch_without_changed_manifests_says_so(repository: Lab) -> None:
    git(repository, "checkout", "-q", "main")
    git(repository, "checkout", "-q", "-b", "quiet")
    assert "No manifest to plan." in comment(repository)


@pytest.mark.parametrize("folder", ["tables", "tables/sales"])
def test_a_changed_policy_concerns_every_table_it_judges(repository: Lab, folder: str) -> None:
    policy = "apiVersion: laketable.dev/v1alpha1\nkind: LakePolicy\nmetadata: {name: p, namespace: sales}\nspec:\n"
    repository.write("tables/policy.yaml", policy + "  autoApprove: [metadata-only]\n")
    repository.manifest([ID], name="fresh", file=f"{folder}/fresh.yaml")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "A policy, and a table to come")
    review = ("plan", "-f", "tables", "-R", "--changed-since", "HEAD")
    assert "No manifest to plan." in repository.ok(*review, "--output", "markdown").out
    repository.write("tables/policy.yaml", policy + "  deny: {changes: [create-table]}\n")
    result = repository.run(*review)
    assert result.code == 3
    assert "sales.fresh" in result.out


def test_a_changed_catalog_concerns_its_tables(repository: Lab) -> None:
    uri, warehouse = repository.properties["uri"], repository.properties["warehouse"]
    catalog = "apiVersion: laketable.dev/v1alpha1\nkind: LakeCatalog\nmetadata: {name: lake, namespace: sales}\nspec:\n"
    catalog += f'  properties: {{type: sql, uri: "{uri}", warehouse: "{warehouse}"}}\n'
    repository.write("tables/catalog.yaml", catalog)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "A catalog")
    repository.write("tables/catalog.yaml", catalog.replace(warehouse, f"{warehouse}2"))
    text = repository.ok("plan", "-f", "tables", "--changed-since", "HEAD", "--output", "markdown").out
    assert "sales.orders" in text
    assert "sales.others" in text


@pytest.mark.parametrize("policy_file", ["policy.yaml", "fresh.yaml"])
def test_a_policy_that_is_gone_concerns_every_table(repository: Lab, policy_file: str) -> None:
    policy = "apiVersion: laketable.dev/v1alpha1\nkind: LakePolicy\nmetadata: {name: p, namespace: sales}\nspec:\n"
    repository.manifest([ID], name="fresh", file="tables/fresh.yaml")
    table = (repository.folder / "tables/fresh.yaml").read_text()
    is_alone = policy_file == "policy.yaml"
    before = "" if is_alone else f"{table}---\n"
    repository.write(f"tables/{policy_file}", f"{before}{policy}  autoApprove: []\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "A policy, and a table to come")
    if is_alone:
        (repository.folder / "tables/policy.yaml").unlink()
    else:
        repository.write("tables/fresh.yaml", table)
    text = repository.ok("plan", "-f", "tables", "--changed-since", "HEAD", "--output", "markdown").out
    assert "sales.fresh" in text
    assert "sales.orders" in text


def test_one_table_in_two_catalogs_is_compared_with_itself(repository: Lab) -> None:
    for catalog, columns in (("prod", BEFORE), ("stage", AFTER)):
        repository.manifest(columns, f"catalogRef: {{name: {catalog}}}", name="both", file=f"tables/{catalog}.yaml")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "One table in two catalogs")
    assert repository.run("plan", "-f", "tables", "--against", "git:HEAD", "--detailed-exitcode").code == 0
    repository.manifest(AFTER, "catalogRef: {name: prod}", name="both", file="tables/prod.yaml")
    result = repository.run("plan", "-f", "tables", "--against", "git:HEAD", "--detailed-exitcode")
    assert result.code == 2
    assert "was cust_id" in result.out


def test_specs_are_compared_offline_with_a_revision(repository: Lab) -> None:
    catalog = repository.folder / ".laketable"
    catalog.rename(repository.folder / "elsewhere")
    result = repository.run("plan", "-f", "tables", "--against", "git:main", "--detailed-exitcode")
    assert result.code == 2
    assert "was cust_id" in result.out
    assert not catalog.exists(), "no catalog was made, none was asked"
    git(repository, "checkout", "-q", "main")
    assert repository.run("plan", "-f", "tables", "--against", "git:main", "--detailed-exitcode").code == 0


def test_a_file_that_was_not_valid_declared_nothing(repository: Lab) -> None:
    repository.manifest(["name: id, type: nonsense"], name="mended", file="tables/mended.yaml")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "A type that is none")
    repository.manifest([ID], name="mended", file="tables/mended.yaml")
    result = repository.run("plan", "-f", "tables", "--against", "git:HEAD", "--detailed-exitcode")
    assert result.code == 2, result.err
    assert not result.err
    assert "sales.mended" in result.out
    assert "new iceberg" in result.out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        pytest.param(["--against", "git:nowhere"], "'nowhere' is not a Git revision", id="unknown revision"),
        pytest.param(["--against", "main"], "is not git:REF", id="no git prefix"),
        pytest.param(["--changed-since", "nowhere"], "nowhere", id="unknown fork"),
        pytest.param(["--changed-since", "--output=x"], "is not a Git revision", id="an option for a revision"),
    ],
)
def test_a_bad_revision_is_one_line(repository: Lab, args: list[str], says: str) -> None:
    result = repository.run("plan", "-f", "tables", *args)
    assert result.code == 1
    assert len(result.err.splitlines()) == 1
    assert says in result.err
