"""pydantic's plugins: skipped with all that looking for them imports, and only where they are disabled."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from reconciler.cli.plugins import EVERY, VARIABLE

CODE = """
import sys
from reconciler.cli.plugins import skip_search
skip_search()
print("pydantic.plugin._loader" in sys.modules, "importlib.metadata" in sys.modules)
from reconciler.model.manifest import LakeTable
LakeTable.model_rebuild()
print("importlib.metadata" in sys.modules)
from importlib.metadata import version
print(version("pydantic") != "")
"""


@pytest.mark.parametrize(
    ("value", "told"),
    [(EVERY, ["True False", "False", "True"]), ("logfire-plugin", ["False False", "True", "True"])],
)
def test_plugins_are_not_searched_for_where_they_are_disabled(value: str, told: list[str]) -> None:
    environ = {**os.environ, VARIABLE: value}
    done = subprocess.run([sys.executable, "-c", CODE], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == told
