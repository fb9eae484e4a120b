"""One PySpark session for LakeTable: pinned versions, quiet, isolated, with the catalogs it was given.

Everything that starts Spark comes through `spark_session`. Catalog settings go into the running session instead of onto
the JVM's command line, where every user of the machine could read the secrets among them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.engines.catalog_conf import extra_packages, spark_catalog_properties
from reconciler.engines.java import find_java
from reconciler.errors import EnvironmentProblem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYSPARK = "4.1.4"
SPARK_MINOR = "4.1"
ICEBERG = "1.12.0"
ICEBERG_RUNTIME = f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{ICEBERG}"
SQLITE_JDBC = "org.xerial:sqlite-jdbc:3.54.1.0"
PACKAGES = (ICEBERG_RUNTIME, SQLITE_JDBC)
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
INSTALL_HINT = "Run `pip install 'laketable[spark]'`."

Catalog = tuple[str, Mapping[str, str]]


def spark_session(
    catalogs: Iterable[Catalog], settings: Mapping[str, str] | None = None, *, short: bool = False
) -> SparkSession:
    """Return a session of its own with these (name, PyIceberg properties); starts Spark in this process when needed.

    `settings` are Spark conf of the caller's choice. `short` tunes the JVM for a few metadata commits.
    """
    conf: dict[str, str] = {}
    for name, properties in catalogs:
        conf.update(spark_catalog_properties(name, properties))
    check_pyspark()
    session = _running(conf, settings or {}, short=short).newSession()
    check_spark(session.version)
    for key, value in conf.items():
        session.conf.set(key, value)
    return session


def check_pyspark() -> str:
    """Return the installed PySpark's version; raise EnvironmentProblem when it is absent or does not fit."""
    try:
        installed = version("pyspark")
    except PackageNotFoundError as error:
        raise EnvironmentProblem("PySpark is not installed.", hint=INSTALL_HINT) from error
    check_spark(installed)
    return installed


def check_spark(found: str) -> None:
    """Refuse a Spark whose minor version the Iceberg runtime was not built for: every statement would fail on it."""
    if not found.startswith(f"{SPARK_MINOR}."):
        raise EnvironmentProblem(
            f"Spark is {found}, and Iceberg {ICEBERG} needs {SPARK_MINOR}.",
            hint=f"Run `pip install pyspark=={PYSPARK}`, and unset SPARK_HOME if it points elsewhere.",
        )


def cached_jars(packages: Iterable[str] = PACKAGES) -> tuple[Path, ...] | None:
    """Return the jars of these packages from Ivy's folder; None unless all are there."""
    folder = Path.home() / ".ivy2.5.2" / "jars"
    jars = tuple(folder / f"{package.replace(':', '_', 1).replace(':', '-')}.jar" for package in packages)
    return jars if all(jar.is_file() for jar in jars) else None


def _running(catalog_conf: Mapping[str, str], settings: Mapping[str, str], *, short: bool) -> SparkSession:
    """Start Spark, or join the one that runs in this process."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    java = find_java()
    # PySpark takes both from the environment only.
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("laketable")
    packages = (*PACKAGES, *(f"{name}:{ICEBERG}" for name in extra_packages(catalog_conf)))
    for key, value in {**_conf(packages, short=short), **settings}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise EnvironmentProblem(
            f"Spark did not start with {java.origin} (Java {java.version}).",
            hint="What Spark printed above says why; `laketable doctor` checks the parts.",
        ) from error


def _conf(packages: tuple[str, ...], *, short: bool) -> dict[str, str]:
    options = [f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"]
    if short:
        options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    conf = {
        "spark.master": "local[*]",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.session.timeZone": "UTC",
    }
    jars = cached_jars(packages)
    if jars is None:
        conf["spark.jars.packages"] = ",".join(packages)
    else:
        conf["spark.driver.extraClassPath"] = os.pathsep.join(map(str, jars))
    return conf
