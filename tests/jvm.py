"""JVMs that start twice as fast: an archive of the classes that Spark loads, made once a machine and shared.

`python -m tests.jvm` is the process whose classes are archived when it ends.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path

from reconciler.engines.java import cache_dir, find_java
from reconciler.engines.session import PACKAGES, PYSPARK, spark_session
from reconciler.errors import EnvironmentProblem

ROOT = Path(__file__).resolve().parents[1]
# A short job is over before the second compiler has paid for itself.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SHORT = f"{SHORT_LIVED} -Xshare:auto -Xlog:disable -Xlog:all=error:stderr"
# Spark makes classes without end, and each time there are more than ever before the whole heap is collected; a tenth of
# the time of a long run went there. With one compiler only, the room for code is a fifth of what it is else: a long run
# fills it.
_ROOM = "-XX:MetaspaceSize=512m -Xms512m -Xmn256m -XX:ReservedCodeCacheSize=256m"


@cache
def quick_jvm() -> dict[str, str]:
    """Return the environment in which Spark's JVM starts fast; the archive is made when there is none."""
    archive = _archive()
    if not archive.is_file() and find_java().version == 17:  # 21 would refuse it (see `class_archive`)
        with contextlib.suppress(EnvironmentProblem, OSError, subprocess.SubprocessError):
            _make(archive)
    shared = f" -XX:SharedArchiveFile={archive}" if archive.is_file() else ""
    return {"SPARK_LAUNCHER_OPTS": _SHORT, "SPARK_SUBMIT_OPTS": f"{_SHORT} {_ROOM}{shared}"}


def _archive() -> Path:
    """Name it by what it depends on; a JVM that cannot use it starts without."""
    key = repr((find_java(), PYSPARK, PACKAGES, sys.prefix))
    return cache_dir({}) / "tests" / f"spark-{sha256(key.encode()).hexdigest()[:16]}.jsa"


def _make(archive: Path) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        draft = Path(folder) / "draft.jsa"
        environ = {**os.environ, "SPARK_SUBMIT_OPTS": f"{_SHORT} -XX:ArchiveClassesAtExit={draft}"}
        command = [sys.executable, "-m", "tests.jvm", folder]
        subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, check=True, timeout=180)
        draft.rename(archive)


def main(folder: str) -> None:
    """Do a little of everything, and wait until the JVM has ended."""
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    session = spark_session([("lake", properties)], short=True)
    session.sql("CREATE NAMESPACE lake.a")
    session.sql("CREATE TABLE lake.a.t AS SELECT id, id * 2 AS x FROM range(10)")
    session.sql("UPDATE lake.a.t SET x = x + 1 WHERE id < 5")
    session.sql("SELECT x % 2, count(*) FROM lake.a.t GROUP BY 1").collect()
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main(sys.argv[1])
