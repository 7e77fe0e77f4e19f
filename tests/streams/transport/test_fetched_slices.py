"""Slices of record batches as consumers get them, beside the records that aiokafka makes of the same fetches."""

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.consumer.fetcher import FetchResult, PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from aiokafka.structs import ConsumerRecord

from streams.transport.fetched_slices import deliver_slices, take
from streams.transport.records import RecordSlice, delivered

RECORDS = 250
PLACE = TopicPartition("t", 0)

#: Where a record batch has its CRC and what it is of, and the bit of its attributes that makes it a control batch.
CRC, CHECKED = 17, 21
CONTROL = 0x20


def record_batch(base: int, count: int, *, control: bool = False) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for number in range(count):
        builder.append(number, 1000 + number, b"k", b"v%d" % (base + number), [])
    built = bytearray(builder.build())
    struct.pack_into(">q", built, 0, base)
    if control:
        built[CHECKED + 1] |= CONTROL
        struct.pack_into(">I", built, CRC, calc_crc32c(built[CHECKED:]))
    return bytes(built)


def legacy_messages(base: int, count: int, *, magic: int = 1) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    for number in range(count):
        builder.append(base + number, 1000 + number, b"k", b"v%d" % (base + number))
    return bytes(builder.build())


def fetched(raw: bytes, *, position: int = 0) -> Any:
    """A fetch result as aiokafka's fetcher makes it, of a partition that is read from `position` on."""
    state = SimpleNamespace(paused=False, position=position)
    state.consumed_to = lambda offset: setattr(state, "position", offset)
    assignment = SimpleNamespace(active=True, state_value=lambda _: state)
    records = PartitionRecords(PLACE, MemoryRecords(raw), [], position, None, None, True, 0)
    result = FetchResult(PLACE, assignment=assignment, partition_records=records, backoff=0)
    result.state = state
    return result


def bounds(slices: list[RecordSlice]) -> list[tuple[int, int]]:
    return [(one.start, one.end) for one in slices]


def offsets(slices: list[RecordSlice]) -> list[int]:
    return [record.offset for one in slices for record in one.records()]


def test_a_slice_has_as_many_whole_batches_as_fit() -> None:
    result = fetched(b"".join(record_batch(base, 4) for base in range(0, 20, 4)))
    (slices,) = take(result, 10)
    assert bounds(slices) == [(0, 8), (8, 16), (16, 20)]
    assert offsets(slices) == list(range(20))
    assert (result.state.position, result.has_more()) == (20, False)


def test_a_batch_of_more_is_cut() -> None:
    result = fetched(record_batch(0, 3) + record_batch(3, 25) + record_batch(28, 2))
    (slices,) = take(result, 10)
    assert bounds(slices) == [(0, 3), (3, 13), (13, 23), (23, 28), (28, 30)]
    assert offsets(slices) == list(range(30))


def test_reading_begins_in_the_middle_of_a_batch() -> None:
    (slices,) = take(fetched(record_batch(0, 8) + record_batch(8, 4), position=5), 100)
    assert bounds(slices) == [(5, 12)]
    assert offsets(slices) == list(range(5, 12))


def test_control_batches_have_no_records_and_move_the_position() -> None:
    result = fetched(record_batch(0, 2) + record_batch(2, 1, control=True) + record_batch(3, 2))
    (slices,) = take(result, 100)
    assert offsets(slices) == [0, 1, 3, 4]
    ends_with_one = fetched(record_batch(5, 1, control=True), position=5)
    assert take(ends_with_one, 100) == []
    assert ends_with_one.state.position == 6


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_before_kafka_0_11_are_read(magic: int) -> None:
    (slices,) = take(fetched(legacy_messages(0, 6, magic=magic), position=2), 3)
    assert offsets(slices) == [2, 3, 4, 5]
    assert max(one.size for one in slices) <= 3


def test_a_corrupt_batch_is_an_error_and_what_came_before_it_is_fetched_again() -> None:
    corrupt = bytearray(record_batch(2, 2))
    corrupt[-1] ^= 1
    result = fetched(record_batch(0, 2) + bytes(corrupt))
    with pytest.raises(CorruptRecordException, match="Invalid CRC"):
        take(result, 100)
    assert take(result, 100) == [], "nothing is left out"
    assert (result.state.position, result.has_more()) == (0, False)


def test_what_is_behind_the_limit_is_left_for_the_next_call() -> None:
    result = fetched(b"".join(record_batch(base, 4) for base in range(0, 20, 4)))
    taken = []
    while result.has_more():
        (slices,) = take(result, 100, 6)
        taken.append(offsets(slices))
        assert result.state.position == taken[-1][-1] + 1
    assert taken == [list(range(8)), list(range(8, 16)), list(range(16, 20))]


def test_nothing_is_taken_when_the_position_was_moved_meanwhile() -> None:
    result = fetched(record_batch(0, 4))
    result.state.position = 2
    assert take(result, 100) == []
    assert not result.has_more()


def test_a_slice_can_begin_later() -> None:
    (slices,) = take(fetched(record_batch(0, 4) + record_batch(4, 4)), 100)
    assert slices[0].since(0) is slices[0]
    later = slices[0].since(6)
    assert (later.start, later.end, [record.offset for record in later.records()]) == (6, 8, [6, 7])


async def publish(broker: str, topic: str) -> None:
    """Write records of all kinds: without key, without value, with headers, in compressed batches and in others."""
    for compression in ("gzip", None):
        producer = AIOKafkaProducer(bootstrap_servers=broker, compression_type=compression, enable_idempotence=False)
        await producer.start()
        try:
            sent = []
            for number in range(RECORDS // 2):
                key = None if number % 7 == 0 else b"k%d" % number
                value = None if number % 5 == 0 and key is not None else b"v%d" % number
                headers = [("h", b"1"), ("h", b"2")] if number % 3 == 0 else []
                sent.append(await producer.send(topic, value, key=key, partition=0, headers=headers, timestamp_ms=1000 + number))
            for future in sent:
                await future
        finally:
            await producer.stop()


async def read(broker: str, topic: str, *, size: int | None, seek: int = 0) -> list[Any]:
    """Read all records from an offset on, in slices or as the client's own."""
    consumer = AIOKafkaConsumer(bootstrap_servers=broker, group_id=None)
    await consumer.start()
    try:
        deliver_slices(consumer._fetcher, lambda name: size if name == topic else None)
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, seek)
        found: list[Any] = []
        while len(found) < RECORDS - seek:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                if size is None:
                    found += records
                    continue
                for one in records[0]:
                    assert one.size <= size
                    found += [delivered(place, record) for record in one.records()]
            assert not found or await consumer.position(place) == found[-1].offset + 1
        return found
    finally:
        await consumer.stop()


def told(record: Any) -> tuple[Any, ...]:
    return (record.topic, record.partition, record.offset, record.timestamp, record.key, record.value, list(record.headers))


@pytest.mark.broker
@pytest.mark.parametrize("size", [1, 7, RECORDS])
async def test_they_have_the_records_that_the_client_makes(broker: str, topic_factory: Callable[..., str], size: int) -> None:
    topic = topic_factory(partitions=1)
    await publish(broker, topic)
    whole = await read(broker, topic, size=None)
    assert all(isinstance(record, ConsumerRecord) for record in whole), "other topics stay the client's own"
    assert [told(record) for record in await read(broker, topic, size=size)] == [told(record) for record in whole]


@pytest.mark.broker
async def test_reading_begins_in_the_middle_of_a_compressed_batch(broker: str, topic_factory: Callable[..., str]) -> None:
    topic = topic_factory(partitions=1)
    await publish(broker, topic)
    found = await read(broker, topic, size=10, seek=33)
    assert [record.offset for record in found] == list(range(33, RECORDS))
