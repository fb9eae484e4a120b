"""The scratch project every command is tried in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.lab import Lab

_FOREIGN = ("PYICEBERG_", "LAKETABLE_", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Forget whatever this machine has configured."""
    for variable in list(os.environ):
        if variable.startswith(_FOREIGN):
            monkeypatch.delenv(variable)
    (tmp_path / ".pyiceberg.yaml").write_text(
        "legacy-current-snapshot-id: false\n"
    )  # found first, so that the one of the home folder is not
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))


@pytest.fixture
def lab(bare: None, tmp_path: Path) -> Lab:
    """A project with nothing in it and the embedded catalog."""
    folder = tmp_path / "project"
    folder.mkdir()
    return Lab(folder)
