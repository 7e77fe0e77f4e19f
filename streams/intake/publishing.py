"""Publish events in order and wait until the broker has them all."""

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable

from aiokafka import AIOKafkaProducer

from schemas.topics import Topics, partition_of
from streams.connection import Connection
from streams.intake.outgoing import OutgoingEvent
from streams.topics_admin import partition_count

#: Events sent and not yet acknowledged; bounds memory, and is more than a few full batches for each of many partitions.
_MAX_IN_FLIGHT = 10_000

#: Seconds that an interrupted publisher may still take to close its connections.
_GOODBYE = 1.0


async def publish_events(
    connection: Connection,
    events: Iterable[OutgoingEvent] | AsyncIterable[OutgoingEvent],
    *,
    topics: Topics,
    rate: float | None = None,
    max_event_bytes: int = 1024 * 1024,
    on_acknowledged: Callable[[int], None] = lambda count: None,
) -> int:
    """Publish events to the partitions of their runs, keeping their order per run, and return how many the broker has.

    `rate` is events per second. `on_acknowledged` is told the number so far. When `events` raises, what it gave before is still
    published before the error goes on. Raises `TopicsError` when topics are missing or disagree, and
    `aiokafka.errors.KafkaError` when the broker cannot be reached or refuses an event.
    """
    partitions = await partition_count(connection, topics)
    # One batch per partition is in flight at a time, so a retry cannot overtake; a copy of an event after a lost answer is
    # dropped by the workers, which know its sequence. Hence no idempotence, which the embedded broker cannot do.
    producer = AIOKafkaProducer(
        **connection.client_options(), acks="all", max_batch_size=256 * 1024, max_request_size=max_event_bytes + 64 * 1024
    )
    acknowledged = 0
    in_flight: deque[asyncio.Future[object]] = deque()

    async def settle(*, limit: int) -> None:
        nonlocal acknowledged
        while len(in_flight) > limit:
            await in_flight[0]
            in_flight.popleft()
            acknowledged += 1
            on_acknowledged(acknowledged)

    try:
        await producer.start()
        clock = asyncio.get_running_loop().time
        start = clock()
        numbers = itertools.count()
        try:
            async for event in _each(events):
                if rate is not None and (early := start + next(numbers) / rate - clock()) > 0:
                    await asyncio.sleep(early)
                partition = partition_of(event.run_id, partitions)
                in_flight.append(await producer.send(event.topic, event.value, key=event.key, partition=partition))
                while in_flight and in_flight[0].done():
                    await settle(limit=len(in_flight) - 1)
                await settle(limit=_MAX_IN_FLIGHT)
        except Exception:
            await settle(limit=0)
            raise
        await settle(limit=0)
    finally:
        for future in in_flight:  # only when something went wrong, of which the first error has told
            future.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(producer.stop(), _GOODBYE)
    return acknowledged


async def _each(events: Iterable[OutgoingEvent] | AsyncIterable[OutgoingEvent]) -> AsyncIterator[OutgoingEvent]:
    if isinstance(events, AsyncIterable):
        async for event in events:
            yield event
    else:
        for event in events:
            yield event
