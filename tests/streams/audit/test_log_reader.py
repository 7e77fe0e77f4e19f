"""Bulk reading of partitions of real brokers."""

import asyncio
import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from streams.audit.log_reader import LogError, LogReader
from streams.connection import Connection

pytestmark = pytest.mark.broker

#: Brokers take no records from the future, and drop those that are too old.
FIRST_TIME = int(time.time() * 1000) - 6_000_000


@pytest.fixture
def filled(broker: str, topic_factory: Callable[..., str]) -> str:
    """A topic whose partition 1 has 5,000 records, one a second by their timestamps, in many batches."""
    topic = topic_factory(partitions=2)

    async def fill() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker, max_batch_size=2048, compression_type="gzip")
        await producer.start()
        try:
            sent = []
            for number in range(5000):
                key = b"key" if number % 2 else None
                sent.append(
                    await producer.send(
                        topic,
                        b"%d" % number,
                        key=key,
                        partition=1,
                        timestamp_ms=FIRST_TIME + 1000 * number,
                        headers=[("h", b"1")],
                    )
                )
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    asyncio.run(fill())
    return topic


@pytest.fixture
def connection(broker: str) -> Connection:
    return Connection(bootstrap_servers=broker)


def test_every_record_comes_once_and_in_order_from_any_offset(connection: Connection, filled: str) -> None:
    with LogReader(connection) as reader:
        assert reader.bounds(filled, 1) == (0, 5000)
        assert reader.bounds(filled, 0) == (0, 0)
        for start, end in ((0, 5000), (17, 4999), (4999, 5000), (30, 30)):
            records = list(reader.records(filled, 1, start, end))
            assert [record.offset for record in records] == list(range(start, end))
            assert [record.value for record in records] == [b"%d" % number for number in range(start, end)]
        sizes = [len(list(got.records())) for got in reader.read(filled, 1, 0, 5000, slice_bytes=4096)]
        assert sum(sizes) == 5000
        assert len(sizes) > 3
        one = next(reader.records(filled, 1, 7, 8))
        assert (one.topic, one.partition, one.timestamp, one.key, one.headers) == (
            filled,
            1,
            FIRST_TIME + 7000,
            b"key",
            (("h", b"1"),),
        )


def test_a_slice_that_is_too_small_for_a_batch_grows(connection: Connection, filled: str) -> None:
    with LogReader(connection) as reader:
        assert len([record for got in reader.read(filled, 1, 0, 200, slice_bytes=1) for record in got.raw()]) == 200


def test_reading_may_be_given_up_at_any_slice(connection: Connection, filled: str) -> None:
    """The slice that was asked for ahead is nobody's any more; the next reading is not disturbed by its answer."""
    with LogReader(connection) as reader:
        for _ in range(3):
            first = next(iter(reader.read(filled, 1, 0, 5000, slice_bytes=4096)))
            assert next(first.records()).offset == 0
            assert first.next_offset < 5000
        assert len(list(reader.records(filled, 1, 0, 5000))) == 5000


async def test_it_works_within_a_running_event_loop(connection: Connection, filled: str) -> None:
    """As in a notebook; the outer loop waits and goes on afterwards."""
    outer = asyncio.get_running_loop()
    with LogReader(connection) as reader:
        assert [record.offset for record in reader.records(filled, 1, 10, 20)] == list(range(10, 20))
        assert asyncio.get_running_loop() is outer
    await asyncio.sleep(0)


def test_the_end_of_an_empty_partition_is_known_at_once(connection: Connection, filled: str) -> None:
    with LogReader(connection) as reader:
        reader.bounds(filled, 0)
        begin = time.monotonic()
        for _ in range(20):
            assert reader.bounds(filled, 0) == (0, 0)
        assert time.monotonic() - begin < 5  # brokers may hold an answer back for half a second, which would make it ten


def test_times_lead_to_offsets(connection: Connection, filled: str) -> None:
    with LogReader(connection) as reader:
        assert reader.offset_at(filled, 1, FIRST_TIME - 10) == 0
        found = reader.offset_at(filled, 1, FIRST_TIME + 2_000_000)
        assert found == 2000
        assert reader.offset_at(filled, 1, FIRST_TIME + 10_000_000) is None
        assert reader.offset_at(filled, 0, FIRST_TIME) is None


def test_offsets_that_are_not_there_are_errors_that_name_the_place(connection: Connection, filled: str) -> None:
    with LogReader(connection) as reader, pytest.raises(LogError, match=rf"{filled}\[1\]@(5000|9000)"):
        list(reader.records(filled, 1, 9000, 9001))


def test_without_a_broker_it_fails_at_once() -> None:
    with pytest.raises(KafkaError), LogReader(Connection(bootstrap_servers="127.0.0.1:1")):
        pass
