"""Java's classes by name: the JVM is not asked for what no class is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from reconciler.engines.gateway import Package


class Refusing(SimpleNamespace):
    """A gateway's client that fails at the first call."""

    gateway_property = SimpleNamespace(pool=None)
    converters = None

    def send_command(self, command: str) -> str:
        raise AssertionError(command)


def test_a_class_is_named_without_a_call() -> None:
    root = Package("", Refusing())
    assert root.org.apache.iceberg.DataFiles._fqn == "org.apache.iceberg.DataFiles"
    assert root.java.util.HashMap._fqn == "java.util.HashMap"


def test_a_member_of_a_class_is_asked_for() -> None:
    with pytest.raises(AssertionError, match=r"DataFiles\nbuilder"):
        _ = Package("", Refusing()).org.apache.iceberg.DataFiles.builder


def test_a_package_has_no_private_names() -> None:
    with pytest.raises(AttributeError):
        _ = Package("org", Refusing())._fqn
