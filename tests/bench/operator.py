"""The operator on a real API server: from apply to Ready, and 1,000 LakeTables made at once, in sync, and at its start.

Once with the embedded catalog and once with the real REST server, each with a cluster of its own. API server, etcd,
catalog and operator share this machine's cores.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.catalogs.connection import explicit
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.diff.changes import AddColumn
from reconciler.model.table import TableIdent
from reconciler.model.types import Field
from reconciler.operator.objects import TABLES
from tests.bench.process import Cost
from tests.bench.report import Row
from tests.kube.client import Client
from tests.kube.cluster import running_cluster
from tests.kube.operator import Operator, catalog, eventually, install, running_operator, table
from tests.proxy import FaultProxy, Recorded
from tests.rest_server import rest_server

NAME = "operator"
READY_SECONDS = 0.5
RSS_MIB = 250.0
CREATED_SECONDS = 180.0
STEADY_SECONDS = 60.0
TABLES_AT_ONCE = 1000
CHANGES = 15
NAMESPACE = "bench"
_COLUMNS = tuple(f"c{number} {kind}" for number, kind in enumerate(["long", "string", "double", "timestamp"] * 3))
_PATIENCE_SECONDS = 180.0
_BUSY = 0.05
"""Below this share of a core a process does nothing but listen."""


class Reads(FaultProxy):
    """Counts how often each table is read."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.count = 0

    def record(self, request: Recorded) -> None:
        """Count one request, and forget it."""
        with self._lock:
            self.count += request.method == "GET" and "/tables/" in request.path


@dataclass
class Setting:
    """A cluster with an operator and a catalog; `reads` is None where nobody can count them."""

    client: Client
    operator: Operator
    lake: IcebergCatalog
    reads: Reads | None

    def ready(self) -> int:
        """Count the tables that are Ready as their newest spec says."""
        return sum(map(_is_ready, self.client.list(TABLES, NAMESPACE)))

    def versions(self) -> dict[str, str]:
        """Note every LakeTable's status, to see whether it is written."""
        return {t["metadata"]["name"]: str(t.get("status")) for t in self.client.list(TABLES, NAMESPACE)}


def measure(root: Path, *, quick: bool) -> Iterator[Row]:
    """Measure with both catalogs."""
    count = 50 if quick else TABLES_AT_ONCE
    for kind in ("embedded", "rest"):
        folder = root / f"operator-{kind}"
        folder.mkdir()
        with _setting(folder, kind) as setting:
            yield from _measure(setting, kind, count)


def _measure(setting: Setting, kind: str, count: int) -> Iterator[Row]:
    yield from _one_change(setting, kind)
    names = [f"t{number:05}" for number in range(count)]

    def create() -> None:
        for name in names:
            setting.client.apply(table(name, NAMESPACE, *_COLUMNS, properties={"owner.team": "bench"}))
        eventually(lambda: setting.ready() >= count, 600, 0.5)

    made = _cost(setting.operator, create)
    yield Row(NAME, f"{kind}: {count:,} tables created at once, all Ready", made, (("wall", CREATED_SECONDS),))
    _settle(setting.operator)

    before, seen = setting.versions(), _reads(setting)
    again = _cost(setting.operator, lambda: _look_again(setting, names))
    yield Row(NAME, f"{kind}: one resync of all", again, (("rss", RSS_MIB),))
    yield from _counted(setting, f"{kind}:   in it,", before, seen, again)

    before, seen = setting.versions(), _reads(setting)
    setting.operator.stop()
    began = time.monotonic()
    setting.operator.restart()
    steady = _settle(setting.operator)
    cost = Cost(steady - began, _cpu(setting.operator), _rss(setting.operator))
    yield Row(
        NAME, f"{kind}: started with {count:,} in sync, steady", cost, (("wall", STEADY_SECONDS), ("rss", RSS_MIB))
    )
    yield from _counted(setting, f"{kind}:   in it,", before, seen, cost)


def _one_change(setting: Setting, kind: str) -> Iterator[Row]:
    """Alter one table again and again, once through the operator and once by the catalog alone."""
    columns = ["id long"]
    setting.client.apply(*(table(name, NAMESPACE, *columns) for name in ("one", "alone")))
    eventually(lambda: setting.ready() == 2, 60, 0.01)
    setting.client.delete(TABLES, NAMESPACE, "alone")
    through, alone, ident = [], [], TableIdent((NAMESPACE,), "alone")
    for number in range(CHANGES):
        columns.append(f"added_{number} string")
        began = time.monotonic()
        setting.client.apply(table("one", NAMESPACE, *columns))
        eventually(lambda: _is_ready(setting.client.get(TABLES, NAMESPACE, "one")), 30, 0.005)
        through.append(time.monotonic() - began)
        version = setting.lake.get_table_spec(ident).version
        field = Field(name=f"added_{number}", type="string", required=False)
        began = time.monotonic()
        setting.lake.apply(ident, version, [AddColumn(parent=(), field=field, after=None)])
        alone.append(time.monotonic() - began)
    setting.client.delete(TABLES, NAMESPACE, "one")
    own = Cost(statistics.median(alone))
    beyond = Cost(statistics.median(through) - own.wall)
    what = f"{kind}: apply → Ready beyond the catalog's commit"
    yield Row(NAME, what, beyond, (("wall", READY_SECONDS),))
    yield Row(NAME, f"{kind}:   that commit by itself", own)


def _look_again(setting: Setting, names: list[str]) -> None:
    seen = _reads(setting)
    for name in names:
        annotation = {"metadata": {"annotations": {"laketable.dev/reconcile-now": str(time.time_ns())}}}
        setting.client.merge(TABLES, NAMESPACE, name, annotation)
    if seen is not None:
        eventually(lambda: (_reads(setting) or 0) - seen >= len(names), 120, 0.2)
    _settle(setting.operator)


def _counted(setting: Setting, what: str, before: dict[str, str], seen: int | None, cost: Cost) -> Iterator[Row]:
    after, reads = setting.versions(), _reads(setting)
    written = sum(before[name] != after[name] for name in before)
    yield Row(NAME, f"{what} status writes", Cost(cost.wall, count=written), (("count", 0),))
    if seen is not None and reads is not None:
        per_table = Cost(cost.wall, count=(reads - seen) / len(before))
        yield Row(NAME, f"{what} catalog reads per table", per_table, (("count", 1),))


# ---------------------------------------------------------------- what it runs on


@contextmanager
def _setting(folder: Path, kind: str) -> Iterator[Setting]:
    with ExitStack() as stack:
        properties, reads = _catalog(stack, folder, kind)
        cluster = stack.enter_context(running_cluster(folder / "cluster"))
        client = Client(cluster)
        operator = stack.enter_context(running_operator(install(cluster), folder / "operator.log"))
        client.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            catalog("lake", NAMESPACE, properties),
        )
        yield Setting(client, operator, IcebergCatalog(explicit("lake", properties)), reads)


def _catalog(stack: ExitStack, folder: Path, kind: str) -> tuple[dict[str, str], Reads | None]:
    if kind == "embedded":
        place = folder / "lake"
        place.mkdir()
        return {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}/warehouse"}, None
    (folder / "rest").mkdir()
    reads = stack.enter_context(Reads(stack.enter_context(rest_server(folder / "rest"))))
    return {"type": "rest", "uri": reads.uri}, reads


def _is_ready(found: dict[str, Any]) -> bool:
    status = found.get("status", {})
    is_new = status.get("observedGeneration") == found["metadata"]["generation"]
    return is_new and any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))


def _reads(setting: Setting) -> int | None:
    return None if setting.reads is None else setting.reads.count


# ---------------------------------------------------------------- what a process costs


def _cost(operator: Operator, work: Callable[[], None]) -> Cost:
    began, used = time.monotonic(), _cpu(operator)
    work()
    return Cost(time.monotonic() - began, _cpu(operator) - used, _rss(operator))


def _settle(operator: Operator) -> float:
    """Wait until the operator only listens; return since when."""
    since, used, at = time.monotonic(), _cpu(operator), time.monotonic()
    deadline = since + _PATIENCE_SECONDS
    while time.monotonic() - since < 2.0:
        if at > deadline:
            raise RuntimeError(f"the operator did not come to rest within {_PATIENCE_SECONDS:g} s")
        time.sleep(0.25)
        now, spent = time.monotonic(), _cpu(operator)
        if (spent - used) / (now - at) > _BUSY:
            since = now
        used, at = spent, now
    return since


def _cpu(operator: Operator) -> float:
    fields = Path(f"/proc/{operator.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss(operator: Operator) -> float:
    for line in Path(f"/proc/{operator.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the operator has ended")
