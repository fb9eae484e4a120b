"""The certificate of the webhook: one for all replicas that start at once, or somebody else's."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reconciler.errors import EnvironmentProblem
from reconciler.operator.api import ApiConflict, KubeApi
from reconciler.operator.certificates import is_fresh, make_identity, read_identity
from reconciler.operator.connection import connect
from reconciler.operator.settings import WebhookSettings
from reconciler.operator.webhook import Keeper
from tests.kube.cluster import Cluster
from tests.kube.operator import (
    NAMESPACE,
    ROOT,
    documents,
)


@pytest.fixture
def twice(cluster: Cluster, operator_kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebhookSettings]:
    """Make a configuration that somebody trusts already, and a Secret, which no operator looks after."""
    for found in documents(ROOT / "charts" / "raw" / "webhook.yaml"):
        if found["kind"] in ("Secret", "ValidatingWebhookConfiguration"):
            found["metadata"] = {"name": "twice", **({"namespace": NAMESPACE} if found["kind"] == "Secret" else {})}
            for hook in found.get("webhooks", ()):
                hook["namespaceSelector"] = {"matchLabels": {"nobody": "has-this"}}
                trusted = make_identity(["somebody"], datetime.now(UTC)).trust
                hook["clientConfig"]["caBundle"] = base64.b64encode(trusted.encode()).decode()
            cluster.apply(found)
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    yield WebhookSettings(host="127.0.0.1", port=1, configuration="twice", secret="twice", service="twice")
    cluster.kubectl("delete", "validatingwebhookconfiguration/twice", "secret/twice", "-n", NAMESPACE)


def _client(cluster: Cluster) -> dict[str, Any]:
    (hook,) = cluster.get("validatingwebhookconfiguration", "twice")["webhooks"]
    found: dict[str, Any] = hook["clientConfig"]
    return found


def test_replicas_that_start_at_once_show_one_certificate(cluster: Cluster, twice: WebhookSettings) -> None:
    async def start() -> list[Keeper]:
        async with KubeApi(connect()) as one, KubeApi(connect()) as another:
            keepers = [Keeper(api, twice, NAMESPACE) for api in (one, another, one, another)]
            await asyncio.gather(*map(_until_kept, keepers))
            return keepers

    keepers = asyncio.run(start())
    assert len({keeper.path for keeper in keepers}) == 1
    kept = read_identity(cluster.get("secret", "twice", NAMESPACE))
    assert kept is not None
    assert is_fresh(kept, ["twice.laketable-system.svc"], datetime.now(UTC))
    client = _client(cluster)
    assert base64.b64decode(client["caBundle"]).decode() == kept.trust
    assert client["service"]["path"] == keepers[0].path


def test_a_certificate_of_somebody_else_is_read_again_and_trust_is_theirs_to_write(
    cluster: Cluster, twice: WebhookSettings, tmp_path: Path
) -> None:
    trusted = _client(cluster)["caBundle"]

    def issue() -> str:
        made = make_identity(["twice"], datetime.now(UTC))
        (tmp_path / "tls.crt").write_text(made.certificate)
        (tmp_path / "tls.key").write_text(made.key)
        return made.certificate

    def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def shown() -> list[str]:
        async with KubeApi(connect()) as api:
            keeper = Keeper(api, msgspec.structs.replace(twice, certificates=str(tmp_path)), NAMESPACE)
            with pytest.raises(EnvironmentProblem, match="cannot be read"):
                await keeper.keep()
            found = []
            for _ in range(2):
                issued = issue()
                await _until_kept(keeper, again=True)
                server = await asyncio.start_server(
                    lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=keeper.context
                )
                address = server.sockets[0].getsockname()
                found += [issued, await asyncio.to_thread(ssl.get_server_certificate, address)]
                server.close()
            return found

    first, shown_first, second, shown_second = asyncio.run(shown())
    assert (shown_first, shown_second) == (first, second)
    assert first != second
    assert _client(cluster)["caBundle"] == trusted
    assert _client(cluster)["service"]["path"] != "/"
    assert read_identity(cluster.get("secret", "twice", NAMESPACE)) is None


async def _until_kept(keeper: Keeper, *, again: bool = False) -> None:
    """Do as the server does: try again after another one was faster."""
    while keeper.context is None or again:
        with contextlib.suppress(ApiConflict):
            await keeper.keep()
            again = False
