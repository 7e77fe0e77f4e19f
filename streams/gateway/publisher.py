"""Publish what happens in an agent's runs: `EventPublisher` for asyncio programs, `SyncEventPublisher` for all others."""

from types import TracebackType
from typing import Any, Self

from streams.gateway.background_loop import BackgroundLoop
from streams.gateway.reporting import RunReporter

#: Seconds that closing waits for Kafka by default: an agent that ends must not hang, and a healthy broker takes milliseconds.
CLOSE_TIMEOUT = 5.0


class EventPublisher(RunReporter):
    """Sends events to Kafka from the event loop it is started in.

    async with EventPublisher(settings) as publisher:
        publisher.call_started("run-1", "read", {"path": "a.txt"})

    `RunReporter` says what the parameters are. Reports are plain calls, not awaited.
    """

    async def start(self) -> Self:
        """Begin to send; returns at once, whether Kafka is there or not."""
        await self._delivery.start()
        return self

    async def flush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109  (a limit, not a failure)
        """Wait until the broker has everything that was reported, for `timeout` seconds at most; return whether it has."""
        return await self._delivery.flush(timeout)

    async def aclose(self, timeout: float = CLOSE_TIMEOUT) -> None:  # noqa: ASYNC109  (a limit, not a failure)
        """Send what is left, for `timeout` seconds at most, and stop; what is then unsent counts as dropped."""
        self._closed = True
        await self._delivery.stop(timeout)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()


class SyncEventPublisher(RunReporter):
    """Sends events to Kafka from a thread of its own; everything may be called from any thread.

    with SyncEventPublisher(settings) as publisher:
        publisher.call_started("run-1", "read", {"path": "a.txt"})

    Start it in the process that uses it: a thread does not survive a fork.
    """

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._background: BackgroundLoop | None = None

    def start(self) -> Self:
        """Begin to send; returns at once, whether Kafka is there or not."""
        if self._background is None and not self._closed:
            self._background = BackgroundLoop("loopwarden publisher")
            self._background.run(self._delivery.start())
        return self

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until the broker has everything that was reported, for `timeout` seconds at most; return whether it has."""
        return not self.pending if self._background is None else self._background.run(self._delivery.flush(timeout))

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Send what is left, for `timeout` seconds at most, and stop; what is then unsent counts as dropped."""
        self._closed = True
        background, self._background = self._background, None
        if background is not None:
            background.run(self._delivery.stop(timeout))
            background.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
