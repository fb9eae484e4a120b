"""The registry, its pages, and suppressions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from reconciler.diff.problems import Problem, ProblemKind
from reconciler.model.documents import load_documents
from reconciler.model.table import Suppression
from reconciler.plan.findings import KINDS, REGISTRY, FindingKind, finding, finding_page, index_page, suppress
from reconciler.plan.operations import Finding, Severity
from reconciler.plan.unsettled import problem_finding
from tests.diff.tables import desired, wanted
from tests.goldens import Golden

DOCS = Path(__file__).parents[2] / "docs" / "findings"


def test_codes_are_unique_and_well_formed() -> None:
    assert len(REGISTRY) == len(KINDS)
    assert all(re.fullmatch(r"LK[1-6]\d\d", kind.code) for kind in KINDS)


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.code) for kind in KINDS])
def test_every_code_explains_itself(kind: FindingKind) -> None:
    assert kind.why.endswith(".")
    assert kind.fix.endswith(".")
    assert kind.before != kind.after
    if not kind.before.startswith("laketable "):
        assert isinstance(yaml.safe_load(kind.before), dict)
        assert isinstance(yaml.safe_load(kind.after), dict)


COLUMNS = [
    {"name": "order_id", "type": "long", "required": True},
    {"name": "line", "type": "int", "required": True},
    {"name": "ordered_at", "type": "timestamptz"},
]


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.code) for kind in KINDS])
def test_the_good_example_is_a_manifest(kind: FindingKind) -> None:
    if kind.after.startswith("laketable "):
        return
    stated = yaml.safe_load(kind.after)
    spec = stated if {"columns", "materializedView"} & stated.keys() else {"columns": COLUMNS, **stated}
    header = {"apiVersion": "laketable.dev/v1alpha1", "kind": "LakeTable"}
    manifest = {**header, "metadata": {"name": "orders", "namespace": "sales"}, "spec": spec}
    (document,) = load_documents(yaml.safe_dump(manifest), "example.yaml")
    assert document.kind == "LakeTable"


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.code) for kind in KINDS])
def test_pages_are_current(kind: FindingKind, golden: Golden) -> None:
    golden.check_file(DOCS / f"{kind.code}.md", finding_page(kind.code))


def test_index_is_current_and_complete(golden: Golden) -> None:
    page = index_page()
    assert all(f"[{kind.code}]({kind.code}.md)" in page for kind in KINDS)
    golden.check_file(DOCS / "README.md", page)


def test_no_page_outlives_its_code() -> None:
    assert {page.stem for page in DOCS.glob("LK*.md")} == set(REGISTRY)


@pytest.mark.parametrize("kind", list(ProblemKind))
def test_every_problem_becomes_a_finding(kind: ProblemKind) -> None:
    found = problem_finding(desired(wanted("a")), Problem(kind=kind, path=("a", "b"), before="x", after="y"))
    assert found.code in REGISTRY
    assert "{" not in found.message + found.hint
    assert found.hint


def test_suspected_rename_names_both_columns_and_the_line_to_add() -> None:
    problem = Problem(kind=ProblemKind.SUSPECTED_RENAME, path=("customer_ref",), before="cust_id", after="customer_ref")
    found = problem_finding(desired(), problem)
    assert found.code == "LK104"
    assert found.severity is Severity.ERROR
    assert "cust_id" in found.message
    assert "customer_ref" in found.message
    assert "`renamedFrom: cust_id`" in found.hint


DROPPED = finding("LK101", "Column orders.a is dropped.", path=("a",))
NESTED = finding("LK101", "Column orders.s.b is dropped.", path=("s", "b"))
NARROWED = finding("LK201", "Cannot narrow.", path=("a",))


def reasons(findings: tuple[Finding, ...]) -> list[tuple[str, str | None]]:
    return [(found.code, found.suppressed) for found in findings]


def test_suppression_marks_its_finding_and_no_other() -> None:
    found = suppress([DROPPED, NESTED], [Suppression(code="LK101", reason="unused", path=("a",))])
    assert reasons(found) == [("LK101", "unused"), ("LK101", None)]


def test_suppression_covers_what_lies_below_its_path() -> None:
    found = suppress([NESTED], [Suppression(code="LK101", reason="unused", path=("s",))])
    assert reasons(found) == [("LK101", "unused")]


def test_suppression_without_path_covers_the_table() -> None:
    found = suppress([DROPPED, NESTED], [Suppression(code="LK101", reason="unused")])
    assert reasons(found) == [("LK101", "unused"), ("LK101", "unused")]


def test_what_would_break_the_table_cannot_be_suppressed() -> None:
    found = suppress([NARROWED], [Suppression(code="LK201", reason="please")])
    assert reasons(found) == [("LK201", None), ("LK602", None)]
    assert found[0].is_blocking


@pytest.mark.parametrize(
    ("suppression", "code"),
    [
        pytest.param(Suppression(code="LK999", reason="x"), "LK602", id="unknown code"),
        pytest.param(Suppression(code="LK101", reason=" "), "LK602", id="no reason"),
        pytest.param(Suppression(code="LK103", reason="x"), "LK603", id="nothing to suppress"),
    ],
)
def test_a_suppression_without_effect_is_a_finding(suppression: Suppression, code: str) -> None:
    found = suppress([DROPPED], [suppression])
    assert found[0].suppressed is None
    assert [f.code for f in found[1:]] == [code]
