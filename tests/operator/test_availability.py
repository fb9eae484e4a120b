"""Two operators, and outages of what they depend on: one acts, probes tell the truth, and all recover without help."""

from __future__ import annotations

import itertools
import json
import signal
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.catalogs.connection import explicit
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.model.bookkeeping import read
from reconciler.model.table import TableIdent
from reconciler.operator.context import epoch_ms
from reconciler.operator.objects import read_time
from tests.kube.cluster import Cluster, free_port, running_cluster
from tests.kube.operator import (
    NAMESPACE,
    PATIENCE,
    Operator,
    catalog,
    condition,
    eventually,
    install,
    metrics,
    running_operator,
    table,
    wait_for,
)
from tests.proxy import Fault, FaultProxy, Recorded

LEASE_SECONDS = 6
_NUMBERS = itertools.count(1)
_WATCH, _LEASES = "watch=true", "/leases"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a cluster of its own: nobody else's operator is to hold the Lease, and it is stopped again and again."""
    with running_cluster(tmp_path_factory.mktemp("availability")) as made:
        install(made)
        yield made


@pytest.fixture(scope="module")
def kubeconfig(server: Cluster) -> Path:
    return server.service_account(NAMESPACE, "laketable-operator")


@pytest.fixture
def place(server: Cluster, sqlite_catalog: dict[str, str], request: pytest.FixtureRequest) -> str:
    """Make a namespace with a catalog for one test."""
    name = f"{str(request.node.name).replace('_', '-')[5:45].strip('-')}-{next(_NUMBERS)}"
    server.create_namespace(name)
    server.apply(catalog("lake", name, sqlite_catalog))
    return name


@pytest.fixture
def proxy(server: Cluster) -> Iterator[FaultProxy]:
    with FaultProxy(server.server, ssl._create_unverified_context()) as made:
        yield made


def through(proxy: FaultProxy, kubeconfig: Path, folder: Path) -> Path:
    """Return the kubeconfig of an operator whose requests all pass a proxy."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"] = {"server": proxy.uri.rstrip("/")}
    path = folder / "proxied.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def options(port: int = 0) -> list[str]:
    return ["--lease-seconds", str(LEASE_SECONDS), *(["--listen", f"127.0.0.1:{port}"] if port else [])]


def probe(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def is_ready(port: int) -> bool:
    try:
        return probe(port, "/readyz") == 200
    except OSError as error:
        raise AssertionError("it does not listen yet") from error


def holder(server: Cluster) -> str:
    return str(server.get("lease", "laketable-operator", NAMESPACE)["spec"].get("holderIdentity", ""))


def give_lease_to(server: Cluster, identity: str) -> None:
    patch = {"spec": {"holderIdentity": identity, "leaseDurationSeconds": 3600}}
    server.kubectl("patch", "lease", "laketable-operator", "-n", NAMESPACE, "--type=merge", "-p", json.dumps(patch))


def plans_of(properties: dict[str, str], namespace: str, name: str) -> list[str]:
    """Name the plans that were committed to a table, as the table itself remembers them."""
    seen = IcebergCatalog(explicit("lake", properties)).get_table_spec(TableIdent((namespace,), name))
    return [record.plan for record in read(seen.bookkeeping).history]


def wait_in_sync(server: Cluster, namespace: str, *names: str) -> None:
    """Wait until the newest generation of each is in sync; one request a look."""

    def reached() -> bool:
        found = {raw["metadata"]["name"]: raw for raw in server.list("laketables", namespace)}
        for name in names:
            status = found[name].get("status", {})
            assert status.get("observedGeneration") == found[name]["metadata"]["generation"], name
            assert status.get("phase") == "InSync", f"{name}: {condition(found[name], 'Ready')}"
        return True

    eventually(reached)


# ---------------------------------------------------------------- two operators


def test_a_stopped_operator_that_wakes_up_writes_nothing(
    server: Cluster,
    kubeconfig: Path,
    place: str,
    proxy: FaultProxy,
    rest_catalog: dict[str, str],
    tmp_path: Path,
) -> None:
    """SIGSTOP of the one in the middle of its work while another takes over; then SIGCONT, then the other is killed.

    Over REST: stopped within a transaction of SQLite, a process would keep the whole catalog's file locked.
    """
    server.apply(catalog("lake", place, rest_catalog))
    names = [f"t{number}" for number in range(5)]

    def every(*columns: str) -> list[dict[str, Any]]:
        return [table(name, place, *columns) for name in names]

    proxied = through(proxy, kubeconfig, tmp_path)
    with running_operator(proxied, tmp_path / "first.log", options(), LAKETABLE_IDENTITY="first") as first:
        eventually(lambda: holder(server) == "first")
        server.apply(table("before", place, "id long"))
        wait_in_sync(server, place, "before")
        with running_operator(kubeconfig, tmp_path / "second.log", options(), LAKETABLE_IDENTITY="second") as second:
            eventually(lambda: "held by first" in second.log)
            server.apply(*every("id long"))
            first.process.send_signal(signal.SIGSTOP)
            stopped_ms = epoch_ms()
            eventually(lambda: holder(server) == "second")
            wait_in_sync(server, place, *names)
            proxy.forget()
            server.apply(*every("id long", "note string"))
            first.process.send_signal(signal.SIGCONT)
            eventually(lambda: "held by second" in first.log)
            wait_in_sync(server, place, *names)
            server.apply(*every("id long", "note string", "more string"))
            wait_in_sync(server, place, *names)
            assert holder(server) == "second"
            # What was on its way when it was stopped is refused by the resourceVersion or the name that it carries.
            late = [r for r in proxy.requests if r.method != "GET" and r.status not in (409, None)]
            assert [f"{r.method} {r.path}: {r.status}" for r in late if not was_told_before(r, stopped_ms)] == []
            second.stop(signal.SIGKILL)
            server.apply(*every("id long", "note string", "more string", "last string"))
            wait_in_sync(server, place, *names)
            assert holder(server) == "first"
        # The positive control: the first one does write through this proxy while it holds the Lease, events too.
        assert any(r.method == "PATCH" and _LEASES not in r.path for r in proxy.requests)
        eventually(lambda: any("/events" in r.path and r.status == 201 for r in proxy.requests))
        assert not any(was_told_before(r, stopped_ms) for r in proxy.requests if r.status == 201 and r not in late)
        for name in names:
            plans = plans_of(rest_catalog, place, name)
            assert len(plans) == len(set(plans)) == 4, name
        assert first.process.poll() is None


def was_told_before(request: Recorded, stopped_ms: int) -> bool:
    """Say whether a write is an event from before its operator was stopped.

    Between the fence's last word and the wire a process may be stopped, too, and an event has nothing to be refused by:
    it is late, and still true.
    """
    if request.method != "POST" or "/apis/events.k8s.io/" not in request.path:
        return False
    return read_time(json.loads(request.body)["eventTime"]) <= stopped_ms


def test_it_hands_over_when_it_is_told_to_end(
    server: Cluster, kubeconfig: Path, place: str, sqlite_catalog: dict[str, str], tmp_path: Path
) -> None:
    with running_operator(kubeconfig, tmp_path / "first.log", options(), LAKETABLE_IDENTITY="first") as first:
        eventually(lambda: "holding Lease" in first.log)
        with running_operator(kubeconfig, tmp_path / "second.log", options(), LAKETABLE_IDENTITY="second") as second:
            eventually(lambda: "held by first" in second.log)
            server.apply(*[table(f"t{number}", place, "id long") for number in range(5)])
            assert first.stop() == 0
            assert "released Lease" in first.log
            eventually(lambda: holder(server) == "second")
            wait_in_sync(server, place, *[f"t{number}" for number in range(5)])
            for number in range(5):
                assert len(plans_of(sqlite_catalog, place, f"t{number}")) == 1


UNFENCED = "from reconciler.operator.lease import Fence; Fence.require = lambda self: None"


@pytest.mark.parametrize("planted", [pytest.param("", id="fenced"), pytest.param(UNFENCED, id="control-no-fence")])
def test_what_is_under_way_when_the_lease_is_lost_is_not_committed(
    server: Cluster,
    kubeconfig: Path,
    place: str,
    proxy: FaultProxy,
    rest_catalog: dict[str, str],
    tmp_path: Path,
    planted: str,
) -> None:
    """It is stopped right before a commit and wakes when another holds the Lease; without its fence it does commit."""
    reached, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        go_on.wait(PATIENCE)

    with FaultProxy(rest_catalog["uri"]) as heard:

        def hold_the_commit() -> None:  # the plan object is made: whoever asks for the table next will write to it
            heard.plan(Fault(call=hold), method="GET", path="/tables/orders")

        def commits() -> list[str]:
            return [r.path for r in heard.requests if r.method == "POST" and r.path.endswith("/tables/orders")]

        server.apply(catalog("lake", place, {**rest_catalog, "uri": heard.uri}))
        path, proxied = tmp_path / "operator.log", through(proxy, kubeconfig, tmp_path)
        with running_operator(proxied, path, options(), planted=planted, LAKETABLE_IDENTITY="first") as operator:
            eventually(lambda: holder(server) == "first")
            server.apply(table("orders", place, "id long"))
            wait_in_sync(server, place, "orders")
            made = len(commits())
            proxy.plan(Fault(call=hold_the_commit), method="POST", path="/laketableplans")
            server.apply(table("orders", place, "id long", "note string"))
            assert reached.wait(PATIENCE)
            operator.process.send_signal(signal.SIGSTOP)
            stopped_ms = epoch_ms()
            give_lease_to(server, "somebody-else")
            time.sleep(LEASE_SECONDS)  # as long as that one waits before it acts
            proxy.forget()
            operator.process.send_signal(signal.SIGCONT)
            eventually(lambda: "is lost" in operator.log)
            go_on.set()
            if planted:  # so the test can fail
                eventually(lambda: len(commits()) > made)
            code = operator.stop()  # with all that was still under way
            give_lease_to(server, "")
            if planted:
                return
            assert code == 0
            assert len(commits()) == made
            written = [r for r in proxy.requests if r.method != "GET" and r.status in (200, 201)]
            assert [f"{r.method} {r.path}" for r in written if not was_told_before(r, stopped_ms)] == []
            operator.restart()
            wait_in_sync(server, place, "orders")
            assert len(commits()) == made + 1
            assert len(plans_of(rest_catalog, place, "orders")) == 2
            says_nothing_while_nothing_changes(server, place, proxy, operator)


def says_nothing_while_nothing_changes(server: Cluster, place: str, proxy: FaultProxy, operator: Operator) -> None:
    """Let a table that is in sync be looked at again and again."""

    def looks() -> int:
        return sum(r.method == "GET" and r.path.endswith("/laketables/orders") for r in proxy.requests)

    def written() -> list[str]:
        return [f"{r.method} {r.path}" for r in proxy.requests if r.method != "GET" and _LEASES not in r.path]

    eventually(lambda: any("/events" in r.path and b'"Applied"' in r.body for r in proxy.requests))
    operator.wait_idle()
    proxy.forget()

    def look(number: int) -> None:
        seen, asked = looks(), f"laketable.dev/reconcile-now={number}"
        server.kubectl("annotate", "laketable", "orders", "-n", place, "--overwrite", asked)
        eventually(lambda: looks() > seen)

    for number in range(4):
        look(number)
    operator.wait_idle()
    assert written() == []
    server.apply(table("orders", place, "id long", "note string", "control string"))
    eventually(lambda: any("/laketableplans" in text for text in written()))


# ---------------------------------------------------------------- outages


def test_probes_tell_of_an_api_server_that_hangs_or_loses_etcd(
    server: Cluster, kubeconfig: Path, place: str, sqlite_catalog: dict[str, str], tmp_path: Path
) -> None:
    port = free_port()
    chosen = [*options(port), "--log-format", "json"]
    with running_operator(kubeconfig, tmp_path / "operator.log", chosen) as operator:
        eventually(lambda: is_ready(port))

        def unready_but_alive() -> None:
            eventually(lambda: not is_ready(port))
            assert probe(port, "/healthz") == 200

        def ready_and_working(name: str) -> None:
            eventually(lambda: is_ready(port))
            server.apply(table(name, place, "id long"))
            wait_in_sync(server, place, name)
            assert len(plans_of(sqlite_catalog, place, name)) == 1

        api_server = server.process("kube-apiserver")
        api_server.send_signal(signal.SIGSTOP)
        try:
            unready_but_alive()
        finally:
            api_server.send_signal(signal.SIGCONT)
        ready_and_working("after-hanging")

        server.stop("etcd", signal.SIGKILL)
        unready_but_alive()
        server.start_etcd()
        server.wait_ready()
        ready_and_working("after-etcd")
        assert operator.process.poll() is None
        eventually(lambda: tells_of_it(metrics(f"http://127.0.0.1:{port}/metrics")))
        (made,) = [json.loads(line) for line in operator.log.splitlines() if "LakeTablePlan after-etcd" in line]
        assert made["resource"] == f"LakeTable {place}/after-etcd"
        assert made["plan"] in plans_of(sqlite_catalog, place, "after-etcd")


def tells_of_it(told: dict[str, float]) -> bool:
    """Say whether the metrics are of an operator that has made at least two tables, and is well."""
    assert told["laketable_lease_held"] == told["laketable_ready"] == 1
    assert told['laketable_tables{phase="InSync"}'] >= 2
    assert told['laketable_plans_total{class="metadata-only"}'] >= 2
    assert told['laketable_catalog_call_seconds_count{call="commit",outcome="ok"}'] >= 2
    return told['laketable_watch_last_event_timestamp_seconds{resource="laketables"}'] > 0


def test_watches_that_are_refused_or_end_in_errors_are_taken_up_again(
    server: Cluster,
    kubeconfig: Path,
    place: str,
    proxy: FaultProxy,
    sqlite_catalog: dict[str, str],
    tmp_path: Path,
) -> None:
    port = free_port()
    proxied = through(proxy, kubeconfig, tmp_path)
    with running_operator(proxied, tmp_path / "operator.log", options(port)) as operator:
        eventually(lambda: is_ready(port))

        # Refused from now on: what the API server says is what a resync, and no watch, would bring.
        proxy.plan(Fault(status=500, body=b'{"kind":"Status","code":500}'), times=10_000, path=_WATCH)
        server.stop("kube-apiserver", signal.SIGKILL)  # ends those there are
        server.start_api_server()
        server.wait_ready()
        eventually(lambda: not is_ready(port))
        assert probe(port, "/healthz") == 200
        server.apply(table("meanwhile", place, "id long"))
        proxy.forget()
        wait_in_sync(server, place, "meanwhile")
        eventually(lambda: is_ready(port))

        # Each watch is told that it is too old, begins anew, and is then told of a fault that Kopf ends with.
        for code, word in ((410, "Expired"), (500, "InternalError")):
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": word, "code": code}
            event = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
            told = Fault(status=200, headers={"Content-Type": "application/json"}, body=event)
            proxy.plan(told, times=4, path=_WATCH)
        server.stop("kube-apiserver", signal.SIGKILL)
        server.start_api_server()
        server.wait_ready()
        eventually(lambda: "the watches ended (" in operator.log)
        server.apply(table("after", place, "id long"))
        wait_in_sync(server, place, "after")
        assert sum(r.status == 200 and r.upstream_status is None for r in proxy.requests) > 4
        eventually(lambda: is_ready(port))
        assert operator.process.poll() is None
        for name in ("meanwhile", "after"):
            assert len(plans_of(sqlite_catalog, place, name)) == 1


def test_a_catalog_that_is_down_for_a_while(
    server: Cluster, kubeconfig: Path, place: str, rest_catalog: dict[str, str], tmp_path: Path
) -> None:
    with FaultProxy(rest_catalog["uri"]) as catalog_proxy:
        server.apply(catalog("lake", place, {**rest_catalog, "uri": catalog_proxy.uri}))
        with running_operator(kubeconfig, tmp_path / "operator.log", options()) as operator:
            server.apply(table("orders", place, "id long"), table("idle", place, "id long"))
            wait_in_sync(server, place, "orders", "idle")
            catalog_proxy.plan(Fault(drop_before=True), times=10_000)
            server.apply(table("orders", place, "id long", "note string"))
            found = wait_for(server, place, "orders", "Retrying")
            assert condition(found, "Ready")["reason"] == "CatalogUnavailable"
            assert condition(found, "Available")["status"] == "Unknown"
            assert found["status"]["table"]["rows"] == 0, "what was known of it is still said"
            eventually(lambda: _ready_reason(server, place) == "CatalogUnavailable")
            # It comes back in the middle of a commit: the answer to that one is lost.
            catalog_proxy.forget()
            catalog_proxy.plan(Fault(drop_after=True), method="POST", path="/tables/orders")
            wait_in_sync(server, place, "orders", "idle")
            eventually(lambda: _ready_reason(server, place) == "Valid")
            plans = plans_of(rest_catalog, place, "orders")
            assert len(plans) == len(set(plans)) == 2
            assert operator.process.poll() is None


def _ready_reason(server: Cluster, namespace: str) -> str:
    return str(condition(server.get("lakecatalog", "lake", namespace), "Ready").get("reason"))
