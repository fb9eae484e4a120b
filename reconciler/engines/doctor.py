"""What `laketable doctor` says about this machine: facts and hints, printed by the caller."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping

import msgspec

from reconciler.engines.gateway import jvm_of
from reconciler.engines.java import find_java
from reconciler.engines.session import ICEBERG, PACKAGES, cached_jars, check_pyspark, spark_session
from reconciler.errors import EnvironmentProblem

OLDEST_PYTHON = (3, 11)


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One fact: whether it is as it should be, and otherwise what to do."""

    name: str
    ok: bool
    detail: str
    hint: str = ""


def check_all(environ: Mapping[str, str] | None = None, *, start_session: bool = False) -> tuple[Check, ...]:
    """Return every check; `start_session` also starts Spark, which takes seconds and may download jars."""
    checks = [_python(), _checked("Java", lambda: _java(environ)), _checked("PySpark", check_pyspark), _jars()]
    if start_session and all(check.ok for check in checks):
        checks.append(_checked("Spark session", _session))
    return tuple(checks)


def _python() -> Check:
    ok = sys.version_info[:2] >= OLDEST_PYTHON
    hint = "" if ok else f"Install Python {'.'.join(map(str, OLDEST_PYTHON))} or later."
    return Check(name="Python", ok=ok, detail=platform.python_version(), hint=hint)


def _java(environ: Mapping[str, str] | None) -> str:
    java = find_java(environ)
    return f"{java.version} at {java.home} (from {java.origin})"


def _jars() -> Check:
    if cached_jars() is not None:
        return Check(name="Jars", ok=True, detail=f"Iceberg {ICEBERG} and SQLite are there")
    hint = "The first Spark session downloads them (60 MB); run one while there is a network."
    return Check(name="Jars", ok=True, detail=f"not downloaded yet: {', '.join(PACKAGES)}", hint=hint)


def _session() -> str:
    session = spark_session([], short=True)
    spark = session.version
    iceberg = jvm_of(session).org.apache.iceberg.IcebergBuild.version()
    session.stop()
    return f"Spark {spark} with Iceberg {iceberg}"


def _checked(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name=name, ok=True, detail=check())
    except EnvironmentProblem as problem:
        return Check(name=name, ok=False, detail=problem.message, hint=problem.hint)
