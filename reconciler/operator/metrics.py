"""What Prometheus is told. Every metric stands in `METRICS`, which the documentation and the dashboard are held to.

Labels are closed sets, but for the name of a view: its staleness is one gauge per view, and goes with it. Gauges about
resources are read from the store at each scrape, and only by the operator that holds the Lease.
"""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping

import msgspec
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from reconciler.operator.health import Health
from reconciler.operator.objects import Key
from reconciler.operator.reasons import STANDINGS, reason_of
from reconciler.operator.store import Store
from reconciler.plan.operations import OperationClass

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
OUTCOMES = ("done", "retry", "conflict", "error", "not-leading")
ADMISSION_OUTCOMES = ("admitted", "warned", "refused", "not-checked")
JOB_STATES = ("started", "succeeded", "failed")
CALLS = ("load", "list", "commit", "create-namespace", "drop-namespace", "rename", "drop")


class Definition(msgspec.Struct, frozen=True):
    """One metric: its kind, its labels and what it says."""

    kind: str
    doc: str
    labels: tuple[str, ...] = ()


METRICS: dict[str, Definition] = {
    "laketable_reconcile_seconds": Definition(
        "histogram",
        "How long one reconcile took, by how it ended: done, retry, conflict, error or not-leading.",
        ("kind", "outcome"),
    ),
    "laketable_queue_depth": Definition("gauge", "Resources that wait for their turn to be reconciled."),
    "laketable_queue_working": Definition("gauge", "Resources that are being reconciled."),
    "laketable_tables": Definition("gauge", "LakeTables by the phase in their status.", ("phase",)),
    "laketable_drifted_tables": Definition("gauge", "LakeTables whose table was changed behind the spec's back."),
    "laketable_plans_total": Definition("counter", "LakeTablePlans made, by class.", ("class",)),
    "laketable_plans_open": Definition("gauge", "LakeTablePlans neither carried out nor superseded.", ("class",)),
    "laketable_bytes_to_rewrite": Definition("gauge", "Bytes that the open plans would rewrite."),
    "laketable_rewritten_bytes_total": Definition("counter", "Bytes that published data operations have written."),
    "laketable_jobs_total": Definition("counter", "Data jobs that were started, succeeded or failed.", ("state",)),
    "laketable_jobs_running": Definition("gauge", "LakeTables on which a data job works."),
    "laketable_view_staleness_seconds": Definition(
        "gauge",
        "How long a materialized view has been known to lag behind its sources; 0 when it is fresh.",
        ("namespace", "name"),
    ),
    "laketable_catalog_call_seconds": Definition(
        "histogram",
        "How long calls to catalogs took; the outcome is ok, or the reason of the error.",
        ("call", "outcome"),
    ),
    "laketable_admission_seconds": Definition(
        "histogram",
        "How long the webhook took to answer, by what it said: admitted, warned, refused or not-checked.",
        ("kind", "outcome"),
    ),
    "laketable_lease_held": Definition("gauge", "1 while this operator holds the Lease and acts."),
    "laketable_ready": Definition("gauge", "1 while the readiness probe answers yes."),
    "laketable_watch_up": Definition("gauge", "1 while the watch of a kind is accepted.", ("resource",)),
    "laketable_watch_last_event_timestamp_seconds": Definition(
        "gauge", "When the watch of a kind last heard an event; 0 before the first.", ("resource",)
    ),
    "laketable_watch_restarts_total": Definition("counter", "How often the watches ended and were started again."),
}


class Metrics:
    """The counters of one operator."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a series more for each, of no use
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._reconciles = self._histogram("laketable_reconcile_seconds")
        self._calls = self._histogram("laketable_catalog_call_seconds")
        self._admissions = self._histogram("laketable_admission_seconds")
        self._plans = self._counter("laketable_plans_total")
        self._jobs = self._counter("laketable_jobs_total")
        self._rewritten = self._counter("laketable_rewritten_bytes_total")
        for name in OperationClass:  # what is counted from 0 on can be seen to rise
            self._plans.labels(name.value)
        for state in JOB_STATES:
            self._jobs.labels(state)

    def reconciled(self, key: Key, outcome: str, seconds: float) -> None:
        """Count one reconcile."""
        self._reconciles.labels(key.kind, outcome if outcome in OUTCOMES else "error").observe(seconds)

    def called(self, call: str, outcome: str, seconds: float) -> None:
        """Count one call to a catalog; on any thread."""
        self._calls.labels(call, outcome if outcome == "ok" else reason_of(outcome).value).observe(seconds)

    def admission(self, kind: str, outcome: str, seconds: float) -> None:
        """Count one answer of the webhook."""
        self._admissions.labels(kind, outcome if outcome in ADMISSION_OUTCOMES else "not-checked").observe(seconds)

    def planned(self, operation_class: OperationClass) -> None:
        """Count a LakeTablePlan that was made."""
        self._plans.labels(operation_class.value).inc()

    def job(self, state: str, written: int = 0) -> None:
        """Count a data job's start or end, and what it wrote."""
        self._jobs.labels(state).inc()
        self._rewritten.inc(written)

    def watch(self, gauges: Gauges) -> None:
        """Read these at each scrape too."""
        self._registry.register(gauges)

    def expose(self) -> bytes:
        """Print everything as Prometheus reads it."""
        return generate_latest(self._registry)

    def _histogram(self, name: str) -> Histogram:
        definition = METRICS[name]
        return Histogram(name, definition.doc, definition.labels, registry=self._registry, buckets=_SECONDS)

    def _counter(self, name: str) -> Counter:
        definition = METRICS[name]
        return Counter(name, definition.doc, definition.labels, registry=self._registry)


class Gauges(Collector):
    """What is read from the operator's parts when it is asked for."""

    def __init__(
        self, store: Store, health: Health, *, is_leading: Callable[[], bool], queue: Callable[[], tuple[int, int]]
    ) -> None:
        self._store = store
        self._health = health
        self._is_leading = is_leading
        self._queue = queue

    def describe(self) -> Iterable[Metric]:
        """Say nothing yet: the registry would read everything to learn the names."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Read everything."""
        health, leads = self._health, self._is_leading()
        depth, working = self._queue()
        yield _gauge("laketable_queue_depth", {(): depth if leads else 0})
        yield _gauge("laketable_queue_working", {(): working})
        yield _gauge("laketable_lease_held", {(): int(leads)})
        yield _gauge("laketable_ready", {(): int(not health.unready())})
        yield from self._watches()
        if leads:
            yield from self._resources()

    def _watches(self) -> Iterable[Metric]:
        health, now = self._health, self._health.clock()
        up: dict[tuple[str, ...], float] = {}
        heard: dict[tuple[str, ...], float] = {}
        for (plural, _), watch in sorted(health.watches.items()):
            place = (plural,)
            up[place] = min(up.get(place, 1.0), float(not watch.problem(now)))
            told = time.time() - (now - watch.heard_at) if watch.heard_at else 0.0
            heard[place] = max(heard.get(place, 0.0), told)
        yield _gauge("laketable_watch_up", up)
        yield _gauge("laketable_watch_last_event_timestamp_seconds", heard)
        restarts = METRICS["laketable_watch_restarts_total"]
        yield CounterMetricFamily("laketable_watch_restarts_total", restarts.doc, value=health.watch_restarts)

    def _resources(self) -> Iterable[Metric]:
        tables, now_ms = list(self._store.tables.values()), time.time_ns() // 1_000_000
        phases = Tally(table.phase for table in tables)
        known = sorted({standing.phase for standing in STANDINGS.values()})
        yield _gauge("laketable_tables", {(phase,): phases.get(phase, 0) for phase in known})
        yield _gauge("laketable_drifted_tables", {(): sum(table.drift > 0 for table in tables)})
        yield _gauge("laketable_jobs_running", {(): sum(table.is_working for table in tables)})
        stale: dict[tuple[str, ...], float] = {
            (table.key.namespace, table.key.name): max(0.0, now_ms - table.stale_since) / 1000
            if table.stale_since
            else 0.0
            for table in tables
            if table.stale_since is not None
        }
        yield _gauge("laketable_view_staleness_seconds", stale)
        plans = self._store.open_plans()
        classes = Tally(plan.operation_class for plan in plans)
        yield _gauge("laketable_plans_open", {(name.value,): classes.get(name.value, 0) for name in OperationClass})
        yield _gauge("laketable_bytes_to_rewrite", {(): sum(plan.bytes for plan in plans)})


def _gauge(name: str, values: Mapping[tuple[str, ...], float]) -> Metric:
    definition = METRICS[name]
    family = GaugeMetricFamily(name, definition.doc, labels=definition.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family
