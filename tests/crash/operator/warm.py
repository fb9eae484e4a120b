"""One process that does the data jobs of all pods, on a Spark that is warm: a JVM for each would be most of the time.

What the operator sees of a job is the same: a pod of its own with a process of its own, which ends when the work is
done. That process (`PROGRAM`) only hands on its command; jobs by themselves are in tests/operator and tests/crash.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.kube.cluster import die_with_parent

_ROOT = Path(__file__).parents[3]
_PLACE = "LAKETABLE_TEST_WARM"
PROGRAM = f"""
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as there:
    there.connect(os.environ["{_PLACE}"])
    there.sendall(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode() + b"\\n")
    code, text = json.loads(there.makefile("rb").readline())
print(text)
sys.exit(code)
"""
"""What a pod runs instead of `laketable`."""


@contextlib.contextmanager
def running(folder: Path, environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Start the process; gives the environment in which `PROGRAM` finds it."""
    place = folder / "warm"
    with socket.socket(socket.AF_UNIX) as listening:  # here, so that who comes early waits
        listening.bind(str(place))
        listening.listen(64)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.operator.warm", str(listening.fileno())],
            cwd=_ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=(folder / "warm.log").open("wb"),
            stderr=subprocess.STDOUT,
            pass_fds=[listening.fileno()],
            preexec_fn=die_with_parent,  # noqa: PLW1509  (one system call)
            start_new_session=True,
        )
    try:
        yield {_PLACE: str(place)}
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with its JVM
        process.wait()


def _serve(listening: socket.socket) -> None:
    from reconciler.engines.session import spark_session

    spark_session([], is_small=True)
    while True:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError, ValueError):  # a pod that was deleted
            arguments, environment, place = json.loads(connection.makefile("rb").readline())
            answer = _carried_out(arguments, environment, place)
            connection.sendall(json.dumps(answer).encode() + b"\n")


def _carried_out(arguments: list[str], environment: dict[str, str], place: str) -> tuple[int, str]:
    from reconciler.cli.main import run

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(place)
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        code = run(arguments, tells_interruption=False)
    return int(code), told.getvalue()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
