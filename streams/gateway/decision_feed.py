"""Follows the decisions topic for a gate: all partitions, without a consumer group, whatever happens to the brokers."""

import asyncio
import contextlib
import logging
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError, RecordTooLargeError
from aiokafka.structs import ConsumerRecord

from streams.connection import Connection
from streams.gateway.kafka_faults import EXPECTED, first_line
from streams.topics_admin import partition_counts

log = logging.getLogger("loopwarden.gateway")

#: Seconds before a request counts as failed, and of silence before a client is replaced: the next asks the bootstrap addresses.
_REQUEST_TIMEOUT = 10.0
_SILENCE = 30.0

#: Seconds between two attempts to reach Kafka: the first, and the longest.
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0

#: Seconds after which the client asks again which partitions there are.
_METADATA_AGE = 10.0

#: Seconds that a broker may name an end before our place: a new leader may for a moment. The embedded broker, when its topic was
#: made anew, does so instead of answering that our place is out of range.
_BEYOND_END = 3.0

#: Records that are handed over at a time: some milliseconds of work, between which the agent's own tasks run.
_SLICE = 50

#: Seconds that a client which is being discarded may take.
_GOODBYE = 2.0


@dataclass(slots=True)
class _Progress:
    """How far a partition has been read; times are those of the steady clock."""

    next_offset: int
    answer_stamp: int | None = None
    answers: int = 0
    answered_at: float = -math.inf
    #: when it was last known that everything had been read
    fresh_at: float = -math.inf
    #: since when the broker has been naming an end before our place
    beyond_since: float | None = None


class DecisionFeed:
    """Hands every record of a topic over, in order within each partition, between `start` and `stop`.

    Begins at the beginning of each partition, or `look_back` seconds ago where the broker can find that by time. `on_records`
    gets slices of a partition, `on_gap` is told of a partition whose next records are gone (retention was faster than we), and
    `on_caught_up` the first time that a partition has been read to its end. `fetch_wait` is how long the broker may keep an empty
    answer back, in seconds.
    """

    def __init__(
        self,
        *,
        connection: Connection,
        topic: str,
        look_back: float | None,
        fetch_wait: float,
        on_records: Callable[[int, Sequence[ConsumerRecord]], None],
        on_gap: Callable[[int], None],
        on_caught_up: Callable[[int], None],
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._look_back = look_back
        self._fetch_wait_ms = max(1, round(fetch_wait * 1000))
        self._on_records = on_records
        self._on_gap = on_gap
        self._on_caught_up = on_caught_up
        self._progress: dict[TopicPartition, _Progress] = {}
        self._moved = asyncio.Event()
        self._consumer: AIOKafkaConsumer | None = None
        self._task: asyncio.Task[None] | None = None
        #: when all partitions were last known to have been read to their end (steady clock)
        self.fresh_at = -math.inf

    @property
    def partitions(self) -> int:
        """The number of partitions, 0 as long as it is not known."""
        return len(self._progress)

    async def start(self) -> None:
        """Begin to read, from the running event loop."""
        if self._task is None:
            self._moved = asyncio.Event()  # of this loop: a gate may be started again in another
            self._task = asyncio.create_task(self._run(), name="loopwarden gate")

    async def stop(self) -> None:
        """Stop reading."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def wait_until_caught_up(self) -> None:
        """Wait until everything has been read that was on the topic when this was called."""
        # The answer that comes next may have been made before; the one after it is asked for later.
        wanted = {partition: progress.answers + 2 for partition, progress in self._progress.items()}
        for partition in wanted if self._consumer is not None else ():
            wanted[partition] += self._has_answer(self._consumer, partition)  # come already, but not looked at
        asked_at = time.monotonic()
        while not self._progress or not all(
            progress.answers >= wanted.get(partition, 1) and progress.fresh_at >= asked_at
            for partition, progress in self._progress.items()
        ):
            self._moved.clear()
            await self._moved.wait()

    async def _run(self) -> None:
        pause, troubled = _FIRST_PAUSE, False
        while True:
            consumer: AIOKafkaConsumer | None = None
            heard = self._answers()
            try:
                count = (await partition_counts(self._connection, [self._topic]))[self._topic]
                consumer = AIOKafkaConsumer(
                    **self._connection.client_options(),
                    group_id=None,
                    enable_auto_commit=False,
                    auto_offset_reset="none",  # what is out of range is for us to know
                    fetch_max_wait_ms=self._fetch_wait_ms,
                    request_timeout_ms=round(_REQUEST_TIMEOUT * 1000),
                    metadata_max_age_ms=round(_METADATA_AGE * 1000),
                )
                async with asyncio.timeout(_SILENCE):
                    await consumer.start()
                    await self._assign(consumer, count)
                if troubled:
                    log.info("connected to Kafka, reading decisions")
                    troubled = False
                self._consumer = consumer
                await self._read(consumer)
            except Exception as error:
                if not troubled:
                    unexpected = None if isinstance(error, EXPECTED) else error
                    log.warning("decisions cannot be read, trying again: %s", first_line(error), exc_info=unexpected)
                troubled = True
            finally:
                self._consumer = None
                if consumer is not None:
                    await _discard(consumer)
            if self._answers() > heard:
                pause = _FIRST_PAUSE
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  (spreads gateways, keeps no secret)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _answers(self) -> int:
        return sum(progress.answers for progress in self._progress.values())

    async def _assign(self, consumer: AIOKafkaConsumer, count: int) -> None:
        """Read on where we are in each partition, and begin new ones."""
        wanted = [TopicPartition(self._topic, number) for number in range(count)]
        new = [partition for partition in wanted if partition not in self._progress]
        consumer.assign(wanted)
        begin = await self._beginnings(consumer, new)
        for gone in set(self._progress) - set(wanted):  # the topic was deleted and made again, smaller
            del self._progress[gone]
            self._on_gap(gone.partition)
        self._progress.update({partition: _Progress(begin[partition]) for partition in new})
        for partition, progress in self._progress.items():
            progress.answer_stamp = None
            consumer.seek(partition, progress.next_offset)

    async def _beginnings(self, consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        begin: dict[TopicPartition, int] = await consumer.beginning_offsets(partitions)
        if self._look_back is not None:
            since = round((time.time() - self._look_back) * 1000)
            try:
                found = await consumer.offsets_for_times(dict.fromkeys(partitions, since))
            except KafkaError as error:
                log.info("reading decisions from the beginning, the broker does not find them by time: %s", error)
                return begin
            begin |= await consumer.end_offsets(partitions)  # where nothing is younger
            begin |= {partition: at.offset for partition, at in found.items() if at is not None and at.timestamp >= 0}
        return begin

    async def _read(self, consumer: AIOKafkaConsumer) -> None:
        answered_at = time.monotonic()
        while True:
            try:
                fetched = await consumer.getmany(timeout_ms=self._fetch_wait_ms, max_records=_SLICE)
            except OffsetOutOfRangeError as error:
                await self._out_of_range(consumer, error.args[0])
                continue
            except RecordTooLargeError as error:  # the client has gone past it
                log.warning("a record of %s was skipped: %s", self._topic, error)
                continue
            for partition, records in fetched.items():
                self._on_records(partition.partition, records)
            before = self._answers()
            await self._note(consumer)
            now = time.monotonic()
            if self._answers() > before:
                answered_at = now
            elif now - answered_at > _SILENCE:
                raise TimeoutError(f"no answer for {_SILENCE:g} s")
            self._moved.set()
            if beyond := {at: p.next_offset for at, p in self._progress.items() if now - (p.beyond_since or now) > _BEYOND_END}:
                await self._out_of_range(consumer, beyond)
            known = consumer.partitions_for_topic(self._topic)
            if known is not None and len(known) > len(self._progress):
                log.info("%s has %d partitions now", self._topic, len(known))
                async with asyncio.timeout(_SILENCE):
                    await self._assign(consumer, max(known) + 1)
            if fetched:
                await asyncio.sleep(0)

    def _has_answer(self, consumer: AIOKafkaConsumer, partition: TopicPartition) -> bool:
        stamp = consumer.last_poll_timestamp(partition)
        return stamp is not None and stamp != self._progress[partition].answer_stamp

    async def _note(self, consumer: AIOKafkaConsumer) -> None:
        """Look how far each partition has been read, and which answers have come."""
        now = time.monotonic()
        for partition, progress in self._progress.items():
            progress.next_offset = await consumer.position(partition)  # at once: we have set it
            if self._has_answer(consumer, partition):
                progress.answer_stamp = consumer.last_poll_timestamp(partition)
                progress.answers += 1
                progress.answered_at = now
            end = consumer.highwater(partition)
            if end is None:
                continue
            progress.beyond_since = (progress.beyond_since or now) if end < progress.next_offset else None
            if progress.next_offset == end:
                first = progress.fresh_at == -math.inf
                progress.fresh_at = progress.answered_at
                if first:
                    self._on_caught_up(partition.partition)
        self.fresh_at = min((progress.fresh_at for progress in self._progress.values()), default=-math.inf)

    async def _out_of_range(self, consumer: AIOKafkaConsumer, offsets: dict[TopicPartition, int]) -> None:
        begin = await consumer.beginning_offsets(list(offsets))
        for partition, offset in offsets.items():
            self._progress[partition].beyond_since = None
            if offset < begin[partition]:
                log.warning("%s[%d]@%d: decisions up to %d are gone", *partition, offset, begin[partition])
                self._on_gap(partition.partition)
            else:
                # The end of the log is gone (a broker lost it, or the topic is new): what we know from it still holds.
                log.warning("%s[%d]@%d: the topic ends before, reading it again", *partition, offset)
            self._progress[partition].next_offset = begin[partition]
            consumer.seek(partition, begin[partition])


async def _discard(consumer: AIOKafkaConsumer) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_GOODBYE):
            await consumer.stop()
