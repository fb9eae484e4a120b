"""Every example works: the files of specs_examples, and every YAML and command in the documentation."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import click
import pytest

from reconciler.cli.main import COMMANDS, cli
from reconciler.operator import plugin
from tests.cli.lab import EXAMPLES, ROOT, Lab

PAGES = sorted({ROOT / "README.md", ROOT / "reconciler/DESIGN.md", *ROOT.glob("docs/**/*.md")})
WORKFLOWS = [*sorted((ROOT / "docs/ci").iterdir()), ROOT / ".pre-commit-hooks.yaml"]
GOOD = sorted(path for path in EXAMPLES.rglob("*.yaml") if "bad" not in path.parts)
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?<!kubectl )\blaketable ((?:[a-z]+)\b[^`'\n|>;]*)")
_PLUGIN_COMMAND = re.compile(r"\bkubectl laketable ((?:[a-z]+)\b[^`'\n|>;]*)")
HEAD = "apiVersion: laketable.dev/v1alpha1\nkind: LakeTable\nmetadata: {name: orders, namespace: sales}\n"
COLUMNS = "  columns:\n    - {name: customer_ref, type: string}\n"


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path, *languages: str) -> Iterator[str]:
    """Yield a page's code blocks of these languages."""
    for language, text in _BLOCK.findall(path.read_text()):
        if language in languages:
            yield text


# ---------------------------------------------------------------- specs_examples


@pytest.mark.parametrize("path", GOOD, ids=short)
def test_a_manifest_is_valid_and_in_canonical_form(lab: Lab, path: Path) -> None:
    lab.ok("validate", "-f", path)
    assert lab.run("fmt", "--check", "-f", path).code == 0


@pytest.mark.parametrize("name", ["quickstart", "nested", "policies"])
def test_a_folder_is_planned_applied_and_then_in_sync(lab: Lab, name: str) -> None:
    assert lab.run("plan", "-f", EXAMPLES / name, "--detailed-exitcode").code == 2
    lab.ok("apply", "-f", EXAMPLES / name, "--auto-approve")
    assert lab.run("plan", "-f", EXAMPLES / name, "--detailed-exitcode").code == 0


def test_the_evolution_goes_step_by_step_without_losing_a_row(lab: Lab) -> None:
    lab.ok("apply", "-f", EXAMPLES / "quickstart/orders.yaml", "--auto-approve")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    address = {"street": "Main St", "zip": "00001"}
    rows = [{"order_id": i, "cust_id": "ada", "amount": 0.5, "address": address, "ordered_at": at} for i in range(3)]
    lab.load(rows)
    files = lab.data_files()
    for step in ("step-2", "step-3"):
        versions = len(lab.table().metadata.metadata_log)
        lab.ok("apply", "-f", EXAMPLES / "evolution" / step, "--auto-approve")
        assert len(lab.table().metadata.metadata_log) == versions + 1, "one commit a step"
        assert lab.run("plan", "-f", EXAMPLES / "evolution" / step, "--detailed-exitcode").code == 0
    assert lab.data_files() == files
    assert sorted(row["order_id"] for row in lab.rows()) == [0, 1, 2]
    assert {row["customer_ref"] for row in lab.rows()} == {"ada"}
    assert {row["address"]["postcode"] for row in lab.rows()} == {"00001"}


def test_tags_and_branches_come_with_the_snapshot_they_name(lab: Lab) -> None:
    path = EXAMPLES / "tags-and-branches/ledger.yaml"
    lab.ok("apply", "-f", path, "--auto-approve")
    assert set(lab.table("finance.ledger").metadata.refs) == set(), "an empty table has nothing to tag"
    lab.append(
        [{"entry_id": 1, "account": "cash", "amount": Decimal("1.00"), "booked_on": date(2026, 9, 30)}],
        "finance.ledger",
    )
    table = lab.table("finance.ledger")
    head = table.current_snapshot()
    assert head
    text = path.read_text()
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    closed = datetime.fromtimestamp(head.timestamp_ms / 1000, UTC) + timedelta(seconds=1)
    for moment, tags in ((tomorrow, {"main", "audit"}), (closed, {"main", "audit", "q3-close"})):
        lab.write("ledger.yaml", text.replace("2026-10-01T00:00:00Z", moment.strftime("%Y-%m-%dT%H:%M:%SZ")))
        if moment is closed:
            _wait_until(closed)
        lab.ok("apply", "-f", "ledger.yaml", "--auto-approve", "--include-upkeep")
        assert set(lab.table("finance.ledger").metadata.refs) == tags
    assert lab.run("plan", "-f", "ledger.yaml", "--detailed-exitcode").code == 0


def _wait_until(moment: datetime) -> None:
    import time

    time.sleep(max(0.0, (moment - datetime.now(UTC)).total_seconds()) + 0.1)


def test_the_adoption_leaves_alone_what_it_does_not_name(lab: Lab) -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

    (lab.folder / ".laketable").mkdir()
    lab.catalog().create_namespace("web")
    lab.catalog().create_table(
        "web.clicks",
        Schema(
            NestedField(1, "user_id", LongType()),
            NestedField(2, "url", StringType()),
            NestedField(3, "clicked_at", TimestamptzType()),
            NestedField(4, "agent", StringType()),
        ),
    )
    result = lab.ok("apply", "-f", EXAMPLES / "adoption/clicks.yaml", "--auto-approve")
    assert "LK601" in result.out
    assert list(lab.columns("web.clicks")) == ["user_id", "url", "clicked_at", "agent"]
    assert lab.table("web.clicks").properties["laketable.owner"]
    assert lab.run("plan", "-f", EXAMPLES / "adoption/clicks.yaml", "--detailed-exitcode").code == 0


def test_the_policy_lets_additions_pass_asks_about_renames_and_denies_drops(lab: Lab) -> None:
    shutil.copytree(EXAMPLES / "policies", lab.folder / "tables")
    lab.ok("apply", "-f", "tables")
    path = lab.folder / "tables/ledger.yaml"
    text = path.read_text()
    path.write_text(text.replace("name: memo", "name: note, renamedFrom: memo"))
    assert "Reports read these tables" in lab.run("apply", "-f", "tables", "--auto-approve").err
    path.write_text(text.replace("    - {name: memo, type: string}\n", ""))
    with lab.untouched("finance.ledger"):
        assert lab.run("apply", "-f", "tables", "--approve", lab.plan_hash("-f", "tables")).code == 3
    path.write_text(text.replace("type: string}\n  id", "type: string}\n    - {name: booked_on, type: date}\n  id"))
    lab.ok("apply", "-f", "tables")
    assert "booked_on" in lab.columns("finance.ledger")


def test_the_maintained_table_is_kept_small_and_comes_back(lab: Lab, jobs_inside: None) -> None:
    path = EXAMPLES / "maintenance/events.yaml"
    lab.ok("apply", "-f", path, "--auto-approve")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(5):
        row = {"event_id": number, "user_id": 1, "url": "/", "happened_at": at}
        lab.append([row], "web.events")
    lab.ok("apply", "-f", path, "--auto-approve")
    assert "nightly" in lab.table("web.events").metadata.refs
    due = lab.ok("maintain", "-f", path, "--now", "--dry-run").out
    assert "compact 5 files" in due
    assert "expire snapshots older than 7d" in due
    done = lab.ok("maintain", "-f", path, "--now").out
    assert "compact 5 files" in done
    assert len(lab.data_files("web.events")) == 1
    assert sorted(row["event_id"] for row in lab.rows("web.events")) == list(range(5))
    shown = lab.ok("history", "web.events", "-o", "json").json()
    kinds = {record.get("kind", "commit") for record in shown}
    assert {"compact", "expire-snapshots", "rewrite-manifests", "remove-orphan-files"} <= kinds
    assert lab.run("plan", "-f", path, "--detailed-exitcode").code == 0
    lab.table("web.events").delete("event_id < 3")
    refused = lab.run("restore", "web.events", "--to", "nightly")
    assert refused.code == 3
    assert "destructive" in refused.out
    approved = refused.out.rsplit("--approve ", 1)[1].split()[0]
    lab.ok("restore", "web.events", "--to", "nightly", "--approve", approved)
    assert sorted(row["event_id"] for row in lab.rows("web.events")) == list(range(5))
    assert any(name.startswith("lt_undo_") for name in lab.table("web.events").metadata.refs)


def test_the_type_change_takes_the_name_and_keeps_the_text(lab: Lab, jobs_inside: None) -> None:
    lab.ok("apply", "-f", EXAMPLES / "type-change/invoices.yaml", "--auto-approve")
    rows = [{"invoice_id": n, "amount": f"{n}.50", "customer": "ada"} for n in range(3)]
    lab.append(rows, "billing.invoices")
    step = EXAMPLES / "type-change/step-2"
    shown = lab.ok("apply", "-f", step, "--auto-approve").out
    assert "no rows that break constraint billed" in shown
    assert "exchanged the former columns for the converted ones: amount" in shown
    found = sorted(lab.rows("billing.invoices"), key=lambda row: row["invoice_id"])
    texts = [f"{n}.50" for n in range(3)]
    assert [(row["amount"], row["amount__lt_old"]) for row in found] == [(Decimal(text), text) for text in texts]
    assert "laketable.constraint.billed" in lab.table("billing.invoices").properties
    assert "amount__lt_old keeps the string values of amount until" in lab.run("plan", "-f", step).out
    assert lab.run("plan", "-f", step, "--detailed-exitcode").code == 0
    stranger = {"invoice_id": 9, "amount": Decimal("1.00"), "customer": None, "amount__lt_old": None}
    lab.append([stranger], "billing.invoices")
    drift = lab.run("drift", "--constraints", "-f", step)
    assert drift.code == 2
    assert "1 row in 1 of 2 scanned files breaks constraint billed" in drift.out


# ---------------------------------------------------------------- documentation


@pytest.mark.parametrize(
    ("page", "number", "text"),
    [
        pytest.param(page, number, text, id=f"{short(page)}-{number}")
        for page in PAGES
        if "findings" not in page.parts
        for number, text in enumerate(blocks(page, "yaml"))
    ],
)
def test_a_yaml_block_is_a_valid_manifest(lab: Lab, page: Path, number: int, text: str) -> None:
    whole = text if text.startswith("apiVersion") else HEAD + text.rstrip("\n") + "\n" + COLUMNS
    lab.write("block.yaml", whole)
    lab.ok("validate", "-f", "block.yaml")


def test_there_are_yaml_blocks() -> None:
    assert list(blocks(ROOT / "README.md", "yaml"))
    assert list(blocks(ROOT / "docs/manifest.md", "yaml"))


def test_the_commands_of_the_readme_run_in_their_order(lab: Lab) -> None:
    """In a scratch repository, with main as what was merged."""
    commands = [
        line.removeprefix("$ ")
        for text in blocks(ROOT / "README.md", "", "console")
        for line in text.splitlines()
        if line.removeprefix("$ ").startswith("laketable ")
    ]
    assert len(commands) >= 7
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"]
    for command in commands:
        args = shlex.split(command, comments=True)[1:]
        result = lab.run(*args)
        assert result.code == 0, f"{command}\n{result.out}{result.err}"
        if "--detailed-exitcode" in args:  # the first story ends; a branch with a change begins the second
            for git in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "x"]):
                subprocess.run(["git", *identity, *git], cwd=lab.folder, check=True)
            subprocess.run(["git", "update-ref", "refs/remotes/origin/main", "main"], cwd=lab.folder, check=True)
            path = lab.folder / "tables/orders.yaml"
            path.write_text(path.read_text().replace("name: customer,", "name: customer_ref, renamedFrom: customer,"))
    assert "customer_ref" in lab.columns()


def options_of(name: str) -> set[str]:
    command = cli.get_command(click.Context(cli), name)
    assert command
    several = list(command.commands.values()) if isinstance(command, click.Group) else []
    parameters = [parameter for one in (command, *several) for parameter in one.params]
    return {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("page", [*PAGES, *WORKFLOWS], ids=short)
def test_a_command_in_the_text_exists_with_its_options(page: Path) -> None:
    for found in _COMMAND.findall(page.read_text()):
        words = found.split()
        if words[0] not in COMMANDS:
            continue
        known = options_of(words[0]) | {"--help"}
        used = [word.partition("=")[0] for word in words[1:] if word.startswith("-") and len(word) > 1]
        assert set(used) <= known, f"laketable {found}"


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_a_command_of_the_plugin_in_the_text_exists_with_its_options(page: Path) -> None:
    for found in _PLUGIN_COMMAND.findall(page.read_text()):
        name, *words = shlex.split(found, comments=True)
        context = plugin.command.make_context("laketable", [name], resilient_parsing=True)
        asked = plugin.command.get_command(context, name)
        assert asked, f"kubectl laketable {found}"
        known = {option for parameter in asked.params for option in parameter.opts}
        assert {word.partition("=")[0] for word in words if word.startswith("-")} <= known, f"kubectl laketable {found}"


def test_the_commands_in_the_text_are_looked_at() -> None:
    texts = "\n".join(page.read_text() for page in [*PAGES, *WORKFLOWS])
    names = {found.split()[0] for found in _COMMAND.findall(texts)}
    assert {"plan", "apply", "approve", "import", "undo", "validate", "fmt"} <= names
    asked = {found.split()[0] for found in _PLUGIN_COMMAND.findall(texts)}
    assert {"status", "plan", "approve", "history"} <= asked


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_a_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), target


def test_every_command_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in COMMANDS if f"`{name}`" not in text] == []
