"""The command line in this process, against the shared broker, under topic names of its own."""

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import ConsumerRecord
from typer.testing import CliRunner, Result

from schemas.topics import Topics
from streams.cli.main import app

Run = Callable[..., Result]


@pytest.fixture
def topics(unique_name: Callable[[str], str]) -> Topics:
    """Names that no other test has; the topics are not there yet."""
    return Topics(prefix=f"{unique_name('cli')}.")


@pytest.fixture
def loopwarden(broker: str, topics: Topics) -> Run:
    """Run a subcommand: `loopwarden("topics", "check")`."""

    def run(*arguments: str) -> Result:
        environment = {
            "LOOPWARDEN_BOOTSTRAP_SERVERS": broker,
            "LOOPWARDEN_TOPIC_PREFIX": topics.prefix,
            "LOOPWARDEN_GROUP": topics.prefix.rstrip("."),
        }
        result = CliRunner().invoke(app, list(arguments), env=environment)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run


@pytest.fixture
def read_all(broker: str) -> Callable[[str, int, int], list[ConsumerRecord]]:
    """Read a known number of records: `read_all(topic, partitions, count)`, in order within each partition."""

    async def read(topic: str, partitions: int, count: int) -> list[ConsumerRecord]:
        consumer = AIOKafkaConsumer(bootstrap_servers=broker, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
            return [await asyncio.wait_for(consumer.getone(), 10) for _ in range(count)]
        finally:
            await consumer.stop()

    return lambda topic, partitions, count: asyncio.run(read(topic, partitions, count))


@pytest.fixture
def send(broker: str) -> Callable[[str, list[tuple[int, bytes, bytes]]], None]:
    """Send records: `send(topic, [(partition, key, value), ...])`."""

    async def deliver(topic: str, records: list[tuple[int, bytes, bytes]]) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker)
        await producer.start()
        try:
            for partition, key, value in records:
                await producer.send_and_wait(topic, value, key=key, partition=partition)
        finally:
            await producer.stop()

    return lambda topic, records: asyncio.run(deliver(topic, records))
