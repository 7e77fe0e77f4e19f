"""What is delivered, in which order, and up to where it is committed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from faust.exceptions import ImproperlyConfigured
from faust.types import TP

from streams.transport import Batch, StaleBatch

pytestmark = pytest.mark.broker


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


async def leave_open(batch: Batch) -> None:
    """Process a batch without ever being done with it."""
    batch.processed()


async def test_delivers_every_partition_in_order_as_slices(worker_factory: Any, topic_factory: Any, fill: Any) -> None:
    topic = topic_factory(partitions=3)
    for partition in range(3):
        await fill(topic, partition, numbers(1000))
    worker = await worker_factory([topic], max_records=300)
    await worker.until_received(3000)
    for partition in range(3):
        assert worker.received[topic, partition] == list(enumerate(numbers(1000)))
    assert max(batch.last_offset - batch.first_offset + 1 for batch in worker.batches) <= 300
    assert len(worker.batches) < 300, "slices, not single records"


async def test_a_batch_names_its_topic_partition_and_offsets(worker_factory: Any, topic_factory: Any, producer: Any) -> None:
    topic = topic_factory(partitions=2)
    await producer.send_and_wait(topic, b"value", key=b"key", partition=1, headers=[("h", b"1")], timestamp_ms=1234567)
    records: list[Any] = []

    async def keep(batch: Batch) -> None:
        records.extend(batch.records)
        batch.done()

    worker = await worker_factory([topic], process=keep)
    await worker.until_received(1)
    assert str(worker.batches[0]) == f"{topic}[1]@0..0"
    assert (records[0].key, records[0].value, records[0].offset, records[0].timestamp) == (b"key", b"value", 0, 1234567)
    assert list(records[0].headers) == [("h", b"1")]


async def test_commits_only_the_done_prefix(worker_factory: Any, topic_factory: Any, fill: Any, committed: Any) -> None:
    """A later batch that is done first waits for the earlier ones."""
    topic = topic_factory(partitions=1)
    await fill(topic, 0, numbers(40))
    worker = await worker_factory([topic], max_records=10, process=leave_open)
    await worker.until_received(40)
    first, second, third, fourth = worker.batches
    group, consumer = worker.app.conf.id, worker.app.consumer
    third.done()
    second.done()
    assert not await consumer.commit()
    assert await committed(group, topic, partitions=1) == {0: None}
    first.done()
    assert await consumer.commit()
    assert await committed(group, topic, partitions=1) == {0: 30}
    fourth.done()
    assert await consumer.commit()
    assert await committed(group, topic, partitions=1) == {0: 40}


async def test_faust_timers_commit_done_batches_only(worker_factory: Any, topic_factory: Any, fill: Any, committed: Any) -> None:
    topic = topic_factory(partitions=1)
    await fill(topic, 0, numbers(20))
    worker = await worker_factory([topic], max_records=10, process=leave_open, broker_commit_interval=0.05)
    await worker.until_received(20)
    worker.batches[0].done()
    await worker.until(lambda: worker.app.consumer._committed_offset[TP(topic, 0)] == 10)
    await asyncio.sleep(0.2)  # a few more timers: nothing may happen
    assert await committed(worker.app.conf.id, topic, partitions=1) == {0: 10}


async def test_limits_the_batches_that_are_not_processed(worker_factory: Any, topic_factory: Any, fill: Any) -> None:
    topic = topic_factory(partitions=2)
    for partition in range(2):
        await fill(topic, partition, numbers(100))
    gate = asyncio.Event()

    async def hold(batch: Batch) -> None:
        await gate.wait()
        batch.processed()
        assert batch.records == ()

    worker = await worker_factory([topic], max_records=5, process=hold)
    await worker.until(lambda: worker.app.consumer._progress.unprocessed == 8)
    await asyncio.sleep(0.2)  # it must not grow
    assert worker.app.consumer._progress.unprocessed == 8
    gate.set()
    await worker.until_received(200)


async def test_an_agent_that_raises_loses_nothing(worker_factory: Any, topic_factory: Any, fill: Any, committed: Any) -> None:
    """Faust acks what raised; the next worker starts there all the same."""
    topic = topic_factory(partitions=1)
    await fill(topic, 0, numbers(30))
    seen = 0

    async def raise_at_the_second(batch: Batch) -> None:
        nonlocal seen
        seen += 1
        if seen == 2:
            raise ValueError("a bug")
        batch.done()

    worker = await worker_factory([topic], max_records=10, process=raise_at_the_second)
    await worker.until(lambda: worker.app.should_stop)
    await worker.stop()
    group = worker.app.conf.id
    assert await committed(group, topic, partitions=1) == {0: 10}
    successor = await worker_factory([topic], group=group)
    await successor.until_received(20)
    assert successor.received[topic, 0] == list(enumerate(numbers(30)))[10:]


async def test_a_graceful_stop_flushes_and_commits(worker_factory: Any, topic_factory: Any, fill: Any, committed: Any) -> None:
    topic = topic_factory(partitions=1)
    await fill(topic, 0, numbers(10))
    asked: list[frozenset[TP]] = []

    def setup(worker: Any) -> None:
        @worker.topic.before_release
        async def flush(partitions: frozenset[TP]) -> None:
            asked.append(partitions)
            for batch in worker.batches:
                batch.ensure_owned()
                batch.done()

    worker = await worker_factory([topic], process=leave_open, setup=setup)
    await worker.until_received(10)
    await worker.stop()
    assert asked == [frozenset({TP(topic, 0)})]
    assert await committed(worker.app.conf.id, topic, partitions=1) == {0: 10}


async def test_a_stop_waits_for_the_batch_at_work(worker_factory: Any, topic_factory: Any, fill: Any, committed: Any) -> None:
    topic = topic_factory(partitions=1)
    await fill(topic, 0, numbers(10))
    started, finish = asyncio.Event(), asyncio.Event()

    async def slow(batch: Batch) -> None:
        started.set()
        await finish.wait()
        batch.done()

    worker = await worker_factory([topic], process=slow)
    await started.wait()
    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0.2)
    assert not stopping.done()
    finish.set()
    await stopping
    assert await committed(worker.app.conf.id, topic, partitions=1) == {0: 10}


async def test_a_revocation_flushes_before_the_partition_moves(
    worker_factory: Any, topic_factory: Any, fill: Any, committed: Any
) -> None:
    """With two workers each record is processed once, although nothing is committed until the release."""
    topic = topic_factory(partitions=4)
    for partition in range(4):
        await fill(topic, partition, numbers(50))

    def flush_on_release(worker: Any) -> None:
        @worker.topic.before_release
        async def flush(partitions: frozenset[TP]) -> None:
            for batch in worker.batches:
                if batch.owned:
                    batch.done()

    one = await worker_factory([topic], process=leave_open, setup=flush_on_release)
    await one.until_received(200)
    two = await worker_factory([topic], group=one.app.conf.id, process=leave_open, setup=flush_on_release)
    await one.until(lambda: len(one.taken_over) >= 2)
    for partition in range(4):
        await fill(topic, partition, numbers(50, start=50))
    await one.until(lambda: len(one.values) + len(two.values) >= 400)
    for partition in range(4):
        both = one.received.get((topic, partition), []) + two.received.get((topic, partition), [])
        assert both == list(enumerate(numbers(100)))
    assert one.assigned(topic) | two.assigned(topic) == {0, 1, 2, 3}
    assert len(one.assigned(topic)) == len(two.assigned(topic)) == 2


async def test_batches_of_an_earlier_generation_are_stale(worker_factory: Any, topic_factory: Any, fill: Any) -> None:
    topic = topic_factory(partitions=2)
    for partition in range(2):
        await fill(topic, partition, numbers(5))
    one = await worker_factory([topic], process=leave_open)
    await one.until_received(10)
    old = list(one.batches)
    await worker_factory([topic], group=one.app.conf.id, process=leave_open)
    await one.until(lambda: len(one.taken_over) >= 2)
    for batch in old:
        assert not batch.owned
        with pytest.raises(StaleBatch, match=rf"{batch.topic}\[{batch.partition}\]@0..4: "):
            batch.ensure_owned()
        batch.done()
    assert not await one.app.consumer.commit(), "being done with a stale batch must not move offsets"


async def test_a_lease_that_ends_makes_delivery_start_over(
    worker_factory: Any, topic_factory: Any, fill: Any, committed: Any
) -> None:
    """Without a rebalance too: the batch is refused, the agent told to forget, the records delivered again."""
    topic = topic_factory(partitions=2)
    for partition in range(2):
        await fill(topic, partition, numbers(5))
    refused: list[str] = []
    worker: Any = None

    async def write_under_lease(batch: Batch) -> None:
        if len(worker_box[0].batches) == 2:
            worker_box[0].app.consumer.lease.end()
        try:
            batch.ensure_owned()
        except StaleBatch as reason:
            refused.append(str(reason))
        else:
            batch.done()

    worker_box: list[Any] = []
    worker = await worker_factory([topic], process=write_under_lease, setup=worker_box.append)
    await worker.until_received(15)
    assert len(refused) == 1
    assert "no heartbeat was answered in time" in refused[0]
    assert len(worker.taken_over) == 2
    assert await worker.app.consumer.commit()
    assert await committed(worker.app.conf.id, topic, partitions=2) == {0: 5, 1: 5}


async def test_the_lease_is_held_while_heartbeats_are_answered(worker_factory: Any, topic_factory: Any, fill: Any) -> None:
    topic = topic_factory(partitions=1)
    await fill(topic, 0, numbers(1))
    worker = await worker_factory([topic], process=leave_open)
    await worker.until_received(1)
    await asyncio.sleep(1.1 * worker.app.conf.broker_session_timeout)
    worker.batches[0].ensure_owned()


async def test_a_failed_commit_is_tried_again(worker_factory: Any, topic_factory: Any, fill: Any, committed: Any) -> None:
    topic = topic_factory(partitions=1)
    await fill(topic, 0, numbers(5))
    worker = await worker_factory([topic])
    await worker.until_received(5)
    thread = worker.app.consumer._thread
    real: Callable[[Any], Awaitable[bool]] = thread.commit

    async def refuse(offsets: Any) -> bool:
        return False

    thread.commit = refuse
    assert not await worker.app.consumer.commit()
    thread.commit = real
    assert await worker.app.consumer.commit()
    assert await committed(worker.app.conf.id, topic, partitions=1) == {0: 5}


async def test_a_topic_may_not_be_read_both_ways(worker_factory: Any, topic_factory: Any) -> None:
    topic = topic_factory(partitions=1)

    def read_it_plainly_too(worker: Any) -> None:
        @worker.app.agent(worker.app.topic(topic))
        async def other(stream: Any) -> None:
            async for _ in stream:
                pass

    with pytest.raises(ImproperlyConfigured, match=rf"both in batches and one by one: \['{topic}'\]"):
        await worker_factory([topic], setup=read_it_plainly_too)
