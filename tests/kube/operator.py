"""The operator as its users run it: a process of its own, under a restricted service account."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from tests.kube.cluster import Cluster, die_with_parent, free_port

ROOT = Path(__file__).parents[2]
NAMESPACE = "laketable-system"
ACCOUNT = "laketable-operator"
PATIENCE = 120.0
"""How many seconds are waited on a machine that may do much else: what comes early costs nothing, and no test is about
time."""
GRACE_SECONDS = 60.0
"""After which Kubernetes kills a pod of the chart that was told to end."""
_PROGRAM = "import sys; from reconciler.cli.main import run; sys.exit(run(sys.argv[1:]))"


def install(cluster: Cluster) -> Path:
    """Install CRDs and RBAC; return the operator's kubeconfig."""
    cluster.create_namespace(NAMESPACE)
    install_crds(cluster)
    cluster.kubectl("apply", "-f", str(ROOT / "charts" / "raw" / "rbac.yaml"))
    kubeconfig = cluster.service_account(NAMESPACE, ACCOUNT)
    cluster.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "laketable-operator"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "laketable-operator"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        }
    )
    return kubeconfig


def let_drive(cluster: Cluster, namespace: str) -> None:
    """Give a namespace the account of drivers, which may make executors' pods."""
    text = (ROOT / "charts" / "raw" / "executors" / "driver.yaml").read_text()
    cluster.kubectl("apply", "-f", "-", stdin=text.replace("namespace: sales", f"namespace: {namespace}"))


def install_crds(cluster: Cluster) -> None:
    """Install the CRDs and wait until the API server serves them."""
    cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")


class Operator:
    """One operator process; `log` is what it said. It keeps its identity, hence the Lease, when it is restarted.

    Unless the options say where, it listens on a port of its own. `planted` is Python that runs before it: a fault, to
    see that a test notices.
    """

    def __init__(
        self, kubeconfig: Path, log: Path, options: Sequence[str] = (), *, planted: str = "", **environment: str
    ) -> None:
        self.log_path = log
        program = f"{planted}\n{_PROGRAM}"
        start = [sys.executable, "-c", program, "operator", "run", "--namespace", NAMESPACE, "--allow-local-catalogs"]
        port = 0 if any(option.startswith("--listen") for option in options) else free_port()
        self._page = f"http://127.0.0.1:{port}/metrics"
        self._command = [*start, *options, *(["--listen", f"127.0.0.1:{port}"] if port else [])]
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "PYTHONPATH") if name in os.environ}
        own = {"KUBECONFIG": str(kubeconfig), "LAKETABLE_IDENTITY": f"test-{uuid4().hex[:8]}"}
        self._environment = {"PYTHONPATH": str(ROOT), **kept, **own, **environment}
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log_path.open("ab") as sink:
            return subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                cwd=self.log_path.parent,
                preexec_fn=die_with_parent,  # noqa: PLW1509  (one system call)
            )

    def restart(self, number: int = signal.SIGKILL) -> int:
        """End it, by default without warning, and start another; return the exit code."""
        code = self.stop(number)
        self.process = self._start()
        return code

    @property
    def log(self) -> str:
        """Everything said so far."""
        return self.log_path.read_text()

    @property
    def metrics(self) -> dict[str, float]:
        """What it tells Prometheus now."""
        try:
            return metrics(self._page)
        except OSError as error:
            raise AssertionError("it does not listen yet") from error

    def wait_idle(self) -> None:
        """Wait until it leads and has looked at everything that it knows of; what comes by timers comes later."""

        eventually(lambda: self.looks_if_idle() is not None)

    def looks_if_idle(self) -> float | None:
        """Count the looks that it has ended; None while one is under way or due."""
        told = self.metrics
        assert told["laketable_lease_held"] == told["laketable_ready"] == 1, "it does not lead yet"
        if told["laketable_queue_depth"] or told["laketable_queue_working"]:
            return None
        return sum(value for name, value in told.items() if name.startswith("laketable_reconcile_seconds_count"))

    def stop(self, number: int = signal.SIGTERM, seconds: float = GRACE_SECONDS) -> int:
        """End it and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=seconds)


def metrics(page: str) -> dict[str, float]:
    """Read a page of metrics."""
    with urllib.request.urlopen(page, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


@contextlib.contextmanager
def running_operator(
    kubeconfig: Path, log: Path, options: Sequence[str] = (), *, planted: str = "", **environment: str
) -> Iterator[Operator]:
    """Run an operator; a test that fails shows the end of its log."""
    operator = Operator(kubeconfig, log, options, planted=planted, **environment)
    try:
        yield operator
    except BaseException:
        print(operator.log[-8000:])
        raise
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            operator.stop()
        if operator.process.poll() is None:
            operator.stop(signal.SIGKILL)


def eventually(check: Callable[[], Any], seconds: float = PATIENCE, pause: float = 0.1) -> Any:
    """Wait until `check` gives something true; the last answer or failure says what was missing."""
    deadline = time.monotonic() + seconds
    last: Any = None
    while time.monotonic() < deadline:
        try:
            last = check()
            if last:
                return last
        except (AssertionError, KeyError, ValueError, IndexError, OSError) as error:
            last = error
        time.sleep(pause)
    raise AssertionError(f"not within {seconds} s: {last!r}")


def condition(resource: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return one condition of a resource; empty when it has none of that kind."""
    conditions = resource.get("status", {}).get("conditions", [])
    return next((found for found in conditions if found["type"] == kind), {})


def catalog(name: str, namespace: str, properties: dict[str, str], **spec: Any) -> dict[str, Any]:
    """Return a LakeCatalog."""
    return {
        "apiVersion": "laketable.dev/v1alpha1",
        "kind": "LakeCatalog",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"properties": properties, **spec},
    }


def table(name: str, namespace: str, *columns: str, **spec: Any) -> dict[str, Any]:
    """Return a LakeTable; columns as "name type"."""
    entries = [dict(zip(("name", "type"), column.split(" ", 1), strict=True)) for column in columns]
    return {
        "apiVersion": "laketable.dev/v1alpha1",
        "kind": "LakeTable",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"columns": entries, **spec},
    }


def policy(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """Return a LakePolicy."""
    return {
        "apiVersion": "laketable.dev/v1alpha1",
        "kind": "LakePolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def documents(path: Path) -> list[dict[str, Any]]:
    """Read the resources of a file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def wait_for(cluster: Cluster, namespace: str, name: str, phase: str, seconds: float = PATIENCE) -> dict[str, Any]:
    """Wait until the status of a LakeTable's newest generation is in a phase."""

    def reached() -> dict[str, Any]:
        found = cluster.get("laketable", name, namespace)
        status = found.get("status", {})
        assert status.get("observedGeneration") == found["metadata"]["generation"]
        assert status.get("phase") == phase, f"{status.get('phase')}: {condition(found, 'Ready').get('message')}"
        return found

    found: dict[str, Any] = eventually(reached, seconds)
    return found
