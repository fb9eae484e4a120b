import re

import msgspec
import pytest

from reconciler.diff.changes import AddColumn, AlterColumnDoc
from reconciler.errors import CatalogUnavailable
from reconciler.model.table import TableIdent
from reconciler.model.types import Field
from reconciler.plan.operations import Finding, Operation, OperationClass, OperationKind, Plan, Severity
from reconciler.plan.policy import Decision
from reconciler.render.report import Report, Verdict
from reconciler.render.safe import display_width
from reconciler.render.text import render_report, render_summary
from tests.goldens import Golden
from tests.render import samples
from tests.render.samples import ADD, DROP, HASH, PROPERTY, RENAME, WIDEN, decision, note, plan

ANSI = re.compile(r"\x1b\[[0-9;]*m")
WAITING = decision("needs-approval", "LakePolicy gold lets no rewrite plan pass without approval of its hash.")
UPKEEP = Operation(
    id="0" * 16,
    kind=OperationKind.MAINTAIN,
    summary="claim the table for sales/orders",
    operation_class=OperationClass.METADATA_ONLY,
)
CASES: dict[str, tuple[Plan, Decision | None, int]] = {
    "manual": (samples.manual(), WAITING, 140),
    "manual-80": (samples.manual(), WAITING, 80),
    "manual-60": (samples.manual(), WAITING, 60),
    "blocked": (samples.blocked(), None, 100),
    "created": (samples.created(), decision("allow"), 100),
    "wide": (
        samples.wide(),
        decision("needs-approval", f"Destructive operations need the approval of exactly this plan: {HASH}."),
        100,
    ),
    "denied": (plan(DROP), decision("deny", "LakePolicy gold denies drop-column. Ask the data office."), 100),
    "empty": (plan(upkeep=(UPKEEP,)), decision("allow"), 100),
}


def show(made: Plan, judged: Decision | None = None, *, width: int = 100, color: bool = False, **more: object) -> str:
    report = Report.of(made, judged, source="orders.yaml:3")
    return render_report(report, width=width, color=color, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CASES)
def test_reads_as_reviewed(golden: Golden, name: str) -> None:
    made, judged, width = CASES[name]
    golden.check(f"render/{name}.txt", show(made, judged, width=width))


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_keeps_within_the_width_but_leaves_commands_whole(width: int) -> None:
    for line in show(samples.manual(), WAITING, width=width).splitlines():
        if "laketable " not in line:
            assert display_width(line) <= width, line


def test_a_narrow_terminal_hides_nothing_but_the_spaces() -> None:
    for width in (10, 60, 80):
        words = re.sub(r"\s", "", show(samples.blocked(), width=width))
        for needed in ("renamedFrom:cust_id", "wasstring,field7", "nobodyreadsitsince2024"):
            assert needed in words


def test_below_the_narrowest_layout_the_terminal_wraps() -> None:
    assert show(samples.manual(), WAITING, width=10) == show(samples.manual(), WAITING, width=60)


def test_colour_adds_codes_and_changes_no_text() -> None:
    plain, coloured = show(samples.manual(), WAITING), show(samples.manual(), WAITING, color=True)
    assert "\x1b" not in plain
    assert "\x1b[35mrewrite" in coloured
    assert ANSI.sub("", coloured) == plain


def test_a_drop_is_red() -> None:
    assert "\x1b[31m- payload.ip\x1b[0m" in show(plan(DROP), color=True)


def test_hostile_names_cannot_act_on_the_terminal() -> None:
    evil = "x\x1b[2K\x1b[1A\u202e\n  No changes."
    made = msgspec.structs.replace(
        plan(
            note(AddColumn(parent=(evil,), field=Field(id=-1, name=evil, required=False, type="string"), after=evil)),
            note(AlterColumnDoc(path=(evil,), field_id=3, before=evil, after=evil), evidence=evil),
            table=TableIdent((evil,), evil),
            findings=(
                Finding(code="LK104", severity=Severity.ERROR, path=(evil,), message=evil, hint=evil),
                Finding(code="LK302", severity=Severity.WARNING, message=evil, hint=evil),
                Finding(code="LK401", severity=Severity.WARNING, message=evil, suppressed=evil),
            ),
        ),
        catalog=evil,
        owner=evil,
    )
    judged = decision("deny", evil)
    text = render_report(Report.of(made, judged, source=f"{evil}.yaml:3"), width=300, color=False)
    assert all(character == "\n" or character.isprintable() for character in text)
    assert not any(line.startswith("  No changes.") for line in text.splitlines())
    assert r"\x1b[2K" in text


def test_a_collapse_counts_what_it_hides_and_keeps_the_drop() -> None:
    text = show(samples.wide(900, drops=2))
    assert "~ columns: 898 metadata-only, 2 destructive, breaking" in text
    assert "- gone2" in text
    assert "… and 880 more (--output json shows all)" in text
    assert text.count("+ c0") == 18
    assert "more" not in show(samples.wide(20))


def test_the_limit_is_the_callers() -> None:
    assert show(samples.wide(900), limit=1_000).count("+ c0") == 899


def test_info_is_shown_on_request() -> None:
    assert "LK603" not in show(samples.blocked())
    assert "LK603 info: The suppression of LK101 matches nothing." in show(samples.blocked(), info=True)


def test_the_whole_hash_is_there_to_be_approved_only_while_it_waits() -> None:
    assert f"--approve {HASH}" in show(samples.manual(), WAITING)
    assert HASH not in show(samples.manual(), decision("allow"))
    assert HASH not in show(samples.blocked())


def test_a_file_name_is_quoted_for_the_shell() -> None:
    text = render_report(
        Report.of(plan(WIDEN), decision("allow"), source="my tables/$(x).yaml:3:1"), width=100, color=False
    )
    assert "Next: laketable apply -f 'my tables/$(x).yaml'\n" in text


@pytest.mark.parametrize(
    ("made", "outcome", "verdict"),
    [
        (plan(), "allow", Verdict.UNCHANGED),
        (plan(), "deny", Verdict.DENIED),
        (plan(WIDEN), "allow", Verdict.ALLOWED),
        (plan(WIDEN), "needs-approval", Verdict.WAITING),
        (plan(WIDEN), "", Verdict.WAITING),
        (plan(WIDEN), "deny", Verdict.DENIED),
        (samples.blocked(), "allow", Verdict.BLOCKED),
    ],
)
def test_verdicts(made: Plan, outcome: str, verdict: Verdict) -> None:
    assert Report.of(made, decision(outcome) if outcome else None).verdict is verdict


def test_a_failure_is_its_one_line() -> None:
    error = CatalogUnavailable("The catalog does not answer.", where="lake", hint="Check its uri.")
    text = render_report(Report.failed("sales.orders", error), width=100, color=False)
    assert text == "LakeTable sales.orders\nFailed: lake: The catalog does not answer. Check its uri.\n"


def test_summary_of_several_tables(golden: Golden) -> None:
    reports = [
        Report.of(samples.manual(), WAITING, source="orders.yaml:1"),
        Report.of(plan(RENAME, ADD, table=TableIdent(("sales",), "customers")), decision("allow")),
        Report.of(samples.blocked(), source="blocked.yaml:1"),
        Report.of(plan(), decision("allow")),
        Report.failed("sales.lost", CatalogUnavailable("The catalog does not answer.", hint="Check its uri.")),
    ]
    golden.check("render/summary.txt", render_summary(reports, width=120, color=False))


def test_summary_of_nothing_to_do() -> None:
    text = render_summary([Report.of(plan(), decision("allow"))] * 3, width=100, color=False)
    assert text == "No changes. 3 tables, as the manifests say.\n"


def test_empty_plan_with_warning_still_says_it() -> None:
    warning = Finding(code="LK601", severity=Severity.WARNING, path=("debug",), message="Nobody manages it.")
    text = show(plan(findings=(warning,)), decision("allow"))
    assert "LK601 warning: debug: Nobody manages it." in text
    assert text.endswith("No changes. The table is what the manifest says.\n")


def test_ten_thousand_changes_render_fast_enough_to_read() -> None:
    assert len(show(samples.wide(10_000))) < 5_000
    assert len(show(plan(*[PROPERTY] * 10_000))) < 5_000
