"""Fixtures that more than one part of the tests needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.cli.lab import Lab
from tests.connect_server import connect_server
from tests.goldens import Golden
from tests.inside import InProcess
from tests.jvm import quick_jvm
from tests.order import long_files_first
from tests.rest_server import rest_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What an earlier run parsed must not decide how this one ends; tests of the cache name a folder of their own.
os.environ["LAKETABLE_CACHE"] = "off"
# Nor must the terminal that somebody runs the tests in.
for _variable in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
    os.environ.pop(_variable, None)

# The same examples on every run: only a change turns it red. HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

_CONFIGURED = ("PYICEBERG_", "LAKETABLE_")
JVM_FIXTURES = {"connect_url", "rest_catalog", "spark"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run rewrite the golden files instead of comparing with them."""
    parser.addoption("--update-golden", action="store_true", help="rewrite golden and generated files")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare with golden files, or rewrite them under --update-golden."""
    return Golden(update=bool(request.config.getoption("--update-golden")))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test that needs a JVM, so that `-m 'not spark'` is true to its name; leave the long matrix out.

    `make test-crash` names it. A part of it, chosen by hand, is in every run.
    """
    for item in items:
        if JVM_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.spark)
    if "crash" not in config.option.markexpr:
        left_out = [item for item in items if item.get_closest_marker("crash")]
        items[:] = [item for item in items if not item.get_closest_marker("crash")]
        config.hook.pytest_deselected(items=left_out)
    long_files_first(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let every JVM of this run start fast, when there will be any."""
    if any(item.get_closest_marker("spark") for item in session.items) and not session.config.option.collectonly:
        os.environ.update(quick_jvm())


def forget_settings(patch: pytest.MonkeyPatch) -> None:
    """Remove what the environment configures."""
    for variable in list(os.environ):
        if variable.startswith(_CONFIGURED):
            patch.delenv(variable)
    patch.setenv("LAKETABLE_CACHE", "off")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Forget whatever this machine has configured."""
    forget_settings(monkeypatch)
    # Found first, so that the one of the home folder is not.
    (tmp_path / ".pyiceberg.yaml").write_text("legacy-current-snapshot-id: false\n")
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setenv("LAKETABLE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def lab(bare: None, tmp_path: Path) -> Lab:
    """A project with nothing in it and the embedded catalog."""
    folder = tmp_path / "project"
    folder.mkdir()
    return Lab(folder)


@pytest.fixture(scope="session")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Start Iceberg's own REST catalog server; the PyIceberg properties that reach it."""
    with rest_server(tmp_path_factory.mktemp("rest")) as uri:
        yield {"type": "rest", "uri": uri}


@pytest.fixture(scope="session")
def lakes(tmp_path_factory: pytest.TempPathFactory, rest_catalog: dict[str, str]) -> dict[str, dict[str, str]]:
    """Both catalogs that every executor is tried on, as PyIceberg properties by catalog name."""
    folder = tmp_path_factory.mktemp("embedded")
    embedded = {"type": "sql", "uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": f"file://{folder}/warehouse"}
    return {"embedded": embedded, "rest": rest_catalog}


@pytest.fixture(scope="session")
def spark(lakes: dict[str, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start Spark once per run, with both catalogs."""
    from reconciler.engines.session import spark_session

    settings = {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark-warehouse")),
    }
    session = spark_session(lakes.items(), settings, short=True)
    yield session
    session.stop()


@pytest.fixture
def jobs_inside(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run data jobs in this process: a Spark of its own takes a test longer than most have to do on it."""
    from reconciler.engines import local_runtime

    monkeypatch.setattr(local_runtime, "LocalRuntime", InProcess)


@pytest.fixture(scope="session")
def connect_url(lakes: dict[str, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a Spark Connect server once per run, with both catalogs; its address."""
    with connect_server(tmp_path_factory.mktemp("connect"), lakes) as url:
        yield url
