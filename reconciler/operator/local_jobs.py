"""The runtime `local`: a data job as a subprocess of the operator, told what to do by files.

One per table at a time, ended with the operator. Its secrets lie in a folder only we can read, and go with the job.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.engines.job_command import execute_command
from reconciler.errors import ExitCode
from reconciler.model.yaml_text import dump_yaml
from reconciler.operator.case import Case
from reconciler.operator.job_manifest import for_job, packed, work_keys
from reconciler.operator.job_pod import CATALOG_FILE, PLAN_FILE, actor
from reconciler.plan.events import Committed, Failed, Progress, Published, Refused, Replayed, Validated, decode_event
from reconciler.plan.operations import Plan

_PROGRAM = "import sys; from reconciler.cli.main import run; sys.exit(run(sys.argv[1:]))"
_GRACE_SECONDS = 20.0
_KEPT = ("PATH", "JAVA_HOME", "SPARK_HOME", "LANG", "LC_ALL", "HOME", "PYTHONPATH", "LAKETABLE_JARS", "SSL_CERT_FILE")

Told = Committed | Replayed | Failed | Refused | Validated | Published
"""What a job says at its end."""


@dataclass(slots=True)
class LocalJob:
    """One job: its process, and what it told."""

    operations: frozenset[str]
    process: asyncio.subprocess.Process
    folder: Path
    progress: Progress | None = None
    told: Told | None = None
    reader: asyncio.Task[None] | None = field(default=None)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.reader is not None and not self.reader.done()


_JOBS: dict[str, LocalJob] = {}
"""Running and just ended jobs by the uid of their LakeTable; processes cannot outlive this one's memory of them."""


def pid_of(table_uid: str) -> int | None:
    """Return the process id of a table's job, ended or not."""
    known = _JOBS.get(table_uid)
    return known.pid if known is not None else None


async def ensure(
    cluster: str, case: Case, plan: Plan, *, commits: bool = False, notify: Callable[[], None]
) -> LocalJob:
    """Return the table's job, started if none runs; one that ended is returned once."""
    wanted = frozenset(work_keys(plan, commits=commits))
    known = _JOBS.get(case.meta.uid)
    if known is not None and known.is_running and not known.operations & wanted:
        await stop(case.meta.uid)
        known = None
    if known is not None:
        if not known.is_running:
            del _JOBS[case.meta.uid]
        return known
    started = await _start(cluster, case, plan, wanted, commits)
    started.reader = asyncio.get_running_loop().create_task(_read(started, plan, notify))
    _JOBS[case.meta.uid] = started
    return started


async def keep(table_uid: str, wanted: Collection[str]) -> LocalJob | None:
    """Return the table's job; one that does nothing of what is wanted is ended."""
    known = _JOBS.get(table_uid)
    if known is not None and known.operations.isdisjoint(wanted):
        await stop(table_uid)
        return None
    return known


async def stop(table_uid: str, grace_seconds: float = _GRACE_SECONDS) -> None:
    """End a table's job; without grace it ends where it stands, and the table tells where that is."""
    known = _JOBS.pop(table_uid, None)
    if known is None:
        return
    with contextlib.suppress(ProcessLookupError):
        known.process.terminate() if grace_seconds else known.process.kill()
    try:
        await asyncio.wait_for(known.process.wait(), grace_seconds or _GRACE_SECONDS)
    except TimeoutError:
        known.process.kill()
        await known.process.wait()


async def stop_everything(grace_seconds: float = _GRACE_SECONDS) -> None:
    """End every job: the operator stops, or lost its Lease."""
    await asyncio.gather(*(stop(uid, grace_seconds) for uid in list(_JOBS)))


async def _start(cluster: str, case: Case, plan: Plan, wanted: frozenset[str], commits: bool) -> LocalJob:
    folder = Path(tempfile.mkdtemp(prefix="laketable-job-"))  # mode 0700
    manifest = case.catalog.manifest
    document, catalog = folder / PLAN_FILE, folder / CATALOG_FILE
    document.write_bytes(packed(case.wanted, plan))
    catalog.write_text(dump_yaml(for_job(manifest)))
    if manifest.spec.secret_ref is not None:
        secrets = folder / "secrets" / manifest.spec.secret_ref.name
        secrets.mkdir(parents=True)
        stated = manifest.spec.properties or {}
        for key, value in case.catalog.settings.properties.items():
            if key not in stated and isinstance(value, str):
                (secrets / key).write_text(value)
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | {
        "LAKETABLE_PROJECT": cluster,
        "LAKETABLE_ACTOR": actor(cluster),
        "LAKETABLE_CACHE": "off",
        "LAKETABLE_SECRETS": str(folder / "secrets"),
        "TMPDIR": str(folder),
    }
    (_, *arguments) = execute_command(str(document), catalogs=[str(catalog)], commits=commits)
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, env=environment, cwd=folder
    )
    return LocalJob(operations=wanted, process=process, folder=folder)


async def _read(job: LocalJob, plan: Plan, notify: Callable[[], None]) -> None:
    """Listen until it ends."""
    try:
        while job.process.stdout is not None and (line := await job.process.stdout.readline()):
            try:
                event = decode_event(line)
            except ValueError:  # a library that prints to standard output must not end the job
                continue
            if isinstance(event, Progress):
                job.progress = event
            elif isinstance(event, Told):
                job.told = event
        code = await job.process.wait()
        if code not in (ExitCode.OK, ExitCode.STALE, ExitCode.DENIED) and not isinstance(job.told, Failed):
            job.told = Failed(
                table=plan.table,
                reason="JobDied",
                message=f"The data job ended with exit code {code} before it was done.",
                hint="Main shows all of it or nothing; another job goes on where it stopped.",
            )
    finally:
        shutil.rmtree(job.folder, ignore_errors=True)
        notify()
