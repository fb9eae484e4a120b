"""Fixtures that more than one part of the tests needs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.golden import Golden
from tests.rest_server import rest_server

JVM_FIXTURES = {"rest_catalog", "spark"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run rewrite the golden files instead of comparing with them."""
    parser.addoption("--update-golden", action="store_true", help="rewrite golden and generated files")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare with golden files, or rewrite them under --update-golden."""
    return Golden(update=bool(request.config.getoption("--update-golden")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that needs a JVM, so that `-m 'not spark'` is true to its name."""
    for item in items:
        if JVM_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Start Iceberg's own REST catalog server; the PyIceberg properties that reach it."""
    with rest_server(tmp_path_factory.mktemp("rest")) as uri:
        yield {"type": "rest", "uri": uri}
