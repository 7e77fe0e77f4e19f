"""Writing batches to one partition."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import faust
import pytest

from streams.transport import ProducerRecord, RecordTooLargeError, SendError, Written, batch_app_settings, send_batches

pytestmark = pytest.mark.broker


@pytest.fixture
async def app(broker_traits: Any, tmp_path: Path) -> AsyncIterator[faust.App]:
    """An app of which only the producer runs."""
    settings = batch_app_settings(
        bootstrap_servers=broker_traits.bootstrap_servers, idempotence=broker_traits.idempotent_producer, data_dir=tmp_path
    )
    made = faust.App("writer", **settings)
    await made.producer.start()
    yield made
    await made.producer.stop()


async def test_writes_keys_values_headers_and_timestamps(app: faust.App, topic_factory: Any, read_all: Any) -> None:
    topic = topic_factory(partitions=2)
    records = [
        ProducerRecord(b"a", b"1", [("h", b"x"), ("h", b"y")], 1234567),
        ProducerRecord(None, b"2"),
        ProducerRecord(b"c", None),
    ]
    before = int(time.time() * 1000)
    assert await send_batches(app, topic, 1, records) == Written(first=0, last=2, count=3)
    found = await read_all(topic, 1, 3)
    assert [(each.key, each.value, list(each.headers)) for each in found] == [
        (b"a", b"1", [("h", b"x"), ("h", b"y")]),
        (None, b"2", []),
        (b"c", None, []),
    ]
    assert found[0].timestamp == 1234567
    assert before <= found[1].timestamp <= before + 60_000


async def test_many_records_go_in_order_over_several_batches(app: faust.App, topic_factory: Any, read_all: Any) -> None:
    topic = topic_factory(partitions=1)
    values = [b"%06d" % number + b"." * 300 for number in range(5000)]
    written = await send_batches(app, topic, 0, (ProducerRecord(b"k", value) for value in values))
    assert written == Written(first=0, last=4999, count=5000)
    assert [each.value for each in await read_all(topic, 0, 5000)] == values


async def test_nothing_to_write_is_nothing_written(app: faust.App, topic_factory: Any) -> None:
    assert await send_batches(app, topic_factory(partitions=1), 0, []) is None


async def test_a_record_beyond_the_limit_is_refused_before_anything_is_sent(
    app: faust.App, topic_factory: Any, read_all: Any
) -> None:
    topic = topic_factory(partitions=1)
    limit = app.conf.producer_max_request_size
    with pytest.raises(RecordTooLargeError, match=rf"{topic}\[0\]: a record of \d+ bytes exceeds .*, {limit} bytes"):
        await send_batches(app, topic, 0, [ProducerRecord(b"k", b"small"), ProducerRecord(b"k", b"x" * limit)])
    assert await send_batches(app, topic, 0, [ProducerRecord(b"k", b"next")]) == Written(first=0, last=0, count=1)


async def test_a_record_larger_than_a_batch_but_within_the_limit_is_written(
    app: faust.App, topic_factory: Any, read_all: Any
) -> None:
    topic = topic_factory(partitions=1)
    value = b"x" * (app.conf.producer_max_batch_size + 1000)
    assert value.__sizeof__() < app.conf.producer_max_request_size
    await send_batches(app, topic, 0, [ProducerRecord(b"k", b"1"), ProducerRecord(b"k", value), ProducerRecord(b"k", b"3")])
    assert [len(each.value) for each in await read_all(topic, 0, 3)] == [1, len(value), 1]


async def test_a_partition_that_does_not_exist_is_an_error_that_names_it(app: faust.App, topic_factory: Any) -> None:
    topic = topic_factory(partitions=1)
    with pytest.raises(SendError, match=rf"{topic}\[7\]: the topic has no such partition"):
        await send_batches(app, topic, 7, [ProducerRecord(b"k", b"v")])
