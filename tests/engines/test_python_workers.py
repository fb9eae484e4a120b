"""Where Spark's JVM and its Python meet."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from reconciler.engines.python_workers import unix_sockets


def test_nobody_else_may_look_into_the_folder() -> None:
    (folder,) = (Path(value) for key, value in unix_sockets().items() if key.endswith(".dir"))
    assert folder.stat().st_mode & 0o077 == 0


def test_a_path_that_no_socket_may_have_leaves_tcp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert unix_sockets() == {}
