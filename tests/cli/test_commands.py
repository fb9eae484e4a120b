"""Every other command, through the real program: what it shows, what it writes, how it exits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reconciler.cli.main import COMMANDS
from reconciler.plan.finding_codes import REGISTRY
from tests.cli.lab import HEAD, ROOT, Lab

ID = "name: id, type: long"
NOTE = "name: note, type: string"
EVERY_KIND = """\
# Comments stay.
apiVersion: laketable.dev/v1alpha1
kind: LakeTable
metadata: {name: orders, namespace: sales}
spec:
  columns:
    - {type: 'decimal( 18 , 2 )', name: amount}   # the order of keys does not
    - {name: tags, type: "list<string>"}
"""


def published(name: str) -> Any:
    return json.loads((ROOT / "docs/schemas" / name).read_text())


def foreign(lab: Lab, name: str = "sales.theirs") -> None:
    """Make a table behind LakeTable's back."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType, StructType

    inner = StructType(NestedField(4, "x", DoubleType(), required=True), NestedField(5, "y", StringType(), doc="why"))
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "items", ListType(3, inner, element_required=False)),
        NestedField(6, "note", StringType(), doc="It's theirs"),
        identifier_field_ids=[1],
    )
    (lab.folder / ".laketable").mkdir(exist_ok=True)
    lab.catalog().create_namespace_if_not_exists(name.rpartition(".")[0])
    lab.catalog().create_table(name, schema, properties={"owner.team": "web", "write.format.default": "parquet"})


# ---------------------------------------------------------------- import, adopt, own


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


# ---------------------------------------------------------------- policies


def policy(lab: Lab, rules: str) -> None:
    head = "apiVersion: laketable.dev/v1alpha1\nkind: LakePolicy\nmetadata: {name: gold, namespace: sales}\nspec:\n"
    lab.write("policy.yaml", f"{head}  {rules}\n")


def test_a_policy_beside_the_manifest_denies_and_no_approval_helps(lab: Lab) -> None:
    lab.apply([ID, NOTE])
    path = lab.manifest([ID])
    policy(lab, "deny: {changes: [drop-column], reason: Ask the data office.}")
    plan_hash = lab.plan_hash("-f", path)
    assert lab.run("plan", "-f", path).code == 3
    with lab.untouched():
        result = lab.run("apply", "-f", path, "--approve", plan_hash)
    assert result.code == 3
    assert "Ask the data office." in result.err
    policy(lab, "deny: {changes: [rename-column]}")
    lab.ok("apply", "-f", path, "--approve", plan_hash)


def test_a_policy_wants_the_hash_where_a_flag_would_do(lab: Lab) -> None:
    lab.apply([ID])
    path = lab.manifest([ID, NOTE])
    policy(lab, "requireApproval: {changes: [add-column]}")
    with lab.untouched():
        result = lab.run("apply", "-f", path, "--auto-approve")
    assert result.code == 3
    assert "LakePolicy gold wants approval for add-column" in result.err
    assert "--auto-approve" not in result.err + result.out, "a flag that does not help is not offered"
    lab.ok("apply", "-f", path, "--approve", lab.plan_hash("-f", path))


def test_a_policy_may_let_plans_pass_without_asking(lab: Lab) -> None:
    path = lab.manifest([ID])
    assert lab.run("apply", "-f", path).code == 3
    policy(lab, "autoApprove: [metadata-only]")
    lab.ok("apply", "-f", path)


def test_a_protected_name_is_never_dropped_from(lab: Lab) -> None:
    lab.apply([ID, NOTE])
    path = lab.manifest([ID])
    policy(lab, 'protectedNames: ["sales.*"]')
    with lab.untouched():
        assert lab.run("apply", "-f", path, "--approve", lab.plan_hash("-f", path)).code == 3


# ---------------------------------------------------------------- drift, diff, status, show


def test_drift_is_what_it_takes_to_come_back(lab: Lab) -> None:
    from pyiceberg.types import IntegerType

    lab.apply([ID, "name: n, type: int"])
    assert lab.run("drift", "-f", "orders.yaml").code == 0
    with lab.table().transaction() as transaction:
        transaction.set_properties({"theirs": "stays"})
    assert lab.run("drift", "-f", "orders.yaml").code == 0, "a property nobody declared is nobody's drift"
    with lab.table().update_schema() as update:
        update.rename_column("n", "m")
        update.add_column("extra", IntegerType())
    result = lab.run("drift", "-f", "orders.yaml")
    assert result.code == 2
    assert "sales.orders" in result.out
    assert "1 of 1 table drifted." in result.out


def test_drift_finds_tables_without_a_manifest_when_asked(lab: Lab) -> None:
    lab.apply([ID])
    foreign(lab)
    assert lab.run("drift", "-f", "orders.yaml").code == 0
    result = lab.run("drift", "-f", "orders.yaml", "--unmanaged")
    assert result.code == 2
    assert "sales.theirs" in result.out


def test_diff_exits_as_kubectl_does(lab: Lab) -> None:
    lab.apply([ID])
    assert lab.run("diff", "-f", "orders.yaml").code == 0
    lab.manifest([ID, NOTE])
    result = lab.run("diff", "-f", "orders.yaml")
    assert result.code == 1
    assert "+    - {name: note, type: string}" in result.out.splitlines()
    lab.manifest([ID, "name: x, type: nonsense"])
    assert lab.run("diff", "-f", "orders.yaml").code == 3
    assert lab.run("diff").code == 3, "usage errors are errors too"
    lab.manifest([ID], "catalogRef: {name: nowhere}")
    assert lab.run("diff", "-f", "orders.yaml").code == 3


def test_status_is_a_line_per_table(lab: Lab) -> None:
    lab.apply([ID], name="same")
    lab.manifest([ID], name="fresh")
    result = lab.ok("status", "-f", ".")
    lines = {line.split()[0]: line for line in result.out.splitlines() if line.startswith("sales.")}
    assert "no changes" in lines["sales.same"]
    assert "needs approval" in lines["sales.fresh"]


def test_show_a_live_table_and_a_plan_file(lab: Lab) -> None:
    path = lab.apply([ID])
    text = lab.ok("show", "sales.orders").out
    assert lab.table().metadata.table_uuid.__str__() in text
    lab.write("again.yaml", text)
    assert lab.run("plan", "-f", "again.yaml", "--detailed-exitcode").code == 0
    lab.manifest([ID, NOTE])
    written = lab.ok("plan", "-f", path, "--out", "plan.json")
    shown = lab.ok("show", "plan.json").out
    assert "+ note  string" in shown
    assert "laketable apply plan.json" in written.err


# ---------------------------------------------------------------- output for machines


def test_json_fits_its_published_schema(lab: Lab) -> None:
    lab.apply([ID], name="same")
    lab.manifest([ID, NOTE], "catalogRef: {name: nowhere}", name="lost")
    lab.manifest([ID, NOTE], name="fresh")
    result = lab.run("plan", "-f", ".", "--output", "json")
    assert result.code == 1
    document = result.json()
    jsonschema.validate(document, published("plan-report.schema.json"))
    verdicts = {table["table"]: table["verdict"] for table in document["tables"]}
    assert verdicts == {"sales.same": "no changes", "sales.lost": "failed", "sales.fresh": "needs approval"}
    document["tables"][0]["verdict"] = "perhaps"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, published("plan-report.schema.json"))


def test_a_plan_file_fits_its_published_schema(lab: Lab) -> None:
    lab.manifest([ID, NOTE])
    lab.ok("plan", "-f", "orders.yaml", "--out", "plan.json")
    jsonschema.validate(json.loads((lab.folder / "plan.json").read_text()), published("plan.schema.json"))


def test_sarif_points_to_the_column_in_the_file(lab: Lab) -> None:
    lab.apply([ID, NOTE])
    lab.manifest([ID, "name: remark, type: string"])
    result = lab.run("plan", "-f", "orders.yaml", "--output", "sarif")
    assert result.code == 3
    log = result.json()
    assert log["version"] == "2.1.0"
    (found,) = (r for r in log["runs"][0]["results"] if r["ruleId"] == "LK104")
    place = found["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "orders.yaml"
    lines = (lab.folder / "orders.yaml").read_text().splitlines()
    assert "remark" in lines[place["region"]["startLine"] - 1]


def test_apply_tells_machines_what_happened_line_by_line(lab: Lab) -> None:
    lab.manifest([ID])
    result = lab.ok("apply", "-f", "orders.yaml", "--auto-approve", "--output", "json")
    events = [json.loads(line) for line in result.out.splitlines()]
    assert [event["event"] for event in events] == ["started", "committed"]
    assert events[-1]["metadata_location"] == lab.location()


# ---------------------------------------------------------------- files: fmt, validate, approve, init


def test_fmt_keeps_comments_and_is_done_after_once(lab: Lab) -> None:
    path = lab.write("orders.yaml", EVERY_KIND)
    assert lab.run("fmt", "--check", "-f", path).code == 2
    assert path.read_text() == EVERY_KIND, "--check writes nothing"
    lab.ok("fmt", "-f", path)
    once = path.read_text()
    assert "# Comments stay." in once
    assert "# the order of keys does not" in once
    assert '{name: amount, type: "decimal(18,2)"}' in once
    assert lab.run("fmt", "--check", "-f", path).code == 0
    lab.ok("fmt", "-f", path)
    assert path.read_text() == once


def test_fmt_filters_standard_input(lab: Lab) -> None:
    result = lab.run("fmt", "-f", "-", stdin=EVERY_KIND.encode())
    assert result.code == 0
    assert "decimal(18,2)" in result.out


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["unix", "windows"])
def test_approve_keeps_every_other_byte(lab: Lab, newline: str) -> None:
    first = HEAD.format(name="first") + "  columns:   # all of them\n    - {name: id,   type: long}\n"
    second = "---\n# The second.\n" + EVERY_KIND.removesuffix("\n")
    path = lab.folder / "both.yaml"
    path.write_bytes((first + second).replace("\n", newline).encode())
    before = path.read_bytes()
    result = lab.ok("approve", "-f", path)
    assert result.out.count("approved sha256:") == 2
    lines = path.read_bytes().split(newline.encode())
    kept = [line for line in lines if b"approval" not in line and b"plan: " not in line and b"sha256:" not in line]
    assert newline.encode().join(kept).rstrip() == before.rstrip()
    lab.ok("apply", "-f", path)
    assert sorted(lab.columns()) == ["amount", "tags"]
    assert "nothing to approve" in lab.ok("approve", "-f", path).out


def test_approve_refuses_a_blocked_plan_and_standard_input(lab: Lab) -> None:
    lab.apply([ID, NOTE])
    path = lab.manifest([ID, "name: remark, type: string"])
    before = path.read_bytes()
    assert lab.run("approve", "-f", path).code == 3
    assert path.read_bytes() == before
    assert lab.run("approve", "-f", "-", stdin=before).code == 1


def test_validate_needs_no_catalog(lab: Lab) -> None:
    lab.manifest([ID], "catalogRef: {name: far-away}")
    assert lab.ok("validate", "-f", "orders.yaml").out == "Valid: 1 LakeTable.\n"
    lab.write("other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n")
    lab.ok("validate", "other.yaml", "orders.yaml")
    assert lab.run("validate", "-f", "other.yaml").code == 1, "named with -f it must be ours"


def test_init_starts_a_project_that_plans(lab: Lab) -> None:
    lab.write(".gitignore", "*.pyc")
    lab.ok("init")
    assert (lab.folder / ".gitignore").read_text() == "*.pyc\n.laketable/\n"
    assert lab.run("plan", "-f", "tables", "--detailed-exitcode").code == 2
    before = lab.state()
    assert lab.run("init").code == 1
    assert lab.state() == before


@pytest.mark.parametrize("names", [["-f", "t"], ["-f", "t/*.yaml"], ["-f", "t/a.yaml", "-f", "t/b.yaml"]])
def test_filenames_mean_what_they_mean_to_kubectl(lab: Lab, names: list[str]) -> None:
    lab.manifest([ID], name="a", file="t/a.yaml")
    lab.manifest([ID], name="b", file="t/b.yaml")
    lab.manifest([ID], name="c", file="t/deep/c.yaml")
    tables = lab.run("plan", *names, "--output", "json").json()["tables"]
    assert [table["table"] for table in tables] == ["sales.a", "sales.b"]


def test_recursion_and_standard_input(lab: Lab) -> None:
    lab.manifest([ID], name="c", file="t/deep/c.yaml")
    assert lab.run("plan", "-f", "t").code == 1
    assert "sales.c" in lab.ok("plan", "-R", "-f", "t").out
    text = (lab.folder / "t/deep/c.yaml").read_bytes()
    assert "sales.c" in lab.run("plan", "-f", "-", stdin=text + b"---\n" + text.replace(b"name: c", b"name: d")).out


# ---------------------------------------------------------------- help for people


@pytest.mark.parametrize("code", REGISTRY)
def test_every_code_is_explained(lab: Lab, code: str) -> None:
    text = lab.ok("explain", code.lower()).out
    assert text.startswith(f"# {code}: ")
    assert text.strip() == (ROOT / f"docs/findings/{code}.md").read_text().strip()


def test_explain_lists_all_codes(lab: Lab) -> None:
    listed = [line.split()[0] for line in lab.ok("explain").out.splitlines()]
    assert listed == list(REGISTRY)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_fits(lab: Lab, name: str) -> None:
    result = lab.ok(name, "--help")
    assert result.out.startswith(f"Usage: laketable {name}")
    assert max(map(len, result.out.splitlines())) <= 110


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(lab: Lab, shell: str) -> None:
    script = lab.ok("completion", shell).out
    assert "_LAKETABLE_COMPLETE" in script


def test_completion_completes_commands_and_options(lab: Lab) -> None:
    def complete(words: str, position: int) -> set[str]:
        environ = {"_LAKETABLE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(position)}
        lines = lab.process(environ=environ).out.splitlines()
        return {line.partition(",")[2] for line in lines}

    assert complete("laketable app", 1) == {"apply", "approve"}
    assert "--detailed-exitcode" in complete("laketable plan --det", 2)


def test_catalogs_lists_what_is_configured_without_secrets(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "embedded" in lab.ok("catalogs").out
    monkeypatch.setenv("PYICEBERG_CATALOG__FAR__URI", "http://ada:hunter2@127.0.0.1:9/")
    monkeypatch.setenv("PYICEBERG_CATALOG__FAR__CREDENTIAL", "ada:hunter2")
    result = lab.ok("catalogs")
    assert "far" in result.out
    assert "hunter2" not in result.out + result.err
    checked = lab.run("catalogs", "--check")
    assert checked.code == 1
    assert "Cannot reach the catalog" in checked.out
    assert "hunter2" not in checked.out + checked.err


def test_doctor_checks_every_part(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    result = lab.run("doctor")
    for part in ("Python", "Java", "PySpark", "catalog lake"):
        assert part in result.out
    monkeypatch.setenv("PYICEBERG_CATALOG__FAR__URI", "http://127.0.0.1:9/")
    assert lab.run("doctor").code == 1


def test_a_hidden_part_of_the_project_is_found_from_a_subfolder(lab: Lab) -> None:
    lab.apply([ID])
    inside = Path("deep/deeper")
    (lab.folder / inside).mkdir(parents=True)
    deep = Lab(lab.folder / inside)
    assert deep.run("plan", "-f", lab.folder / "orders.yaml", "--detailed-exitcode").code == 0


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
