"""Which decisions are handled, kept on the deliveries topic: how a receiver is spared the copies.

A decision may be on the decisions topic more than once (a worker crashed), and it may be read more than once (an enforcement
worker crashed, partitions moved). So when a decision is handed over, its id is written to the same partition number of the
deliveries topic, at once and acknowledged; who takes a partition over reads the last ids first.

Why a topic of its own: offsets alone cannot tell the decisions that were handled ahead of one that is being retried. The metadata
of a commit could, but has 4 KiB, is not kept by every broker (Tansu drops it), and knows nothing of copies that come later.

What remains: when the worker is killed, or its partition moves, after the receiver took a decision and before its record was
acknowledged (some milliseconds), the decision is handed over again, under the same id.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import structlog
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, KafkaTimeoutError

from schemas.cloudevents import InvalidEventError, format_time
from schemas.deliveries import Delivery
from schemas.topics import MAX_DEAD_LETTER_BYTES, Topics
from streams.connection import Connection
from streams.enforcement.recent_ids import RecentIds

#: Milliseconds that a fetch may wait at the broker: a fetch that waits on idle partitions holds up the others.
_FETCH_MAX_WAIT_MS = 100

#: Seconds between attempts to write when the broker does not take it.
_WRITE_RETRY_INTERVAL = 1.0

log = structlog.get_logger("loopwarden.enforcement")


class DeliveryLog:
    """Writes deliveries and dead letters of one group, and reads its deliveries back."""

    def __init__(self, connection: Connection, topics: Topics, *, group: str, idempotent: bool = True) -> None:
        self._connection = connection
        self._topics = topics
        self._group = group
        self._idempotent = idempotent
        self._producer: AIOKafkaProducer | None = None

    async def start(self) -> None:
        """Connect; raises `aiokafka.errors.KafkaError`."""
        self._producer = AIOKafkaProducer(
            **self._connection.client_options(),
            acks="all",
            enable_idempotence=self._idempotent,
            max_request_size=MAX_DEAD_LETTER_BYTES,
        )
        await self._producer.start()

    async def stop(self) -> None:
        """Disconnect."""
        if self._producer is not None:
            await self._producer.stop()

    async def write(self, delivery: Delivery, *, key: bytes | None) -> None:
        """Record under the key of the decision that it is handled; returns when the broker has it, however long that takes.

        Raises `KafkaError` when the broker refuses the record.
        """
        partition = delivery.decision.partition
        await self._send(self._topics.deliveries, value=delivery.to_record(), key=key, partition=partition)

    async def dead_letter(self, record: Any, *, code: str, message: str, attempts: int) -> None:
        """Write a record of the decisions topic to its dead-letter topic: untouched, with the reason in headers.

        Returns when the broker has it, as `write` does.
        """
        reasons = {
            "code": code,
            "message": message,
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "group": self._group,
            "time": format_time(int(time.time() * 1000)),
            "attempts": str(attempts),
        }
        headers = [*record.headers, *((f"loopwarden.error.{name}", text.encode()) for name, text in reasons.items())]
        topic = self._topics.dead_letters(self._topics.decisions)
        await self._send(topic, value=record.value, key=record.key, partition=record.partition, headers=headers)

    async def _send(self, topic: str, **record: Any) -> None:
        if self._producer is None:
            raise RuntimeError("the delivery log is not started")
        while True:
            try:
                await self._producer.send_and_wait(topic, **record)
            except KafkaError as error:
                # A decision whose record is not written would be handed over again, so there is no going on without it.
                if not (error.retriable or isinstance(error, KafkaTimeoutError)):
                    raise
                log.warning("cannot write, trying again", topic=topic, error=type(error).__name__)
                await asyncio.sleep(_WRITE_RETRY_INTERVAL)
            else:
                return

    async def read_back(self, partitions: Sequence[int], *, limit: int) -> dict[int, RecentIds]:
        """Return the ids that the group has handled, from the last `limit` records of each partition (those of all groups).

        Raises `aiokafka.errors.KafkaError`.
        """
        found = {number: RecentIds(limit) for number in partitions}
        places = [TopicPartition(self._topics.deliveries, number) for number in partitions]
        if not places:
            return found
        consumer = self._connection.reader(fetch_max_wait_ms=_FETCH_MAX_WAIT_MS)
        await consumer.start()
        try:
            consumer.assign(places)
            firsts, ends = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
            for place in places:
                consumer.seek(place, max(firsts[place], ends[place] - limit))
            unread = set(places)
            while unread:
                for place, records in (await consumer.getmany(timeout_ms=_FETCH_MAX_WAIT_MS)).items():
                    for record in records:
                        self._remember(record, found[place.partition])
                for place in list(unread):
                    # The high watermark of a fetch: Tansu 0.6 answers ListOffsets with the first offset of the last batch.
                    end = consumer.highwater(place)
                    if end is not None and await consumer.position(place) >= end:
                        unread.remove(place)
                        consumer.pause(place)
        finally:
            await consumer.stop()
        return found

    def _remember(self, record: Any, ids: RecentIds) -> None:
        try:
            delivery = Delivery.from_record(record.value or b"", record.headers)
        except InvalidEventError as error:
            log.warning("delivery cannot be read", at=f"{record.topic}[{record.partition}]@{record.offset}", reason=str(error))
            return
        if delivery.group == self._group:
            ids.add(delivery.decision_id)
