"""How to reach the API server: from a kubeconfig, or from the service account of the pod we run in.

One reading serves Kopf's watches and our own requests. Kubeconfigs that get their credentials from a helper program are
refused: run `kubectl proxy`, or use a service account's token.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
import time
from pathlib import Path

import kopf
import msgspec

from reconciler.errors import EnvironmentProblem

TOKEN_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_TOKEN_SECONDS = 60.0


class Connection:
    """An API server's address, its TLS context and who we are there."""

    def __init__(self, info: kopf.ConnectionInfo, *, token_file: Path | None = None) -> None:
        self.server = info.server.rstrip("/")
        self.default_namespace = info.default_namespace or "default"
        self.ssl = _context(info)
        self._token = info.token
        self._token_file = token_file
        self._read_at = time.monotonic()
        if info.username and info.password and not info.token:
            pair = base64.b64encode(f"{info.username}:{info.password}".encode()).decode()
            self._authorization: str | None = f"Basic {pair}"
        else:
            self._authorization = None

    def headers(self) -> dict[str, str]:
        """Return who we are; a pod's token is read again before it can expire."""
        if self._token_file is not None and time.monotonic() - self._read_at > _TOKEN_SECONDS:
            self._token, self._read_at = self._token_file.read_text().strip(), time.monotonic()
        if self._authorization:
            return {"Authorization": self._authorization}
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}


class _Networking(msgspec.Struct):
    trust_env: bool = False


class _Settings(msgspec.Struct):
    """What Kopf's login functions ask of its settings."""

    networking: _Networking = msgspec.field(default_factory=_Networking)


def login() -> kopf.ConnectionInfo:
    """Find credentials: KUBECONFIG when it is set, else the pod's service account, else ~/.kube/config."""
    settings = _Settings()
    sources = [kopf.login_with_service_account, kopf.login_with_kubeconfig]
    if os.environ.get("KUBECONFIG"):
        sources.reverse()
    for source in sources:
        try:
            info = source(settings=settings)  # type: ignore[arg-type]
        except (OSError, KeyError, ValueError, kopf.LoginError) as error:
            raise EnvironmentProblem(
                "The kubeconfig cannot be read.", where=os.environ.get("KUBECONFIG", "~/.kube/config")
            ) from error
        if info is not None:
            return info
    raise EnvironmentProblem(
        "There is no Kubernetes cluster to connect to.", hint="Set KUBECONFIG, or run in a pod with a service account."
    )


def connect() -> Connection:
    """Return the connection for our own requests."""
    in_pod = TOKEN_FILE.exists() and not os.environ.get("KUBECONFIG")
    return Connection(login(), token_file=TOKEN_FILE if in_pod else None)


def _context(info: kopf.ConnectionInfo) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cafile=info.ca_path, cadata=_decoded(info.ca_data) if info.ca_data and not info.ca_path else None
    )
    if info.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate, key = info.certificate_path, info.private_key_path
    with tempfile.TemporaryDirectory() as folder:
        # Python's ssl reads certificates from files only
        if not certificate and info.certificate_data and info.private_key_data:
            certificate, key = os.path.join(folder, "crt"), os.path.join(folder, "key")
            for path, data in ((certificate, info.certificate_data), (key, info.private_key_data)):
                with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                    file.write(_decoded(data))
        if certificate:
            context.load_cert_chain(certificate, key)
    return context


def _decoded(data: str | bytes) -> str:
    return base64.b64decode(data).decode()
