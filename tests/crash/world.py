"""A project on a REST catalog behind the recording proxy, whose tables can be put back to how they were."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import msgspec

from tests.cli.lab import PROGRAM, ROOT, Lab, Result
from tests.crash.recorder import CommitProxy

TIMEOUT_SECONDS = 300
GROUP_SECONDS = 120


class World(Lab):
    """One project in a namespace of its own; the program's requests pass the proxy, those of other clients do not."""

    def __init__(self, folder: Path, server: Mapping[str, str], proxy: CommitProxy, namespace: str) -> None:
        super().__init__(folder, server)
        self.proxy, self.namespace = proxy, namespace
        self.notes: dict[str, str] = {}
        self._saved: dict[str, str] = {}
        self._backup = folder / "backup"
        self._there = self.catalog()
        self._there.create_namespace_if_not_exists(namespace)
        self.write(
            "lake.yaml",
            "apiVersion: laketable.dev/v1alpha1\nkind: LakeCatalog\nmetadata: {name: lake, namespace: sales}\n"
            f"spec:\n  properties: {{type: rest, uri: '{proxy.uri}'}}\n",
        )

    # ------------------------------------------------------------ manifests and rows

    def declare(self, name: str, *lines: str) -> Path:
        """Write a table's manifest: the lines of its spec."""
        head = f"apiVersion: laketable.dev/v1alpha1\nkind: LakeTable\nmetadata: {{name: {name}, namespace: sales}}\n"
        body = [f"  identifier: {self.namespace}.{name}", *(f"  {line}" for line in lines)]
        return self.write(f"{name}.yaml", head + "spec:\n" + "\n".join(body) + "\n")

    def add(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Ingest rows as another client, in one file."""
        self.append(rows, self.full(name))

    def full(self, name: str) -> str:
        """Name a table with its namespace."""
        return f"{self.namespace}.{name}"

    def tables(self) -> list[str]:
        """Name the namespace's tables."""
        return sorted(ident[-1] for ident in self._there.list_tables(self.namespace))

    def metadata(self, name: str) -> dict[str, Any]:
        """Read a table's metadata file."""
        location = self._there.load_table(self.full(name)).metadata_location
        found: dict[str, Any] = msgspec.json.decode(_path(location).read_bytes())
        return found

    # ------------------------------------------------------------ back to how it was

    def save(self) -> None:
        """Remember every table as it is, with its files."""
        shutil.rmtree(self._backup, ignore_errors=True)
        self._saved = {}
        for name in self.tables():
            table = self._there.load_table(self.full(name))
            self._saved[name] = table.metadata_location
            shutil.copytree(_path(table.location()), self._backup / name)

    def restore(self) -> None:
        """Put every table back, uuid and snapshots included; what came later is gone."""
        for name in self.tables():
            table = self._there.load_table(self.full(name))
            self._there.drop_table(self.full(name))
            shutil.rmtree(_path(table.location()))
        for name, location in self._saved.items():
            shutil.copytree(self._backup / name, _path(location).parent.parent)
            self._there.register_table(self.full(name), location)

    # ------------------------------------------------------------ processes

    def environment(self) -> dict[str, str]:
        """Return the environment of a process: no settings of this machine."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYICEBERG_", "LAKETABLE_"))}
        return {
            **kept,
            "PYICEBERG_HOME": str(self.folder),
            "LAKETABLE_CACHE": "off",
            "PYTHONPATH": str(ROOT),
        }

    def argv(self, command: Sequence[str]) -> list[str]:
        """Turn a story's command into what is started."""
        program, *args = command
        start = [str(PROGRAM)] if program == "laketable" else [sys.executable, "-m", f"tests.crash.{program}"]
        return [*start, *args]

    def spawn(self, argv: Sequence[str]) -> subprocess.Popen[str]:
        """Start a process in a group of its own, with its output in a file: a full pipe must not stop it."""
        log = (self.folder / "process.log").open("a")
        return subprocess.Popen(
            argv,
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            text=True,
            start_new_session=True,
        )

    def finish(self, argv: Sequence[str]) -> Result:
        """Run a process to its end."""
        log = self.folder / "process.log"
        log.write_text("")
        process = self.spawn(argv)
        try:
            code = process.wait(timeout=TIMEOUT_SECONDS)
        finally:
            kill_group(process.pid)
        return Result(code, log.read_text(), "")


def kill_group(pid: int) -> None:
    """`kill -9` a process with everything it started, its JVM included."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def wait_for_group(pid: int) -> None:
    """Wait until nothing that a process started runs any more."""
    deadline = time.monotonic() + GROUP_SECONDS
    while time.monotonic() < deadline:
        try:
            os.killpg(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("a process it started outlives it")


def _path(uri: str) -> Path:
    return Path(urlparse(uri).path)
