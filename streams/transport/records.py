"""Records as batches deliver them: decoded when they are read, one at a time, without what nobody reads.

aiokafka's own cost more to make than all of the detection. A record that is decoded when it is wanted, and let go before the
next, also stays in the processor's caches.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

import msgspec
from aiokafka import TopicPartition


class BareRecord(Protocol):
    """A record as the client's decoder gives it; it does not know its place."""

    @property
    def offset(self) -> int:
        """Its offset."""

    @property
    def timestamp(self) -> int | None:
        """Its time, in milliseconds since 1970; messages of before Kafka 0.10 have none."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def value(self) -> bytes | None:
        """Its value."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Its headers."""


class Record(BareRecord, Protocol):
    """A record with the name of its place: what there is to say of one that somebody has to look at."""

    @property
    def topic(self) -> str:
        """Its topic."""

    @property
    def partition(self) -> int:
        """Its partition."""


class DeliveredRecord(msgspec.Struct, frozen=True, gc=False):
    """A record with the name of its place; `timestamp` in milliseconds since 1970, 0 where there is none."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


def delivered(tp: TopicPartition, record: BareRecord) -> DeliveredRecord:
    """Return a bare record with the name of its place."""
    return DeliveredRecord(
        tp.topic, tp.partition, record.offset, record.timestamp or 0, record.key, record.value, tuple(record.headers)
    )


def within(batch: Any, start: int, end: int) -> Iterable[BareRecord]:
    """Return the records from `start` up to `end` of a record batch of aiokafka, to be iterated over once."""
    # The broker gives whole batches: those at the ends may begin before and end behind what was asked for. One in a format of
    # before Kafka 0.11 does not say where it begins.
    if batch.next_offset <= end and getattr(batch, "base_offset", -1) >= start:
        whole: Iterable[BareRecord] = batch
        return whole
    return (record for record in batch if start <= record.offset < end)


class RecordSlice(NamedTuple):
    """The records of a partition from offset `start` up to `end`, in `parts` that are decoded as they are iterated over, once."""

    start: int
    end: int
    parts: Sequence[Iterable[BareRecord]]

    @property
    def size(self) -> int:
        """How many records it has; fewer where offsets have none."""
        return self.end - self.start

    def records(self) -> Iterator[BareRecord]:
        """Yield the records."""
        return chain.from_iterable(self.parts)

    def since(self, offset: int) -> "RecordSlice":
        """Return what there is of it from an offset on."""
        if offset <= self.start:
            return self
        return RecordSlice(offset, max(offset, self.end), [(record for record in self.records() if record.offset >= offset)])
