"""The HTTP endpoint of a process: metrics for Prometheus, and health for whoever restarts or routes.

It runs in a thread with an event loop of its own, so that it can tell that the process's loop is stuck.
"""

import asyncio
import contextlib
import ipaddress
import os
import threading
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import choose_encoder

from streams.operations.health import Health

#: Seconds that the thread gets to bind the port on a busy machine, and to end.
PATIENCE = 30.0

Probe = Callable[[], Health]


class PortTakenError(OSError):
    """The endpoint cannot listen where it should."""


class HttpEndpoint:
    """Serves `/metrics`, and each probe under its name: status 200 when all is well, else 503; `?verbose` shows every check.

    Probes are called in the endpoint's thread.
    """

    def __init__(self, *, host: str, port: int, probes: Mapping[str, Probe], registry: CollectorRegistry = REGISTRY) -> None:
        self._host = host
        self._port = port
        self._probes = dict(probes)
        self._registry = registry
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._listening = threading.Event()
        self._error: OSError | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{_bracketed(self._host)}:{self._port}"

    def start(self) -> None:
        """Listen; raises `PortTakenError`, an `OSError`, when that is not possible."""
        self._thread = threading.Thread(target=self._run, name="http-endpoint", daemon=True)
        self._thread.start()
        self._listening.wait(PATIENCE)
        if self._error is not None:
            code = self._error.errno or 0
            reason = os.strerror(code).lower() if code > 0 else self._error.strerror or str(self._error)
            raise PortTakenError(f"cannot serve metrics and health on {_bracketed(self._host)}:{self._port}: {reason}")

    def stop(self) -> None:
        """End the thread."""
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join(1.0)

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # told by start()
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(self._app(), handle_signals=False, access_log=None, shutdown_timeout=0.5)
        try:
            await runner.setup()
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError as error:
            self._error = error
            await runner.cleanup()
            raise
        finally:
            self._listening.set()
        await self._stop.wait()
        await runner.cleanup()

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        for name, probe in self._probes.items():
            app.router.add_get(f"/{name}", _answer(name, probe))
        return app

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})


def _answer(name: str, probe: Probe) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        health = probe()
        text = health.text(name, verbose="verbose" in request.query)
        return web.Response(text=text, status=200 if health.ok else 503, headers={"Cache-Control": "no-store"})

    return answer


def _bracketed(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host
