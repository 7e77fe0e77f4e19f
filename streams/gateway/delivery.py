"""Hands the events of an outbox to Kafka, in order within each partition, for as long as it takes."""

import asyncio
import contextlib
import logging
import random
import threading
from collections import deque
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    CorruptRecordException,
    InvalidTimestampError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
)

from schemas.topics import Topics, partition_of
from streams.connection import Connection
from streams.gateway.event_writer import WrittenEvent
from streams.gateway.kafka_faults import EXPECTED, first_line
from streams.gateway.outbox import Outbox
from streams.topics_admin import partition_counts

log = logging.getLogger("loopwarden.gateway")

#: Seconds before a request counts as failed, and before a batch that the client keeps trying is taken away from it.
_REQUEST_TIMEOUT = 10.0
_BATCH_TIMEOUT = 30.0

#: Seconds between two attempts to reach Kafka: the first, and the longest.
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0

#: Seconds after which the client asks again which partitions there are and who leads them.
_METADATA_AGE = 10.0

_BATCH_BYTES = 256 * 1024

#: Seconds that a client which is being discarded may take.
_GOODBYE = 2.0

#: The broker will not take such a record however often it is asked.
_HOPELESS = (MessageSizeTooLargeError, RecordListTooLargeError, InvalidTimestampError, CorruptRecordException)

Place = tuple[str, int]


class Delivery:
    """Sends what is in an outbox between `start` and `stop`, whatever Kafka does.

    One batch of each partition is under way at a time, and only what the broker has acknowledged leaves the outbox, so events of
    a run arrive in order and those of an outage arrive after it. A batch whose acknowledgement was lost is sent twice: workers
    know the sequences. `linger` is how long an event may wait for others, in seconds. `ends` is the next offset of each (topic,
    partition) that events went to.
    """

    def __init__(
        self, outbox: Outbox, *, connection: Connection, topics: Topics, idempotent: bool, max_event_bytes: int, linger: float
    ) -> None:
        self._outbox = outbox
        self._connection = connection
        self._topics = topics
        self._idempotent = idempotent
        self._max_event_bytes = max_event_bytes
        self._linger = linger
        self._lanes: dict[Place, deque[WrittenEvent]] = {}
        self._unplaced: deque[WrittenEvent] = deque()
        self._signalled = False
        self._news = asyncio.Event()
        self._settled = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._task: asyncio.Task[None] | None = None
        self.ends: dict[Place, int] = {}

    def wake(self) -> None:
        """Tell that the outbox has something; may be called from any thread, also before the start and after the stop."""
        if self._signalled or self._loop is None:
            return
        self._signalled = True
        if threading.get_ident() == self._thread:
            self._news.set()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nothing is sent any more
                self._loop.call_soon_threadsafe(self._news.set)

    async def start(self) -> None:
        """Begin to send, from the running event loop."""
        if self._task is None:
            self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
            self._news.set()
            self._task = asyncio.create_task(self._run(), name="loopwarden publisher")

    async def flush(self, timeout: float | None) -> bool:  # noqa: ASYNC109  (a limit, not a failure)
        """Wait until nothing is pending, for `timeout` seconds at most; return whether that is so."""
        try:
            async with asyncio.timeout(timeout):
                while self._outbox.pending and self._task is not None:
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            pass
        return not self._outbox.pending

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109  (a limit, not a failure)
        """Send what is pending for `timeout` seconds at most, then no more; what is left is dropped."""
        await self.flush(timeout)
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._outbox.abandon()

    async def _run(self) -> None:
        pause, troubled = _FIRST_PAUSE, False
        while True:
            producer: AIOKafkaProducer | None = None
            settled = self._outbox.published
            try:
                producer = await self._connect()
                if troubled:
                    log.info("connected to Kafka")
                    troubled = False
                await self._send_all(producer)
            except Exception as error:
                if not troubled:
                    unexpected = None if isinstance(error, EXPECTED) else error
                    log.warning("Kafka does not take events, they are kept meanwhile: %s", first_line(error), exc_info=unexpected)
                troubled = True
            finally:
                if producer is not None:
                    await _discard(producer)
            if self._outbox.published > settled:
                pause = _FIRST_PAUSE
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  (spreads gateways, keeps no secret)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _connect(self) -> AIOKafkaProducer:
        # Asked through the admin client: a producer that asks for a missing topic may create it, with the broker's defaults.
        await partition_counts(self._connection, self._topics.inputs)
        producer = AIOKafkaProducer(
            **self._connection.client_options(),
            acks="all",
            enable_idempotence=self._idempotent,
            max_batch_size=_BATCH_BYTES,
            max_request_size=self._max_event_bytes + _BATCH_BYTES,
            request_timeout_ms=round(_REQUEST_TIMEOUT * 1000),
            metadata_max_age_ms=round(_METADATA_AGE * 1000),
        )
        try:
            async with asyncio.timeout(_BATCH_TIMEOUT):
                await producer.start()
                for topic in self._topics.inputs:
                    await producer.partitions_for(topic)
        except BaseException:
            await _discard(producer)
            raise
        return producer

    async def _send_all(self, producer: AIOKafkaProducer) -> None:
        tasks: dict[Place, asyncio.Task[None]] = {}
        try:
            while True:
                await self._place(producer)
                for place, lane in self._lanes.items():
                    if lane and (place not in tasks or tasks[place].done()):
                        tasks[place] = asyncio.create_task(self._send_lane(producer, place, lane))
                        tasks[place].add_done_callback(self._look_again)
                await self._news.wait()
                for task in tasks.values():
                    if task.done():
                        task.result()
                if self._linger:
                    await asyncio.sleep(self._linger)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _place(self, producer: AIOKafkaProducer) -> None:
        """Put what is new into the lanes of its partitions."""
        self._signalled = False
        self._news.clear()
        self._unplaced.extend(self._outbox.take())
        if not self._unplaced:
            return
        counts = {topic: len(await producer.partitions_for(topic)) for topic in self._topics.inputs}
        while self._unplaced:
            event = self._unplaced[0]
            place = (event.topic, partition_of(event.run_id, counts[event.topic]))
            self._lanes.setdefault(place, deque()).append(event)
            self._unplaced.popleft()

    def _look_again(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._news.set()

    async def _send_lane(self, producer: AIOKafkaProducer, place: Place, lane: deque[WrittenEvent]) -> None:
        one_by_one = False
        while lane:
            batch = producer.create_batch()
            events: list[WrittenEvent] = []
            for event in lane:
                if batch.append(key=event.run_id.encode(), value=event.value, timestamp=None) is None:
                    break
                events.append(event)
                if one_by_one:
                    break
            try:
                offset = await self._send_batch(producer, batch, place)
            except _HOPELESS as error:
                if len(events) > 1:
                    one_by_one = True  # finds out which one it is
                    continue
                one_by_one = False
                self._outbox.give_up(events, "refused", f"{place[0]}[{place[1]}]: {first_line(error)}")
            else:
                self._outbox.settle(events)
                self.ends[place] = offset + len(events)
            for _ in events:
                lane.popleft()
            self._settled.set()

    async def _send_batch(self, producer: AIOKafkaProducer, batch: Any, place: Place) -> int:
        future = await producer.send_batch(batch, place[0], partition=place[1])
        # An idempotent producer tries for ever, also at addresses that are no longer those of the cluster.
        async with asyncio.timeout(_BATCH_TIMEOUT):
            return int((await future).offset)


async def _discard(producer: AIOKafkaProducer) -> None:
    """End a producer so that nothing it still holds is sent later, when newer events may have gone by another."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_GOODBYE):
            await producer.client.close()
    sender = producer._sender
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_GOODBYE):
            await sender.close()
    producer._closed = True
