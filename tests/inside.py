"""Data jobs without a process each: what starts them and what they do is the same, on the Spark of this process."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from reconciler.cli.main import run
from reconciler.errors import ExitCode
from reconciler.plan.events import Event, Failed, decode_event
from reconciler.plan.operations import Plan, Work
from reconciler.plan.table_work import Maintain


class InProcess:
    """`LocalRuntime` without its process: the same program, on the Spark session of this one."""

    works: ClassVar[set[str]] = set()
    """The kinds of work that were asked for."""

    def __init__(self, document: Any) -> None:
        self._document = document

    def run(self, plan: Plan) -> Iterator[Event]:
        """Carry out the data operations of a plan."""
        self.works.update(kind_of(operation.work) for operation in plan.operations if operation.work is not None)
        told = io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plan.json"
            path.write_bytes(self._document(plan))
            with contextlib.redirect_stdout(told):
                code = run(["execute", "--plan", str(path), "--output", "json"])
        yield from (decode_event(line.encode()) for line in told.getvalue().splitlines())
        if code == ExitCode.ERROR and '"failed"' not in told.getvalue():
            yield Failed(table=plan.table, reason="JobDied", message=f"exit {code}")


def kind_of(work: Work) -> str:
    """Name a kind of work as plan documents do, and which maintenance."""
    tag = str(work.__struct_config__.tag)
    return f"{tag}/{work.step.value}" if isinstance(work, Maintain) else tag
