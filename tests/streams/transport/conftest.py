"""Workers in this process: a Faust app with one agent over batch topics."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import faust
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from faust.types import TP

from streams.transport import Batch, BatchTable, BatchTopic, batch_app_settings

#: Seconds that anything here may take before a test is given up.
PATIENCE = 20.0

Process = Callable[[Batch], Awaitable[None]]


async def patiently(waiting: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(waiting, PATIENCE)


class RunningWorker:
    """A started app, what it received, and what it was told about its partitions."""

    def __init__(self, app: faust.App, topic: BatchTopic, table: BatchTable | None, process: Process | None) -> None:
        self.app = app
        self.topic = topic
        self.table = table
        self.batches: list[Batch] = []
        #: per (topic, partition): (offset, value) in the order of arrival
        self.received: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
        self.taken_over: list[frozenset[TP]] = []
        self._changed = asyncio.Condition()

        @app.agent(topic)
        async def work(stream: Any) -> None:
            async for batches in stream:
                for batch in batches:
                    await self._take(batch, process)

        @topic.after_takeover
        async def note(partitions: frozenset[TP]) -> None:
            self.taken_over.append(partitions)
            await self.notify()

    async def _take(self, batch: Batch, process: Process | None) -> None:
        self.batches.append(batch)
        place = self.received.setdefault((batch.topic, batch.partition), [])
        records = batch.records = list(batch.records)  # to be read here, and by the test's own processing
        place.extend((record.offset, record.value) for record in records)
        await self.notify()
        if process is None:
            batch.done()
        else:
            await process(batch)
        await self.notify()

    @property
    def values(self) -> list[bytes]:
        return [value for place in self.received.values() for _, value in place]

    async def notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is looked at whenever the agent moves, and now and then."""

        async def wait() -> None:
            while not condition():
                async with self._changed:
                    try:
                        await asyncio.wait_for(self._changed.wait(), 0.1)
                    except TimeoutError:
                        continue

        await patiently(wait())

    async def until_received(self, count: int) -> None:
        await self.until(lambda: len(self.values) >= count)

    def assigned(self, topic: str) -> set[int]:
        return {tp.partition for tp in self.app.consumer.assignment() if tp.topic == topic}

    async def stop(self) -> None:
        await patiently(self.app.stop())


@pytest.fixture
async def worker_factory(broker_traits: Any, unique_name: Callable[[str], str], tmp_path: Path) -> AsyncIterator[Any]:
    """Start a worker: `await worker_factory(topics, group=..., process=..., partitions=...)`; it is stopped at the end.

    `partitions` makes a table; other keywords are Faust settings.
    """
    async with AsyncExitStack() as stack:

        async def factory(
            topics: Iterable[str],
            *,
            group: str | None = None,
            process: Process | None = None,
            partitions: int | None = None,
            max_records: int = 2000,
            newer: Any = None,
            data_dir: Path | None = None,
            setup: Callable[[RunningWorker], None] | None = None,
            **settings: Any,
        ) -> RunningWorker:
            app = faust.App(
                group or unique_name("group"),
                **{
                    **batch_app_settings(
                        bootstrap_servers=broker_traits.bootstrap_servers,
                        session_timeout=broker_traits.session_timeout,
                        heartbeat_interval=broker_traits.heartbeat_interval,
                        idempotence=broker_traits.idempotent_producer,
                        commit_interval=600.0,  # only the tests commit
                        data_dir=data_dir or tmp_path / unique_name("worker"),
                    ),
                    **settings,
                },
            )
            topic = BatchTopic(app, topics=list(topics), max_records=max_records)
            table = None if partitions is None else app.Table("runs", partitions=partitions, newer=newer)
            worker = RunningWorker(app, topic, table, process)
            if setup is not None:
                setup(worker)
            app.finalize()
            stack.push_async_callback(worker.stop)
            await patiently(app.start())
            await worker.until(lambda: bool(worker.taken_over or app.should_stop))
            if app.crash_reason is not None:
                raise app.crash_reason
            return worker

        yield factory


@pytest.fixture
async def producer(broker: str) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(bootstrap_servers=broker) as running:
        yield running


@pytest.fixture
def fill(producer: AIOKafkaProducer) -> Callable[..., Awaitable[None]]:
    """Write values to one partition in order: `await fill(topic, partition, values, key=b"k")`."""

    async def write(topic: str, partition: int, values: Iterable[bytes], *, key: bytes = b"k") -> None:
        waiting = [await producer.send(topic, value, key=key, partition=partition) for value in values]
        await asyncio.gather(*waiting)

    return write


@pytest.fixture
def committed(broker: str) -> Callable[..., Awaitable[dict[int, int | None]]]:
    """Ask the broker for a group's offsets: `await committed(group, topic, partitions=N)`."""

    async def ask(group: str, topic: str, *, partitions: int) -> dict[int, int | None]:
        consumer = AIOKafkaConsumer(bootstrap_servers=broker, group_id=group, enable_auto_commit=False)
        async with consumer:
            return {number: await consumer.committed(TopicPartition(topic, number)) for number in range(partitions)}

    return ask


@pytest.fixture
def read_all(broker: str) -> Callable[..., Awaitable[list[Any]]]:
    """Read `count` records of one partition from its start: `await read_all(topic, partition, count)`."""

    async def read(topic: str, partition: int, count: int) -> list[Any]:
        consumer = AIOKafkaConsumer(bootstrap_servers=broker, auto_offset_reset="earliest")
        async with consumer:
            place = TopicPartition(topic, partition)
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            found: list[Any] = []
            while len(found) < count:
                found += (await patiently(consumer.getmany(place, timeout_ms=1000))).get(place, [])
            return found

    return read
