"""Reads partitions in bulk, from any offset, without a consumer group and without ever writing.

An audit reads much and once: several times the speed of a consumer comes from asking for big slices, one partition at a time, and
taking the records as the client's decoder gives them. The next slice is asked for before the caller gets the last one, so brokers
and network work while the caller does. A thread for it costs more than it brings: it fights with the caller for the interpreter
(measured: 1 us of 6 us an event).
"""

import asyncio
import bisect
import time
from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from aiokafka import TopicPartition, errors
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.record.memory_records import MemoryRecords

from streams.audit.inputs import InputRecord
from streams.connection import Connection
from streams.transport import BareRecord, RecordSlice, delivered
from streams.transport.records import within

#: Bytes asked for at once: some 2,500 events with hashes. More leaves the processor's caches and is slower (0.5 to 4 MiB).
FETCH_BYTES = 1024 * 1024

#: Milliseconds that a broker may wait for data. An audit knows that there is some.
_MAX_WAIT_MS = 500

#: Milliseconds that a broker may wait for data when only the end of a partition is asked for: an empty one takes all of them.
_LOOK_WAIT_MS = 10

#: Seconds for which a leader that moves or a broker that is away is waited for.
PATIENCE = 30.0

_RETRY_PAUSE = 0.2

#: `ListOffsets` asks for the earliest offset with this time.
_EARLIEST = -2

_NO_TIME = 2**63 - 1

Result = TypeVar("Result")


class LogError(RuntimeError):
    """A partition cannot be read where it was asked for; the message names the place."""


class Slice(NamedTuple):
    """What one fetch brought of a partition, and the offset behind it, which may be behind the end that was asked for."""

    topic: str
    partition: int
    found: RecordSlice
    next_offset: int

    def raw(self) -> Iterator[BareRecord]:
        """Yield the records as they are decoded, once."""
        return self.found.records()

    def records(self) -> Iterator[InputRecord]:
        """Yield the records with the name of their place, once."""
        place = TopicPartition(self.topic, self.partition)
        return (delivered(place, one) for one in self.raw())


class LogReader:
    """Reads any partition of a cluster; use it in a `with` block.

    Raises `aiokafka.errors.KafkaError` when the brokers cannot be reached or refuse, and `LogError` for offsets that are gone.
    """

    def __init__(self, connection: Connection) -> None:
        self._loop = asyncio.new_event_loop()
        self._client: Any = None
        self._connection = connection

    def __enter__(self) -> Self:
        try:
            self._client = self.run(self._connect())
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.run(self._client.close())
        finally:
            self._loop.close()

    def run(self, work: "Coroutine[Any, Any, Result] | asyncio.Future[Result]") -> Result:
        """Run a coroutine on the reader's own event loop and return what it returns; the caller waits, whatever loop it is in."""
        # A loop that runs in this thread (a notebook's) has to wait, and does not know of this one.
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            return self._loop.run_until_complete(work)
        finally:
            asyncio._set_running_loop(outer)

    async def _connect(self) -> Any:
        client = AIOKafkaClient(**self._connection.client_options())
        try:
            await client.bootstrap()
        except BaseException:
            await client.close()
            raise
        return client

    # -- where a partition begins and ends -------------------------------------------------------------------------------------

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first offset that still exists and the offset behind the last one."""
        return self.run(self._bounds(TopicPartition(topic, partition)))

    async def _bounds(self, tp: TopicPartition) -> tuple[int, int]:
        # The high watermark of a fetch: Tansu 0.6 answers ListOffsets(latest) with the first offset of the last batch.
        _, earliest = await self._list_offset(tp, _EARLIEST)
        answer = await self._fetch(tp, earliest, 1, wait_ms=_LOOK_WAIT_MS)
        return earliest, int(answer[0])

    def offset_at(self, topic: str, partition: int, time_ms: int) -> int | None:
        """Return the first offset whose record has this time or a later one; None when there is none.

        The broker's answer is checked by the records around it: Tansu 0.6 goes by the time at which a batch arrived. If it does
        not hold, the place is searched for, as if times never went back.
        """
        tp = TopicPartition(topic, partition)
        stamp, offset = self.run(self._list_offset(tp, time_ms))
        first, end = self.run(self._bounds(tp))
        found = offset if stamp >= 0 and offset >= 0 else end
        reached = found == end or self.time_at(topic, partition, found, end) >= time_ms
        if not (reached and (found == first or self.time_at(topic, partition, found - 1, end) < time_ms)):
            places = range(first, end)
            found = first + bisect.bisect_left(places, time_ms, key=lambda at: self.time_at(topic, partition, at, end))
        return found if found < end else None

    def time_at(self, topic: str, partition: int, offset: int, end: int) -> int:
        """Return the time of the record at an offset, or of the next one before `end`; the largest number when there is none."""
        found = next(self.records(topic, partition, offset, end, slice_bytes=1), None)
        return _NO_TIME if found is None else found.timestamp

    async def _list_offset(self, tp: TopicPartition, time_ms: int) -> tuple[int, int]:
        async def ask(leader: int) -> tuple[int, int]:
            request = OffsetRequest(-1, 0, [(tp.topic, [(tp.partition, time_ms)])])
            response = await self._client.send(leader, request)
            ((_, ((_, code, stamp, offset, *_),)),) = response.topics
            _raise_for(code, tp)
            return int(stamp), int(offset)

        found: tuple[int, int] = await self._persist(tp, ask)
        return found

    # -- records ---------------------------------------------------------------------------------------------------------------

    def read(self, topic: str, partition: int, start: int, end: int, *, slice_bytes: int = FETCH_BYTES) -> Iterator[Slice]:
        """Yield the records from `start` up to `end`, in slices as they are fetched."""
        tp = TopicPartition(topic, partition)
        # Not by the task's result: tasks and futures refer to each other, and would keep slices until a garbage collection.
        fetched: list[Slice] = []

        async def fetch(at: int) -> None:
            fetched.append(await self._slice(tp, at, end, slice_bytes))

        def ask(at: int) -> asyncio.Task[None]:
            task = self._loop.create_task(fetch(at))
            self.run(asyncio.sleep(0))  # has the request sent; the answer comes while the caller works
            return task

        at = start
        ahead = ask(at) if at < end else None
        try:
            while ahead is not None:
                self.run(ahead)
                got, ahead = fetched.pop(), None
                at = got.next_offset
                if at < end:
                    ahead = ask(at)
                yield got
        finally:
            if ahead is not None and not self._loop.is_closed():
                ahead.cancel()
                self.run(asyncio.wait([ahead]))

    def records(
        self, topic: str, partition: int, start: int, end: int, *, slice_bytes: int = FETCH_BYTES
    ) -> Iterator[InputRecord]:
        """Yield the records from `start` up to `end`."""
        for got in self.read(topic, partition, start, end, slice_bytes=slice_bytes):
            yield from got.records()

    async def _slice(self, tp: TopicPartition, start: int, end: int, size: int) -> Slice:
        deadline = time.monotonic() + PATIENCE
        while True:
            high, raw = await self._fetch(tp, start, size)
            following = start
            batches = MemoryRecords(raw)
            parts = []
            while batches.has_next():
                batch = batches.next_batch()
                if not batch.validate_crc():
                    raise LogError(f"{tp.topic}[{tp.partition}]@{following}: the batch there or behind it is corrupt (CRC)")
                following = batch.next_offset
                if not batch.is_control_batch:
                    parts.append(within(batch, start, end))
            if following > start:
                return Slice(tp.topic, tp.partition, RecordSlice(start, min(following, end), parts), following)
            if start >= high:
                raise LogError(f"{tp.topic}[{tp.partition}]@{start}: the partition ends at {high}")
            if len(raw):
                size *= 4  # not one whole batch fits
            elif time.monotonic() > deadline:
                raise LogError(
                    f"{tp.topic}[{tp.partition}]@{start}: the broker gives nothing, though the partition ends at {high}"
                )

    async def _fetch(self, tp: TopicPartition, offset: int, size: int, *, wait_ms: int = _MAX_WAIT_MS) -> tuple[int, bytes]:
        async def ask(leader: int) -> tuple[int, bytes]:
            nonlocal wait_ms
            request = FetchRequest(wait_ms, 1, size, 0, [(tp.topic, [(tp.partition, offset, size)])])
            response = await self._client.send(leader, request)
            if not response.topics:  # Tansu 0.6, when the time is over before it has looked
                wait_ms = _MAX_WAIT_MS
                raise errors.RequestTimedOutError(f"{tp.topic}[{tp.partition}]")
            ((_, ((_, code, high, *rest),)),) = response.topics
            if code == errors.OffsetOutOfRangeError.errno:
                raise LogError(f"{tp.topic}[{tp.partition}]@{offset}: there is no such offset (any more)")
            _raise_for(code, tp)
            return int(high), rest[-1]

        found: tuple[int, bytes] = await self._persist(tp, ask)
        return found

    async def _persist(self, tp: TopicPartition, ask: Callable[[int], Coroutine[Any, Any, Any]]) -> Any:
        """Ask the leader of a partition; wait while it moves or is away."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return await ask(await self._leader(tp))
            except errors.KafkaError as error:
                if not error.retriable or time.monotonic() > deadline:
                    raise
            self._client.force_metadata_update()
            await asyncio.sleep(_RETRY_PAUSE)

    async def _leader(self, tp: TopicPartition) -> int:
        leader = self._client.cluster.leader_for_partition(tp)
        if leader is None or leader == -1:
            await self._client.add_topic(tp.topic)
            await self._client.force_metadata_update()
            leader = self._client.cluster.leader_for_partition(tp)
        if leader is None or leader == -1:
            raise errors.LeaderNotAvailableError(f"{tp.topic}[{tp.partition}]")
        return int(leader)


def _raise_for(code: int, tp: TopicPartition) -> None:
    if code:
        raise errors.for_code(code)(f"{tp.topic}[{tp.partition}]")
