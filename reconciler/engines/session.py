"""One PySpark session for LakeTable: pinned versions, quiet, isolated, with the catalogs it was given.

Everything that starts Spark comes through `spark_session`. Catalog settings go into the running session instead of onto
the JVM's command line, where every user of the machine could read the secrets among them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler.engines.catalog_conf import extra_packages, spark_catalog_properties
from reconciler.engines.class_archive import ClassArchive
from reconciler.engines.gateway import answer_at_once
from reconciler.engines.java import Java, find_java
from reconciler.engines.jvm import ROOM_FOR_CLASSES, SHORT, SMALL, UNCHECKED_ARROW, huge_pages
from reconciler.engines.python_workers import unix_sockets
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
DOCTOR_HINT = "`laketable doctor` checks the parts"
INSTALL_HINT = "Run `pip install 'laketable[spark]'`."

Catalog = tuple[str, Mapping[str, str]]


def spark_session(
    catalogs: Iterable[Catalog],
    settings: Mapping[str, str] | None = None,
    *,
    short: bool = False,
    is_small: bool = False,
) -> SparkSession:
    """Return a session of its own with these (name, PyIceberg properties); starts Spark in this process when needed.

    `settings` are Spark conf of the caller's choice. `short` tunes the JVM for a few metadata commits; without it,
    the process ends with `end_spark`. `is_small` tunes it for little data (see `jvm.is_small`).
    """
    conf: dict[str, str] = {}
    for name, properties in catalogs:
        conf.update(spark_catalog_properties(name, properties))
    check_pyspark()
    session = _running(conf, settings or {}, short=short, is_small=is_small).newSession()
    check_spark(session.version)
    answer_at_once(session)
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
    """Return the jars of these packages from the folder LAKETABLE_JARS, else Ivy's; None unless all are there.

    An image brings its jars: the home of a job's pod is an empty folder, and its network may not reach Maven.
    """
    stated = os.environ.get("LAKETABLE_JARS")
    folder = Path(stated) if stated else Path.home() / ".ivy2.5.2" / "jars"
    jars = tuple(folder / f"{package.replace(':', '_', 1).replace(':', '-')}.jar" for package in packages)
    return jars if all(jar.is_file() for jar in jars) else None


def _running(
    catalog_conf: Mapping[str, str], settings: Mapping[str, str], *, short: bool, is_small: bool
) -> SparkSession:
    """Start Spark, or join the one that runs in this process."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    java = find_java()
    # PySpark takes both from the environment only.
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # The launcher is a JVM too, and only prints a command line.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto")
    builder = SparkSession.builder.appName("laketable")
    packages = (*PACKAGES, *(f"{name}:{ICEBERG}" for name in extra_packages(catalog_conf)))
    conf = {**_conf(packages, java, short=short, is_small=is_small), **settings}
    if conf["spark.master"].startswith("local"):  # Python in other pods knows no folder of ours
        conf = {**unix_sockets(), **conf}
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        with own_interruptions(), ended_unless_started():
            return builder.getOrCreate()
    except Exception as error:
        is_driver = conf["spark.master"].startswith("k8s:")
        checks = "its service account must be let make pods (docs/runtimes.md)" if is_driver else DOCTOR_HINT
        raise EnvironmentProblem(
            f"Spark did not start with {java.origin} (Java {java.version}).",
            hint=f"What Spark printed above says why; {checks}.",
        ) from error


@contextlib.contextmanager
def own_interruptions() -> Iterator[None]:
    """Keep this process's handler of SIGINT: the one of PySpark calls the JVM amid the call that is under way."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def ended_unless_started() -> Iterator[None]:
    """End a JVM that is starting when its start is interrupted: PySpark forgets it, and it would stay without an owner.

    PySpark keeps the process to itself until it has started, hence the look at how it makes one.
    """
    from pyspark import java_gateway

    made: list[subprocess.Popen[bytes]] = []
    real = java_gateway.Popen

    def remembered(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        made.append(real(*args, **kwargs))
        return made[-1]

    java_gateway.Popen = remembered
    try:
        yield
    except BaseException:
        for process in made:
            process.kill()
            process.wait()
        raise
    finally:
        java_gateway.Popen = real


def _conf(packages: tuple[str, ...], java: Java, *, short: bool, is_small: bool) -> dict[str, str]:
    global _archive
    log4j = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"
    options = [log4j, *UNCHECKED_ARROW, *ROOM_FOR_CLASSES]
    if short or is_small:
        options += SHORT if short else (*SMALL, *huge_pages())
    conf = {
        "spark.master": "local[*]",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.session.timeZone": "UTC",
        "spark.python.daemon.module": "reconciler.engines.splice.daemon",
    }
    jars = cached_jars(packages)
    if jars is None:
        conf["spark.jars.packages"] = ",".join(packages)
    else:
        conf["spark.driver.extraClassPath"] = os.pathsep.join(map(str, jars))
        conf["spark.executor.extraClassPath"] = conf["spark.driver.extraClassPath"]  # of pods with the same image
        _archive = ClassArchive.of(java, jars, os.environ)
        options += _archive.options(makes=not short)
    conf["spark.driver.extraJavaOptions"] = " ".join(options)
    return conf


_archive = ClassArchive(None)  # of the one JVM of this process
_EXIT_SECONDS = 120
_GRACE_SECONDS = 5


def end_spark(*, at_once: bool, note: Callable[[str], None]) -> None:
    """End this process's JVM, if there is one, and wait until it is gone; `at_once`: whatever it is doing."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    jvm = getattr(gateway, "proc", None)
    if gateway is None or jvm is None:
        return
    if at_once:
        _end(jvm, _GRACE_SECONDS)
        _archive.discard()
        return
    if _archive.is_being_made:
        note("Archiving Spark's classes, once: the next data job starts faster …")
    is_well = False
    try:
        running = SparkContext._active_spark_context
        if running is not None:
            running.stop()
        gateway.shutdown()
        jvm.stdin.close()
        is_well = jvm.wait(timeout=_EXIT_SECONDS) == 0
    except subprocess.TimeoutExpired:
        note("Spark's JVM did not end by itself; it was stopped.")
    finally:
        if not is_well:
            _end(jvm, _GRACE_SECONDS)
            _archive.discard()
    _archive.keep()


def _end(process: subprocess.Popen[bytes], seconds: float) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
