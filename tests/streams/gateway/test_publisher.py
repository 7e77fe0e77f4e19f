"""Publishers on real brokers: order, outages, ends."""

import asyncio
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from schemas.topics import partition_of
from streams.broker import EmbeddedBroker
from streams.gateway.publisher import EventPublisher, SyncEventPublisher
from tests.streams.gateway.lab import PATIENCE, Lab, lab_settings

pytestmark = pytest.mark.broker


def sequences_by_run(events: list[Any]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for envelope, data in events:
        found[data.run_id].append(envelope.sequence)
    return found


async def test_events_arrive_in_order_in_the_partitions_of_their_runs(created: Lab) -> None:
    async with EventPublisher(created.settings) as publisher:
        for number in range(2000):
            publisher.call_started(f"r{number % 17}", "read", {"n": number})
        publisher.compaction("r1", will_retry=True)
        assert await publisher.flush(PATIENCE)
    assert (publisher.published, publisher.pending, publisher.dropped) == (2001, 0, 0)
    found = sequences_by_run(await created.events())
    assert len(found) == 17
    assert sum(len(numbers) for numbers in found.values()) == 2000
    for numbers in found.values():
        assert numbers == sorted(set(numbers))
    for record in await created.records(created.topics.tool_calls):
        assert record.partition == partition_of(record.key.decode(), 2)
    (compaction,) = await created.records(created.topics.compactions)
    assert publisher.ends[created.topics.compactions, compaction.partition] == 1


async def test_a_program_without_a_loop_publishes_from_many_threads(created: Lab) -> None:
    def work() -> SyncEventPublisher:
        with SyncEventPublisher(created.settings) as publisher:

            def report(run: int) -> None:
                for number in range(200):
                    publisher.call_started(f"r{run}", "read", {"n": number})

            threads = [threading.Thread(target=report, args=(run,)) for run in range(5)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert publisher.flush(PATIENCE)
        return publisher

    publisher = await asyncio.to_thread(work)
    assert (publisher.published, publisher.dropped) == (1000, 0)
    found = sequences_by_run(await created.events())
    assert {run: len(numbers) for run, numbers in found.items()} == {f"r{run}": 200 for run in range(5)}
    assert all(numbers == sorted(numbers) for numbers in found.values())


async def test_a_large_event_does_not_hold_up_the_others(lab: Lab, topic_factory: Any) -> None:
    topic_factory(name=lab.topics.tool_calls, partitions=2, config={"max.message.bytes": "100000"})
    topic_factory(name=lab.topics.compactions, partitions=2)
    async with EventPublisher(lab.settings, content="full", linger=0.2) as publisher:
        for number in range(20):
            publisher.call_started("r", "read", {"text": "x" * (200_000 if number == 7 else 10)})
        assert await publisher.flush(PATIENCE)
        publisher.call_started("r", "read", {})
        assert await publisher.flush(PATIENCE)
    events = await lab.events()
    if publisher.dropped:  # the embedded broker takes records of any size
        assert (publisher.dropped, publisher.published) == (1, 20)
        assert [data.lost_events for _, data in events if data.lost_events] == [1]
    else:
        assert len(events) == 21
    numbers = [envelope.sequence for envelope, _ in events]
    assert numbers == sorted(numbers)


async def test_missing_topics_are_waited_for_and_not_created_by_asking(lab: Lab) -> None:
    async with EventPublisher(lab.settings) as publisher:
        publisher.call_started("r", "read", {})
        assert not await publisher.flush(1.0)
        await lab.create()
        assert await publisher.flush(PATIENCE)
    assert len(await lab.events()) == 1


async def test_new_partitions_are_used_as_soon_as_the_client_knows_them(created: Lab, broker_traits: Any) -> None:
    if broker_traits.kind == "embedded":
        pytest.skip("the embedded broker does not add partitions")
    client = AIOKafkaAdminClient(bootstrap_servers=created.settings.bootstrap_servers)
    await client.start()
    await client.create_partitions({topic: NewPartitions(5) for topic in created.topics.inputs})
    await client.close()
    async with EventPublisher(created.settings) as publisher, asyncio.timeout(PATIENCE):
        while {place[1] for place in publisher.ends} != set(range(5)):
            for number in range(50):
                publisher.call_started(f"r{number}", "read", {})
            assert await publisher.flush(PATIENCE)
            await asyncio.sleep(0.2)


async def test_it_starts_without_a_broker_and_sends_when_one_comes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker() as broker:  # finds a free port
        port, servers = broker.port, broker.bootstrap_servers
    traits = type("Traits", (), {"bootstrap_servers": servers, "session_timeout": 2.0, "heartbeat_interval": 0.5})
    traits.idempotent_producer = False  # type: ignore[attr-defined]
    lab = Lab(lab_settings(traits, "away", tmp_path), tmp_path)
    begin = time.monotonic()
    async with EventPublisher(lab.settings) as publisher:
        assert time.monotonic() - begin < 5
        publisher.call_started("r", "read", {})
        assert not await publisher.flush(0.5)
        with EmbeddedBroker(port=port):
            await lab.create()
            publisher.call_finished("r", "read", {}, result="x")
            assert await publisher.flush(PATIENCE)
            assert [type(data).event_name for _, data in await lab.events()] == ["tool-call.started", "tool-call.finished"]
    told = [record.getMessage() for record in caplog.records if record.name == "loopwarden.gateway"]
    assert len([text for text in told if "does not take events" in text]) == 1


async def test_closing_waits_no_longer_than_it_may_and_counts_what_is_lost(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
    traits = type("Traits", (), {"bootstrap_servers": servers, "session_timeout": 2.0, "heartbeat_interval": 0.5})
    traits.idempotent_producer = False  # type: ignore[attr-defined]
    publisher = await EventPublisher(lab_settings(traits, "away", tmp_path)).start()
    for _ in range(5):
        publisher.call_started("r", "read", {})
    begin = time.monotonic()
    await publisher.aclose(timeout=0.5)
    assert time.monotonic() - begin < 10
    assert (publisher.dropped, publisher.pending) == (5, 0)
    publisher.call_started("r", "read", {})
    assert publisher.dropped == 6
    await publisher.aclose()
