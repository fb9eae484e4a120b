import re

import msgspec
import pytest

from reconciler.diff.changes import AddColumn
from reconciler.errors import CatalogUnavailable
from reconciler.model.table import TableIdent
from reconciler.model.types import Field
from reconciler.plan.operations import Finding, Plan, Severity
from reconciler.render.markdown import LIMIT, MARKER, render_comment
from reconciler.render.report import Report
from tests.goldens import Golden
from tests.render import samples
from tests.render.samples import DROP, HASH, WIDEN, decision, note, plan

WAITING = decision("needs-approval", "LakePolicy gold lets no rewrite plan pass without approval of its hash.")
FENCED = re.compile(r"^(`{3,})[a-z]*\n.*?^\1$", re.DOTALL | re.MULTILINE)


def many(number: int, columns: int) -> list[Report]:
    reports = []
    for i in range(number):
        made = msgspec.structs.replace(
            samples.wide(columns), table=TableIdent(("sales",), f"t{i:04}"), hash=f"sha256:{i:064x}"
        )
        reports.append(Report.of(made, WAITING, source=f"tables/t{i:04}.yaml:1"))
    return reports


def test_reads_as_reviewed(golden: Golden) -> None:
    reports = [
        Report.of(samples.manual(), WAITING, source="orders.yaml:3"),
        Report.of(samples.blocked(), source="blocked.yaml:1"),
        Report.of(samples.wide(40), WAITING, source="wide.yaml:1"),
        Report.of(plan(WIDEN), decision("allow"), source="widen.yaml:1"),
        Report.of(plan(), decision("allow")),
        Report.failed("sales.lost", CatalogUnavailable("The catalog does not answer.", hint="Check its uri.")),
    ]
    golden.check("render/comment.md", render_comment(reports))


def test_starts_with_the_marker_once() -> None:
    text = render_comment([Report.of(samples.manual(), WAITING)])
    assert text.startswith(MARKER + "\n")
    assert text.count(MARKER) == 1


def test_gives_the_lines_to_commit_only_while_it_waits() -> None:
    line = f'approval: {{plan: "{HASH}"}}'
    assert line in render_comment([Report.of(samples.manual(), WAITING)])
    assert line not in render_comment([Report.of(samples.manual(), decision("allow"))])
    assert line not in render_comment([Report.of(samples.blocked())])
    assert line not in render_comment([Report.of(plan(DROP), decision("deny", "never"))])


def test_nothing_to_do() -> None:
    text = render_comment([Report.of(plan(), decision("allow"))])
    assert "No changes: 1 table" in text
    assert "| table |" not in text


def test_a_long_plan_is_folded_and_a_short_one_is_not() -> None:
    assert "<details>" in render_comment([Report.of(samples.wide(40), WAITING)])
    assert "<details>" not in render_comment([Report.of(plan(WIDEN), WAITING)])


@pytest.mark.parametrize(
    ("number", "columns"), [(1, 10_000), (60, 100), (150, 900)], ids=["one-huge", "sixty", "hundred-fifty"]
)
def test_stays_below_the_limit_and_loses_no_hash(number: int, columns: int) -> None:
    text = render_comment(many(number, columns))
    assert len(text) <= LIMIT
    for i in range(number):
        assert f"sha256:{i:064x}" in text
        assert f"sales.t{i:04}" in text


def test_a_thousand_tables_still_fit_and_the_comment_says_what_is_left_out() -> None:
    text = render_comment(many(2_000, 1))
    assert len(text) <= LIMIT
    assert re.search(r"… and [\d,]+ more tables: `laketable plan --output json` shows all", text)
    assert "2,000 need approval" in text


def test_sections_that_do_not_fit_are_counted_too() -> None:
    text = render_comment(many(2_000, 1))
    rows = len(re.findall(r"^\| `sales\.t", text, re.MULTILINE))
    hashes = len(re.findall(r'plan: "sha256:[0-9a-f]{64}"', text))
    assert 0 < hashes < rows < 2_000
    assert f"{rows - hashes:,} approval hashes did not fit here" in text


def test_names_and_findings_that_grow_when_escaped_stay_below_the_limit_too() -> None:
    noisy = tuple(
        Finding(code="LK601", severity=Severity.WARNING, message="<" * 5_000, hint="|" * 5_000) for _ in range(99)
    )
    reports = []
    for i in range(300):
        made = plan(*([WIDEN] if i % 2 else []), table=TableIdent(("s",), "<" * 500 + str(i)), findings=noisy)
        reports.append(Report.of(made, decision("needs-approval", *["&" * 5_000] * 50)))
        reports.append(Report.failed("<" * 5_000, CatalogUnavailable("<" * 50_000)))
    assert len(render_comment(reports)) <= LIMIT


EVIL = "x|y` ```\n```\n@octocat #1 <img src=x onerror=y> <!-- laketable:plan --> [a](http://e) \x1b[2K\u202e"


def hostile() -> Plan:
    field = Field(id=-1, name=EVIL, required=False, type="string")
    made = plan(
        note(AddColumn(parent=(), field=field, after=EVIL), evidence=EVIL),
        table=TableIdent(("sales",), EVIL),
        findings=(Finding(code="LK601", severity=Severity.WARNING, path=(EVIL,), message=EVIL, hint=EVIL),),
    )
    return msgspec.structs.replace(made, catalog=EVIL, owner=EVIL)


def test_hostile_names_stay_text() -> None:
    reports = [
        Report.of(hostile(), decision("needs-approval", EVIL), source=f"{EVIL}.yaml:1"),
        Report.failed(EVIL, CatalogUnavailable(EVIL, hint=EVIL), source=EVIL),
        Report.of(msgspec.structs.replace(plan(), table=TableIdent(("sales",), EVIL)), decision("allow")),
    ]
    text = render_comment(reports)
    outside = FENCED.sub("", text)
    assert "@octocat" not in outside
    assert not re.search(r"(?<!&)#\d", outside)
    assert "<img" not in outside
    assert outside.count("<!--") == 1
    assert "](http" not in outside
    assert "\x1b" not in text
    assert "\u202e" not in text
    for row in (line for line in outside.splitlines() if line.startswith("|")):
        assert row.count("|") == 7, row


def test_the_injection_test_can_fail() -> None:
    assert FENCED.sub("", "```text\n@a\n```\n@octocat") == "\n@octocat"
