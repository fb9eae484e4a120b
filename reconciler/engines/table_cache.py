"""Iceberg's cache of tables by name, through which Spark reads and writes staged files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.engines.gateway import jvm_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def table_cache(session: SparkSession) -> Any:
    """Return the JVM's `SparkTableCache`.

    Its class has a static `get()` beside a `get(name)`; py4j takes the one that the JVM lists first, and that order is
    nobody's promise: with shared archives of classes it is another one.
    """
    java, gateway = jvm_of(session).java.lang, session.sparkContext._gateway
    loader = java.Thread.currentThread().getContextClassLoader()
    found = java.Class.forName("org.apache.iceberg.spark.SparkTableCache", True, loader)
    get = found.getMethod("get", gateway.new_array(java.Class, 0))
    return get.invoke(None, gateway.new_array(java.Object, 0))
