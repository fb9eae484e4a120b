"""What a data job's exit code tells whoever may start it again."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.cli.execute import command
from reconciler.engines.job_command import FINAL, TEMPORARY, execute_command, exit_code, pod_failure_policy
from reconciler.errors import ExitCode

AGAIN = (ExitCode.ERROR, "CatalogUnavailable")
RACED = (ExitCode.STALE, "PublishConflict")
WRONG = (ExitCode.ERROR, "InvalidInput")
STALE = (ExitCode.STALE, "PlanStale")


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        ([], ExitCode.OK),
        ([AGAIN], TEMPORARY),
        ([RACED, AGAIN], TEMPORARY),
        ([AGAIN, WRONG], ExitCode.ERROR),
        ([STALE, AGAIN], ExitCode.STALE),
        ([(ExitCode.DENIED, "Denied"), STALE], ExitCode.DENIED),
    ],
)
def test_what_starting_again_may_mend_is_told_apart(ended: list[tuple[ExitCode, str]], code: int) -> None:
    assert exit_code(ended) == code


def test_the_pod_is_started_again_unless_its_exit_is_final() -> None:
    policy: Any = pod_failure_policy("laketable")
    (rule,) = (rule["onExitCodes"] for rule in policy["rules"] if "onExitCodes" in rule)
    assert rule["values"] == list(FINAL)
    assert not {0, TEMPORARY, ExitCode.INTERRUPTED, 137, 143} & set(rule["values"])


def test_the_command_is_one_that_the_program_understands() -> None:
    words = execute_command("/plans/plan.json.gz", catalogs=["/plans/catalog.yaml"], result="/dev/termination-log")
    assert words[:2] == ["laketable", "execute"]
    context = command.make_context("execute", words[2:])
    assert context.params["catalogs"] == ("/plans/catalog.yaml",)
    assert context.params["output"] == "json"
