"""What others may ask the operator over HTTP: is it alive, is it ready, and its metrics.

Served on the loop that reconciles, so that a probe that is answered shows that this one turns; the loop of the watches
is asked by each liveness probe.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web

from reconciler.errors import EnvironmentProblem, InvalidInput
from reconciler.operator.health import Health

ANSWER_SECONDS = 3.0
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@contextlib.asynccontextmanager
async def serving(
    listen: str, health: Health, turns: Callable[[], Awaitable[bool]], metrics: Callable[[], bytes]
) -> AsyncIterator[None]:
    """Answer at `host:port` while the block runs; "" answers nowhere. `turns` asks the loop of the watches."""
    if not listen:
        yield
        return
    host, port = address(listen)
    runner = web.AppRunner(_application(health, turns, metrics), access_log=None, handle_signals=False)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port, shutdown_timeout=1.0).start()
        except OSError as error:
            raise EnvironmentProblem(
                f"Nothing can be served at {listen}.", hint="Is the port taken? Choose another one with --listen."
            ) from error
        yield
    finally:
        await runner.cleanup()


def address(listen: str) -> tuple[str, int]:
    """Read host:port; raises InvalidInput."""
    host, _, port = listen.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise InvalidInput(f"{listen} is no address.", where="--listen", hint="Write it as 0.0.0.0:8080.")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104  (what ":8080" says)


def _application(health: Health, turns: Callable[[], Awaitable[bool]], metrics: Callable[[], bytes]) -> web.Application:
    async def alive(_: web.Request) -> web.Response:
        found = health.dead()
        if not await turns():
            found.append("the loop of the watches does not answer")
        return _answer(found)

    async def ready(_: web.Request) -> web.Response:
        return _answer(health.unready())

    async def measured(_: web.Request) -> web.Response:
        return web.Response(body=metrics(), headers={"Content-Type": METRICS_TYPE})

    application = web.Application()
    application.router.add_get("/healthz", alive)
    application.router.add_get("/readyz", ready)
    application.router.add_get("/metrics", measured)
    return application


def _answer(problems: list[str]) -> web.Response:
    return web.json_response({"ok": not problems, "problems": problems}, status=503 if problems else 200)
