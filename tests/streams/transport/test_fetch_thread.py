"""What the client tells the broker, and what it makes of the answers."""

import asyncio
import logging
from typing import Any

import pytest
from faust.types import TP

pytestmark = pytest.mark.broker


async def test_the_end_of_a_partition_is_behind_its_last_record(worker_factory: Any, topic_factory: Any) -> None:
    """Also where the broker's ListOffsets names the start of the last batch (Tansu); recovery relies on it."""
    topic = topic_factory(partitions=3)
    worker = await worker_factory([topic], partitions=3)
    changelog = worker.table.changelog_topic_name
    await worker.table.put_many(0, {b"%d" % number: b"1" for number in range(100)})
    await worker.table.put_many(0, {b"%d" % number: b"2" for number in range(50)})
    await worker.table.put_many(1, {b"a": b"1"})
    ends = await worker.app.consumer.highwaters(*(TP(changelog, partition) for partition in range(3)))
    assert {tp.partition: end for tp, end in ends.items()} == {0: 150, 1: 1, 2: 0}


async def test_a_worker_without_partitions_stays_in_the_group(worker_factory: Any, topic_factory: Any) -> None:
    """It has nothing to fetch, which the client would take for a dead worker."""
    topic = topic_factory(partitions=1)
    one = await worker_factory([topic])
    two = await worker_factory([topic], group=one.app.conf.id)
    await one.until(lambda: len(one.taken_over) >= 2)
    (spare,) = [worker for worker in (one, two) if not worker.assigned(topic)]
    await asyncio.sleep(0.5)
    assert spare.app.consumer._thread._consumer._subscription.fetcher_idle_time < 0.4


async def test_says_goodbye_in_the_first_generation_too(
    worker_factory: Any, topic_factory: Any, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await worker_factory([topic_factory(partitions=1)])
    with caplog.at_level(logging.INFO, logger="aiokafka"):
        await worker.stop()
    assert "LeaveGroup request succeeded" in caplog.text
