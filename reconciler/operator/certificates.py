"""The webhook's certificate and secret path: made by the operator, kept in a Secret, named in its configuration; pure.

The certificate signs itself and is its own trust anchor, so there is no authority whose key could be stolen. A renewed
one is trusted beside its predecessor, so that a replica that still shows the former is believed. The path is the API
server's password: whoever else reaches the port does not know it, and gets no plan of anybody's table.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import os
import secrets
import ssl
import tempfile
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from reconciler.errors import EnvironmentProblem
from reconciler.model.yaml import Data
from reconciler.operator.objects import Json, items_at, mapping_at, text_at

LIFETIME = datetime.timedelta(days=90)
RENEWAL = datetime.timedelta(days=30)
_SKEW = datetime.timedelta(minutes=10)
_PATH_BYTES = 24


class Identity(msgspec.Struct, frozen=True):
    """What the webhook shows the API server; `trust` holds its certificate and the former one, all as PEM."""

    certificate: str
    key: str
    trust: str

    def __repr__(self) -> str:
        """Show no key."""
        return "Identity(…)"


def make_identity(names: Sequence[str], now: datetime.datetime, *, former: Identity | None = None) -> Identity:
    """Make a certificate for these DNS names and addresses; a former one stays trusted until it expires."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "laketable webhook")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectAlternativeName([_general_name(text) for text in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate = made.public_bytes(serialization.Encoding.PEM).decode()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Identity(certificate, private.decode(), certificate + _still_valid(former, now))


def is_fresh(identity: Identity, names: Sequence[str], now: datetime.datetime) -> bool:
    """Say whether a certificate is ours, names what it has to, and is not due for renewal."""
    try:
        found = x509.load_pem_x509_certificate(identity.certificate.encode())
        key = serialization.load_pem_private_key(identity.key.encode(), None)
        stated = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return False
    wanted = {_general_name(text) for text in names}
    is_in_time = found.not_valid_before_utc <= now < found.not_valid_after_utc - RENEWAL
    belongs = found.public_key() == key.public_key()
    return is_in_time and belongs and wanted <= set(stated) and identity.certificate in identity.trust


def server_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return the TLS context of a server that shows this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load(context, certificate, key)
    return context


def load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Let a server show another certificate from the next connection on."""
    with tempfile.TemporaryDirectory() as folder:  # Python's ssl reads certificates from files only
        path = os.path.join(folder, "pem")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(f"{key}\n{certificate}")
        try:
            context.load_cert_chain(path)
        except (ssl.SSLError, ValueError) as error:
            raise EnvironmentProblem(
                "The webhook's certificate and key cannot be loaded.",
                hint="They must be PEM, without a password, and belong together.",
            ) from error


# ---------------------------------------------------------------- the Secret


def read_identity(secret: Json) -> Identity | None:
    """Read the certificate that a Secret holds, if it holds one."""
    certificate, key, trust = (_decoded(secret, entry) for entry in ("tls.crt", "tls.key", "ca.crt"))
    return Identity(certificate, key, trust) if certificate and key and trust else None


def read_path(secret: Json) -> str:
    """Read the secret path; empty when there is none."""
    return _decoded(secret, "path")


def make_path() -> str:
    """Make a path that nobody guesses; a Service's path consists of DNS names."""
    return f"/{secrets.token_hex(_PATH_BYTES)}"


def secret_data(path: str, identity: Identity | None) -> Json:
    """Return the Secret's data."""
    values = {"path": path}
    if identity is not None:
        values |= {"tls.crt": identity.certificate, "tls.key": identity.key, "ca.crt": identity.trust}
    return {entry: base64.b64encode(value.encode()).decode() for entry, value in values.items()}


def _decoded(secret: Json, entry: str) -> str:
    try:
        return base64.b64decode(text_at(secret, "data", entry), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


# ---------------------------------------------------------------- the configuration


class Route(msgspec.Struct, frozen=True):
    """How an API server reaches the webhook: by `url`, or through a Service."""

    url: str
    service: str
    namespace: str

    @property
    def names(self) -> tuple[str, ...]:
        """Who the API server believes it talks to."""
        if self.url:
            return (urlsplit(self.url).hostname or "",)
        name = f"{self.service}.{self.namespace}.svc"
        return (name, f"{name}.cluster.local")


def configured(configuration: Json, route: Route, path: str, trust: str) -> list[Data] | None:
    """Return the webhooks as they should be called; None when they are called so already.

    `trust` empty: somebody else tells the configuration whom to trust.
    """
    before = items_at(configuration, "webhooks")
    after: list[Data] = [{**hook, "clientConfig": _client(hook, route, path, trust)} for hook in before]
    return None if after == before else after


def _client(hook: Json, route: Route, path: str, trust: str) -> Json:
    client = mapping_at(hook, "clientConfig")
    through: Json = {"name": route.service, "namespace": route.namespace, "path": path}
    called: Json = (
        {"url": f"{route.url}{path}"} if route.url else {"service": {**mapping_at(client, "service"), **through}}
    )
    bundle = base64.b64encode(trust.encode()).decode() if trust else text_at(client, "caBundle")
    return {**called, **({"caBundle": bundle} if bundle else {})}


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _still_valid(identity: Identity | None, now: datetime.datetime) -> str:
    """Return a former certificate as long as it lasts; only the newest, so that the bundle does not grow."""
    try:
        found = x509.load_pem_x509_certificate(identity.certificate.encode()) if identity else None
    except ValueError:
        return ""
    return identity.certificate if identity and found and now < found.not_valid_after_utc else ""
