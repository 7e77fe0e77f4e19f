"""Publishes events and states quickly: batches are packed here, one partition at a time."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from aiokafka import AIOKafkaProducer, TopicPartition

from schemas.topics import partition_of
from streams.connection import Connection
from streams.intake.outgoing import OutgoingEvent

#: Batches that are sent and not yet acknowledged; bounds memory.
_IN_FLIGHT = 16

#: Bytes of a batch, and seconds between two portions of a steady load.
_BATCH = 512 * 1024
PORTION = 0.005

Keyed = tuple[int, bytes, bytes]


class Publisher:
    """Writes to one topic and knows its ends."""

    def __init__(self, connection: Connection, topic: str, *, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self.counts: Counter[int] = Counter()
        self._connection = connection

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The ends of the partitions that have anything."""
        return {TopicPartition(self.topic, number): end for number, end in self.counts.items()}

    def keyed(self, events: Iterable[OutgoingEvent]) -> Iterator[Keyed]:
        """Yield partition, key and value of each event."""
        return ((partition_of(event.run_id, self.partitions), event.key, event.value) for event in events)

    async def publish(self, records: Iterable[Keyed]) -> None:
        """Publish all records, in order within each partition, and wait until the broker has them."""
        waiting: dict[int, list[Keyed]] = {}
        producer = self._producer()
        await producer.start()
        try:
            sent: list[asyncio.Future[object]] = []
            for number, record in enumerate(records, start=1):
                waiting.setdefault(record[0], []).append(record)
                if number % 10_000 == 0:
                    sent += await self._send(producer, waiting)
                if len(sent) > _IN_FLIGHT:
                    await asyncio.gather(*sent)
                    sent.clear()
            sent += await self._send(producer, waiting)
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    async def publish_steadily(
        self,
        events: Sequence[OutgoingEvent],
        *,
        rate: float,
        on_sent: Callable[[OutgoingEvent, float], None] = lambda event, at: None,
    ) -> None:
        """Publish events at a rate per second; `on_sent` is told when each was given to the client (performance counter)."""
        producer = self._producer()
        await producer.start()
        sent: list[asyncio.Future[object]] = []
        try:
            began, position = time.perf_counter(), 0
            while position < len(events):
                due = min(len(events), int((time.perf_counter() - began) * rate) + 1)
                portion = events[position:due]
                at = time.perf_counter()
                for event in portion:
                    on_sent(event, at)
                waiting: dict[int, list[Keyed]] = {}
                for record in self.keyed(portion):
                    waiting.setdefault(record[0], []).append(record)
                sent += await self._send(producer, waiting)
                sent = [future for future in sent if not future.done()]
                position = due
                await asyncio.sleep(max(0.0, at + PORTION - time.perf_counter()))
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    def _producer(self) -> AIOKafkaProducer:
        # One batch of a partition is in flight at a time, so a retry cannot overtake; hence no idempotence.
        return AIOKafkaProducer(**self._connection.client_options(), acks="all", max_batch_size=_BATCH)

    async def _send(self, producer: AIOKafkaProducer, waiting: dict[int, list[Keyed]]) -> list[asyncio.Future[object]]:
        sent = []
        now = int(time.time() * 1000)
        for partition, records in waiting.items():
            batch = producer.create_batch()
            for _, key, value in records:
                if batch.append(key=key, value=value, timestamp=now) is None:
                    sent.append(await producer.send_batch(batch, self.topic, partition=partition))
                    batch = producer.create_batch()
                    batch.append(key=key, value=value, timestamp=now)
            sent.append(await producer.send_batch(batch, self.topic, partition=partition))
            self.counts[partition] += len(records)
        waiting.clear()
        return sent
