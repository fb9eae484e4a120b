"""What the tests of admission do again and again: apply and listen to what is said."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.kube.cluster import Cluster
from tests.kube.operator import eventually, policy, table
from tests.proxy import Recorded

CANARY = "canary-7d21c4"
WEBHOOK = "laketable-webhook"


def until_served(cluster: Cluster) -> None:
    cluster.create_namespace("probe")
    wrong = policy("wrong", "probe", deny={"reason": "x"})
    eventually(lambda: "laketable.dev" in refusal(cluster, wrong, dry_run=True))


def refusal(cluster: Cluster, *documents: dict[str, Any], dry_run: bool = False) -> str:
    """Return what kubectl was told when it was refused; nothing of it may be there afterwards."""
    flags = ["--dry-run=server"] if dry_run else []
    done = cluster.kubectl("apply", *flags, "-f", "-", stdin=yaml.safe_dump_all(documents), check=False)
    assert CANARY not in done.stdout + done.stderr
    if done.returncode == 0:
        raise AssertionError(f"admitted: {done.stdout}{done.stderr}")
    return done.stderr


def dry_run_of(cluster: Cluster, *documents: dict[str, Any], is_patient: bool = True) -> list[str]:
    """Return the warnings of a dry run; who is patient does as they say, and tries again for a plan that took long."""

    def once() -> tuple[list[str]]:
        done = cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump_all(documents))
        assert CANARY not in done.stdout + done.stderr
        told = [line.removeprefix("Warning: ") for line in done.stderr.splitlines()]
        assert not (is_patient and any("it was not ready in time" in line for line in told)), told
        return (told,)

    found: tuple[list[str]] = eventually(once) if is_patient else once()
    return found[0]


def warnings(cluster: Cluster, *documents: dict[str, Any]) -> list[str]:
    """Apply, and return what was said besides."""
    done = cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
    assert CANARY not in done.stdout + done.stderr
    return [line.removeprefix("Warning: ") for line in done.stderr.splitlines()]


def changed(document: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**document, "spec": {**document["spec"], **spec}}


def wrong(namespace: str) -> dict[str, dict[str, Any]]:
    """Return manifests that the CRDs' schema lets pass."""
    orders = table("orders", namespace, "id long", "amount long", catalogRef={"name": "lake"})
    hostile = {"name": "x", "type": "long", "computed": {"expression": "reflect('java.lang.System', 'exit', 1)"}}
    view = changed(orders, materializedView={"query": "SELECT 1; DROP TABLE a"})
    del view["spec"]["columns"]
    return {
        "a column twice": changed(orders, columns=[{"name": "id", "type": "long"}, {"name": "id", "type": "int"}]),
        "a type that is none": changed(orders, columns=[{"name": "id", "type": "decimal(99,2)"}]),
        "a column that is not there": changed(orders, partitioning=[{"column": "idd", "transform": "day"}]),
        "SQL that may not run": changed(orders, columns=[*orders["spec"]["columns"], hostile]),
        "two statements": view,
        "a property of ours": changed(orders, properties={"laketable.owner": "me"}),
        "a policy that forbids nothing": policy("nothing", namespace, deny={"reason": "Because."}),
        "destructive plans approved blindly": policy("blind", namespace, autoApprove=["destructive"]),
    }


def state(cluster: Cluster, namespace: str, properties: dict[str, str]) -> tuple[object, ...]:
    """Return everything that a dry run might have changed: resources, and every file of the catalog."""
    kinds = "laketables,lakecatalogs,laketableplans,lakepolicies,jobs,configmaps,secrets,events.events.k8s.io"
    listed = cluster.kubectl("get", kinds, "-n", namespace, "-o", "json").stdout
    objects = sorted(
        (o["kind"], o["metadata"]["name"], o["metadata"]["resourceVersion"]) for o in json.loads(listed)["items"]
    )
    lake = Path(properties["uri"].removeprefix("sqlite:///")).parent
    return objects, {path: path.read_bytes() for path in sorted(lake.rglob("*")) if path.is_file()}


def writes(requests: list[Recorded]) -> list[str]:
    found = (f"{one.method} {one.path}" for one in requests if one.method not in ("GET", "HEAD"))
    return [text for text in found if "/leases" not in text]


@contextlib.contextmanager
def silence() -> Iterator[str]:
    """Listen and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        kept: list[socket.socket] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    kept.append(listening.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        for connection in kept:
            connection.close()
