"""The JVM behind a session's gateway, asked in as few calls as it takes."""

from __future__ import annotations

import contextlib
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


def field_of(java_class: Any, name: str) -> Any:
    """Return a private field of a Java class."""
    field = java_class.getDeclaredField(name)
    field.setAccessible(True)
    return field


def answer_at_once(session: SparkSession) -> None:
    """Have the JVM send long answers without a pause: after its first 8 KiB each waits 40 ms for an acknowledgement.

    That is Nagle's algorithm, which the gateway leaves on, against TCP's delayed acknowledgements (RFC 1122, 4.2.3.2).
    Its connections are private; where another Py4J keeps others, answers only take longer.
    """
    with contextlib.suppress(Exception):
        server = session.sparkContext._gateway.java_gateway_server
        connections = field_of(server.getClass().getSuperclass(), "connections").get(server)
        for number in range(connections.size()):
            connections.get(number).getSocket().setTcpNoDelay(True)
