"""The reasons of the conditions: one list, of which every error and every page speaks."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from reconciler import errors
from reconciler.operator.command import run_command
from reconciler.operator.reasons import STANDINGS, Reason, reason_of
from tests.goldens import Golden

ROOT = Path(__file__).parents[2]


def test_every_reason_has_a_standing_and_never_two_states_at_once() -> None:
    assert set(STANDINGS) == set(Reason)
    for reason, standing in STANDINGS.items():
        assert standing.is_ready + standing.is_reconciling + standing.is_stalled <= 1, reason
        assert standing.doc.endswith(".")


def _error_reasons() -> set[str]:
    """Read `reason = "…"` of every class of the package, adapters included, from its source."""
    found = set()
    for path in (ROOT / "reconciler").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                for part in node.body:
                    if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "reason":
                        assert isinstance(part.value, ast.Constant)
                        found.add(str(part.value.value))
    return found


def test_every_error_has_its_reason_in_the_list() -> None:
    found = _error_reasons()
    assert {"CatalogUnavailable", "AccessDenied", "PublishConflict"} <= found
    # inside the splicing engine; and when nothing may be written: never told
    assert found - {reason.value for reason in Reason} <= {"BadFooter", "NotLeading"}
    assert reason_of("NobodyListedThis") is Reason.INTERNAL
    assert reason_of(errors.Throttled.reason) is Reason.THROTTLED


def reasons_page() -> str:
    """Print the runbook's table of reasons."""
    lines = [
        "# Reasons of the conditions",
        "",
        "Generated from `reconciler/operator/reasons.py`. `Ready`, `Reconciling` and `Stalled` of every resource carry",
        "one of these, and none other. What to do about each: [runbook](runbook.md).",
        "",
        "| Reason | Phase | Ready | Reconciling | Stalled | Meaning |",
        "|---|---|---|---|---|---|",
    ]
    for reason, standing in STANDINGS.items():
        states = (standing.is_ready, standing.is_reconciling, standing.is_stalled)
        anchor = f"[`{reason}`](runbook.md#{reason.lower()})"
        lines.append(f"| {anchor} | {standing.phase} | {' | '.join(map(str, states))} | {standing.doc} |")
    return "\n".join(lines) + "\n"


def test_the_page_of_reasons_is_current(golden: Golden) -> None:
    golden.check_file(ROOT / "docs" / "operator-reasons.md", reasons_page())


def test_the_runbook_says_of_every_reason_what_to_do() -> None:
    page = (ROOT / "docs" / "runbook.md").read_text()
    sections = re.findall(r"^## (\w+)\n(.+?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in sections] == [reason.value for reason in STANDINGS]
    for name, text in sections:
        assert len(text.split()) >= 3 or text.strip() == "Nothing to do.", name
    named = set(re.findall(r"--[a-z-]+", re.sub(r"`kubectl [^`]*`", "", page)))  # kubectl's own options are its own
    assert named <= {option for found in run_command.params for option in found.opts}
