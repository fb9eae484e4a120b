"""The gateway sends long answers without waiting for an acknowledgement of their first part."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from reconciler.engines.gateway import answer_at_once, field_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def waiting(session: SparkSession) -> int:
    """Count the JVM's connections that wait."""
    server = session.sparkContext._gateway.java_gateway_server
    found = field_of(server.getClass().getSuperclass(), "connections").get(server)
    return sum(not found.get(n).getSocket().getTcpNoDelay() for n in range(found.size()))


def test_no_connection_waits(spark: SparkSession) -> None:
    with ThreadPoolExecutor(1) as thread:  # each thread has a connection of its own
        assert thread.submit(waiting, spark).result() >= 1
        thread.submit(answer_at_once, spark).result()
        assert thread.submit(waiting, spark).result() == 0
