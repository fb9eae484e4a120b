"""The runtime `local`: a data job as a subprocess with a Spark of its own, telling its progress as JSON lines."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from reconciler.errors import ExitCode
from reconciler.plan.events import Event, Failed, Refused, decode_event
from reconciler.plan.operations import Plan

_PROGRAM = "import sys; from reconciler.cli.main import run; sys.exit(run(sys.argv[1:], tells_interruption=False))"
_GRACE_SECONDS = 20


class LocalRuntime:
    """`DataRuntime` on this machine; `document` prints a plan with its manifest, as `laketable execute` reads it."""

    def __init__(self, document: Callable[[Plan], bytes]) -> None:
        """Start nothing yet."""
        self._document = document

    def run(self, plan: Plan) -> Iterator[Event]:
        """Start the job and hand on its events; an interruption ends the job too, and the next run goes on."""
        with tempfile.TemporaryDirectory(prefix="laketable-") as folder:
            path = Path(folder) / "plan.json"
            path.write_bytes(self._document(plan))
            command = [sys.executable, "-c", _PROGRAM, "execute", "--plan", str(path), "--output", "json"]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            has_failed = False
            try:
                for line in process.stdout or ():
                    event = _decoded(line)
                    if event is not None:
                        has_failed = has_failed or isinstance(event, Failed | Refused)
                        yield event
                code = process.wait()
            finally:
                _end(process)
            if code not in (ExitCode.OK, ExitCode.STALE, ExitCode.DENIED) and not has_failed:
                yield Failed(
                    table=plan.table,
                    reason="JobDied",
                    message=f"The data job ended with exit code {code} before it was done.",
                    hint="Main shows all of it or nothing. Apply again: it goes on where it stopped.",
                )


def _decoded(line: bytes) -> Event | None:
    """Read an event; a library that prints to standard output must not end the job."""
    try:
        return decode_event(line)
    except ValueError:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdout is not None:
        process.stdout.close()
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=_GRACE_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):  # its JVM ends with it: its standard input closes
            process.kill()
            process.wait()
