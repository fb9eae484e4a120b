"""A real Spark Connect server as a test fixture; it knows the tests' catalogs by the names we give them.

It wants a token of whoever calls. Our own process has it while the server runs; a pod has to be given it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from reconciler.engines.catalog_conf import spark_catalog_properties
from reconciler.engines.java import find_java
from reconciler.engines.session import EXTENSIONS, PACKAGES, cached_jars

TOKEN = "canary-3be90a17"
_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # both sides read it


@contextlib.contextmanager
def connect_server(folder: Path, lakes: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Run the server with its log below `folder`; yield its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "connect.log"
    os.environ[_VARIABLE] = TOKEN
    environ = {**os.environ, "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
    with log.open("wb") as sink:
        server = subprocess.Popen(_command(lakes, port), env=environ, stdout=sink, stderr=sink, cwd=folder)
    try:
        yield _address(server, port, log)
    finally:
        del os.environ[_VARIABLE]
        server.terminate()
        try:
            server.wait(timeout=60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _command(lakes: Mapping[str, Mapping[str, str]], port: int) -> list[str]:
    import pyspark

    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }
    for name, properties in lakes.items():
        conf |= spark_catalog_properties(name, properties)
    jars = cached_jars()
    if jars is None:
        conf["spark.jars.packages"] = ",".join(PACKAGES)
    else:
        conf["spark.driver.extraClassPath"] = os.pathsep.join(map(str, jars))
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    server = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    return [submit, "--master", "local[2]", *settings, *server]


def _address(server: subprocess.Popen[bytes], port: int, log: Path) -> str:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()[-2000:]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return f"sc://localhost:{port}"  # by this name a token goes there without TLS
        time.sleep(0.1)
    raise AssertionError(log.read_text()[-2000:])
