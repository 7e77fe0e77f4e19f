"""Ask whether a call may go ahead: `VerdictGate` in asyncio programs, `SyncVerdictGate` in all others."""

from types import TracebackType
from typing import Any, Self

from streams.gateway.background_loop import BackgroundLoop
from streams.gateway.checking import RunChecker


class VerdictGate(RunChecker):
    """Reads decisions in the event loop it is started in, and answers from memory.

    async with VerdictGate(settings) as gate:
        await gate.wait_until_caught_up(timeout=5)
        verdict = gate.check("run-1", "read", {"path": "a.txt"})

    `RunChecker` says what the parameters are. Checks are plain calls, not awaited.
    """

    async def start(self) -> Self:
        """Begin to read; returns at once, whether Kafka is there or not."""
        await self._begin()
        return self

    async def wait_until_caught_up(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109  (a limit, not a failure)
        """Wait until all decisions are known that are on the topic now; return whether they are, after `timeout` seconds."""
        return await self._caught_up_within(timeout)

    async def aclose(self) -> None:
        """Stop reading; what is known stays known."""
        await self._end()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()


class SyncVerdictGate(RunChecker):
    """Reads decisions in a thread of its own; everything may be called from any thread. `on_abort` is called in that thread.

    with SyncVerdictGate(settings) as gate:
        gate.wait_until_caught_up(timeout=5)
        verdict = gate.check("run-1", "read", {"path": "a.txt"})

    Start it in the process that uses it: a thread does not survive a fork.
    """

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._background: BackgroundLoop | None = None

    def start(self) -> Self:
        """Begin to read; returns at once, whether Kafka is there or not."""
        if self._background is None:
            self._background = BackgroundLoop("loopwarden gate")
            self._background.run(self._begin())
        return self

    def wait_until_caught_up(self, timeout: float | None = None) -> bool:
        """Wait until all decisions are known that are on the topic now; return whether they are, after `timeout` seconds."""
        return self._background is not None and self._background.run(self._caught_up_within(timeout))

    def close(self) -> None:
        """Stop reading; what is known stays known."""
        background, self._background = self._background, None
        if background is not None:
            background.run(self._end())
            background.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
