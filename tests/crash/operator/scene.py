"""A namespace with a LakeCatalog of its own behind the recording proxies, the operator, and how it looks in the end."""

from __future__ import annotations

import contextlib
import difflib
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError

from reconciler.operator.objects import CATALOGS, CONFIG_MAPS, JOBS, NAMESPACES, PLANS, PODS, POLICIES, SECRETS, TABLES
from tests.crash.operator.journal import CatalogProxy, Journal, KubeProxy
from tests.crash.oracles import chunks
from tests.kube.client import Client, Object, Refused
from tests.kube.kubelet import Kubelet
from tests.kube.operator import Operator, catalog, table
from tests.kube.operator import eventually as within

IMAGE = "laketable:crash"
JOB = {"type": "job", "image": IMAGE, "memory": "1Gi", "cores": 1}
SECONDS = 300.0
"""How long is waited on a machine that may do much else; nothing is asserted about the time."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ][0-9:.]+(Z|\+00:00)")
_NUMBER = re.compile(r"\d{6,}")
_COST = re.compile(r'"(duration_ms|bytes|bytes_estimated)":\d+')
"""How long it took, and how long a file became: rows that come from a shuffle are packed in any order."""
_BIG = 10**6  # an id
_LABELS = ("laketable.dev/table", "app.kubernetes.io/managed-by")
Rows = list[tuple[Any, ...]]


def eventually(check: Callable[[], Any], seconds: float = SECONDS, pause: float = 0.05) -> Any:
    """Wait, on a machine that may be busy, until `check` gives something true."""
    return within(check, seconds, pause)


@dataclass
class World:
    """What all scenes share: one cluster, one operator, one catalog server and its two proxies."""

    client: Client
    operator: Operator
    kubelet: Kubelet
    journal: Journal
    kube: KubeProxy
    lake: CatalogProxy
    catalog_uri: str
    number: int = field(default=0)

    def scene(self) -> Scene:
        """Make an empty namespace."""
        self.number += 1
        return Scene(self, f"kill-{self.number}")


class Scene:
    """One namespace; tables are named after what they are in the story."""

    def __init__(self, world: World, namespace: str) -> None:
        self.world, self.namespace = world, namespace
        self.there: Catalog = load_catalog("there", type="rest", uri=world.catalog_uri)
        self._turns = 0
        world.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})

    # ------------------------------------------------------------ what people do

    def add_catalog(self, **spec: Any) -> None:
        """Make the LakeCatalog; the operator meets the proxy, and this class the catalog itself."""
        properties = {"type": "rest", "uri": self.world.lake.uri}
        self.world.client.apply(catalog("lake", self.namespace, properties, **spec))

    def declare(self, name: str, *columns: str | Object, **spec: Any) -> None:
        """Apply a LakeTable."""
        texts = [column for column in columns if isinstance(column, str)]
        document = table(name, self.namespace, *texts, **spec)
        document["spec"]["columns"] += [column for column in columns if not isinstance(column, str)]
        if not columns:
            del document["spec"]["columns"]
        self.world.client.apply(document)

    def delete(self, name: str) -> None:
        """Delete a LakeTable."""
        self.world.client.delete(TABLES, self.namespace, name)

    def append(self, name: str, rows: Rows, *columns: str) -> None:
        """Append rows as another client does, in one file."""
        arrays = [pa.array(values, pa.int64()) for values in zip(*rows, strict=True)]
        self.there.load_table((self.namespace, name)).append(pa.table(arrays, names=list(columns)))

    def add_branch(self, table: str, name: str) -> None:
        """Make a branch at a table's head, as another client."""
        loaded = self.there.load_table((self.namespace, table))
        head = loaded.current_snapshot()
        assert head is not None
        loaded.manage_snapshots().create_branch(head.snapshot_id, name).commit()

    def begin(self, name: str) -> None:
        """Let the journal begin, with this table as the story's own."""
        self.world.journal.begin(self.namespace, name)

    def begin_between_looks(self, name: str) -> None:
        """Let the journal begin while no look is under way: half of one would be counted."""

        def has_begun() -> bool:
            ended = self.world.operator.looks_if_idle()
            self.begin(name)
            return ended is not None and ended == self.world.operator.looks_if_idle()

        eventually(has_begun)

    # ------------------------------------------------------------ how it is

    def resource(self, name: str) -> Object | None:
        """Read a LakeTable; None when it is gone."""
        try:
            return self.world.client.get(TABLES, self.namespace, name)
        except Refused as error:
            if error.code == 404:
                return None
            raise

    def status(self, name: str) -> Object:
        """Read the status of a LakeTable's newest generation; empty while there is none."""
        found = self.resource(name) or {}
        status: Object = found.get("status", {})
        return status if status.get("observedGeneration") == found.get("metadata", {}).get("generation") else {}

    def wait(self, name: str, phase: str = "InSync") -> Object:
        """Wait until a LakeTable is in a phase."""

        def reached() -> Object:
            status = self.status(name)
            said = [c.get("message") for c in status.get("conditions", []) if c["type"] == "Ready"]
            assert status.get("phase") == phase, f"{name} is {status.get('phase')}: {said}"
            return status

        found: Object = eventually(reached)
        return found

    def wait_gone(self, name: str) -> None:
        """Wait until a LakeTable is gone."""
        eventually(lambda: self.resource(name) is None)

    def wait_quiet(self, seconds: float = 1.0) -> None:
        """Wait until no look is under way and nothing was written for a while: events are written beside the rest."""
        self.world.operator.wait_idle()
        before, since = (-1, -1), time.monotonic()
        while time.monotonic() - since < seconds:
            done = (len(self.world.journal.tried), sum(self.world.journal.all_reads.values()))
            if done != before:
                before, since = done, time.monotonic()
            time.sleep(0.05)

    def wait_for_pods(self) -> None:
        """Wait until no pod runs: one reads on after what it published has been told by the table."""
        pods = partial(self.world.client.list, PODS, self.namespace)
        eventually(lambda: not any(pod.get("status", {}).get("phase") == "Running" for pod in pods()))

    def metadata(self, name: str) -> Object:
        """Read a table's metadata file."""
        location = self.there.load_table((self.namespace, name)).metadata_location
        found: Object = json.loads(Path(urlparse(location).path).read_bytes())
        return found

    def plans(self, table: str) -> list[Object]:
        """List a LakeTable's plan objects."""
        found = self.world.client.list(PLANS, self.namespace)
        return [plan for plan in found if plan["spec"]["tableRef"]["name"] == table]

    def tables(self) -> list[str]:
        """Name the tables of the catalog's namespace of the same name."""
        if (self.namespace,) not in self.there.list_namespaces():
            return []
        return sorted(ident[-1] for ident in self.there.list_tables(self.namespace))

    def rows(self, name: str, *columns: str) -> Rows:
        """Read a table, in order."""
        found = self.there.load_table((self.namespace, name)).scan().to_arrow().to_pylist()
        return sorted((tuple(row[column] for column in columns) for row in found), key=repr)

    def resync(self, name: str, times: int) -> None:
        """Let a table be looked at so many times; the last of them may not have ended."""
        for _ in range(times):
            seen = self.looks(name)
            self.touch(name)
            eventually(partial(self._is_looked_at, name, seen))

    def touch(self, name: str) -> None:
        """Ask for a table to be looked at."""
        self._turns += 1
        annotation = {"metadata": {"annotations": {"laketable.dev/reconcile-now": str(self._turns)}}}
        self.world.client.merge(TABLES, self.namespace, name, annotation)

    def looks(self, name: str) -> int:
        """Count how often a table was looked at since the journal began."""
        return self.world.journal.reads(f"laketable {name}")

    def _is_looked_at(self, name: str, seen: int) -> bool:
        return self.looks(name) > seen

    # ------------------------------------------------------------ the whole picture

    def picture(self) -> Object:
        """Describe everything there is, but for what differs from run to run: names, hashes, ids and times."""
        client = self.world.client
        # A Job that did its work goes by itself, or with the look that finds it so: whichever comes first.
        done = {
            job["metadata"]["uid"] for job in client.list(JOBS, self.namespace) if job["status"].get("completionTime")
        }
        there = {
            resource.kind: sorted(
                (
                    self._plain(_shown(item))
                    for item in client.list(resource, self.namespace)
                    if done.isdisjoint(_uids(item)) and item["metadata"]["name"] != "kube-root-ca.crt"
                ),
                key=json.dumps,
            )
            for resource in (TABLES, CATALOGS, POLICIES, PLANS, JOBS, CONFIG_MAPS, SECRETS)
        }
        found: Object = {}
        for name in self.tables():
            with contextlib.suppress(NoSuchTableError):  # it is being dropped
                found[name] = self._plain(_of_table(self.metadata(name)))
        return {**there, "tables": found}

    def _plain(self, document: Any) -> Any:
        if isinstance(document, dict):
            return {key: "#" if key == "bytes" else self._plain(value) for key, value in document.items()}
        if isinstance(document, list):
            return [self._plain(value) for value in document]
        if isinstance(document, int) and document > _BIG:
            return "#"
        if isinstance(document, str):
            text = self.world.journal.plain(_COST.sub(r"\1", _TIME.sub("TIME", document)))
            return _NUMBER.sub("#", text)
        return document

    def end(self) -> None:
        """Take everything away, tables first, so that it makes no work for the operator that the next scene sees."""
        client = self.world.client
        for name in [item["metadata"]["name"] for item in client.list(TABLES, self.namespace)]:
            for ask in (partial(client.merge, patch={"metadata": {"finalizers": None}}), client.delete):
                with contextlib.suppress(Refused):  # it may be gone by now
                    ask(TABLES, self.namespace, name)
        eventually(lambda: not client.list(TABLES, self.namespace))
        client.delete(NAMESPACES, None, self.namespace)


def _uids(item: Object) -> set[str]:
    """Name an object and its owners."""
    meta = item["metadata"]
    return {meta["uid"], *(owner["uid"] for owner in meta.get("ownerReferences", []))}


def _shown(item: Object) -> Object:
    meta = item["metadata"]
    shown: Object = {
        "name": meta["name"],
        "finalizers": meta.get("finalizers", []),
        "owners": [owner["kind"] for owner in meta.get("ownerReferences", [])],
        "labels": {key: value for key, value in meta.get("labels", {}).items() if key in _LABELS},
        "deleting": "deletionTimestamp" in meta,
    }
    status = item.get("status", {})
    if item.get("kind") == "Job" or "batch.kubernetes.io/controller-uid" in str(item.get("spec", "")):
        return {**shown, "ended": [c["type"] for c in status.get("conditions", []) if c["status"] == "True"]}
    spec = item.get("spec", {})
    kept = {key: spec[key] for key in ("approved", "class", "summary", "changes", "operations") if key in spec}
    return {**shown, "status": status, "spec": kept}


def _of_table(metadata: Object) -> Object:
    """Describe a table: what it is, and how many commits made it so."""
    current = metadata["current-schema-id"]
    return {
        "commits": len(metadata.get("metadata-log", ())) + 1,
        "schema": next(schema["fields"] for schema in metadata["schemas"] if schema["schema-id"] == current),
        "refs": sorted(metadata.get("refs", {})),
        "snapshots": len(metadata.get("snapshots", ())),
        "chunks": sorted(Counter(chunks({"refs": {}, **metadata})).values()),
        "properties": metadata["properties"],
    }


def same(wanted: Object, found: Object) -> bool:
    """Compare two pictures; an AssertionError shows the lines that differ."""
    if wanted == found:
        return True
    before, after = (json.dumps(side, indent=1, sort_keys=True).splitlines() for side in (wanted, found))
    lines = list(difflib.unified_diff(before, after, lineterm="", n=1))[2:60]
    raise AssertionError("it looks other than after a run without a crash:\n" + "\n".join(lines))


Step = Callable[[Scene], None]
