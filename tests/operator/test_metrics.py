"""Metrics, logs: what is told is what is documented, in closed sets of words, and never a secret."""

from __future__ import annotations

import json
import logging
import re
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from reconciler.operator.health import Health
from reconciler.operator.logs import JsonLines, Lines, about_plan, about_resource
from reconciler.operator.metrics import METRICS, Gauges, Metrics
from reconciler.operator.objects import TABLES, Json, Key, print_time
from reconciler.operator.reasons import EventReason
from reconciler.operator.store import Store, plan_entry
from reconciler.plan.operations import OperationClass
from tests.goldens import Golden

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "charts" / "laketable" / "files" / "dashboard.json"
_NAME = re.compile(r"\blaketable_[a-z_]+")
_PARTS = ("_bucket", "_count", "_sum")


def lake_table(name: str, phase: str, *, drift: int = 0, fresh: str = "", since_ms: int = 0) -> Json:
    condition: Json = {"type": "Fresh", "status": fresh, "lastTransitionTime": print_time(since_ms)}
    status: Json = {"phase": phase, "conditions": [condition] if fresh else [], "drift": drift}
    return {
        "metadata": {"name": name, "namespace": "sales", "uid": name, "resourceVersion": "1"},
        "spec": {"materializedView": {}} if fresh else {},
        "status": status,
    }


def lake_plan(name: str, phase: str, rewritten: int) -> Json:
    return {
        "metadata": {"name": name, "namespace": "sales", "uid": name, "resourceVersion": "1"},
        "spec": {
            "tableRef": {"name": "orders"},
            "class": "rewrite",
            "operations": [{"bytesToRewrite": rewritten}, {"bytesToRewrite": rewritten}],
        },
        "status": {"phase": phase},
    }


class Told:
    """An operator's metrics, and what they are read from."""

    def __init__(self) -> None:
        self.store, self.health, self.is_leading = Store(), Health(), True
        self.metrics = Metrics()
        self.metrics.watch(
            Gauges(self.store, self.health, is_leading=lambda: self.is_leading, queue=lambda: (3, 2)),
        )

    def read(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """Return every sample, as Prometheus would; labels in their alphabet's order."""
        families = text_string_to_metric_families(self.metrics.expose().decode())
        samples = [sample for family in families for sample in family.samples]
        return {(s.name, tuple(s.labels[label] for label in sorted(s.labels))): s.value for s in samples}


@pytest.fixture
def told() -> Told:
    return Told()


def test_tables_plans_and_views_are_counted_while_they_are_there(told: Told) -> None:
    hour_ago = time.time_ns() // 1_000_000 - 3_600_000
    told.store.put_table(lake_table("orders", "InSync"))
    told.store.put_table(lake_table("customers", "Drifted", drift=2))
    told.store.put_table(lake_table("stale", "InSync", fresh="False", since_ms=hour_ago))
    told.store.put_table(lake_table("fresh", "InSync", fresh="True", since_ms=hour_ago))
    told.store.put_plan(plan_entry(lake_plan("waiting", "Pending", 100)))
    told.store.put_plan(plan_entry(lake_plan("done", "Applied", 1000)))
    seen = told.read()
    assert seen["laketable_tables", ("InSync",)] == 3
    assert seen["laketable_tables", ("Drifted",)] == 1
    assert seen["laketable_tables", ("AwaitingApproval",)] == 0
    assert seen["laketable_drifted_tables", ()] == 1
    assert 3_600 <= seen["laketable_view_staleness_seconds", ("stale", "sales")] < 3_660
    assert seen["laketable_view_staleness_seconds", ("fresh", "sales")] == 0
    assert ("laketable_view_staleness_seconds", ("orders", "sales")) not in seen
    assert seen["laketable_plans_open", ("rewrite",)] == 1
    assert seen["laketable_bytes_to_rewrite", ()] == 200

    told.store.drop_table(Key(TABLES.kind, "sales", "stale"))
    assert ("laketable_view_staleness_seconds", ("stale", "sales")) not in told.read()


def test_only_the_one_that_acts_tells_of_resources(told: Told) -> None:
    told.store.put_table(lake_table("orders", "InSync"))
    assert told.read()["laketable_lease_held", ()] == 1
    told.is_leading = False
    seen = told.read()
    assert seen["laketable_lease_held", ()] == 0
    assert not [name for name, _ in seen if name.startswith(("laketable_tables", "laketable_plans_open"))]


def test_watches_tell_whether_they_live_and_when_they_last_heard(told: Told) -> None:
    told.health.expect("laketables", "a")
    told.health.expect("laketables", "b")
    told.health.accepted("laketables", "a")
    assert told.read()["laketable_watch_up", ("laketables",)] == 0, "one of two namespaces is not watched yet"
    told.health.accepted("laketables", "b")
    assert told.read()["laketable_watch_up", ("laketables",)] == 1
    assert told.read()["laketable_watch_last_event_timestamp_seconds", ("laketables",)] == 0
    told.health.heard("laketables", "b")
    heard = told.read()["laketable_watch_last_event_timestamp_seconds", ("laketables",)]
    assert abs(heard - time.time()) < 60


def test_words_from_outside_do_not_become_labels(told: Told) -> None:
    told.metrics.reconciled(Key(TABLES.kind, "sales", "orders"), "s3cr3t", 0.1)
    told.metrics.called("commit", "s3cr3t", 0.1)
    told.metrics.called("commit", "CommitConflict", 0.1)
    seen = told.read()
    assert "s3cr3t" not in str(seen)
    assert seen["laketable_reconcile_seconds_count", ("LakeTable", "error")] == 1
    assert seen["laketable_catalog_call_seconds_count", ("commit", "Internal")] == 1
    assert seen["laketable_catalog_call_seconds_count", ("commit", "CommitConflict")] == 1


def test_everything_that_is_told_is_defined_and_the_other_way_round(told: Told) -> None:
    """The positive control: each metric is told once everything has happened once."""
    told.store.put_table(lake_table("stale", "InSync", fresh="False"))
    told.health.expect("laketables", "")
    told.metrics.reconciled(Key(TABLES.kind, "sales", "orders"), "done", 0.1)
    told.metrics.called("load", "ok", 0.1)
    told.metrics.admission(TABLES.kind, "refused", 0.1)
    told.metrics.planned(OperationClass.REWRITE)
    told.metrics.job("succeeded", 12)
    assert told.read()["laketable_rewritten_bytes_total", ()] == 12
    families = list(text_string_to_metric_families(told.metrics.expose().decode()))
    ours = {family.name: family for family in families if family.name.startswith("laketable_")}
    names = {f"{name}_total" if family.type == "counter" else name for name, family in ours.items()}
    assert names == set(METRICS)
    for name, definition in METRICS.items():
        family = ours[name.removesuffix("_total")]
        assert (family.type, family.documentation) == (definition.kind, definition.doc)
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert labels == set(definition.labels), name


def test_every_metric_of_the_dashboard_exists_and_each_is_on_it() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    shown = set()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            for name in _NAME.findall(target["expr"]):
                base = next((name.removesuffix(part) for part in _PARTS if name.endswith(part)), name)
                is_histogram = METRICS.get(base) is not None and METRICS[base].kind == "histogram"
                shown.add(base if is_histogram else name)
    assert shown == set(METRICS)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            known = {label for name in METRICS if name in target["expr"] for label in METRICS[name].labels}
            assert labels <= known, panel["title"]


def metrics_page() -> str:
    lines = [
        "# Metrics of the operator",
        "",
        "Generated from `reconciler/operator/metrics.py`. `/metrics` of `--listen` (in the chart: port 8080) has them,",
        "and `process_*` beside them. Gauges about resources come only from the operator that holds the Lease.",
        "",
        "| Metric | Kind | Labels | What it says |",
        "|---|---|---|---|",
    ]
    for name, definition in METRICS.items():
        labels = ", ".join(f"`{label}`" for label in definition.labels) or "–"
        lines.append(f"| `{name}` | {definition.kind} | {labels} | {definition.doc} |")
    return "\n".join(lines) + "\n"


def test_the_page_of_metrics_is_current(golden: Golden) -> None:
    golden.check_file(ROOT / "docs" / "operator-metrics.md", metrics_page())


# ---------------------------------------------------------------- logs


def a_record(message: str, *, error: BaseException | None = None) -> logging.LogRecord:
    info = (type(error), error, None) if error is not None else None
    return logging.LogRecord("laketable.operator", logging.WARNING, "file", 1, message, (), info)


def test_a_line_names_what_it_is_about() -> None:
    about_resource("LakeTable sales/orders")
    about_plan("sha256:9f3c")
    line = json.loads(JsonLines().format(a_record("first\nsecond")))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "laketable.operator",
        "resource": "LakeTable sales/orders",
        "plan": "sha256:9f3c",
        "message": "first second",
    }
    assert (
        Lines().format(a_record("said")).endswith("WARNING laketable.operator LakeTable sales/orders sha256:9f3c said")
    )
    about_resource("")
    assert "resource" not in json.loads(JsonLines().format(a_record("said")))


@pytest.mark.parametrize("formatter", [Lines(), JsonLines()], ids=["text", "json"])
def test_the_text_of_a_foreign_exception_is_not_printed(formatter: logging.Formatter) -> None:
    printed = formatter.format(a_record("it failed", error=ValueError("s3cr3t")))
    assert "s3cr3t" not in printed
    assert "it failed (ValueError)" in printed


def test_every_reason_of_an_event_is_documented_and_written_somewhere() -> None:
    page = (ROOT / "docs" / "operator.md").read_text()
    (_, listed) = page.split("Kubernetes events about a LakeTable have one of these reasons:")
    assert set(re.findall(r"`(\w+)`", listed.split("\n\n")[0])) == {reason.value for reason in EventReason}
    sources = "".join(path.read_text() for path in (ROOT / "reconciler" / "operator").glob("*.py"))
    assert [reason.name for reason in EventReason if f"EventReason.{reason.name}" not in sources] == []
