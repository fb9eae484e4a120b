"""Iceberg's own REST catalog server as a test fixture: the parts of `RESTCatalogServer`, bound to the loopback.

`RESTCatalogServer` itself binds every interface, so its servlet and its catalog adapter are put together here, over
py4j, with a connector on 127.0.0.1 and a port of the kernel's choice. Jars come by Ivy, which is part of PySpark.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from reconciler.engines.java import Java, cache_dir, find_java
from reconciler.errors import EnvironmentProblem

_MODULES = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="dev.laketable" module="rest-catalog-server"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.iceberg" name="iceberg-open-api" rev="1.11.0" conf="default->master">
      <artifact name="iceberg-open-api" type="jar" ext="jar" m:classifier="test-fixtures"/>
    </dependency>
    <dependency org="org.apache.iceberg" name="iceberg-core" rev="1.11.0" conf="default->runtime,master">
      <artifact name="iceberg-core" type="jar" ext="jar"/>
      <artifact name="iceberg-core" type="jar" ext="jar" m:classifier="tests"/>
    </dependency>
    <dependency org="org.xerial" name="sqlite-jdbc" rev="3.54.1.0" conf="default->master"/>
    <dependency org="org.eclipse.jetty.ee10" name="jetty-ee10-servlet" rev="12.1.3" conf="default->runtime,master"/>
    <dependency org="org.eclipse.jetty.compression" name="jetty-compression-server" rev="12.1.3"
        conf="default->runtime,master"/>
    <dependency org="org.eclipse.jetty.compression" name="jetty-compression-gzip" rev="12.1.3"
        conf="default->runtime,master"/>
  </dependencies>
</ivy-module>
"""
# What the server needs of Hadoop and logging is in PySpark already.
_FROM_PYSPARK = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar", "log4j-*.jar", "py4j-*.jar")
_LOGGING = "rootLogger.level = error\n"


@contextlib.contextmanager
def rest_server(folder: Path) -> Iterator[str]:
    """Run the server with its database and warehouse below `folder`; yield its URI."""
    java = find_java()
    server = _start_jvm(java, folder)
    try:
        yield _start_server(server, folder)
    finally:
        server.close()


class _Jvm:
    """A JVM that ends with us: py4j's gateway dies when its standard input closes."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway

        self.process = process
        self.log = log
        assert process.stdout is not None
        port, token = process.stdout.readline().strip(), process.stdout.readline().strip()
        if not port.isdigit():
            self.close()
            raise EnvironmentProblem("The REST catalog server's JVM did not start.", where=str(log))
        parameters = GatewayParameters(port=int(port), auth_token=token.decode(), auto_convert=True)
        self.gateway = JavaGateway(gateway_parameters=parameters)

    def close(self) -> None:
        """End the JVM and wait for it."""
        if gateway := getattr(self, "gateway", None):
            gateway.shutdown(raise_exception=False)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _start_jvm(java: Java, folder: Path) -> _Jvm:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log4j2.properties").write_text(_LOGGING)
    pyspark = [str(jar) for pattern in _FROM_PYSPARK for jar in sorted(_pyspark_jars().glob(pattern))]
    classpath = os.pathsep.join([f"{server_jars(java)}/*", *pyspark])
    log = folder / "server.log"
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    options.append(f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}")
    command = [str(java.executable), *options, "-classpath", classpath, "py4j.GatewayServer"]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*command, "--die-on-broken-pipe", "--enable-auth", "0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
        )
    return _Jvm(process, log)


def _start_server(jvm: _Jvm, folder: Path) -> str:
    """Do what `RESTCatalogServer.start` does, on 127.0.0.1."""
    try:
        java: Any = jvm.gateway.jvm
        properties = java.java.util.HashMap()
        properties.put("catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog")
        properties.put("uri", f"jdbc:sqlite:file:{folder / 'catalog.db'}")
        properties.put("jdbc.schema-version", "V1")
        properties.put("clients", "1")  # SQLite: a second connection would only find the database locked
        properties.put("warehouse", f"file://{folder / 'warehouse'}")
        iceberg, jetty = java.org.apache.iceberg, java.org.eclipse.jetty
        catalog = iceberg.CatalogUtil.buildIcebergCatalog(
            "rest_backend", properties, java.org.apache.hadoop.conf.Configuration()
        )
        context = _construct(jvm, "org.apache.iceberg.rest.RESTCatalogServer$CatalogContext", catalog, properties)
        adapter = _construct(jvm, "org.apache.iceberg.rest.RESTServerCatalogAdapter", context)
        handler = jetty.ee10.servlet.ServletContextHandler()
        handler.addServlet(jetty.ee10.servlet.ServletHolder(iceberg.rest.RESTCatalogServlet(adapter)), "/*")
        compression = jetty.compression.server.CompressionHandler()
        compression.putCompression(jetty.compression.gzip.GzipCompression())
        handler.insertHandler(compression)
        server = jetty.server.Server()
        connector = jetty.server.ServerConnector(server)
        connector.setHost("127.0.0.1")
        server.addConnector(connector)
        server.setHandler(handler)
        server.start()
    except Exception as error:
        raise EnvironmentProblem("The REST catalog server did not start.", where=str(jvm.log)) from error
    return f"http://127.0.0.1:{connector.getLocalPort()}"


def _construct(jvm: _Jvm, name: str, *arguments: object) -> Any:
    """Call the only constructor of a package-private class."""
    java: Any = jvm.gateway.jvm
    constructor = java.java.lang.Class.forName(name).getDeclaredConstructors()[0]
    constructor.setAccessible(True)
    array = jvm.gateway.new_array(java.java.lang.Object, len(arguments))
    for index, argument in enumerate(arguments):
        array[index] = argument
    return constructor.newInstance(array)


def server_jars(java: Java) -> Path:
    """Return the folder with the server's jars, resolved by Ivy the first time and kept in the cache."""
    folder = cache_dir() / "jars" / f"rest-server-{sha256(_MODULES.encode()).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        (draft / "ivy.xml").write_text(_MODULES)
        pattern = f"{draft}/[artifact]-[revision](-[classifier]).[ext]"
        (ivy,) = _pyspark_jars().glob("ivy-*.jar")
        command: list[str | Path] = [
            java.executable,
            "-cp",
            ivy,
            "org.apache.ivy.Main",
            "-warn",
            "-ivy",
            draft / "ivy.xml",
        ]
        done = subprocess.run([*command, "-retrieve", pattern], capture_output=True, check=False, timeout=600)
        if done.returncode != 0 or not list(draft.glob("iceberg-open-api-*.jar")):
            raise EnvironmentProblem("Ivy could not fetch the REST catalog server's jars.", hint="Is there a network?")
        with contextlib.suppress(OSError):  # another process was faster
            draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def _pyspark_jars() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent / "jars"
