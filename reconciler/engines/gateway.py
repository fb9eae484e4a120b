"""The JVM behind a session's gateway, asked in as few calls as it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Package:
    """A Java package by its name; nothing is asked before a class of it is used.

    The gateway's own packages ask the JVM for each part of a name, which then looks through every jar for a class of
    that name. What is a class is told here as Java names them: they begin with a capital.
    """

    def __init__(self, name: str, client: Any) -> None:
        self._name, self._client = name, client

    def __getattr__(self, part: str) -> Any:
        """Return a class, or a package within."""
        from py4j.java_gateway import JavaClass

        if part.startswith("_"):
            raise AttributeError(part)
        name = f"{self._name}.{part}" if self._name else part
        return JavaClass(name, self._client) if part[0].isupper() else Package(name, self._client)


def jvm_of(session: SparkSession) -> Any:
    """Return the JVM's classes by their full names: `jvm_of(session).org.apache.iceberg.DataFiles`."""
    return Package("", session.sparkContext._gateway._gateway_client)


def text_map(session: SparkSession, found: Any) -> dict[str, str]:
    """Read a Java map of texts at once: walking it takes calls for every entry, and one that fails at its end."""
    mapper = jvm_of(session).com.fasterxml.jackson.databind.ObjectMapper()
    return msgspec.json.decode(mapper.writeValueAsString(found), type=dict[str, str])
