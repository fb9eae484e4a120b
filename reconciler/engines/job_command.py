"""A data job as somebody else starts it: its command line, and what its exit code means to whoever may start it again.

Kubernetes Jobs run this; everything a job needs comes from files and the environment. Main shows all of an operation or
nothing, whatever ends the job, and the next one goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reconciler.errors import CatalogUnavailable, CommitConflict, CommitStateUnknown, ExitCode, Throttled
from reconciler.model.metadata import JsonObject

TEMPORARY = 75
"""Exit code of a job that a later start may bring further; sysexits.h calls it EX_TEMPFAIL."""

SIGTERM_EXIT = 143
FINAL = (ExitCode.ERROR, ExitCode.DENIED, ExitCode.STALE)
"""Exit codes after which another start ends the same way: somebody has to change something, or plan again."""

_TEMPORARY_REASONS = frozenset(
    {
        *(error.reason for error in (CatalogUnavailable, Throttled, CommitStateUnknown, CommitConflict)),
        "PublishConflict",
    }
)


def is_temporary(reason: str) -> bool:
    """Say whether what failed for this reason may go well the next time."""
    return reason in _TEMPORARY_REASONS


def exit_code(codes: Iterable[tuple[ExitCode, str]]) -> int:
    """Reduce how a job's tables ended, each with its reason, to the process's exit code; what is final wins."""
    found = [(code, reason) for code, reason in codes if code is not ExitCode.OK]
    final = [code for code, reason in found if not is_temporary(reason)]
    for code in (ExitCode.INTERRUPTED, *FINAL):
        if code in final:
            return code
    return TEMPORARY if found else ExitCode.OK


def execute_command(
    plan: str, *, catalogs: Sequence[str] = (), result: str | None = None, commits: bool = False
) -> list[str]:
    """Return the command that carries out a plan document; `catalogs` are files with LakeCatalogs.

    `commits` asks for the plan's metadata commit, which is otherwise made before, and for nothing of its work on rows.
    Secrets never stand on the command line, where every user of the machine could read them.
    """
    command = ["laketable", "execute", "--plan", plan, "--output", "json"]
    for catalog in catalogs:
        command += ["--catalog", catalog]
    return [*command, *(("--result", result) if result else ()), *(("--commit",) if commits else ())]


def pod_failure_policy(container: str) -> JsonObject:
    """Return the Job's podFailurePolicy: a final exit code fails the Job at once, everything else is tried again."""
    on_exit: JsonObject = {"containerName": container, "operator": "In", "values": [int(code) for code in FINAL]}
    disrupted: JsonObject = {"type": "DisruptionTarget", "status": "True"}
    return {
        "rules": [
            {"action": "Ignore", "onPodConditions": [disrupted]},
            {"action": "FailJob", "onExitCodes": on_exit},
        ]
    }
