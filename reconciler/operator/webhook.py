"""The HTTPS server that API servers ask for admission, and what keeps its certificate and their way to it right.

Serves whether or not this operator leads: it writes nothing but its own Secret and its own webhook configuration, both
by resourceVersion, so that of several replicas one makes the certificate and the others take it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import ssl
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from aiohttp import web

from reconciler.errors import EnvironmentProblem, LakeError
from reconciler.operator.admission import Admission, Answer
from reconciler.operator.api import ApiConflict, ApiNotFound, KubeApi
from reconciler.operator.certificates import (
    Identity,
    Route,
    configured,
    is_fresh,
    load,
    make_identity,
    make_path,
    read_identity,
    read_path,
    secret_data,
    server_context,
)
from reconciler.operator.connection import Connection
from reconciler.operator.context import Context
from reconciler.operator.dry_run import DryRuns
from reconciler.operator.metrics import Metrics
from reconciler.operator.objects import SECRETS, WEBHOOKS, Json, mapping_at, meta_of, text_at
from reconciler.operator.pool import CatalogPool
from reconciler.operator.settings import WebhookSettings
from reconciler.operator.worker import place_of

logger = logging.getLogger("laketable.operator")
CHECK_SECONDS = 60.0
RETRY_SECONDS = 2.0
ANSWER_SECONDS = 4.5
"""All that one answer may take; the configuration grants more, so that we are heard."""
PLAN_SECONDS = 4.2
"""How much of it has passed when a dry run's plan is waited for no longer."""
LARGEST_REVIEW = 16 << 20
PLAN_THREADS, CHECK_THREADS = 8, 2


@contextlib.asynccontextmanager
async def serving(ctx: Context, connection: Connection, settings: WebhookSettings) -> AsyncIterator[None]:
    """Serve admission until the block ends."""
    async with KubeApi(connection) as api, KubeApi(connection, _never) as reading:
        pool = CatalogPool(
            reading,
            threads=PLAN_THREADS,
            allow_local=ctx.settings.allow_local_catalogs,
            reserved=ctx.settings.reserved_catalogs,
            guard=_never,
            timed=ctx.metrics.called,
        )
        checks = ThreadPoolExecutor(CHECK_THREADS, thread_name_prefix="admission")
        looking = replace(ctx, api=reading, pool=pool)
        keeper = Keeper(api, settings, ctx.settings.namespace)
        admission = Admission(looking, checks, DryRuns(looking))
        door = _Door(keeper, admission, ctx.metrics)
        server = asyncio.create_task(_serve(settings, keeper, door), name="webhook")
        server.add_done_callback(_complain)
        try:
            yield
        finally:
            server.cancel()
            await asyncio.gather(server, return_exceptions=True)
            checks.shutdown(wait=False, cancel_futures=True)
            pool.close()


def _never() -> None:
    raise RuntimeError("admission writes nothing")


def _complain(server: asyncio.Task[None]) -> None:
    if not server.cancelled() and (error := server.exception()) is not None:
        logger.error("admission is not served: %s", error if isinstance(error, LakeError) else place_of(error))


class Keeper:
    """Keeps the server's certificate fresh, and the API servers' configuration pointing at it.

    Every operator answers reviews, the one that holds the Lease and those that wait: these writes ask no fence.
    """

    def __init__(self, api: KubeApi, settings: WebhookSettings, namespace: str) -> None:
        self._api = api
        self._settings = settings
        self._namespace = namespace
        self._route = Route(settings.url, settings.service, namespace)
        self.path = ""
        self.context: ssl.SSLContext | None = None
        self._shown = ("", "")

    async def keep(self) -> None:
        """Do what is due; once it returned, `context` and `path` can be served with. Raises LakeError."""
        certificate, key, trust = await self._certificate()
        await self._configure(trust)
        if self.context is None:
            self.context = server_context(certificate, key)
        elif self._shown != (certificate, key):
            load(self.context, certificate, key)
            logger.info("the webhook shows a new certificate")
        self._shown = (certificate, key)

    async def keep_for_ever(self) -> None:
        """Look again each minute; whoever reset the configuration is corrected then."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self.keep()
            except LakeError as error:
                logger.warning("the webhook's certificate or configuration was not looked after: %s", error)

    async def _certificate(self) -> tuple[str, str, str]:
        folder = self._settings.certificates
        secret = await self._secret()
        if folder:
            return (*_read_folder(Path(folder)), "")
        identity = read_identity(secret)
        if identity is None:
            raise EnvironmentProblem(f"Secret {self._settings.secret} holds no certificate.")
        return identity.certificate, identity.key, identity.trust

    async def _secret(self) -> Json:
        """Return the Secret with all that belongs into it; of several who write it at once one wins."""
        name, now = self._settings.secret, datetime.now(UTC)
        while True:
            try:
                raw = await self._api.get(SECRETS, self._namespace, name)
            except ApiNotFound:
                raw = await self._new_secret(name)
            path, identity = read_path(raw), read_identity(raw)
            renewed = self._renewed(identity, now)
            if path and renewed == identity:
                self.path = path
                return raw
            meta = meta_of(raw)
            body: Json = {
                "metadata": {"resourceVersion": meta.resource_version},
                "data": secret_data(path or make_path(), renewed),
            }
            with contextlib.suppress(ApiConflict):
                await self._api.patch(SECRETS, self._namespace, name, body, fenced=False)

    async def _new_secret(self, name: str) -> Json:
        with contextlib.suppress(ApiConflict):
            body: Json = {"metadata": {"name": name}, "type": "Opaque"}
            return await self._api.create(SECRETS, self._namespace, body, fenced=False)
        return await self._api.get(SECRETS, self._namespace, name)

    def _renewed(self, identity: Identity | None, now: datetime) -> Identity | None:
        if self._settings.certificates or (identity is not None and is_fresh(identity, self._route.names, now)):
            return identity
        logger.info("a certificate is made for the webhook (%s)", ", ".join(self._route.names))
        return make_identity(self._route.names, now, former=identity)

    async def _configure(self, trust: str) -> None:
        name = self._settings.configuration
        raw = await self._api.get(WEBHOOKS, None, name)
        hooks = configured(raw, self._route, self.path, trust)
        if hooks is None:
            return
        body: Json = {"metadata": {"resourceVersion": meta_of(raw).resource_version}, "webhooks": hooks}
        await self._api.patch(WEBHOOKS, None, name, body, fenced=False)
        logger.info("ValidatingWebhookConfiguration %s leads to this operator", name)


def _read_folder(folder: Path) -> tuple[str, str]:
    try:
        return (folder / "tls.crt").read_text(), (folder / "tls.key").read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentProblem(
            "The webhook's certificate cannot be read.", where=str(folder), hint="It must hold tls.crt and tls.key."
        ) from error


async def _serve(settings: WebhookSettings, keeper: Keeper, door: _Door) -> None:
    while keeper.context is None:
        try:
            await keeper.keep()
        except LakeError as error:
            logger.warning("admission is not served yet: %s", error)
            await asyncio.sleep(RETRY_SECONDS)
    app = web.Application(client_max_size=LARGEST_REVIEW)
    app.router.add_post("/{path}", door.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=ANSWER_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.host, settings.port, ssl_context=keeper.context)
        try:
            await site.start()
        except OSError as error:
            raise EnvironmentProblem(
                f"Port {settings.port} for admission cannot be opened.", hint="Choose another one with --webhook."
            ) from error
        logger.info("admission is served on port %d", settings.port)
        await keeper.keep_for_ever()
    finally:
        await runner.cleanup()


class _Door:
    """Lets in who knows the path, and answers in time."""

    def __init__(self, keeper: Keeper, admission: Admission, metrics: Metrics) -> None:
        self._keeper = keeper
        self._admission = admission
        self._metrics = metrics

    async def answer(self, request: web.Request) -> web.Response:
        """Answer one AdmissionReview."""
        if not secrets.compare_digest(request.path.encode(), self._keeper.path.encode()):
            raise web.HTTPNotFound
        try:
            review = msgspec.json.decode(await request.read(), type=dict)
        except msgspec.DecodeError as error:
            raise web.HTTPBadRequest from error
        asked, started = mapping_at(review, "request"), time.monotonic()
        answer = await self._answer(asked)
        self._metrics.admission(text_at(asked, "kind", "kind"), answer.outcome, time.monotonic() - started)
        body: Json = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": answer.response(text_at(asked, "uid")),
        }
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    async def _answer(self, asked: Json) -> Answer:
        now = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(now + ANSWER_SECONDS):
                return await self._admission.review(asked, now + PLAN_SECONDS)
        except TimeoutError:
            told = "Not checked in time; the operator checks it again when it reconciles."
            return Answer(warnings=(told,), is_checked=False)
        except Exception as error:  # noqa: BLE001  (a defect here must not keep anybody from working)
            logger.error("admission: internal error: %s", place_of(error))
            told = "Not checked: a defect in LakeTable; the operator's log names the place."
            return Answer(warnings=(told,), is_checked=False)
