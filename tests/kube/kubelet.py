"""A kubelet for tests: runs each pod's first container as a subprocess of this machine and reports its status.

It maps the image's `laketable` to our own interpreter, mounts to folders (an absolute path in the pod becomes one below
the pod's own folder, in arguments and environment too), and the log of its last words to the message. It proves
commands, environment, mounts' content and life cycle; not images, users, limits or evictions.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from reconciler.operator.objects import print_time
from tests.kube.client import Refused
from tests.kube.cluster import Cluster, KubectlError, die_with_parent

POLL_SECONDS = 0.3
IMAGE = "laketable:test"
"""The one image this node has; pods of others wait."""

_ADDRESS = "127.0.0.1"
_MESSAGE_BYTES = 4096
_PROGRAM = "import sys; from reconciler.cli.main import run; sys.exit(run(sys.argv[1:]))"


class Kubelet:
    """Plays the node for every pod of a cluster; start it as a context manager."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        environment: dict[str, str] | None = None,
        *,
        image: str = IMAGE,
        addresses: Mapping[str, str] | None = None,
        program: str = _PROGRAM,
    ) -> None:
        """Run the pods of one image; `addresses`: where something is, as a pod is told, and as this node reaches it.

        `program` is what `laketable` is on this node, in Python.
        """
        self._cluster = cluster
        self._folder = folder
        self._environment = environment or {}
        self._image = image
        self._addresses = addresses or {}
        self._program = program
        self._running: dict[str, tuple[dict[str, Any], subprocess.Popen[bytes]]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="kubelet", daemon=True)
        self.started: list[str] = []
        self.hold = False

    def __enter__(self) -> Kubelet:
        self._thread.start()
        return self

    def __exit__(self, *_exit: object) -> None:
        self._stop.set()
        self._thread.join(timeout=30)
        for _, process in self._running.values():
            _end(process)

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Start no pod until the block ends."""
        self.hold = True
        try:
            yield
        finally:
            self.hold = False

    def kill(self, name: str) -> None:
        """End a pod's process as the kernel does when memory runs out."""
        for pod, process in list(self._running.values()):
            if pod["metadata"]["name"] == name:
                _end(process)

    def send(self, name: str, number: int) -> None:
        """Send a pod's process a signal."""
        for pod, process in list(self._running.values()):
            if pod["metadata"]["name"] == name:
                process.send_signal(number)

    @property
    def names(self) -> list[str]:
        """The pods that run now."""
        return [pod["metadata"]["name"] for pod, _ in list(self._running.values())]

    def log(self, name: str) -> str:
        """Return what a pod printed."""
        return (self._folder / name / "log").read_text()

    def _work(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            try:
                pods = {pod["metadata"]["uid"]: pod for pod in self._cluster.list("pods")}
            except Refused:
                continue
            for uid, pod in pods.items():
                phase = pod.get("status", {}).get("phase", "Pending")
                is_ours = pod["spec"]["containers"][0].get("image") == self._image
                if is_ours and uid not in self._running and phase == "Pending" and not self.hold:
                    with contextlib.suppress(Refused, KubectlError):  # the next round tries again
                        self._start(uid, pod)
            for uid in list(self._running):
                self._look_after(uid, pods.get(uid))

    def _start(self, uid: str, pod: dict[str, Any]) -> None:
        folder = self._folder / pod["metadata"]["name"]
        mounts = self._mount(pod, folder)
        if mounts is None:
            return  # waits for a ConfigMap or a Secret, as a kubelet does
        for entry in pod["spec"]["containers"][0].get("env", []):
            mounts |= _above(entry.get("value", ""), mounts, folder)

        translated = _translation(mounts)
        container = pod["spec"]["containers"][0]
        command = [translated(part) for part in [*container.get("command", []), *container.get("args", [])]]
        if command[:1] == ["laketable"]:
            command = [sys.executable, "-c", self._program, *command[1:]]
        kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "PYTHONPATH", "HOME") if name in os.environ}
        given = {entry["name"]: self._value(entry, pod) for entry in container.get("env", [])}
        kept |= self._account(pod, folder)
        values = {name: translated(value) for name, value in given.items() if value is not None}
        environment = {**kept, **values, **self._environment}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=folder,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509  (one system call)
                start_new_session=True,
            )
        self._running[uid] = (pod, process)
        self.started.append(pod["metadata"]["name"])
        (folder / "command").write_text(shlex.join(command))
        self._report(pod, "Running", {"running": {"startedAt": print_time(int(time.time() * 1000))}})

    def _account(self, pod: dict[str, Any], folder: Path) -> dict[str, str]:
        """Give a pod that wants one its service account's token; say where, for the usual place is none of this node's.

        These are the variables by which Spark's client of the API server is told of it.
        """
        meta = pod["metadata"]
        if not any("projected" in volume for volume in pod["spec"].get("volumes", [])):
            return {}
        bound = ("--bound-object-kind=Pod", f"--bound-object-name={meta['name']}", f"--bound-object-uid={meta['uid']}")
        account = ("create", "token", pod["spec"]["serviceAccountName"], "-n", meta["namespace"], *bound)
        (folder / "token").write_text(self._cluster.kubectl(*account).stdout.strip())
        (folder / "ca.crt").write_bytes(self._cluster.authority)
        _, _, address = self._cluster.server.rpartition("/")
        host, _, port = address.rpartition(":")
        return {
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            "KUBERNETES_AUTH_SERVICEACCOUNT_TOKEN": str(folder / "token"),
            "KUBERNETES_CERTS_CA_FILE": str(folder / "ca.crt"),
        }

    def _value(self, entry: dict[str, Any], pod: dict[str, Any]) -> str | None:
        """Return what a variable is set to; None: it is optional, and its Secret does not have it."""
        if "valueFrom" not in entry:
            return str(entry.get("value", ""))
        namespace = pod["metadata"]["namespace"]
        if "fieldRef" in entry["valueFrom"]:
            known = {
                "metadata.name": pod["metadata"]["name"],
                "metadata.namespace": namespace,
                "status.podIP": _ADDRESS,
            }
            return str(known[entry["valueFrom"]["fieldRef"]["fieldPath"]])
        reference = entry["valueFrom"]["secretKeyRef"]
        data = self._cluster.get("secret", reference["name"], namespace).get("data", {})
        if reference["key"] not in data and reference.get("optional"):
            return None
        return base64.b64decode(data[reference["key"]]).decode()

    def _mount(self, pod: dict[str, Any], folder: Path) -> dict[str, str] | None:
        """Make the volumes; None while one of them has no content yet."""
        namespace = pod["metadata"]["namespace"]
        volumes: dict[str, Path] = {}
        for volume in pod["spec"].get("volumes", []):
            place = folder / "volumes" / volume["name"]
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            volumes[volume["name"]] = place
            kind, name = _source(volume)
            if kind is None:
                continue
            try:
                found = self._cluster.get(kind, name, namespace)
            except Refused:
                return None
            texts = {} if kind == "secret" else found.get("data", {})
            for key, value in texts.items():
                (place / key).write_text(self._reachable(value))
            packed = found.get("data", {}) if kind == "secret" else found.get("binaryData", {})
            for key, value in packed.items():
                (place / key).write_bytes(base64.b64decode(value))
        mounts = {
            mount["mountPath"]: str(volumes[mount["name"]])
            for mount in pod["spec"]["containers"][0].get("volumeMounts", [])
        }
        (folder / "termination").write_text("")
        return mounts | {"/dev/termination-log": str(folder / "termination")}

    def _reachable(self, text: str) -> str:
        for told, real in self._addresses.items():
            text = text.replace(told, real)
        return text

    def _look_after(self, uid: str, pod: dict[str, Any] | None) -> None:
        known, process = self._running[uid]
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            _end(process)
            del self._running[uid]
            if pod is not None:
                meta = known["metadata"]
                self._cluster.kubectl(
                    *("delete", "pod", meta["name"], "-n", meta["namespace"], "--grace-period=0", "--force"),
                    check=False,
                )
            return
        code = process.poll()
        if code is None:
            return
        del self._running[uid]
        words = (self._folder / known["metadata"]["name"] / "termination").read_text()[-_MESSAGE_BYTES:]
        ended = {
            "exitCode": code if code >= 0 else 128 - code,
            "reason": "Completed" if code == 0 else "OOMKilled" if code == -9 else "Error",
            "message": words,
            "finishedAt": print_time(int(time.time() * 1000)),
        }
        self._report(known, "Succeeded" if code == 0 else "Failed", {"terminated": ended})

    def _report(self, pod: dict[str, Any], phase: str, state: dict[str, Any]) -> None:
        container = pod["spec"]["containers"][0]
        status = {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": phase == "Running",
            "restartCount": 0,
            "state": state,
        }
        conditions = [{"type": "Ready", "status": "True" if phase == "Running" else "False"}]
        addresses = {"podIP": _ADDRESS, "podIPs": [{"ip": _ADDRESS}]}
        patch = {"status": {**addresses, "phase": phase, "containerStatuses": [status], "conditions": conditions}}
        meta = pod["metadata"]
        self._cluster.kubectl(
            *("patch", "pod", meta["name"], "-n", meta["namespace"], "--subresource=status", "--type=merge"),
            *("-p", json.dumps(patch)),
            check=False,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End all that runs in a pod: a JVM does not outlive the container of the program that started it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


_IMAGE_FOLDERS = (str(Path(__file__).parents[2]), sys.prefix, str(Path.home()))
"""Where this node has what an image has (the program, its jars): where these lie, a mount hides nothing."""


def _translation(mounts: Mapping[str, str]) -> Callable[[str], str]:
    """Return what puts folders of this node in the place of a pod's paths."""
    places = {path: path for path in _IMAGE_FOLDERS} | dict(mounts)
    # In one pass: where a mount leads to may look like another mount.
    inside = re.compile("|".join(re.escape(path) for path in sorted(places, key=len, reverse=True)))
    return lambda text: inside.sub(lambda found: places[found[0]], text)


def _above(told: str, mounts: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Make the folder that holds some of the mounts, where a pod is told of it and not of them."""
    inside = {path: place for path, place in mounts.items() if told and path.startswith(f"{told}/")}
    for path, place in inside.items():
        link = folder / "root" / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(place)
    return {told: str(folder / "root" / told.lstrip("/"))} if inside else {}


def _source(volume: dict[str, Any]) -> tuple[str | None, str]:
    if "configMap" in volume:
        return "configmap", volume["configMap"]["name"]
    return ("secret", volume["secret"]["secretName"]) if "secret" in volume else (None, "")
