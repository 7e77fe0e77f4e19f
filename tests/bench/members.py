"""One or several processes of a contender, as members of one group."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from aiokafka import AIOKafkaConsumer, TopicPartition

from schemas.topics import Topics
from tests.bench.brokers import Broker
from tests.bench.comparing import PARTITIONS, arguments_for
from tests.bench.field import Command, environment_of
from tests.bench.measuring import Usage, offsets_of, running, until_committed, usage

#: Seconds that they may take to stop.
_STOP = 30.0

#: Seconds between two looks at their CPU, and the part of it that an idle one uses at most.
_LOOK = 1.0
_IDLE = 0.25


class Members:
    """Running processes; `started` is when (performance counter)."""

    def __init__(self, processes: list[asyncio.subprocess.Process], client: AIOKafkaConsumer, name: str, log: Path) -> None:
        self.started = time.perf_counter()
        self._processes = processes
        self._client = client
        self._name = name
        self._log = log

    async def until_committed(self, ends: Mapping[TopicPartition, int], *, events: int | None = None) -> list[tuple[float, int]]:
        """Wait for the group; see `tests.bench.measuring.until_committed`."""
        return await until_committed(self._client, ends, self._processes[0], name=self._name, log=self._log, events=events)

    def usage(self) -> Usage:
        """Return what all of them have used so far."""
        each = [usage(process.pid) for process in self._processes]
        return Usage(
            cpu=sum(used.cpu for used in each), mib=sum(used.mib for used in each), peak_mib=sum(used.peak_mib for used in each)
        )

    async def until_idle(self) -> None:
        """Wait until they use little CPU: work that comes after a start is done."""
        before = self.usage().cpu
        while True:
            await asyncio.sleep(_LOOK)
            now = self.usage().cpu
            if now - before < _IDLE * _LOOK * len(self._processes):
                return
            before = now

    async def stop(self) -> None:
        """Have them leave the group."""
        for process in self._processes:
            process.terminate()
        await asyncio.wait_for(asyncio.gather(*(process.wait() for process in self._processes)), _STOP)


@asynccontextmanager
async def members(
    command: Command, broker: Broker, topics: Topics, *, group: str, folder: Path, partitions: int = PARTITIONS, count: int = 1
) -> AsyncIterator[Members]:
    """Run processes of a contender until the end of the block."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(offsets_of(broker.bootstrap, group))
        processes = []
        logs = []
        for number in range(count):
            arguments = arguments_for(broker, topics, group=group, state_dir=folder / f"{group}-{number}", partitions=partitions)
            words, changed = command(broker, arguments)
            logs.append(arguments.state_dir / "log")
            processes.append(await stack.enter_async_context(running(words, environment_of(changed), log=logs[-1])))
        yield Members(processes, client, group, logs[0])
