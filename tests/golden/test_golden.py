"""What a reviewer sees, case by case: `current.yaml` and `desired.yaml` in, `changes.json` and `plan.txt` out.

A case without `current.yaml` has no table yet. `pytest --update-golden` rewrites the products; review them then.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from reconciler.dialects import dialect_for
from reconciler.diff.bind import bind
from reconciler.diff.diff import diff
from reconciler.model.desired import to_desired
from reconciler.model.documents import load_documents
from reconciler.model.manifest import LakeTable
from reconciler.model.table import DataFile, Desired, Observed
from reconciler.plan.constraints import needs_scan
from reconciler.plan.data import needs_files
from reconciler.plan.operations import Plan
from reconciler.plan.planner import plan
from reconciler.plan.policy import judge
from reconciler.plan.proofs import needs_data_files
from reconciler.plan.rewrites import needs_layouts
from reconciler.plan.type_changes import expand
from reconciler.render.report import Report
from reconciler.render.text import render_report
from tests.goldens import Golden

HERE = Path(__file__).parent
CASES = sorted(path.parent for path in HERE.glob("*/*/desired.yaml"))
NOW_MS = 1_800_000_000_000


class Current(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A live table and its data files, as a case writes them down."""

    table: Observed
    files: tuple[DataFile, ...] = ()


def read_current(case: Path) -> Current | None:
    path = case / "current.yaml"
    if not path.exists():
        return None
    return msgspec.convert(yaml.safe_load(path.read_text()), Current, str_keys=True)


def read_desired(case: Path) -> Desired:
    (document,) = load_documents((case / "desired.yaml").read_text(), "desired.yaml")
    assert isinstance(document.manifest, LakeTable)
    return to_desired(document.manifest, "demo")


def make_plan(case: Path) -> Plan:
    """Plan as the pipeline does: data files are given only when a change needs them."""
    desired, current = read_desired(case), read_current(case)
    live = current.table if current else None
    types = expand(desired, live, now_ms=NOW_MS)
    desired = types.desired
    binding = bind(desired, live, now_ms=NOW_MS)
    changes = diff(live.spec if live else None, binding.spec)
    needs_rows = needs_layouts(desired, live, binding.spec) or needs_data_files(changes)
    needs_rows = needs_rows or needs_files(desired, live) or needs_scan(desired, live) or bool(types.checks)
    files = current.files if current and needs_rows else None
    dialect = dialect_for(desired.format)
    return plan(desired, live, binding, changes, dialect=dialect, catalog="lake", files=files, types=types)


def printed(made: Plan) -> str:
    return msgspec.json.format(msgspec.json.encode(made.changes, order="deterministic"), indent=2).decode() + "\n"


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.parent.name}/{case.name}") for case in CASES])
def test_case(case: Path, golden: Golden) -> None:
    made = make_plan(case)
    decision = judge(made, (), approvals=frozenset(), auto_approve=False, now_ms=NOW_MS)
    golden.check_file(case / "changes.json", printed(made))
    golden.check_file(
        case / "plan.txt",
        render_report(Report.of(made, decision, source="desired.yaml"), width=110, color=False, info=True),
    )


def test_there_are_cases() -> None:
    assert len(CASES) >= 12
