"""Wait for a worker by its committed offsets, over and over."""

import asyncio
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaConsumer, TopicPartition

from schemas.settings import Settings
from streams.connection import Connection
from streams.processor.worker_process import WorkerProcessError

#: Seconds between two questions.
_LOOK_INTERVAL = 0.005


class CommittedOffsets:
    """Asks a broker what the workers' group has committed: what is committed is judged, and its decisions are published."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: AIOKafkaConsumer | None = None
        self._known: dict[tuple[str, int], int] = {}

    async def __aenter__(self) -> Self:
        # Only asks: without a subscription it does not join the group.
        options = Connection.from_settings(self._settings).client_options()
        client = AIOKafkaConsumer(**options, group_id=self._settings.group, enable_auto_commit=False)
        await client.start()
        self._client = client
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._client is not None:
            await self._client.stop()

    async def wait_for(self, ends: Mapping[tuple[str, int], int], *, patience: float, ensure_running: Callable[[], None]) -> None:
        """Wait until all offsets are committed.

        `ensure_running` is called between looks and raises when the worker has ended. Raises `WorkerProcessError` after
        `patience` seconds.
        """
        assert self._client is not None, "use it in a with block"  # noqa: S101  (a mistake in our own code)
        deadline = time.monotonic() + patience
        while behind := [place for place, end in ends.items() if self._known.get(place, 0) < end]:
            ensure_running()
            if time.monotonic() > deadline:
                places = ", ".join(f"{t}[{p}]@{self._known.get((t, p), 0)} of {ends[t, p]}" for t, p in behind)
                raise WorkerProcessError(f"the worker is not through after {patience:.0f} s: {places}")
            for place in behind:
                self._known[place] = await self._client.committed(TopicPartition(*place)) or 0
            await asyncio.sleep(_LOOK_INTERVAL)
