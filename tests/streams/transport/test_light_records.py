"""Records as batches deliver them, beside those that aiokafka makes of the same fetches."""

from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import ConsumerRecord

from streams.transport.light_records import DeliveredRecord, deliver_lightly

pytestmark = pytest.mark.broker

RECORDS = 250


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


async def read(broker: str, topic: str, *, lightly: bool, max_records: int | None, seek: int = 0) -> list[Any]:
    """Read all records from an offset on, some at a time."""
    consumer = AIOKafkaConsumer(bootstrap_servers=broker, group_id=None)
    await consumer.start()
    try:
        if lightly:
            deliver_lightly(consumer._fetcher, lambda name: name == topic)
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, seek)
        found: list[Any] = []
        while len(found) < RECORDS - seek:
            some = await consumer.getmany(timeout_ms=1000, max_records=max_records)
            for records in some.values():
                assert max_records is None or len(records) <= max_records
                found += records
            assert not found or await consumer.position(place) == found[-1].offset + 1
        return found
    finally:
        await consumer.stop()


def told(record: ConsumerRecord | DeliveredRecord) -> tuple[Any, ...]:
    return (record.topic, record.partition, record.offset, record.timestamp, record.key, record.value, list(record.headers))


@pytest.mark.parametrize("max_records", [None, 7, RECORDS])
async def test_they_say_what_the_clients_own_say(broker: str, topic_factory: Callable[..., str], max_records: int | None) -> None:
    topic = topic_factory(partitions=1)
    await publish(broker, topic)
    light = await read(broker, topic, lightly=True, max_records=max_records)
    assert all(isinstance(record, DeliveredRecord) for record in light)
    full = await read(broker, topic, lightly=False, max_records=max_records)
    assert [told(record) for record in light] == [told(record) for record in full]


async def test_reading_begins_in_the_middle_of_a_compressed_batch(broker: str, topic_factory: Callable[..., str]) -> None:
    topic = topic_factory(partitions=1)
    await publish(broker, topic)
    found = await read(broker, topic, lightly=True, max_records=10, seek=33)
    assert [record.offset for record in found] == list(range(33, RECORDS))


async def test_records_of_other_topics_stay_the_clients_own(broker: str, topic_factory: Callable[..., str]) -> None:
    topic = topic_factory(partitions=1)
    await publish(broker, topic)
    consumer = AIOKafkaConsumer(bootstrap_servers=broker, group_id=None, auto_offset_reset="earliest")
    await consumer.start()
    try:
        deliver_lightly(consumer._fetcher, lambda _: False)
        consumer.assign([TopicPartition(topic, 0)])
        assert isinstance(await consumer.getone(), ConsumerRecord)
    finally:
        await consumer.stop()
