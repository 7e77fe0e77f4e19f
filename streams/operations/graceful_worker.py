"""Runs a Faust app until a signal, and sees to it that the stop comes to an end."""

import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import faust
import structlog
from mode import Service

from streams.operations.heartbeat import INTERVAL, Heartbeat

#: Seconds after the first signal until the process ends all the same: a broker that does not answer would keep it for a minute.
#: What was not committed is processed again by the next worker, to the same decisions. Kubernetes waits 30 s, Compose 10 s.
STOP_PATIENCE = 8.0

log = structlog.get_logger()


class Watch(Service):
    """Beats and looks once a second, from before the app starts until after it has stopped."""

    mundane_level = "debug"  # that it starts and stops is nobody's business

    def __init__(self, heartbeat: Heartbeat, look: Callable[[], None], **options: Any) -> None:
        super().__init__(**options)
        self._heartbeat = heartbeat
        self._look = look
        self._failed = False

    @Service.task
    async def _watch(self) -> None:
        while not self.should_stop:
            self._heartbeat.beat()
            self._look_once()
            await self.sleep(INTERVAL)

    async def on_stop(self) -> None:
        """Look a last time: what was counted and not told yet is told."""
        self._look_once()

    def _look_once(self) -> None:
        try:
            self._look()
        except Exception:
            # Nobody must lose a worker because it cannot be measured; told once, or it would be told every second.
            if not self._failed:
                log.exception("the state of the worker cannot be looked at; its metrics and /readyz stand still")
            self._failed = True


class GracefulWorker(faust.Worker):
    """Faust's worker for one app: quiet, with `watch` beside the app, and with an end to its stop.

    SIGTERM and SIGINT let batches under way finish, write and commit; a second signal ends the process at once.
    """

    def __init__(self, app: faust.App, watch: Watch, *, stop_patience: float = STOP_PATIENCE) -> None:
        self._stop_patience = stop_patience
        self._signalled_at: float | None = None
        super().__init__(
            app,
            watch,
            override_logging=False,  # ours is set up already
            redirect_stdouts=False,
            quiet=True,
            stdout=io.StringIO(),  # Faust's spinner, which writes terminal codes into files too
        )

    def _on_sigterm(self) -> None:
        self._signalled(signal.SIGTERM)
        super()._on_sigterm()

    def _on_sigint(self) -> None:
        self._signalled(signal.SIGINT)
        super()._on_sigint()

    def _signalled(self, number: signal.Signals) -> None:
        if self._signalled_at is not None:
            log.warning("worker ends at once: a second signal", signal=number.name)
            leave(1)
        self._signalled_at = time.monotonic()
        log.info("worker stops", signal=number.name)
        deadline = threading.Timer(self._stop_patience, self._give_up)
        deadline.daemon = True
        deadline.start()

    def _give_up(self) -> None:
        log.error("worker ends: its stop took too long; what is not committed is processed again", seconds=self._stop_patience)
        leave(1)

    def stop_and_shutdown(self) -> None:
        """Wait for the stop, as Faust does, and say how long it took."""
        super().stop_and_shutdown()
        if self._signalled_at is not None:
            log.info("worker stopped", seconds=round(time.monotonic() - self._signalled_at, 2))


def leave(code: int) -> None:
    """End the process here and now, with what was written to its streams."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
