from pathlib import Path

import jsonschema
import msgspec

from reconciler.errors import CatalogUnavailable
from reconciler.plan.operations import Plan
from reconciler.render.json import PlanReport, render_json, schema_page
from reconciler.render.report import Report
from tests.goldens import Golden
from tests.render import samples
from tests.render.samples import HASH, decision, plan

REPORTS = [
    Report.of(samples.manual(), decision("needs-approval", "why"), source="orders.yaml:3"),
    Report.of(samples.blocked(), decision("deny")),
    Report.of(samples.created(), decision("allow")),
    Report.of(plan(), decision("allow")),
    Report.failed("sales.lost", CatalogUnavailable("The catalog does not answer.")),
]


SCHEMA = Path(__file__).resolve().parents[2] / "docs/schemas/plan-report.schema.json"


def json_schema() -> dict[str, object]:
    schema: dict[str, object] = msgspec.json.decode(schema_page())
    return schema


def test_the_published_schema_is_current(golden: Golden) -> None:
    golden.check_file(SCHEMA, schema_page())


def test_fits_its_published_schema() -> None:
    document = msgspec.json.decode(render_json(REPORTS))
    jsonschema.validate(document, json_schema(), cls=jsonschema.Draft202012Validator)
    document["tables"][0]["verdict"] = "maybe"
    assert not jsonschema.Draft202012Validator(json_schema()).is_valid(document)


def test_says_what_a_machine_would_have_to_work_out() -> None:
    first, blocked, _, unchanged, failed = msgspec.json.decode(render_json(REPORTS))["tables"]
    assert first["verdict"] == "needs approval"
    assert first["operation_class"] == "rewrite"
    assert first["breaking"] is True
    assert first["hash"] == HASH
    assert first["cost"]["files_rewritten"] == 1_204
    assert first["source"] == "orders.yaml:3"
    assert blocked["verdict"] == "blocked"
    assert (unchanged["verdict"], unchanged["hash"], unchanged["operation_class"]) == ("no changes", "", "")
    assert (failed["plan"], failed["error_reason"]) == (None, "CatalogUnavailable")


def test_the_plans_come_back_whole() -> None:
    tables = msgspec.json.decode(render_json(REPORTS), type=PlanReport).tables
    plans: list[Plan | None] = [table.plan for table in tables]
    assert plans == [report.plan for report in REPORTS]


def test_a_file_name_that_is_not_utf8_is_spelled_out() -> None:
    odd = b"orders-\xff.yaml".decode("utf-8", "surrogateescape")
    (table,) = msgspec.json.decode(render_json([Report.of(plan(), source=odd)]))["tables"]
    assert table["source"] == r"orders-\udcff.yaml"
