"""A real Kubernetes API for tests: etcd, kube-apiserver and kube-controller-manager on the loopback, in a temp folder.

No scheduler and no kubelet: Jobs make Pods, and `kubelet` plays the node. The processes die with this one, whatever
ends it, and are stopped in order by `close`.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import datetime
import http.client
import ipaddress
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from reconciler.errors import EnvironmentProblem
from tests.kube.assets import kube_programs
from tests.kube.client import Client, Object, Refused, named

START_SECONDS = 180
_CONTROLLERS = (
    "garbage-collector-controller,namespace-controller,job-controller,ttl-after-finished-controller,"
    "serviceaccount-controller"
)
_DIE_WITH_PARENT = 1
_GIVEN: set[int] = set()
_LIBC = ctypes.CDLL(None, use_errno=True)


class KubectlError(AssertionError):
    """kubectl ended with an error; its message says what it printed."""

    def __init__(self, arguments: Sequence[str], done: subprocess.CompletedProcess[str]) -> None:
        super().__init__(f"kubectl {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        self.stderr = done.stderr
        self.code = done.returncode


class Cluster:
    """A running cluster; `kubeconfig` is the administrator's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = kube_programs()
        self.kubeconfig = folder / "admin.kubeconfig"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._etcd_port, self._port = free_port(), free_port()
        self.server = f"https://127.0.0.1:{self._port}"
        self._pki = Pki(folder / "pki")
        self._of_thread = threading.local()

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Start everything and wait until it answers."""
        self.start_etcd()
        self.start_api_server()
        self.kubeconfig.write_text(yaml.safe_dump(self._config(self._pki.client("admin", "system:masters"))))
        self.wait_ready()
        controllers = self.folder / "controllers.kubeconfig"
        controllers.write_text(yaml.safe_dump(self._config(self._pki.client("controllers", "system:masters"))))
        self._start(
            "kube-controller-manager",
            f"--kubeconfig={controllers}",
            f"--controllers={_CONTROLLERS}",
            f"--service-account-private-key-file={self._pki.path('sa.key')}",
            f"--root-ca-file={self._pki.path('ca.crt')}",
            "--leader-elect=false",
            "--secure-port=0",
            "--authentication-skip-lookup=true",
            "--concurrent-gc-syncs=2",
        )

    def start_etcd(self) -> None:
        """Start etcd on its port, with the data it had."""
        url = f"http://127.0.0.1:{self._etcd_port}"
        self._start(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync",
            "--log-level=error",
        )

    def start_api_server(self) -> None:
        """Start the API server on its port."""
        pki = self._pki
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            f"--tls-cert-file={pki.path('server.crt')}",
            f"--tls-private-key-file={pki.path('server.key')}",
            f"--client-ca-file={pki.path('ca.crt')}",
            f"--service-account-issuer={self.server}",
            f"--service-account-key-file={pki.path('sa.pub')}",
            f"--service-account-signing-key-file={pki.path('sa.key')}",
            "--allow-privileged=true",
            "--enable-priority-and-fairness=false",
            f"--cert-dir={self.folder / 'apiserver'}",
        )

    def wait_ready(self, seconds: float = START_SECONDS) -> None:
        """Wait until the API server says that it is ready."""
        deadline = time.monotonic() + seconds
        context = self.trust(admin=True)
        while time.monotonic() < deadline:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise EnvironmentProblem(f"{name} ended by itself.", where=str(self.folder / f"{name}.log"))
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=context, timeout=5)
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    return
            time.sleep(0.05)
        raise EnvironmentProblem("The API server did not become ready.", where=str(self.folder / "kube-apiserver.log"))

    def trust(self, *, admin: bool = False) -> ssl.SSLContext:
        """Return how to know the API server, and with `admin` to be known there as the administrator."""
        context = ssl.create_default_context(cafile=str(self._pki.path("ca.crt")))
        if admin:
            context.load_cert_chain(self._pki.path("admin.crt"), self._pki.path("admin.key"))
        return context

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        """Stop one of the programs."""
        process = self._processes.pop(name)
        process.send_signal(number)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def process(self, name: str) -> subprocess.Popen[bytes]:
        """Return one of the running programs."""
        return self._processes[name]

    def close(self) -> None:
        """Stop everything, the API server without its usual patience."""
        for name in reversed(list(self._processes)):
            self.stop(name, signal.SIGKILL)

    def _start(self, name: str, *arguments: str) -> None:
        log = (self.folder / f"{name}.log").open("ab")
        with log:
            self._processes[name] = subprocess.Popen(
                [str(self.programs / name), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509  (one system call)
            )

    # ------------------------------------------------------------ use

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True, user: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator, or with another kubeconfig."""
        done = subprocess.run(
            [str(self.programs / "kubectl"), f"--kubeconfig={user or self.kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
        )
        if check and done.returncode != 0:
            raise KubectlError(arguments, done)
        return done

    def apply(self, *documents: dict[str, Any], server_side: bool = False) -> str:
        """Apply resources given as data."""
        text = yaml.safe_dump_all(documents)
        flags = ["--server-side"] if server_side else []
        return self.kubectl("apply", *flags, "-f", "-", stdin=text).stdout

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        """Read one resource, by the name kubectl knows its kind by."""
        with self._reading() as client:
            return _shown(client.get(named(kind), namespace, name))

    def list(self, kind: str, namespace: str | None = None) -> list[Object]:
        """Read the resources of one kind."""
        with self._reading() as client:
            return [_shown(item) for item in client.list(named(kind), namespace)]

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Client]:
        """Ask without a process: kubectl costs 0.1 s of CPU, and tests look again and again."""
        if not hasattr(self._of_thread, "client"):
            self._of_thread.client = Client(self)
        try:
            yield self._of_thread.client
        except (OSError, http.client.HTTPException) as error:
            raise Refused(0, "the API server does not answer") from error

    def create_namespace(self, name: str, **labels: str) -> str:
        """Make a namespace with its default service account."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        return name

    def service_account(self, namespace: str, name: str) -> Path:
        """Make a service account; return a kubeconfig that is nobody but it."""
        self.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}})
        token = self.kubectl("create", "token", name, "-n", namespace, "--duration=12h").stdout.strip()
        path = self.folder / f"{namespace}-{name}.kubeconfig"
        path.write_text(yaml.safe_dump(self._config({"token": token}, namespace)))
        return path

    @property
    def authority(self) -> bytes:
        """The certificate by which to know the API server."""
        return self._pki.path("ca.crt").read_bytes()

    def _config(self, user: dict[str, str], namespace: str = "default") -> dict[str, Any]:
        authority = base64.b64encode(self.authority).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.server, "certificate-authority-data": authority}}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user", "namespace": namespace}}],
            "current-context": "test",
        }


@contextlib.contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """Run a cluster below a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def _shown(resource: Object) -> Object:
    """Leave out what kubectl leaves out, too."""
    resource["metadata"].pop("managedFields", None)
    return resource


def free_port() -> int:
    """Return a port of the loopback that nobody listens on, another one each time."""
    while True:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port: int = found.getsockname()[1]
        if port not in _GIVEN:  # who was given it may not listen yet
            _GIVEN.add(port)
            return port


def die_with_parent() -> None:
    """Ask the kernel to end a child when we end, however that happens."""
    _LIBC.prctl(_DIE_WITH_PARENT, signal.SIGKILL)


class Pki:
    """A certificate authority for an afternoon."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "laketable tests")])
        authority = self._certificate(self._name, self._key, ca=True)
        self._write("ca.crt", authority.public_bytes(serialization.Encoding.PEM))
        address = x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        )
        self._issue("server", x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")]), address)
        account = rsa.generate_private_key(65537, 2048)
        self._write("sa.key", _private(account))
        public = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        self._write("sa.pub", account.public_key().public_bytes(*public))

    def path(self, name: str) -> Path:
        """Return a file's path."""
        return self._folder / name

    def client(self, name: str, group: str) -> dict[str, str]:
        """Issue a client certificate, as a kubeconfig names a user."""
        subject = [
            x509.NameAttribute(NameOID.COMMON_NAME, name),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, group),
        ]
        self._issue(name, x509.Name(subject))
        return {"client-certificate": str(self.path(f"{name}.crt")), "client-key": str(self.path(f"{name}.key"))}

    def _issue(self, name: str, subject: x509.Name, *extensions: x509.ExtensionType) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._certificate(subject, key, *extensions)
        self._write(f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM))
        self._write(f"{name}.key", _private(key))

    def _certificate(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *extensions: x509.ExtensionType, ca: bool = False
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=7))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if not ca:
            usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name: str, content: bytes) -> None:
        path = self.path(name)
        path.write_bytes(content)
        path.chmod(0o600)


def _private(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
