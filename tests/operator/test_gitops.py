"""Argo CD's health check, run by the Lua that Argo CD runs, on the conditions that the operator writes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.errors import EnvironmentProblem
from reconciler.operator.conditions import print_conditions, standing_conditions
from reconciler.operator.reasons import STANDINGS, Reason
from tests.kube.assets import chart_programs

CONFIG_MAP = Path(__file__).parents[2] / "docs" / "gitops" / "argocd-cm.yaml"
NOW = "2026-01-01T00:00:00Z"
EXPECTED = {
    Reason.IN_SYNC: "Healthy",
    Reason.VALID: "Healthy",
    Reason.JOB_RUNNING: "Progressing",
    Reason.CATALOG_UNAVAILABLE: "Progressing",
    Reason.DENIED: "Degraded",
    Reason.INVALID_INPUT: "Degraded",
    Reason.ACCESS_DENIED: "Degraded",
    Reason.APPROVAL_REQUIRED: "Suspended",
    Reason.OUTSIDE_WINDOW: "Suspended",
    Reason.DRIFTED: "Suspended",
    Reason.SUSPENDED: "Suspended",
    Reason.CANCELLED: "Suspended",
}


@pytest.fixture(scope="module")
def lua() -> Path:
    try:
        return chart_programs() / "glua"
    except EnvironmentProblem as error:
        pytest.fail(str(error), pytrace=False)


def health(lua: Path, folder: Path, resources: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Ask the health check about resources: status and message of each."""
    customizations = yaml.safe_load(CONFIG_MAP.read_text())["data"]["resource.customizations"]
    ((_, customization),) = yaml.safe_load(customizations).items()
    program = folder / "health.lua"
    program.write_text(
        f"local function check(obj)\n{customization['health.lua']}\nend\n"
        f"for _, obj in ipairs({_literal(resources)}) do\n"
        "  local found = check(obj)\n  print(found.status .. '\\t' .. found.message)\nend\n"
    )
    done = subprocess.run([lua, str(program)], capture_output=True, text=True, check=True, timeout=60)
    return [(line.partition("\t")[0], line.partition("\t")[2]) for line in done.stdout.splitlines()]


def _literal(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"[{json.dumps(key)}] = {_literal(part)}" for key, part in value.items()) + "}"
        case list():
            return "{" + ", ".join(map(_literal, value)) + "}"
        case _:
            return json.dumps(value)


def resource(reason: Reason, *, generation: int = 1, observed: int = 1) -> dict[str, Any]:
    conditions = print_conditions(standing_conditions(reason, f"about {reason}"), None, observed, NOW)
    return {
        "metadata": {"generation": generation},
        "status": {"observedGeneration": observed, "conditions": conditions},
    }


def test_every_reason_has_the_health_that_its_standing_says(lua: Path, tmp_path: Path) -> None:
    found = dict(zip(Reason, health(lua, tmp_path, [resource(reason) for reason in Reason]), strict=True))
    assert {reason: found[reason][0] for reason in EXPECTED} == EXPECTED
    for reason, (status, message) in found.items():
        standing = STANDINGS[reason]
        assert (status == "Healthy") is standing.is_ready
        assert (status == "Degraded") is standing.is_stalled
        assert (status == "Progressing") is standing.is_reconciling
        assert message == f"{reason}: about {reason}"


def test_a_spec_that_was_not_seen_yet_is_not_healthy(lua: Path, tmp_path: Path) -> None:
    unseen = [
        {"metadata": {"generation": 1}},
        {"metadata": {"generation": 1}, "status": {"observedGeneration": -1}},
        {"metadata": {"generation": 1}, "status": {"observedGeneration": 1}},
        resource(Reason.IN_SYNC, generation=2, observed=1),
        resource(Reason.DENIED, generation=2, observed=1),
    ]
    assert {status for status, _ in health(lua, tmp_path, unseen)} == {"Progressing"}


def test_the_check_is_for_every_kind() -> None:
    customizations = yaml.safe_load(CONFIG_MAP.read_text())["data"]["resource.customizations"]
    assert list(yaml.safe_load(customizations)) == ["laketable.dev/*"]
